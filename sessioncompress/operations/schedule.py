"""In which order many files are worked on, and how far that is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import NamedTuple, TextIO

from sessioncompress.pipeline.discover import Found


class Sized(NamedTuple):
    """A file's size in bytes, and its time of change in nanoseconds."""

    size: int
    changed: int


def sized(found: Found) -> Sized:
    """Look up a file's size and time."""
    if found.remote is not None:
        return Sized(found.remote.size, found.remote.changed_ns)
    try:
        status = os.lstat(found.path)
    except OSError:
        # It is gone, which the work on it will report.
        return Sized(0, 0)
    return Sized(status.st_size, status.st_mtime_ns)


class Schedule(Iterator[int]):
    """Yields the index of each file once, the oldest first.

    A file that would keep one process busy as long as the rest keeps all of them comes at once: as the last one it
    would leave the other processes idle.
    """

    def __init__(self, files: Sequence[Sized], processes: int) -> None:
        self._files = files
        self._processes = processes
        by_age = sorted(range(len(files)), key=lambda number: (files[number].changed, number))
        self._oldest = iter(by_age)
        self._largest = sorted(by_age, key=lambda number: -files[number].size)[::-1]
        self._taken = bytearray(len(files))
        self._left = sum(each.size for each in files)

    def __next__(self) -> int:
        while self._largest and self._taken[self._largest[-1]]:
            self._largest.pop()
        if not self._largest:
            raise StopIteration
        number = self._largest[-1]
        if self._processes == 1 or self._files[number].size * self._processes < self._left:
            number = next(each for each in self._oldest if not self._taken[each])
        self._taken[number] = True
        self._left -= self._files[number].size
        return number


_FIRST, _AGAIN = 1.0, 0.1
_FIRST_LINE = _NEXT_LINE = 5.0
"""Seconds. Shorter runs show no progress."""
_BAR, _LEAST_BAR = 20, 10
_MB = 1024 * 1024
_MINUTE = 60


class Progress:
    """Counts the files and bytes that are done, and shows them from time to time."""

    def __init__(self, files: int, size: int, stream: TextIO | None) -> None:
        self._files, self._size = files, size
        self._stream = stream
        self._terminal = stream is not None and stream.isatty()
        self._begun = monotonic()
        self._next = self._begun + (_FIRST if self._terminal else _FIRST_LINE)
        self._done_files = self._done = 0
        self._shown = 0

    def done(self, size: int) -> None:
        """Count a finished file of this many bytes."""
        self._done_files += 1
        self._done += size

    def show(self) -> None:
        """Show the progress, unless it was shown a moment ago."""
        now = monotonic()
        if self._stream is None or now < self._next:
            return
        parts = said(self._done_files, self._files, self._done, self._size, now - self._begun)
        if not self._terminal:
            self._next = now + _NEXT_LINE
            self._write(", ".join(parts) + "\n")
            return
        self._next = now + _AGAIN
        # Imported here because most runs end before there is anything to show.
        from shutil import get_terminal_size

        line = self._fitting(parts, get_terminal_size().columns - 1)
        self._write("\r" + line.ljust(self._shown))
        self._shown = len(line)

    def _fitting(self, parts: Sequence[str], room: int) -> str:
        """Put a bar before as many of the parts as leave room for it."""
        for number in range(len(parts), 0, -1):
            text = ", ".join(parts[:number])
            bar = min(room - len(text) - len("[] "), _BAR)
            if bar >= _LEAST_BAR:
                full = bar * self._done // max(self._size, 1)
                return f"[{'#' * full}{'.' * (bar - full)}] {text}"
        return parts[0][: max(room, 0)]

    def hide(self) -> None:
        """Clear the terminal's line before other output."""
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")
            self._shown = 0
            self._next = min(self._next, monotonic() + _AGAIN)

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


def said(done_files: int, files: int, done: int, size: int, seconds: float) -> list[str]:
    """Format the progress in parts, what matters most first: the share, the time that the rest will take, the rest."""
    share = 100 * done // size if size else 100
    parts = [f"{share} %", f"{done_files:,} of {files:,} files", f"{done / _MB:,.1f} of {size / _MB:,.1f} MB"]
    if done and seconds:
        minutes, rest = divmod(round((size - done) * seconds / done), _MINUTE)
        hours, minutes = divmod(minutes, _MINUTE)
        left = f"{minutes} min {rest} s" if minutes else f"{rest} s"
        if hours:
            left = f"{hours} h {minutes} min"
        parts[1:1] = [f"{left} left"]
        parts.append(f"{done / _MB / seconds:,.1f} MB/s")
    return parts
