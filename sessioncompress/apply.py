"""The second reading: each planned line to its rewritten form, with the records that the journal will keep of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

from sessioncompress.compressors import View
from sessioncompress.errors import InUse
from sessioncompress.jsonl import Piece
from sessioncompress.model import Change, Kind, Line, Origin, OurKey, Path, Purpose, Replacement, Survey
from sessioncompress.plan import Plan, counts
from sessioncompress.references import References, digest_of, git_blob
from sessioncompress.rewrite import Rewritten, rewrite
from sessioncompress.splice import REMOVED, CannotSplice, literal
from sessioncompress.store.journal import BlockRecord, Journal, LineRecord
from sessioncompress.store.originals import Place
from sessioncompress.survey import parse
from sessioncompress.verify import broken

IN_USE = "it changed while it was being read"


class Sink(Protocol):
    """Where the new session and the originals go."""

    def write(self, data: bytes) -> None: ...

    def keep(self, line: bytes) -> int: ...


@dataclass(slots=True)
class Tally:
    """What the replacements of a run come to."""

    calls: set[str] = field(default_factory=set)
    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    redundancies: int = 0
    removed: int = 0


@dataclass(slots=True)
class Pending:
    """A rewritten line whose original has an index, but no place yet (`known`: it was stored by an earlier run)."""

    sha256: str
    index: int
    known: Place | None
    rewritten: str
    blocks: bytes

    def encode(self, places: tuple[Place, ...]) -> bytes:
        """Return the line's records."""
        place = self.known if self.index < 0 else places[self.index]
        return LineRecord(self.sha256, place, self.rewritten).encode() + self.blocks


@dataclass(slots=True)
class Applied:
    """What one pass did: the changed lines as they are now, their records, and the lines that bore no change."""

    changed: dict[int, Line] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    ours: dict[OurKey, Origin] = field(default_factory=dict)
    left_alone: set[int] = field(default_factory=set)
    again: bool = False
    tally: Tally = field(default_factory=Tally)


class Applier:
    """Makes the changes of a plan while a session is read for the second time."""

    def __init__(
        self, view: View, plan: Plan, known: dict[int, LineRecord], journal: Journal, sink: Sink, where: str
    ) -> None:
        self._view = view
        self._plan = plan
        self._known = known
        self._references = References((block.ref, block.xxh3) for _, block in journal.blocks)
        self._stored = {record.sha256: record for record in journal.lines}
        self._by_rewritten = journal.by_rewritten()
        self._sink = sink
        self._where = where
        self._keeps = view.policy.keep_backup
        self.done = Applied()

    def run(self, stream: Iterable[Piece]) -> Applied:
        """Write every line, changed or not, to the sink. Raises InUse if the session is not what was surveyed."""
        for number, raw, whole in stream:
            changes = self._plan.changes.get(number) if whole else None
            self._sink.write(self._changed(number, raw, changes) if changes else raw)
        self._leave_doubles()
        return self.done

    def _changed(self, number: int, raw: bytes, changes: tuple[Change, ...]) -> bytes:
        entry = parse(raw)
        if entry is None or xxh3_64_intdigest(raw) != self._view.lines[number].digest:
            raise InUse(IN_USE, where=self._where, state="The session is not changed.", remedy="Run again.")
        kept = self._view.form.kept(entry)
        try:
            new = rewrite(raw, entry, changes, self._view, self._refer if self._keeps else _no_reference)
        except CannotSplice:
            new = None
        if new is None:
            self.done.left_alone.add(number)
            self.done.again |= any(change.group for change in changes)
            return raw
        if self._view.form.kept(new.entry) != kept:
            raise broken("something that must stay would change", self._where, number)
        self._record(number, raw, new)
        return new.raw

    def _refer(self, content: bytes) -> str | None:
        return self._references.refer(content)

    def _record(self, number: int, raw: bytes, new: Rewritten) -> None:
        rewritten = sha256(new.raw).hexdigest()
        known = self._known.get(number)
        original = known.sha256 if known else sha256(raw).hexdigest()
        records = [record for each in new.replacements if (record := self._block(number, each)) is not None]
        for record in records:
            self.done.ours.update(dict.fromkeys(record.keys(), record.origin))
        before = self._by_rewritten.get(rewritten)
        if before is not None and before.sha256 != original:
            self.done.left_alone.add(number)
            self.done.again = True
        if before is None:
            blocks = b"".join(record.encode() for record in records)
            self.done.pending.append(self._pending(raw, original, rewritten, blocks))
        self.done.changed[number] = self._view.form.reader().line(new.raw, new.entry)
        self._count(number, new.replacements)

    def _pending(self, raw: bytes, original: str, rewritten: str, blocks: bytes) -> Pending:
        """Keep the original, unless an earlier run did."""
        stored = self._stored.get(original)
        if stored is not None and (stored.place is not None or not self._keeps):
            return Pending(original, -1, stored.place, rewritten, blocks)
        return Pending(original, self._sink.keep(raw) if self._keeps else -1, None, rewritten, blocks)

    def _block(self, number: int, each: Replacement) -> BlockRecord | None:
        block = each.change.block
        if block is None or (each.content is None and each.origin is None):
            return None
        digest = self._digest(each, block.kind)
        if each.origin is not None or each.content is None:
            origin = each.origin
            return None if origin is None else BlockRecord(
                origin.ref, number, each.path, block.kind, block.tool, block.call, origin.bytes, origin.lines,
                origin.ref, digest,
            )
        made = self._view.call(number, block)
        file = made.file if made and made.purpose in (Purpose.READ, Purpose.WRITE) else ""
        whole = made is not None and bool(file) and _is_whole_file(block.kind, made.purpose, made.part, each.path)
        return BlockRecord(
            self._references.refer(each.content), number, each.path, block.kind, block.tool, block.call,
            len(each.content), each.content.count(b"\n") + 1, xxh3_64_hexdigest(each.content), digest,
            file if whole else "", git_blob(each.content) if whole else "",
        )

    def _digest(self, each: Replacement, kind: Kind) -> str:
        """Return what identifies the text that stands in the value's place; an image's is inside a content part."""
        if each.value is REMOVED or kind is Kind.MIRROR:
            return ""
        text = self._view.form.part_text(each.value) if kind is Kind.IMAGE else each.value
        return digest_of(literal(text)).hex()

    def _count(self, number: int, replacements: Iterable[Replacement]) -> None:
        tally = self.done.tally
        for each in replacements:
            block = each.change.block
            if block is None:
                continue
            if block.kind is Kind.ARGUMENT:
                tally.calls.add(f"{number}:{block.call}")
            else:
                tally.counts[block.kind] += 1
            tally.redundancies += bool(each.change.note)
            if each.origin is None and each.content is not None and counts(block, self._view.policy):
                old = len(literal(each.content.decode())) if block.kind in (Kind.ARGUMENT, Kind.RESULT) else block.size
                tally.removed += old - (0 if each.value is REMOVED else len(literal(each.value)))

    def _leave_doubles(self) -> None:
        """A rewritten line must be no other line's original or rewriting: restore could not tell them apart."""
        ours = {line.digest: number for number, line in self.done.changed.items()}
        doubles = {number for number, line in self.done.changed.items() if ours[line.digest] != number}
        for number, line in enumerate(self._view.lines):
            other = ours.get(line.digest)
            if other is not None and number not in self.done.changed:
                doubles.add(other)
        self.done.left_alone |= doubles
        self.done.again |= bool(doubles)


def after(found: Survey, applied: Applied) -> Survey:
    """Return the survey of the session as it is after the changes."""
    lines = list(found.lines)
    for number, line in applied.changed.items():
        lines[number] = line
    size = sum(line.size for line in lines)
    return Survey(tuple(lines), found.shape, size)


def _no_reference(content: bytes) -> str | None:
    del content
    return None


def _is_whole_file(kind: Kind, purpose: Purpose, part: str, path: Path) -> bool:
    """Say whether the content is all of the file that the call names, so that git may hold it too."""
    if kind is Kind.ARGUMENT:
        return purpose is Purpose.WRITE and path[-1] == "content"
    return kind is Kind.RESULT and purpose is Purpose.READ and not part
