"""The changes of a plan: what compressors propose, and what of it is to be done, by the line that it changes."""

from __future__ import annotations

from collections.abc import Iterable

from sessioncompress.model import Change


class Proposals:
    """What compressors have proposed, in any order, each with what it is worth."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.gains: list[int] = []

    def add(self, change: Change, gain: int) -> None:
        """Add a change and what it is worth."""
        self.changes.append(change)
        self.gains.append(gain)


class Changes(dict[int, tuple[Change, ...]]):
    """What is to change, line by line, in document order; `saves` is the bytes that all of it should save."""

    def __init__(self, chosen: Iterable[Change]) -> None:
        by_line: dict[int, list[Change]] = {}
        self.saves = 0
        for change in chosen:
            self.saves += change.saves
            by_line.setdefault(change.line, []).append(change)
        super().__init__((number, tuple(by_line[number])) for number in sorted(by_line))
