"""One JSON document into its messages, which are to it what lines are to other sessions; never written anew.

A line too may hold messages: one that sets all of them anew. Each of them counts as a line then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from typing import Any, BinaryIO

import orjson

from sessioncompress.jsonl import GAP, LINE_CAP, Piece, pieces

_MESSAGES = "messages"
_MESSAGES_KEY = b'"messages"'
_UPDATE = b'{"$set":{"messages":['
"""So begins a line that sets all messages of the session anew, as Gemini CLI writes it at each resume."""

_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Document:
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
        yield from _with_updates(pieces(file, size))


def _with_updates(lines: Iterable[Piece]) -> Iterator[Piece]:
    """Yield lines, and in the place of one that sets all messages its messages and gaps."""
    added = 0
    for number, raw, whole in lines:
        update = _update(raw) if whole and raw.startswith(_UPDATE) and raw.endswith(b"\n") else None
        if update is None:
            yield number + added, raw, whole
        else:
            for each, part, is_message in update.pieces():
                yield each if each == GAP else number + added + each, part, is_message
            added += len(update.spans) - 1


def _update(raw: bytes) -> Document | None:
    """Cut a line that sets all messages, and does so once; None where nothing is to be cut in it."""
    start = len(_UPDATE) - 1
    try:
        text = raw.decode() if _is_json(raw) else ""
        end, found = _list(text, start) if text else (start, [])
    except (ValueError, RecursionError, StopIteration):
        return None
    start, end, spans = _placed(raw, text, start, end, found)
    if not spans:
        return None
    # Of a key that stands there twice an agent takes the last.
    keys = json.loads(raw[:start] + b"[]" + raw[end:], object_pairs_hook=list)
    once = len(keys) == 1 and [key for key, _ in keys[0][1]].count(_MESSAGES) == 1
    return Document(raw, spans, {}) if once else None


def document_of(reader: Callable[[], BinaryIO], size: int) -> Document | None:
    """Return the document that a session is, None where it is lines, or no messages are in it."""
    with reader() as file:
        first = file.readline(min(size, LINE_CAP))
        if first.lstrip()[:1] not in (b"{", b"[") or size > LINE_CAP:
            return None
        if len(first) < size and _is_json(first):
            return None
        return cut(first + file.read())


def cut(raw: bytes) -> Document | None:
    """Find the messages: the objects in the list `messages` of an object, or in a list that is the whole document."""
    is_list = raw.lstrip()[:1] == b"["
    if not (is_list or _MESSAGES_KEY in raw) or not _is_json(raw):
        return None
    try:
        text = raw.decode()
        found = _messages(text)
    except (ValueError, RecursionError, StopIteration):
        return None
    if found is None:
        return None
    start, end, spans = _placed(raw, text, *found)
    outer = orjson.loads(raw[:start] + b"[]" + raw[end:])
    return Document(raw, spans, outer)


def _messages(text: str) -> tuple[int, int, list[tuple[int, int]]] | None:
    """Return where the list of messages begins and ends, and each message in it; in characters."""
    start = _space(text, 0)
    if text[start] == "[":
        return start, *_list(text, start)
    found = None
    position = _space(text, start + 1)
    while text[position] == '"':
        key, position = scanstring(text, position + 1, True)  # noqa: FBT003
        position = _space(text, _space(text, position) + 1)
        if key == _MESSAGES and text[position] == "[":
            if found is not None:
                # Which of the two an agent reads is its own affair.
                return None
            end, spans = _list(text, position)
            found = position, end, spans
            position = end
        else:
            position = _DECODER.raw_decode(text, position)[1]
        position = _space(text, position)
        if text[position] == ",":
            position = _space(text, position + 1)
    return found


def _list(text: str, start: int) -> tuple[int, list[tuple[int, int]]]:
    """Return where a list ends, and where its items begin and end. Raises ValueError where one is no object."""
    spans = []
    position = _space(text, start + 1)
    while text[position] != "]":
        if text[position] != "{":
            raise ValueError("a message is an object")
        end = _DECODER.raw_decode(text, position)[1]
        spans.append((position, end))
        position = _space(text, end)
        if text[position] == ",":
            position = _space(text, position + 1)
    return position + 1, spans


def _space(text: str, position: int) -> int:
    match = WHITESPACE.match(text, position)
    return int(match.end())


def _placed(
    raw: bytes, text: str, start: int, end: int, spans: list[tuple[int, int]]
) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """Return where a list and its items are in the bytes, from where they are in their text."""
    if len(raw) != len(text):
        start, end, *flat = _in_bytes(text, [start, end, *(place for span in spans for place in span)])
        spans = list(zip(flat[::2], flat[1::2], strict=True))
    return start, end, tuple(spans)


def _in_bytes(text: str, places: list[int]) -> list[int]:
    """Return places in a text as places in its UTF-8."""
    found: dict[int, int] = {}
    character = byte = 0
    for place in sorted(places):
        byte += len(text[character:place].encode())
        character = place
        found[place] = byte
    return [found[place] for place in places]


def _is_json(raw: bytes) -> bool:
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True
