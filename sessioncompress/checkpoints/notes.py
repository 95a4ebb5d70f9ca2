"""What a summary needs of a session, noted from what was said: requests, reports, files, commands, what was before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from sessioncompress.checkpoints import deeds as done
from sessioncompress.checkpoints import excerpts as shown
from sessioncompress.checkpoints import goals, merge
from sessioncompress.checkpoints import story as told
from sessioncompress.checkpoints.outcomes import Outcome
from sessioncompress.checkpoints.quote import code
from sessioncompress.checkpoints.shell import alike, grade
from sessioncompress.core.checkpoint import Said, Say
from sessioncompress.core.model import Purpose


class Title(StrEnum):
    """The titles of a summary's sections, by which an earlier one is read back."""

    GOAL = "Current goal"
    PROSE = "What was said and done, summed up by a model or a command"
    BEFORE = "Summary before this one"
    REQUESTS = "The user's requests, in order, in their words"
    CONSTRAINTS = "Constraints and facts in those that are cut"
    PROGRESS = "The request in progress"
    SO_FAR = "What was done for it so far"
    REPORTS = "What the agent reported at the end of each request"
    DECISIONS = "Decisions and findings on the way"
    CONTEXT = "What the user's command adds"
    TODO = goals.TODO
    CHANGED = "Files changed (newest last)"
    READ_FILES = "Files read, no change to them seen"
    COMMANDS = "Commands and how they ended (newest last)"
    FAILURES = "Failures that nothing mended"
    WROTE = "Lines that the agent wrote (excerpts)"
    READ = "Lines that were read (excerpts)"


class Besides(NamedTuple):
    """What comes into a summary besides what was said: the goal, and what a command of the user's adds.

    `instructions` only rank where no model sums up: lines that share words with them, or with the goal, come first.
    """

    goal: str = ""
    instructions: str = ""
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
        self.excerpts = shown.Excerpts()
        self.foreign: list[str] = []
        self.carried: dict[str, merge.Section] = {}
        """Sections of an earlier summary that only quote."""
        self.read_before: list[tuple[str, list[str]]] = []
        """Files, and lines that were read in them, that an earlier summary shows."""
        self.entries = 0
        """Lines of which something was said."""
        self._line = -1
        self.root = ""
        self._reads: dict[str, str] = {}
        self.last_call: list[str] = []

    def take(self, number: int, said: Said) -> None:
        """Take what was said next, and the number of its line."""
        if said.say in (Say.SUMMARY, Say.FOREIGN):
            self._summary(said)
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
            if said.purpose is Purpose.READ and self.deeds.read:
                self._reads[said.call] = next(reversed(self.deeds.read))
        else:
            self.deeds.result(said)
            where = self._reads.pop(said.call, "")
            if where and said.failed is not True:
                self.excerpts.read(where, said.text)

    def _summary(self, said: Said) -> None:
        # One behind what was said is of a branch that was left: it is no earlier state of this one.
        earlier = None if self.entries or said.say is Say.FOREIGN else merge.parse(said.text, Title)
        if earlier is None:
            self.foreign = [*self.foreign[-2:], said.text[: 64 * 1024]]
            return
        self.entries += earlier.entries
        story, deeds = self.story, self.deeds
        asked = [*earlier.section(Title.REQUESTS).rows, *earlier.section(Title.PROGRESS).rows]
        for number, lines, ref in merge.told(asked):
            story.asked_earlier(told.Told(number, lines, ref))
        story.asked_before += earlier.section(Title.REQUESTS).gone
        story.number = max(story.number, earlier.prompts)
        for number, lines, ref in merge.told(
            [*earlier.section(Title.REPORTS).rows, *earlier.section(Title.SO_FAR).rows]
        ):
            story.reported.append(told.Told(number, lines, ref))
        story.reported_before += earlier.section(Title.REPORTS).gone
        story.constraints.extend(row.removeprefix("- > ") for row in earlier.section(Title.CONSTRAINTS).rows)
        for row in earlier.section(Title.DECISIONS).rows:
            story.decide(row.removeprefix("- > "), sure=True)
        for each in merge.files(earlier.section(Title.CHANGED).rows, earlier.root):
            deeds.note_change(each.path, each.how, each.ref, each.lines, each.times)
            key = deeds.paths.key(each.path)
            deeds.changed[key] = deeds.changed[key]._replace(failed=each.failed, reverted=each.reverted)
        for each in merge.files(earlier.section(Title.READ_FILES).rows, earlier.root):
            deeds.note_read(each.path)
        for command, verdict, line in merge.commands(earlier.section(Title.COMMANDS).rows):
            worth = grade(command) + 3 * (verdict == "failed")
            deeds.ran[alike(command)] = done.Ran(command, Outcome(verdict, line), max(worth, 0))
        for command, verdict, line in merge.commands(earlier.section(Title.FAILURES).rows):
            deeds.failures[alike(command)] = (command, Outcome(verdict, line))
        deeds.todo = []
        deeds.tasks = {str(at + 1): item for at, item in enumerate(merge.items(earlier.section(Title.TODO).rows))}
        for where, lines in merge.excerpts(earlier.section(Title.WROTE).rows, earlier.root):
            self.excerpts.carry("" if where == shown.IN_COMMANDS else where, lines)
        for _, lines, _ in merge.told(earlier.section(Title.PROSE).rows):
            self.foreign = [*self.foreign[-2:], "\n".join(lines)]
        self.carried = {title: earlier.section(title) for title in (Title.BEFORE, Title.CONTEXT)}
        self.read_before = list(merge.excerpts(earlier.section(Title.READ).rows, earlier.root))
        # A new goal takes the place of the one before.
        self.goal = self.goal or next((row.removeprefix("- > ") for row in earlier.section(Title.GOAL).rows), "")

    def end(self) -> None:
        """Note what the last turn came to."""
        story, last = self.story, self.deeds.last
        unfinished = story.calls_since
        story.end_turn()
        if unfinished and last is not None:
            self.last_call.append(f"- The last call: {code(last[0])} {last[1].written()}")
        self.root = self.deeds.paths.root()


def gather(old: Iterable[tuple[int, Said]], *, splits: bool, besides: Besides = NOTHING) -> Notes:
    """Take the notes for a summary of what was said, each with the number of its line.

    An earlier summary comes first. `splits`: the last request is still being worked on.
    """
    notes = Notes(splits=splits, besides=besides)
    for number, said in old:
        notes.take(number, said)
    notes.end()
    return notes
