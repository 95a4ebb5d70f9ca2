"""Claude Code's live path: from the newest message up to the root, as the agent itself walks it at a resume."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Role, Shape


def shape(lines: Lines) -> Shape:
    """Return the live path, with what stood on it before a compaction, which is dead."""
    numbers = {name: number for number, name in enumerate(lines.ids) if name}
    leaf = _leaf(lines, numbers)
    if leaf is None:
        return Shape(array("I"), frozenset())
    path = [*_joined(lines, _up(lines, leaf, numbers), numbers), *_below(lines, leaf)]
    return Shape(array("I", path), frozenset(_dead(lines, path)))


def _leaf(lines: Lines, numbers: Mapping[str, int]) -> int | None:
    """Return the newest message; in a file that holds none but a subagent's, the last line."""
    _, newest = max(((time, number) for number, time in enumerate(lines.times) if time), default=(0, None))
    return max(numbers.values(), default=None) if newest is None else newest


def _up(lines: Lines, leaf: int, numbers: Mapping[str, int]) -> list[int]:
    """Walk from the leaf to the root; where a parent is missing, the walk goes on at the message before it in time."""
    earlier = None
    path: list[int] = []
    seen = bytearray(len(lines))
    step: int | None = leaf
    while step is not None and not seen[step]:
        seen[step] = True
        path.append(step)
        parent = lines.parents[step]
        following = numbers.get(parent)
        if parent and following is None and lines.roles[step] is not Role.CHECKPOINT:
            earlier = earlier or _Earlier(lines)
            following = earlier.than(step)
        step = following
    path.reverse()
    return path


class _Earlier:
    """Finds the message before another one in time."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._times = sorted((time, number) for number, time in enumerate(lines.times) if time)

    def than(self, number: int) -> int | None:
        at = bisect_left(self._times, (self._lines.times[number], 0))
        return self._times[at - 1][1] if at else None


def _joined(lines: Lines, path: Sequence[int], numbers: Mapping[str, int]) -> list[int]:
    """Put in what else belongs to the responses on the path: calls made at once hang beside each other."""
    last = {lines.responses[number]: number for number in path if lines.responses[number]}
    beside = _beside(lines, frozenset(path), frozenset(last), numbers)
    whole: list[int] = []
    for number in path:
        whole.append(number)
        if last.get(lines.responses[number]) == number:
            whole += sorted(beside.get(lines.responses[number], ()), key=lambda each: (lines.times[each], each))
    return whole


def _beside(
    lines: Lines, path: frozenset[int], responses: frozenset[str], numbers: Mapping[str, int]
) -> Mapping[str, Sequence[int]]:
    """Return the lines off the path that belong to a response on it: its other parts, and their results."""
    found: dict[str, list[int]] = {}
    for number, role in enumerate(lines.roles):
        if number in path or not (lines.responses[number] or role is Role.RESULT):
            continue
        parent = numbers.get(lines.parents[number]) if role is Role.RESULT else None
        response = lines.responses[number if parent is None else parent]
        if response in responses:
            found.setdefault(response, []).append(number)
    return found


def _below(lines: Lines, leaf: int) -> list[int]:
    """Return what hangs on the leaf and is no message of the conversation: attachments, notes of the agent."""
    names = {lines.ids[leaf]}
    found = []
    for number in range(leaf + 1, len(lines)):
        if lines.ids[number] and lines.parents[number] in names:
            names.add(lines.ids[number])
            found.append(number)
    return found


def _dead(lines: Lines, path: Sequence[int]) -> Iterable[int]:
    """Return the lines of the path that no model sees again, by the last compaction that the path knows of.

    What a compaction kept hangs behind the lines before it, as it always did: the path may lead through it and past
    the compaction.
    """
    positions = {number: position for position, number in enumerate(path)}
    places = {lines.ids[number]: position for number, position in positions.items()}
    for number in range(len(lines) - 1, -1, -1):
        if lines.roles[number] is Role.CHECKPOINT:
            until = positions.get(number)
            keeps = lines.facts[number].keeps
            kept = places.get(str(keeps)) if keeps else None
            if kept is not None and (until is None or kept < until):
                until = kept
            if until is not None:
                return path[:until]
    return ()
