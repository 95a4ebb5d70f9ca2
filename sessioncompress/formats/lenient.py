"""Lines that an agent's JavaScript reads and our parser does not: enough of them to know where they stand.

Lone surrogates, bytes that are no UTF-8, numbers beyond floats and nesting beyond a thousand do not end a session
for its agent. Such a line is never changed, but the path through the session does not end there either.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

_STRINGS = {
    key: re.compile(rf'"{key}"\s*:\s*"([^"\\]*)"'.encode()) for key in ("type", "id", "parentId", "role", "toolCallId")
}


def entry_of(raw: bytes) -> dict[str, Any] | None:
    """Return what an agent reads of a line, its numbers left out; None where it reads no object either."""
    try:
        value = json.loads(
            raw.decode(errors="replace"), parse_int=_no_number, parse_float=_no_number, parse_constant=_refuse
        )
    except RecursionError:
        return _outline(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _outline(raw: bytes) -> dict[str, Any]:
    """Pick the few strings that hang lines together out of one that is nested too deep to be parsed."""
    found = {
        key: match.group(1).decode(errors="replace")
        for key, pattern in _STRINGS.items()
        if (match := pattern.search(raw))
    }
    message = {key: found.pop(key) for key in ("role", "toolCallId") if key in found}
    return {**found, "message": message}


def _no_number(written: str) -> int:
    del written
    return 0


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
