"""The journal: one JSON object a line for each rewritten line, each replaced block, and each run, the commit point.

    {"type": "line", "original": {"sha256", "frame", "offset", "bytes"}, "rewrittenSha256"}
    {"type": "block", "ref", "line", "path", "kind", "tool", "callId", "bytes", "lines", "xxh3", "replacement", ...}
    {"type": "run", "at", "version", "policy", "originalSize", "compressedSize", "storeSize", ...}

A block record belongs to the line record before it. What stands behind the last run record was never committed.
This module only turns records into bytes and back; it writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path as FilePath
from typing import Any, BinaryIO, NamedTuple

import orjson

from sessioncompress.errors import NOT_CHANGED, Damaged, failing
from sessioncompress.model import Kind, Origin, OurKey, Path
from sessioncompress.store.beside import Lengths
from sessioncompress.store.lock import open_file
from sessioncompress.store.originals import Place

Bytes = bytes
"""The type, where a record has a field of that name."""

_LONGEST_DIGEST = 64
_REPLACEMENT_DIGITS = 32
_LONGEST_INDEX = 9
_TOO_MANY = 1 << 62
"""No file has so many bytes; the system takes no position behind it."""
_MOST_RECORD_BYTES = 4 * 1024 * 1024


_LINE = '{"type":"line","original":{"sha256":"%s"%s},"rewrittenSha256":"%s"}\n'
_PLACE = ',"frame":%d,"offset":%d,"bytes":%d'


class LineRecord(NamedTuple):
    """A rewritten line: the SHA-256 of its original and of what stands there now, and where the original is.

    `place` is None where no originals are kept; then `sha256` alone says what the line was.
    """

    sha256: str
    place: Place | None
    rewritten: str

    def encode(self) -> bytes:
        """Return the record as a line of the journal."""
        place = "" if self.place is None else _PLACE % self.place
        return (_LINE % (self.sha256, place, self.rewritten)).encode()


class BlockRecord(NamedTuple):
    """A replaced value: its reference, where it stands in the original line, and what replaced it.

    `xxh3` is the XXH3-64 of the content, `replacement` the first 32 digits of the SHA-256 of the JSON text that
    stands in its place (empty where it was taken out). `line` is the line's number when it was rewritten.
    """

    ref: str
    line: int
    path: Path
    kind: Kind
    tool: str
    call: str
    bytes: int
    lines: int
    xxh3: str
    replacement: str = ""
    file: str = ""
    git_blob: str = ""

    def encode(self) -> Bytes:
        """Return the record as a line of the journal; what is not known is left out."""
        record: dict[str, Any] = {
            "type": "block",
            "ref": self.ref,
            "line": self.line,
            "path": _pointer(self.path),
            "kind": self.kind,
            "bytes": self.bytes,
            "lines": self.lines,
            "xxh3": self.xxh3,
        }
        if self.tool or self.call:
            record |= {"tool": self.tool, "callId": self.call}
        if self.replacement:
            record["replacement"] = self.replacement
        if self.file:
            record |= {"file": self.file, "gitBlob": self.git_blob}
        return _line(record)

    def identities(self) -> tuple[OurKey, ...]:
        """Return what identifies the replacement in a session; an image's is a text of a result or of a prompt."""
        if not self.replacement:
            return ()
        kinds = (Kind.RESULT, Kind.IMAGE) if self.kind is Kind.IMAGE else (self.kind,)
        return tuple((bytes.fromhex(self.replacement), kind, self.call) for kind in kinds)

    @property
    def origin(self) -> Origin:
        """Return what a marker says of the original."""
        return Origin(self.ref, self.xxh3, self.path, self.bytes, self.lines)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run that changed the session. Sizes in bytes; `store_size` is the length of the originals file then."""

    at: str
    version: str
    policy: Mapping[str, Any]
    original_size: int
    compressed_size: int
    store_size: int
    boundary: int
    stats: Mapping[str, Any]
    head: str = ""
    restored: bool = False

    def encode(self) -> bytes:
        """Return the record as a line of the journal."""
        record: dict[str, Any] = {
            "type": "run",
            "at": self.at,
            "version": self.version,
            "policy": dict(self.policy),
            "originalSize": self.original_size,
            "compressedSize": self.compressed_size,
            "storeSize": self.store_size,
            "boundary": self.boundary,
            "stats": dict(self.stats),
        }
        if self.head:
            record["head"] = self.head
        if self.restored:
            record["restored"] = True
        return _line(record)


@dataclass(slots=True)
class Journal:
    """All committed records. `size` is the journal's committed length, `store_size` the originals'."""

    lines: list[LineRecord] = field(default_factory=list)
    blocks: list[tuple[LineRecord, BlockRecord]] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    size: int = 0
    store_size: int = 0

    def by_rewritten(self) -> dict[str, LineRecord]:
        """Return the records by the SHA-256 of the rewritten line, with a place where any run kept the original."""
        places = self.places()
        return {
            record.rewritten: record if record.place else record._replace(place=places.get(record.sha256))
            for record in self.lines
        }

    def places(self) -> dict[str, Place]:
        """Return where the originals are, by their SHA-256; a run that kept none may come before one that did."""
        return {record.sha256: record.place for record in self.lines if record.place is not None}

    def ours(self) -> dict[OurKey, BlockRecord]:
        """Return the records of our replacements, by what identifies them."""
        return {key: block for _, block in self.blocks for key in block.identities()}

    @property
    def lengths(self) -> Lengths:
        """Return how much of both files is committed."""
        return Lengths(self.store_size, self.size)

    @property
    def restored(self) -> bool:
        """Say whether the last run was a restore."""
        return bool(self.runs) and self.runs[-1].restored


def load(path: FilePath) -> Journal:
    """Read the journal at a path; an empty one where there is none."""
    with failing(path):
        try:
            fd = open_file(path)
        except FileNotFoundError:
            return Journal()
        with open(fd, "rb", buffering=1 << 20) as file:
            return read(file, str(path))


def read(file: BinaryIO, where: str) -> Journal:
    """Read a journal up to its last run record. Raises Damaged, naming the line, where a committed record is bad."""
    journal = Journal()
    waiting: list[LineRecord | tuple[LineRecord, BlockRecord]] = []
    position = 0
    for number, raw in enumerate(_records(file), 1):
        position += len(raw)
        try:
            record = _decode(raw, waiting)
        except (ValueError, KeyError, TypeError) as error:
            _refuse_if_committed(file, raw, where, number, error)
            return journal
        if isinstance(record, RunRecord):
            _commit(journal, waiting, record, position)
            waiting = []
        else:
            waiting.append(record)
    return journal


def uncommitted(path: FilePath, start: int) -> Iterator[LineRecord]:
    """Yield the line records behind the committed bytes of a journal, as far as they can be read."""
    fd = open_file(path)
    with open(fd, "rb", buffering=1 << 20) as file:
        file.seek(start)
        for raw in _records(file):
            with suppress(ValueError, KeyError, TypeError):
                record = _decode(raw, [])
                if isinstance(record, LineRecord):
                    yield record


def _commit(
    journal: Journal, waiting: Iterable[LineRecord | tuple[LineRecord, BlockRecord]], run: RunRecord, position: int
) -> None:
    for record in waiting:
        if isinstance(record, LineRecord):
            journal.lines.append(record)
        else:
            journal.blocks.append(record)
    journal.runs.append(run)
    journal.size = position
    journal.store_size = run.store_size


def _refuse_if_committed(file: BinaryIO, raw: bytes, where: str, number: int, error: Exception) -> None:
    """A bad record is a torn append only where it is no whole run record, and none stands behind it."""
    if any(map(_is_whole_run, chain([raw], _records(file)))):
        raise Damaged(
            f"this record of the journal cannot be read ({error})",
            where=where,
            line=number,
            state=NOT_CHANGED,
            remedy="Put the journal back from a backup; 'sessioncompress forget' deletes it with the originals.",
        ) from error


def _is_whole_run(raw: bytes) -> bool:
    return b'"type":"run"' in raw and raw.endswith(b"\n")


def _records(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.readline(_MOST_RECORD_BYTES), b"")


def _decode(
    raw: bytes, before: list[LineRecord | tuple[LineRecord, BlockRecord]]
) -> LineRecord | tuple[LineRecord, BlockRecord] | RunRecord:
    record = orjson.loads(raw)
    kind = record["type"]
    if kind == "line":
        return _line_record(record)
    if kind == "block":
        last = before[-1] if before else None
        if last is None:
            raise ValueError("a block without its line")
        owner = last if isinstance(last, LineRecord) else last[0]
        return owner, _block_record(record)
    if kind == "run" and raw.endswith(b"\n"):
        return _run_record(record)
    raise ValueError(f"an unknown record type {kind!r}")


def _line_record(record: Mapping[str, Any]) -> LineRecord:
    original = record["original"]
    place = None
    if "frame" in original:
        place = Place(_count(original["frame"]), _count(original["offset"]), _count(original["bytes"]))
    return LineRecord(_digest(original["sha256"]), place, _digest(record["rewrittenSha256"]))


def _block_record(record: Mapping[str, Any]) -> BlockRecord:
    return BlockRecord(
        ref=_hex(record["ref"]),
        line=_count(record["line"]),
        path=_path(record["path"]),
        kind=Kind(record["kind"]),
        tool=str(record.get("tool", "")),
        call=str(record.get("callId", "")),
        bytes=_count(record["bytes"]),
        lines=_count(record["lines"]),
        xxh3=_hex(record["xxh3"]),
        replacement=_digest(record["replacement"], _REPLACEMENT_DIGITS) if record.get("replacement") else "",
        file=str(record.get("file", "")),
        git_blob=_hex(record.get("gitBlob", "")),
    )


def _run_record(record: Mapping[str, Any]) -> RunRecord:
    return RunRecord(
        at=str(record["at"]),
        version=str(record["version"]),
        policy=dict(record["policy"]),
        original_size=_count(record["originalSize"]),
        compressed_size=_count(record["compressedSize"]),
        store_size=_count(record["storeSize"]),
        boundary=int(record["boundary"]),
        stats=_stats(record["stats"]),
        head=str(record.get("head", "")),
        restored=record.get("restored") is True,
    )


def _line(record: Mapping[str, Any]) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _TOO_MANY:
        raise ValueError(f"not a count: {value!r}")
    return value


def _hex(value: Any) -> str:
    if not isinstance(value, str) or value.strip("0123456789abcdef") or len(value) > _LONGEST_DIGEST:
        raise ValueError(f"not a digest: {value!r}")
    return value


def _digest(value: Any, digits: int = _LONGEST_DIGEST) -> str:
    if len(_hex(value)) != digits:
        raise ValueError(f"not {digits} digits of a SHA-256: {value!r}")
    return str(value)


def _stats(value: Any) -> dict[str, Any]:
    """Read the numbers of a run; one of them decides when the next is due."""
    stats = dict(value)
    _count(stats.get("turns", 0))
    return stats


@lru_cache(maxsize=1024)
def _pointer(path: Path) -> str:
    pointer = "/".join(["", *map(str, path)])
    if pointer.count("/") == len(path) and "~" not in pointer:
        return pointer
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _path(pointer: Any) -> Path:
    """Read a JSON pointer. A step that is written as an index may still be a key: value_at() sees which."""
    return tuple(_step(step) for step in str(pointer).split("/")[1:])


def _step(step: str) -> str | int:
    if step.isdecimal() and len(step) <= _LONGEST_INDEX and str(int(step)) == step:
        return int(step)
    return step.replace("~1", "/").replace("~0", "~")


def count_originals(path: FilePath) -> int:
    """Return how many originals a journal names, as far as it can be read."""
    try:
        return len({record.sha256 for record in load(path).lines if record.place is not None})
    except Damaged:
        return 0
