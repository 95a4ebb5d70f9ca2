"""Which results pruning takes for their age: what lies before the newest tool output and the newest messages."""

from __future__ import annotations

from sessioncompress.compressors.base import View
from sessioncompress.compressors.results import MARKER_BYTES
from sessioncompress.core.model import Block, Kind, Path, Role, Standing
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, estimate
from sessioncompress.core.turns import SPOKEN

_LEAST = 50 * CHARACTERS_PER_TOKEN
"""Characters. What gains fewer tokens is not worth a hole in the session."""

Place = tuple[int, Path]
"""The line of a block, and where it stands in it."""


def aged(view: View) -> frozenset[Place]:
    """Return the results that go since they are old, whatever else the session says; none where nothing is pruned."""
    prune = view.policy.prune
    if not prune.enabled:
        return frozenset()
    open_ones, window = free(view), _window(view)
    kept = frozenset(map(str.lower, prune.protect_tools))
    return frozenset(
        (number, block.path)
        for number, block in view.blocks(Kind.RESULT)
        if number in open_ones
        and (number, block.path) not in window
        and block.tool.lower() not in kept
        and gains(block)
    )


def free(view: View) -> frozenset[int]:
    """Return the lines of the live path that a model reads and that are in none of the newest messages."""
    recent = _newest_messages(view)
    return frozenset(
        number for number in view.survey.shape.live if number not in recent and view.standing[number] is Standing.OLD
    )


def gains(block: Block, note: str = "") -> bool:
    """Say whether enough is gained where a marker with this note takes a block's place."""
    return block.size - MARKER_BYTES - len(note) >= _LEAST


def _newest_messages(view: View) -> frozenset[int]:
    """Return the lines of the newest messages; one that an agent writes in several lines counts once."""
    lines, most = view.lines, view.policy.prune.preserve_recent_messages
    found: set[int] = set()
    names: set[str] = set()
    messages = 0
    for number in reversed(view.survey.shape.live):
        if lines.roles[number] not in SPOKEN:
            continue
        name = lines.responses[number]
        if not name or name not in names:
            messages += 1
        if messages > most:
            break
        names.add(name)
        found.add(number)
    return frozenset(found)


def _window(view: View) -> frozenset[Place]:
    """Return the results at the end of the live path into which the newest tokens of tool output reach."""
    lines, most = view.lines, view.policy.prune.prune_protect
    found: set[Place] = set()
    characters = 0
    for number in reversed(view.survey.shape.live):
        line = lines[number]
        blocks = [block for block in line.blocks if block.kind is Kind.RESULT]
        for block in reversed(blocks):
            if estimate(characters) >= most:
                return frozenset(found)
            found.add((number, block.path))
            characters += block.size
        if line.role is Role.RESULT:
            # What is too short to be a block, or cannot be replaced, is read all the same.
            characters += max(line.io - sum(block.size for block in blocks), 0)
    return frozenset(found)
