"""What agents recorded of their requests: tokens that were sent and came back, in one form for all vendors."""

from __future__ import annotations

from typing import Any, NamedTuple

_MOST = 1_000_000_000
"""Tokens. No request comes near: a larger number is a mistake, or meant to be one."""


class Usage(NamedTuple):
    """The tokens of one request, each counted once: `input` was sent beside what a cache held or took.

    `reasoning` is a part of `output`.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def prompt(self) -> int:
        """Return all tokens that were sent."""
        return self.input + self.cache_read + self.cache_write

    @property
    def context(self) -> int:
        """Return the tokens that were sent and came back: the next request holds them, and what comes behind them."""
        return self.prompt + self.output


class Answer(NamedTuple):
    """What a line says of one request: its model, and its usage, or the text of the error with which it failed.

    `usage` is None where none is recorded, or none that can be: all zero, say. An answer with neither usage nor error
    that stands beside the messages names the model and the window of those behind it. `window` is the model's context
    window in tokens as the agent recorded it, `at` a time in milliseconds; 0: unknown. `line` is -1 until whoever reads
    the lines knows it.
    """

    line: int = -1
    model: str = ""
    usage: Usage | None = None
    error: str = ""
    window: int = 0
    at: int = 0


def beside(
    sent: Any, output: Any, cache_read: Any = None, cache_write: Any = None, reasoning: Any = None
) -> Usage | None:
    """Return the usage of a vendor that counts what caches held or took beside what was sent.

    None where nothing was sent, or a value is no number of tokens; one that is missing is 0.
    """
    given = tuple(map(tokens, (sent, output, cache_read, cache_write, reasoning)))
    known = [each for each in given if each is not None]
    usage = Usage(*known) if len(known) == len(given) else None
    return usage if usage and usage.prompt else None


def within(
    sent: Any, output: Any, cache_read: Any = None, cache_write: Any = None, reasoning: Any = None
) -> Usage | None:
    """Return the usage of a vendor that counts what caches held or took as parts of what was sent; see beside()."""
    usage = beside(sent, output, cache_read, cache_write, reasoning)
    if usage is None or usage.input < usage.cache_read + usage.cache_write:
        return None
    return usage._replace(input=usage.input - usage.cache_read - usage.cache_write)


def tokens(value: Any) -> int | None:
    """Return a number of tokens, 0 where there is none, and None for what cannot be one."""
    if value is None:
        return 0
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if good else None
