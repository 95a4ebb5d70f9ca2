"""What every section of a policy is: an object whose values are checked, and the types that they may have."""

# Without `from __future__ import annotations`: the types are read when the first value is checked.

import os
from enum import StrEnum
from reprlib import repr as shortened
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, to_builtins
from msgspec.structs import force_setattr

from sessioncompress.errors import UsageError

UNCHANGED = "No session was changed."

MOST = 1 << 53
"""Larger numbers are not exact in every JSON reader, and the journal holds these."""
MOST_ENTRIES = 200
"""Of a list, since every run's record in the journal holds it whole."""
LONGEST_NAME = 200

Flag = Annotated[bool, Meta(description="true or false")]
Count = Annotated[int, Meta(ge=0, le=MOST, description=f"a whole number from 0 to {MOST:,}")]
Positive = Annotated[int, Meta(ge=1, le=MOST, description=f"a whole number from 1 to {MOST:,}")]
SummaryTokens = Annotated[int, Meta(ge=1_000, le=100_000, description="a whole number from 1,000 to 100,000")]
Percent = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
Seconds = Annotated[
    Annotated[int, Meta(ge=0, le=MOST)] | Annotated[float, Meta(ge=0, le=MOST)],
    Meta(description=f"a number of seconds from 0 to {MOST:,}"),
]
Share = Annotated[
    Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)], Meta(description="a share from 0 to 1")
]
_Path = Annotated[str, Meta(min_length=1, pattern=r"\A[^\0]*\Z")]
Folder = Annotated[_Path | None, Meta(description="a folder's path or null")]
File = Annotated[_Path | None, Meta(description="a file's path or null")]
CommandLine = Annotated[
    Annotated[str, Meta(min_length=1, max_length=4_096, pattern=r"\A[^\0]*\Z")] | None,
    Meta(description="a command line of at most 4,096 characters or null"),
]
Multiplier = Annotated[float, Meta(ge=1.2, le=3, description="a number from 1.2 to 3")]
AskSeconds = Annotated[int, Meta(ge=10, le=300, description="a whole number of seconds from 10 to 300")]
Tools = Annotated[
    tuple[Annotated[str, Meta(max_length=LONGEST_NAME)], ...],
    Meta(
        max_length=MOST_ENTRIES,
        description=f"a list of tool names, at most {MOST_ENTRIES} of at most {LONGEST_NAME} characters",
    ),
]

Files = Annotated[
    tuple[Annotated[str, Meta(max_length=LONGEST_NAME, pattern=r"\A[^/\\*]*\Z")], ...],
    Meta(
        max_length=MOST_ENTRIES,
        description=f"a list of file names without folders or *, at most {MOST_ENTRIES} of at most {LONGEST_NAME} "
        "characters",
    ),
]


def must_be(kind: Any) -> str:
    """Describe the values of a field's type."""
    for each in getattr(kind, "__metadata__", ()):
        if isinstance(each, Meta) and each.description:
            return each.description
    kinds = getattr(kind, "__args__", (kind,))
    if len(kinds) > 1:
        return f"{must_be(kinds[0])}, or null"
    (plain,) = kinds
    if issubclass(plain, StrEnum):
        return " or ".join(f'"{word}"' for word in plain)
    return f"a {plain.__name__}"


class Section(Struct, frozen=True, gc=False, rename="camel"):
    """An object of `compression.json`. Values are converted to the type of their field, or UsageError is raised."""

    def __post_init__(self) -> None:
        """Check and convert what is not the default."""
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            value, kind = getattr(self, name), type(self).__annotations__[name]
            if value is default:
                continue
            try:
                plain = to_builtins(value, builtin_types=(bytes,), enc_hook=os.fspath)
                force_setattr(self, name, convert(plain, kind))
            except (ValidationError, TypeError):
                what = f"the policy's {name} is {shortened(value)}, but must be {must_be(kind)}"
                raise UsageError(what, state=UNCHANGED, remedy="Correct the policy.") from None
