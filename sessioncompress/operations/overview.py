"""Measure sessions one by one, and total them: their content, what was saved, and what a run would save."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from sessioncompress.compressors import KINDS
from sessioncompress.core import jsonl
from sessioncompress.core.lines import Survey, tokens_of
from sessioncompress.core.model import Kind
from sessioncompress.core.text import printable, written_time
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.matching import original_of
from sessioncompress.operations.sessions import Inspected, inspect_open, printed, short, title_in
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.usage import characters_per_token
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.packing import Packed

_LONGEST_NAME = 120
"""Maximum length of a name; an untrusted session may have longer ones."""
_MOST_TOOLS = 100
"""Maximum number of tools listed separately per session."""


class Use(Struct, frozen=True):
    """The share of one kind and tool in a session: bytes, protected bytes, and tokens."""

    kind: str
    tool: str
    size: int = 0
    protected: int = 0
    tokens: int = 0


class Measured(Struct, frozen=True):
    """One session in the numbers of a report. Sizes are bytes; tokens are estimates of what the model reads next.

    `saved` and `saved_tokens` are what it would hold in addition without the runs so far; `store` is what they cost.
    `unused` is the part of the store that no run in place accounts for, which no other number includes. `frees`, `adds`
    and `frees_tokens` are what a run would remove from the session, add to the store, and save the model; all 0 if no
    run would pay. `month` is the month of its newest answer, or else of its last change. `changed` is the time of the
    last change.
    """

    path: str
    agent: str
    project: str
    model: str
    month: str
    size: int
    store: int
    unused: int
    tokens: int
    saved: int
    saved_tokens: int
    frees: int
    adds: int
    frees_tokens: int
    uses: tuple[Use, ...]
    title: str = ""
    changed: float = 0


def measure(path: Path, policy: Policy = BALANCED, *, project: str = "", form: str | None = None) -> Measured:
    """Measure a session for a report. If `project` is empty, its header names it. Raises SessionCompressError."""
    with reading.opened_with_store(path, policy, form=form) as stored:
        session, found = stored.session, inspect_open(stored, policy)
        stats, known = found.stats, found.known
        head = reading.head_in(session)
        would = stats.would
        live = [number for number in known.survey.shape.live if number not in known.survey.shape.dead]
        per_token = characters_per_token(known.newest.model)
        changed = known.newest.at / 1000 if known.newest.at else session.stat.st_mtime
        before, saved = _before(found)
        pays = would.is_smaller
        # Lines of an undone run may be here again, for example after a merge.
        is_used = not known.journal.standing.numbers and (known.rewritten.rows or saved)
        return Measured(
            path=str(session.path),
            agent=known.form.name,
            project=_name(short(project or known.form.named(head).project)),
            model=_name(known.newest.model),
            month=written_time(changed)[:7],
            size=stats.size,
            store=stats.store_size,
            unused=0 if is_used else known.journal.unaccounted,
            tokens=would.tokens_before,
            saved=saved,
            saved_tokens=max(tokens_of(before, per_token) - would.tokens_before, 0),
            frees=would.original_size - would.compressed_size if pays else 0,
            adds=would.store_added if pays else 0,
            frees_tokens=would.tokens_before - would.tokens_after if pays else 0,
            uses=_uses(found, live, per_token),
            title=printable(title_in(session, known.form, head)),
            changed=session.stat.st_mtime,
        )


def _name(name: str) -> str:
    """Make a name safe to show, and shorten a long one in the middle."""
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME // 2]}...{name[-_LONGEST_NAME // 2 :]}"
    return printable(name)


def _before(found: Inspected) -> tuple[Survey, int]:
    """Read a session with the original lines, and count the bytes that runs removed.

    A line stays if its original can't be read. A summary also stays, but its bytes are subtracted.
    """
    known, journal = found.known, found.known.journal
    checkpoints = [each for each in journal.checkpoints if not each.ended]
    saved = sum(part.place.bytes for each in checkpoints for part in each.dropped)
    ours = {line for each in checkpoints for line in each.lines}
    if not (known.rewritten or ours):
        return known.survey, saved

    def originals() -> Iterator[jsonl.Piece]:
        nonlocal saved
        with OriginalsReader(known.store.originals) as reader:
            for number, raw, whole in known.pieces():
                original, record = raw, known.rewritten.get(number) if whole else None
                if record is not None and record.place is not None:
                    # `verify` reports unreadable originals.
                    with suppress(SessionCompressError):
                        original = original_of(raw, record, reader, journal, known.store.journal)
                elif ours and sha256(raw).hexdigest() in ours:
                    saved -= len(raw)
                saved += len(original) - len(raw)
                yield number, original, whole

    return reading.survey(originals(), known.form), saved


def _is_text(kind: Kind) -> bool:
    """True if a model reads such blocks as text. It sees an image as an image, regardless of its bytes."""
    return KINDS[kind].read and kind is not Kind.IMAGE


def _uses(found: Inspected, live: Iterable[int], per_token: float) -> tuple[Use, ...]:
    """Sum a session's blocks by kind and tool."""
    read: defaultdict[tuple[str, str], float] = defaultdict(float)
    for number in live:
        line = found.view.lines[number]
        # Sizes are of JSON text, some agents write results twice, and not all thinking is sent again.
        share = min(line.reads / max(sum(block.size for block in line.blocks if _is_text(block.kind)), 1), 1)
        for block in line.blocks:
            if not block.marked and _is_text(block.kind):
                read[block.kind.value, block.tool] += block.size * share
    sums: dict[tuple[str, str], Use] = {}
    for place, row in enumerate(found.stats.shares):
        key = (row.kind, _name(row.tool) if place < _MOST_TOOLS else "others")
        known = sums.get(key, Use(*key))
        tokens = round(read[row.kind, row.tool] / per_token)
        sums[key] = Use(*key, known.size + row.size, known.protected + row.protected_bytes, known.tokens + tokens)
    return tuple(sums.values())


class Row(NamedTuple):
    """One row of a table: for sessions, what they hold and what a run would free in total."""

    name: str
    sessions: int
    size: int
    tokens: int
    part: int
    """Bytes of `size`: for sessions what a run would free, less store growth; for blocks the protected bytes."""


class OnDisk(NamedTuple):
    """Disk space of sessions and stores: without any runs, now, and after another run."""

    without: int
    now: int
    then: int


class Overview(NamedTuple):
    """The totals over all sessions, largest first; months in order.

    `packed` are the projects of packed sessions, which no other number includes. Their `part` is the packed size.
    """

    sessions: tuple[Measured, ...]
    agents: tuple[Row, ...]
    projects: tuple[Row, ...]
    months: tuple[Row, ...]
    kinds: tuple[Row, ...]
    tools: tuple[Row, ...]
    packed: tuple[Row, ...] = ()

    def total(self, field: str) -> int:
        """Sum a field over all sessions."""
        return sum(getattr(each, field) for each in self.sessions)

    @property
    def disk(self) -> OnDisk:
        """Includes the stores except for unused parts. All shares of saved or freed bytes refer to these."""
        now = self.total("size") + self.total("store") - self.total("unused")
        return OnDisk(self.total("size") + self.total("saved"), now, now - self.total("frees") + self.total("adds"))


REST = "messages, records"
"""Content of sessions outside their blocks."""


def overview(measured: Iterable[Measured]) -> Overview:
    """Total the sessions."""
    sessions = tuple(sorted(measured, key=lambda each: (-each.size, each.path)))
    kinds = _by_use(sessions, lambda use: use.kind)
    size, tokens = (
        sum(getattr(each, of) for each in sessions) - sum(getattr(row, of) for row in kinds)
        for of in ("size", "tokens")
    )
    # Only blocks of these kinds name a tool; attachments have their own kind of name.
    of_tools = (Kind.ARGUMENT, Kind.RESULT, Kind.IMAGE, Kind.MIRROR)
    return Overview(
        sessions,
        _by(sessions, lambda each: each.agent),
        _by(sessions, lambda each: each.project or "unknown"),
        tuple(sorted(_by(sessions, lambda each: each.month or "unknown"))),
        (*kinds, Row(REST, len(sessions), max(size, 0), max(tokens, 0), 0)),
        tuple(row for row in _by_use(sessions, lambda use: use.tool * (use.kind in of_tools)) if row.name),
    )


def packed_rows(packed: Iterable[Packed]) -> tuple[Row, ...]:
    """Total packed sessions by project, largest first."""
    named = ((printed(each.entry.project) if each.entry.project else "unknown", each) for each in packed)
    return _largest(Row(name, 1, each.entry.size, 0, each.packed_size) for name, each in named)


def summed(name: str, rows: Iterable[Row]) -> Row:
    """Sum rows into one."""
    return Row(name, *map(sum, zip(*(row[1:] for row in rows), strict=True)))


def _largest(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Sum the rows of each name, largest first."""
    by_name: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_name[row.name].append(row)
    found = [summed(name, of) for name, of in by_name.items()]
    return tuple(sorted(found, key=lambda row: (-row.size, row.name)))


def _by(sessions: Iterable[Measured], name_of: Callable[[Measured], str]) -> tuple[Row, ...]:
    return _largest(Row(name_of(each), 1, each.size, each.tokens, max(each.frees - each.adds, 0)) for each in sessions)


def _by_use(sessions: Sequence[Measured], name_of: Callable[[Use], str]) -> tuple[Row, ...]:
    rows = []
    for each in sessions:
        # A session counts once per name, however many of its uses have it.
        uses = _largest(Row(name_of(use), 1, use.size, use.tokens, use.protected) for use in each.uses)
        rows += [row._replace(sessions=1) for row in uses]
    return _largest(rows)
