"""Where in the bytes of a JSON document the objects of a list stand: the one place that walks through its text."""

from __future__ import annotations

import json
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from typing import NamedTuple

_DECODER = json.JSONDecoder()


class Spans(NamedTuple):
    """Where a list begins and ends in the bytes, and each object in it."""

    start: int
    end: int
    items: tuple[tuple[int, int], ...]


def of_list(raw: bytes, start: int) -> Spans | None:
    """Find the objects of the list that begins at this byte; None where it holds anything else.

    What stands before it is ASCII, and the whole is known to be JSON.
    """
    try:
        text = raw.decode()
        return _placed(raw, text, start, *_list(text, start))
    except (ValueError, RecursionError, StopIteration):
        return None


def of_key(raw: bytes, key: str) -> Spans | None:
    """Find the objects in the list that an object has at a key, or those of a list that is the whole document.

    None where there is no such list, or more than one. The whole is known to be JSON.
    """
    try:
        text = raw.decode()
        found = _at_key(text, key)
        return found and _placed(raw, text, *found)
    except (ValueError, RecursionError, StopIteration):
        return None


def of_member(text: str, start: int, wanted: str) -> int | None:
    """Find where the value begins that the object at this character has at a key; the last of several, as all read it.

    The whole is known to be JSON.
    """
    found = None
    position = after_space(text, start + 1)
    while text[position] == '"':
        key, position = scanstring(text, position + 1, True)  # noqa: FBT003
        position = after_space(text, after_space(text, position) + 1)
        if key == wanted:
            found = position
        position = after_space(text, _DECODER.raw_decode(text, position)[1])
        if text[position] == ",":
            position = after_space(text, position + 1)
    return found


def _at_key(text: str, wanted: str) -> tuple[int, int, list[tuple[int, int]]] | None:
    """Return where the list begins and ends, and each object in it; in characters."""
    start = after_space(text, 0)
    if text[start] == "[":
        return start, *_list(text, start)
    found = None
    position = after_space(text, start + 1)
    while text[position] == '"':
        key, position = scanstring(text, position + 1, True)  # noqa: FBT003
        position = after_space(text, after_space(text, position) + 1)
        if key == wanted and text[position] == "[":
            if found is not None:
                # Which of the two an agent reads is its own affair.
                return None
            end, spans = _list(text, position)
            found = position, end, spans
            position = end
        else:
            position = _DECODER.raw_decode(text, position)[1]
        position = after_space(text, position)
        if text[position] == ",":
            position = after_space(text, position + 1)
    return found


def _list(text: str, start: int) -> tuple[int, list[tuple[int, int]]]:
    """Return where a list ends, and where its items begin and end. Raises ValueError where one is no object."""
    spans = []
    position = after_space(text, start + 1)
    while text[position] != "]":
        if text[position] != "{":
            raise ValueError("a message is an object")
        end = _DECODER.raw_decode(text, position)[1]
        spans.append((position, end))
        position = after_space(text, end)
        if text[position] == ",":
            position = after_space(text, position + 1)
    return position + 1, spans


def after_space(text: str, position: int) -> int:
    """Return where, from a character on, something else than white space stands."""
    match = WHITESPACE.match(text, position)
    return int(match.end())


def _placed(raw: bytes, text: str, start: int, end: int, spans: list[tuple[int, int]]) -> Spans:
    """Return where a list and its items are in the bytes, from where they are in their text."""
    if len(raw) != len(text):
        start, end, *flat = _in_bytes(text, [start, end, *(place for span in spans for place in span)])
        spans = list(zip(flat[::2], flat[1::2], strict=True))
    return Spans(start, end, tuple(spans))


def _in_bytes(text: str, places: list[int]) -> list[int]:
    """Return places in a text as places in its UTF-8."""
    found: dict[int, int] = {}
    character = byte = 0
    for place in sorted(places):
        byte += len(text[character:place].encode())
        character = place
        found[place] = byte
    return [found[place] for place in places]
