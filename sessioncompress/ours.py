"""What this tool has put into a session, by what identifies it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sessioncompress.model import Origin, OurKey


class Known(Protocol):
    """Replacements with their originals, as a journal holds them."""

    def __contains__(self, key: OurKey) -> bool: ...

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of a replacement, None where it is none."""


@dataclass(frozen=True, slots=True)
class Ours:
    """The replacements that journals hold, with their originals, and those of the run under way.

    Of these only the keyed hashes are held, so that a large session needs little memory; the run's own records hold
    the rest.
    """

    known: Sequence[Known] = ()
    new: set[int] = field(default_factory=set)

    def __contains__(self, key: OurKey) -> bool:
        return hash(key) in self.new or any(key in known for known in self.known)

    def add(self, key: OurKey) -> None:
        """Take note of a replacement that the run under way makes."""
        self.new.add(hash(key))

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of a replacement that a journal holds."""
        return next((found for known in self.known if (found := known.origin(key)) is not None), None)

    def copy(self) -> Ours:
        """Return the same, to be added to apart from this."""
        return Ours(self.known, set(self.new))
