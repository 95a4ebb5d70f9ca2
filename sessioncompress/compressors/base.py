"""What a compressor sees and what it gives: a view of the session in, proposed changes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from sessioncompress import protect
from sessioncompress.formats.base import Format
from sessioncompress.marker import PREFIX
from sessioncompress.model import Block, Call, Change, Kind, Line, Origin, OurKey, Standing, Survey, Treatment
from sessioncompress.pairs import NO_CALL, callers
from sessioncompress.policy import Policy
from sessioncompress.references import digest_of
from sessioncompress.splice import literal

_SKILL_FILE = "SKILL.md"


@dataclass(frozen=True)
class View:
    """A session as the compressors see it. `ours` holds what the journal says this tool put there."""

    survey: Survey
    policy: Policy
    form: Format
    ours: Mapping[OurKey, Origin]

    @property
    def lines(self) -> Sequence[Line]:
        """The session's lines."""
        return self.survey.lines

    @cached_property
    def standing(self) -> tuple[Standing, ...]:
        """Where each line stands."""
        return protect.standings(self.survey.lines, self.survey.shape, self.policy)

    @cached_property
    def latest_thinking(self) -> int | None:
        """The line whose thinking stays."""
        return protect.latest_thinking(self.survey.lines, self.survey.shape)

    @cached_property
    def callers(self) -> Sequence[int]:
        """For each line the line with the call that it answers, or NO_CALL."""
        return callers(self.lines)

    @cached_property
    def answers(self) -> Mapping[int, Sequence[int]]:
        """The results of the calls of each line whose ids are tied."""
        found: dict[int, list[int]] = {}
        for number, caller in enumerate(self.callers):
            if caller != NO_CALL and self.lines[caller].facts.ties:
                found.setdefault(caller, []).append(number)
        return found

    def asked(self, number: int) -> Call | None:
        """Return the call that a line answers."""
        caller, name = self.callers[number], self.lines[number].answers
        calls = () if caller == NO_CALL else self.lines[caller].calls
        return next((call for call in calls if call.id == name), None)

    @property
    def free(self) -> Iterator[tuple[int, Line]]:
        """The lines that may change, with their numbers."""
        for number, standing in enumerate(self.standing):
            line = self.lines[number]
            if standing is not Standing.PROTECTED and not line.facts.sealed:
                yield number, line

    @cached_property
    def _blocks(self) -> Mapping[Kind, Sequence[tuple[int, Block]]]:
        """The blocks that may change, by their kind."""
        found: dict[Kind, list[tuple[int, Block]]] = {kind: [] for kind in Kind}
        for number, line in self.free:
            for block in line.blocks:
                if not self.stays(number, block):
                    found[block.kind].append((number, block))
        return found

    def blocks(self, kind: Kind) -> Sequence[tuple[int, Block]]:
        """Return the blocks of one kind that may change, in the order of the lines."""
        return self._blocks[kind]

    def call(self, number: int, block: Block) -> Call | None:
        """Return the call that a block of this line belongs to."""
        line = self.lines[number]
        if line.answers:
            return self.asked(number)
        return next((call for call in line.calls if call.name == block.call), None)

    def stays(self, number: int, block: Block) -> bool:
        """Say whether a block is kept for what it is: of a protected tool, a skill that was read, without bulk."""
        if block.tool in self.policy.protect_tools or not (block.bulk or block.kind is Kind.ARGUMENT):
            return True
        made = self.asked(number)
        return made is not None and made.file.endswith(_SKILL_FILE)

    def origin(self, block: Block) -> Origin | None:
        """Return the original of a block that holds our own replacement."""
        return self.ours.get((block.digest, block.kind, block.call)) if block.marked else None

    def is_ours(self, text: str, kind: Kind, call: str) -> bool:
        """Say whether a text is a replacement of ours."""
        return PREFIX in text and (digest_of(literal(text)), kind, call) in self.ours

    def known_tool(self, tool: str) -> bool:
        """Say whether the tool is one of the agent's own, so that we know what its mirrors are for."""
        return tool.lower() in self.form.tools

    def treatment(self, number: int) -> Treatment:
        """Dead history is named only; what a model may still see is previewed."""
        return Treatment.REFERENCE if self.standing[number] is Standing.DEAD else Treatment.PREVIEW


@dataclass(frozen=True, slots=True)
class Context:
    """What a compressor needs to render changes; `refer` makes a content's reference, or None if none is kept."""

    view: View
    refer: Callable[[bytes], str | None]


class Compressor(Protocol):
    """Maps a view to proposed changes; it never needs to care for protection, size or a second run."""

    def __call__(self, view: View) -> Iterable[Change]:
        """Propose changes."""
