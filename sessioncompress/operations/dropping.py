"""Old lines that leave a session of lines for a summary: how they are kept, and how they come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from io import BytesIO

from sessioncompress.store.originals import OriginalsReader, Place
from sessioncompress.store.records import Dropped

_TOGETHER = 1 << 20
"""Bytes of lines that are kept as one text."""
_MOST_RUNS = 500
"""Runs of one record, so that none is long."""


class Leaving:
    """Keeps the lines that leave a session while it is written anew, with the places where they stood.

    Without `keep` nothing is kept.
    """

    def __init__(self, keep: Callable[[bytes], Place] | None) -> None:
        self._keep = keep
        self._done: list[Dropped] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._runs: list[tuple[int, str, int]] = []
        self._passed = 0

    def stays(self, raw: bytes) -> None:
        """Pass over a line that stays, or a part of one."""
        self._passed += raw.endswith(b"\n")

    def comes(self, line: bytes) -> None:
        """Note a line of ours."""
        self._run(sha256(line).hexdigest())

    def goes(self, raw: bytes) -> None:
        """Keep a line that leaves, or that another one takes the place of."""
        if self._size and self._size + len(raw) > _TOGETHER:
            self._flush()
        if self._passed or not self._runs:
            self._run("")
        after, ours, size = self._runs[-1]
        self._runs[-1] = after, ours, size + len(raw)
        self._parts.append(raw)
        self._size += len(raw)

    def finish(self) -> tuple[Dropped, ...]:
        """Keep what is left, and return the records of all."""
        self._flush()
        return tuple(self._done)

    def _run(self, ours: str) -> None:
        if len(self._runs) >= _MOST_RUNS:
            self._flush()
        self._runs.append((self._passed, ours, 0))
        self._passed = 0

    def _flush(self) -> None:
        if self._runs and self._keep is not None:
            text = b"".join(self._parts)
            lines = len(self._parts)
            self._done.append(Dropped(sha256(text).hexdigest(), self._keep(text), lines, tuple(self._runs)))
        self._runs, self._parts, self._size = [], [], 0


class NotAsLeft(Exception):
    """The session is not as it was when lines left it, but for what was added behind."""


def put_back(
    lines: Iterable[bytes],
    dropped: Iterable[Dropped],
    originals: OriginalsReader,
    is_ours: Callable[[bytes, str], bool],
) -> Iterator[bytes]:
    """Yield the lines of a session with those that left it, and without ours.

    `is_ours` tells whether a line is that of ours with a SHA-256. Raises NotAsLeft where one does not stand where it
    did; Unreadable.
    """
    unended = b""
    for raw in _with_dropped(iter(lines), dropped, originals, is_ours):
        if unended:
            # What was added behind a last line without its LF has one before it.
            yield unended + b"\n"
            unended = b""
        if isinstance(raw, _Last):
            unended = raw
        else:
            yield raw
    if unended:
        yield unended


class _Last(bytes):
    """The last line of a session, without its LF."""


def _with_dropped(
    lines: Iterator[bytes],
    dropped: Iterable[Dropped],
    originals: OriginalsReader,
    is_ours: Callable[[bytes, str], bool],
) -> Iterator[bytes]:
    for each in dropped:
        text, position = originals.line(each.place, each.sha256), 0
        for after, ours, size in each.runs:
            passed = 0
            while passed < after:
                if not (raw := next(lines, b"")):
                    raise NotAsLeft
                yield raw
                passed += raw.endswith(b"\n")
            if ours and not is_ours(next(lines, b""), ours):
                raise NotAsLeft
            for raw in BytesIO(text[position : position + size]):
                yield raw if raw.endswith(b"\n") else _Last(raw)
            position += size
    yield from lines
