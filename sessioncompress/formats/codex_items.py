"""The items of Codex's rollouts: what they hold, what was said in them, and the checkpoint that Codex itself writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Said, Say, Summary, Written
from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.core.model import SKILL_FILE, JsonPath, Purpose, tokens
from sessioncompress.core.splice import within
from sessioncompress.core.text import json_safe
from sessioncompress.formats import base, values
from sessioncompress.formats.base import CannotCheckpoint

CALLS: Mapping[str, JsonPath] = {
    "function_call": ("arguments",),
    "custom_tool_call": ("input",),
    "local_shell_call": ("action", "command"),
}
"""The items that are calls, and where in them the arguments stand."""

RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
TEXT_PARTS = frozenset({"input_text", "output_text"})

PASSED_OVER = "other"
"""What becomes of an item's type when it loses its seal: items of a type that it does not know Codex leaves out."""

_NOT_WORDS = (
    *("# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "<skill>"),
    *("<permissions instructions>", "<skills_instructions>", "<plugins_instructions>", "<apps_instructions>"),
    *("<recommended_plugins>", "<turn_aborted>", "<collaboration_mode>", "<subagent_notification>", "<hook_prompt"),
    *("<codex_internal_context", "<user_shell_command>", "<model_switch>", "<personality_spec>", "<user_action>"),
)
"""The beginnings of texts that Codex itself says in the user's name."""

_COMMANDS = "exec_command exec shell shell_command container.exec local_shell write_stdin unified_exec"
PURPOSES = {**dict.fromkeys(_COMMANDS.split(), Purpose.COMMAND), "wait_agent": Purpose.AGENT}

PREAMBLE = re.compile(
    r"(?:(?:(?:Chunk ID|Wall time|Process|Exit code|Original token count|Total output lines)\b[^\n]{0,80}\n){1,8}"
    r"Output:\n)?"
    r"(?:Warning: truncated output[^\n]{0,80}\n)?(?:Total output lines: \d+\n)?\n?"
)
"""What stands above the output of a command, or of a program; it may be nothing."""

ENDED = re.compile(
    r"^(?:Process exited with code|Exit code:|Process running with session ID) -?\d{1,9}$"
    r"|\"exit_code\":\s{0,4}-?\d{1,9}",
    re.MULTILINE,
)
"""What says there, or in JSON, how the command ended."""

_PART = re.compile(r"[^|;&\n]+")
_PRINTS = re.compile(r"\b(?:cat|sed|head|tail|nl|bat|less|awk)\b")
_WORD = re.compile(r"[^\s'\"`\\]+")
_NAMES_SKILL = re.compile(rf"\b{re.escape(SKILL_FILE)}\b")

_PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking process. You also "
    "have access to the state of the tools that were used by that language model. Use this to build on the work that "
    "has already been done and avoid duplicating work. Here is the summary produced by the other language model, use "
    "the information in this summary to assist with your own analysis:\n"
)
"""What Codex itself puts before a summary."""

_BY_CODEX = "Resume it with Codex, and compact it there with /compact."

_STATUS = re.compile(
    r"(?:(?:Chunk ID|Wall time)\b[^\n]{0,80}\n){0,4}(?:Process exited with code|Exit code:) (-?\d{1,9})\n"
)
_FAILED = ("apply_patch verification failed", "Script failed", "exec_command failed", "write_stdin failed")
"""So begin the outputs of calls that Codex could not carry out."""


def called(item: Mapping[str, Any]) -> tuple[str, str]:
    """Read the tool of a call, and the name of the call."""
    tool = values.text(item.get("name")) or values.text(item.get("type")).removesuffix("_call")
    return tool, values.text(item.get("call_id")) or values.text(item.get("id"))


def arguments_of(item: Mapping[str, Any], path: JsonPath) -> Any:
    """Find what stands at a call's path to its arguments: a text, or the words of a command; None for all else."""
    value: Any = item
    for step in path:
        value = values.fields(value).get(str(step))
    return value if isinstance(value, list if path == CALLS["local_shell_call"] else str) else None


def skill_read(command: str) -> str:
    """Find the path of the skill that a command prints; an empty text where it prints none."""
    for part in _PART.findall(command):
        prints = _PRINTS.search(part)
        for word in _WORD.findall(part, prints.end()) if prints else ():
            if named := list(_NAMES_SKILL.finditer(word)):
                return str(word[: named[-1].end()])
    return ""


def texts_of(item: Mapping[str, Any]) -> list[str]:
    """List the texts of a message."""
    return [values.part_text(part) for part in values.items(item.get("content"))]


def words_of(item: Mapping[str, Any]) -> list[str]:
    """List the texts of a user's message that the user wrote."""
    return [text for text in texts_of(item) if text.strip() and not text.lstrip().startswith(_NOT_WORDS)]


def wrapped(output: str) -> str | None:
    """Read the text of an output that older versions wrote, as a string, in an object with its metadata."""
    found = values.fields(within(output)) if output.lstrip()[:1] == "{" and '"metadata"' in output else {}
    text = found.get("output")
    return text if isinstance(text, str) and isinstance(found.get("metadata"), dict) else None


def said(entry: Mapping[str, Any]) -> Iterator[Said]:
    """Read what was said in a line; see Reader.said."""
    payload = values.fields(entry.get("payload"))
    kind = values.text(payload.get("type"))
    match entry.get("type"):
        case "compacted":
            yield from _summary(payload)
        case "response_item" if kind == "message":
            yield from _message(payload)
        case "response_item" if kind in CALLS:
            yield _call(payload, kind)
        case "response_item" if kind in RESULTS:
            yield _result(payload)


def _message(item: Mapping[str, Any]) -> Iterator[Said]:
    if item.get("role") == "assistant":
        yield from (Said(Say.ANSWER, text) for text in texts_of(item) if text.strip())
    elif item.get("role") == "user" and (words := words_of(item)):
        yield Said(Say.PROMPT, "\n".join(words))


def _call(item: Mapping[str, Any], kind: str) -> Said:
    tool, call = called(item)
    written = arguments_of(item, CALLS[kind])
    given = values.given(written) if kind == "function_call" and isinstance(written, str) else written
    if not isinstance(given, dict):
        given = {} if given is None else {CALLS[kind][-1] if isinstance(given, list) else "input": given}
    return Said(Say.CALL, tool=tool, call=call, purpose=PURPOSES.get(tool, Purpose.OTHER), given=given)


def _result(item: Mapping[str, Any]) -> Said:
    output, status = item.get("output"), None
    if not isinstance(output, str):
        text = "\n".join(values.part_text(part) for part in values.items(output) if values.part_text(part))
    elif (inner := wrapped(output)) is not None:
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
    """Read a summary, and the prompts that a compaction of Codex keeps before it; of a sealed one these alone.

    Behind one of ours stands all that was kept.
    """
    written = values.text(payload.get("message")).removeprefix(_PREFIX)
    if written.strip():
        yield Said(Say.SUMMARY, written)
    is_behind = False
    for item in map(values.fields, values.items(payload.get("replacement_history"))):
        is_message = item.get("type") == "message"
        if is_behind:
            yield from said({"type": "response_item", "payload": item})
        elif is_message and any(text.startswith(_PREFIX) for text in texts_of(item)):
            is_behind = True
        elif is_message:
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
    text = framed(summary.text)
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
    compaction = {"message": text, "replacement_history": history}
    counted = session.newest(b'"token_count"', _counts)
    events: list[Mapping[str, Any]] = []
    if counted is not None:
        events.append(_recounted(values.fields(counted.get("payload")), summary.tokens_after))
    if "ordinal" in following or "ordinal" in last:
        return _numbered(session, cut, compaction, events)
    events.append({"type": "context_compacted"})
    behind = [Addition(len(session.lines), _line(last, "event_msg", event)) for event in events]
    return Checkpoint((Addition(cut.kept[0], _line(following, "compacted", compaction)), *behind))


def _numbered(session: Written, cut: Cut, compaction: dict[str, Any], events: list[Mapping[str, Any]]) -> Checkpoint:
    """Write a compaction at the end, which repeats what is kept: between lines with numbers none can be put."""
    meta = values.fields(session.entry(0).get("payload"))
    if meta.get("history_base"):
        what = "Codex began it as a branch of another rollout, and what was said before that stands only there"
        raise CannotCheckpoint(what, _BY_CODEX)
    kept = [session.entry(number) for number in cut.kept]
    payloads = [values.fields(each.get("payload")) for each in kept if each.get("type") == "response_item"]
    # In a history Codex leaves out no item: it sends those of types that it does not know.
    compaction["replacement_history"] += [item for item in payloads if item.get("type", PASSED_OVER) != PASSED_OVER]
    last = session.newest(b'"ordinal"', lambda entry: bool(tokens(entry.get("ordinal")))) or {}
    turn = session.newest(b'"turn_context"', lambda entry: entry.get("type") == "turn_context") or {}
    number, at = tokens(last.get("ordinal")) or 0, base.moment(last.get("timestamp"))
    names = {"thread_id": meta.get("id"), "turn_id": values.fields(turn.get("payload")).get("turn_id")}
    item = {"type": "ContextCompaction", "id": base.uuid_of("compaction", compaction["message"])}
    events.append({"type": "item_completed", **names, "item": item, "started_at_ms": at, "completed_at_ms": at})
    lines = [_line(last, "compacted", compaction, ordinal=number + 1)]
    lines += [_line(last, "event_msg", event, ordinal=place) for place, event in enumerate(events, number + 2)]
    if not number or not all(kept) or len(lines[0]) > LINE_CAP:
        raise CannotCheckpoint("what would be kept cannot be repeated behind its last line", _BY_CODEX)
    return Checkpoint(tuple(Addition(len(session.lines), line) for line in lines), repeated=frozenset(cut.kept))


def _counts(entry: Mapping[str, Any]) -> bool:
    payload = values.fields(entry.get("payload"))
    return payload.get("type") == "token_count" and bool(values.fields(payload.get("info")).get("last_token_usage"))


def _recounted(event: Mapping[str, Any], estimate: int) -> Mapping[str, Any]:
    """Write a count of tokens as Codex does behind a compaction: as an estimate, in the total alone."""
    info = values.fields(event.get("info"))
    last = dict.fromkeys(values.fields(info.get("last_token_usage")), 0) | {"total_tokens": estimate}
    return {**event, "info": {**info, "last_token_usage": last}}


def _line(beside: Mapping[str, Any], kind: str, payload: Mapping[str, Any], **number: int) -> bytes:
    """Write a line that is as old as the one beside it."""
    entry = {"timestamp": values.text(beside.get("timestamp")), **number, "type": kind, "payload": payload}
    return orjson.dumps(json_safe(entry)) + b"\n"
