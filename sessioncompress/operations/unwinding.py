"""A session of lines as it was before the checkpoints of ours, where lines left it for one of them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from io import BytesIO
from itertools import groupby, takewhile
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any, BinaryIO

from sessioncompress.checkpoints.merge import HEAD
from sessioncompress.core import jsonl
from sessioncompress.core.jsonl import LINE_CAP, Piece
from sessioncompress.core.model import JsonPath
from sessioncompress.core.splice import CannotSplice, cuts_of, splice
from sessioncompress.core.text import counted
from sessioncompress.errors import NOT_CHANGED, Damaged, failing
from sessioncompress.formats.base import Format
from sessioncompress.formats.values import entry_of
from sessioncompress.operations.dropping import NotAsLeft, put_back
from sessioncompress.pipeline.reading import RewrittenLines, row_of
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import CheckpointRecord

_AT_ONCE = 50
"""Checkpoints that are taken out while a session is read once: each reads what the one before it gives."""


class Unwound:
    """A session with checkpoints taken out, the newest first, and with the lines that left it for them.

    `taking` are the records of those that are to go, the newest of the journal. What was added since stays. `taken` are
    the records of those that stand there; `altered` those that are there no longer as written. Raises Unreadable where
    the lines that left cannot be read.
    """

    def __init__(
        self,
        session: OpenSession,
        journal: Journal,
        originals: Path,
        form: Format | None,
        taking: Sequence[CheckpointRecord],
    ) -> None:
        self._session, self._journal, self._originals, self._form = session, journal, originals, form
        self._names = Names(journal, originals)
        self._rehung: dict[tuple[str, ...], set[str]] = {}
        self._others: dict[tuple[str, ...], Counter[str]] = {}
        known = list(taking)
        self.taken: list[CheckpointRecord] = []
        # Usually all stand there, and one pass shows it.
        if any(each.ended for each in known) or not self._is(known[::-1]):
            for record in reversed(known):
                there = map(self._names.of, self._over(self.taken))
                self._others[record.lines] = OurLines([record], journal).besides(there)
                if self._is([*self.taken, record]):
                    self.taken.append(record)
                elif record.alike:
                    plain = record._replace(dropped=())
                    if self._is([*self.taken, plain]) and self._stay(record):
                        self.taken.append(plain)
        else:
            self.taken = known[::-1]
        taken = {each.lines for each in self.taken}
        gone = [each for each in known if each.lines not in taken and not each.ended]
        traces = self._traces(gone) if gone else frozenset()
        # Without any of the lines that left for it, the session is no older state either.
        lost = [each for each in gone if each.dropped and not self._there(each)[0]]
        self.altered = [each for each in gone if each in lost or "" in traces or traces.intersection(each.lines)]
        self.copied = False
        """Whether a summary stands in a line of another program, too, as the pieces showed."""

    def refuse_if_stuck(self) -> None:
        """Raise Damaged where lines cannot go back to where they stood."""
        if number := sum(bool(each.dropped) for each in self.altered):
            of = counted(number, "checkpoint is", "checkpoints are")
            raise Damaged(
                f"it cannot be restored exactly: {of} no longer as we wrote it, for which old lines were "
                "moved out of the session",
                where=self._session.path,
                state=NOT_CHANGED,
                remedy="Put a copy of the session back from a backup. 'restore --keep-checkpoints' puts back all other "
                f"lines, and 'zstd -dc' prints those that were moved out; they are in {self._originals}.",
            )

    def lines(self) -> Iterator[bytes]:
        """Yield the lines as they were; one that is too long to be read comes in parts."""
        return self._over(self.taken)

    def pieces(self) -> Iterator[Piece]:
        """Yield the lines as pieces of a session."""
        return jsonl.with_updates(_numbered(self._watched()))

    def rewritten(self) -> RewrittenLines:
        """Find the rewritten lines among the pieces."""
        return rewritten_among(self.pieces(), self._journal)

    def _watched(self) -> Iterator[bytes]:
        known = {line for each in self._journal.checkpoints for line in each.lines}
        head = HEAD.encode()
        for raw in self.lines():
            self.copied = self.copied or (bool(self.taken) and head in raw and not self._names.of(raw) & known)
            yield raw

    def ended(self) -> list[CheckpointRecord]:
        """Make the records that say which checkpoints were taken out."""
        return [each._replace(ended=True, rehung=tuple(sorted(self._rehung[each.lines]))) for each in self.taken]

    def _stay(self, record: CheckpointRecord) -> bool:
        """Tell whether the lines that once left for a checkpoint stand in the session."""
        there, of = self._there(record)
        return there == of

    def _there(self, record: CheckpointRecord) -> tuple[int, int]:
        """Count those of the lines that left for a checkpoint that stand in the session, in any form; and all."""
        with OriginalsReader(self._originals) as reader:
            texts = [reader.line(each.place, each.sha256) for each in record.dropped]
        lines: dict[str, int] = {}
        for number, line in enumerate(line for text in texts for line in BytesIO(text)):
            for name in self._names.of(line):
                lines.setdefault(name, number)
        found = {lines[name] for raw in self._over(self.taken) for name in self._names.of(raw) & lines.keys()}
        return len(found), len(set(lines.values()))

    def _is(self, records: Iterable[CheckpointRecord]) -> bool:
        """Tell whether these checkpoints stand in the session, the first one as the newest."""
        there: list[bool] = []
        try:
            deque(self._over(records, there), maxlen=0)
        except NotAsLeft:
            return False
        return all(there)

    def _over(self, records: Iterable[CheckpointRecord], there: list[bool] | None = None) -> Iterator[bytes]:
        with ExitStack() as opened:
            reader = opened.enter_context(OriginalsReader(self._originals)) if self._journal.store_size else None
            file: BinaryIO = opened.enter_context(self._session.reader())
            lines = _lines_in(file, self._session.size)
            for number, group in enumerate(self._groups(records)):
                if number and not number % _AT_ONCE:
                    # A session may have any number of them, and a generator that reads a thousand others cannot run.
                    with failing(gettempdir()):
                        held = opened.enter_context(TemporaryFile())
                        held.writelines(lines)
                    file.close()
                    file, size = held, held.tell()
                    file.seek(0)
                    lines = _lines_in(file, size)
                hanging = Hanging(self._form, self._journal, reader)
                self._rehung |= {each.lines: hanging.rewritten for each in group}
                if group[0].dropped and reader is not None:
                    lines = self._put_back(lines, group[0], reader, hanging)
                else:
                    lines = self._without(lines, group, hanging, [] if there is None else there)
            yield from lines

    def _groups(self, records: Iterable[CheckpointRecord]) -> Iterator[Sequence[CheckpointRecord]]:
        """Put those together that one pass takes out: no line left for them, and all are known to stand there."""
        for _, group in groupby(records, lambda each: each.lines if each.dropped or self._others else None):
            yield list(group)

    def _put_back(
        self, lines: Iterator[bytes], record: CheckpointRecord, reader: OriginalsReader, hanging: Hanging
    ) -> Iterator[bytes]:
        ours = frozenset(record.lines)

        def is_ours(raw: bytes, digest: str) -> bool:
            if digest not in self._names.of(raw):
                return False
            if digest in ours:
                hanging.note(raw)
            return True

        return map(hanging.rehung, put_back(lines, record.dropped, reader, is_ours))

    def _without(
        self, lines: Iterator[bytes], group: Sequence[CheckpointRecord], hanging: Hanging, there: list[bool]
    ) -> Iterator[bytes]:
        mine, found = OurLines(group, self._journal, self._others.get(group[0].lines)), set[str]()
        unended = any(each.unended for each in group)
        before, ends = b"", False
        for raw in lines:
            if ours := mine.among(self._names.of(raw)):
                found |= ours
                hanging.note(raw)
                ends = True
                continue
            if before:
                yield hanging.rehung(before)
            before, ends = raw, False
        if before:
            yield hanging.rehung(before.removesuffix(b"\n") if ends and unended else before)
        there.append(found == mine.wanted)

    def _traces(self, records: Iterable[CheckpointRecord]) -> frozenset[str]:
        """Find which lines of checkpoints stand there still; with an empty name among them, also what was one."""
        wanted = {line for each in records for line in each.lines}
        known = {line for each in self._journal.checkpoints for line in each.lines}
        head, found = HEAD.encode(), set[str]()
        for raw in self.lines():
            names = self._names.of(raw)
            found |= names & wanted
            if head in raw and not names & known:
                found.add("")
        return frozenset(found)


class Names:
    """Names a session's lines as the records of checkpoints do: by the SHA-256 of each, and of what it was before."""

    def __init__(self, journal: Journal, originals: Path) -> None:
        self._journal, self._originals = journal, originals
        known = (zip(each.originals, each.lines, strict=False) for each in journal.checkpoints)
        self._as_written = {original: line for pairs in known for original, line in pairs}

    def of(self, raw: bytes) -> frozenset[str]:
        """Hash a line, and find the SHA-256 of the original if it, or a message that it sets, is a rewritten one.

        If the line is of a checkpoint that repeated rewritten messages, the SHA-256 that it had then is among them.
        """
        digest = sha256(raw).digest()
        row = self._journal.rewriting(digest)
        original = self._whole(raw) if row is None else self._journal.original_of(row).hex()
        names = {digest.hex(), original}
        return frozenset(names | {self._as_written[each] for each in names & self._as_written.keys()})

    def originals(self, lines: Iterable[bytes]) -> tuple[str, ...]:
        """Hash lines as if no run had rewritten the messages that they set; nothing where none had."""
        known = [(self._whole(raw), sha256(raw).hexdigest()) for raw in lines]
        return tuple(original for original, _ in known) if any(was != now for was, now in known) else ()

    def _whole(self, raw: bytes) -> str:
        # A line that sets messages comes in several parts.
        parts = list(jsonl.with_updates([(0, raw, True)])) if raw.startswith(b'{"$set"') else []
        if len(parts) <= 1 or not self._journal.store_size:
            return sha256(raw).hexdigest()
        whole = sha256()
        with OriginalsReader(self._originals) as reader:
            for _, part, _ in parts:
                whole.update(self._original(part, reader))
        return whole.hexdigest()

    def _original(self, part: bytes, reader: OriginalsReader) -> bytes:
        row = row_of(part, sha256(part).digest(), self._journal)
        record = None if row is None else self._journal.placed(row)
        if record is None or record.place is None:
            return part
        original = reader.line(record.place, record.sha256)
        return original if part.endswith(b"\n") else original.removesuffix(b"\n")


class OurLines:
    """The lines of some checkpoints, as a session is read from its first line on.

    An older checkpoint may hold an equal line, as Codex CLI's do that end alike: the first ones are its own. `others`
    says how many of each there are, as besides() counts them; without it every older checkpoint is taken to be there.
    """

    def __init__(
        self, records: Sequence[CheckpointRecord], journal: Journal, others: Counter[str] | None = None
    ) -> None:
        self._own = Counter(line for each in records for line in each.lines)
        self.wanted = frozenset(self._own)
        mine = {each.lines for each in records}
        older = takewhile(lambda each: each.lines not in mine, journal.checkpoints)
        of_others = Counter(line for each in older if not each.ended for line in each.lines)
        self._of_others = of_others if others is None else others.copy()

    def besides(self, lines: Iterable[frozenset[str]]) -> Counter[str]:
        """Count the lines of others that are equal to ours, at most as many as there are besides ours.

        `lines` are what the lines of the session may be called; they are read only if there may be any. An older
        checkpoint may be gone, with an older state of the session that was put back.
        """
        shared = frozenset(name for name in self.wanted if self._of_others[name])
        there = Counter(name for names in lines for name in names & shared) if shared else Counter[str]()
        return Counter({name: max(min(self._of_others[name], there[name] - self._own[name]), 0) for name in shared})

    def among(self, names: frozenset[str]) -> frozenset[str]:
        """Find those that the next line is, by what it may be called."""
        found = names & self.wanted
        for name in found:
            if self._of_others[name]:
                self._of_others[name] -= 1
                return frozenset()
        return found


class Hanging:
    """Hangs lines that follow a line of ours on what ours hangs on, where an agent's lines name their parents."""

    def __init__(self, form: Format | None, journal: Journal, reader: OriginalsReader | None = None) -> None:
        self._form, self._journal, self._reader = form, journal, reader
        self._parents: dict[str, str] = {}
        self.rewritten: set[str] = set()
        """The SHA-256 of the originals of rewritten lines that were hung elsewhere."""

    def note(self, raw: bytes) -> None:
        """Note what a line of ours hangs on."""
        entry = jsonl.parse(raw)
        if entry is not None and self._form is not None and self._form.parent_key:
            line = self._form.reader().line(raw, entry)
            if line.id:
                self._parents[line.id] = line.parent

    def rehung(self, raw: bytes) -> bytes:
        """Hang a line that follows one of ours on what ours hangs on. Any other stays as it is."""
        if not any(name.encode() in raw for name in self._parents):
            return raw
        key = self._form.parent_key if self._form is not None else ""
        linking = self._form.reader.linking if self._form is not None else ()
        # The agent reads more than we rewrite: half a surrogate pair, say.
        read = jsonl.parse(raw)
        entry = read or entry_of(raw, linking)
        parent = entry.get(key) if entry is not None else None
        if entry is None or not isinstance(parent, str) or parent not in self._parents:
            return raw
        digest = sha256(raw).digest()
        if (original := self._original(digest)) is not None:
            # The journal knows a line that was rewritten by its bytes alone.
            raw, entry = original, jsonl.parse(original) or entry
            digest = sha256(raw).digest()
        if self._journal.original(digest) is not None:
            self.rewritten.add(digest.hex())
        seen: set[str] = set()
        while parent in self._parents and parent not in seen:
            seen.add(parent)
            parent = self._parents[parent]
        above: dict[JsonPath, Any] = {(key,): parent or None}
        try:
            if read is not None:
                return splice(raw, entry, above)[0]
            ((start, end, new),) = cuts_of(raw, entry, above)
        except CannotSplice:
            return raw
        return raw[:start] + new + raw[end:]

    def _original(self, digest: bytes) -> bytes | None:
        row = self._journal.rewriting(digest)
        record = None if row is None else self._journal.placed(row)
        if self._reader is None or record is None or record.place is None:
            return None
        return self._reader.line(record.place, record.sha256)


def rewritten_among(pieces: Iterable[Piece], journal: Journal) -> RewrittenLines:
    """Find the rewritten lines among some pieces of a session."""
    found = RewrittenLines(journal)
    deque(found.watch(pieces), maxlen=0)
    return found


def _lines_in(file: BinaryIO, size: int) -> Iterator[bytes]:
    return (raw for _, raw, _ in jsonl.pieces(file, size))


def _numbered(lines: Iterable[bytes]) -> Iterator[Piece]:
    number, begins = 0, True
    for raw in lines:
        ends = raw.endswith(b"\n")
        yield number, raw, begins and (ends or len(raw) < LINE_CAP)
        begins = ends
        number += ends
