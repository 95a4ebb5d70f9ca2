"""Notes for a summary: requests, reports, files and commands from the conversation, and an earlier summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sessioncompress.checkpoints import deeds as done
from sessioncompress.checkpoints import excerpts as shown
from sessioncompress.checkpoints import merge
from sessioncompress.checkpoints import story as told
from sessioncompress.checkpoints.merge import Title
from sessioncompress.checkpoints.quote import code
from sessioncompress.checkpoints.shell import alike, grade
from sessioncompress.core.checkpoint import Say, Utterance


class Besides(NamedTuple):
    """Input of a summary in addition to the conversation: the goal, and the `context` that a user's command adds.

    Without a model, `instructions` only rank: lines that share words with them, or with the goal, are preferred.
    """

    goal: str = ""
    instructions: str = ""
    context: Sequence[str] = ()


NOTHING = Besides()


class Notes:
    """Notes about a conversation, taken in order; their size is bounded for any length.

    `old` yields each utterance with its line number, an earlier summary first. `splits` is True if the last request is
    in progress.
    """

    def __init__(self, old: Iterable[tuple[int, Utterance]], *, splits: bool, besides: Besides = NOTHING) -> None:
        self.splits, self.besides = splits, besides
        self.goal = told.as_goal(besides.goal)
        self.wanted = f"{self.goal}\n{besides.instructions}"
        self.story = told.Story()
        self.deeds = done.Deeds()
        self.excerpts = shown.Excerpts()
        self.foreign: list[str] = []
        self.context: Sequence[str] = ()
        """The text that a command added to an earlier summary."""
        self.entries = 0
        """The number of lines with utterances."""
        newest = -1
        for number, said in old:
            if said.say in (Say.SUMMARY, Say.FOREIGN):
                self._summary(said)
                continue
            self.entries += number != newest
            newest = number
            self._take(said)
        unfinished, last = self.story.calls_since, self.deeds.last
        self.story.end_turn()
        self.last_call: list[str] = []
        if unfinished and last is not None:
            self.last_call.append(f"- The last call: {code(last[0])} {last[1].written()}")
        self.root = self.deeds.paths.root()

    def _take(self, said: Utterance) -> None:
        if said.say is Say.PROMPT:
            self.story.prompt(said.text)
        elif said.say is Say.ANSWER:
            self.story.answer(said.text)
        elif said.say is Say.CALL:
            self.story.call()
            for each in self.deeds.call(said):
                self.excerpts.wrote(each.where, each.text, replaced=each.replaced, whole=each.whole)
        else:
            file = self.deeds.result(said)
            if file and said.failed is not True:
                self.excerpts.read(file, said.text)

    def _summary(self, said: Utterance) -> None:
        # A summary after other entries describes an abandoned branch, not an earlier state of this one.
        earlier = None if self.entries or said.say is Say.FOREIGN else merge.parse(said.text)
        if earlier is None:
            self.foreign = [*self.foreign[-2:], said.text[: 64 * 1024]]
            return
        self.entries += earlier.entries
        story, deeds, rows = self.story, self.deeds, earlier.rows
        for each in merge.told([*rows(Title.REQUESTS), *rows(Title.PROGRESS)]):
            story.asked_earlier(each)
        story.asked_before += earlier.section(Title.REQUESTS).gone
        story.number = max(story.number, earlier.prompts)
        story.reported.extend(merge.told([*rows(Title.REPORTS), *rows(Title.SO_FAR)]))
        story.reported_before += earlier.section(Title.REPORTS).gone
        story.constraints.extend(row.removeprefix("- > ") for row in rows(Title.CONSTRAINTS))
        for path, change in merge.files(rows(Title.CHANGED), earlier.root):
            deeds.note_change(path, change.how, change.ref, change.lines, change.times)
            key = deeds.paths.key(path)
            deeds.changed[key] = deeds.changed[key]._replace(failed=change.failed, reverted=change.reverted)
        for path, _ in merge.files(rows(Title.READ_FILES), earlier.root):
            deeds.note_read(path)
        for command, ended in merge.commands(rows(Title.COMMANDS)):
            deeds.ran[alike(command)] = done.EndedCommand(command, ended, max(grade(command) + 3 * ended.failed, 0))
        deeds.todo, deeds.tasks = [], merge.tasks(rows(Title.TODO))
        for where, lines in merge.excerpts(rows(Title.WROTE), earlier.root):
            self.excerpts.wrote("" if where == shown.IN_COMMANDS else where, "\n".join(lines))
        for where, lines in merge.excerpts(rows(Title.READ), earlier.root):
            self.excerpts.read(where, "\n".join(lines))
        for each in merge.told([*rows(Title.BEFORE), *rows(Title.PROSE)]):
            self.foreign = [*self.foreign[-2:], "\n".join(each.lines)]
        self.context = ["\n".join(each.lines) for each in merge.told(rows(Title.CONTEXT))]
        # A new goal replaces the earlier one.
        self.goal = self.goal or next((row.removeprefix("- > ") for row in rows(Title.GOAL)), "")
