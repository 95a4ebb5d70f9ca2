"""What was said in a rollout of Codex, and how Codex itself writes a checkpoint into one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Said, Say, Summary, Written
from sessioncompress.core.model import Purpose
from sessioncompress.core.splice import within
from sessioncompress.core.text import json_safe
from sessioncompress.formats import codex_items as items
from sessioncompress.formats import values
from sessioncompress.formats.base import CannotCheckpoint

_PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking process. You also "
    "have access to the state of the tools that were used by that language model. Use this to build on the work that "
    "has already been done and avoid duplicating work. Here is the summary produced by the other language model, use "
    "the information in this summary to assist with your own analysis:\n"
)
"""What Codex itself puts before a summary."""

_NOT_WORDS = (
    *("# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "<skill>"),
    *("<permissions instructions>", "<skills_instructions>", "<plugins_instructions>", "<apps_instructions>"),
    *("<recommended_plugins>", "<turn_aborted>", "<collaboration_mode>", "<subagent_notification>", "<hook_prompt"),
    *("<codex_internal_context", "<user_shell_command>", "<model_switch>", "<personality_spec>"),
)
"""So begin the texts that Codex itself says in the user's name."""

_STATUS = re.compile(
    r"(?:(?:Chunk ID|Wall time)\b[^\n]{0,80}\n){0,4}(?:Process exited with code|Exit code:) (-?\d{1,9})\n"
)
_FAILED = ("apply_patch verification failed", "Script failed", "exec_command failed", "write_stdin failed")
"""So begin the outputs of calls that Codex could not carry out."""


def said(entry: Mapping[str, Any]) -> Iterator[Said]:
    """Read what was said in a line; see Reader.said."""
    payload = values.fields(entry.get("payload"))
    kind = values.text(payload.get("type"))
    match entry.get("type"):
        case "compacted":
            yield from _summary(payload)
        case "response_item" if kind == "message":
            yield from _message(payload)
        case "response_item" if kind in items.CALLS:
            yield _call(payload, kind)
        case "response_item" if kind in items.RESULTS:
            yield _result(payload)


def _message(item: Mapping[str, Any]) -> Iterator[Said]:
    texts = [text for text in items.texts_of(item) if text.strip()]
    if item.get("role") == "assistant":
        yield from (Said(Say.ANSWER, text) for text in texts)
    elif item.get("role") == "user":
        words = [text for text in texts if not text.lstrip().startswith(_NOT_WORDS)]
        if words:
            yield Said(Say.PROMPT, "\n".join(words))


def _call(item: Mapping[str, Any], kind: str) -> Said:
    tool, call = items.called(item)
    written = items.arguments_of(item, items.CALLS[kind])
    given = values.given(written) if kind == "function_call" and isinstance(written, str) else written
    if not isinstance(given, dict):
        given = {} if given is None else {items.CALLS[kind][-1] if isinstance(given, list) else "input": given}
    return Said(Say.CALL, tool=tool, call=call, purpose=items.PURPOSES.get(tool, Purpose.OTHER), given=given)


def _result(item: Mapping[str, Any]) -> Said:
    output, status = item.get("output"), None
    if not isinstance(output, str):
        text = "\n".join(values.part_text(part) for part in values.items(output) if values.part_text(part))
    elif (inner := items.wrapped(output)) is not None:
        text = inner
        status = values.fields(values.fields(within(output)).get("metadata")).get("exit_code")
    else:
        text = output
    failed = None
    if isinstance(status, int):
        failed = status != 0
    elif (reported := _STATUS.match(text)) is not None:
        failed = int(reported[1]) != 0
    elif text.startswith(_FAILED):
        failed = True
    return Said(Say.RESULT, text, call=values.text(item.get("call_id")), failed=failed)


def _summary(payload: Mapping[str, Any]) -> Iterator[Said]:
    """Read a summary, and the prompts that a compaction of Codex keeps beside it; of a sealed one these alone."""
    written = values.text(payload.get("message")).removeprefix(_PREFIX)
    if written.strip():
        yield Said(Say.SUMMARY, written)
    for item in map(values.fields, values.items(payload.get("replacement_history"))):
        if item.get("type") == "message" and not any(text.startswith(_PREFIX) for text in items.texts_of(item)):
            yield from (each._replace(say=Say.CARRIED) for each in _message(item) if each.say is Say.PROMPT)


def framed(text: str) -> str:
    """Put Codex's own words before a summary."""
    return _PREFIX + text


def checkpoint(session: Written, cut: Cut, summary: Summary) -> Checkpoint:
    """Write a compaction before the kept lines, and at the end what Codex takes the context's size from.

    See Format.checkpoint. Without that size Codex would compact the session again at once.
    """
    following = session.entry(cut.kept[0])
    last = session.entry(cut.kept[-1])
    if "ordinal" in following or "ordinal" in last:
        what = "Codex numbered the lines of this rollout, so none can be inserted"
        raise CannotCheckpoint(what, "Resume it with Codex, and compact it there with /compact.")
    text = framed(summary.text)
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
    compacted = _line(following, "compacted", {"message": text, "replacement_history": history})
    events: list[Mapping[str, Any]] = [{"type": "context_compacted"}]
    counted = session.newest(b'"token_count"', _counts)
    if counted is not None:
        events.insert(0, _recounted(values.fields(counted.get("payload")), summary.tokens_after))
    end = len(session.lines)
    behind = [Addition(end, _line(last, "event_msg", event)) for event in events]
    return Checkpoint((Addition(cut.kept[0], compacted), *behind))


def _counts(entry: Mapping[str, Any]) -> bool:
    payload = values.fields(entry.get("payload"))
    return payload.get("type") == "token_count" and bool(values.fields(payload.get("info")).get("last_token_usage"))


def _recounted(event: Mapping[str, Any], tokens: int) -> Mapping[str, Any]:
    """Write a count of tokens as Codex does behind a compaction: as an estimate, in the total alone."""
    info = values.fields(event.get("info"))
    last = dict.fromkeys(values.fields(info.get("last_token_usage")), 0) | {"total_tokens": tokens}
    return {**event, "info": {**info, "last_token_usage": last}}


def _line(beside: Mapping[str, Any], kind: str, payload: Mapping[str, Any]) -> bytes:
    """Write a line that is as old as the one beside it."""
    entry = {"timestamp": values.text(beside.get("timestamp")), "type": kind, "payload": payload}
    return orjson.dumps(json_safe(entry)) + b"\n"
