"""Compare a session with its originals: each replaced value, and its replacement."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sessioncompress.core.jsonl import parse_any
from sessioncompress.core.lines import turns_on
from sessioncompress.core.model import JsonPath, Kind, Line
from sessioncompress.core.references import content_of, digest_of
from sessioncompress.core.splice import CannotSplice, literal
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, estimate
from sessioncompress.formats.base import Entry
from sessioncompress.formats.values import fields, part_text
from sessioncompress.operations.checkpoints import refuse_if_compacted
from sessioncompress.operations.matching import original_of
from sessioncompress.pipeline import reading, relatives
from sessioncompress.pipeline.plan import record_of
from sessioncompress.pipeline.rewrite import recorded, value_at
from sessioncompress.pipeline.usage import characters_per_token
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import BlockRecord, CheckpointRecord

_LOOKS_BACK = 16
"""Maximum number of removed parts without a record between two parts with one."""


class Loss(NamedTuple):
    """A replaced value: its record, its original text (None if not kept), and its current text (None if removed)."""

    block: BlockRecord
    original: str | None
    now: str | None


class Lessened(NamedTuple):
    """A message with replaced values: its line, counted from 1, its turn (0 if off the live path), and its role.

    `time` is in milliseconds since 1970, or 0 if the format has none.
    """

    line: int
    turn: int
    role: str
    time: int
    losses: list[Loss]


class Summed(NamedTuple):
    """Our summary: its author, the rule of the cut, and the number of lines moved to the originals.

    The tokens are what the model reads without and with it.
    """

    by: str
    rule: str
    tokens_before: int
    tokens_after: int
    moved: int


class Diff(NamedTuple):
    """A session's losses: our summaries, and the changed messages, which are read one by one.

    `has_store` is false if the session was never compressed. `made_elsewhere` is true if not all runs in its store are
    this user's on this machine.
    """

    has_store: bool
    made_elsewhere: bool
    summaries: Sequence[Summed]
    messages: Iterator[Lessened]


@contextmanager
def diff_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> Iterator[Diff]:
    """Compare a session with its originals. Changes nothing. `form` as in compress_session().

    Raises Refused, as restore_session() does, if a session without a store has markers or our summary; Unreadable if an
    original can't be read, also while iterating over the messages; other SessionCompressErrors.
    """
    with ExitStack() as opened:
        known = reading.read_session(opened.enter_context(reading.opened_with_store(path, policy, form=form)))
        journal, store = known.journal, known.store
        if not journal.runs:
            relatives.refuse_if_marked(known, policy)
            refuse_if_compacted(known)
        originals = opened.enter_context(OriginalsReader(store.originals))
        summaries = [_summed(each, known) for each in journal.checkpoints if not each.ended]
        yield Diff(bool(journal.runs), not journal.is_ours, summaries, _messages(known, originals, store.journal))


def _summed(record: CheckpointRecord, known: reading.Known) -> Summed:
    # The journal always counts four characters per token.
    per_token = characters_per_token(known.newest.model)
    before, after = (estimate(tokens * CHARACTERS_PER_TOKEN, per_token) for tokens in record.tokens)
    # If it was written both ways, only a restore can tell which one is there.
    moved = 0 if record.alike else sum(part.lines for part in record.dropped)
    return Summed(record.by, record.rule, before, after, moved)


def _messages(known: reading.Known, originals: OriginalsReader, where: Path) -> Iterator[Lessened]:
    journal, lines, live = known.journal, known.survey.lines, known.survey.shape.live
    starts = turns_on(lines, live)
    again: dict[str, list[list[BlockRecord]]] = {}
    """Records of originals with several, so that equal lines don't repeat the lookup."""
    reader = known.form.reader()
    turns = {number: bisect_right(starts, position) for position, number in enumerate(live)}
    for number, raw, whole in known.pieces() if known.rewritten else ():
        if not whole or number not in known.rewritten:
            continue
        record, entry = known.rewritten[number], parse_any(raw) or {}
        was = original_of(raw, record, originals, journal, where) if record.place is not None else b""
        original = parse_any(was) if was else None
        if (blocks := again.get(record.sha256)) is None:
            rows = journal.originals(bytes.fromhex(record.sha256))
            blocks = _by_place(block for row in rows for block in journal.blocks_of(row))
            if len(rows) > 1:
                again[record.sha256] = blocks
        small = _small(number, reader.line(was, original), original, reader.line(raw, entry), entry) if original else ()
        if losses := [*_losses(entry, original, blocks, where), *small]:
            time = known.form.written_at(entry)
            yield Lessened(number + 1, turns.get(number, 0), lines[number].role.value, time, losses)


def _small(number: int, before: Line, original: Entry, after: Line, new: Entry) -> Iterator[Loss]:
    """Find removed thinking that is too small for a record; its Loss has no reference."""
    stays = Counter(
        content_of(value_at(new, each.path), each.kind) for each in after.blocks if each.kind is Kind.THINKING
    )
    for each in before.blocks:
        if each.kind is Kind.THINKING and not record_of(each):
            value = value_at(original, each.path)
            content = content_of(value, each.kind)
            if not stays[content]:
                block = BlockRecord("", number, each.path, each.kind, each.tool, each.call, len(content), 1, "")
                yield Loss(block, _text(value, each.kind), None)
            stays[content] -= 1


def _by_place(blocks: Iterable[BlockRecord]) -> list[list[BlockRecord]]:
    """Group the records by value, in the order of the values.

    A later run may have replaced a value again, and equal lines may have been rewritten differently.
    """
    found: dict[JsonPath, list[BlockRecord]] = {}
    for block in blocks:
        found.setdefault(block.path, []).append(block)
    placed = sorted(found, key=lambda path: [(step, "") if isinstance(step, int) else (-1, step) for step in path])
    return [found[path] for path in placed]


def _losses(new: Entry, original: Entry | None, values: Iterable[Sequence[BlockRecord]], where: Path) -> Iterator[Loss]:
    """Find what is now in place of the original's values. Parts before them may have been removed."""
    taken_out: dict[JsonPath, int] = {}
    for blocks in values:
        block = blocks[-1]
        was = None if original is None else recorded(original, block, where)
        text = None if was is None else _text(was, block.kind)
        at = next((at for at, step in enumerate(block.path) if isinstance(step, int)), None)
        if at is None:
            standing = _standing(new, block.path, blocks, was)
        else:
            outer, index, inner = block.path[:at], int(block.path[at]), block.path[at + 1 :]
            likely = max(index - taken_out.get(outer, 0), 0)
            places = ((*outer, each, *inner) for each in range(likely, max(likely - _LOOKS_BACK, 0) - 1, -1))
            found = ((path, _standing(new, path, blocks, was)) for path in places)
            path, standing = next((each for each in found if each[1] is not _NOTHING), (block.path, _NOTHING))
            if standing is not _NOTHING:
                taken_out[outer] = index - int(path[at])
            elif not inner:
                taken_out[outer] = index - likely + 1
        if standing is _NOTHING:
            yield Loss(block, text, None)
        elif standing is not _ORIGINAL:
            yield Loss(block, text, _text(standing, block.kind))


_NOTHING, _ORIGINAL = object(), object()


def _standing(new: Entry, path: JsonPath, blocks: Iterable[BlockRecord], was: Any) -> Any:
    """Return the value at a path if a record's replacement matches, or _ORIGINAL if it is unchanged; else _NOTHING."""
    try:
        value, kind = value_at(new, path), next(iter(blocks)).kind
        if was is not None and content_of(value, kind) == content_of(was, kind):
            return _ORIGINAL
        digest = digest_of(literal(part_text(value) if kind is Kind.IMAGE else value))
        return value if any(digest == each.replacement for each in blocks) else _NOTHING
    except (CannotSplice, TypeError):
        # A value nested too deep to serialize raises TypeError.
        return _NOTHING


def _text(value: Any, kind: Kind) -> str:
    """Return the text of a value; of several strings, the longest."""
    if isinstance(value, str):
        return value
    if kind is Kind.IMAGE and (text := part_text(value)):
        return text
    # A signature may be longer than the thinking, but has no spaces.
    words = [each for each in fields(value).values() if isinstance(each, str) and " " in each]
    return max(words, key=len) if words else content_of(value, kind).decode(errors="replace")
