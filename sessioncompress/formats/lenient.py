"""Lines that an agent's JavaScript reads and our parser does not: enough of them to know where they stand.

Lone surrogates, bytes that are no UTF-8, numbers beyond floats, nesting beyond a thousand and lines of any length do
not end a session for its agent. Such a line is never changed, but the path through the session does not end there.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from sessioncompress.core.jsonl import is_readable, shallow

_STRINGS = {
    key: re.compile(rf'"{key}"\s*:\s*"([^"\\]*)"'.encode())
    for key in (
        *("type", "id", "parentId", "firstKeptEntryId", "role", "toolCallId"),
        *("subtype", "uuid", "parentUuid", "logicalParentUuid", "timestamp"),
    )
}
_LONGEST_NUMBER = 15


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?)', re.DOTALL)
_LONGEST_STRING = 4096
"""Bytes. No id is as long."""

_LONGEST_SKELETON = 16 * 1024 * 1024
_CHUNK = 1024 * 1024


class Skeleton:
    """What is left of a line that is too long to be parsed when its long strings are emptied: nearly always little.

    A look at its first bytes would not do: an entry's id may stand behind its content, the ids of calls inside it.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self._open = b""
        self._long = False

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the line."""
        for start in range(0, len(piece), _CHUNK):
            if len(self._kept) <= _LONGEST_SKELETON:
                chunk, self._open = self._open + piece[start : start + _CHUNK], b""
                self._kept += _STRING.sub(self._shortened, chunk)

    def left(self) -> bytes | None:
        """Return the skeleton of what was read so far; None where even that is too long."""
        return None if len(self._kept) > _LONGEST_SKELETON else bytes(self._kept + self._open)

    def _shortened(self, string: re.Match[bytes]) -> bytes:
        """Return what stays of a string. One that goes on in the next bytes waits for them."""
        long = self._long or len(string.group()) > _LONGEST_STRING
        ends = string.group(1) == b'"'
        self._long = long and not ends
        if not ends:
            self._open = b'"' + string.group(1) if long else string.group()
            return b""
        return b'""' if long else string.group()


def entry_of(raw: bytes) -> dict[str, Any] | None:
    """Return the object that an agent reads, without what is too large or nested too deep; None where it is none."""
    if not is_readable(raw):
        return _outline(raw) if raw.lstrip().startswith(b"{") else None
    try:
        value = json.loads(
            shallow(raw).decode(errors="replace"), parse_int=_number, parse_float=_no_number, parse_constant=_refuse
        )
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _outline(raw: bytes) -> dict[str, Any]:
    """Pick the few strings that hang lines together out of one that is too large to be parsed."""
    found = {
        key: match.group(1).decode(errors="replace")
        for key, pattern in _STRINGS.items()
        if (match := pattern.search(raw))
    }
    message = {key: found.pop(key) for key in ("role", "toolCallId") if key in found}
    return {**found, "message": message}


def _number(written: str) -> int:
    return int(written) if len(written) <= _LONGEST_NUMBER else 0


def _no_number(written: str) -> int:
    del written
    return 0


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
