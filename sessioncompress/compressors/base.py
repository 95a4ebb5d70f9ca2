"""What a compressor sees and what it gives: a view of the session in, proposed changes out."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from sessioncompress.core.lines import Index, Lines, Survey
from sessioncompress.core.marker import PREFIX, digest_of
from sessioncompress.core.model import (
    Block,
    Call,
    Change,
    Kind,
    Line,
    Origin,
    OurKey,
    Purpose,
    Role,
    Shape,
    Standing,
    Treatment,
)
from sessioncompress.core.splice import literal
from sessioncompress.core.text import estimate
from sessioncompress.core.turns import Asked, asked, turns_on
from sessioncompress.formats.base import Entry, Format
from sessioncompress.policy.model import Policy

_64_BITS: Final = (1 << 64) - 1


class Known(Protocol):
    """Replacements with their originals, as a journal holds them."""

    def __contains__(self, key: OurKey) -> bool: ...

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of a replacement, None where it is none."""


class Ours:
    """The replacements that journals hold, with their originals, and those of the run under way.

    Of these only the keyed hashes are held, so that a large session needs little memory; the run's own records hold
    the rest.
    """

    def __init__(self, known: Sequence[Known] = (), new: Iterable[int] = ()) -> None:
        self.known = known
        self._new = array("Q", new)
        self._index = Index(self._new)

    def __contains__(self, key: OurKey) -> bool:
        if len(self._index) != len(self._new):
            self._index = Index(self._new)
        return _number(key) in self._index or any(key in known for known in self.known)

    def add(self, key: OurKey) -> None:
        """Take note of a replacement that the run under way makes; it is looked for when all are made."""
        self._new.append(_number(key))

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of a replacement that a journal holds."""
        return next((found for known in self.known if (found := known.origin(key)) is not None), None)

    def copy(self) -> Ours:
        """Return the same, to be added to apart from this."""
        return Ours(self.known, self._new)


def _number(key: OurKey) -> int:
    return hash(key) & _64_BITS


_IN_STEPS = frozenset({Role.ASSISTANT, Role.RESULT})


def standings(lines: Lines, shape: Shape, policy: Policy, earlier: int = 0) -> tuple[Standing, ...]:
    """Return where each line stands. Lines off the live path are old: the user can go back to them.

    Where an entry could stand anywhere, no one knows what is recent: all is protected. So many `earlier` turns stand
    before these lines.
    """
    if any(role is Role.OPAQUE and lines.facts[number].sealed for number, role in enumerate(lines.roles)):
        return (Standing.PROTECTED,) * len(lines)
    found = [Standing.OLD] * len(lines)
    for number in shape.dead:
        found[number] = Standing.DEAD
    for number in shape.live[boundary(lines, shape, policy, earlier) :]:
        found[number] = Standing.PROTECTED
    return tuple(found)


def boundary(lines: Lines, shape: Shape, policy: Policy, earlier: int = 0) -> int:
    """Return the position on the live path from which on lines are protected."""
    turns = turns_on(lines, shape.live)
    wanted = policy.turn_threshold_before_compress
    there = wanted <= len(turns) and wanted < earlier + len(turns)
    by_turns = len(shape.live) if wanted == 0 else turns[-wanted] if there else 0
    most = policy.protect_tokens
    by_tokens = 0 if most is None else _by_tokens(lines, shape.live, most)
    return _with_calls(lines, shape.live, max(by_turns, by_tokens))


def latest_thinking(lines: Lines, shape: Shape) -> frozenset[int]:
    """Return the lines of the last message on the live path that holds thinking: its thinking is never taken out."""
    last = next((number for number in reversed(shape.live) if lines.facts[number].thinks), None)
    if last is None or not lines.responses[last]:
        return frozenset() if last is None else frozenset((last,))
    return frozenset(number for number, name in enumerate(lines.responses) if name == lines.responses[last])


def _by_tokens(lines: Lines, path: Sequence[int], most: int) -> int:
    """Return the position behind the newest step that is too much; 0 where none is.

    Those are protected whose tool calls and results together are at most so many tokens; the newest always.
    """
    start = len(path)
    characters = 0
    for position in range(len(path) - 1, -1, -1):
        line = lines[path[position]]
        characters += line.io
        if line.role is Role.ASSISTANT and not _goes_on(lines, path, position):
            if start < len(path) and estimate(characters) > most:
                return _behind_step(lines, path, start)
            start = position
    return 0


def _behind_step(lines: Lines, path: Sequence[int], start: int) -> int:
    """Return the position behind a step's last line, where the next one starts: prompts between them are recent."""
    while not (line := lines[path[start - 1]]).io and line.role not in _IN_STEPS and not line.answers:
        start -= 1
    return start


def _goes_on(lines: Lines, path: Sequence[int], position: int) -> bool:
    """Say whether a line goes on with the assistant message of the lines before it; results may stand between."""
    response = lines.responses[path[position]]
    if not response:
        return False
    earlier = (path[before] for before in range(position - 1, -1, -1))
    before = next((number for number in earlier if lines.roles[number] is Role.ASSISTANT), None)
    return before is not None and lines.responses[before] == response


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


_SKILL_FILE = "SKILL.md"
_READ = frozenset({Kind.RESULT, Kind.IMAGE})
"""What a read returns to the model; a mirror of it is for the screen alone."""


class View(Struct, frozen=True, dict=True):
    """A session as the compressors see it. `ours` holds what the journal says this tool put there.

    `now` is when the run began, in milliseconds since 1970.
    """

    survey: Survey
    policy: Policy
    form: Format
    ours: Ours
    now: int = 0

    @cached_property
    def lines(self) -> Lines:
        """The session's lines."""
        return self.survey.lines

    @cached_property
    def standing(self) -> tuple[Standing, ...]:
        """Where each line stands."""
        found = self.survey
        return standings(found.lines, found.shape, self.policy, found.before.turns)

    @cached_property
    def latest_thinking(self) -> frozenset[int]:
        """The lines whose thinking stays."""
        return latest_thinking(self.survey.lines, self.survey.shape)

    @cached_property
    def speaking(self) -> frozenset[str]:
        """The responses that say or call something; one that only thinks keeps its thinking, or it would be empty."""
        return frozenset(
            line.response for line in self.lines if line.response and (line.calls or not line.facts.thinks)
        )

    @cached_property
    def found(self) -> dict[str, Any]:
        """What one compressor found and another asks for again."""
        return {}

    @cached_property
    def asked(self) -> Sequence[Asked | None]:
        """For each line which call it answers."""
        return asked(self.lines)

    @cached_property
    def answers(self) -> Mapping[int, Sequence[int]]:
        """The results of the calls of each line whose ids are tied."""
        found: dict[int, list[int]] = {}
        for number, call in enumerate(self.asked):
            if call is not None and self.lines[call[0]].facts.ties:
                found.setdefault(call[0], []).append(number)
        return found

    def asking(self, number: int) -> Call | None:
        """Return the call that a line answers."""
        found = self.asked[number]
        return None if found is None else found[1]

    @cached_property
    def tied(self) -> Sequence[int]:
        """The lines that may change and whose thinking can only go together with something else."""
        return [
            number
            for number, facts in enumerate(self.lines.facts)
            if (facts.ties or facts.bound) and not facts.sealed and self.standing[number] is not Standing.PROTECTED
        ]

    @cached_property
    def _blocks(self) -> Mapping[Kind, tuple[list[int], list[Block]]]:
        """The blocks that may change, by their kind, with the numbers of their lines."""
        found: dict[Kind, tuple[list[int], list[Block]]] = {kind: ([], []) for kind in Kind}
        for number, (line, standing) in enumerate(zip(self.lines, self.standing, strict=True)):
            if not line.blocks or line.facts.sealed:
                continue
            protected = standing is Standing.PROTECTED
            for block in line.blocks:
                if (not protected or self._is_over(line, block)) and not self._stays(number, line, block):
                    numbers, blocks = found[block.kind]
                    numbers.append(number)
                    blocks.append(block)
        return found

    def is_free(self, number: int, block: Block) -> bool:
        """Say whether a block of a line is not protected."""
        return self.standing[number] is not Standing.PROTECTED or self._is_over(self.lines[number], block)

    def _is_over(self, line: Line, block: Block) -> bool:
        """Say whether a mirror is met again by nobody, or only by who would go on with a session at rest."""
        if block.kind is not Kind.MIRROR or self.policy.at_rest:
            return block.kind is Kind.MIRROR
        return block.unseen and (not line.facts.reports or line.facts.reports in self._answered)

    @cached_property
    def _answered(self) -> frozenset[str]:
        """The calls whose results are there."""
        several = (name for line in self.lines for name in line.facts.several)
        return frozenset(line.answers for line in self.lines).union(several)

    def allows(self, change: Change) -> bool:
        """Say whether a change touches nothing protected; a mirror on which thinking hangs is not a mirror alone."""
        if change.block is None or change.group:
            return self.standing[change.line] is not Standing.PROTECTED
        return self.is_free(change.line, change.block)

    def blocks(self, kind: Kind, over: int = 0) -> Iterator[tuple[int, Block]]:
        """Yield the blocks of one kind that may change and are over a size or may be ours, with their lines."""
        for number, block in zip(*self._blocks[kind], strict=True):
            if block.size > over or block.marked:
                yield number, block

    def calls(self, number: int) -> Mapping[str, Call]:
        """Return the calls that the blocks of this line belong to, by the names that these give them."""
        line = self.lines[number]
        if line.answers:
            made = self.asking(number)
            return {} if made is None else {made.name: made}
        # Of several by one name the first counts.
        return {call.name: call for call in reversed(line.calls)}

    def is_whole(self, number: int, block: Block) -> bool:
        """Say whether the policy keeps this block as it is."""
        if not self.is_free(number, block):
            return True
        latest = block.kind is Kind.THINKING and number in self.latest_thinking
        return latest or self._stays(number, self.lines[number], block)

    def _stays(self, number: int, line: Line, block: Block) -> bool:
        """Say whether a block is kept for what it is: of a protected tool, a skill that was read, without bulk.

        What a checkpoint holds is the model's context until a later one takes its place.
        """
        kind, _, _, bulk, tool, *_ = block
        if not bulk and kind is not Kind.ARGUMENT:
            return True
        if tool and self._is_protected(tool):
            return True
        if line.role is Role.CHECKPOINT and self.standing[number] is not Standing.DEAD:
            return True
        if kind not in _READ or not line.answers or self.policy.at_rest:
            return False
        made = self.asking(number)
        return made is not None and made.purpose is Purpose.READ and made.file.endswith(_SKILL_FILE)

    def _is_protected(self, tool: str) -> bool:
        """Say whether the calls of a tool stay; the blocks of a session are of a few tools."""
        found = self._tools.get(tool)
        if found is None:
            found = self._tools[tool] = tool.lower() in self._protected_tools
        return found

    @cached_property
    def _tools(self) -> dict[str, bool]:
        """Of each tool that was asked for whether it is protected."""
        return {}

    @cached_property
    def _protected_tools(self) -> frozenset[str]:
        """The tools whose calls and results stay; agents spell one and the same tool differently."""
        return self.form.kept_tools.union(map(str.lower, self.policy.protect_tools))

    def holds_ours(self, block: Block) -> bool:
        """Say whether a block holds our own replacement."""
        return block.marked and (block.digest, block.kind, block.call) in self.ours

    def origin(self, block: Block) -> Origin | None:
        """Return the original of a block that holds our own replacement."""
        return self.ours.origin((block.digest, block.kind, block.call)) if block.marked else None

    def is_ours(self, text: str, kind: Kind, call: str) -> bool:
        """Say whether a text is a replacement of ours."""
        return PREFIX in text and (digest_of(literal(text)), kind, call) in self.ours

    def known_tool(self, tool: str) -> bool:
        """Say whether the tool is one of the agent's own, so that we know what its mirrors are for."""
        return tool.lower() in self.form.tools

    def treatment(self, number: int) -> Treatment:
        """Dead history is named only; what a model may still see is previewed, where the policy has previews."""
        named = self.standing[number] is Standing.DEAD or not self.policy.preview_max_bytes
        return Treatment.REFERENCE if named else Treatment.PREVIEW


class Context(NamedTuple):
    """What a compressor needs to render the changes of one line, whose parsed `entry` is as it was.

    `refer` makes a content's reference, or None if none is kept.
    """

    view: View
    refer: Callable[[bytes], str | None]
    entry: Entry


class Compressor(Protocol):
    """Maps a view to proposed changes; it never needs to care for protection, size or a second run."""

    def __call__(self, view: View) -> Iterable[Change]:
        """Propose changes."""
