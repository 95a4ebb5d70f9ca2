"""Journals as nobody but an attacker, or a disk, would write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.sessions import inspect_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.store.layout import store_in
from tests.support.runs import EAGER, journal_of

_HERE = "the value goes here"


def first(records: Sequence[Any], kind: str) -> int:
    """Return the number of the first record of a type; of runs the last, which counts."""
    numbers = [number for number, record in enumerate(records) if record["type"] == kind]
    return numbers[-1] if kind == "run" else numbers[0]


def forged(record: Any, field: str, value: str) -> bytes:
    """Return a record with a value, given as it stands in JSON, in a field: `a.b` is one in another."""
    changed = json.loads(json.dumps(record))
    at = changed
    *above, last = field.split(".")
    for name in above:
        at = at.setdefault(name, {})
    at[last] = _HERE
    return json.dumps(changed, separators=(",", ":")).replace(f'"{_HERE}"', value).encode() + b"\n"


def forge(path: Path, kind: str, field: str, value: str) -> None:
    """Put a value into a committed record of a session's journal."""
    records = journal_of(path)
    lines = [json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records]
    number = first(records, kind)
    lines[number] = forged(records[number], field, value)
    store_in(path).journal.write_bytes(b"".join(lines))


def append_forged(path: Path, kind: str, field: str, value: str) -> None:
    """Put such a record behind the last run, where a killed run would have left it."""
    records = journal_of(path)
    with store_in(path).journal.open("ab") as file:
        file.write(forged(records[first(records, kind)], field, value).rstrip(b"\n" if kind == "run" else b""))


def places_to(path: Path, frame: int, offset: int, size: int, originals: bytes) -> None:
    """Let every line record of a session name one place in other originals."""
    files = store_in(path)
    records = journal_of(path)
    for record in records:
        if record["type"] == "edit":
            record["was"] |= {"frame": frame, "offset": offset, "bytes": size}
        elif record["type"] == "run":
            record["storeSize"] = len(originals)
    files.journal.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    files.originals.write_bytes(originals)


def reference(path: Path) -> str:
    """Return a reference that a session's journal holds."""
    return str(next(record["ref"] for record in journal_of(path) if record["type"] == "block"))


def commands(ref: str) -> dict[str, Callable[[Path], object]]:
    """Return every command, as a library user calls it."""
    return {
        "verify": verify_session,
        "stats": lambda path: inspect_session(path, EAGER),
        "show": lambda path: show(ref, path),
        "compress --dry-run": lambda path: compress_session(path, EAGER, dry_run=True, force=True),
        "compress": lambda path: compress_session(path, EAGER, force=True),
        "restore": restore_session,
        "restore --from-markers": lambda path: restore_session(path, from_markers=True),
        "forget --dry-run": lambda path: forget_session(path, dry_run=True),
        "forget": forget_session,
    }
