"""Our checkpoints in a session: store the lines they remove, and reconstruct the session without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from typing import Any

from sessioncompress.core import jsonl
from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.core.documents import undo_of, undone
from sessioncompress.core.jsonl import LINE_CAP, Piece
from sessioncompress.core.marker import HEAD
from sessioncompress.core.model import JsonPath, Role
from sessioncompress.core.splice import CannotSplice, cuts_of, splice
from sessioncompress.core.text import counted, joined, quote
from sessioncompress.errors import Damaged, Refused, SessionCompressError
from sessioncompress.formats.base import Format
from sessioncompress.formats.values import entry_of
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.reading import as_written, left_by, row_of
from sessioncompress.store.journal import Journal, load
from sessioncompress.store.layout import Store
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import InFrame, OriginalsReader
from sessioncompress.store.records import CheckpointRecord, Dropped, LineRecord

_TOGETHER = 1 << 20
"""Bytes of lines that are stored as one text."""
_MOST_RUNS = 500
"""Runs of lines per record, which keeps records short."""
_HEAD = HEAD.encode()
_NONE = frozenset[str]()


class Leaving:
    """Stores the lines that a rewrite removes, and records their places. Without `keep`, stores nothing."""

    def __init__(self, keep: Callable[[bytes], InFrame] | None) -> None:
        self._keep = keep
        self._done: list[Dropped] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._runs: list[tuple[int, str, int]] = []
        self._passed = 0

    def stays(self, raw: bytes) -> None:
        """Count a line that stays, or part of one."""
        self._passed += raw.endswith(b"\n")

    def comes(self, line: bytes) -> None:
        """Note a line that we add."""
        self._run(sha256(line).hexdigest())

    def goes(self, raw: bytes) -> None:
        """Store a line that is removed or replaced."""
        if self._size and self._size + len(raw) > _TOGETHER:
            self._flush()
        if self._passed or not self._runs:
            self._run("")
        after, ours, size = self._runs[-1]
        self._runs[-1] = after, ours, size + len(raw)
        self._parts.append(raw)
        self._size += len(raw)

    def finish(self) -> tuple[Dropped, ...]:
        """Store the rest, and return all records."""
        self._flush()
        return tuple(self._done)

    def _run(self, ours: str) -> None:
        if len(self._runs) >= _MOST_RUNS:
            self._flush()
        self._runs.append((self._passed, ours, 0))
        self._passed = 0

    def _flush(self) -> None:
        if self._runs and self._keep is not None:
            text = b"".join(self._parts)
            lines = len(self._parts)
            self._done.append(Dropped(sha256(text).hexdigest(), self._keep(text), lines, tuple(self._runs)))
        self._runs, self._parts, self._size = [], [], 0


class LineDigests:
    """Identifies lines as checkpoint records do: by SHA-256 of the line and of its original."""

    def __init__(self, journal: Journal, originals: Path) -> None:
        self._journal, self._originals = journal, OriginalsReader(originals)
        known = (zip(each.originals, each.lines, strict=False) for each in journal.checkpoints)
        self._as_written = {original: line for pairs in known for original, line in pairs}

    def of(self, raw: bytes) -> frozenset[str]:
        """Return the SHA-256 of a line and of its original, if the line or a message in it was rewritten.

        If the line belongs to a checkpoint that repeated rewritten messages, include the SHA-256 that it had then.
        """
        digest = sha256(raw).digest()
        row = self._journal.rewriting(digest)
        original = self._whole(raw) if row is None else self._journal.original_of(row).hex()
        names = {digest.hex(), original}
        return frozenset(names | {self._as_written[each] for each in names & self._as_written.keys()})

    def originals(self, lines: Iterable[bytes]) -> tuple[str, ...]:
        """Hash lines as if no run had rewritten the messages in them; empty if none was."""
        known = [(self._whole(raw), sha256(raw).hexdigest()) for raw in lines]
        return tuple(original for original, _ in known) if any(was != now for was, now in known) else ()

    def _whole(self, raw: bytes) -> str:
        # A line that sets messages consists of several pieces.
        parts = list(jsonl.with_updates([(0, raw, True)]))
        if len(parts) <= 1:
            return sha256(raw).hexdigest()
        with self._originals:
            return sha256(b"".join(_first(part, self._journal, self._originals) for _, part, _ in parts)).hexdigest()


def _first(raw: bytes, journal: Journal, originals: OriginalsReader) -> bytes:
    row = row_of(raw, sha256(raw).digest(), journal)
    return as_written(raw, None if row is None else journal.placed(row), originals)


class WithoutCheckpoints:
    """A session with checkpoints removed, newest first, and with the lines that they removed put back.

    `taking` are the records of checkpoints to remove, the newest of the journal. Lines appended since stay. `taken` are
    the records found as written; `altered` those that were changed, which stay. Raises Unreadable if removed lines
    can't be read.
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
        self._names = LineDigests(journal, originals)
        self._known = frozenset(line for each in journal.checkpoints for line in each.lines)
        replaced = (ours for each in journal.checkpoints for part in each.dropped for _, ours, _ in part.runs)
        self._wanted = self._known.union(replaced)
        self._order: list[int] = []
        """The pieces of the session in order: its own by number, and entry i of `_kept` as -1 - i."""
        self._kept: list[tuple[InFrame, str, int, int]] = []
        self._found: dict[int, frozenset[str]] = {}
        """Our known hashes of each piece."""
        self._headed, self._parts, self._ends = set[int](), set[int](), dict[int, bytes]()
        self._blank = set[int]()
        self._parent_of: dict[int, tuple[str, str]] = {}
        """Ids of our lines and of their parents, if the agent's entries have parents."""
        self._parents: dict[str, str] = {}
        self._rehung: set[str] = set()
        self._document = b""
        self.taken: list[CheckpointRecord] = []
        self.altered: list[CheckpointRecord] = []
        self.copied = ""
        """A warning if another program copied our summary into a line of its own, else empty."""
        of_lines = [each for each in taking if not each.removed]
        if len(of_lines) < len(taking) and (document := jsonl.document_of(session.reader, session.size)) is not None:
            self._take_out(document.raw, [each for each in taking if each.removed])
        elif of_lines:
            self._find(of_lines)

    @property
    def stuck(self) -> Sequence[CheckpointRecord]:
        """Altered checkpoints that removed something which can't be put back."""
        return [each for each in self.altered if each.dropped or each.removed]

    @property
    def told(self) -> str:
        """A message about checkpoints that stay, or empty."""
        of = counted(len(self.altered), "summary is", "summaries are")
        way = f"; 'zstd -dc {quote(str(self._originals))}' prints what left the session" if self.stuck else ""
        return f"{of} no longer as we wrote it; what is left of it stays{way}" if self.altered else ""

    def refuse_if_stuck(self) -> None:
        """Raise Damaged if something that a checkpoint removed can't be put back."""
        if self.stuck:
            of = counted(len(self.stuck), "summary is", "summaries are")
            raise Damaged(
                f"it cannot be restored exactly: {of} no longer as we wrote it, and old lines or messages were moved "
                "out of the session for it",
                where=self._session.path,
                remedy="Put a copy of the session back from a backup. 'restore' puts back all other lines, and "
                f"'zstd -dc' prints those that were moved out; they are in {self._originals}.",
            )

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the reconstructed session. A line that is too long to read is split into parts."""
        if self._document and (document := jsonl.cut(self._document)) is not None:
            return document.pieces()
        if not self.taken:
            return jsonl.pieces_of(self._session.reader, self._session.size)
        return jsonl.with_updates(self._pieces())

    def ended(self) -> list[CheckpointRecord]:
        """Return the records that mark checkpoints as removed. Call it after reading the pieces."""
        rehung = tuple(sorted(self._rehung))
        return [each._replace(ended=True, rehung=() if at else rehung) for at, each in enumerate(self.taken)]

    def _take_out(self, raw: bytes, taking: Sequence[CheckpointRecord]) -> None:
        """Remove checkpoints from a document. Undo each from what its run left: later runs rewrote nearby messages."""
        now: dict[bytes, bytes] = {}
        with OriginalsReader(self._originals) as reader:
            # Include ended ones: the run that removed one may have been killed before it replaced the session.
            for record in reversed(taking):
                assert record.removed is not None
                digest, place = record.removed
                try:
                    undo = undo_of(reader.line(place, digest))
                except (ValueError, KeyError, TypeError) as error:
                    what = "what it stores about a summary cannot be read"
                    remedy = "Put it back from a backup."
                    raise Damaged(what, where=self._originals, remedy=remedy) from error
                was = self._left_by(self._journal.lifetime(record).start, raw, reader)
                if (new := undone(_with(raw, was), undo)) is not None:
                    now |= {before: now.get(part, part) for part, before in was.items()}
                elif was:
                    new = undone(raw, undo)
                if new is not None:
                    raw = new
                    self.taken.append(record)
        self._document = _with(raw, now)
        standing = [each for each in taking if not each.ended]
        if _HEAD in raw and len(self.taken) < len(standing):
            self.altered = [each for each in standing if each not in self.taken]

    def _left_by(self, run: int, raw: bytes, reader: OriginalsReader) -> dict[bytes, bytes]:
        """Map each message that later runs rewrote to what this run left of it."""
        journal, left = self._journal, dict[bytes, bytes]()
        document = jsonl.cut(raw)
        for _, part, whole in document.pieces() if document is not None else ():
            digest, seen = sha256(part).digest(), set[bytes]()
            # Runs may have rewritten one form into another and back.
            while whole and part not in left and digest not in seen and (row := journal.rewriting(digest)) is not None:
                was = bytes.fromhex(journal.line(row).sha256)
                place = journal.place(journal.original_of(row), was)
                if journal.run_of(row) <= run or place is None:
                    break
                seen.add(digest)
                digest, found = was, place
            if seen:
                left[part] = reader.line(found, digest.hex())
        return left

    def _find(self, known: Sequence[CheckpointRecord]) -> None:
        """Find which checkpoints are in the session, and remove them."""
        with self._session.reader() as file:
            for number, (_, raw, _) in enumerate(jsonl.pieces(file, self._session.size)):
                self._order.append(self._noted(number, raw))
        for record in reversed(known):
            taken, new = record, self._without(record)
            # The user may have put back a backup with the same summary, written without dropping lines. Another program
            # may have changed or deleted some of the lines.
            if new is None and record.dropped and 2 * self._share_there(record) > 1:
                taken = record._replace(dropped=())
                new = self._without(taken)
            if new is not None:
                self._order = new
                self.taken.append(taken)
        are_out = {each.lines for each in self.taken}
        there = {name for each in self._order for name in self._found.get(each, ())}
        foreign = any(each in self._headed and not self._found.get(each, _NONE) & self._known for each in self._order)
        if foreign and self.taken:
            self.copied = (
                "the agent copied the summary into a line of its own, which stays: the model may still read it"
            )
        if len(self.taken) == len(known):
            return
        left, is_older = left_by(self._session, self._journal), False
        for each in known:
            stands = each.lines in are_out or (bool(each.dropped) and self._share_there(each) > 0)
            # With neither the summary nor any dropped line, this is no older state either. The exception: if an older
            # checkpoint or its dropped lines are here, these lines may not have existed yet.
            is_lost = bool(each.dropped) and not (stands or is_older)
            # The state may be from after the checkpoint was removed, or from before it was written. A restore on
            # another branch proves nothing, and if no run left this beginning, the state is unknown.
            has_ended = each.ended and left >= 0 and left not in self._journal.lifetime(each)
            is_due = (foreign or is_lost) and not has_ended
            if each.lines not in are_out and (there.intersection(each.lines) or is_due):
                self.altered.append(each)
            is_older = is_older or stands

    def _noted(self, number: int, raw: bytes) -> int:
        """Note what identifies a piece of the session; return its number."""
        if names := self._names.of(raw) & self._wanted:
            self._found[number] = names
        if not raw.endswith(b"\n"):
            self._parts.add(number)
        elif raw.isspace():
            self._blank.add(number)
        if _HEAD in raw:
            self._headed.add(number)
        if self._form is not None and self._form.parent_key and names & self._known:
            entry = jsonl.parse(raw)
            line = None if entry is None else self._form.reader().line(raw, entry)
            if line is not None and line.id:
                self._parent_of[number] = line.id, line.parent
        return number

    def _share_there(self, record: CheckpointRecord) -> float:
        """Return the share of the lines dropped for a checkpoint that are in the session again, in any form."""
        with OriginalsReader(self._originals) as reader:
            texts = [reader.line(each.place, each.sha256) for each in record.dropped]
        left = {line for each in texts for line in BytesIO(each)}
        names = {name: line for line in left for name in self._names.of(line)}
        found = {names[name] for raw in self._lines() for name in self._names.of(raw) & names.keys()}
        return len(found) / max(len(set(names.values())), 1)

    def _without(self, record: CheckpointRecord) -> list[int] | None:
        """Return the session without a checkpoint, or None if it isn't there. Raises Unreadable."""
        if record.dropped:
            return self._with_dropped(record)
        wanted, found, mine = frozenset(record.lines), set[str](), set[int]()
        others = self._equal_lines_before(record)
        for each in filter(self._found.__contains__, self._order):
            ours = self._found[each] & wanted
            if ours and not any(others[name] for name in ours):
                found |= ours
                mine.add(each)
            # The first of several equal lines belong to older checkpoints.
            else:
                others.subtract(ours)
        if found != wanted:
            return None
        new = [each for each in self._order if each not in mine]
        self._parents |= (self._parent_of[each] for each in mine & self._parent_of.keys())
        since = sum(1 for _ in takewhile(lambda each: each not in mine, reversed(self._order)))
        if record.unended and since < len(new) and self._begins_with_end(new[len(new) - since :]):
            self._ends[new[-since - 1]] = b""
        return new

    def _equal_lines_before(self, record: CheckpointRecord) -> Counter[str]:
        """Count lines of older checkpoints that equal this checkpoint's lines, as Codex CLI's last lines may.

        Limited to the copies in the session beyond this checkpoint's own, because an older checkpoint may be missing
        from a restored older state.
        """
        own = Counter(record.lines)
        older = takewhile(lambda each: each.lines != record.lines, self._journal.checkpoints)
        others = Counter(line for each in older if not each.ended for line in each.lines if line in own)
        there = Counter(name for each in self._order if others for name in self._found.get(each, ()))
        return Counter({name: max(min(number, there[name] - own[name]), 0) for name, number in others.items()})

    def _with_dropped(self, record: CheckpointRecord) -> list[int] | None:
        """Return the session with a checkpoint's dropped lines put back, and without our lines."""
        rest, new, mine, begun = iter(self._order), list[int](), list[int](), False
        with OriginalsReader(self._originals) as reader:
            for dropped in record.dropped:
                text, end = reader.line(dropped.place, dropped.sha256), 0
                for after, ours, size in dropped.runs:
                    passed = 0
                    while passed < after:
                        if begun or (each := next(rest, None)) is None:
                            return None
                        new.append(each)
                        passed += each not in self._parts
                    if ours:
                        if (each := next(rest, None)) is None or ours not in self._found.get(each, _NONE):
                            return None
                        mine.append(each)
                    for line in BytesIO(text[end : end + size]):
                        if begun:
                            return None
                        self._kept.append((dropped.place, dropped.sha256, end, end + len(line)))
                        new.append(self._noted(-len(self._kept), line))
                        begun, end = not line.endswith(b"\n"), end + len(line)
        self._parents |= (self._parent_of[each] for each in self._parent_of.keys() & mine)
        following = [*rest]
        if begun and not self._begins_with_end(following):
            # This was the session's last line. Anything appended since is on a line of its own.
            self._ends[new[-1]] = b"\n"
            self._parts.discard(new[-1])
        return new + following

    def _begins_with_end(self, since: Sequence[int]) -> bool:
        """True if a line without LF needs no LF before these pieces: there are none, or the first is blank."""
        return not since or since[0] in self._blank

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines of the reconstructed session. A child of our line gets that line's parent."""
        with OriginalsReader(self._originals) as reader, self._session.reader() as file:
            text = lru_cache(maxsize=1)(reader.line)
            there = enumerate(raw for _, raw, _ in jsonl.pieces(file, self._session.size))
            for each in self._order:
                if each < 0:
                    place, digest, start, end = self._kept[~each]
                    raw = text(place, digest)[start:end]
                else:
                    # If another program truncates the file now, the session won't be replaced.
                    raw = next((raw for number, raw in there if number == each), b"")
                if each in self._ends:
                    raw = raw.removesuffix(b"\n") + self._ends[each]
                yield self._hung(raw, reader)

    def _pieces(self) -> Iterator[Piece]:
        number, begins = 0, True
        for raw in self._lines():
            ends = raw.endswith(b"\n")
            yield number, raw, begins and (ends or len(raw) < LINE_CAP)
            begins = ends
            number += ends

    def _hung(self, raw: bytes, reader: OriginalsReader) -> bytes:
        """If an entry's parent is our entry, give it the parent of that. Others stay unchanged."""
        if self._form is None or not any(name.encode() in raw for name in self._parents):
            return raw
        key = self._form.parent_key
        # The agent accepts more than we can rewrite, such as half a surrogate pair.
        read = jsonl.parse(raw)
        entry = read or entry_of(raw, self._form.reader.linking)
        parent = entry.get(key) if entry is not None else None
        if entry is None or not isinstance(parent, str) or parent not in self._parents:
            return raw
        if (original := _first(raw, self._journal, reader)) is not raw:
            # The journal identifies a rewritten line only by its exact bytes.
            raw, entry = original, jsonl.parse(original) or entry
        digest = sha256(raw).digest()
        if self._journal.original(digest) is not None:
            self._rehung.add(digest.hex())
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


def _with(raw: bytes, parts: Mapping[bytes, bytes]) -> bytes:
    """Replace messages of a document."""
    if not parts or (document := jsonl.cut(raw)) is None:
        return raw
    return b"".join(parts.get(part, part) if whole else part for _, part, whole in document.pieces())


def before_all(session: OpenSession, journal: Journal, originals: Path) -> WithoutCheckpoints:
    """Read a session with all checkpoints removed, if any of them dropped lines or messages."""
    left = any(each.dropped or each.removed for each in journal.checkpoints)
    return WithoutCheckpoints(session, journal, originals, None, journal.checkpoints if left else ())


def with_removed(
    session: OpenSession, journal: Journal, before: WithoutCheckpoints, missing: list[LineRecord]
) -> list[LineRecord]:
    """Drop missing lines that a checkpoint removed from the session; restoring it brings them back.

    `before` is the result of before_all(). Also drop lines that got another parent when a restore removed a checkpoint,
    our lines that replaced others, and messages removed with a line if the line they repeat exists.
    """
    if not journal.checkpoints:
        return missing
    there = {digest for each in journal.checkpoints for digest in each.rehung}
    there |= {ours for each in journal.checkpoints for record in each.dropped for _, ours, _ in record.runs}
    for _, raw, whole in before.pieces():
        digest = sha256(raw).digest()
        newest = reading.original_in(raw, digest, row_of(raw, digest, journal), journal) if whole else None
        if newest is not None:
            there.add(journal.original_of(newest).hex())
    wanted = {each.sha256 for each in missing} - there
    for _, raw, _ in jsonl.pieces_of(session.reader, session.size) if wanted else ():
        there.add(sha256(raw.removesuffix(b"\n")).hexdigest())
    return [each for each in missing if each.sha256 not in there]


def said_first(session: OpenSession, journal: Journal, originals: Path) -> Iterator[tuple[int, Utterance]]:
    """Yield the messages of a session in their original form, each with its line number."""
    reader = reading.format_of(session).reader()
    with OriginalsReader(originals) as kept:
        for number, raw, whole in before_all(session, journal, originals).pieces():
            entry = jsonl.parse(_first(raw, journal, kept)) if whole else None
            yield from ((number, said) for said in reader.said(entry or {}))


def has_unknown_summary(session: OpenSession, journal: Journal) -> bool:
    """True if the session has our summary but its journal doesn't know it, so it can't be removed."""
    with session.reader() as file:
        if journal.checkpoints or not jsonl.holds(file, _HEAD, size=session.size):
            return False
    known = reading.format_of(session)
    reader, said = known.reader(), known.reader()
    is_compacted = has_summary = False
    for _, raw, whole in jsonl.pieces_of(session.reader, session.size):
        entry = jsonl.parse(raw) if whole and (_HEAD in raw or not is_compacted) else None
        if entry is None:
            continue
        is_compacted = is_compacted or reader.line(raw, entry).role is Role.CHECKPOINT
        if _HEAD in raw and any(each.say is Say.SUMMARY and each.text.startswith(HEAD) for each in said.said(entry)):
            has_summary = True
    return is_compacted and has_summary


def refuse_if_dropped_elsewhere(
    stored: reading.Stored, others: Iterable[Store], taking: Iterable[CheckpointRecord]
) -> None:
    """Raise Refused if another store has lines that left the session for one of these summaries, and this one does not.

    Others who compact the same session write the same summary.
    """
    session, journal = stored.session, stored.journal
    left = left_by(session, journal)
    wanted = {each.lines for each in taking if not (each.dropped or left in journal.lifetime(each))}
    for other in others if wanted else ():
        has_them = False
        # An unreadable store has nothing to bring back.
        with suppress(SessionCompressError):
            theirs = load(other.journal)
            records = [each for each in theirs.checkpoints if each.dropped and each.lines in wanted]
            there = WithoutCheckpoints(session, theirs, other.originals, None, records)
            has_them = bool(there.stuck) or any(each.dropped for each in there.taken)
        if has_them:
            raise Refused(
                f"lines left the session for its summary, and only another store has them, {other.journal}",
                where=session.path,
                remedy="If you trust that one, move the one in use away "
                f"({stored.store.journal} and the originals next to it), and run again. Else move that one away.",
            )


def refuse_if_compacted(stored: reading.Stored, elsewhere: str = "") -> None:
    """Raise Refused if the session has our summary but no record of it. `elsewhere` names stores that may have one."""
    if has_unknown_summary(stored.session, stored.journal):
        what = "it has a summary that compact wrote, but its store is missing, so the summary cannot be removed"
        raise Refused(
            joined(what, elsewhere),
            where=stored.session.path,
            remedy=f"Put its store back ({stored.store.journal} and the originals next to it), or name its folder with "
            f"--backup-dir (backupDir){'; if another store has it, move the one in use away' if elsewhere else ''}. "
            "Without it the session can still be resumed.",
        )
