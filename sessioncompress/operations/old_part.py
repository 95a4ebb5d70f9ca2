"""The old part of a session: its messages, and the summary that replaces it for the model.

The summary uses the session's own words, or a model's or command's text that is checked against them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from sessioncompress.checkpoints import merge
from sessioncompress.checkpoints.cut import for_the_model
from sessioncompress.checkpoints.digest import extract, room_for_prose, with_prose
from sessioncompress.checkpoints.excerpts import stems_in
from sessioncompress.checkpoints.notes import NOTHING, Besides, Notes
from sessioncompress.checkpoints.prose import missing, paths_in, strike, why_not
from sessioncompress.checkpoints.quote import clean
from sessioncompress.core import jsonl, marker
from sessioncompress.core.checkpoint import Say, Summary, Utterance
from sessioncompress.core.lines import EVERY, Lines, Survey, tokens_of
from sessioncompress.core.model import Role
from sessioncompress.errors import failing
from sessioncompress.operations.draft import Opened
from sessioncompress.pipeline.reading import as_written
from sessioncompress.pipeline.totals import LINES, noted
from sessioncompress.policy.model import Compact
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import CheckpointRecord

WENT_ON = "its agent added to it during the summary"
"""The reason for leaving a session unchanged."""
_SUMMARY_WITHIN = 3
"""Lines, from a checkpoint on, that may hold its summary: some agents write it on a separate line."""
_LOOKS_BACK = 32
"""Maximum number of the agent's own compactions to trace back to the messages before them."""


class Latest(NamedTuple):
    """Our checkpoint if the model reads it first: its record, its summary, and the tokens added since."""

    record: CheckpointRecord
    summary: str
    since: int

    def is_newest(self, rules: Compact) -> bool:
        """True if too little was added since to make another one worthwhile."""
        return self.since < max(rules.min_dead_tokens, 1)


class _Before(NamedTuple):
    """Before the last compaction: our summary's lines, lines to read in full, and lines to read for requests."""

    ours: Sequence[int] = ()
    whole: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()


def said(session: Opened, old: Sequence[int], apart: Container[int] = ()) -> Iterator[tuple[int, Utterance]]:
    """Yield the messages in `old`, lines in the model's order, each with its line number.

    A checkpoint among them is first. For an agent's own checkpoint, add the requests that it summarizes, since a model
    may have left some out; if its summary can't be read, add everything before it. Lines in `apart` are ignored.
    Previews are replaced by their originals.
    """
    roles = session.read.lines.roles
    before = _before(session, old, apart) if old and roles[old[0]] is Role.CHECKPOINT else _Before()
    first_at: dict[int, int] = {}
    for number, each in _in_order(session, old, before):
        if each.say in (Say.PROMPT, Say.CARRIED):
            is_repeated = first_at.setdefault(hash(each.text), number) != number
            # Everything repeated after our summary is in that summary or in the lines since.
            if each.say is Say.CARRIED and (is_repeated or before.ours):
                continue
            each = each._replace(say=Say.PROMPT)  # noqa: PLW2901
        elif each.say is Say.SUMMARY and not _is_ours(session, each.text):
            each = each._replace(say=Say.FOREIGN)  # noqa: PLW2901
        yield number, each


def _is_ours(session: Opened, summary: str) -> bool:
    """True if the journal records a summary. An agent's own may start with a copy of our heading.

    If the journal records none, as for a session without its store, the whole text must have our form.
    """
    known = {each.summary for each in session.known.journal.checkpoints if each.summary}
    return merge.identity(summary) in known if known else merge.looks_ours(summary)


def find_latest(session: Opened) -> Latest | None:
    """Return the checkpoint that the model reads first, or None if it isn't recorded as ours."""
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
    # Compression doesn't change the number of lines, and only shrinks the lines before it.
    known = noted(journal.maker(record), LINES)
    return Latest(record, summary, tokens_of(read, among=EVERY[known:]))


def _in_order(session: Opened, old: Sequence[int], before: _Before) -> Iterator[tuple[int, Utterance]]:
    reader = session.form.reader()
    for number in before.ours:
        yield from ((number, each) for each in reader.said(session.entry(number)) if each.say is Say.SUMMARY)
    if before.whole or before.asked:
        for number, each in _read(session, before.whole, before.asked):
            # The last compaction includes the earlier ones.
            if each.say in (Say.PROMPT, Say.CARRIED) or (number in before.whole and each.say is not Say.SUMMARY):
                yield number, each
    if len(old) > 1 and old[0] > old[1]:
        yield from ((old[0], each) for each in reader.said(session.entry(old[0])))
        old = old[1:]
    yield from _read(session, frozenset(old))


def _before(session: Opened, old: Sequence[int], apart: Container[int]) -> _Before:
    """Trace the agent's own compactions back to our summary, which covers everything before it."""
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
        # Some agents write the kept entries again.
        new = [number for number in order if number not in seen and (lines.ids[number] or None) not in names]
        seen.update(new)
        names.update(lines.ids[number] for number in new)
        (asked if summary else whole).update(number for number in new if number not in apart)
    return _Before(ours, frozenset(whole), frozenset(asked))


def _summary(session: Opened, order: Sequence[int]) -> str:
    """Read the summary of the first checkpoint; empty if it can't be read."""
    reader, lines = session.form.reader(), session.read.lines
    first = (number for number in order[:_SUMMARY_WITHIN] if lines[number].size < jsonl.LINE_CAP)
    found = (each for number in first for each in reader.said(session.entry(number)))
    return next((each.text for each in found if each.say is Say.SUMMARY), "")


def _read(session: Opened, wanted: Container[int], asked: Container[int] = ()) -> Iterator[tuple[int, Utterance]]:
    """Yield the messages in these lines in session order; from lines in `asked`, only possible requests."""
    reader, rewritten = session.form.reader(), session.known.rewritten
    too_long = -1
    with OriginalsReader(session.store.originals) as originals:
        for number, raw, whole in jsonl.pieces_of(session.session.reader, session.session.size):
            if number not in wanted and not (number in asked and reader.may_prompt(raw)):
                continue
            if not whole:
                if number != too_long and session.read.lines.roles[number] is Role.USER:
                    size = marker.amount(session.read.lines[number].size)
                    yield number, Utterance(Say.PROMPT, f"({size}, too long to read)")
                too_long = number
                continue
            written = as_written(raw, rewritten.get(number), originals)
            yield from ((number, each) for each in reader.said(jsonl.parse(written) or {}))


class Unusable(Exception):
    """A text can't become a summary, or a model wrote none. The message gives the reason and quotes nothing."""


class OldPart:
    """Lines of a session that a summary of up to `budget` tokens will replace; see Notes.

    `extract` is the summary in the session's own words. Any other summary has the same facts.
    """

    def __init__(
        self,
        session: Opened,
        lines: Sequence[int],
        *,
        budget: int,
        splits: bool = False,
        besides: Besides = NOTHING,
        apart: Container[int] = (),
    ) -> None:
        self.session, self.budget = session, budget
        self.lines, self._apart = lines, apart
        self.notes = Notes(self.said(), splits=splits, besides=besides)
        self.extract = extract(self.notes, budget)

    def said(self) -> Iterator[tuple[int, Utterance]]:
        """Yield the messages in it, each with its line number."""
        return said(self.session, self.lines, self._apart)

    def went_on(self) -> bool:
        """True if lines were added while a model or a command worked; their parent may be in the old part.

        Raises InUse if the session changed in another way.
        """
        with failing(self.session.session.path):
            return self.session.session.appended() > 0

    def add(self, context: Sequence[str]) -> None:
        """Add the context that a user's command returned."""
        if context:
            self.notes.besides = self.notes.besides._replace(context=context)
            self.extract = extract(self.notes, self.budget)

    @property
    def heeds(self) -> bool:
        """True if the instructions share a word with a line that they can rank."""
        words, excerpts = stems_in(self.notes.besides.instructions).keys(), self.notes.excerpts
        lines = (line for _, line, *_ in chain(excerpts.written(), excerpts.readings()))
        return any(not words.isdisjoint(stems_in(each)) for each in lines)

    @cached_property
    def room(self) -> int:
        """Maximum characters of a model's or command's text; added context doesn't reduce it."""
        return room_for_prose(self.notes, self.budget)

    def holding(self, text: str, *, by: str, model: str = "", known: str = "") -> Summary:
        """Build the summary around an outside text; strike paths that are neither in the session nor in `known`.

        Raises Unusable.
        """
        self._refuse_unusable(text)
        # Clean first, as it will be written: invisible characters may split a path.
        text = clean(text)
        texts = (each for _, said in self.said() for each in said.contents())
        sure = "\n".join([*self.extract.changed, *self.extract.read, known])
        root = self.notes.root
        text = strike(text, missing(missing(paths_in(text), [sure], root), texts, root))
        self._refuse_unusable(text)
        return with_prose(self.notes, self.budget, text)._replace(by=by, model=model)

    def _refuse_unusable(self, text: str) -> None:
        if why := why_not(text, self.room):
            raise Unusable(why)
