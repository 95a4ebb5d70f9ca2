"""Split the bytes of a session into lines: at LF only, bounded, never decoded. Decide which lines are parsed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from sessioncompress.core.splice import after_space, end_of_value

LINE_CAP = 64 * 1024 * 1024
"""Bytes. A longer line is copied in pieces and never parsed."""

_LONG = 16 * 1024 * 1024
"""Bytes. A longer line is parsed only if it holds few values."""

_MOST_VALUES = 1 << 17
_FEW_VALUES = 1 << 10
"""Limits on values in a line.

A parsed value takes about 80 bytes of memory, however short its JSON is, and a line is held parsed up to twice. In 243
real sessions no line holds more than 7,000.
"""

DOCUMENT_VALUES = 1 << 20
"""Limit on values in a session that is one document, which is held whole."""

_MARK = re.compile(rb'[,\[{]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_MAY_HOLD_JSON = re.compile(rb'"(?:[ ]|\\[nrt])*+(?:[\[{]|\\u)')

_QUOTE = ord('"')

Piece = tuple[int, bytes, bool]
"""Line number from 0, its bytes with the LF if there is one, and True if they are the whole line."""

GAP = -1
"""The line number of pieces outside numbered lines, such as a document's separators: these are only copied."""


def pieces(file: BinaryIO, size: int, cap: int = LINE_CAP) -> Iterator[Piece]:
    """Yield the lines in the first `size` bytes of the file; a line over the cap is yielded in several pieces.

    Bytes after `size` were appended after the session was opened, and are not read.
    """
    number = 0
    left = size
    begins = True
    readline = file.readline
    while left:
        raw = readline(min(left, cap))
        if not raw:
            return
        left -= len(raw)
        ends = raw.endswith(b"\n")
        whole = begins and (ends or left == 0 or len(raw) < cap)
        yield number, raw, whole
        begins = ends
        if ends:
            number += 1


def holds(file: BinaryIO, *wanted: bytes, size: int = -1) -> bool:
    """True if the next `size` bytes (-1: all) contain any of these strings, even in lines of any length."""
    longest = max(map(len, wanted))
    before, left = b"", size
    while left and (piece := file.read(1 << 20 if left < 0 else min(left, 1 << 20))):
        if any(each in before + piece for each in wanted):
            return True
        before = piece[1 - longest :]
        left -= len(piece) if left > 0 else 0
    return False


def is_readable(raw: bytes) -> bool:
    """True if parsing this whole line takes only a few times its size in memory; other lines are never parsed."""
    return len(raw) <= _MOST_VALUES or holds_at_most(raw, _MOST_VALUES if len(raw) <= _LONG else _FEW_VALUES)


def holds_at_most(raw: bytes, most: int) -> bool:
    """True if JSON text holds at most `most` values and keys, including those in strings that may be JSON themselves.

    Each value and each key follows a comma or a bracket, so those are counted.
    """
    if len(raw) <= most or raw.count(b",") + raw.count(b"[") + raw.count(b"{") <= most:
        return True
    found = 0
    for match in _MARK.finditer(raw):
        start, end = match.span()
        if raw[start] != _QUOTE:
            found += 1
        elif _MAY_HOLD_JSON.match(raw, start):
            found += sum(raw.count(mark, start, end) for mark in (b",", b"[", b"{"))
        if found > most:
            return False
    return True


DEEPEST: Final = 200
"""Maximum nesting of objects and lists. No agent nests a fifth as deep; Python recurses four times as deep."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""Linear even if a string is unterminated."""
_TOKENS = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_OPEN, _CLOSE = frozenset({b"[", b"{"}), frozenset({b"]", b"}"})


def loads(written: bytes | str) -> Any:
    """Parse JSON. Raises ValueError if it is not JSON, or is nested more than DEEPEST deep."""
    value = orjson.loads(written)
    if is_deep(written.encode() if isinstance(written, str) else written):
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    return value


def is_deep(raw: bytes) -> bool:
    """True if bytes are nested more than DEEPEST deep; they need not be JSON."""
    return any(deep_spans(raw))


def shallow(raw: bytes) -> bytes:
    """Replace everything in JSON that is nested more than DEEPEST deep with null."""
    kept = []
    position = 0
    for start, end in deep_spans(raw):
        kept.append(raw[position:start] + b"null")
        position = end
    return b"".join([*kept, raw[position:]]) if kept else raw


def deep_spans(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans that are nested more than DEEPEST deep; an unterminated one reaches to the last byte."""
    # Nearly every line has too few brackets to need a scan.
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return
    depth = start = 0
    for token in _TOKENS.finditer(raw):
        mark = token.group()
        if mark in _OPEN:
            depth += 1
            if depth == DEEPEST + 1:
                start = token.start()
        elif mark in _CLOSE:
            depth -= 1
            if depth == DEEPEST:
                yield start, token.end()
    if depth > DEEPEST:
        yield start, len(raw)


_LIST, _LIST_END, _OBJECT, _COMMA = b"[]{,"

Spans = tuple[tuple[int, int], ...]
"""Start and end of each message in the bytes."""
UPDATE = b'{"$set":{"messages":['
"""The beginning of a line that sets all messages of the session; Gemini CLI writes one at each resume.

It is known here and not in its format, because lines are cut before a format is known."""

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""A surrogate pair; a lone surrogate (the group); any other escape."""

_NUMBER = re.compile(_STRING + rb"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)", re.DOTALL)
"""A string; a number (the group)."""


class Document(NamedTuple):
    """A document: its bytes, the spans of its messages, and the parsed values around the messages."""

    raw: bytes
    spans: Spans
    outer: Any

    def pieces(self) -> Iterator[Piece]:
        """Yield the messages with their numbers, and the bytes before, between and after them as gaps."""
        position = 0
        for number, (start, end) in enumerate(self.spans):
            yield GAP, self.raw[position:start], False
            yield number, self.raw[start:end], True
            position = end
        yield GAP, self.raw[position:], False


def pieces_of(reader: Callable[[], BinaryIO], size: int) -> Iterator[Piece]:
    """Yield a session's lines; for a document, or a line that sets all messages, yield its messages and gaps.

    `reader` starts a pass over the session's bytes. A document is held in memory whole, as its agent holds it.
    """
    document = document_of(reader, size)
    if document is not None:
        yield from document.pieces()
        return
    with reader() as file:
        yield from with_updates(pieces(file, size))


def with_updates(lines: Iterable[Piece]) -> Iterator[Piece]:
    """Yield lines; replace each line that sets all messages with its messages and gaps."""
    added = 0
    for piece in lines:
        number, raw, whole = piece
        if not raw.startswith(UPDATE):
            yield (number + added, raw, whole) if added else piece
        elif not whole or not raw.endswith(b"\n") or (update := _update(raw)) is None:
            yield number + added, raw, whole
        else:
            for each, part, is_message in update.pieces():
                yield each if each == GAP else number + added + each, part, is_message
            added += len(update.spans) - 1


def _update(raw: bytes) -> Document | None:
    """Cut a line that sets all messages, or return None if it has none or sets them twice."""
    for read in _readings(raw):
        start = len(UPDATE) - 1
        try:
            end, spans = _objects(read, start)
        except ValueError:
            continue
        around = read[:start] + b"[]" + read[end:]
        if not spans or is_deep(around):
            continue
        # If a key occurs twice, an agent takes the last one.
        keys = json.loads(around, object_pairs_hook=list)
        if len(keys) == 1 and [key for key, _ in keys[0][1]].count("messages") == 1:
            return Document(raw, spans, {})
    return None


def document_of(reader: Callable[[], BinaryIO], size: int) -> Document | None:
    """Read a session that is one document. Return None if it is lines, has no messages, or exceeds LINE_CAP."""
    with reader() as file:
        first = file.readline(min(size, LINE_CAP))
        if size > LINE_CAP or not _begins(first, size):
            return None
        return cut(first + file.read())


def begins_document(reader: Callable[[], BinaryIO], size: int) -> bool:
    """True if a file begins like one JSON object or list, and its first line is not a value by itself."""
    with reader() as file:
        return _begins(file.readline(min(size, LINE_CAP)), size)


def _begins(first: bytes, size: int) -> bool:
    if first.lstrip()[:1] not in (b"{", b"["):
        return False
    return len(first) == size or not any(_readings(first))


def cut(raw: bytes) -> Document | None:
    """Find the messages: the objects in an object's `messages` list, or in a list that is the whole document."""
    if raw.lstrip()[:1] != b"[" and b'"messages"' not in raw:
        return None
    for read in _readings(raw):
        try:
            found = _messages(read)
        except ValueError:
            continue
        if found is not None:
            start, end, spans = found
            return Document(raw, spans, orjson.loads(shallow(read[:start] + b"[]" + read[end:])))
    return None


def _messages(raw: bytes) -> tuple[int, int, Spans] | None:
    """Return start and end of the message list and the span of each message, or None if there is no list.

    Raises ValueError if a message is not an object.
    """
    position = after_space(raw, 0)
    if raw[position] == _LIST:
        return position, *_objects(raw, position)
    found = None
    position = after_space(raw, position + 1)
    while raw[position] == _QUOTE:
        end = end_of_value(raw, position)
        key = orjson.loads(raw[position:end])
        position = after_space(raw, after_space(raw, end) + 1)
        if key == "messages" and raw[position] == _LIST:
            if found is not None:
                # It depends on the agent which of the two it reads.
                return None
            found = position, *_objects(raw, position)
        position = _next(raw, position)
    return found


def _objects(raw: bytes, start: int) -> tuple[int, Spans]:
    """Return the end of a list and the spans of its items. Raises ValueError if an item is not an object."""
    spans = []
    position = after_space(raw, start + 1)
    while raw[position] != _LIST_END:
        if raw[position] != _OBJECT:
            raise ValueError("a message is an object")
        spans.append((position, end_of_value(raw, position)))
        position = _next(raw, position)
    return position + 1, tuple(spans)


def _next(raw: bytes, position: int) -> int:
    """Return the position after a value and its comma."""
    position = after_space(raw, end_of_value(raw, position))
    return after_space(raw, position + 1) if raw[position] == _COMMA else position


def _readings(raw: bytes) -> Iterator[bytes]:
    """Yield the bytes if our parser reads them, then a substitute of equal length if JavaScript reads more.

    In the substitute, everything our parser rejects (lone surrogates, huge numbers, deep nesting) is replaced with as
    many bytes, so that offsets stay valid. It only serves to find offsets and is never written. A value over
    DOCUMENT_VALUES has no substitute.
    """
    if value_of(raw) is not None:
        yield raw
    if not holds_at_most(raw, DOCUMENT_VALUES):
        return
    made = bytearray(raw)
    for escape in _ESCAPE.finditer(raw):
        if escape[1]:
            made[escape.start(1) : escape.end(1)] = b"ufffd"
    for token in _NUMBER.finditer(raw):
        if token[1] and math.isinf(float(token[1])):
            made[token.start() : token.end()] = b"0".ljust(len(token[1]))
    for start, end in deep_spans(raw):
        made[start:end] = b"0".ljust(end - start)
    if made != raw and value_of(bytes(made)) is not None:
        yield bytes(made)


def value_of(raw: bytes) -> Any:
    """Parse a JSON value. Return None if it is not JSON, is null, or holds more than DOCUMENT_VALUES."""
    try:
        return orjson.loads(raw) if holds_at_most(raw, DOCUMENT_VALUES) else None
    except orjson.JSONDecodeError:
        return None


def parse(raw: bytes) -> dict[str, Any] | None:
    """Parse a line's JSON object; return None if our parser reads none, or it is too large or nested too deep."""
    try:
        value = loads(raw) if is_readable(raw) else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_any(raw: bytes) -> dict[str, Any] | None:
    """Parse a line of any size and depth: one that parse() accepted, or that is only followed along paths.

    Earlier versions rewrote lines that are too large or deep for this one, and their originals must restore.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
