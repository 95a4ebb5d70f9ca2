"""The records of a journal: their fields, and their bytes.

    {"type": "line", "original": {"sha256", "frame", "offset", "bytes"}, "rewrittenSha256"}
    {"type": "block", "ref", "line", "path", "kind", "tool", "callId", "bytes", "lines", "xxh3", "replacement", ...}
    {"type": "run", "at", "version", "policy", "originalSize", "compressedSize", "storeSize", "sessionId", ...}

A block record belongs to the line record before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO, NamedTuple

import orjson

from sessioncompress.core.jsonl import loads
from sessioncompress.core.model import NO_PREFIX, JsonPath, Kind, Origin, OurKey, Prefix
from sessioncompress.errors import NOT_CHANGED, FileFailed
from sessioncompress.store import zstd
from sessioncompress.store.originals import Place

Bytes = bytes
"""The type, where a record has a field of that name."""

_LONGEST_DIGEST = 64
_REPLACEMENT_DIGITS = 32
_LONGEST_INDEX = 9
_LONGEST_SHARED = 256
"""Characters of a path that is held once for all blocks that have it."""

_MOST_RECORD_BYTES = 1024 * 1024
"""Many times what we write: small values in JSON take thirty times as much memory."""
LONGEST_RECORD = 64 * 1024
"""Bytes of a record that is written; only a policy's lists, or a name of a tool, a call or a key, make one so long."""
_TOO_MANY = 1 << 62
"""No file has so many bytes; the system takes no position behind it."""

_TIMES = range(-(1 << 63), 1 << 63)
"""Nanoseconds since 1970 that a record holds: the years 1677 to 2262. A file system may give a file others."""
_LONGEST_ID = 1024
"""Characters. No agent's id of a session is nearly as long."""

_COUNTED = ("lines", "blocks")
_PREFIX = (
    "format",
    "bytes",
    "lines",
    "xxh3",
    "turns",
    "characters",
    "notUnderstood",
    "imitated",
    "inCalls",
    "whole",
    "behind",
)

UNKNOWN_IN_CALLS = "unknownMarkersInCalls"
"""Among a run's statistics: in how many arguments of calls a marker stood that was older than the journal."""

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
        return encode_line(*self)


def encode_line(sha256: str, place: Place | None, rewritten: str) -> bytes:
    """Return the record of a line as a line of the journal."""
    return (_LINE % (sha256, "" if place is None else _PLACE % place, rewritten)).encode()


class BlockRecord(NamedTuple):
    """A replaced value: its reference, where it stands in the original line, and what replaced it.

    `xxh3` is the XXH3-64 of the content, `replacement` the first 16 bytes of the SHA-256 of the JSON text that
    stands in its place (empty where it was taken out). `line` is the line's number when it was rewritten.
    """

    ref: str
    line: int
    path: JsonPath
    kind: Kind
    tool: str
    call: str
    bytes: int
    lines: int
    xxh3: str
    replacement: Bytes = b""
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
            record["replacement"] = self.replacement.hex()
        if self.file:
            record |= {"file": self.file, "gitBlob": self.git_blob}
        return _line(record)

    def identities(self) -> tuple[OurKey, ...]:
        """Return what identifies the replacement in a session; an image's is a text of a result or of a prompt."""
        if not self.replacement:
            return ()
        kinds = (Kind.RESULT, Kind.IMAGE) if self.kind is Kind.IMAGE else (self.kind,)
        return tuple((self.replacement, kind, self.call) for kind in kinds)

    @property
    def origin(self) -> Origin:
        """Return what a marker says of the original."""
        return Origin(self.ref, self.xxh3, self.path, self.bytes, self.lines)


class RunRecord(NamedTuple):
    """One run that changed the session. Sizes in bytes; `store_size` is the length of the originals file then.

    `records` says how many of lines and of blocks it added to the journal; `originals_sha256` what it
    appended to the originals comes to; `session_id` is that of the session's header. A journal of version 0.1.0 has
    none of these.

    `modified` is the session's modification time, in nanoseconds since 1970, `prefix` the part of it that is finished,
    so that the next run need not read it again, and `start` the byte of the journal at which the run's records begin.
    A run that restored has none of them.
    """

    at: str
    version: str
    policy: Mapping[str, Any]
    original_size: int
    compressed_size: int
    store_size: int
    boundary: int
    stats: Mapping[str, Any]
    restored: bool = False
    records: tuple[int, int] | None = None
    originals_sha256: str = ""
    session_id: str = ""
    modified: int = 0
    start: int = 0
    prefix: Prefix = NO_PREFIX

    def encode(self) -> bytes:
        """Return the record as a line of the journal, without a session's time or id that none can hold."""
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
        if self.restored:
            record["restored"] = True
        if self.records is not None:
            record["records"] = dict(zip(_COUNTED, self.records, strict=True))
        if self.originals_sha256:
            record["originalsSha256"] = self.originals_sha256
        if 0 < len(self.session_id) <= _LONGEST_ID:
            record["sessionId"] = self.session_id
        if self.modified and self.modified in _TIMES:
            record["modifiedNs"] = self.modified
        if self.prefix.size:
            record["journalStart"] = self.start
            record["prefix"] = dict(zip(_PREFIX, self.prefix, strict=True))
        return _line(record)


Record = LineRecord | BlockRecord | RunRecord


def raw_records(file: BinaryIO) -> Iterator[Bytes]:
    """Yield the lines of a journal from where the file stands; none is longer than is good for the memory."""
    return iter(lambda: file.readline(_MOST_RECORD_BYTES), b"")


def decode(raw: bytes) -> Record:
    """Read a line of the journal. Raises ValueError, KeyError or TypeError where it is no record."""
    return _record(loads(raw), ended=raw.endswith(b"\n"))


def reads_back(raw: bytes) -> bool:
    """Say whether a record, as it is to be written, is read as what it was made of."""
    try:
        return len(raw) <= LONGEST_RECORD and decode(raw).encode() == raw
    except (ValueError, KeyError, TypeError):
        return False


def readable(run: RunRecord, journal: Path) -> RunRecord:
    """Return a run's record, which is about to be appended to a journal. Raises FileFailed where none could read it."""
    if reads_back(run.encode()):
        return run
    raise FileFailed(
        "the record of this run could not be read again: its policy is too long, or holds what is no JSON",
        where=journal,
        state=NOT_CHANGED,
        remedy="Shorten the policy's lists.",
    )


def _record(record: Mapping[str, Any], *, ended: bool) -> Record:
    kind = record["type"]
    if kind == "line":
        return _line_record(record)
    if kind == "block":
        return _block_record(record)
    if kind == "run" and ended:
        return _run_record(record)
    raise ValueError(f"an unknown record type {kind!r}")


def decode_block(raw: bytes) -> BlockRecord:
    """Read a line of the journal that holds a block record."""
    return _block_record(orjson.loads(raw))


def _line_record(record: Mapping[str, Any]) -> LineRecord:
    original = record["original"]
    place = None
    if "frame" in original:
        place = Place(_count(original["frame"]), _count(original["offset"]), _count(original["bytes"]))
    return LineRecord(_digest(original["sha256"]), place, _digest(record["rewrittenSha256"]))


def _block_record(record: Mapping[str, Any]) -> BlockRecord:
    return BlockRecord(
        ref=_some_hex(record["ref"]),
        line=_count(record["line"]),
        path=_path(record["path"]),
        kind=Kind(record["kind"]),
        tool=intern(str(record.get("tool", ""))),
        call=str(record.get("callId", "")),
        bytes=_count(record["bytes"]),
        lines=_count(record["lines"]),
        xxh3=_some_hex(record["xxh3"]),
        replacement=_replacement(record.get("replacement")),
        file=intern(str(record.get("file", ""))),
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
        restored=record.get("restored") is True,
        records=_counts(record.get("records")),
        originals_sha256=_digest(record["originalsSha256"]) if "originalsSha256" in record else "",
        session_id=str(record.get("sessionId", "")),
        modified=_time(record.get("modifiedNs", 0)),
        start=_count(record.get("journalStart", 0)),
        prefix=_prefix(record.get("prefix")),
    )


def _line(record: Mapping[str, Any]) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _TOO_MANY:
        raise ValueError(f"not a count: {value!r}")
    return value


def _time(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value not in _TIMES:
        raise ValueError(f"not a time: {value!r}")
    return value


def _hex(value: Any) -> str:
    if not isinstance(value, str) or value.strip("0123456789abcdef") or len(value) > _LONGEST_DIGEST:
        raise ValueError(f"not a digest: {value!r}")
    return value


def _digest(value: Any, digits: int = _LONGEST_DIGEST) -> str:
    if len(_hex(value)) != digits:
        raise ValueError(f"not {digits} digits of a SHA-256: {value!r}")
    return str(value)


def _some_hex(value: Any) -> str:
    if not _hex(value):
        raise ValueError("a digest without digits")
    return str(value)


def _replacement(value: Any) -> bytes:
    return bytes.fromhex(_digest(value, _REPLACEMENT_DIGITS)) if value else b""


def _prefix(value: Any) -> Prefix:
    """Read what a run noted for the next one; what is no such note, of another version perhaps, is no damage."""
    with suppress(KeyError, TypeError, ValueError):
        form, size, lines, digest, *counts, behind = (value[key] for key in _PREFIX)
        digest, ours = _digest(digest, _REPLACEMENT_DIGITS), tuple(map(_some_hex, behind))
        return Prefix._make([str(form), _count(size), _count(lines), digest, *map(_count, counts), ours])
    return NO_PREFIX


def _counts(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    lines, blocks = (_count(value[key]) for key in _COUNTED)
    return lines, blocks


def _stats(value: Any) -> dict[str, Any]:
    """Read the numbers of a run; later runs count on two of them."""
    stats = dict(value)
    for name in ("turns", UNKNOWN_IN_CALLS):
        _count(stats.get(name, 0))
    return stats


@lru_cache(maxsize=1024)
def _pointer(path: JsonPath) -> str:
    pointer = "/".join(["", *map(str, path)])
    if pointer.count("/") == len(path) and "~" not in pointer:
        return pointer
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _path(pointer: Any) -> JsonPath:
    """Read a JSON pointer. A step that is written as an index may still be a key: value_at() sees which."""
    text = str(pointer)
    return _read_path(text) if len(text) <= _LONGEST_SHARED else _steps(text)


@lru_cache(maxsize=1024)
def _read_path(pointer: str) -> JsonPath:
    return _steps(pointer)


def _steps(pointer: str) -> JsonPath:
    return tuple(_step(step) for step in pointer.split("/")[1:])


def _step(step: str) -> str | int:
    if step.isdecimal() and len(step) <= _LONGEST_INDEX and str(int(step)) == step:
        return int(step)
    return step.replace("~1", "/").replace("~0", "~")


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


_CHUNK = 256 * 1024
_FAST = 1
_DIGEST = 32


class PendingRecords:
    """Line records whose originals have an index but no place yet, each with its encoded block records."""

    def __init__(self) -> None:
        self._numbers = array("I")
        self._indexes = array("q")
        self._lengths = array("I")
        self._digests = bytearray()
        self._known: dict[int, Place] = {}
        self._chunks: list[bytes] = []
        self._tail = bytearray()
        self.blocks = 0
        """How many block records there are."""

    def __len__(self) -> int:
        return len(self._indexes)

    def add(
        self, number: int, sha256: bytes, rewritten: bytes, index: int | None, known: Place | None, blocks: bytes
    ) -> None:
        """Add a rewritten line by its number, which is greater than those before it.

        `index` is that of its original in this run, `known` the original's place from an earlier one.

        Neither is given where no originals are kept.
        """
        if known is not None:
            self._known[len(self)] = known
        self._numbers.append(number)
        self.blocks += blocks.count(b"\n")
        self._indexes.append(-1 if index is None else index)
        self._digests += sha256 + rewritten
        self._lengths.append(len(blocks))
        self._tail += blocks
        if len(self._tail) >= _CHUNK:
            self._chunks.append(zstd.compress(self._tail, _FAST))
            self._tail = bytearray()

    def encode(self, places: Sequence[Place]) -> Iterator[bytes]:
        """Yield the records, line by line, as the journal takes them."""
        blocks = self._blocks()
        for row in range(len(self)):
            yield encode_line(*self._line(row, self._place(row, places))) + next(blocks)

    def size(self, places: Sequence[Place]) -> int:
        """Return how many bytes encode() yields; only a place's digits differ from line to line."""
        sized = sum(len(encode_line("", self._place(row, places), "")) for row in range(len(self)))
        return sized + 4 * _DIGEST * len(self) + sum(self._lengths)

    def of(self, numbers: Container[int]) -> Iterator[LineRecord | BlockRecord]:
        """Yield the records of some lines, without places."""
        for row, (number, blocks) in enumerate(zip(self._numbers, self._blocks(), strict=True)):
            if number in numbers:
                yield LineRecord(*self._line(row, None))
                yield from (decode_block(raw) for raw in blocks.splitlines())

    def original_of(self, number: int) -> bytes:
        """Return the SHA-256 of a line's original. Raises KeyError where the line was not added."""
        row = bisect_left(self._numbers, number)
        if self._numbers[row : row + 1] != array("I", [number]):
            raise KeyError(number)
        return bytes(self._digests[row * 2 * _DIGEST : (row * 2 + 1) * _DIGEST])

    def _place(self, row: int, places: Sequence[Place]) -> Place | None:
        index = self._indexes[row]
        return places[index] if index >= 0 else self._known.get(row)

    def _line(self, row: int, place: Place | None) -> tuple[str, Place | None, str]:
        start = row * 2 * _DIGEST
        sha256, rewritten = self._digests[start : start + _DIGEST], self._digests[start + _DIGEST : start + 2 * _DIGEST]
        return sha256.hex(), place, rewritten.hex()

    def _blocks(self) -> Iterator[bytes]:
        """Yield the block records of each line; a chunk may end anywhere between two lines."""
        chunks = iter([*self._chunks, None])
        content, position = b"", 0
        for length in self._lengths:
            if position == len(content) and length:
                chunk = next(chunks)
                content, position = bytes(self._tail) if chunk is None else zstd.decompress(chunk), 0
            yield content[position : position + length]
            position += length
