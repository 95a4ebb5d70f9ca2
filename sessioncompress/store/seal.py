"""The seal of a run: the SHA-256 of all that it appended to the journal, as the last field of its own record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from sessioncompress.store.records import RunRecord

_FIELD = b',"sha256":"'
_END = b'"}\n'


def sealed(records: Iterable[bytes], run: RunRecord) -> Iterator[bytes]:
    """Yield a run's records as the journal takes them; that of the run comes last, and commits the others."""
    seal = sha256()
    for record in records:
        seal.update(record)
        yield record
    body = run.encode().removesuffix(b"}\n")
    seal.update(body)
    yield body + _FIELD + seal.hexdigest().encode() + _END


def is_sealed(records: Iterable[bytes], run: bytes) -> bool:
    """Say whether a run's record has a seal that holds over these records."""
    body, _, seal = run.rpartition(_FIELD)
    found = sha256()
    for record in records:
        found.update(record)
    found.update(body)
    return seal == found.hexdigest().encode() + _END


class Seals:
    """Checks the seals of a journal while it is read. `broken` is the number of the first run's line where one fails.

    A run of version 0.1.0 has no seal at all, which says nothing.
    """

    def __init__(self) -> None:
        self._seal = sha256()
        self.broken = 0

    def record(self, raw: bytes) -> None:
        """Take the next line or block record."""
        self._seal.update(raw)

    def run(self, raw: bytes, number: int, run: RunRecord) -> None:
        """Take the record of the run that ends here. One that counts its records was written with a seal."""
        body, field, seal = raw.rpartition(_FIELD)
        self._seal.update(body)
        holds = seal == self._seal.hexdigest().encode() + _END
        if not holds and (field or run.records is not None):
            self.broken = self.broken or number
        self._seal = sha256()
