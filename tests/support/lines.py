"""What builders of sessions with an entry a line share: the lines so far, and the clock that stamps them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support import blocks

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_Bytes = bytes  # the builder has a method of that name


class LineBuilder:
    """A session of lines; what is random in it follows from `seed`."""

    def __init__(self, seed: str, cwd: str) -> None:
        self.seed, self.cwd = seed, cwd
        self._lines: list[_Bytes] = []
        self._now = START
        self._rng = blocks.dice(seed)

    def lines(self) -> list[_Bytes]:
        return list(self._lines)

    def bytes(self) -> _Bytes:
        return b"".join(self._lines)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.bytes())
        return path

    def _put(self, entry: Mapping[str, Any]) -> None:
        self._lines.append(blocks.stringify(entry).encode() + b"\n")

    def _stamp(self) -> str:
        return self._now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self._now.microsecond // 1000:03d}Z"
