"""Which lines stay whole: the recent context, as the policy measures it, and what must never be taken."""

from __future__ import annotations

from collections.abc import Sequence

from sessioncompress.model import Line, Role, Shape, Standing
from sessioncompress.pairs import NO_CALL, callers
from sessioncompress.policy import Policy, ProtectMode
from sessioncompress.tokens import estimate


def standings(lines: Sequence[Line], shape: Shape, policy: Policy) -> tuple[Standing, ...]:
    """Return where each line stands. Lines off the live path are old: the user can go back to them.

    Where an entry could stand anywhere, no one knows what is recent: all is protected.
    """
    if any(line.unplaced for line in lines):
        return (Standing.PROTECTED,) * len(lines)
    found = [Standing.OLD] * len(lines)
    for number in shape.dead:
        found[number] = Standing.DEAD
    for number in shape.live[boundary(lines, shape, policy) :]:
        found[number] = Standing.PROTECTED
    return tuple(found)


def boundary(lines: Sequence[Line], shape: Shape, policy: Policy) -> int:
    """Return the position on the live path from which on lines are protected."""
    path = [lines[number] for number in shape.live]
    turns = [position for position, line in enumerate(path) if line.role is Role.USER]
    wanted = policy.turn_threshold_before_compress
    enough = len(turns) > wanted
    by_turns = len(path) if wanted == 0 else turns[-wanted] if enough else 0
    if policy.protect_mode is ProtectMode.TURNS or (policy.protect_mode is ProtectMode.TURNS_OR_TOKENS and enough):
        return _with_calls(path, by_turns)
    return _with_calls(path, max(by_turns, _by_tokens(path, policy.protect_tokens)))


def latest_thinking(lines: Sequence[Line], shape: Shape) -> int | None:
    """Return the last line on the live path that holds thinking: its thinking is never taken out."""
    return next((number for number in reversed(shape.live) if lines[number].facts.thinks), None)


def _by_tokens(path: Sequence[Line], most: int) -> int:
    """Whole steps from the end, while their tool calls and results are at most so many tokens; the newest always.

    Where no step is there yet, everything is recent.
    """
    start = len(path)
    characters = 0
    for position in range(len(path) - 1, -1, -1):
        line = path[position]
        characters += line.io
        if line.role is Role.ASSISTANT:
            if start < len(path) and estimate(characters) > most:
                break
            start = position
    return start if start < len(path) else 0


def _with_calls(path: Sequence[Line], start: int) -> int:
    """Move the boundary back until no protected result has its call before it."""
    made = callers(path)
    position = len(path) - 1
    while position >= start:
        if made[position] != NO_CALL:
            start = min(start, made[position])
        position -= 1
    return start
