"""Check that a session is one, and that the original of every rewritten line is there and right."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct

from sessioncompress.core.jsonl import document_of, parse_any, pieces_of
from sessioncompress.errors import NOT_CHANGED, Damaged, Refused
from sessioncompress.operations import checkpoints
from sessioncompress.operations.restoring import ChangedLine, since_runs, was_changed
from sessioncompress.operations.show import identity, of_another, recorded
from sessioncompress.operations.unwinding import Unwound
from sessioncompress.pipeline import reading, relatives
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import damage, folder, late_links, recover
from sessioncompress.store import journal as journals
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Store, store_of
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import OriginalsReader


class VerifyStats(Struct, frozen=True, rename="camel"):
    """What `verify` checked in one session.

    `originals` were read and compared. `lines_without_original` were rewritten without keeping one, and cannot be
    restored. `unknown_markers` are not in the journal: a tool printed them, or they are of another session or branch.
    `lines_not_there` are in the store, but not in this older state of the session. The originals of
    `markers_of_relatives` were read in the store of a session that this one was forked from, or continues.
    `open_to_others`: other users may read the store. `foreign_files` are named like late links, but were not made by
    this user's runs on this machine, and are ignored. `not_understood_at` are the lines that are not understood, by
    their numbers, counted from 1. `changed` are rewritten lines that another program changed since. `was_changed`: the
    session no longer begins with what its last run left.
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


def verify_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> VerifyStats:
    """Check a session and its store. Changes nothing. `form` as in compress_session().

    Raises Damaged if an original or the record of a run is missing or wrong. Raises Refused, like restore, if the
    session has no journal, and markers that no relative's journal knows. Raises other SessionCompressErrors as usual.
    """
    with open_session(Path(path), writing=False) as session:
        store = store_of(session.path, policy)
        journal = journals.load(store.journal)
        left_over = recover.check(session, store, journal.lengths)
        found, lines, opaque = _read(session, journal, form)  # and free the reading, which may be large
        strangers = relatives.strangers_of(session, journal, form)
        family = relatives.relatives_of(session, policy, form) if strangers else []
        unknown = relatives.unknown_to_all(family, strangers)
        if unknown and not journal.runs:
            relatives.refuse_if_marked(session, store, policy, form)
        if not journal.runs:
            checkpoints.refuse_if_compacted(session, store, form)
        for relative in family:
            _read_originals(relative, strangers)
        if any(each.removed for each in journal.checkpoints) and (
            document := document_of(session.reader, session.size)
        ):
            out = checkpoints.out_of_document(document.raw, journal.checkpoints, store.originals)
            checkpoints.refuse_if_rewritten(session, journal.checkpoints, store.originals, *out)
        rewritten, missing = reading.find(session, journal)
        missing = checkpoints.with_removed(session, journal, store.originals, missing)
        if any(each.dropped for each in journal.checkpoints):
            Unwound(session, journal, store.originals, None, journal.checkpoints).refuse_if_stuck()
        checked = _originals(session, store, journal, rewritten)
        since = since_runs(session, journal, missing, store.originals, form)
        damage.refuse_if_changed(store, journal)
        with suppress(Refused, OSError):
            # Where the index may not be read, it is not known to be wrong.
            if wrong := reading.pointers_of(session.path).wrong():
                remedy = "Close the agent, and run 'sessioncompress compress' on it: that mends it first."
                raise Damaged(wrong, where=session.path, state=NOT_CHANGED, remedy=remedy)
        if opaque:
            # Git's markers are among the lines that are not understood: without any the session need not be read again.
            reading.refuse_in_merge(session)
        lost = sum(record.place is None for record in rewritten.values())
        return VerifyStats(
            str(session.path),
            found,
            lines,
            len(opaque),
            len(rewritten),
            lost,
            checked,
            journal.counts[1],
            len(unknown),
            since.gone,
            len(strangers) - len(unknown),
            open_to_others=folder.is_open_to_others(store),
            foreign_files=len(late_links.foreign_links(session.path)) if left_over else 0,
            not_understood_at=tuple(number + 1 for number in opaque),
            changed=since.changed,
            was_changed=bool(was_changed(session, since)),
        )


def _read(session: OpenSession, journal: Journal, form: str | None) -> tuple[str, int, list[int]]:
    known = reading.read_session(session, journal, form)
    return known.form.name, len(known.survey.lines), known.survey.lines.opaque()


def _originals(session: OpenSession, store: Store, journal: Journal, rewritten: reading.RewrittenLines) -> int:
    """Read every original; compare it with its record, its blocks' records and its rewritten line. Count them."""
    stands: dict[int | None, int] = {}
    for number, raw, _ in pieces_of(session.reader, session.size) if rewritten else ():
        if number in rewritten:
            digest, here = bytes.fromhex(rewritten[number].sha256), identity(parse_any(raw))
            if stands.setdefault(journal.original(digest), here) != here:
                raise of_another(store.journal)
    kept = journal.kept
    if not kept:
        return 0
    with closing(OriginalsReader(store.originals)) as originals:
        for row in kept:
            record = journal.line(row)
            assert record.place is not None
            entry = parse_any(originals.line(record.place, record.sha256))
            own, original = identity(entry), journal.placed(row)
            if stands.get(journal.original(journal.original_of(row)), own) != own:
                raise of_another(store.journal)
            if original.sha256 != record.sha256 and original.place:
                # An edit of what an earlier run left: its blocks are those of what the agent wrote.
                entry = parse_any(originals.line(original.place, original.sha256))
            # A run that kept no originals may have changed its own rewriting: its records say where in that one.
            for block in journal.blocks_of(row):
                recorded(entry, block, store.journal)
    return len({journal.original_of(row) for row in kept})


def _read_originals(relative: relatives.Relative, strangers: Iterable[relatives.Stranger]) -> None:
    """Check the originals in a relative's store that the session's markers stand for. Raises Damaged."""
    journal = relative.journal
    rows = sorted({row for each in strangers for row in journal.replaced(each.key)})
    kept = [(line, block) for line, block in map(journal.block, rows) if line.place]
    if not kept:
        return
    with closing(OriginalsReader(relative.store.originals)) as originals:
        for line, block in kept:
            assert line.place is not None
            recorded(parse_any(originals.line(line.place, line.sha256)), block, relative.store.journal)
