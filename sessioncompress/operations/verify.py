"""Check a session against its runs: what changed since, and whether every original exists and is correct."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from sessioncompress.core.jsonl import document_of, is_readable, parse, parse_any, pieces_of
from sessioncompress.core.marker import PREFIX_BYTES, is_unedited, references
from sessioncompress.core.model import Kind
from sessioncompress.core.text import joined, printable
from sessioncompress.errors import Damaged, Refused, SessionCompressError
from sessioncompress.formats.base import Entry, Format
from sessioncompress.formats.values import entry_of
from sessioncompress.operations import reasons
from sessioncompress.operations.checkpoints import (
    WithoutCheckpoints,
    before_all,
    refuse_if_compacted,
    refuse_if_dropped_elsewhere,
    with_removed,
)
from sessioncompress.operations.matching import lacks, of_another, original_of
from sessioncompress.pipeline import reading, relatives
from sessioncompress.pipeline.reading import RewrittenLines, left_by
from sessioncompress.pipeline.rewrite import identity, recorded, value_at
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import damage, folder, recover
from sessioncompress.store import journal as journals
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import OtherStores, Store, backups_of, size_of
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import InBlob, OriginalsReader
from sessioncompress.store.records import LineRecord

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")


class ChangedLine(Struct, frozen=True, rename="camel"):
    """A rewritten line that another program changed since: its number, counted from 1, and its references.

    `later` is set if the change looks like a run that the store doesn't know.
    """

    line: int
    refs: tuple[str, ...]
    later: bool = False


class Since(NamedTuple):
    """A session compared with its runs.

    `rewritten` are the lines as a run left them, `changed` those that were changed since, and `gone` is the number of
    lines that no longer exist in any form. `was_changed` is true if the session doesn't start with what a run left. It
    is false if no run recorded that, and for a document, which its agent rewrites for every addition. `is_marked` is
    false if only rewritten lines hold markers. `last` is the number of the newest run whose work can be in the session.
    """

    rewritten: RewrittenLines
    changed: tuple[ChangedLine, ...] = ()
    gone: int = 0
    was_changed: bool = False
    is_marked: bool = True
    last: int = -1


def told_of(changed: Sequence[ChangedLine]) -> str:
    """Describe the changed lines, or return empty."""
    numbers, refs = [each.line for each in changed], [ref for each in changed for ref in each.refs]
    return joined(reasons.older(sum(each.later for each in changed)), reasons.changed_lines(numbers, refs))


def since_runs(stored: reading.Stored) -> Since:
    """Compare a session with its runs.

    A line counts as changed if no run knows it and it belongs to the same entry as a missing one: by its id, or if
    entries have none, by a marker in it or by its time. An unreadable line may also be a changed one. Raises
    NotASession, Refused if the store belongs to another session, and Unreadable if a missing line's original can't be
    read.
    """
    session, journal, originals = stored.session, stored.journal, stored.store.originals
    rewritten, missing, is_marked = reading.find(session, journal)
    before = before_all(session, journal, originals) if missing else None
    if before is not None:
        missing = with_removed(session, journal, before, missing)
    left, newest = left_by(session, journal), len(journal.runs) - 1
    was_changed = any(each.digest for each in journal.runs) and document_of(session.reader, session.size) is None
    # The user put back an older state, which may have earlier forms of entries.
    is_older = 0 <= left < newest and journal.runs[left].compressed_size == session.size
    # Or it is what the newest run started from, because that was killed before it replaced the session.
    is_met = 0 <= left < newest and journal.runs[newest].original_size == session.size
    was_changed &= not (left == newest >= 0 or is_older or is_met)
    if before is None or not missing or is_older:
        last = left if is_older else newest
        return Since(rewritten, gone=len(missing), was_changed=was_changed, is_marked=is_marked, last=last)
    known = reading.format_of(session)
    name = known.named(reading.head_in(session)).id
    if name and journal.session_ids and name not in journal.session_ids:
        raise Refused(
            f"the store next to it belongs to another session, {printable(journal.session_ids[-1])}",
            where=session.path,
            remedy="Put each session back to its own store.",
        )
    with OriginalsReader(originals) as reader:
        changed = tuple(_changed(before, _Missing(journal, missing, reader, known)))[: len(missing)]
    return Since(rewritten, changed, len(missing) - len(changed), was_changed, is_marked, newest)


def _changed(before: WithoutCheckpoints, missing: _Missing) -> Iterator[ChangedLine]:
    """Find lines that no run knows and that belong to missing originals, and unreadable lines."""
    journal = missing.journal
    ours = {bytes.fromhex(line) for each in journal.checkpoints for line in each.lines}
    unread: list[ChangedLine] = []
    # What a checkpoint removed may have been changed before that.
    for number, raw, whole in before.pieces():
        digest = sha256(raw).digest()
        row = reading.row_of(raw, digest, journal) if whole else None
        if not whole or digest in ours or reading.original_in(raw, digest, row, journal) is not None:
            continue
        if (record := missing.of(raw)) is not None:
            yield ChangedLine(number + 1, tuple(missing.refs(record)), missing.is_later(raw, record))
        elif raw.strip() and _entry(raw) is None:
            # For example, a line that was cut off.
            unread.append(ChangedLine(number + 1, ()))
    yield from unread


class _Missing:
    """Missing originals, indexed by what identifies their changed lines."""

    def __init__(
        self, journal: Journal, missing: Sequence[LineRecord], originals: OriginalsReader, form: Format
    ) -> None:
        self.journal, self._originals, self._form = journal, originals, form
        self._by_name: dict[Hashable, list[LineRecord]] = {}
        self._by_ref: dict[str, list[LineRecord]] = {}
        self._found: set[str] = set()
        for record in missing:
            if record.place:
                name, has_id = self._name(originals.line(record.place, record.sha256))
                self._by_name.setdefault(name, []).append(record)
                for ref in () if has_id else self.refs(record):
                    self._by_ref.setdefault(ref, []).append(record)

    def refs(self, record: LineRecord) -> Sequence[str]:
        """List the references by which `show` prints parts of an original."""
        rows = self.journal.originals(bytes.fromhex(record.sha256))
        return list(dict.fromkeys(block.ref for row in rows for block in self.journal.blocks_of(row)))

    def is_later(self, raw: bytes, record: LineRecord) -> bool:
        """True if an unknown run made this line from an original."""
        if record.place is None or PREFIX_BYTES not in raw:
            return False
        entry, marked = _entry(raw) or {}, [b for b in reading.read_line(raw, self._form.reader()).blocks if b.marked]
        unknown = [each for each in marked if (each.digest, each.kind, each.call) not in self.journal]
        texts = [(value_at(entry, each.path), each.kind is Kind.ARGUMENT) for each in unknown]
        if not any(is_unedited(said, in_arguments=in_arguments) for said, in_arguments in texts):
            return False
        return not lacks(self._originals.line(record.place, record.sha256), raw)

    def of(self, raw: bytes) -> LineRecord | None:
        """Find the original of an unknown line: by its id, or else by a marker in it or by its time."""
        name, has_id = self._name(raw)
        candidates = [self._by_name.get(name, [])] if name is not None else []
        if not has_id and PREFIX_BYTES in raw:
            candidates[:0] = [self._by_ref.get(ref, []) for ref in references(raw.decode(errors="replace"))]
        for records in candidates:
            while records:
                record = records.pop()
                if record.sha256 not in self._found:
                    self._found.add(record.sha256)
                    return record
        return None

    def _name(self, raw: bytes) -> tuple[Hashable, bool]:
        """Identify an entry by its id, or by its times and calls; the flag is true for an id.

        None if it has neither.
        """
        entry = _entry(raw)
        if entry is None:
            return None, False
        line = self._form.reader().line(raw, entry)
        if line.id:
            return line.id, True
        times = frozenset(text for key, text in entry.items() if isinstance(text, str) and _TIME.match(text))
        calls = tuple(call.name for call in line.calls), line.answers.partition("|")[0]
        return ((times, calls), False) if times else (None, False)


def _entry(raw: bytes) -> Entry | None:
    # A message of a document has no LF.
    return parse(raw) or (entry_of(raw, ()) if is_readable(raw) else None)


class VerifyStats(Struct, frozen=True, rename="camel"):
    """The result of `verify` for one session.

    `originals` were read and compared. `lines_without_original` were rewritten without keeping one, and can't be
    restored. `unknown_markers` are not in the journal: a tool printed them, or they belong to another session or
    branch. `lines_not_there` are in the store, but not in this older state of the session. The originals of
    `markers_of_relatives` were read in the store of a session that this one was forked from or continues.
    `open_to_others` is set if other users can read the store. `foreign_files` are named like late links, but were not
    made by this user's runs on this machine, and are ignored. `not_understood_at` lists the lines that were not
    understood, counted from 1. `changed` are rewritten lines that another program changed since. `was_changed` is set
    if the session no longer starts with what its last run left. `elsewhere` maps journals of its other stores to the
    number of lines that only they know; if a journal is missing, it has the originals, which the store in use has too.
    `made_elsewhere` is set if not all runs in its store are this user's on this machine.
    """

    path: str
    format: str
    lines: int
    lines_not_understood: int
    lines_rewritten: int
    lines_without_original: int
    originals: int
    blocks: int
    unknown_markers: int = 0
    lines_not_there: int = 0
    markers_of_relatives: int = 0
    open_to_others: bool = False
    foreign_files: int = 0
    not_understood_at: tuple[int, ...] = ()
    changed: tuple[ChangedLine, ...] = ()
    was_changed: bool = False
    elsewhere: Mapping[str, int] = {}
    made_elsewhere: bool = False


def verify_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> VerifyStats:
    """Check a session and its store. Changes nothing. `form` as in compress_session().

    Raises Damaged if an original or a run's record is missing or wrong, also in another store of the session, which
    another branch may need. Raises Refused, like restore, if the session has no journal, and has markers that no
    relative's journal knows. Raises other SessionCompressErrors as usual.
    """
    with reading.opened_with_store(path, policy, form=form) as stored:
        session, store, journal = stored.session, stored.store, stored.journal
        known = reading.read_session(stored)
        found, lines, opaque = known.form.name, len(known.survey.lines), known.survey.lines.opaque()
        del known  # which may be large
        own = relatives.Relative(session.path, store, journal)
        strangers = relatives.unknown_to(relatives.strangers_of(session, relatives.believed(journal)), own)
        family, damaged = relatives.relatives_of(session, policy) if strangers else ([], [])
        left, wrong = strangers, list[SessionCompressError]()
        for relative in family:
            try:
                _read_originals(relative, left)
                left = relatives.unknown_to(left, relative)
            except SessionCompressError as error:
                # Another store may have what this one lacks, for example if others wrote it.
                wrong.append(error)
        unknown = relatives.unknown_to(strangers, *family)
        if wrong and len(unknown) < len(left):
            raise wrong[0]
        if unknown and damaged:
            raise damaged[0]
        of_relatives = len(strangers) - len(unknown)
        if unknown and not journal.runs:
            relatives.refuse_if_marked(stored, policy)
        others = OtherStores(session.path, store, backups_of(session.path, policy))
        elsewhere = others.known(pieces_of(session.reader, session.size))
        refuse_if_compacted(stored, reasons.elsewhere(elsewhere, way=""))
        before_all(session, journal, store.originals).refuse_if_stuck()
        if others.stores:
            standing = WithoutCheckpoints(session, journal, store.originals, None, journal.checkpoints)
            refuse_if_dropped_elsewhere(stored, others.stores, standing.taken)
        since = since_runs(stored)
        # Lines moved out of the session for a summary were read with it.
        checked = _originals(session, store, journal, since.rewritten) + journal.left
        damage.refuse_if_changed(store, journal)
        with suppress(Refused, OSError):
            # If the index can't be read, it isn't known to be wrong.
            if pointer := reading.pointers_of(session.path).wrong():
                remedy = "Close the agent, and run 'sessioncompress compress' on it: that mends it first."
                raise Damaged(pointer, where=session.path, remedy=remedy)
        if opaque:
            # Git's markers are among the lines not understood, so without any there is no need to read the session
            # again.
            reading.refuse_in_merge(session)
        lost = sum(record.place is None for record in since.rewritten.values())
        checked_others, wrong_others = check_others(session.path, store, others.all)
        if wrong_others:
            raise wrong_others[0]
        unknown = relatives.unknown_to(unknown, *checked_others)
        # Originals without a journal are known only from their name.
        elsewhere |= {each.originals: 0 for each in others.all if each not in others.stores}
        return VerifyStats(
            str(session.path),
            found,
            lines,
            len(opaque),
            len(since.rewritten),
            lost,
            checked,
            journal.counts[1],
            len(unknown),
            since.gone,
            of_relatives,
            open_to_others=folder.is_open_to_others(store),
            foreign_files=len(session.left_over.foreign),
            not_understood_at=tuple(number + 1 for number in opaque),
            changed=since.changed,
            was_changed=since.was_changed,
            elsewhere={str(path): number for path, number in elsewhere.items()},
            made_elsewhere=not all(each.is_ours for each in (journal, *(relative.journal for relative in family))),
        )


def check_others(
    session: Path, counts: Store, stores: Iterable[Store]
) -> tuple[list[relatives.Relative], list[Damaged]]:
    """Return the inactive stores, and an error for each that is no longer as its runs left it."""
    found, wrong = list[relatives.Relative](), list[Damaged]()
    for store in stores:
        try:
            loaded = journals.load(store.journal)
            damage.refuse_if_changed(store, loaded)
            # A killed move leaves only originals, which are the start of the active store.
            if (size_of(store.originals) or 0) > loaded.store_size and not recover.begins(store, counts):
                what = "the journal of these originals is missing, or lacks a run"
                remedy = f"Put it back from a backup{damage.or_from_git(store.journal)}."
                raise Damaged(what, where=store.originals, remedy=remedy)
            found.append(relatives.Relative(session, store, loaded))
        except Refused:
            # A link, or something that isn't a file, isn't a store, and is not read.
            continue
        except SessionCompressError as error:
            what = f"another store of the session, which other branches may need: {error.what}"
            state = "The store that counts here is right."
            wrong.append(Damaged(what, where=error.where, line=error.line, state=state, remedy=error.remedy))
    return found, wrong


def _originals(session: OpenSession, store: Store, journal: Journal, rewritten: RewrittenLines) -> int:
    """Check every original against its record, its blocks' records and its rewritten line; return their number.

    A marker in a rewritten line refers to a value of its original, or was already in it.
    """
    stands: dict[int | None, int] = {}
    named = defaultdict[int | None, set[str]](set)
    with OriginalsReader(store.originals) as originals:
        for number, raw, _ in pieces_of(session.reader, session.size) if rewritten else ():
            if number in rewritten:
                record = rewritten[number]
                if not journal.is_ours and record.place is not None:
                    original_of(raw, record, originals, journal, store.journal)
                digest, here = bytes.fromhex(record.sha256), identity(parse_any(raw))
                if stands.setdefault(journal.original(digest), here) != here:
                    raise of_another(store.journal)
                if PREFIX_BYTES in raw:
                    named[journal.original(digest)].update(references(raw.decode(errors="replace")))
    kept = journal.kept
    if not kept:
        return 0
    with OriginalsReader(store.originals) as originals:
        for row in kept:
            record = journal.line(row)
            assert record.place is not None
            line = originals.line(record.place, record.sha256)
            entry = parse_any(line)
            own, original, newest = identity(entry), journal.placed(row), journal.original(journal.original_of(row))
            if stands.get(newest, own) != own:
                raise of_another(store.journal)
            rows = journal.originals(journal.original_of(row)) if newest in named else ()
            known = {block.ref for each in rows for block in journal.blocks_of(each)}
            if any(ref.encode() not in line for ref in named.pop(newest, ()) if ref not in known):
                raise of_another(store.journal)
            if original.sha256 != record.sha256 and original.place:
                # This edits an earlier run's result; its blocks refer to what the agent wrote.
                entry = parse_any(originals.line(original.place, original.sha256))
            # A run that kept no originals may have changed its own result; then its records refer to that.
            for block in journal.blocks_of(row):
                recorded(entry, block, store.journal)
    return len({journal.original_of(row) for row in kept})


def _read_originals(relative: relatives.Relative, strangers: Iterable[relatives.Stranger]) -> None:
    """Check a relative's originals of the session's markers. Raises Damaged."""
    journal = relative.journal
    rows = sorted({row for key in {each.key for each in strangers} for row in journal.replaced(key)})
    kept = [(line, block) for line, block in map(journal.block, rows) if line.place]
    if not kept:
        return
    if any(isinstance(line.place, InBlob) for line, _ in kept):
        # Git may still have an object that it will delete soon.
        damage.refuse_if_changed(relative.store, journal)
    with OriginalsReader(relative.store.originals) as originals:
        for line, block in kept:
            assert line.place is not None
            recorded(parse_any(originals.line(line.place, line.sha256)), block, relative.store.journal)
