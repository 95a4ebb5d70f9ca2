"""The records of a journal: their fields, and their bytes.

    {"type": "edit", "was": {"sha256", "frame", "offset", "bytes"}, "isSha256", "line"}
    {"type": "git-edit", "was": {"sha256", "blob", "offset", "bytes"}, "isSha256", "line"}
    {"type": "line", "original": {"sha256", "frame", "offset", "bytes"}, "rewrittenSha256"}
    {"type": "block", "ref", "line", "path", "kind", "tool", "callId", "bytes", "lines", "sha256", "replacement", ...}
    {"type": "run", "at", "version", "policy", "originalSize", "compressedSize", "storeSize", "sessionId", ...}
    {"type": "dropped", "original": {"sha256", "frame", "offset", "bytes"}, "lines", "runs": [[after, bytes], ...]}
    {"type": "checkpoint", "format", "by", "rule", "lines": [sha256, ...], "refs", "tokensBefore", "tokensAfter"}

An edit records what a line held before its run; in stores of 1.0.0, a line record has what the agent wrote instead.
A block record belongs to the edit or line before it, and dropped records to the checkpoint after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO, NamedTuple

import orjson

from sessioncompress.core.jsonl import loads
from sessioncompress.core.model import JsonPath, Kind, Origin, OurKey
from sessioncompress.core.references import DIGITS, is_of_first_stores
from sessioncompress.errors import FileFailed
from sessioncompress.store import disk
from sessioncompress.store.layout import LONGEST, named_in
from sessioncompress.store.lock import open_file
from sessioncompress.store.machine import signature
from sessioncompress.store.originals import InBlob, InFrame

Bytes = bytes
"""Alias of the type, for classes with a field named `bytes`."""

_DIGEST_DIGITS = 64
_SHA1_DIGITS = 40
"""Digits of a git blob's id; a SHA-256 repository has _DIGEST_DIGITS."""
_REPLACEMENT_DIGITS = 32
_LONGEST_INDEX = 9
_LONGEST_SHARED = 256
"""Maximum characters of a path that is shared by all blocks that have it."""

LONGEST_RECORD = 64 * 1024
"""Maximum bytes of a written record. Only a policy's lists or the name of a tool, call or key make one that long."""
_COUNTS = range(1 << 62)
"""No file is larger, and the system accepts no position beyond it."""

_TIMES = range(-(1 << 63), 1 << 63)
"""Nanoseconds since 1970 that a record can hold: the years 1677 to 2262. File systems may report other times."""
_LONGEST_ID = 1024
"""Characters. No agent's session id is nearly as long."""


class RunKind(StrEnum):
    """The action of a run on a session, as recorded."""

    COMPRESS = "compress"
    COMPACT = "compact"
    BRANCH = "branch-summary"
    RESTORE = "restore"
    RESTORE_RUN = "restore --run"
    RESTORE_LINES = "restore --keep-checkpoints"
    RESTORE_MARKERS = "restore --from-markers"


_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")
_COMMAND = re.compile(r"[a-z -]{1,40}")

UNKNOWN_IN_CALLS = "unknownMarkersInCalls"
"""A run's statistic: the number of call arguments with a marker that is older than the journal."""

_LINE = '{"type":"line","original":{"sha256":"%s"%s},"rewrittenSha256":"%s"}\n'
_EDIT = '{"type":"edit","was":{"sha256":"%s"%s},"isSha256":"%s"%s}\n'
_PLACE = ',"frame":%d,"offset":%d,"bytes":%d'
_IN_GIT = '{"type":"git-edit","was":{"sha256":"%s","blob":"%s","offset":%d,"bytes":%d},"isSha256":"%s"%s}\n'


class LineRecord(NamedTuple):
    """A rewritten line: the SHA-256 of its old and its new content, and the place of the old content.

    `place` is None if no originals are stored; then only `sha256` identifies the old content. For an `edit` that is
    the line before the run, else the line that the agent wrote, whatever runs came between. `line` is the line number
    at the time of the rewrite, or -1 if block records have it.
    """

    sha256: str
    place: InFrame | InBlob | None
    rewritten: str
    edit: bool = False
    line: int = -1

    def encode(self) -> bytes:
        """Return the record as a line of the journal."""
        line = "" if self.line < 0 else f',"line":{self.line}'
        if isinstance(self.place, InBlob):
            # A separate type, so that a version that does not know this kind of place rejects the journal.
            return (_IN_GIT % (self.sha256, *self.place, self.rewritten, line)).encode()
        place = "" if self.place is None else _PLACE % self.place
        if not self.edit:
            return (_LINE % (self.sha256, place, self.rewritten)).encode()
        return (_EDIT % (self.sha256, place, self.rewritten, line)).encode()


class BlockRecord(NamedTuple):
    """A replaced value: its reference, its path in the original line, and its replacement.

    `digest` starts with the reference. It is the SHA-256 of the content, cut to its first digits; in stores of 1.0.0
    the XXH3-64. `replacement` is the first 16 bytes of the SHA-256 of the JSON text that replaced the value, or empty
    if the value was removed. `line` is the line number at the time of the rewrite.
    """

    ref: str
    line: int
    path: JsonPath
    kind: Kind
    tool: str
    call: str
    bytes: int
    lines: int
    digest: str
    replacement: Bytes = b""
    file: str = ""
    git_blob: str = ""

    def encode(self) -> Bytes:
        """Return the record as a line of the journal; unknown values are omitted."""
        record: dict[str, Any] = {"type": "block", "ref": self.ref, "line": self.line, "path": _pointer(self.path)}
        record |= {"kind": self.kind, "bytes": self.bytes, "lines": self.lines}
        record["xxh3" if is_of_first_stores(self.digest) else "sha256"] = self.digest
        if self.tool or self.call:
            record |= {"tool": self.tool, "callId": self.call}
        if self.replacement:
            record["replacement"] = self.replacement.hex()
        if self.file:
            record |= {"file": self.file, "gitBlob": self.git_blob}
        # A copy, because orjson 3.13 leaves 4 KB to what it returns, and a run keeps its records until the end.
        return orjson.dumps(record) + b"\n"

    def identities(self) -> tuple[OurKey, ...]:
        """Return the keys that identify the replacement in a session. An image's is in a result or in a prompt."""
        kinds = (Kind.RESULT, Kind.IMAGE) if self.kind is Kind.IMAGE else (self.kind,)
        return tuple((self.replacement, kind, self.call) for kind in kinds) if self.replacement else ()

    @property
    def origin(self) -> Origin:
        """The facts about the original that a marker gives."""
        return Origin(self.ref, self.digest, self.path, self.bytes, self.lines)


class RunRecord(NamedTuple):
    """One run that changed the session. Sizes are in bytes; `store_size` is the length of the originals file after it.

    `records` counts the line and block records that it added to the journal; `originals_sha256` is the digest of the
    bytes that it appended to the originals; `session_id` is from the session's header.

    `modified` is the session's modification time in nanoseconds since 1970; a restore has none. `digest` is the
    XXH3-128 of the session after the run, in hex; the first runs recorded none.

    `id` identifies the command's run and is the same in all sessions that it wrote; a restore has none. `command` is
    the action on this session. For a restore, `undoes` lists the ids of the runs that it took back, or is None for all.

    `again` lists line records of undone runs that this run would otherwise repeat: ranges of a first row and a count.

    `is_ours` is never written: it is true if this user, on this machine, signed the run and all of the journal before.
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
    digest: str = ""
    id: str = ""
    command: str = ""
    again: tuple[tuple[int, int], ...] = ()
    undoes: tuple[str, ...] | None = None
    is_ours: bool = False

    @property
    def is_restore(self) -> bool:
        """True if the run took other runs back."""
        return self.command.startswith(RunKind.RESTORE)

    @property
    def writes_checkpoint(self) -> bool:
        """True if the run wrote a checkpoint and rewrote no line."""
        return self.command in (RunKind.COMPACT, RunKind.BRANCH)

    def encode(self) -> bytes:
        """Return the record as a line of the journal, without a modification time or session id out of bounds."""
        record: dict[str, Any] = {"type": "run", "at": self.at}
        named = (("id", self.id), ("command", self.command), ("again", self.again))
        record |= {key: value for key, value in named if value}
        if self.undoes is not None:
            record["undoes"] = self.undoes
        record |= {"version": self.version, "policy": dict(self.policy)}
        record |= {"originalSize": self.original_size, "compressedSize": self.compressed_size}
        record |= {"storeSize": self.store_size, "boundary": self.boundary, "stats": dict(self.stats)}
        if self.restored:
            record["restored"] = True
        if self.records is not None:
            record["records"] = {"lines": self.records[0], "blocks": self.records[1]}
        if self.originals_sha256:
            record["originalsSha256"] = self.originals_sha256
        if 0 < len(self.session_id) <= _LONGEST_ID:
            record["sessionId"] = self.session_id
        if self.modified and self.modified in _TIMES:
            record["modifiedNs"] = self.modified
        if self.digest:
            record["compressedXxh3"] = self.digest
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


class Dropped(NamedTuple):
    """Lines that left the session for a checkpoint: their place as one text, their number, and their old positions.

    Each item of `runs` has the number of lines to skip in the remaining session since the previous item; the SHA-256
    of our line to remove there, or ""; and the number of bytes to insert there.
    """

    sha256: str
    place: InFrame
    lines: int
    runs: tuple[tuple[int, str, int], ...]

    def encode(self) -> Bytes:
        """Return the record as a line of the journal."""
        record: dict[str, Any] = {"type": "dropped", "original": {"sha256": self.sha256, **self.place._asdict()}}
        record["lines"] = self.lines
        record["runs"] = [[after, size, digest] if digest else [after, size] for after, digest, size in self.runs]
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


class CheckpointRecord(NamedTuple):
    """A checkpoint in the session: the SHA-256 of each of its lines, and the references of its summary.

    `by` is the summary's author, `model` the model that an endpoint was asked for. `rule` decided where to cut, `goal`
    is how the summary's goal was found, `trigger` is why the run acted. `tokens` count what the model reads, without
    and with the checkpoint. `removed` is the SHA-256 and the place of the part of a document that it replaced.
    `unended` is true if the line before the checkpoint had no LF. `ended` is true if a restore removed the checkpoint.
    `dropped` are separate records, and `drops` their number (None in journals of 1.0). `originals`, if runs had
    rewritten lines that the checkpoint repeats, lists the SHA-256 of each of its lines as if they had not; it
    identifies the lines whatever later runs do to them. `preserved` is the JSON to pass back to the user's command.
    `summary` is the SHA-256 of the summary's text: a line with another summary is not ours, even if it looks like it.
    `alike` is true if the same lines were once written with dropped lines and once without, so that a backup of the
    session may contain either; see Journal.add().
    """

    form: str
    by: str
    rule: str
    lines: tuple[str, ...]
    refs: tuple[str, ...]
    tokens: tuple[int, int]
    removed: tuple[str, InFrame] | None = None
    unended: bool = False
    ended: bool = False
    rehung: tuple[str, ...] = ()
    """If `ended`: the originals of rewritten lines to which the restore gave another parent."""
    dropped: tuple[Dropped, ...] = ()
    alike: bool = False
    originals: tuple[str, ...] = ()
    model: str = ""
    goal: str = ""
    trigger: str = ""
    preserved: str = ""
    summary: str = ""
    drops: int | None = None

    def encode(self) -> bytes:
        """Return the record as a line of the journal."""
        record: dict[str, Any] = {"type": "checkpoint"}
        record |= {"format": self.form, "by": self.by, "rule": self.rule, "lines": self.lines, "refs": self.refs}
        record |= {"tokensBefore": self.tokens[0], "tokensAfter": self.tokens[1]}
        if self.removed is not None:
            record["removed"] = {"sha256": self.removed[0], **self.removed[1]._asdict()}
        record |= {key: True for key in ("unended", "ended") if getattr(self, key)}
        if self.drops is not None:
            record["dropped"] = self.drops
        if self.rehung:
            record["rehung"] = self.rehung
        if self.originals:
            record["originals"] = self.originals
        said = {"model": self.model, "goalMethod": self.goal, "trigger": self.trigger, "summarySha256": self.summary}
        record |= {name: text for name, text in said.items() if text}
        record |= {"preserveData": orjson.loads(self.preserved)} if self.preserved else {}
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


Record = LineRecord | BlockRecord | Dropped | CheckpointRecord | RunRecord


_IS_RUN = re.compile(rb'"type": ?"run"')
"""Allows a space, because another JSON library may have written a journal that was repaired by hand."""


def may_be_run(raw: bytes) -> bool:
    """True if a record may be a run's; does not decode it."""
    return _IS_RUN.search(raw) is not None


def raw_records(file: BinaryIO) -> Iterator[Bytes]:
    """Yield the lines of a journal from the file's position on; a longer line is cut to limit memory."""
    # Decoded JSON of small values takes thirty times as much memory.
    return iter(lambda: file.readline(LONGEST), b"")


def decode(raw: bytes) -> Record:
    """Decode a line of the journal. Raises ValueError, KeyError or TypeError if it is not a record."""
    record = loads(raw)
    kind = record["type"]
    if kind in ("edit", "git-edit", "line"):
        is_edit = kind != "line"
        was, now = (record["was"], record["isSha256"]) if is_edit else (record["original"], record["rewrittenSha256"])
        place: InFrame | InBlob | None = None
        if kind == "git-edit":
            blob = intern(_hex(was["blob"], _DIGEST_DIGITS if len(was["blob"]) > _SHA1_DIGITS else _SHA1_DIGITS))
            place = InBlob(blob, _count(was["offset"]), _count(was["bytes"]))
        elif "frame" in was:
            place = _place(was)
        line = _count(record["line"]) if is_edit and "line" in record else -1
        return LineRecord(_hex(was["sha256"], _DIGEST_DIGITS), place, _hex(now, _DIGEST_DIGITS), is_edit, line)
    if kind == "block":
        ref = _hex(record["ref"])
        digest = _hex(record["sha256"], DIGITS) if "sha256" in record else _hex(record["xxh3"])
        if not digest.startswith(ref):
            raise ValueError("its reference is that of another content")
        pointer, replacement, blob = str(record["path"]), record.get("replacement"), record.get("gitBlob", "")
        return BlockRecord(
            ref=ref,
            line=_count(record["line"]),
            path=_path(pointer) if len(pointer) <= _LONGEST_SHARED else _path.__wrapped__(pointer),
            kind=Kind(record["kind"]),
            tool=intern(str(record.get("tool", ""))),
            call=intern(str(record.get("callId", ""))),
            bytes=_count(record["bytes"]),
            lines=_count(record["lines"]),
            digest=digest,
            replacement=bytes.fromhex(_hex(replacement, _REPLACEMENT_DIGITS)) if replacement else b"",
            file=intern(str(record.get("file", ""))),
            git_blob=_hex(blob) if blob != "" else "",
        )
    if kind == "dropped":
        original = record["original"]
        place = _place(original)
        runs = tuple(
            (_count(after), _hex(ours[0], _DIGEST_DIGITS) if ours else "", _count(size))
            for after, size, *ours in record["runs"]
        )
        if sum(size for *_, size in runs) != place.bytes:
            raise ValueError("its runs are not of so many bytes")
        return Dropped(_hex(original["sha256"], _DIGEST_DIGITS), place, _count(record["lines"]), runs)
    if kind == "checkpoint":
        refs = tuple(map(_hex, record["refs"]))
        lines = tuple(_hex(each, _DIGEST_DIGITS) for each in record["lines"])
        tokens = _count(record["tokensBefore"]), _count(record["tokensAfter"])
        form, by, rule = (str(record[key]) for key in ("format", "by", "rule"))
        removed = None
        if (kept := record.get("removed")) is not None:
            removed = _hex(kept["sha256"], _DIGEST_DIGITS), _place(kept)
        unended, ended = (record.get(key) is True for key in ("unended", "ended"))
        rehung = tuple(_hex(each, _DIGEST_DIGITS) for each in record.get("rehung", ()))
        originals = tuple(_hex(each, _DIGEST_DIGITS) for each in record.get("originals", ()))
        if originals and len(originals) != len(lines):
            raise ValueError("its lines are not as many as their originals")
        kept = record.get("preserveData")
        preserved = orjson.dumps(kept).decode() if isinstance(kept, dict) else ""
        model, trigger = (str(record.get(name, "")) for name in ("model", "trigger"))
        goal = str(record.get("goalMethod", ""))
        summary = record.get("summarySha256", "")
        summary = _hex(summary, _DIGEST_DIGITS) if summary else ""
        drops = _count(record["dropped"]) if "dropped" in record else None
        whole = CheckpointRecord(form, by, rule, lines, refs, tokens, removed, unended, ended, rehung, summary=summary)
        whole = whole._replace(drops=drops)
        return whole._replace(originals=originals, model=model, goal=goal, trigger=trigger, preserved=preserved)
    if kind == "run" and raw.endswith(b"\n"):
        return _run_record(record)
    raise ValueError(f"an unknown record type {kind!r}")


def reads_back(raw: bytes) -> bool:
    """True if an encoded record decodes to the same bytes."""
    try:
        return len(raw) <= LONGEST_RECORD and decode(raw).encode() == raw
    except (ValueError, KeyError, TypeError):
        return False


def readable(run: RunRecord, journal: Path) -> RunRecord:
    """Return a run after checking, before it is appended, that its record can be read again. Raises FileFailed."""
    if reads_back(run.encode()):
        return run
    raise FileFailed(
        "the record of this run could not be read back: its policy is too long, or contains something that is not JSON",
        where=journal,
        remedy="Shorten the policy's lists.",
    )


def _run_record(record: Mapping[str, Any]) -> RunRecord:
    if "command" not in record:
        raise ValueError(f"version {record['version']} wrote it, and only stores of version 1.0 and later are read")
    counts, stats, undoes = record.get("records"), dict(record["stats"]), record.get("undoes")
    # Later runs use these two as numbers.
    for name in ("turns", UNKNOWN_IN_CALLS):
        _count(stats.get(name, 0))
    return RunRecord(
        at=str(record["at"]),
        version=str(record["version"]),
        policy=dict(record["policy"]),
        original_size=_count(record["originalSize"]),
        compressed_size=_count(record["compressedSize"]),
        store_size=_count(record["storeSize"]),
        boundary=int(record["boundary"]),
        stats=stats,
        restored=record.get("restored") is True,
        records=None if counts is None else (_count(counts["lines"]), _count(counts["blocks"])),
        originals_sha256=_hex(record["originalsSha256"], _DIGEST_DIGITS) if "originalsSha256" in record else "",
        session_id=str(record.get("sessionId", "")),
        modified=_count(record.get("modifiedNs", 0), _TIMES),
        digest=_hex(record["compressedXxh3"], _REPLACEMENT_DIGITS) if "compressedXxh3" in record else "",
        id=_matching(_ID, record["id"]) if "id" in record else "",
        command=_matching(_COMMAND, record["command"]),
        again=tuple((_count(first), _count(number)) for first, number in record.get("again", ())),
        undoes=None if undoes is None else tuple(_matching(_ID, each) for each in undoes),
    )


def _place(record: Mapping[str, Any]) -> InFrame:
    return InFrame(*(_count(record[key]) for key in InFrame._fields))


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"not a name of ours: {value!r}")
    return value


def _count(value: Any, allowed: range = _COUNTS) -> int:
    if type(value) is not int or value not in allowed:
        raise ValueError(f"not a number that can stand there: {value!r}")
    return value


def _hex(value: Any, digits: int = 0) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _DIGEST_DIGITS or value.strip("0123456789abcdef"):
        raise ValueError(f"not the hex digits of a digest: {value!r}")
    if digits and len(value) != digits:
        raise ValueError(f"not {digits} digits of a SHA-256: {value!r}")
    return value


@lru_cache(maxsize=1024)
def _pointer(path: JsonPath) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


@lru_cache(maxsize=1024)
def _path(pointer: str) -> JsonPath:
    """Parse a JSON pointer. A step that looks like an index may still be a key: value_at() decides."""
    return tuple(
        int(step)
        if step.isdecimal() and len(step) <= _LONGEST_INDEX and str(int(step)) == step
        else step.replace("~1", "/").replace("~0", "~")
        for step in pointer.split("/")[1:]
    )


_FIELD = b',"sha256":"'
_END = b'"}\n'


def sealed(records: Iterable[bytes], run: RunRecord, journal: Path, size: int) -> Iterator[bytes]:
    """Yield a run's records for appending to the journal. The run's own is last, and commits the others.

    `size` is the journal's committed length in bytes. The signature is this user's, because others may plant a journal.
    """
    seal, before = sha256(), sha256(named_in(journal))
    if size:
        with disk.closing(open_file(journal)) as fd, disk.reader(fd, 0, size) as file:
            for piece in iter(lambda: file.read(disk.BUFFER), b""):
                before.update(piece)
    for record in records:
        seal.update(record)
        before.update(record)
        yield record
    body = run.encode().removesuffix(b"}\n")
    body += signature(before, body)
    seal.update(body)
    yield body + _FIELD + seal.hexdigest().encode() + _END


def unsealed(raw: bytes) -> tuple[bytes, bytes]:
    """Split a run's record into the bytes that its seal covers and the seal in hex, or return two empty values."""
    body, _, seal = raw.rpartition(_FIELD)
    return body, seal.removesuffix(_END) if body else b""
