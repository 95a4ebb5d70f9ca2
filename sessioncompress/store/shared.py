"""Whether a run of another side stands in a journal that git put together, and shares records with ours."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import BinaryIO

from sessioncompress.store.records import RunRecord, decode, raw_records
from sessioncompress.store.seal import is_sealed


def shares_records(file: BinaryIO, ends: Sequence[int]) -> bool:
    """Say whether the run behind the last of `ends`, where runs end, began with records that stand before one of them.

    Both sides rewrote the same lines first. Git lets what is equal stand once, then the records of one side with its
    run, then the rest of the other's with its run. That run counts more records than stand behind the run before it;
    with those from before, its seal holds. Damage cannot look like that.
    """
    if not ends:
        return False
    own, last, run = _run(file, ends[-1])
    missing = sum(run.records) - len(own) if run is not None and run.records is not None else 0
    return missing > 0 and any(
        is_sealed([*shared, *own], last)
        for start in (0, *ends[:-1])
        if len(shared := _first(file, start, missing)) == missing
    )


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
