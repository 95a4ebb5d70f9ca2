"""The summary of what was said: made without a model, the same of the same, never longer than its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sessioncompress.checkpoints import deeds as done
from sessioncompress.checkpoints import excerpts as shown
from sessioncompress.checkpoints import goals, merge, searches
from sessioncompress.checkpoints import story as told
from sessioncompress.checkpoints.excerpts import stems_in
from sessioncompress.checkpoints.outcomes import Outcome
from sessioncompress.checkpoints.quote import clip, excerpt, newest, one_line, quoted
from sessioncompress.checkpoints.shell import alike, grade
from sessioncompress.core.checkpoint import Said, Say, Summary
from sessioncompress.core.model import Purpose
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, counted, estimate

_SHORT = 120
_GOAL = "Current goal"
_PROSE = "Summary by the user's command"
_CONTEXT = "What the user's command adds"
_BEFORE = "Summary before this one"
_REQUESTS = "The user's requests, in order, in their words"
_CONSTRAINTS = "Constraints in the longer ones"
_PROGRESS = "The request in progress"
_SO_FAR = "What was done for it so far"
_REPORTS = "What the agent reported at the end of each request"
_DECISIONS = "Decisions and findings on the way"
_TODO = goals.TODO
_CHANGED = "Files changed (newest last)"
_READ_ONLY = "Files read only"
_SEARCHES = "Searches (newest last)"
_COMMANDS = "Commands and how they ended (newest last)"
_FAILURES = "Failures that nothing mended"
_WROTE = "Lines that the agent wrote (excerpts)"
_READ = "Lines that were read (excerpts)"


class Besides(NamedTuple):
    """What comes into a summary besides what was said: the goal, and what somebody else wrote.

    `instructions` only rank: lines that share words with them, or with the goal, come first. `prose` stands in place of
    what was said; files, commands, todos and failures are taken from the session in any case. `context` is added.
    """

    goal: str = ""
    instructions: str = ""
    prose: str = ""
    context: Sequence[str] = ()


NOTHING = Besides()


class Notes:
    """What a summary needs of a session, taken from what was said in its order; bounded, however much that is."""

    def __init__(self, *, splits: bool, besides: Besides = NOTHING) -> None:
        self.splits, self.besides = splits, besides
        self.goal = goals.written(besides.goal)
        self.wanted = f"{self.goal}\n{besides.instructions}"
        self.story = told.Story()
        self.deeds = done.Deeds()
        self.searches = searches.Searches()
        self.excerpts = shown.Excerpts()
        self.foreign: list[str] = []
        self.carried: dict[str, merge.Section] = {}
        """Rows of an earlier summary that are not told apart any further."""
        self.entries = 0
        """Lines of which something was said."""
        self._line = -1
        self.root = ""
        self._reads: dict[str, str] = {}
        self.last_call: list[str] = []

    def take(self, number: int, said: Said) -> None:
        """Take what was said next, and the number of its line."""
        if said.say is Say.SUMMARY:
            self._summary(said.text)
            return
        self.entries += number != self._line
        self._line = number
        if said.say is Say.PROMPT:
            self.story.prompt(said.text)
        elif said.say is Say.ANSWER:
            self.story.answer(said.text)
        elif said.say is Say.CALL:
            self.story.call()
            for each in self.deeds.call(said):
                self.excerpts.wrote(each.where, each.text, replaced=each.replaced, whole=each.whole)
            self.searches.call(said, self.deeds.commands_of(said.call))
            if said.purpose is Purpose.READ and self.deeds.read:
                self._reads[said.call] = next(reversed(self.deeds.read))
        else:
            self.deeds.result(said)
            self.searches.result(said)
            where = self._reads.pop(said.call, "")
            if where and said.failed is not True:
                self.excerpts.read(where, said.text)

    def _summary(self, text: str) -> None:
        # One behind what was said is of a branch that was left: it is no earlier state of this one.
        earlier = None if self.entries else merge.parse(text, _TITLES)
        if earlier is None:
            self.foreign = [*self.foreign[-2:], text[: 64 * 1024]]
            return
        self.entries += earlier.entries
        story, deeds = self.story, self.deeds
        asked = [*earlier.section(_REQUESTS).rows, *earlier.section(_PROGRESS).rows]
        for number, lines, ref in merge.told(asked):
            story.asked_earlier(told.Told(number, lines, ref))
        story.asked_before += earlier.section(_REQUESTS).gone
        story.number = max(story.number, earlier.prompts)
        for number, lines, ref in merge.told([*earlier.section(_REPORTS).rows, *earlier.section(_SO_FAR).rows]):
            story.reported.append(told.Told(number, lines, ref))
        story.reported_before += earlier.section(_REPORTS).gone
        story.constraints.extend(row.removeprefix("- > ") for row in earlier.section(_CONSTRAINTS).rows)
        for row in earlier.section(_DECISIONS).rows:
            story.decide(row.removeprefix("- > "), sure=True)
        for each in merge.files(earlier.section(_CHANGED).rows, earlier.root):
            deeds.note_change(each.path, each.how, each.ref, each.lines, each.times)
            key = deeds.paths.key(each.path)
            deeds.changed[key] = deeds.changed[key]._replace(failed=each.failed)
        for each in merge.files(earlier.section(_READ_ONLY).rows, earlier.root):
            deeds.note_read(each.path)
        for command, verdict, line in merge.commands(earlier.section(_COMMANDS).rows):
            worth = grade(command) + 3 * (verdict == "failed")
            deeds.ran[alike(command)] = done.Ran(command, Outcome(verdict, line), max(worth, 0))
        for command, verdict, line in merge.commands(earlier.section(_FAILURES).rows):
            deeds.failures[alike(command)] = (command, Outcome(verdict, line))
        for words, found in merge.searches(earlier.section(_SEARCHES).rows):
            self.searches.note(searches.Search(words), found)
        self.searches.before += earlier.section(_SEARCHES).gone
        deeds.todo = []
        deeds.tasks = {str(at + 1): item for at, item in enumerate(merge.items(earlier.section(_TODO).rows))}
        for where, lines in merge.excerpts(earlier.section(_WROTE).rows, earlier.root):
            self.excerpts.carry("" if where == shown.IN_COMMANDS else where, lines)
        for title in (_BEFORE, _READ, _CONTEXT):
            if earlier.section(title).rows:
                self.carried[title] = earlier.section(title)
        if prose := earlier.section(_PROSE).rows:
            before = self.carried.get(_BEFORE, merge.Section())
            self.carried[_BEFORE] = before._replace(rows=(*before.rows, *prose))
        # A new goal takes the place of the one before.
        self.goal = self.goal or next((row.removeprefix("- > ") for row in earlier.section(_GOAL).rows), "")

    def end(self) -> None:
        """Note what the last turn came to."""
        story, last = self.story, self.deeds.last
        unfinished = story.calls_since
        story.end_turn()
        if unfinished and last is not None:
            self.last_call.append(f"- The last call: `{last[0]}` {last[1].written()}")
        self.root = self.deeds.paths.root()


class Draft(NamedTuple):
    """What a section is written from: the notes, the characters it may take, and what was written of the others."""

    notes: Notes
    room: int
    written: str


class Shown(NamedTuple):
    """A section of the summary: its title, its share of the budget, and what writes its rows."""

    title: str
    share: float
    rows: Callable[[Draft], Sequence[str]]


def _goal(draft: Draft) -> Sequence[str]:
    goal = draft.notes.goal
    return [quoted("-", [one_line(goal, max(draft.room - len("- > \n"), 0))])] if goal else ()


def _prose(draft: Draft) -> Sequence[str]:
    return newest([_quoted_whole(draft.notes.besides.prose)], draft.room) if draft.notes.besides.prose else ()


def _context(draft: Draft) -> Sequence[str]:
    if context := draft.notes.besides.context:
        return newest([quoted("-", clip(excerpt(each, draft.room), draft.room - 40)) for each in context], draft.room)
    carried = draft.notes.carried.get(_CONTEXT, merge.Section())
    return newest(carried.rows, draft.room, carried.gone)


def _quoted_whole(text: str) -> str:
    return quoted("-", excerpt(text, len(text)))


def room_for_prose(budget: int) -> int:
    """Tell how many tokens of a summary of so many what somebody else writes may take, which then stands whole."""
    return budget * 6 // 10


def size_of_prose(text: str) -> int:
    """Estimate the tokens that a text takes as the prose of a summary; 0 where nothing of it can be shown."""
    return estimate(len(_quoted_whole(text))) if any(excerpt(text, len(text))) else 0


def _foreign(draft: Draft) -> Sequence[str]:
    carried = draft.notes.carried.get(_BEFORE, merge.Section())
    new = (quoted("-", clip(excerpt(each, draft.room), draft.room - 40)) for each in draft.notes.foreign)
    return newest([*carried.rows, *new], draft.room, carried.gone)


def _requests(draft: Draft) -> Sequence[str]:
    return told.requests(draft.notes.story, draft.room, splits=draft.notes.splits)


def _constraints(draft: Draft) -> Sequence[str]:
    return told.constraints(draft.notes.story, draft.written, draft.room)


def _progress(draft: Draft) -> Sequence[str]:
    return told.progress(draft.notes.story, draft.room) if draft.notes.splits else ()


def _so_far(draft: Draft) -> Sequence[str]:
    return _with_last_call(draft, in_progress=True) if draft.notes.splits else ()


def _reports(draft: Draft) -> Sequence[str]:
    if draft.notes.splits:
        return told.reports(draft.notes.story, draft.room, in_progress=False)
    return _with_last_call(draft, in_progress=None)


def _with_last_call(draft: Draft, *, in_progress: bool | None) -> Sequence[str]:
    """Write reports, and behind them how the last turn ended where it has none of its own."""
    story = draft.notes.story
    last = newest(draft.notes.last_call, draft.room)
    room = draft.room - sum(map(len, last)) - len(last)
    rows = told.reports(story, room, in_progress=in_progress)
    room -= sum(map(len, rows)) + len(rows)
    texts = [f"- > {text}" for text in story.texts] if in_progress else []
    return [*newest(texts, room), *rows, *last]


def _decisions(draft: Draft) -> Sequence[str]:
    wanted = stems_in(draft.notes.wanted).keys()
    return told.decisions(draft.notes.story, draft.room, lambda words: not wanted.isdisjoint(stems_in(words)))


def _todo(draft: Draft) -> Sequence[str]:
    return done.todo(draft.notes.deeds, draft.room)


def _changed(draft: Draft) -> Sequence[str]:
    return done.files(draft.notes.deeds, draft.notes.root, draft.room)


def _read_only(draft: Draft) -> Sequence[str]:
    return done.read_only(draft.notes.deeds, draft.notes.root, draft.room)


def _searches(draft: Draft) -> Sequence[str]:
    """Write what was looked for, where a session did that more often than it changed files."""
    found, changes = draft.notes.searches, draft.notes.deeds.changed.values()
    is_research = len(found.found) > sum(change.times for change in changes)
    return searches.rows(found, draft.notes.root, draft.room) if is_research else ()


def _commands(draft: Draft) -> Sequence[str]:
    return done.commands(draft.notes.deeds, draft.notes.root, draft.room)


def _failures(draft: Draft) -> Sequence[str]:
    return done.failures(draft.notes.deeds, draft.written.split("\n"), draft.room)


def _wrote(draft: Draft) -> Sequence[str]:
    excerpts = draft.notes.excerpts
    carried = shown.by_file(((each.where, each.words) for each in excerpts.carried()), draft.notes.root)
    return _excerpts(draft, carried, excerpts.written(), draft.notes.wanted)


def _read(draft: Draft) -> Sequence[str]:
    carried = draft.notes.carried.get(_READ, merge.Section()).rows
    asked = f"{draft.notes.story.asked_last()}\n{draft.notes.wanted}"
    return _excerpts(draft, carried, draft.notes.excerpts.readings(), asked)


def _excerpts(
    draft: Draft, earlier: Sequence[str], texts: Iterable[shown.Found], asked: str
) -> Sequence[str]:
    """Write new lines; those of an earlier summary take at most half of the room."""
    carried = shown.carry(earlier, draft.room // 2)
    taken = sum(map(len, carried)) + len(carried)
    said = "\n".join([draft.written, *carried])
    new = shown.lines(texts, said, draft.notes.root, draft.room - taken, asked)
    return shown.together([*carried, *new])


_SECTIONS = (
    Shown(_GOAL, 0.15, _goal),
    Shown(_PROSE, 0.62, _prose),
    Shown(_BEFORE, 0.30, _foreign),
    Shown(_REQUESTS, 0.25, _requests),
    Shown(_CONSTRAINTS, 0.08, _constraints),
    Shown(_PROGRESS, 0.25, _progress),
    Shown(_SO_FAR, 0.10, _so_far),
    Shown(_REPORTS, 0.24, _reports),
    Shown(_DECISIONS, 0.10, _decisions),
    Shown(_CONTEXT, 0.15, _context),
    Shown(_TODO, 0.07, _todo),
    Shown(_CHANGED, 0.14, _changed),
    Shown(_READ_ONLY, 0.05, _read_only),
    Shown(_SEARCHES, 0.10, _searches),
    Shown(_COMMANDS, 0.14, _commands),
    Shown(_FAILURES, 0.05, _failures),
    Shown(_WROTE, 1.0, _wrote),
    Shown(_READ, 1.0, _read),
)
"""In the order in which they stand."""
_TITLES = tuple(section.title for section in _SECTIONS)
_ORDER = (
    *(_GOAL, _PROSE, _CONTEXT),
    *(_CHANGED, _COMMANDS, _PROGRESS, _SO_FAR, _REQUESTS, _TODO, _BEFORE, _CONSTRAINTS, _DECISIONS, _FAILURES),
    *(_READ_ONLY, _SEARCHES, _REPORTS, _WROTE, _READ),
)
"""In the order in which they get their room: what no model can find out again before all others."""
_REPLACED = frozenset({_BEFORE, _REQUESTS, _CONSTRAINTS, _SO_FAR, _REPORTS, _DECISIONS})
"""What prose stands for. The request in progress is not in what is kept, and the next step depends on its words."""
_REST = (_REPORTS, _WROTE, _READ)
"""They get what the others leave."""
_RESERVED = {_REPORTS: 0.14, _WROTE: 0.12}
"""And so much at least."""


def digest(
    old: Iterable[tuple[int, Said]], *, budget: int, splits: bool, besides: Besides = NOTHING
) -> Summary:
    """Make the summary of what was said, each with the number of its line, in at most `budget` tokens.

    An earlier summary comes first. `splits`: the last request is still being worked on.
    """
    notes = Notes(splits=splits, besides=besides)
    for number, said in old:
        notes.take(number, said)
    notes.end()
    head = merge.head(notes.entries, notes.story.number, notes.root)
    blocks: dict[str, str] = {}
    total = budget * CHARACTERS_PER_TOKEN
    left = total - len(head)
    named = {section.title: section for section in _SECTIONS}
    reserved = {} if besides.prose else dict(_RESERVED)
    for title in _ORDER:
        if besides.prose and title in _REPLACED:
            continue
        reserved.pop(title, None)
        room = left - int(total * sum(reserved.values()))
        if title not in _REST:
            room = min(int(total * named[title].share), room)
        written = "\n".join([head, *blocks.values()])
        rows = named[title].rows(Draft(notes, room - len(title) - len("\n\n## \n"), written))
        if rows:
            blocks[title] = f"## {title}\n" + "\n".join(rows)
            left -= len(blocks[title]) + len("\n\n")
    text = "\n\n".join([head, *(blocks[title] for title in _TITLES if title in blocks)])[:total]
    known = done.merged(notes.deeds, "")
    changed, read = tuple(known), tuple(done.unchanged(notes.deeds, ""))
    return Summary(text, _short(notes, len(changed)), read, changed, tuple(_references(notes, text)))


def _references(notes: Notes, text: str) -> list[str]:
    """Find the references that stand in the text: those given out, not what a quote says."""
    story = notes.story
    given = [each.ref for each in (story.first, *story.asked, *story.reported) if each]
    given += [change.ref for change in notes.deeds.changed.values()]
    return [ref for ref in dict.fromkeys(given) if ref and f"{ref}]" in text]


def _short(notes: Notes, changed: int) -> str:
    words = one_line(notes.story.newest, _SHORT)
    files = f"({counted(changed, 'file', 'files')} changed)"
    return f"{words} {files}".strip()
