"""The summary of what was said: made without a model, the same of the same, never longer than its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sessioncompress.checkpoints import deeds as done
from sessioncompress.checkpoints import excerpts as shown
from sessioncompress.checkpoints import merge
from sessioncompress.checkpoints import story as told
from sessioncompress.checkpoints.excerpts import stems_in
from sessioncompress.checkpoints.merge import Title
from sessioncompress.checkpoints.notes import Notes
from sessioncompress.checkpoints.prose import rows
from sessioncompress.checkpoints.quote import clip, excerpt, more, newest, one_line, quoted
from sessioncompress.core.checkpoint import Summary
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, counted


class SectionDraft(NamedTuple):
    """What a section is written from: the notes, the characters it may take, and what was written of the others."""

    notes: Notes
    room: int
    written: str


def _goal(draft: SectionDraft) -> Sequence[str]:
    goal = draft.notes.goal
    return [quoted("-", [one_line(goal, max(draft.room - len("- > \n"), 0))])] if goal else ()


def _context(draft: SectionDraft) -> Sequence[str]:
    if context := draft.notes.besides.context:
        return newest([_quoted(each, draft.room) for each in context], draft.room)
    rows, gone = _carried(draft, Title.CONTEXT)
    return newest(rows, draft.room, gone)


def _quoted(text: str, room: int) -> str:
    """Quote a text as far as newest() takes it; what stands before each line counts, too."""
    most = room - len(more(10**6)) - 1
    lines, row = excerpt(text, room), ""
    # Made shorter by a few characters until it fits.
    for size in range(most, 0, -40):
        row = quoted("-", clip(lines, size))
        if len(row) <= most:
            break
    return row


def _carried(draft: SectionDraft, title: Title) -> tuple[list[str], int]:
    """Quote again what an earlier summary quotes, and how many rows it left out."""
    section = draft.notes.carried.get(title, merge.Section())
    return [quoted("-", each.lines) for each in merge.told(section.rows)], section.gone


def _foreign(draft: SectionDraft) -> Sequence[str]:
    carried, gone = _carried(draft, Title.BEFORE)
    new = (_quoted(each, draft.room) for each in draft.notes.foreign)
    return newest([*carried, *new], draft.room, gone)


def _reports(draft: SectionDraft) -> Sequence[str]:
    if draft.notes.splits:
        return told.reports(draft.notes.story, draft.room, in_progress=False)
    return _with_last_call(draft, in_progress=None)


def _with_last_call(draft: SectionDraft, *, in_progress: bool | None) -> Sequence[str]:
    """Write reports, and behind them how the last turn ended where it has none of its own."""
    story = draft.notes.story
    last = newest(draft.notes.last_call, draft.room)
    room = draft.room - sum(map(len, last)) - len(last)
    rows = told.reports(story, room, in_progress=in_progress)
    room -= sum(map(len, rows)) + len(rows)
    texts = [f"- > {text}" for text in story.texts] if in_progress else []
    return [*newest(texts, room), *rows, *last]


def _decisions(draft: SectionDraft) -> Sequence[str]:
    wanted = stems_in(draft.notes.wanted).keys()
    return told.decisions(draft.notes.story, draft.room, lambda words: not wanted.isdisjoint(stems_in(words)))


def _wrote(draft: SectionDraft) -> Sequence[str]:
    excerpts = draft.notes.excerpts
    return _excerpts(draft, ((each.where, each.words) for each in excerpts.carried()), excerpts.written())


def _read(draft: SectionDraft) -> Sequence[str]:
    earlier = ((where, line) for where, lines in draft.notes.read_before for line in lines)
    return _excerpts(draft, earlier, draft.notes.excerpts.readings())


def _excerpts(draft: SectionDraft, earlier: Iterable[tuple[str, str]], texts: Iterable[shown.Found]) -> Sequence[str]:
    """Write new lines; those of an earlier summary take at most half of the room."""
    root = draft.notes.root
    carried = shown.carry(earlier, root, draft.room // 2)
    rows = shown.by_file(carried, root)
    room = draft.room - sum(map(len, rows)) - len(rows)
    new = shown.lines(texts, "\n".join([draft.written, *rows]), root, room, draft.notes.wanted)
    return shown.by_file([*carried, *new], root)


_SECTIONS: Mapping[str, tuple[float, Callable[[SectionDraft], Sequence[str]]]] = {
    Title.GOAL: (0.15, _goal),
    Title.BEFORE: (0.30, _foreign),
    Title.REQUESTS: (0.25, lambda draft: told.requests(draft.notes.story, draft.room, splits=draft.notes.splits)),
    Title.CONSTRAINTS: (0.30, lambda draft: told.constraints(draft.notes.story, draft.written, draft.room)),
    Title.PROGRESS: (0.25, lambda draft: told.progress(draft.notes.story, draft.room) if draft.notes.splits else ()),
    Title.SO_FAR: (0.10, lambda draft: _with_last_call(draft, in_progress=True) if draft.notes.splits else ()),
    Title.REPORTS: (0.24, _reports),
    Title.DECISIONS: (0.10, _decisions),
    Title.CONTEXT: (0.15, _context),
    Title.TODO: (0.07, lambda draft: done.todo(draft.notes.deeds, draft.room)),
    Title.CHANGED: (0.14, lambda draft: done.files(draft.notes.deeds, draft.notes.root, draft.room)),
    Title.READ_FILES: (0.05, lambda draft: done.read_files(draft.notes.deeds, draft.notes.root, draft.room)),
    Title.COMMANDS: (0.14, lambda draft: done.commands(draft.notes.deeds, draft.notes.root, draft.room)),
    Title.FAILURES: (0.05, lambda draft: done.failures(draft.notes.deeds, draft.written.split("\n"), draft.room)),
    Title.WROTE: (1.0, _wrote),
    Title.READ: (1.0, _read),
}
"""The share of the budget that each section has at most, and what writes its rows."""
_ORDER = (
    *(Title.GOAL, Title.CONTEXT, Title.CHANGED, Title.COMMANDS, Title.PROGRESS, Title.SO_FAR, Title.REQUESTS),
    *(Title.TODO, Title.BEFORE, Title.CONSTRAINTS, Title.DECISIONS, Title.FAILURES, Title.READ_FILES),
    *(Title.REPORTS, Title.WROTE, Title.READ),
)
"""In the order in which they get their room: what no model can find out again before all others."""
_REST = (Title.REPORTS, Title.WROTE, Title.READ)
"""They get what the others leave."""
_FOR_BEFORE = 0.15
"""So much at least a summary of somebody else gets where there is one: nothing else has what it says."""
_FACTS = (
    *(Title.GOAL, Title.CHANGED, Title.COMMANDS, Title.TODO, Title.FAILURES, Title.READ_FILES),
    Title.PROGRESS,
)
"""They are taken from the session whoever sums up; the next step depends on the words of the request in progress."""
_BESIDE_PROSE = (Title.CONTEXT, Title.REQUESTS, Title.WROTE, Title.READ)
"""They get what the prose leaves. A model may leave out a request, and no later summary would have it again."""
_OVER = 1.5
"""So many times its budget a summary may take with prose."""
_FOR_PROSE = 0.65
"""And so much of its budget the prose may take in any case."""
_LEAST_BESIDE = 400
"""Characters for which a section is shown beside prose."""


def extract(notes: Notes, budget: int) -> Summary:
    """Write the summary from the session's own words alone."""
    page = _Page(notes, budget)
    # Of those that get what the others leave, these get so much at least.
    reserved: dict[str, float] = {Title.REPORTS: 0.14, Title.WROTE: 0.12}
    if notes.foreign or notes.carried.get(Title.BEFORE, merge.Section()).rows:
        reserved[Title.BEFORE] = _FOR_BEFORE
    for title in _ORDER:
        reserved.pop(title, None)
        page.add(title, page.left - int(page.total * sum(reserved.values())))
    # What nothing else needs is the user's; what then stands in a request need not be said once more.
    for title in (Title.CONSTRAINTS, Title.REQUESTS, Title.CONSTRAINTS):
        page.widen(title, may_shrink=title is Title.CONSTRAINTS)
    return page.summary(page.total)


def room_for_prose(notes: Notes, budget: int) -> int:
    """Tell how many characters prose may have: so many that with the facts all is within 1.5 budgets."""
    page = _facts(notes, budget)
    return page.left + int(page.total * (_OVER - 1)) - len(Title.PROSE) - len("\n\n## \n")


def with_prose(notes: Notes, budget: int, prose: str) -> Summary:
    """Write the summary with a text that was checked, of whomever, in place of what was said and reported."""
    page = _facts(notes, budget)
    page.put(Title.PROSE, rows(prose))
    for title in _BESIDE_PROSE:
        room = page.left + int(page.total * (_OVER - 1)) if title == Title.CONTEXT else page.left
        if room > _LEAST_BESIDE:
            page.add(title, room)
    # What is quoted grows by a few characters a line.
    return page.summary(2 * page.total)


def _facts(notes: Notes, budget: int) -> _Page:
    """Write what no prose stands for, and leave it its room."""
    page = _Page(notes, budget)
    for title in _FACTS:
        page.add(title, page.left + int(page.total * (_OVER - 1 - _FOR_PROSE)))
    return page


class _Page:
    """A summary while it is written: its sections, and the characters that are left."""

    def __init__(self, notes: Notes, budget: int) -> None:
        self._notes = notes
        self._head = merge.head(notes.entries, notes.story.number, notes.root)
        self._blocks: dict[str, str] = {}
        self.total = budget * CHARACTERS_PER_TOKEN
        self.left = self.total - len(self._head)

    def add(self, title: str, room: int) -> None:
        """Write a section in at most so many characters, and in its share."""
        self._write(title, room if title in _REST else min(int(self.total * _SECTIONS[title][0]), room))

    def widen(self, title: str, *, may_shrink: bool) -> None:
        """Write a section again in all that is left; one that may not shrink stays where it would."""
        before = self._blocks.pop(title, "")
        if not before:
            return
        left = self.left
        self.left += len(before) + len("\n\n")
        self._write(title, self.left)
        if not may_shrink and len(self._blocks.get(title, "")) < len(before):
            self._blocks[title], self.left = before, left

    def _write(self, title: str, room: int) -> None:
        written = "\n".join([self._head, *self._blocks.values()])
        self.put(title, _SECTIONS[title][1](SectionDraft(self._notes, room - len(title) - len("\n\n## \n"), written)))

    def put(self, title: str, rows: Sequence[str]) -> None:
        """Put the rows of a section where there are any."""
        if rows:
            self._blocks[title] = f"## {title}\n" + "\n".join(rows)
            self.left -= len(self._blocks[title]) + len("\n\n")

    def summary(self, most: int) -> Summary:
        """Put the sections in their order."""
        notes, story = self._notes, self._notes.story
        text = "\n\n".join([self._head, *(self._blocks[title] for title in Title if title in self._blocks)])[:most]
        known = done.merged(notes.deeds, "")
        changed, read = tuple(known), tuple(done.unchanged(notes.deeds, ""))
        short = f"{one_line(story.newest, 120)} ({counted(len(changed), 'file', 'files')} changed)".strip()
        # Only references that were given out count, not what a quote says.
        given = [each.ref for each in (story.first, *story.asked, *story.reported) if each]
        given += [change.ref for change in notes.deeds.changed.values()]
        references = tuple(ref for ref in dict.fromkeys(given) if ref and f"{ref}]" in text)
        decisions = tuple(row.removeprefix("- > ") for row in told.decisions(story, 2_000))
        return Summary(text, short, read, changed, references, decisions=decisions)
