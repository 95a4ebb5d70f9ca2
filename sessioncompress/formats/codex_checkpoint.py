"""What was said in a rollout of Codex, and how Codex itself writes a checkpoint into one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sessioncompress.core.checkpoint import Said, Say
from sessioncompress.core.model import Purpose
from sessioncompress.core.splice import within
from sessioncompress.formats import codex_items as items
from sessioncompress.formats import values

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
    """Read a summary, and the prompts that a compaction of Codex keeps beside it; of a sealed one nothing."""
    written = values.text(payload.get("message")).removeprefix(_PREFIX)
    if written.strip():
        yield Said(Say.SUMMARY, written)
        for item in values.items(payload.get("replacement_history")):
            kept = values.fields(item)
            if not any(text.startswith(_PREFIX) for text in items.texts_of(kept)):
                yield from (each for each in _message(kept) if each.say is Say.PROMPT)


def framed(text: str) -> str:
    """Put Codex's own words before a summary."""
    return _PREFIX + text
