"""Stores in which a stranger's originals have references of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from sessioncompress import Policy, compress_session
from sessioncompress.store.layout import store_in
from tests.support.runs import journal_of

FIXTURE = Path(__file__).parents[2] / "fixtures" / "claude-tools.jsonl"
ANY_SIZE = Policy(size_threshold_kb=0, min_saved_kb=0)
REFERENCE = re.compile(rb"sessioncompress show ([0-9a-f]{12})")
Records = list[dict[str, Any]]


def compressed(folder: Path, content: bytes) -> Path:
    folder.mkdir()
    path = folder / "s.jsonl"
    path.write_bytes(content)
    assert compress_session(path, ANY_SIZE).lines_changed
    return path


def sealed(records: Records) -> bytes:
    written, seal = b"", sha256()
    for record in records:
        raw = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        if record["type"] == "run":
            body = raw.rpartition(b',"sha256":"')[0]
            seal.update(body)
            raw, seal = b'%b,"sha256":"%b"}\n' % (body, seal.hexdigest().encode()), sha256()
        else:
            seal.update(raw)
        written += raw
    return written


def forged(folder: Path, forge: Callable[[Records, Records], None]) -> Path:
    """Return a session in whose store a stranger's originals lie, as if they were those of its lines."""
    path = compressed(folder / "ours", FIXTURE.read_bytes())
    theirs = compressed(folder / "theirs", FIXTURE.read_bytes().replace(b"MAX_GAP", b"EVIL_GAP"))
    real, records = journal_of(path), journal_of(theirs)
    for ours, record in zip(real, records, strict=True):
        if record["type"] == "edit":
            record["isSha256"] = ours["isSha256"]
        elif record["type"] == "block":
            record["replacement"] = ours["replacement"]
    forge(real, records)
    store_in(path).journal.write_bytes(sealed(records))
    store_in(path).originals.write_bytes(store_in(theirs).originals.read_bytes())
    return path


def other_names(real: Records, records: Records) -> None:
    """Give the stranger's values the references of ours."""
    for ours, record in zip(real, records, strict=True):
        if record["type"] == "block":
            record["ref"] = ours["ref"]


def other_digests(real: Records, records: Records) -> None:
    for ours, record in zip(real, records, strict=True):
        if record["type"] == "block":
            record["ref"], record["sha256"] = ours["ref"], ours["sha256"]


def of_first_stores(real: Records, records: Records) -> None:
    """And say that the first version wrote that, whose digests can be aimed at."""
    for ours, record in zip(real, records, strict=True):
        if record["type"] == "block":
            record["ref"], record["xxh3"] = ours["ref"], ours["sha256"][:16]
            del record["sha256"]


def own_names(_real: Records, _records: Records) -> None:
    """Leave the stranger's references: they are not those in the session."""
