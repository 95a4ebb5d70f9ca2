"""What OpenAI's Responses API says of each single item of a request: its fields, the form of its id, what it must hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_TEXTS = {"assistant": frozenset({"output_text", "refusal"})}
_PARTS = frozenset({"input_text", "input_image", "input_file", "encrypted_content"})


@dataclass(frozen=True, slots=True)
class _Form:
    """An item's fields beside `type`, `id` and `status`, those of them that it needs, and how its id begins."""

    begins: str
    needs: frozenset[str]
    may: frozenset[str] = frozenset()
    named: bool = False
    """Whether it needs an id."""


_FORMS: Mapping[str, _Form] = {
    "message": _Form("msg_", frozenset({"role", "content"}), frozenset({"phase"})),
    "reasoning": _Form("rs_", frozenset({"summary"}), frozenset({"content", "encrypted_content"}), named=True),
    "function_call": _Form("fc_", frozenset({"call_id", "name", "arguments"}), frozenset({"namespace"})),
    "function_call_output": _Form("fc", frozenset({"call_id", "output"})),
    "custom_tool_call": _Form("ctc_", frozenset({"call_id", "name", "input"}), frozenset({"namespace"})),
    "custom_tool_call_output": _Form("ctc", frozenset({"call_id", "output"})),
    "local_shell_call": _Form("lsh_", frozenset({"call_id", "action"})),
    "web_search_call": _Form("ws_", frozenset(), frozenset({"action"}), named=True),
}
"""Items of other types are not judged: an original and its rewriting hold the same."""


def problems(body: Mapping[str, Any]) -> Iterator[str]:
    for item in body["input"] if isinstance(body["input"], list) else ():
        kind = item.get("type", "message")
        if kind in _FORMS:
            yield from (f"{kind} {item.get('id', '')}: {said}" for said in _of_form(item, _FORMS[kind]))
        if kind == "message":
            yield from (f"{kind} {item.get('id', '')}: {said}" for said in _content(item))
        if kind == "reasoning" and body.get("store") is False and not item.get("encrypted_content"):
            yield f"reasoning {item.get('id')} has no sealed content, and nothing is stored"


def _of_form(item: Mapping[str, Any], form: _Form) -> Iterator[str]:
    unknown = set(item) - form.needs - form.may - {"type", "id", "status"}
    if unknown:
        yield f"unknown fields {sorted(unknown)}"
    if missing := form.needs - set(item):
        yield f"lacks {sorted(missing)}"
    if form.named and "id" not in item:
        yield "has no id"
    if "id" in item and not str(item["id"]).startswith(form.begins):
        yield f"the id does not begin with {form.begins}"
    output = item.get("output", "")
    if isinstance(output, list):
        yield from (f"has a part {part.get('type')}" for part in output if part.get("type") not in _PARTS)
    elif not isinstance(output, str):
        yield "the output is neither a text nor a list"


def _content(item: Mapping[str, Any]) -> Iterator[str]:
    content = item.get("content")
    allowed = _TEXTS.get(str(item.get("role")), _PARTS)
    if not isinstance(content, (str, list)) or not content:
        yield "has no content"
    for part in content if isinstance(content, list) else ():
        if part.get("type") not in allowed:
            yield f"has a part {part.get('type')}"
