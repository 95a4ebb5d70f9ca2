"""Write a checkpoint into the bytes of a session that is one document, and take it out again.

Messages are added and removed together with their separators; every other byte stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson

from sessioncompress.core.checkpoint import Checkpoint
from sessioncompress.core.jsonl import Document
from sessioncompress.core.splice import Edit, cuts_of, edited

_INDENT = re.compile(rb"\{\n( *+)\S")
"""The beginning of an object that is laid out in lines; the group is its first key's indent."""

_PLAINLY = 64
"""Bytes. Text this long that we wrote won't occur elsewhere by chance."""
_BESIDE = 32
"""Bytes of context on either side."""


def edits_of(document: Document, checkpoint: Checkpoint) -> Sequence[Edit]:
    """Return the edits that write a checkpoint into a document, in byte order. Raises CannotSplice."""
    around = cuts_of(document.raw, document.outer, checkpoint.outer)
    laid_out = ((start, end, _around(document, start, new)) for start, end, new in around)
    return sorted([*_messages(document, checkpoint), *laid_out])


class Undo(NamedTuple):
    """The edits that take a checkpoint out of a document. `size` is the document's size with it, in bytes."""

    size: int
    edits: Sequence[tuple[int, bytes, bytes]]
    """For each edit: the offset in the new document, the bytes written, and the bytes they replaced."""
    around: Sequence[int]
    """Indexes of edits outside the messages: the agent updates such values (counts, for example)."""

    def encode(self) -> bytes:
        """Return it as one line of JSON."""
        edits = [(start, made.decode("latin-1"), was.decode("latin-1")) for start, made, was in self.edits]
        written = {"size": self.size, "edits": edits, "around": self.around}
        return orjson.dumps(written, option=orjson.OPT_APPEND_NEWLINE)


def undoing(document: Document, edits: Sequence[Edit]) -> Undo:
    """Return the Undo of these edits. A value outside the messages is identified by the bytes around it."""
    raw, (first_message, last_message) = document.raw, (document.spans[0][0], document.spans[-1][1])
    around = [number for number, (start, end, _) in enumerate(edits) if end < first_message or start > last_message]
    found: list[tuple[int, bytes, bytes]] = []
    moved = 0
    whole = edited(raw, edits)
    ends = [0, *(end for _, end, _ in edits)]
    begins = [*(start for start, _, _ in edits[1:]), len(raw)]
    for (start, end, new), before, behind in zip(edits, ends, begins, strict=False):
        first, last = start, end
        if b"{" not in new:
            # Split the gap between two edits, so that no byte is context of both.
            first, last = max(start - _BESIDE, (before + start + 1) // 2), min(end + _BESIDE, (end + behind) // 2)
            # If this isn't unique yet, take up to 512 bytes after it, the beginning of the next message with its id.
            most = min(end + 512, (end + behind) // 2)
            while last < most and whole.count(raw[first:start] + new + raw[end:last]) > 1:
                last = min(last + _BESIDE, most)
        found.append((first + moved, raw[first:start] + new + raw[end:last], raw[first:last]))
        moved += len(new) - (end - start)
    return Undo(len(raw) + moved, found, around)


def undo_of(encoded: bytes) -> Undo:
    """Decode an Undo. Raises ValueError, KeyError or TypeError if it is malformed."""
    read = orjson.loads(encoded)
    edits = [(int(start), made.encode("latin-1"), was.encode("latin-1")) for start, made, was in read["edits"]]
    # Earlier versions didn't record `around`.
    return Undo(int(read["size"]), edits, [int(each) for each in read.get("around", ())])


def undone(raw: bytes, undo: Undo) -> bytes | None:
    """Take a checkpoint out of a document; return None if the checkpoint itself was changed since.

    Other messages may have changed. The written bytes are looked for at their offset from either end, then anywhere if
    they occur only once. Outside the messages, a value that the agent has changed since is kept.
    """
    found: list[Edit] = []
    for number, (start, made, was) in enumerate(undo.edits):
        places = [start, len(raw) - undo.size + start]
        if len(made) >= _PLAINLY and raw.count(made) == 1:
            places.append(raw.find(made))
        place = next((each for each in places if each >= 0 and raw[each : each + len(made)] == made), None)
        if place is None:
            if number in undo.around:
                continue
            return None
        found.append((place, place + len(made), was))
    return edited(raw, sorted(found))


def _messages(document: Document, checkpoint: Checkpoint) -> Iterator[Edit]:
    """Yield the edits of the messages: removed runs with their replacements, and plain insertions."""
    spans, between = document.spans, _between(document)
    new: dict[int, list[bytes]] = {}
    for addition in checkpoint.added:
        new.setdefault(addition.before, []).append(_laid_out(document, addition.line))
    lines: list[bytes] = []
    begin = -1
    for number, (start, _) in enumerate(spans):
        lines += new.get(number, ())
        if number in checkpoint.removed:
            begin = start if begin < 0 else begin
        else:
            if begin >= 0 or lines:
                yield start if begin < 0 else begin, start, b"".join(line + between for line in lines)
            lines, begin = [], -1
    if last := between.join([*lines, *new.get(len(spans), ())]):
        end = spans[-1][1]
        yield (end, end, between + last) if begin < 0 else (begin, end, last)


def _laid_out(document: Document, message: bytes) -> bytes:
    """Lay a message out like the first one, so that an agent that rewrites the document writes the same bytes."""
    step, outside = _layout(document)
    return _in_lines(message, step, outside) if step else message


def _around(document: Document, place: int, new: bytes) -> bytes:
    """Lay out a value (or members to append, beginning with a comma) outside the messages like the messages."""
    step, _ = _layout(document)
    if not step or new[:1] not in (b"{", b"[", b","):
        return new
    line = document.raw[document.raw.rfind(b"\n", 0, place) + 1 : place]
    outside = line[: len(line) - len(line.lstrip(b" "))]
    if new[:1] != b",":
        return _in_lines(new, step, outside)
    members = _in_lines(b"{%b}" % new[1:], step, outside[step:])
    return b"," + members[1 : members.rfind(b"\n")]


def _layout(document: Document) -> tuple[int, bytes]:
    """Return the number of spaces per level (0 if the document is not laid out), and the indent of its messages."""
    raw, (start, end) = document.raw, document.spans[0]
    inside = _INDENT.match(raw, start, end)
    outside = raw[raw.rfind(b"\n", 0, start) + 1 : start]
    if inside is None or outside.strip(b" ") or not inside[1].startswith(outside):
        return 0, b""
    return len(inside[1]) - len(outside), outside


def _in_lines(value: bytes, step: int, outside: bytes) -> bytes:
    written = json.dumps(orjson.loads(value), ensure_ascii=False, indent=step)
    return written.encode().replace(b"\n", b"\n" + outside)


def _between(document: Document) -> bytes:
    """Return the separator between messages. For a single message: a comma and the white space before the message."""
    raw, spans = document.raw, document.spans
    if len(spans) > 1:
        return raw[spans[0][1] : spans[1][0]]
    before = raw[: spans[0][0]]
    return b"," + before[len(before.rstrip()) :]
