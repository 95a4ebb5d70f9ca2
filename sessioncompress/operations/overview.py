"""What sessions hold, what was saved of them and what a run would save: measured one by one, and summed up."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import Struct

from sessioncompress.compressors import KINDS, View
from sessioncompress.compressors.base import Ours
from sessioncompress.core.jsonl import parse_any
from sessioncompress.core.model import Kind, Line, Treatment
from sessioncompress.core.references import References, content_of
from sessioncompress.core.splice import CannotSplice
from sessioncompress.core.text import printable
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.packed import PackedSize
from sessioncompress.operations.sessions import Inspected, inspect_open, printed, short
from sessioncompress.operations.show import original_of, recorded
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.plan import plan
from sessioncompress.pipeline.previews import names_of_results
from sessioncompress.pipeline.rewrite import MustStay, rewrite, value_at
from sessioncompress.pipeline.usage import characters_per_token
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import Store, store_of
from sessioncompress.store.lock import open_session
from sessioncompress.store.originals import OriginalsReader

T = TypeVar("T")

_LONGEST_NAME = 120
"""Characters of a name that are kept: a stranger's session may hold longer ones."""
_MOST_TOOLS = 100
"""The tools of one session that are told apart."""
OTHERS = "others"


class Use(Struct, frozen=True):
    """What one kind of blocks of one tool takes of a session: bytes, those of them that are recent, and tokens."""

    kind: str
    tool: str
    size: int = 0
    recent: int = 0
    tokens: int = 0


class Measured(Struct, frozen=True):
    """One session in the numbers of a report. Sizes are bytes, tokens what a model reads of it next, estimated.

    `saved` and `saved_tokens` are what it would hold in addition without the runs so far, `store` what these cost;
    `unused` is all of that where every run was taken back.
    `frees`, `adds` and `frees_tokens` are what a run would take from the session, add to the store, and save the model;
    all 0 where none would pay. `month` is that of its newest answer, else of its last change.
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


def measure(path: Path, policy: Policy = BALANCED, *, project: str = "", form: str | None = None) -> Measured:
    """Measure a session for a report; `project` is used where its header names none. Raises SessionCompressError."""
    with open_session(path, writing=False) as session:
        store = store_of(session.path, policy)
        found = inspect_open(session, store, policy, form)
        stats, known = found.stats, found.known
        head = reading.head_in(session)
        would = stats.would
        live = [number for number in known.survey.shape.live if number not in known.survey.shape.dead]
        each = 1 / characters_per_token(known.newest.model)
        changed = known.newest.at / 1000 if known.newest.at else session.stat.st_mtime
        saved, saved_characters = _saved(found, live)
        pays = would.is_smaller
        # Lines of a run that was taken back may stand here again, as after a merge.
        is_used = found.journal.standing.numbers or known.rewritten.rows or saved
        return Measured(
            path=str(session.path),
            agent=known.form.name,
            project=_name(short(known.form.named(head).project or project)),
            model=_name(known.newest.model),
            month=_month(changed),
            size=stats.size,
            store=stats.store_size,
            unused=0 if is_used else stats.store_size,
            tokens=would.tokens_before,
            saved=saved,
            saved_tokens=round(saved_characters * each),
            frees=would.original_size - would.compressed_size if pays else 0,
            adds=would.store_added if pays else 0,
            frees_tokens=would.tokens_before - would.tokens_after if pays else 0,
            uses=_uses(found, live, each),
        )


def _month(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return ""


def _name(name: str) -> str:
    """Make a name safe to show; of a long one its beginning and its end."""
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME // 2]}...{name[-_LONGEST_NAME // 2 :]}"
    return printable(name)


def _saved(found: Inspected, live: Iterable[int]) -> tuple[int, float]:
    """Count the bytes that runs took out of a session, and at least how many characters a model would read of them.

    Of thinking nothing is counted: most of it is never sent again, and the journal does not say which.
    """
    journal, lines, rewritten = found.journal, found.view.lines, found.known.rewritten
    dropped = sum(part.place.bytes for each in journal.checkpoints for part in each.dropped if not each.ended)
    saved = sum(
        record.place.bytes - lines[number].size for number, record in rewritten.items() if record.place is not None
    )
    characters = 0.0
    before: dict[bytes, int] = {}
    """The bytes that were replaced in each original: many lines may be equal, and each has records of its own."""
    for number in rewritten.rows.keys() & set(live):
        original = journal.original_of(rewritten.rows[number])
        if original not in before:
            # A second run over a line notes only what it replaced itself.
            rows = journal.originals(original)
            blocks = {(block.path, block.kind): block.bytes for row in rows for block in journal.blocks_of(row)}
            sizes = (size for (_, kind), size in blocks.items() if _is_text(kind) and kind is not Kind.THINKING)
            before[original] = sum(sizes)
        after = sum(block.size for block in lines[number].blocks if block.marked and _is_text(block.kind))
        characters += max(before[original] - after, 0) * _share_read(lines[number])
    return max(saved, 0) + dropped, characters


def _is_text(kind: Kind) -> bool:
    """Tell whether a model reads such blocks as text: it sees an image as one, whatever its bytes."""
    return KINDS[kind].read and kind is not Kind.IMAGE


def _share_read(line: Line) -> float:
    """Estimate how much of a line's blocks is read: sizes are those of JSON text, and some agents write results twice.

    Nor is all thinking sent again.
    """
    return min(line.reads / max(sum(block.size for block in line.blocks if _is_text(block.kind)), 1), 1)


def _uses(found: Inspected, live: Iterable[int], each: float) -> tuple[Use, ...]:
    """Sum up a session's blocks by kind and tool, and what stands around them."""
    read: defaultdict[tuple[str, str], float] = defaultdict(float)
    for number in live:
        line = found.view.lines[number]
        share = _share_read(line)
        for block in line.blocks:
            if not block.marked and _is_text(block.kind):
                read[block.kind.value, block.tool] += block.size * share
    sums: dict[tuple[str, str], Use] = {}
    for place, row in enumerate(found.stats.shares):
        key = (row.kind, _name(row.tool) if place < _MOST_TOOLS else OTHERS)
        known = sums.get(key, Use(*key))
        size = row.protected + row.old + row.dead
        tokens = round(read[row.kind, row.tool] * each)
        sums[key] = Use(*key, known.size + size, known.recent + row.protected, known.tokens + tokens)
    return tuple(sums.values())


class Row(NamedTuple):
    """What belongs to one name of a table: of sessions what they hold and what a run would free of it in all."""

    name: str
    sessions: int
    size: int
    tokens: int
    part: int
    """Bytes of `size`: of sessions those that a run would free, the store counted, of blocks the recent ones."""


class Disk(NamedTuple):
    """What sessions and their stores take together: had there been no run, now, and after another one."""

    without: int
    now: int
    then: int


class Overview(NamedTuple):
    """The sums over all sessions, largest first; months in their order.

    `packed` are the projects of sessions in packs, which are in no other number: `part` is what is left of their size.
    """

    sessions: tuple[Measured, ...]
    agents: tuple[Row, ...]
    projects: tuple[Row, ...]
    months: tuple[Row, ...]
    kinds: tuple[Row, ...]
    tools: tuple[Row, ...]
    packed: tuple[Row, ...] = ()

    def total(self, field: str) -> int:
        """Sum up a number of all sessions."""
        return sum(getattr(each, field) for each in self.sessions)

    @property
    def disk(self) -> Disk:
        """Count the stores in: all shares of what is saved, and of what a run would free, are of these."""
        now = self.total("size") + self.total("store")
        return Disk(self.total("size") + self.total("saved"), now, now - self.total("frees") + self.total("adds"))


REST = "messages, records"
"""What stands in sessions around their blocks."""


def overview(measured: Iterable[Measured]) -> Overview:
    """Sum up sessions."""
    sessions = tuple(sorted(measured, key=lambda each: (-each.size, each.path)))
    return Overview(
        sessions,
        _by(sessions, lambda each: each.agent),
        _by(sessions, lambda each: each.project or "unknown"),
        tuple(sorted(_by(sessions, lambda each: each.month or "unknown"))),
        _by_use(sessions, lambda use: use.kind, REST),
        _by_use(sessions, lambda use: use.tool or "no tool"),
    )


def packed_rows(packed: Iterable[PackedSize]) -> tuple[Row, ...]:
    """Sum up packed sessions by project, the largest first."""
    by_project: dict[str, list[PackedSize]] = {}
    for each in packed:
        by_project.setdefault(printed(each.project) if each.project else "unknown", []).append(each)
    rows = [
        Row(name, len(of), sum(each.before for each in of), 0, round(sum(each.now for each in of)))
        for name, of in by_project.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.size, row.name)))


def _by(sessions: Iterable[Measured], name_of: Callable[[Measured], str]) -> tuple[Row, ...]:
    rows: dict[str, Row] = {}
    for each in sessions:
        name = name_of(each)
        known = rows.get(name, Row(name, 0, 0, 0, 0))
        frees = max(each.frees - each.adds, 0)
        rows[name] = Row(
            name, known.sessions + 1, known.size + each.size, known.tokens + each.tokens, known.part + frees
        )
    return tuple(sorted(rows.values(), key=lambda row: (-row.size, row.name)))


def _by_use(sessions: Sequence[Measured], name_of: Callable[[Use], str], rest: str = "") -> tuple[Row, ...]:
    rows: dict[str, Row] = {}
    for each in sessions:
        met = set()
        for use in each.uses:
            name = name_of(use)
            known = rows.get(name, Row(name, 0, 0, 0, 0))
            count = known.sessions + (name not in met)
            met.add(name)
            rows[name] = Row(name, count, known.size + use.size, known.tokens + use.tokens, known.part + use.recent)
    found = sorted(rows.values(), key=lambda row: (-row.size, row.name))
    if rest:
        size = sum(each.size for each in sessions) - sum(row.size for row in found)
        tokens = sum(each.tokens for each in sessions) - sum(row.tokens for row in found)
        found.append(Row(rest, len(sessions), max(size, 0), max(tokens, 0), 0))
    return tuple(found)


class Sample(NamedTuple):
    """A result before and after: `before` are its first lines, of so many bytes and lines in all."""

    agent: str
    tool: str
    size: int
    lines: int
    before: str
    after: str


_SAMPLE_LINES, _SAMPLE_CHARACTERS = 16, 1_200
_MOST_SAMPLED = 1 << 20
"""Bytes of a session that is read again for its samples."""
_LARGEST_SAMPLE = 1 << 16
"""Bytes of a result that is shown; what is usual tells more than what is largest."""


def sampled(sessions: Iterable[Measured], most: int = 4) -> list[Measured]:
    """Choose sessions to take samples from: of each agent in turn those of which most went, or would."""
    by_agent: dict[str, list[Measured]] = {}
    for each in sorted(sessions, key=lambda each: (-(each.saved + each.frees), each.path)):
        if each.saved + each.frees and each.size <= _MOST_SAMPLED:
            by_agent.setdefault(each.agent, []).append(each)
    in_turn = sorted((place, -each.frees, each.path, each) for of in by_agent.values() for place, each in enumerate(of))
    return [each for *_, each in in_turn[:most]]


def samples(path: Path, policy: Policy = BALANCED, *, form: str | None = None, most: int = 2) -> list[Sample]:
    """Show results of a session beside their previews: those of runs so far, or those that a run would write.

    They are of different tools, the largest first. Where the store cannot be read there are none.
    """
    with suppress(SessionCompressError), open_session(path, writing=False) as session:
        store = store_of(session.path, policy)
        journal = journals.load(store.journal)
        known = reading.read_session(session, journal, form)
        view = View(known.survey, policy, known.form, Ours((journal,)))
        return _kept(known, view, store, most) or _planned(known, view, most)
    return []


def _kept(known: reading.Known, view: View, store: Store, most: int) -> list[Sample]:
    """Make samples of results that runs replaced, with their originals from the store."""
    found = [
        (origin.bytes, block.tool, number, block)
        for number, record in known.rewritten.items()
        for block in view.lines[number].blocks
        if record.place is not None and block.marked and block.kind is Kind.RESULT
        if (origin := view.ours.origin((block.digest, block.kind, block.call))) is not None
    ]
    chosen = _largest(found, most)
    made: list[Sample] = []
    if not chosen:
        return made
    with OriginalsReader(store.originals) as originals:
        for number, raw in known.lines(sorted(chosen)):
            block, record = chosen[number], known.rewritten[number]
            rows = known.journal.originals(bytes.fromhex(record.sha256))
            for each in (each for row in rows for each in known.journal.blocks_of(row)):
                if (each.replacement, each.kind) == (block.digest, block.kind):
                    original = parse_any(original_of(raw, record, originals, known.journal, store.journal))
                    content = content_of(recorded(original, each, store.journal), each.kind)
                    made += _sample(view, block.tool, content, value_at(parse_any(raw) or {}, block.path))
                    break
    return made


def _planned(known: reading.Known, view: View, most: int) -> list[Sample]:
    """Make samples of results that a run would replace."""
    planned = plan(view, known.rewritten.rows)
    found = [
        (change.block.size, change.block.tool, number, (change.block, change))
        for number, changes in planned.items()
        for change in changes
        if change.block is not None and change.treatment is Treatment.PREVIEW and change.block.kind is Kind.RESULT
        if not change.block.marked
    ]
    chosen = _largest(found, most)
    if chosen:
        view.indexes = names_of_results(known, view, planned)
    made: list[Sample] = []
    for number, raw in known.lines(sorted(chosen)):
        with suppress(CannotSplice, MustStay):
            entry = parse_any(raw)
            new = None if entry is None else rewrite(raw, entry, planned[number], view, References().refer)
            block, change = chosen[number]
            for each in new.replacements if new else ():
                if each.change is change and each.content is not None:
                    made += _sample(view, block.tool, each.content, each.value)
    return made


def _largest(found: Iterable[tuple[int, str, int, T]], most: int) -> Mapping[int, T]:
    """Choose the largest by line, one of each tool, none that is larger than what a page shows."""
    chosen: dict[int, T] = {}
    tools = set()
    fitting = [each for each in found if each[0] <= _LARGEST_SAMPLE]
    for _, tool, number, value in sorted(fitting, key=lambda each: -each[0]):
        if tool not in tools and number not in chosen and len(chosen) < most:
            tools.add(tool)
            chosen[number] = value
    return chosen


def _sample(view: View, tool: str, content: bytes, preview: object) -> list[Sample]:
    if not isinstance(preview, str):
        return []
    text = content.decode(errors="replace")
    lines = text.splitlines()
    head = _shown("\n".join(lines[:_SAMPLE_LINES]))
    return [Sample(view.form.name, _name(tool), len(content), len(lines), head, _shown(preview))]


def _shown(text: str) -> str:
    return "\n".join(printable(line.expandtabs(4)) for line in text[:_SAMPLE_CHARACTERS].splitlines())
