"""What the live path of a session comes to: tokens, turns, messages."""

from __future__ import annotations

from collections.abc import Container

from sessioncompress.core.lines import Survey
from sessioncompress.core.model import Role
from sessioncompress.core.tokens import CHARACTERS_PER_TOKEN, estimate
from sessioncompress.core.turns import turns_on

EVERY = range(1 << 62)
"""The lines of a session, however many there are."""

SPOKEN = frozenset({Role.USER, Role.ASSISTANT, Role.RESULT})
"""What the lines of messages are."""


def tokens_of(read: Survey, each: float = CHARACTERS_PER_TOKEN) -> int:
    """Estimate what the model reads of the live path, in tokens of so many characters."""
    characters = sum(read.lines.rows[number].reads for number in read.shape.live if number not in read.shape.dead)
    return estimate(read.before.characters + characters, each)


def turns_of(read: Survey) -> int:
    """Return the user turns on the live path."""
    return read.before.turns + len(turns_on(read.lines, read.shape.live))


def messages_of(read: Survey, among: Container[int] = EVERY) -> int:
    """Count the messages on the live path, or those in some lines; what an agent writes in several lines is one."""
    roles, responses = read.lines.roles, read.lines.responses
    numbers = [number for number in read.shape.live if roles[number] in SPOKEN and number in among]
    return len({responses[number] or number for number in numbers})
