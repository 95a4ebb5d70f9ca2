"""What was said in the old part of a session, and before it what no summary in it carries on."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from sessioncompress.checkpoints import merge
from sessioncompress.checkpoints.cut import for_the_model
from sessioncompress.checkpoints.notes import Title
from sessioncompress.core import jsonl, marker
from sessioncompress.core.checkpoint import Said, Say
from sessioncompress.core.lines import EVERY, Lines, Survey, tokens_of
from sessioncompress.core.model import Role
from sessioncompress.operations.draft import Opened
from sessioncompress.pipeline.summary import LINES, noted
from sessioncompress.policy.model import Compact
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import CheckpointRecord

_SUMMARY_WITHIN = 3
"""Lines from a checkpoint on among which its summary stands: some agents write it into a line of its own."""
_LOOKS_BACK = 32
"""Compactions of the agent's own behind which it is looked for what was said."""


class Latest(NamedTuple):
    """A checkpoint of ours that the model reads first: its record, its summary, and the tokens that came since."""

    record: CheckpointRecord
    summary: str
    since: int

    def is_newest(self, rules: Compact) -> bool:
        """Tell whether too little was said since that another one would pay."""
        return self.since < max(rules.min_dead_tokens, 1)


class _Before(NamedTuple):
    """What stands before the last compaction: the lines of a summary of ours, and those since, of some the requests."""

    ours: Sequence[int] = ()
    whole: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()


def said(session: Opened, old: Sequence[int], apart: Container[int] = ()) -> Iterator[tuple[int, Said]]:
    """Yield what was said in some lines as the model reads them, each with the number of its line.

    A checkpoint among them is the first. Before one of the agent's own stand the requests for which it stands: a model
    may have left them out. Where nobody can read it, all that was said there does. No line of those `apart` counts.
    Previews count as their originals.
    """
    roles = session.read.lines.roles
    before = _before(session, old, apart) if old and roles[old[0]] is Role.CHECKPOINT else _Before()
    first_at: dict[int, int] = {}
    for number, each in _in_order(session, old, before):
        if each.say in (Say.PROMPT, Say.CARRIED):
            is_repeated = first_at.setdefault(hash(each.text), number) != number
            # Behind a summary of ours what is repeated stands either in that or in the lines since.
            if each.say is Say.CARRIED and (is_repeated or before.ours):
                continue
            each = each._replace(say=Say.PROMPT)  # noqa: PLW2901
        elif each.say is Say.SUMMARY and not _is_ours(session, each.text):
            each = each._replace(say=Say.FOREIGN)  # noqa: PLW2901
        yield number, each


def _is_ours(session: Opened, summary: str) -> bool:
    """Tell whether a summary is one that the journal records; an agent's own may begin with a copy of our head.

    Where it records none, as of a session that came without its store, the form of all of it has to be ours.
    """
    known = {each.summary for each in session.known.journal.checkpoints if each.summary}
    return merge.identity(summary) in known if known else merge.looks_ours(summary, Title)


def latest(session: Opened) -> Latest | None:
    """Find the checkpoint that the model reads first; None where the journal does not record it as ours."""
    read, journal = session.read, session.known.journal
    order = for_the_model(read)
    if not order or read.lines.roles[order[0]] is not Role.CHECKPOINT:
        return None
    summary = _summary(session, order)
    if not (name := merge.identity(summary)):
        return None
    standing = (each for each in reversed(journal.checkpoints) if each.summary == name and not each.ended)
    if (record := next(standing, None)) is None:
        return None
    # Compressing changes no number of lines, and makes those before it fewer tokens.
    known = noted(journal.maker(record), LINES)
    return Latest(record, summary, tokens_of(read, among=EVERY[known:]))


def _in_order(session: Opened, old: Sequence[int], before: _Before) -> Iterator[tuple[int, Said]]:
    reader = session.form.reader()
    for number in before.ours:
        yield from ((number, each) for each in reader.said(session.entry(number)) if each.say is Say.SUMMARY)
    if before.whole or before.asked:
        for number, each in _read(session, before.whole, before.asked):
            # The last compaction stands for those before it.
            if each.say in (Say.PROMPT, Say.CARRIED) or (number in before.whole and each.say is not Say.SUMMARY):
                yield number, each
    if len(old) > 1 and old[0] > old[1]:
        yield from ((old[0], each) for each in reader.said(session.entry(old[0])))
        old = old[1:]
    yield from _read(session, frozenset(old))


def _before(session: Opened, old: Sequence[int], apart: Container[int]) -> _Before:
    """Go back from compaction to compaction of the agent's own, up to a summary of ours: that carries on all before."""
    lines, form = session.read.lines, session.form
    order: Sequence[int] = old
    seen = {*for_the_model(session.read)}
    names = {lines.ids[number] for number in seen}
    whole, asked = set[int](), set[int]()
    ours: Sequence[int] = ()
    for _ in range(_LOOKS_BACK):
        if not order or lines.roles[order[0]] is not Role.CHECKPOINT:
            break
        checkpoint = order[0]
        summary = _summary(session, order)
        if _is_ours(session, summary):
            ours = () if checkpoint == old[0] else order[:_SUMMARY_WITHIN]
            break
        end = max((number for number in session.read.shape.live if number < checkpoint), default=checkpoint - 1)
        known = Lines(lines[: end + 1])
        order = for_the_model(Survey(known, form.shape(known), 0))
        # Some agents write what they keep once more.
        new = [number for number in order if number not in seen and (lines.ids[number] or None) not in names]
        seen.update(new)
        names.update(lines.ids[number] for number in new)
        (asked if summary else whole).update(number for number in new if number not in apart)
    return _Before(ours, frozenset(whole), frozenset(asked))


def _summary(session: Opened, order: Sequence[int]) -> str:
    """Read the summary of the checkpoint that comes first; empty where nobody can read it."""
    reader, lines = session.form.reader(), session.read.lines
    first = (number for number in order[:_SUMMARY_WITHIN] if lines[number].size < jsonl.LINE_CAP)
    found = (each for number in first for each in reader.said(session.entry(number)))
    return next((each.text for each in found if each.say is Say.SUMMARY), "")


def _read(session: Opened, wanted: Container[int], asked: Container[int] = ()) -> Iterator[tuple[int, Said]]:
    """Yield what was said in lines, in the order in which they stand there; of those `asked` only what may ask."""
    reader, rewritten = session.form.reader(), session.known.rewritten
    too_long = -1
    with OriginalsReader(session.store.originals) as originals:
        for number, raw, whole in jsonl.pieces_of(session.session.reader, session.session.size):
            if number not in wanted and not (number in asked and reader.may_prompt(raw)):
                continue
            if not whole:
                if number != too_long and session.read.lines.roles[number] is Role.USER:
                    size = marker.amount(session.read.lines[number].size)
                    yield number, Said(Say.PROMPT, f"({size}, too long to read)")
                too_long = number
                continue
            if number in rewritten and (record := rewritten[number]).place:
                raw = originals.line(record.place, record.sha256)  # noqa: PLW2901 - what the agent wrote there
            yield from ((number, each) for each in reader.said(jsonl.parse(raw) or {}))
