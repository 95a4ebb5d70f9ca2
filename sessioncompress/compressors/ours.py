"""What this tool has put into a session, by what identifies it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from sessioncompress.core.lines import Index
from sessioncompress.core.model import Origin, OurKey

_64_BITS: Final = (1 << 64) - 1


class Known(Protocol):
    """Replacements with their originals, as a journal holds them."""

    def __contains__(self, key: OurKey) -> bool: ...

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of a replacement, None where it is none."""


class Ours:
    """The replacements that journals hold, with their originals, and those of the run under way.

    Of these only the keyed hashes are held, so that a large session needs little memory; the run's own records hold
    the rest.
    """

    def __init__(self, known: Sequence[Known] = (), new: Iterable[int] = ()) -> None:
        self.known = known
        self._new = array("Q", new)
        self._index = Index(self._new)

    def __contains__(self, key: OurKey) -> bool:
        if len(self._index) != len(self._new):
            self._index = Index(self._new)
        return _number(key) in self._index or any(key in known for known in self.known)

    def add(self, key: OurKey) -> None:
        """Take note of a replacement that the run under way makes; it is looked for when all are made."""
        self._new.append(_number(key))

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of a replacement that a journal holds."""
        return next((found for known in self.known if (found := known.origin(key)) is not None), None)

    def copy(self) -> Ours:
        """Return the same, to be added to apart from this."""
        return Ours(self.known, self._new)


def _number(key: OurKey) -> int:
    return hash(key) & _64_BITS
