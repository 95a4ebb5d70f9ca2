"""What is told of a fixture: the one place for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Builder(Protocol):
    def bytes(self) -> bytes:
        """Return the whole file."""


class Story(NamedTuple):
    """One fixture: the name of its file, what makes it, and the name of the format that recognizes it, None for none.

    An odd one is as no agent writes it. One that `stays` is too short: a run that keeps its last turn writes nothing.
    """

    file: str
    make: Callable[[], Builder | bytes]
    form: str | None
    is_odd: bool = False
    stays: bool = False

    def data(self) -> bytes:
        made = self.make()
        return made if isinstance(made, bytes) else made.bytes()
