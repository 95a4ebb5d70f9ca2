"""Check a session: is it one, and is the original of every rewritten line there and right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from sessioncompress.core.jsonl import parse_any, pieces_of
from sessioncompress.core.text import as_written
from sessioncompress.errors import NOT_CHANGED, Damaged
from sessioncompress.operations.altered import altered
from sessioncompress.operations.restore import way_out
from sessioncompress.operations.show import identity, of_another, recorded
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.markers import Stranger, refuse_if_marked, strangers_of, unknown_to_all
from sessioncompress.pipeline.reading import RewrittenLines, find
from sessioncompress.pipeline.relatives import Relative, relatives_of
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.damage import refuse_if_changed
from sessioncompress.store.folder import is_open_to_others
from sessioncompress.store.journal import Journal
from sessioncompress.store.late_links import foreign_links
from sessioncompress.store.layout import Beside, store_of
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.recover import check


class VerifyStats(Struct, frozen=True, rename="camel"):
    """What `verify` checked in one session: its lines, and the originals that it read and compared.

    `lines_without_original` are rewritten lines of which none was kept: they cannot be restored. `unknown_markers`
    name what the journal does not know: a tool printed them, or they are of another session, or side of this one.
    `lines_not_there`: the store knows them, but this older state of the session does not hold them. The originals of
    `markers_of_relatives` were read in the store of a session that this one was forked from, or goes on from.
    `open_to_others`: the store's modes let other users read it. `foreign_files` are named like late links, but no run
    of this user on this machine made them: they count for nothing.
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


def verify_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> VerifyStats:
    """Check a session and what lies beside it; changes nothing. `form` is as for compress_session().

    Raises Damaged where an original or the record of a run is missing or wrong, or where a rewritten line was altered
    since, so that the session could not be restored exactly; Refused, as restore does, where it holds markers that
    neither a journal of its own nor a relative's knows; other SessionCompressErrors as usual. Counted are lines of
    which no original was kept, as the policy asked; lines of the journal that are not in the session, which is an
    older state of itself then; and markers of which the originals, read too, lie in a relative's store.
    """
    with open_session(Path(path), writing=False) as session:
        beside = store_of(session.path, policy)
        journal = journals.load(beside.journal)
        left_over = check(session, beside, journal.lengths)
        found, lines, opaque = _read(session, journal, form)
        strangers = strangers_of(session, journal, form)
        relatives = relatives_of(session, policy, form) if strangers else []
        unknown = unknown_to_all(relatives, strangers)
        if unknown and not journal.runs:
            refuse_if_marked(session, beside, policy, form)
        for relative in relatives:
            _read_originals(relative, strangers)
        rewritten, missing = find(session, journal)
        checked = _originals(beside, journal, _stands(session, rewritten, journal, beside))
        if changed := altered(session, journal, rewritten, missing, beside.originals, form):
            raise Damaged(
                f"it cannot be restored exactly: {as_written(changed)}",
                where=session.path,
                state=NOT_CHANGED,
                remedy=way_out(session, beside, journal, form),
            )
        refuse_if_changed(beside, journal)
        if opaque:
            # Git's markers are among the lines that are not understood: without any the session need not be read again.
            reading.refuse_in_merge(session)
        lost = sum(record.place is None for record in rewritten.values())
        return VerifyStats(
            str(session.path),
            found,
            lines,
            opaque,
            len(rewritten),
            lost,
            checked,
            journal.counts[1],
            len(unknown),
            len(missing),
            len(strangers) - len(unknown),
            open_to_others=is_open_to_others(beside),
            foreign_files=len(foreign_links(beside.work, session.path)) if left_over else 0,
        )


def _read(session: OpenSession, journal: Journal, form: str | None) -> tuple[str, int, int]:
    """Return the session's format, how many lines it has, and how many of them are not understood."""
    known = reading.read_session(session, journal, form)
    return known.form.name, len(known.survey.lines), known.survey.lines.not_understood()


def _stands(
    session: OpenSession, rewritten: RewrittenLines, journal: Journal, beside: Beside
) -> Mapping[int | None, int]:
    """Return which entry stands rewritten in each original's place, by the newest line record of the original."""
    stands: dict[int | None, int] = {}
    if not rewritten:
        return stands
    for number, raw, _ in pieces_of(session.reader, session.size):
        if record := rewritten.get(number):
            entry = identity(parse_any(raw))
            if stands.setdefault(journal.original(bytes.fromhex(record.sha256)), entry) != entry:
                raise of_another(beside.journal)
    return stands


def _originals(beside: Beside, journal: Journal, stands: Mapping[int | None, int]) -> int:
    """Read every original, compare it and its blocks with their records and it with what stands there for it.

    Return how many there are.
    """
    kept = journal.kept
    if not kept:
        return 0
    with closing(OriginalsReader(beside.originals)) as originals:
        for row in kept:
            record = journal.line(row)
            assert record.place is not None
            entry = parse_any(originals.line(record.place, record.sha256))
            if stands.get(journal.original(bytes.fromhex(record.sha256)), identity(entry)) != identity(entry):
                raise of_another(beside.journal)
            # A run that kept no originals may have changed its own rewriting: its records say where in that one.
            for block in journal.blocks_of(row):
                recorded(entry, block, beside.journal)
    return len({journal.original_of(row) for row in kept})


def _read_originals(relative: Relative, strangers: Iterable[Stranger]) -> None:
    """Read the originals that a relative's store holds for the markers of a session. Raises Damaged."""
    journal = relative.journal
    rows = sorted({row for each in strangers for row in journal.replaced(each.key)})
    kept = [(line, block) for line, block in map(journal.block, rows) if line.place]
    if not kept:
        return
    with closing(OriginalsReader(relative.beside.originals)) as originals:
        for line, block in kept:
            assert line.place is not None
            recorded(parse_any(originals.line(line.place, line.sha256)), block, relative.beside.journal)
