"""Bytes of a session into lines: split at LF alone, bounded, never decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

LINE_CAP = 64 * 1024 * 1024
"""Bytes. A longer line is copied in pieces and never parsed: parsing takes up to fifteen times its size."""

Piece = tuple[int, bytes, bool]
"""Line number from 0, its bytes with the LF if there is one, and whether they are the whole line."""

GAP = -1
"""The number of what stands between the messages of a document: it belongs to no line, and is copied."""


def pieces(file: BinaryIO, size: int, cap: int = LINE_CAP) -> Iterator[Piece]:
    """Yield the lines in the first `size` bytes of the file; a line over the cap comes in several pieces.

    What lies behind `size` was appended after the session was opened and is not looked at.
    """
    number = 0
    left = size
    begins = True
    while left:
        raw = file.readline(min(left, cap))
        if not raw:
            return
        left -= len(raw)
        ends = raw.endswith(b"\n")
        whole = begins and (ends or left == 0 or len(raw) < cap)
        yield number, raw, whole
        begins = ends
        if ends:
            number += 1
