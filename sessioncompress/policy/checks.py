"""What a value of the policy may be: each check returns it as the policy holds it, or says what it must be."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from reprlib import repr as shortened
from typing import Any, TypeVar

from sessioncompress.errors import UsageError

Check = Callable[[Any], Any]
"""Makes of a given value the one that a field holds, or raises ValueError, saying what it must be."""

Checks = Mapping[str, Check]
"""The check of each field."""

Word = TypeVar("Word", bound=StrEnum)

_ALL = 100
_MOST = 1 << 53
"""What all readers of JSON keep exactly: the journal holds these numbers."""
MOST_ENTRIES = 200
"""Of a list: each run's record in the journal holds all of it."""
_LONGEST_NAME = 200


def hold(values: object, by: Checks) -> None:
    """Hold each field of a frozen value in its type. Raises UsageError where one cannot be."""
    for name, check in by.items():
        value = getattr(values, name)
        try:
            object.__setattr__(values, name, check(value))
        except ValueError as error:
            what = f"the policy's {name} is {shortened(value)}, but must be {error}"
            raise UsageError(what, state="No session is changed.", remedy="Correct the policy.") from None


def count(value: Any) -> int:
    """Return a whole number. Raises ValueError, as all that follow do."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a whole number, 0 or more")
    return _held(value)


def count_or_null(value: Any) -> int | None:
    """Return a whole number of at least zero, or None."""
    try:
        return None if value is None else count(value)
    except ValueError as error:
        raise ValueError(f"{error}, or null") from None


def positive_or_null(value: Any) -> int | None:
    """Return a whole number of at least one, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a whole number, 1 or more, or null")
    return _held(value)


def _held(value: int) -> int:
    if value > _MOST:
        raise ValueError(f"no more than {_MOST:,}")
    return value


def percent(value: Any) -> int:
    """Return a whole number of hundredths."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _ALL:
        raise ValueError("a whole number from 1 to 100")
    return value


def percent_or_null(value: Any) -> int | None:
    """Return a whole number of hundredths, or None."""
    try:
        return None if value is None else percent(value)
    except ValueError as error:
        raise ValueError(f"{error}, or null") from None


def flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def seconds(value: Any) -> float:
    """Return a time in seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
        raise ValueError(f"a number of seconds, 0 or more and no more than {_MOST:,}")
    return value


def folder(value: Any) -> str | None:
    """Return a folder's path, or None."""
    return _path(value, "a folder's path or null")


def file(value: Any) -> str | None:
    """Return a file's path, or None."""
    return _path(value, "a file's path or null")


def _path(value: Any, must_be: str) -> str | None:
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if value is not None and (not isinstance(value, str) or not value or "\0" in value):
        raise ValueError(must_be)
    return value


def names(value: Any) -> tuple[str, ...]:
    """Return the names of tools."""
    if not isinstance(value, (list, tuple)) or len(value) > MOST_ENTRIES or not all(map(is_name, value)):
        raise ValueError(f"a list of tool names, at most {MOST_ENTRIES:,} of at most {_LONGEST_NAME} characters")
    return tuple(value)


def is_name(value: Any) -> bool:
    """Say whether a value can be the name of a tool, or a model's pattern."""
    return isinstance(value, str) and len(value) <= _LONGEST_NAME


def instance_of(kind: type[object]) -> Check:
    """Return the check for a value of a type."""

    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"a {kind.__name__}")
        return value

    return check


def one_of(kind: type[Word]) -> Callable[[Any], Word]:
    """Return the check for one of a few words."""

    def check(value: Any) -> Word:
        try:
            return kind(value)
        except ValueError:
            raise ValueError(" or ".join(f'"{word}"' for word in kind)) from None

    return check
