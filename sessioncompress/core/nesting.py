"""How deep JSON that others wrote may be nested: the one bound for all that walks through what was parsed."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import orjson

DEEPEST: Final = 200
"""Objects and lists inside each other. No agent nests a fifth of it; Python walks through four times as many."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""Linear also where a string does not end."""
_STRINGS = re.compile(_STRING, re.DOTALL)
_TOKENS = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_OPEN, _CLOSE = frozenset({b"[", b"{"}), frozenset({b"]", b"}"})
_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
_STEPS = bytes.maketrans(_BRACKETS, array("b", (1, -1, 1, -1)).tobytes())


def loads(written: bytes | str) -> Any:
    """Parse JSON. Raises ValueError where it is none, or nested more than DEEPEST deep."""
    value = orjson.loads(written)
    if _may_be_deep(written) and _is_deep_value(value):
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    return value


def _may_be_deep(written: bytes | str) -> bool:
    if len(written) <= DEEPEST:
        return False
    if isinstance(written, str):
        return written.count("[") + written.count("{") > DEEPEST
    return written.count(b"[") + written.count(b"{") > DEEPEST


def _is_deep_value(value: Any) -> bool:
    """Say the same of what was parsed: source code in a string has many brackets, and its line few objects."""
    level = [value]
    for _ in range(DEEPEST):
        children = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for found in children for child in found if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


def is_deep(raw: bytes) -> bool:
    """Say whether bytes are nested more than DEEPEST deep, be they JSON or not."""
    if not _may_be_deep(raw):
        return False
    steps = array("b", _STRINGS.sub(b"", raw).translate(_STEPS, _OTHERS))
    return max(accumulate(steps), default=0) > DEEPEST


def shallow(raw: bytes) -> bytes:
    """Return JSON with null in the place of everything that is nested more than DEEPEST deep."""
    kept = []
    position = 0
    for start, end in deep_spans(raw):
        kept.append(raw[position:start] + b"null")
        position = end
    return b"".join([*kept, raw[position:]]) if kept else raw


def deep_spans(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yield where everything stands that is nested more than DEEPEST deep; what does not end goes to the last byte."""
    if not is_deep(raw):
        return
    depth = start = 0
    for token in _TOKENS.finditer(raw):
        mark = token.group()
        if mark in _OPEN:
            depth += 1
            if depth == DEEPEST + 1:
                start = token.start()
        elif mark in _CLOSE:
            depth -= 1
            if depth == DEEPEST:
                yield start, token.end()
    if depth > DEEPEST:
        yield start, len(raw)
