"""What was said in a session of Claude Code, and how the agent itself writes a checkpoint into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Said, Say, Summary, Written
from sessioncompress.core.model import Role
from sessioncompress.core.text import json_safe, utf8
from sessioncompress.formats import claude_words as words
from sessioncompress.formats import values
from sessioncompress.formats.base import CannotCheckpoint, moment, uuid_of

_KEPT_WHOLE = "Recent messages are preserved verbatim."
_BEHIND = (
    "If you need specific details from before compaction",
    _KEPT_WHOLE,
    "Continue the conversation from where it left off without asking",
    "Please continue the conversation from where we left",
)
"""So begin the lines that the agent itself adds below a summary."""

_DRAFT, _SUMMARY = "Analysis:\n", "Summary:\n"
"""What stands above the parts of a summary that a model wrote; the first is its notes for the second."""


def said(entry: Mapping[str, Any], call: Callable[[Any, Any, Any], Said]) -> Iterator[Said]:
    """Read what was said in a line; see Reader.said. `call` reads a call of its id, its tool, and what it was given."""
    message = values.fields(entry.get("message"))
    content = message.get("content")
    if entry.get("isSidechain") or entry.get("isMeta"):
        return
    match entry.get("type"):
        case "assistant":
            # Answers that the agent made itself were never said.
            if entry.get("isApiErrorMessage") is not True and message.get("model") != "<synthetic>":
                yield from _answered(content, call)
        case "user" if entry.get("isCompactSummary"):
            if summary := unframed(values.words(content)):
                yield Said(Say.SUMMARY, summary)
        case "user":
            yield from _results(content)
            yield from _prompt(entry, values.words(content), entry, call)
        case "attachment":
            attached = values.fields(entry.get("attachment"))
            # A prompt that waited until the agent had done what it was at.
            if attached.get("type") == "queued_command" and not attached.get("isMeta"):
                yield from _prompt(entry, values.words(attached.get("prompt")), attached, call)


def _answered(content: Any, call: Callable[[Any, Any, Any], Said]) -> Iterator[Said]:
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else values.items(content):
        kind, text = values.type_of(part), values.part_text(part)
        if kind == "text" and text.strip():
            yield Said(Say.ANSWER, text)
        elif kind == "tool_use":
            yield call(part.get("id"), part.get("name"), part.get("input"))


def _results(content: Any) -> Iterator[Said]:
    for _, part in values.parts(content):
        if part.get("type") == "tool_result":
            text = values.words(part.get("content"))
            yield Said(Say.RESULT, text, call=values.text(part.get("tool_use_id")), failed=part.get("is_error") is True)


def _prompt(
    entry: Mapping[str, Any], text: str, holder: Mapping[str, Any], call: Callable[[Any, Any, Any], Said]
) -> Iterator[Said]:
    """Read the user's own words, or the command that the user ran, or what that printed."""
    text = words.without_notes(text)
    if not text.strip() or not words.is_persons(holder):
        return
    if text.startswith("<bash-input>"):
        yield call(entry.get("uuid"), "Bash", {"command": words.tagged(text, "bash-input")})
    elif text.startswith("<bash-stdout>"):
        printed = words.tagged(text, "bash-stdout") + words.tagged(text, "bash-stderr")
        yield Said(Say.RESULT, printed, call=values.text(entry.get("parentUuid")))
    elif text.startswith(("<command-message>", "<command-name>")):
        name, given_to_it = words.tagged(text, "command-name"), words.tagged(text, "command-args")
        # Of a command that the agent itself obeys the name comes first. It says nothing, unless words were given to it.
        if name and (given_to_it or text.startswith("<command-message>")):
            yield Said(Say.PROMPT, f"/{name.removeprefix('/')} {given_to_it}".rstrip())
    elif not text.startswith(words.NOT_WORDS):
        yield Said(Say.PROMPT, text)


def framed(text: str) -> str:
    """Put the agent's own words around a summary, as it does where messages are kept."""
    return (
        "This session is being continued from a previous conversation that ran out of context. "
        f"The summary below covers the earlier portion of the conversation.\n\n{text}\n\n{_KEPT_WHOLE}"
    )


def unframed(text: str) -> str:
    """Take the agent's own words from around a summary, and the orders that it ends with."""
    if text.startswith("This session is being continued from a previous conversation"):
        text = text.partition("\n")[2].lstrip("\n")
    for _ in _BEHIND:
        above, _, last = text.rpartition("\n")
        if last.startswith(_BEHIND):
            text = above.rstrip("\n")
    if text.startswith(_DRAFT):
        _, found, behind = text.partition(f"\n{_SUMMARY}")
        text = behind if found else text
    return text.removeprefix(_SUMMARY)


_OF_SESSION = ("userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug")
"""What each line says of the session that it stands in."""

_LESS = "Keep less: use a smaller number with --keep-tokens."
_MORE = "Keep more: use a larger number with --keep-tokens."

_ENTRIES = frozenset({"user", "assistant", "attachment", "system"})
"""The lines that the agent loads as entries. Over all others that hang between them it passes."""


def checkpoint(session: Written, cut: Cut, summary: Summary) -> Checkpoint:
    """Write a boundary and a summary before the kept lines; see Format.checkpoint.

    The agent hangs the kept lines on the summary when it loads them, and takes all other lines before the boundary
    out. So the two stand before the kept lines, which then stay whoever calls for them, and are as old as the newest
    line that they stand for: the newest of all is where the agent goes on, and where a parent is missing it goes on at
    the message before.
    """
    first = min(cut.kept)
    if any(role is Role.CHECKPOINT for role in session.lines.roles[first:]):
        raise CannotCheckpoint("Claude Code compacted it after the first message that would stay", _LESS)
    if any(number > first and session.lines[number].reads for number in cut.old):
        raise CannotCheckpoint("some messages to be removed come after the first one that would stay", _LESS)
    chain, times = _chain(session, cut.kept), session.lines.times
    dated = (entry for entry in map(session.entry, reversed(cut.old)) if values.text(entry.get("timestamp")))
    last, newest = next(dated, {}), max(cut.old, key=times.__getitem__)
    at = values.text(last.get("timestamp"))
    if moment(at) < times[newest]:
        # Attachments may be older than the prompt before them.
        at = values.text(session.entry(newest).get("timestamp"))
    if max(map(times.__getitem__, cut.kept)) < moment(at):
        # So end sessions that a command of the agent's own ended, such as /exit.
        raise CannotCheckpoint("a message that would go is newer than all that would stay", _MORE)
    of_session = {key: last[key] for key in _OF_SESSION if isinstance(last.get(key), str)}
    seed = "\n".join((*chain, summary.text))
    boundary, anchor = uuid_of("boundary", seed), uuid_of("summary", seed)
    added = (
        {
            "parentUuid": None,
            "logicalParentUuid": values.text(last.get("uuid")),
            "isSidechain": False,
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
            "timestamp": at,
            "uuid": boundary,
            "level": "info",
            "compactMetadata": {
                "trigger": "manual",
                "preTokens": summary.tokens_before,
                "preservedSegment": {"headUuid": chain[0], "anchorUuid": anchor, "tailUuid": chain[-1]},
                "preservedMessages": {"anchorUuid": anchor, "uuids": chain},
            },
            **of_session,
        },
        {
            "parentUuid": boundary,
            "isSidechain": False,
            "type": "user",
            "message": {"role": "user", "content": framed(summary.text)},
            "isVisibleInTranscriptOnly": True,
            "isCompactSummary": True,
            "uuid": anchor,
            "timestamp": at,
            **of_session,
        },
    )
    return Checkpoint(tuple(Addition(first, orjson.dumps(json_safe(entry)) + b"\n") for entry in added))


def _chain(session: Written, kept: Sequence[int]) -> list[str]:
    """Find the ids by which the agent walks from the newest kept message to the first kept entry, the first one first.

    What hangs beside them, as calls made at once do, it finds again by itself.
    """
    lines = session.lines
    numbers = {lines.ids[number]: number for number in kept}
    newest = max(((lines.times[number], number) for number in kept if lines.times[number]), default=None)
    if newest is None:
        raise CannotCheckpoint("it is the session of a subagent", "Compact the session that started it instead.")
    step: int | None = newest[1]
    walked: list[int] = []
    seen: set[int] = set()
    while step is not None and step not in seen:
        seen.add(step)
        walked.append(step)
        step = numbers.get(lines.parents[step])
    ids = Counter(lines.ids[number] for number in kept)
    if walked[-1] != kept[0] or any(ids[name] > 1 or utf8(name) != name for name in map(lines.ids.__getitem__, walked)):
        what = "its messages are not all linked up to the first one that would stay"
        raise CannotCheckpoint(what, "Resume it once with Claude Code, which repairs that, and run again.")
    loaded = (
        number
        for number in reversed(walked)
        if lines.roles[number] is not Role.OTHER or values.text(session.entry(number).get("type")) in _ENTRIES
    )
    return [lines.ids[number] for number in loaded]
