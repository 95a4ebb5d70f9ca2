"""Which of many files is begun next: the one that changed longest ago, so that those in demand wait to the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Sized(NamedTuple):
    """A file's size in bytes, and when it last changed."""

    size: int
    changed: int


class Schedule(Iterator[int]):
    """Gives each number of the files once, the oldest first.

    But a file that takes one process as long as all that is left takes all of them is begun at once: as the last one
    it would be worked on alone, with the other processes idle.
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
