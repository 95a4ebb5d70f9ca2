"""What was said in a session of pi and its relatives, and how they write summaries.

A summary is one entry. A compaction stands at the end and names the first entry that is kept, the summary of a branch
hangs on the entry to which the conversation went back, and a handoff begins a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

from xxhash import xxh3_64_hexdigest, xxh3_128_hexdigest

from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, NewSession, Said, Say, Summary, Written
from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.core.model import Purpose, Role
from sessioncompress.core.splice import CannotSplice, splice
from sessioncompress.core.text import json_safe
from sessioncompress.formats import base, values

_SUMMARIES = ("compaction", "branch_summary", "compactionSummary", "branchSummary")
"""The entries, and in some versions the messages, that are summaries."""

_ID_DIGITS = 8

_HANDOFF = "<handoff-context>\n{}\n</handoff-context>\n\nThe above is a handoff document from a previous session."
"""How oh-my-pi frames the document; it shows what stands between the tags."""


def said(entry: Mapping[str, Any], call: Callable[[Any, Any, Any], Said]) -> Iterator[Said]:
    """Read what was said in an entry; `call` reads a call."""
    kind, message = entry.get("type"), values.fields(entry.get("message"))
    role = message.get("role")
    if kind in _SUMMARIES or (kind == "message" and role in _SUMMARIES):
        if text := _without_files(values.text(entry.get("summary")) or values.text(message.get("summary"))):
            yield Said(Say.SUMMARY, text)
    elif kind == "context_edit" and (text := values.text(values.fields(entry.get("replacement")).get("content"))):
        # Words alone take the place of a prompt's; those of an answer or a result are parts.
        yield Said(Say.PROMPT, text)
    elif kind == "custom_message" and entry.get("customType") == "handoff":
        if text := values.words(entry.get("content")):
            yield Said(Say.SUMMARY, text)
    elif kind != "message":
        return
    elif role == "user":
        if text := values.words(message.get("content")):
            yield Said(Say.PROMPT, text)
    elif role == "assistant":
        yield from _answered(message, call)
    elif role == "toolResult":
        name, text = values.text(message.get("toolCallId")), values.words(message.get("content"))
        yield Said(Say.RESULT, text, call=name, failed=_has_failed(message))
    elif role in ("bashExecution", "pythonExecution") and message.get("excludeFromContext") is not True:
        name, code = values.text(entry.get("id")), message.get("exitCode")
        failed = True if message.get("cancelled") is True else code != 0 if isinstance(code, int) else None
        given = {"command": values.text(message.get("command") or message.get("code"))}
        yield Said(Say.CALL, tool="bash", call=name, purpose=Purpose.COMMAND, given=given)
        yield Said(Say.RESULT, values.text(message.get("output")), call=name, failed=failed)


def _answered(message: Mapping[str, Any], call: Callable[[Any, Any, Any], Said]) -> Iterator[Said]:
    for _, part in values.parts(message.get("content")) if message.get("stopReason") not in values.STOPS else ():
        if part.get("type") == "toolCall":
            yield call(part.get("id"), part.get("name"), part.get("arguments"))
        elif part.get("type") == "text" and (text := values.part_text(part)):
            yield Said(Say.ANSWER, text)


def _has_failed(message: Mapping[str, Any]) -> bool | None:
    """Tell whether a call failed: by the flag of its result, or by what OpenClaw notes in the details."""
    flag, details = message.get("isError"), values.fields(message.get("details"))
    code = details.get("exitCode")
    if details.get("status") in ("error", "failed") or (isinstance(code, int) and code != 0):
        return True
    return flag if isinstance(flag, bool) else None


def _without_files(summary: str) -> str:
    """Take the lists of files off the end of a summary, where its agent puts them."""
    left = summary.rstrip()
    for tag in ("modified-files", "read-files", "files"):
        start = left.rfind(f"<{tag}>\n") if left.endswith(f"</{tag}>") else -1
        if start >= 0:
            left = left[:start].rstrip()
    return left


def compaction(
    session: Written, live: Sequence[int], cut: Cut, summary: Summary, beside: Mapping[str, Any]
) -> Checkpoint:
    """Write the entry; `beside` is what a relative of pi notes in it besides."""
    ids = session.lines.ids
    leaf = ids[live[-1]]
    kept = next(ids[number] for number in cut.kept if ids[number])
    files = _files([session.entry(cut.old[0])] if session.lines.roles[cut.old[0]] is Role.CHECKPOINT else [], summary)
    entry = {
        "type": "compaction",
        "id": _new_id(ids, leaf, kept, summary.text),
        "parentId": leaf,
        # What the last entry recorded of its request is then older than the compaction.
        "timestamp": base.newest_time(session, reversed(live)),
        "summary": summary.text + _lists(files),
        "firstKeptEntryId": kept,
        "tokensBefore": summary.tokens_before,
        **beside,
        "details": files,
        **_system_message(session, live),
    }
    return Checkpoint((Addition(len(session.lines), _line(entry)),))


def dropping(session: Written, live: Sequence[int], cut: Cut, made: Checkpoint) -> Checkpoint:
    """Take out what was said before what is kept, but for what another branch hangs on.

    Whatever hung on one of these lines hangs on what is left before it: entries that name the model, say, stay.
    """
    lines = session.lines
    numbers = {name: number for number, name in enumerate(lines.ids) if name}
    on_path, stay = frozenset(live), set[int]()
    for number in numbers.values():
        step = number if number not in on_path else None
        while step is not None and step not in stay:
            stay.add(step)
            step = numbers.get(lines.parents[step])
    gone = frozenset(
        number
        for number in live[: live.index(cut.kept[0])]
        if number not in stay
        and lines.roles[number] is not Role.HEADER
        and (lines.roles[number] is not Role.OTHER or lines[number].reads)
        and lines[number].size < LINE_CAP
    )
    changed: dict[int, bytes] = {}
    for number, parent in enumerate(lines.parents):
        step = numbers.get(parent)
        if number in gone or step not in gone:
            continue
        while step in gone:
            step = numbers.get(lines.parents[step])
        try:
            above = None if step is None else lines.ids[step]
            changed[number] = splice(session.raw(number), session.entry(number), {("parentId",): above})[0]
        except CannotSplice as error:
            what = "an entry that stays is linked to one that would go, and cannot be linked elsewhere"
            raise base.CannotCheckpoint(what, "Run without --drop-dead: the lines stay.") from error
    return made._replace(removed=gone, changed=changed)


def branch_summary(
    session: Written, live: Sequence[int], left: Sequence[int], target: int, summary: Summary
) -> Checkpoint:
    """Write the entry; the files of an earlier summary on the branch count in."""
    ids, roles = session.lines.ids, session.lines.roles
    silent = (number for number in left if roles[number] in (Role.OTHER, Role.CHECKPOINT))
    earlier = (entry for entry in map(session.entry, silent) if entry.get("type") in ("compaction", "branch_summary"))
    files = _files(earlier, summary)
    above = "The user explored a different conversation branch before returning here.\nSummary of that exploration:\n\n"
    entry = {
        "type": "branch_summary",
        "id": _new_id(ids, ids[live[-1]], ids[target], summary.text),
        "parentId": ids[target],
        "timestamp": base.newest_time(session, reversed(live)),
        "fromId": ids[target],
        "summary": above + summary.text + _lists(files),
        "details": files,
    }
    return Checkpoint((Addition(len(session.lines), _line(entry)),))


def handoff(session: Written, live: Sequence[int], path: str, text: str, seed: str, **beside: Any) -> NewSession:
    """Write a session of a header and one entry; its name and ids come of the source and a seed."""
    headers = (number for number, role in enumerate(session.lines.roles) if role is Role.HEADER)
    source = session.entry(next(headers, 0))
    at = base.moment(base.newest_time(session, reversed(live)))
    written = (base.EPOCH + timedelta(milliseconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    digits = xxh3_128_hexdigest(f"{values.text(source.get('id'))}\n{seed}".encode(errors="backslashreplace"))
    name = str(UUID(f"{at:012x}7{digits[:3]}8{digits[3:18]}"))
    # All of the family read this version.
    header = {"type": "session", "version": 3, "id": name, "timestamp": written}
    header |= {"cwd": values.text(source.get("cwd")), "parentSession": path}
    entry = {
        "type": "custom_message",
        "customType": "handoff",
        "content": _HANDOFF.format(text.rstrip("\n")),
        "display": True,
        **beside,
        "id": digits[-_ID_DIGITS:],
        "parentId": None,
        "timestamp": written,
    }
    file = f"{written.translate(str.maketrans(':.', '--'))}_{name}.jsonl"
    return NewSession(file, _line(header) + _line(entry))


def _line(entry: Mapping[str, Any]) -> bytes:
    return values.literal(json_safe(entry)) + b"\n"


def _new_id(ids: Iterable[str], *seed: str) -> str:
    taken, text = set(ids), "\n".join(seed).encode(errors="backslashreplace")
    made = (xxh3_64_hexdigest(text, number)[:_ID_DIGITS] for number in count())
    return next(each for each in made if each not in taken)


def _files(earlier: Iterable[Mapping[str, Any]], summary: Summary) -> dict[str, list[str]]:
    """List the files as the agent does, with those of its own summaries before."""
    read, changed = set(summary.read), set(summary.changed)
    for before in earlier:
        # What an extension wrote may hold anything.
        if before.get("fromHook") or before.get("fromExtension"):
            continue
        details = values.fields(before.get("details"))
        read.update(map(values.text, values.items(details.get("readFiles"))))
        changed.update(map(values.text, values.items(details.get("modifiedFiles"))))
    return {"readFiles": _names(read - changed), "modifiedFiles": _names(changed)}


def _names(files: Iterable[str]) -> list[str]:
    """Leave out names that could end a list, or its line."""
    return sorted(file for file in files if file and file.isprintable() and "</" not in file)


def _lists(files: Mapping[str, Sequence[str]]) -> str:
    """Write the lists that stand at a summary's end, a hundred names of each: the entry's details have all."""
    tags = {"read-files": "readFiles", "modified-files": "modifiedFiles"}
    listed = ((tag, "\n".join(files[key][:100])) for tag, key in tags.items())
    return "".join(f"\n\n<{tag}>\n{names}\n</{tag}>" for tag, names in listed if names)


def _system_message(session: Written, live: Sequence[int]) -> dict[str, Any]:
    """Merge the messages of the system, as pi from 0.87 on does: of those that stand before a compaction it reads none.

    Texts follow each other; sections and tools of a name take the place of earlier ones.
    """
    texts: list[str] = []
    sections: dict[str, Any] = {}
    tools: dict[str, Any] = {}
    roles = session.lines.roles
    last = next((at for at in range(len(live) - 1, -1, -1) if roles[live[at]] is Role.CHECKPOINT), 0)
    found = list(filter(None, (_system_of(session, number) for number in live[last:])))
    for message in found:
        texts += filter(None, [values.words(message.get("content"))])
        sections |= values.fields(message.get("sections"))
        for tool in map(values.fields, values.items(message.get("toolsRemoved"))):
            tools.pop(values.text(tool.get("name")), None)
        tools |= {values.text(tool.get("name")): tool for _, tool in values.parts(message.get("toolsAdded"))}
    if not found:
        return {}
    left = {name: value for name, value in sections.items() if value is not None}
    merged: dict[str, Any] = {"role": "system", "content": "\n\n".join(texts)}
    merged |= {"sections": left} if left else {}
    merged |= {"toolsAdded": list(tools.values())} if tools else {}
    return {"systemMessage": {**merged, "timestamp": base.moment(base.newest_time(session, reversed(live)))}}


def _system_of(session: Written, number: int) -> Mapping[str, Any]:
    """Read the message of the system that an entry is, or that a compaction repeats."""
    if session.lines.roles[number] not in (Role.OTHER, Role.CHECKPOINT):
        return {}
    entry = session.entry(number)
    message = entry.get("systemMessage" if entry.get("type") == "compaction" else "message")
    return values.fields(message) if values.fields(message).get("role") == "system" else {}
