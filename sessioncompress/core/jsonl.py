"""Bytes of a session into lines: split at LF alone, bounded, never decoded; and which of them are read."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import BinaryIO

LINE_CAP = 64 * 1024 * 1024
"""Bytes. A longer line is copied in pieces and never parsed."""

_LONG = 16 * 1024 * 1024
"""Bytes. A longer line is parsed only where it holds little but a few long strings."""

_MOST_VALUES = 1 << 17
_FEW_VALUES = 1 << 10
"""A value takes some eighty bytes of memory, however short it is written, and a line is held parsed up to twice. Of 243
real sessions no line holds more than 7,000."""

DOCUMENT_VALUES = 1 << 20
"""Of a session that is one document, and held whole."""

_MARK = re.compile(rb'[,\[{]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_MAY_HOLD_JSON = re.compile(rb'"(?:[ ]|\\[nrt])*+(?:[\[{]|\\u)')

_QUOTE = ord('"')
_LF = ord("\n")

Piece = tuple[int, bytes, bool]
"""Line number from 0, its bytes with the LF if there is one, and whether they are the whole line."""

GAP = -1
"""The number of what belongs to no line that is looked at, as between a document's messages: it is copied."""

_GAP_BYTES = 1 << 18
"""Bytes of a gap that are held at once."""


def pieces(file: BinaryIO, size: int, cap: int = LINE_CAP) -> Iterator[Piece]:
    """Yield the lines in the first `size` bytes of the file; a line over the cap comes in several pieces.

    What lies behind `size` was appended after the session was opened and is not looked at.
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
        ends = raw[-1] == _LF
        whole = begins and (ends or left == 0 or len(raw) < cap)
        yield number, raw, whole
        begins = ends
        if ends:
            number += 1


def among(file: BinaryIO, sizes: Iterable[int], wanted: Container[int]) -> Iterator[Piece]:
    """Yield those lines of a file that are wanted, and as gaps what stands before, between and behind them.

    `sizes` are the bytes of each line from where the file is read.
    """
    gap = 0
    for number, size in enumerate(sizes):
        if number in wanted:
            yield from _gaps(file, gap)
            yield number, file.read(size), True
            gap = 0
        else:
            gap += size
    yield from _gaps(file, gap)


def _gaps(file: BinaryIO, size: int) -> Iterator[Piece]:
    while size and (raw := file.read(min(size, _GAP_BYTES))):
        size -= len(raw)
        yield GAP, raw, False


def is_readable(raw: bytes) -> bool:
    """Tell whether parsing a whole line takes only a few times its size in memory; else it is copied, never parsed."""
    return len(raw) <= _MOST_VALUES or holds_at_most(raw, _MOST_VALUES if len(raw) <= _LONG else _FEW_VALUES)


def holds_at_most(raw: bytes, most: int) -> bool:
    """Tell whether JSON text holds at most so many values and keys, with those in strings that may be JSON themselves.

    Each value follows a comma or a bracket, and each key too.
    """
    if len(raw) <= most or _marks(raw, 0, len(raw)) <= most:
        return True
    found = 0
    for match in _MARK.finditer(raw):
        start, end = match.span()
        if raw[start] != _QUOTE:
            found += 1
        elif _MAY_HOLD_JSON.match(raw, start):
            found += _marks(raw, start, end)
        if found > most:
            return False
    return True


def _marks(raw: bytes, start: int, end: int) -> int:
    return sum(raw.count(mark, start, end) for mark in (b",", b"[", b"{"))
