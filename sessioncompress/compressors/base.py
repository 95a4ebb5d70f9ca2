"""What a compressor sees and what it gives: a view of the session in, proposed changes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from msgspec import Struct

from sessioncompress.compressors.names import Index
from sessioncompress.compressors.preview import LEAST_GAIN, MARKER_BYTES
from sessioncompress.core import model
from sessioncompress.core.lines import Asked, Lines, Survey, asked, gap, turns_on
from sessioncompress.core.model import Block, Call, Change, JsonPath, Kind, Purpose, Role, Shape, Standing, Treatment
from sessioncompress.core.text import estimate
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry, Format
from sessioncompress.policy.model import SMALLEST_LIMIT, Policy


class Recorded(Protocol):
    """Replacements with their originals, as a journal holds them."""

    def __contains__(self, key: model.OurKey) -> bool: ...

    def origin(self, key: model.OurKey) -> model.Origin | None:
        """Find the original of a replacement; None if there is no such replacement."""


class Ours:
    """The replacements that journals hold, with their originals, and those of the run under way.

    Of the run's own only the keyed hashes are held, so that a large session needs little memory; the run's records hold
    the rest.
    """

    def __init__(self, recorded: Sequence[Recorded] = ()) -> None:
        self.recorded = recorded
        self._new: set[int] = set()

    def __contains__(self, key: model.OurKey) -> bool:
        return hash(key) in self._new or any(key in each for each in self.recorded)

    def add(self, key: model.OurKey) -> None:
        """Add a replacement that the run under way makes."""
        self._new.add(hash(key))

    def origin(self, key: model.OurKey) -> model.Origin | None:
        """Find the original of a replacement that a journal holds."""
        return next((found for each in self.recorded if (found := each.origin(key)) is not None), None)


def standings(lines: Lines, shape: Shape, policy: Policy) -> tuple[Standing, ...]:
    """Decide where each line stands. Lines off the live path are old: the user can go back to them.

    If an entry could stand anywhere, no one knows what is recent: all is protected. What stands before a gap in the
    live path is as recent as if it were on it.
    """
    if any(role is Role.OPAQUE and lines.facts[number].sealed for number, role in enumerate(lines.roles)):
        return (Standing.PROTECTED,) * len(lines)
    live, wanted = shape.live, policy.turn_threshold_before_compress
    if (first := gap(lines, live)) is not None:
        live = [*sorted(set(range(first)).difference(live)), *live]
    turns = turns_on(lines, live)
    start = len(live) if wanted == 0 else turns[-wanted] if wanted < len(turns) else 0
    if policy.protect_tokens is not None:
        start = max(start, _newest_steps(lines, live, policy.protect_tokens, policy.at_rest))
    found = [Standing.OLD] * len(lines)
    for number in shape.dead:
        found[number] = Standing.DEAD
    for number in live[_with_calls(lines, live, start) :]:
        found[number] = Standing.PROTECTED
    on_path = {lines.ids[number]: number for number in live}
    for number, name in enumerate(lines.ids):
        # The agent may read any copy of a line.
        if name and found[number] is Standing.OLD and name in on_path:
            found[number] = found[on_path[name]]
    return tuple(found)


def _newest_steps(lines: Lines, path: Sequence[int], most: int, at_rest: bool) -> int:
    """Find where the newest steps begin whose calls and results together are at most so many tokens.

    0 if these are all. The newest step is always among them, and so is the newest with calls, unless no token is asked
    for or nobody will go on from it.
    """
    start = len(path)
    characters = 0
    acted, calls = at_rest or not most, False
    for position in range(len(path) - 1, -1, -1):
        line = lines[path[position]]
        # In a prompt only pictures and documents count.
        characters += line.io or values.pictures(line.blocks)
        if line.role is not Role.ASSISTANT:
            continue
        calls = calls or bool(line.calls)
        if line.response:
            # It may go on the assistant message of the lines before it; results may stand between.
            earlier = (lines[path[before]] for before in range(position - 1, -1, -1))
            if line.response == next((each.response for each in earlier if each.role is Role.ASSISTANT), ""):
                continue
        if start < len(path) and estimate(characters) > most and acted:
            break
        start, acted = position, acted or calls
    else:
        return 0
    # The step that is too much ends with its last line: prompts between it and the next one are recent.
    in_steps = (Role.ASSISTANT, Role.RESULT)
    while not (line := lines[path[start - 1]]).io and line.role not in in_steps and not line.answers:
        start -= 1
    return start


def _with_calls(lines: Lines, path: Sequence[int], start: int) -> int:
    """Move the boundary back until no protected result has its call before it."""
    waiting: dict[str, int] = {}
    protected = 0
    for position in range(len(path) - 1, -1, -1):
        if position < start and not protected:
            break
        line = lines[path[position]]
        for call in line.calls:
            if waiting.pop(call.id, -1) >= start:
                start = min(start, position)
        for name in line.facts.several or (line.answers,):
            if name:
                waiting[name] = max(position, waiting.get(name, 0))
        if position >= start:
            protected = len(waiting)
    return start


_READ = frozenset({Kind.RESULT, Kind.IMAGE})
"""What a read returns to the model; a mirror of it is for the screen alone."""

REPORT = 4_096
"""Bytes of a subagent's report that stay."""
_MOST_REPORTS = 20
"""So many of the newest reports stay, or their conclusions; older ones are results like all others."""


class View(Struct, dict=True, eq=False):
    """A session as the compressors see it. `ours` holds what the journal says this tool put there.

    `now` is when the run began, in milliseconds since 1970.
    """

    survey: Survey
    policy: Policy
    form: Format
    ours: Ours
    now: int = 0

    def __post_init__(self) -> None:
        self.lines = self.survey.lines
        # Agents spell one and the same tool differently.
        self._protected_tools = self.form.kept_tools.union(map(str.lower, self.policy.protect_tools))
        self.indexes: Mapping[tuple[int, JsonPath], Index] = {}
        """What previews show of the results of a run beside their ends, by line and place; see compressors.names."""
        self.loosened: frozenset[int] | None = None
        """What compressors.thinking found, for others that ask for it again."""
        self._called: tuple[int, Mapping[str, Call]] = (-1, {})
        """The calls of the line that was asked about last, by their names: a message may hold thousands."""

    @cached_property
    def standing(self) -> tuple[Standing, ...]:
        """Where each line stands: see standings()."""
        return standings(self.lines, self.survey.shape, self.policy)

    @cached_property
    def latest_thinking(self) -> frozenset[int]:
        """The lines of the last message on the live path that holds thinking, which is never taken out."""
        live, responses = self.survey.shape.live, self.lines.responses
        last = next((number for number in reversed(live) if self.lines.facts[number].thinks), None)
        if last is None or not responses[last]:
            return frozenset() if last is None else frozenset((last,))
        return frozenset(number for number, name in enumerate(responses) if name == responses[last])

    @cached_property
    def speaking(self) -> frozenset[str]:
        """The responses that say or call something; one that only thinks keeps its thinking, or it would be empty."""
        # White space alone is not read.
        says = (line for line in self.lines if line.reads or line.role is not Role.ASSISTANT)
        return frozenset(line.response for line in says if line.calls or not line.facts.thinks) - {""}

    @cached_property
    def asked(self) -> Sequence[Asked | None]:
        """For each line the call that it answers."""
        return asked(self.lines)

    def asking(self, number: int, name: str = "") -> Call | None:
        """Find the call that a line answers, or else the one of that name in it: some agents write both in one line."""
        found = self.asked[number]
        if found is not None:
            return found[1]
        if not name:
            return None
        if self._called[0] != number:
            self._called = (number, {call.name: call for call in reversed(self.lines[number].calls)})
        return self._called[1].get(name)

    @cached_property
    def answers(self) -> Mapping[int, Sequence[int]]:
        """The results of the calls of each line whose ids are tied."""
        found: dict[int, list[int]] = {}
        for number, call in enumerate(self.asked):
            if call is not None and self.lines[call[0]].facts.ties:
                found.setdefault(call[0], []).append(number)
        return found

    @cached_property
    def tied(self) -> Sequence[int]:
        """The lines that may change and whose thinking can only go together with something else."""
        return [
            number
            for number, facts in enumerate(self.lines.facts)
            if (facts.ties or facts.bound) and not facts.sealed and self.standing[number] is not Standing.PROTECTED
        ]

    def blocks(self, kind: Kind, over: int = 0) -> Iterator[tuple[int, Block]]:
        """Yield the blocks of a kind that may change and are over a size in bytes or may be ours, with their lines."""
        for number, block in zip(*self._blocks[kind], strict=True):
            if block.size > over or block.marked:
                yield number, block

    @cached_property
    def _blocks(self) -> Mapping[Kind, tuple[list[int], list[Block]]]:
        found: dict[Kind, tuple[list[int], list[Block]]] = {kind: ([], []) for kind in Kind}
        for number, (line, standing) in enumerate(zip(self.lines, self.standing, strict=True)):
            if not line.blocks or line.facts.sealed:
                continue
            protected = standing is Standing.PROTECTED
            for block in line.blocks:
                if (not protected or self.is_free(number, block)) and not self._stays(number, block):
                    numbers, blocks = found[block.kind]
                    numbers.append(number)
                    blocks.append(block)
        return found

    def is_free(self, number: int, block: Block) -> bool:
        """Whether a block of a line is not protected.

        A mirror is free where nobody will see it again, or only someone who would go on with a session at rest.
        """
        if self.standing[number] is not Standing.PROTECTED:
            return True
        if block.kind is not Kind.MIRROR or self.policy.at_rest:
            return block.kind is Kind.MIRROR
        reports = self.lines[number].facts.reports
        return block.unseen and (not reports or reports in self._answered)

    @cached_property
    def _answered(self) -> frozenset[str]:
        several = (name for line in self.lines for name in line.facts.several)
        return frozenset(line.answers for line in self.lines).union(several)

    def allows(self, change: Change) -> bool:
        """Whether a change touches nothing protected; a mirror on which thinking hangs is not a mirror alone."""
        if self.standing[change.line] is not Standing.PROTECTED:
            return True
        return change.block is not None and not change.group and self.is_free(change.line, change.block)

    def is_whole(self, number: int, block: Block) -> bool:
        """Whether the policy keeps this block as it is."""
        latest = block.kind is Kind.THINKING and number in self.latest_thinking
        return latest or not self.is_free(number, block) or self._stays(number, block)

    def standing_of(self, number: int, block: Block) -> Standing:
        """Where a block stands: protected if the policy keeps it whole, wherever its line stands."""
        if self.is_whole(number, block):
            return Standing.PROTECTED
        return Standing.DEAD if self.standing[number] is Standing.DEAD else Standing.OLD

    def _stays(self, number: int, block: Block) -> bool:
        """Whether a block is kept for what it is: of a protected tool, a skill that was read, without bulk.

        What a checkpoint holds is the model's context until a later one takes its place.
        """
        if not block.bulk and block.kind is not Kind.ARGUMENT:
            return True
        if block.tool and block.tool.lower() in self._protected_tools:
            return True
        line = self.lines[number]
        if line.role is Role.CHECKPOINT and self.standing[number] is not Standing.DEAD and not block.unseen:
            return True
        if block.kind not in (*_READ, Kind.ARGUMENT) or self.policy.at_rest:
            return False
        made = self.asking(number, block.call)
        if made is not None and made.reads_skill:
            # So do the arguments: in Codex they alone tell the next run that this was a skill.
            return True
        if made is None or block.kind is Kind.ARGUMENT:
            return False
        if (number, block.call) in self._instructions:
            return True
        return self.is_report(number, block) and block.size - REPORT - MARKER_BYTES < LEAST_GAIN

    @cached_property
    def _instructions(self) -> frozenset[tuple[int, str]]:
        """The results that hold the newest copy of a file of instructions, or of a part of one."""
        names, newest = frozenset(self.policy.protect_files), dict[tuple[str, str], tuple[int, str]]()
        for number, made in self._asked_for[Purpose.READ] if names else ():
            if made.file.replace("\\", "/").rpartition("/")[2] not in names:
                continue
            blocks = self.lines[number].blocks
            size = sum(block.size for block in blocks if block.kind in _READ and block.call == made.name)
            # What is shorter may say that the file is empty, or as it was.
            if size > SMALLEST_LIMIT and not self.lines.facts[number].failed:
                newest[made.file, made.part] = number, made.name
        return frozenset(newest.values())

    def is_report(self, number: int, block: Block) -> bool:
        """Whether a result is one of the newest reports of subagents: conclusions, and no output."""
        return (number, block.call) in self._reports

    @cached_property
    def _reports(self) -> frozenset[tuple[int, str]]:
        return frozenset([(number, made.name) for number, made in self._asked_for[Purpose.AGENT]][-_MOST_REPORTS:])

    @cached_property
    def _asked_for(self) -> Mapping[Purpose, Sequence[tuple[int, Call]]]:
        """The reads and subagents' work that are answered on the live path, each call with the line of its result."""
        answered: dict[Purpose, list[tuple[int, Call]]] = {Purpose.READ: [], Purpose.AGENT: []}
        found = self.asked
        for number in self.survey.shape.live:
            asking = found[number]
            if asking is not None:
                if asking[1].purpose in answered:
                    answered[asking[1].purpose].append((number, asking[1]))
                continue
            line = self.lines[number]
            for made in line.calls:
                if made.purpose in answered and any(
                    each.kind in _READ and each.call == made.name for each in line.blocks
                ):
                    answered[made.purpose].append((number, made))
        return answered

    def holds_ours(self, block: Block) -> bool:
        """Whether a block holds our own replacement."""
        return block.marked and (block.digest, block.kind, block.call) in self.ours

    def treatment(self, number: int) -> Treatment:
        """Dead history is named only; what a model may still see is previewed, if the policy has previews."""
        named = self.standing[number] is Standing.DEAD or not self.policy.has_previews
        return Treatment.REFERENCE if named else Treatment.PREVIEW


class Context(NamedTuple):
    """What a compressor needs to render the changes of one line, whose parsed `entry` is as it was.

    `refer` makes a content's reference, or None if none is kept. `origin` finds the original of a replacement of ours
    that stands in this line, or None if the agent copied it from another.
    """

    view: View
    refer: Callable[[bytes], str | None]
    entry: Entry
    origin: Callable[[model.OurKey], model.Origin | None]


Compressor = Callable[[View], Iterable[Change]]
"""Proposes changes to a view. Protection, size and a second run are the plan's concern, not its."""
