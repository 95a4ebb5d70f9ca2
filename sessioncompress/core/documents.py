"""One JSON document into its messages, which are to it what lines are to other sessions; never written anew.

A line too may hold messages: one that sets all of them anew. Each of them counts as a line then.

One value that our parser does not read and the agent's JavaScript does (half a character, a number beyond floats, deep
nesting) does not make all the others unknown: its message is not understood, as such a line is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import orjson

from sessioncompress.core.jsonl import DOCUMENT_VALUES, GAP, LINE_CAP, Piece, holds_at_most, pieces
from sessioncompress.core.nesting import deep_spans, is_deep, shallow
from sessioncompress.core.spans import of_key, of_list

_MESSAGES = "messages"
_MESSAGES_KEY = b'"messages"'
_UPDATE = b'{"$set":{"messages":['
"""So begins a line that sets all messages of the session anew, as Gemini CLI writes it at each resume."""

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""A pair of surrogates; half of one, which is the group; any other escape."""

_NUMBER = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+)', re.DOTALL
)
"""A string; a number, which is the group."""


class Document(NamedTuple):
    """A document's bytes, where each message begins and ends in them, and all that stands around the messages."""

    raw: bytes
    spans: tuple[tuple[int, int], ...]
    outer: Any

    def messages(self) -> Iterator[bytes]:
        """Yield the messages."""
        return (self.raw[start:end] for start, end in self.spans)

    def pieces(self) -> Iterator[Piece]:
        """Yield the messages with their numbers, and what stands before, between and behind them as gaps."""
        position = 0
        for number, (start, end) in enumerate(self.spans):
            yield GAP, self.raw[position:start], False
            yield number, self.raw[start:end], True
            position = end
        yield GAP, self.raw[position:], False


def pieces_of(reader: Callable[[], BinaryIO], size: int) -> Iterator[Piece]:
    """Yield a session's lines, or the messages and gaps of one that is a document, or of a line that sets them.

    `reader` starts a pass over the session's bytes. A document is held whole, as its agent holds it.
    """
    document = document_of(reader, size)
    if document is not None:
        yield from document.pieces()
        return
    with reader() as file:
        yield from with_updates(pieces(file, size))


def with_updates(lines: Iterable[Piece]) -> Iterator[Piece]:
    """Yield lines, and in the place of one that sets all messages its messages and gaps."""
    added = 0
    for piece in lines:
        number, raw, whole = piece
        if not raw.startswith(_UPDATE):
            yield (number + added, raw, whole) if added else piece
        elif not whole or not raw.endswith(b"\n") or (update := _in_any(_update, raw)) is None:
            yield number + added, raw, whole
        else:
            for each, part, is_message in update.pieces():
                yield each if each == GAP else number + added + each, part, is_message
            added += len(update.spans) - 1


def _update(raw: bytes, read: bytes) -> Document | None:
    """Cut a line that sets all messages, and does so once; None where nothing is to be cut in it. See _in_any()."""
    found = of_list(read, len(_UPDATE) - 1) if _is_json(read) else None
    if found is None or not found.items:
        return None
    around = read[: found.start] + b"[]" + read[found.end :]
    if is_deep(around):
        return None
    # Imported here because few sessions have such a line.
    import json

    # Of a key that stands there twice an agent takes the last.
    keys = json.loads(around, object_pairs_hook=list)
    once = len(keys) == 1 and [key for key, _ in keys[0][1]].count(_MESSAGES) == 1
    return Document(raw, found.items, {}) if once else None


def document_of(reader: Callable[[], BinaryIO], size: int) -> Document | None:
    """Return the document that a session is; None where it is lines, or has no messages, or is too large to be held."""
    with reader() as file:
        first = file.readline(min(size, LINE_CAP))
        if size > LINE_CAP or not _begins(first, size):
            return None
        return cut(first + file.read())


def begins_document(reader: Callable[[], BinaryIO], size: int) -> bool:
    """Say whether a file begins as one JSON object or list does, and not with a line that is one by itself."""
    with reader() as file:
        return _begins(file.readline(min(size, LINE_CAP)), size)


def _begins(first: bytes, size: int) -> bool:
    return first.lstrip()[:1] in (b"{", b"[") and (len(first) == size or not _is_read(first))


def cut(raw: bytes) -> Document | None:
    """Find the messages: the objects in the list `messages` of an object, or in a list that is the whole document."""
    is_list = raw.lstrip()[:1] == b"["
    return _in_any(_document, raw) if is_list or _MESSAGES_KEY in raw else None


def _document(raw: bytes, read: bytes) -> Document | None:
    found = of_key(read, _MESSAGES) if _is_json(read) else None
    if found is None:
        return None
    around = read[: found.start] + b"[]" + read[found.end :]
    return Document(raw, found.items, orjson.loads(shallow(around)))


def _in_any(cut_in: Callable[[bytes, bytes], Document | None], raw: bytes) -> Document | None:
    """Cut bytes by what our parser reads of them: themselves, or where that does not do what stands in for them."""
    found = cut_in(raw, raw)
    if found is None and (read := _readable(raw)) != raw:
        found = cut_in(raw, read)
    return found


def _readable(raw: bytes) -> bytes:
    """Return JSON with something as long in the place of all that JavaScript reads and our parser does not.

    So everything else stands at the same byte. It is for finding that alone, and is never written. What holds more
    than is read at once is returned as it is.
    """
    if not holds_at_most(raw, DOCUMENT_VALUES):
        return raw
    made = bytearray(raw)
    for escape in _ESCAPE.finditer(raw):
        if escape[1]:
            made[escape.start(1) : escape.end(1)] = b"ufffd"
    for token in _NUMBER.finditer(raw):
        if token[1] and math.isinf(float(token[1])):
            made[token.start() : token.end()] = b"0".ljust(len(token[1]))
    for start, end in deep_spans(raw):
        made[start:end] = b"0".ljust(end - start)
    return bytes(made)


def _is_read(raw: bytes) -> bool:
    return _is_json(raw) or _is_json(_readable(raw))


def _is_json(raw: bytes) -> bool:
    return value_of(raw) is not None


def value_of(raw: bytes) -> Any:
    """Return the JSON value that bytes are; None where they are none, or null, or hold more than is read at once."""
    try:
        return orjson.loads(raw) if holds_at_most(raw, DOCUMENT_VALUES) else None
    except orjson.JSONDecodeError:
        return None
