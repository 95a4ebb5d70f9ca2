"""A rewrite that writes nothing: what it would come to."""

from __future__ import annotations

from hashlib import sha256
from typing import Self

from sessioncompress.store.commit import Finished
from sessioncompress.store.layout import Lengths
from sessioncompress.store.packer import OriginalsPacker

_ANY = sha256().hexdigest()
"""Stands for the SHA-256 of originals that nobody will read."""


class DryRun:
    """Takes what a Rewrite takes, counts it from a size on, and keeps nothing."""

    def __init__(self, lengths: Lengths, size: int = 0) -> None:
        self._size = size
        self._before = self._originals = lengths.originals
        self._packer = OriginalsPacker(lengths.originals, self._count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        """There is nothing to take back."""

    def write(self, data: bytes) -> None:
        """Count the next bytes of the new session."""
        self._size += len(data)

    def keep(self, line: bytes) -> int:
        """Compress an original, to know what it would take; return its index."""
        return self._packer.add(line)

    def measure(self) -> Finished:
        """Return what the rewrite would come to."""
        places = self._packer.finish()
        return Finished(self._size, self._originals, _ANY if self._originals > self._before else "", places)

    def _count(self, frame: bytes) -> None:
        self._originals += len(frame)
