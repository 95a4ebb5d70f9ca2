"""Which lines stay whole: the recent context, and what must never be taken.

Recent are the last turns, and of their tool I/O the newest tokens, by whole steps. More turns or more tokens never
protect less.
"""

from __future__ import annotations

from collections.abc import Sequence

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Role, Shape, Standing
from sessioncompress.core.text import estimate
from sessioncompress.core.turns import turns_on
from sessioncompress.policy.model import Policy

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
