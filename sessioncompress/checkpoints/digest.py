"""The summary of a conversation: made without a model, deterministic, never longer than its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sessioncompress.checkpoints import deeds as done
from sessioncompress.checkpoints import excerpts as shown
from sessioncompress.checkpoints import merge
from sessioncompress.checkpoints import story as told
from sessioncompress.checkpoints.merge import Title
from sessioncompress.checkpoints.notes import Notes
from sessioncompress.checkpoints.prose import rows
from sessioncompress.checkpoints.quote import clip, excerpt, more, newest, one_line, quoted
from sessioncompress.core.checkpoint import Summary
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, counted


class SectionDraft(NamedTuple):
    """Input of a section: the notes, its room in characters, and the text of the sections before it."""

    notes: Notes
    room: int
    written: str


def _goal(draft: SectionDraft) -> Sequence[str]:
    goal = draft.notes.goal
    return [quoted("-", [one_line(goal, max(draft.room - len("- > \n"), 0))])] if goal else ()


def _context(draft: SectionDraft) -> Sequence[str]:
    context = draft.notes.besides.context or draft.notes.context
    return newest([_quoted(each, draft.room) for each in context], draft.room)


def _quoted(text: str, room: int) -> str:
    """Quote as much of a text as newest() accepts, with the signs before each line."""
    most = room - len(more(10**6)) - 1
    lines, row = excerpt(text, room), ""
    # Made shorter by a few characters until it fits.
    for size in range(most, 0, -40):
        row = quoted("-", clip(lines, size))
        if len(row) <= most:
            break
    return row


def _foreign(draft: SectionDraft) -> Sequence[str]:
    return newest([_quoted(each, draft.room) for each in draft.notes.foreign], draft.room)


def _reports(draft: SectionDraft) -> Sequence[str]:
    """Write reports, followed by the last call of a turn that has not ended."""
    last = newest(draft.notes.last_call, draft.room)
    return [*told.reports(draft.notes.story, draft.room - sum(map(len, last)) - len(last)), *last]


def _excerpts(draft: SectionDraft, texts: Iterable[shown.Candidate]) -> Sequence[str]:
    root = draft.notes.root
    return shown.by_file(shown.lines(texts, draft.written, root, draft.room, draft.notes.wanted), root)


_SECTIONS: Mapping[Title, tuple[float, Callable[[SectionDraft], Sequence[str]]]] = {
    Title.GOAL: (0.15, _goal),
    Title.CONTEXT: (0.15, _context),
    Title.CHANGED: (0.14, lambda draft: done.files(draft.notes.deeds, draft.notes.root, draft.room)),
    Title.COMMANDS: (0.14, lambda draft: done.commands(draft.notes.deeds, draft.notes.root, draft.room)),
    Title.PROGRESS: (0.25, lambda draft: told.progress(draft.notes.story, draft.room) if draft.notes.splits else ()),
    Title.REQUESTS: (0.25, lambda draft: told.requests(draft.notes.story, draft.room, splits=draft.notes.splits)),
    Title.TODO: (0.07, lambda draft: done.todo(draft.notes.deeds, draft.room)),
    Title.BEFORE: (0.30, _foreign),
    Title.CONSTRAINTS: (0.30, lambda draft: told.constraints(draft.notes.story, draft.written, draft.room)),
    Title.READ_FILES: (0.05, lambda draft: done.read_files(draft.notes.deeds, draft.notes.root, draft.room)),
    Title.REPORTS: (1.0, _reports),
    Title.WROTE: (1.0, lambda draft: _excerpts(draft, draft.notes.excerpts.written())),
    Title.READ: (1.0, lambda draft: _excerpts(draft, draft.notes.excerpts.readings())),
}
"""The maximum share of the budget of each section, and the function that writes its rows.

Sections get their room in this order: first those that no model can reconstruct. The last ones get the rest.
"""
_FACTS = (Title.GOAL, Title.CHANGED, Title.COMMANDS, Title.TODO, Title.READ_FILES, Title.PROGRESS)
"""Taken from the session even if a model writes the prose: the next step depends on the exact current request."""
_BESIDE_PROSE = (Title.CONTEXT, Title.REQUESTS, Title.WROTE, Title.READ)
"""Get the room that the prose leaves. A model may omit a request, and no later summary could recover it."""
_OVER = 1.5
"""The maximum size of a summary with prose, in budgets."""
_FOR_PROSE = 0.65
"""The share of the budget that is guaranteed to prose."""
_LEAST_BESIDE = 400
"""Minimum characters for a section in addition to prose."""


def extract(notes: Notes, budget: int) -> Summary:
    """Write the summary only from the session's own words."""
    page = _Page(notes, budget)
    # The minimum shares of sections that otherwise get what the earlier ones leave.
    reserved: dict[Title, float] = {Title.REPORTS: 0.14, Title.WROTE: 0.12}
    if notes.foreign:
        # The content of a foreign summary is nowhere else.
        reserved[Title.BEFORE] = 0.15
    for title in _SECTIONS:
        reserved.pop(title, None)
        page.add(title, page.left - int(page.total * sum(reserved.values())))
    # The remaining room belongs to the user's words. Constraints shrink once the full request is shown.
    for title in (Title.CONSTRAINTS, Title.REQUESTS, Title.CONSTRAINTS):
        page.widen(title, may_shrink=title is Title.CONSTRAINTS)
    return page.summary(page.total)


def room_for_prose(notes: Notes, budget: int) -> int:
    """Return how many characters of prose fit into 1.5 budgets along with the facts."""
    page = _facts(notes, budget)
    return page.left + int(page.total * (_OVER - 1)) - len(Title.PROSE) - len("\n\n## \n")


def with_prose(notes: Notes, budget: int, prose: str) -> Summary:
    """Write the summary with checked prose in place of requests and reports."""
    page = _facts(notes, budget)
    page.put(Title.PROSE, rows(prose))
    for title in _BESIDE_PROSE:
        room = page.left + int(page.total * (_OVER - 1)) if title == Title.CONTEXT else page.left
        if room > _LEAST_BESIDE:
            page.add(title, room)
    # Quoting adds a few characters to each line.
    return page.summary(2 * page.total)


def _facts(notes: Notes, budget: int) -> _Page:
    """Write the sections that prose does not replace, and leave room for the prose."""
    page = _Page(notes, budget)
    for title in _FACTS:
        page.add(title, page.left + int(page.total * (_OVER - 1 - _FOR_PROSE)))
    return page


class _Page:
    """A summary in progress: its sections, and the characters that are left."""

    def __init__(self, notes: Notes, budget: int) -> None:
        self._notes = notes
        self._head = merge.head(notes.entries, notes.story.number, notes.root)
        self._blocks: dict[Title, str] = {}
        self.total = budget * CHARACTERS_PER_TOKEN
        self.left = self.total - len(self._head)

    def add(self, title: Title, room: int) -> None:
        """Write a section in at most `room` characters, and in its share."""
        self._write(title, min(int(self.total * _SECTIONS[title][0]), room))

    def widen(self, title: Title, *, may_shrink: bool) -> None:
        """Write a section again with all the room that is left; keep the longer text unless it may shrink."""
        before = self._blocks.pop(title, "")
        if not before:
            return
        left = self.left
        self.left += len(before) + len("\n\n")
        self._write(title, self.left)
        if not may_shrink and len(self._blocks.get(title, "")) < len(before):
            self._blocks[title], self.left = before, left

    def _write(self, title: Title, room: int) -> None:
        written = "\n".join([self._head, *self._blocks.values()])
        self.put(title, _SECTIONS[title][1](SectionDraft(self._notes, room - len(title) - len("\n\n## \n"), written)))

    def put(self, title: Title, rows: Sequence[str]) -> None:
        """Add the rows of a section, if there are any."""
        if rows:
            self._blocks[title] = f"## {title}\n" + "\n".join(rows)
            self.left -= len(self._blocks[title]) + len("\n\n")

    def summary(self, most: int) -> Summary:
        """Join the sections in the order of their titles."""
        notes, story = self._notes, self._notes.story
        text = "\n\n".join([self._head, *(self._blocks[title] for title in Title if title in self._blocks)])[:most]
        known = done.merged(notes.deeds, "")
        changed, read = tuple(known), tuple(done.unchanged(notes.deeds, ""))
        short = f"{one_line(story.newest, 120)} ({counted(len(changed), 'file', 'files')} changed)".strip()
        # Count only references that this summary assigns, not those inside quotes.
        given = [each.ref for each in (story.first, *story.asked, *story.reported) if each]
        given += [change.ref for change in notes.deeds.changed.values()]
        references = tuple(ref for ref in dict.fromkeys(given) if ref and f"{ref}]" in text)
        return Summary(text, short, read, changed, references)
