"""Whether a run of another side stands in a journal that git put together, and shares records with ours."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import BinaryIO, Final

from sessioncompress.store.records import RunRecord, decode, raw_records
from sessioncompress.store.seal import is_sealed

_MOST_HASHED: Final = 1 << 30
"""Bytes. To find where the other side's records stand takes about a second then; a longer run is called damaged."""


def shares_records(file: BinaryIO, ends: Sequence[int]) -> bool:
    """Say whether the run behind the last of `ends`, where runs end, shares records with one of another side.

    Both sides rewrote the same lines first. Git lets what is equal stand once, then the records of one side with its
    run, then the rest of the other's with its run. That run counts more records than stand behind the run before it;
    with those from before, its seal holds. Where in between the sides rewrote a line differently, both records stand
    there, and the seal holds without those of the other side. Damage cannot look like that.
    """
    own, last, run = _run(file, ends[-1] if ends else 0)
    if run is None or run.records is None:
        return False
    missing = sum(run.records) - len(own)
    if missing < 0:
        return _holds_without(-missing, own, last)
    return missing > 0 and any(
        is_sealed([*shared, *own], last)
        for start in (0, *ends[:-1])
        if len(shared := _first(file, start, missing)) == missing
    )


def _holds_without(number: int, own: Sequence[bytes], last: bytes) -> bool:
    """Say whether the seal of a run holds without so many of its records that stand behind each other.

    Not the first ones: git lets those of the other side stand behind ours, and before ours may stand the records of a
    run whose own is gone, which is damage.
    """
    if len(own) * sum(map(len, own)) > _MOST_HASHED:
        return False
    return any(is_sealed([*own[:at], *own[at + number :]], last) for at in range(1, len(own) - number + 1))


def _run(file: BinaryIO, start: int) -> tuple[list[bytes], bytes, RunRecord | None]:
    """Return the records of the run that begins there, its own as it stands and as it is read; None where none is."""
    file.seek(start)
    own: list[bytes] = []
    for raw in raw_records(file):
        with suppress(ValueError, KeyError, TypeError):
            record = decode(raw)
            if isinstance(record, RunRecord):
                return own, raw, record
        own.append(raw)
    return own, b"", None


def _first(file: BinaryIO, start: int, number: int) -> list[bytes]:
    """Return so many of the first records of the run that begins there, fewer where it has not so many."""
    file.seek(start)
    return list(islice(raw_records(file), number))
