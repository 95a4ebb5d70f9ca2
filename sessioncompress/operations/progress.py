"""How far a run over many files is: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

from time import monotonic
from typing import TextIO

_FIRST, _AGAIN = 1.0, 0.1
_FIRST_LINE = _NEXT_LINE = 5.0
"""Seconds. What takes less says nothing of how far it is."""

_BAR = 20
_MB = 1024 * 1024
_MINUTE = 60


class Progress:
    """Counts the files and bytes that are done, and shows them where it is time to; nothing else writes to its line."""

    def __init__(self, files: int, size: int, stream: TextIO | None) -> None:
        self._files, self._size = files, size
        self._stream = stream
        self._terminal = stream is not None and stream.isatty()
        self._begun = monotonic()
        self._next = self._begun + (_FIRST if self._terminal else _FIRST_LINE)
        self._done_files = self._done = 0
        self._shown = 0

    def done(self, size: int) -> None:
        """Count a file of so many bytes."""
        self._done_files += 1
        self._done += size

    def show(self) -> None:
        """Show how far it is, where it was last shown long enough ago."""
        now = monotonic()
        if self._stream is None or now < self._next:
            return
        text = said(self._done_files, self._files, self._done, self._size, now - self._begun)
        if not self._terminal:
            self._next = now + _NEXT_LINE
            self._write(self._stream, text + "\n")
            return
        self._next = now + _AGAIN
        # Imported here because most runs end before there is anything to show.
        from shutil import get_terminal_size

        full = _BAR * self._done // max(self._size, 1)
        line = f"[{'#' * full}{'.' * (_BAR - full)}] {text}"[: get_terminal_size().columns - 1]
        self._write(self._stream, "\r" + line.ljust(self._shown))
        self._shown = len(line)

    def hide(self) -> None:
        """Clear the line of the terminal, so that something else can be written there."""
        if self._stream is not None and self._shown:
            self._write(self._stream, "\r" + " " * self._shown + "\r")
            self._shown = 0
            self._next = min(self._next, monotonic() + _AGAIN)

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()


def said(done_files: int, files: int, done: int, size: int, seconds: float) -> str:
    """Say how many files and bytes are done, how fast, and how long the rest will take at that rate."""
    share = 100 * done // size if size else 100
    parts = [f"{share} %", f"{done_files:,} of {files:,} files", f"{done / _MB:,.1f} of {size / _MB:,.1f} MB"]
    if done and seconds:
        parts += [f"{done / _MB / seconds:,.1f} MB/s", f"{_time((size - done) * seconds / done)} left"]
    return ", ".join(parts)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
