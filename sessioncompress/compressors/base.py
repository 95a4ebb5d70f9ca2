"""The interface of a compressor: it gets a view of the session and returns proposed changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from msgspec import Struct

from sessioncompress.compressors.names import Visible
from sessioncompress.compressors.preview import LEAST_GAIN, MARKER_BYTES
from sessioncompress.core import model
from sessioncompress.core.lines import Asked, Lines, Survey, asked, gap, turns_on
from sessioncompress.core.model import Block, Call, Change, JsonPath, Kind, Protection, Purpose, Role, Shape, Treatment
from sessioncompress.core.text import estimate
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry, Format
from sessioncompress.policy.model import SMALLEST_LIMIT, Policy


class Recorded(Protocol):
    """Replacements with their originals, as a journal holds them."""

    def __contains__(self, key: model.OurKey) -> bool: ...

    def origin(self, key: model.OurKey) -> model.Origin | None:
        """Return the original of a replacement, or None if there is no such replacement."""


class Ours:
    """The replacements that journals hold, with their originals, and the replacements of the current run.

    Of the current run it keeps only hashes, so that a large session needs little memory; the run's records hold the
    rest.
    """

    def __init__(self, recorded: Sequence[Recorded] = ()) -> None:
        self.recorded = recorded
        self._new: set[int] = set()

    def __contains__(self, key: model.OurKey) -> bool:
        return hash(key) in self._new or any(key in each for each in self.recorded)

    def add(self, key: model.OurKey) -> None:
        """Add a replacement of the current run."""
        self._new.add(hash(key))

    def origin(self, key: model.OurKey) -> model.Origin | None:
        """Return the original of a replacement that a journal holds, or None."""
        return next((found for each in self.recorded if (found := each.origin(key)) is not None), None)


def standings(lines: Lines, shape: Shape, policy: Policy) -> tuple[Protection, ...]:
    """Return the standing of each line. Lines off the live path are old: the user can return to them.

    If an entry can't be placed, no one knows what is recent, so everything is protected. Lines before a gap in the live
    path count as recent as if they were on it.
    """
    if any(role is Role.OPAQUE and lines.facts[number].sealed for number, role in enumerate(lines.roles)):
        return (Protection.PROTECTED,) * len(lines)
    live, wanted = shape.live, policy.turn_threshold_before_compress
    if (first := gap(lines, live)) is not None:
        live = [*sorted(set(range(first)).difference(live)), *live]
    turns = turns_on(lines, live)
    start = len(live) if wanted == 0 else turns[-wanted] if wanted < len(turns) else 0
    if policy.protect_tokens is not None:
        start = max(start, _newest_steps(lines, live, policy.protect_tokens, policy.at_rest))
    found = [Protection.OLD] * len(lines)
    for number in shape.dead:
        found[number] = Protection.DEAD
    for number in live[_with_calls(lines, live, start) :]:
        found[number] = Protection.PROTECTED
    on_path = {lines.ids[number]: number for number in live}
    for number, name in enumerate(lines.ids):
        # The agent may read any copy of a line.
        if name and found[number] is Protection.OLD and name in on_path:
            found[number] = found[on_path[name]]
    return tuple(found)


def _newest_steps(lines: Lines, path: Sequence[int], most: int, at_rest: bool) -> int:
    """Return where the newest steps begin whose calls and results total at most `most` tokens; 0 if all fit.

    They always include the newest step, and also the newest step with calls, unless `most` is 0 or no one will continue
    the session.
    """
    start = len(path)
    characters = 0
    acted, calls = at_rest or not most, False
    for position in range(len(path) - 1, -1, -1):
        line = lines[path[position]]
        # In a prompt, only pictures and documents count.
        characters += line.io or values.pictures(line.blocks)
        if line.role is not Role.ASSISTANT:
            continue
        calls = calls or bool(line.calls)
        if line.response:
            # It may continue the assistant message of earlier lines; results may be in between.
            earlier = (lines[path[before]] for before in range(position - 1, -1, -1))
            if line.response == next((each.response for each in earlier if each.role is Role.ASSISTANT), ""):
                continue
        if start < len(path) and estimate(characters) > most and acted:
            break
        start, acted = position, acted or calls
    else:
        return 0
    # The step that no longer fits ends with its last line: prompts between it and the next step are recent.
    in_steps = (Role.ASSISTANT, Role.RESULT)
    while not (line := lines[path[start - 1]]).io and line.role not in in_steps and not line.answers:
        start -= 1
    return start


def _with_calls(lines: Lines, path: Sequence[int], start: int) -> int:
    """Move the boundary back until every protected result's call is protected too."""
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
"""The kinds of a read's result that the model sees; a mirror is only for the screen."""

REPORT = 4_096
"""Bytes of a subagent's report that stay."""
_MOST_REPORTS = 20
"""Number of newest reports that keep their conclusions; older ones are ordinary results."""


class View(Struct, dict=True, eq=False):
    """A session as the compressors see it. `ours` knows our replacements according to the journal.

    `now` is the start of the run in milliseconds since 1970.
    """

    survey: Survey
    policy: Policy
    form: Format
    ours: Ours
    now: int = 0

    def __post_init__(self) -> None:
        self.lines = self.survey.lines
        # Agents spell the same tool differently.
        self._protected_tools = self.form.kept_tools.union(map(str.lower, self.policy.protect_tools))
        self.indexes: Mapping[tuple[int, JsonPath], Visible] = {}
        """The parts of results that previews show in addition to the ends, by line and path; see compressors.names."""
        self.loosened: frozenset[int] | None = None
        """Cached result of compressors.thinking, which others ask for too."""
        self._called: tuple[int, Mapping[str, Call]] = (-1, {})
        """The calls of the line that was last asked about, by name: a message may hold thousands."""

    @cached_property
    def standing(self) -> tuple[Protection, ...]:
        """The standing of each line; see standings()."""
        return standings(self.lines, self.survey.shape, self.policy)

    @cached_property
    def latest_thinking(self) -> frozenset[int]:
        """The lines of the last live message that holds thinking, which is never removed."""
        live, responses = self.survey.shape.live, self.lines.responses
        last = next((number for number in reversed(live) if self.lines.facts[number].thinks), None)
        if last is None or not responses[last]:
            return frozenset() if last is None else frozenset((last,))
        return frozenset(number for number, name in enumerate(responses) if name == responses[last])

    @cached_property
    def speaking(self) -> frozenset[str]:
        """Responses with text or calls. One that only thinks keeps its thinking, or it would be empty."""
        # The model reads no line that is only white space.
        says = (line for line in self.lines if line.reads or line.role is not Role.ASSISTANT)
        return frozenset(line.response for line in says if line.calls or not line.facts.thinks) - {""}

    @cached_property
    def asked(self) -> Sequence[Asked | None]:
        """For each line, the call that it answers."""
        return asked(self.lines)

    def asking(self, number: int, name: str = "") -> Call | None:
        """Return the call that a line answers, or else the call of that name in it: some agents write both in one."""
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
        """For each line with tied ids, the results of its calls."""
        found: dict[int, list[int]] = {}
        for number, call in enumerate(self.asked):
            if call is not None and self.lines[call[0]].facts.ties:
                found.setdefault(call[0], []).append(number)
        return found

    @cached_property
    def tied(self) -> Sequence[int]:
        """Lines that may change, but whose thinking can only be removed together with something else."""
        return [
            number
            for number, facts in enumerate(self.lines.facts)
            if (facts.ties or facts.bound) and not facts.sealed and self.standing[number] is not Protection.PROTECTED
        ]

    def blocks(self, kind: Kind, over: int = 0) -> Iterator[tuple[int, Block]]:
        """Yield the blocks of a kind that may change and are larger than `over` bytes or marked, with their lines."""
        for number, block in zip(*self._blocks[kind], strict=True):
            if block.size > over or block.marked:
                yield number, block

    @cached_property
    def _blocks(self) -> Mapping[Kind, tuple[list[int], list[Block]]]:
        found: dict[Kind, tuple[list[int], list[Block]]] = {kind: ([], []) for kind in Kind}
        for number, (line, standing) in enumerate(zip(self.lines, self.standing, strict=True)):
            if not line.blocks or line.facts.sealed:
                continue
            protected = standing is Protection.PROTECTED
            for block in line.blocks:
                if (not protected or self.is_free(number, block)) and not self._stays(number, block):
                    numbers, blocks = found[block.kind]
                    numbers.append(number)
                    blocks.append(block)
        return found

    def is_free(self, number: int, block: Block) -> bool:
        """True if a block of a line is not protected.

        A mirror is free if no one will see it again, or only someone who resumes a session at rest.
        """
        if self.standing[number] is not Protection.PROTECTED:
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
        """True if a change touches nothing protected; a mirror in a group with thinking is not free by itself."""
        if self.standing[change.line] is not Protection.PROTECTED:
            return True
        return change.block is not None and not change.group and self.is_free(change.line, change.block)

    def is_whole(self, number: int, block: Block) -> bool:
        """True if the policy keeps this block unchanged."""
        latest = block.kind is Kind.THINKING and number in self.latest_thinking
        return latest or not self.is_free(number, block) or self._stays(number, block)

    def standing_of(self, number: int, block: Block) -> Protection:
        """Return the standing of a block: protected if the policy keeps it whole, whatever its line's standing."""
        if self.is_whole(number, block):
            return Protection.PROTECTED
        return Protection.DEAD if self.standing[number] is Protection.DEAD else Protection.OLD

    def _stays(self, number: int, block: Block) -> bool:
        """True if a block stays because of its nature: a protected tool, a skill that was read, or no bulk.

        A checkpoint is the model's context until a later one replaces it, so its blocks stay too.
        """
        if not block.bulk and block.kind is not Kind.ARGUMENT:
            return True
        if block.tool and block.tool.lower() in self._protected_tools:
            return True
        line = self.lines[number]
        if line.role is Role.CHECKPOINT and self.standing[number] is not Protection.DEAD and not block.unseen:
            return True
        if block.kind not in (*_READ, Kind.ARGUMENT) or self.policy.at_rest:
            return False
        made = self.asking(number, block.call)
        if made is not None and made.reads_skill:
            # The arguments stay too: in Codex, only they tell the next run that this was a skill.
            return True
        if made is None or block.kind is Kind.ARGUMENT:
            return False
        if (number, block.call) in self._instructions:
            return True
        return self.is_report(number, block) and block.size - REPORT - MARKER_BYTES < LEAST_GAIN

    @cached_property
    def _instructions(self) -> frozenset[tuple[int, str]]:
        """The results that hold the newest copy of an instruction file, or of a part of one."""
        names, newest = frozenset(self.policy.protect_files), dict[tuple[str, str], tuple[int, str]]()
        for number, made in self._asked_for[Purpose.READ] if names else ():
            if made.file.replace("\\", "/").rpartition("/")[2] not in names:
                continue
            blocks = self.lines[number].blocks
            size = sum(block.size for block in blocks if block.kind in _READ and block.call == made.name)
            # A shorter result may only report that the file is empty or unchanged.
            if size > SMALLEST_LIMIT and not self.lines.facts[number].failed:
                newest[made.file, made.part] = number, made.name
        return frozenset(newest.values())

    def is_report(self, number: int, block: Block) -> bool:
        """True if a result is one of the newest reports of subagents, which contain conclusions and not output."""
        return (number, block.call) in self._reports

    @cached_property
    def _reports(self) -> frozenset[tuple[int, str]]:
        return frozenset([(number, made.name) for number, made in self._asked_for[Purpose.AGENT]][-_MOST_REPORTS:])

    @cached_property
    def _asked_for(self) -> Mapping[Purpose, Sequence[tuple[int, Call]]]:
        """The answered reads and subagent calls on the live path, each with the line of its result."""
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
        """True if a block holds our own replacement."""
        return block.marked and (block.digest, block.kind, block.call) in self.ours

    def treatment(self, number: int) -> Treatment:
        """Return REFERENCE for dead history, and PREVIEW for what a model may still see if the policy has previews."""
        named = self.standing[number] is Protection.DEAD or not self.policy.has_previews
        return Treatment.REFERENCE if named else Treatment.PREVIEW


class Context(NamedTuple):
    """Everything a compressor needs to render the changes of one line; `entry` is the parsed line before them.

    `refer` returns a content's reference, or None if no original is kept. `origin` returns the original of our
    replacement in this line, or None if the agent copied it from another line.
    """

    view: View
    refer: Callable[[bytes], str | None]
    entry: Entry
    origin: Callable[[model.OurKey], model.Origin | None]


Compressor = Callable[[View], Iterable[Change]]
"""Proposes changes to a view. The plan checks protection, size and repeated runs, not the compressor."""
