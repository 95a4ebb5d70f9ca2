"""Many files, one after the other: one failure stops no other, and the exit code says the worst that happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from sessioncompress.discover import Found
from sessioncompress.errors import IsALink, NotASession, SessionCompressError

T = TypeVar("T")

_WORST_FIRST = (130, 5, 3, 4, 2, 1)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of one file: a result, or the error that ended it. `passed_over`: met in a folder, not ours."""

    found: Found
    result: T | None = None
    error: SessionCompressError | None = None
    passed_over: bool = False

    @property
    def exit_code(self) -> int:
        """Return the code this file alone would end with."""
        return 0 if self.error is None or self.passed_over else self.error.exit_code


def each(files: Iterable[Found], work: Callable[[Found], T]) -> Iterator[Outcome[T]]:
    """Do the work for every file; yield what became of each as soon as it is done."""
    for found in files:
        try:
            yield Outcome(found, work(found))
        except SessionCompressError as error:
            passed_over = not found.named and isinstance(error, NotASession | IsALink)
            yield Outcome(found, error=error, passed_over=passed_over)


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of several."""
    present = set(codes)
    return next((code for code in _WORST_FIRST if code in present), 0)
