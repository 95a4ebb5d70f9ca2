"""A checkpoint into the bytes of a session that is one document, and out of them again.

Messages come and go with what stands between them; every other byte stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sessioncompress.core.checkpoint import Checkpoint
from sessioncompress.core.jsonl import Document
from sessioncompress.core.splice import cuts_of


class Edit(NamedTuple):
    """Bytes that go, from one place up to another, and those that come in their place."""

    start: int
    end: int
    new: bytes


def document_with(document: Document, checkpoint: Checkpoint) -> bytes:
    """Write a checkpoint into a document. Raises CannotSplice."""
    return edited(document.raw, edits_of(document, checkpoint))


def edits_of(document: Document, checkpoint: Checkpoint) -> Sequence[Edit]:
    """Find the edits that write a checkpoint into a document, in their order. Raises CannotSplice."""
    around = cuts_of(document.raw, document.outer, checkpoint.outer)
    return sorted([*_messages(document, checkpoint), *(Edit(*cut) for cut in around)])


def edited(raw: bytes, edits: Iterable[Edit]) -> bytes:
    """Make edits, which are in their order."""
    parts: list[bytes] = []
    position = 0
    for edit in edits:
        parts += (raw[position : edit.start], edit.new)
        position = edit.end
    return b"".join((*parts, raw[position:]))


def taking_back(raw: bytes, edits: Iterable[Edit]) -> Sequence[Edit]:
    """Find the edits that make the same bytes again of what these edits make of them."""
    found: list[Edit] = []
    moved = 0
    for start, end, new in edits:
        found.append(Edit(start + moved, start + moved + len(new), raw[start:end]))
        moved += len(new) - (end - start)
    return found


def still_there(raw: bytes, made: bytes, back: Iterable[Edit]) -> bool:
    """Tell whether bytes hold what was made at the places where it is to be taken back."""
    return all(raw[edit.start : edit.end] == made[edit.start : edit.end] for edit in back)


def _messages(document: Document, checkpoint: Checkpoint) -> Iterator[Edit]:
    """Find the edits of the messages: each run that goes, with what comes in its place, or what comes alone."""
    spans, between = document.spans, _between(document)
    new: dict[int, list[bytes]] = {}
    for addition in checkpoint.added:
        new.setdefault(addition.before, []).append(addition.line)
    lines: list[bytes] = []
    begin = -1
    for number, (start, _) in enumerate(spans):
        lines += new.get(number, ())
        if number in checkpoint.removed:
            begin = start if begin < 0 else begin
        else:
            if begin >= 0 or lines:
                yield Edit(start if begin < 0 else begin, start, b"".join(line + between for line in lines))
            lines, begin = [], -1
    if last := between.join([*lines, *new.get(len(spans), ())]):
        end = spans[-1][1]
        yield Edit(end, end, between + last) if begin < 0 else Edit(begin, end, last)


def _between(document: Document) -> bytes:
    """Find what stands between messages: of a single one a comma, and the space before it."""
    raw, spans = document.raw, document.spans
    if len(spans) > 1:
        return raw[spans[0][1] : spans[1][0]]
    before = raw[: spans[0][0]]
    return b"," + before[len(before.rstrip()) :]
