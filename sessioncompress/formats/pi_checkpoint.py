"""How pi and its relatives write a compaction: one entry at the end, which names the first entry that is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from xxhash import xxh3_64_hexdigest

from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Summary, Written
from sessioncompress.core.model import Role
from sessioncompress.core.text import json_safe
from sessioncompress.formats import base, values

_ID_DIGITS = 8
_LISTS = (("read-files", "readFiles"), ("modified-files", "modifiedFiles"))
"""The tags in which a summary lists files, and the keys under which its entry does."""

_FOREIGN = ("fromHook", "fromExtension")
"""What says of a compaction that an extension wrote it: its details may be anything."""

_BEGINNING = "1970-01-01T00:00:00.000Z"


def compaction(
    session: Written, live: Sequence[int], cut: Cut, summary: Summary, beside: Mapping[str, Any]
) -> Checkpoint:
    """Write the entry; `beside` is what a relative of pi notes in it besides."""
    ids = session.lines.ids
    leaf = ids[live[-1]]
    kept = next(ids[number] for number in cut.kept if ids[number])
    files = _files(session, cut, summary)
    entry = {
        "type": "compaction",
        "id": _new_id(ids, leaf, kept, summary.text),
        "parentId": leaf,
        "timestamp": _time(session, live),
        "summary": summary.text + _lists(files),
        "firstKeptEntryId": kept,
        "tokensBefore": summary.tokens_before,
        **beside,
        "details": files,
        **_system_message(session, live),
    }
    return Checkpoint((Addition(len(session.lines), values.literal(json_safe(entry)) + b"\n"),))


def _new_id(ids: Iterable[str], *seed: str) -> str:
    taken, text = set(ids), "\n".join(seed).encode(errors="backslashreplace")
    made = (xxh3_64_hexdigest(text, number)[:_ID_DIGITS] for number in count())
    return next(each for each in made if each not in taken)


def _time(session: Written, live: Sequence[int]) -> str:
    """Find when the last entry was written: what it recorded of its request is then older than the compaction."""
    times = (session.entry(number).get("timestamp") for number in reversed(live))
    return next((values.text(time) for time in times if isinstance(time, str) and base.moment(time)), _BEGINNING)


def _files(session: Written, cut: Cut, summary: Summary) -> dict[str, list[str]]:
    """List the files as the agent does, with those of its own compaction before."""
    read, changed = set(summary.read), set(summary.changed)
    before = session.entry(cut.old[0]) if session.lines.roles[cut.old[0]] is Role.CHECKPOINT else {}
    if not any(before.get(key) for key in _FOREIGN):
        details = values.fields(before.get("details"))
        read.update(map(values.text, values.items(details.get("readFiles"))))
        changed.update(map(values.text, values.items(details.get("modifiedFiles"))))
    return {"readFiles": _names(read - changed), "modifiedFiles": _names(changed)}


def _names(files: Iterable[str]) -> list[str]:
    """Leave out names that could end a list, or its line."""
    return sorted(file for file in files if file and file.isprintable() and "</" not in file)


def _lists(files: Mapping[str, Sequence[str]]) -> str:
    """Write the lists that stand at a summary's end."""
    listed = ((tag, "\n".join(files[key])) for tag, key in _LISTS)
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
    return {"systemMessage": {**merged, "timestamp": base.moment(_time(session, live))}}


def _system_of(session: Written, number: int) -> Mapping[str, Any]:
    """Read the message of the system that an entry is, or that a compaction repeats."""
    if session.lines.roles[number] not in (Role.OTHER, Role.CHECKPOINT):
        return {}
    entry = session.entry(number)
    message = entry.get("systemMessage" if entry.get("type") == "compaction" else "message")
    return values.fields(message) if values.fields(message).get("role") == "system" else {}
