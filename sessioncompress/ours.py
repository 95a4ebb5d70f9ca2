"""What this tool has put into a session, by what identifies it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sessioncompress.model import Origin, OurKey


@dataclass(frozen=True, slots=True)
class Ours:
    """The replacements that the journal `known`s, with their originals, and those of the run under way.

    Of these only the keyed hashes are held, so that a large session needs little memory; the run's own records hold
    the rest.
    """

    known: Mapping[OurKey, Origin] = field(default_factory=dict)
    new: set[int] = field(default_factory=set)

    def __contains__(self, key: OurKey) -> bool:
        return key in self.known or hash(key) in self.new

    def add(self, key: OurKey) -> None:
        """Take note of a replacement that the run under way makes."""
        self.new.add(hash(key))

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of a replacement that the journal knows."""
        return self.known.get(key)

    def copy(self) -> Ours:
        """Return the same, to be added to apart from this."""
        return Ours(self.known, set(self.new))
