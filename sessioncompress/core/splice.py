"""Put new values into a line's bytes: everything outside a replaced value stays byte for byte.

An old value that occurs in the line exactly once is found by its bytes. Any other is found by its position: the line is
walked along with its parsed document, in document order. Either way the result is parsed and compared with the intended
document. If anything differs (duplicate keys, a number that does not survive parsing), the line is left alone.

A path may continue into JSON inside a string. That text is spliced in the same way, and stays a string.

An Added member is written after the last one of its object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from sessioncompress.core.model import JsonPath


class _Removed:
    def __repr__(self) -> str:
        return "REMOVED"


REMOVED: Final = _Removed()
"""The value that means: remove this member or element."""

literal: Callable[[Any], bytes] = orjson.dumps
"""Writes a value as JSON.stringify would, except where orjson differs."""


class Added(NamedTuple):
    """A value under a key that its object does not have yet."""

    value: Any


_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]}\s]+")
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
"""Up to the next bracket outside a string."""
_OPEN = (b"[", b"{")
_CLOSE = b"]}"
_COMMA = ord(",")
_LAST_SPACE = 0x20

_FEW = 16
"""Up to this many values are searched for one by one, each at up to this many places; more are found in one walk."""

_NONE_WRITTEN: Mapping[JsonPath, bytes] = {}

Edit = tuple[int, int, bytes]
"""Start and end of the bytes to remove, and the bytes to put there."""


class CannotSplice(ValueError):
    """The line cannot be changed with every other byte kept."""


def within(text: str) -> Any:
    """Parse a text that is the JSON of an object or a list; return None if it isn't."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def splice(
    raw: bytes, document: Any, values: Mapping[JsonPath, Any], written: Mapping[JsonPath, bytes] = _NONE_WRITTEN
) -> tuple[bytes, Any]:
    """Replace (or remove, if REMOVED) the values at these paths of a line; return the new line and its parsed document.

    `document` is the parsed line; it is changed in place to the intended document. `written` holds the JSON text of new
    values, if known. Raises CannotSplice.
    """
    try:
        values = _folded(document, values)
        cuts = _unique(raw, document, values, written) if len(values) <= _FEW else None
        new, parsed = _cut(raw, _walked(raw, document, values) if cuts is None else cuts)
        _intend(document, values)
        if parsed != document and cuts is not None:
            new, parsed = _cut(raw, _walked(raw, orjson.loads(raw), values))
    except (ValueError, TypeError, RecursionError, KeyError, IndexError) as error:
        raise CannotSplice(str(error)) from error
    if parsed != document:
        raise CannotSplice("the spliced line does not parse to what was intended")
    return new, parsed


def cuts_of(raw: bytes, document: Any, values: Mapping[JsonPath, Any]) -> list[Edit]:
    """Return the edits that replace the values at these paths, without making them. Raises CannotSplice.

    At other paths `document` may hold less than the bytes do.
    """
    try:
        return sorted(_walked(raw, document, values)) if values else []
    except (ValueError, TypeError, RecursionError, KeyError, IndexError) as error:
        raise CannotSplice(str(error)) from error


def _folded(document: Any, values: Mapping[JsonPath, Any]) -> Mapping[JsonPath, Any]:
    """Fold values inside a string's JSON into that string, which then is the value to replace."""
    inside: dict[JsonPath, dict[JsonPath, Any]] = {}
    outside: dict[JsonPath, Any] = {}
    for path, value in values.items():
        holder = document
        for position, step in enumerate(path[:-1], 1):
            holder = holder[step]
            if isinstance(holder, str):
                inside.setdefault(path[:position], {})[path[position:]] = value
                break
        else:
            outside[path] = value
    if not inside:
        return values
    for path, inner in inside.items():
        text = _parent(document, path)[path[-1]]
        outside[path] = splice(text.encode(), within(text), inner)[0].decode()
    return outside


def edited(raw: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply edits, which are in byte order."""
    parts: list[bytes] = []
    position = 0
    for start, end, new in edits:
        parts += (raw[position:start], new)
        position = end
    parts.append(raw[position:])
    return b"".join(parts)


def _cut(raw: bytes, cuts: list[Edit]) -> tuple[bytes, Any]:
    """Apply the cuts and parse the result; the parsed value is None if it is not JSON."""
    line = edited(raw, sorted(cuts))
    try:
        return line, orjson.loads(line)
    except orjson.JSONDecodeError:
        return line, None


def _walked(raw: bytes, document: Any, values: Mapping[JsonPath, Any]) -> list[Edit]:
    wanted: dict[str | int, Any] = {}
    for path, value in values.items():
        node = wanted
        for step in path[:-1]:
            node = node.setdefault(step, {})
        node[path[-1]] = _New(value)
    cuts: list[Edit] = []
    _walk(raw, after_space(raw, 0), document, wanted, cuts, to_end=False)
    return cuts


def _unique(
    raw: bytes, document: Any, values: Mapping[JsonPath, Any], written: Mapping[JsonPath, bytes]
) -> list[Edit] | None:
    """Return the cuts if each old value, as orjson writes it, occurs in the line exactly once; else None.

    This saves the walk for nearly every line. The comparison of the whole line shows whether the place is right.
    """
    cuts: list[Edit] = []
    for path, value in values.items():
        if isinstance(value, Added):
            return None
        step = path[-1]
        key = _written_key(step) if isinstance(step, str) else b""
        old = key + orjson.dumps(_parent(document, path)[step])
        found = _only(raw, old)
        if found < 0:
            return None
        end = found + len(old)
        if value is not REMOVED:
            cuts.append((found, end, key + (written.get(path) or literal(value))))
        elif raw[end] == _COMMA:
            cuts.append((found, end + 1, b""))
        elif raw[found - 1] == _COMMA:
            cuts.append((found - 1, end, b""))
        else:
            return None
    return cuts


def _only(raw: bytes, old: bytes) -> int:
    """Return where the bytes occur, or -1 unless they occur exactly once.

    Searching for long needles is slow, so only their beginning is searched for. The result is also -1 if that occurs in
    too many places to compare.
    """
    start = old[:48]
    only = -1
    found = raw.find(start)
    for _ in range(_FEW):
        if found < 0:
            return only
        if raw.startswith(old, found):
            if only >= 0:
                return -1
            only = found
        found = raw.find(start, found + 1)
    return -1


class _New(NamedTuple):
    """A leaf in the tree of wanted paths: the value to put there."""

    value: Any


def _walk(
    raw: bytes, position: int, container: Any, wanted: dict[str | int, Any], cuts: list[Edit], to_end: bool
) -> int:
    """Collect the cuts in this container; return its end if the caller needs it (`to_end`), else -1.

    A removed member takes the comma before it with it, or the comma after it if nothing before it stays. Added members
    go last.
    """
    keyed = isinstance(container, dict)
    left = len(wanted)
    begin = after_space(raw, position + 1)
    previous_end = -1
    kept_before = False
    children: Iterable[tuple[Any, Any]] = container.items() if keyed else enumerate(container)
    for step, child in children:
        start = _after_key(raw, begin, step) if keyed else begin
        node = wanted.get(step)
        left -= node is not None
        if isinstance(node, dict):
            end = _walk(raw, start, child, node, cuts, to_end or left > 0)
            if end < 0:
                return -1
        else:
            end = _skip(raw, start, child)
        comma = after_space(raw, end)
        following = after_space(raw, comma + 1) if raw[comma] == _COMMA else end
        if not isinstance(node, _New):
            kept_before = True
        elif node.value is not REMOVED:
            kept_before = True
            if isinstance(node.value, Added):
                raise CannotSplice("a member to add is there already")
            cuts.append((start, end, literal(node.value)))
        else:
            cuts.append((previous_end, end, b"") if kept_before else (begin, following, b""))
        if left == 0 and not to_end:
            return -1
        previous_end = end
        begin = following
    if left:
        # The rest must be members to add, which the object doesn't have.
        new = {
            step: node.value.value
            for step, node in wanted.items()
            if isinstance(node, _New) and isinstance(node.value, Added) and isinstance(step, str)
        }
        if len(new) != left:
            raise CannotSplice("a value to replace is not there")
        added = b",".join(_written_key(step) + literal(value) for step, value in new.items())
        place = previous_end if previous_end >= 0 else position + 1
        cuts.append((place, place, (b"," if kept_before else b"") + added))
    end = after_space(raw, begin)
    if raw[end] not in _CLOSE:
        raise CannotSplice("the line's bytes and its document disagree")
    return end + 1


def _intend(document: Any, values: Mapping[JsonPath, Any]) -> None:
    """Change the document the way the splice changes the bytes."""
    gone: dict[JsonPath, set[str | int]] = {}
    for path, value in values.items():
        if value is REMOVED:
            gone.setdefault(path[:-1], set()).add(path[-1])
        else:
            _parent(document, path)[path[-1]] = value.value if isinstance(value, Added) else value
    # Deeper paths go first, so that indexes stay valid.
    for parent, steps in sorted(gone.items(), key=lambda each: len(each[0]), reverse=True):
        holder = _parent(document, (*parent, ""))
        if isinstance(holder, list):
            holder[:] = [value for index, value in enumerate(holder) if index not in steps]
        else:
            for step in steps:
                del holder[step]


def _parent(document: Any, path: JsonPath) -> Any:
    for step in path[:-1]:
        document = document[step]
    return document


def after_space(raw: bytes, position: int) -> int:
    """Return the position of the next byte that is not white space."""
    if position < len(raw) and raw[position] > _LAST_SPACE:
        return position
    match = _SPACE.match(raw, position)
    return match.end() if match else position


@lru_cache(maxsize=1024)
def _written_key(key: str) -> bytes:
    return orjson.dumps(key) + b":"


def _after_key(raw: bytes, position: int, key: str) -> int:
    """Return where the member's value starts; its key may be written with spaces and escapes of any kind."""
    written = _written_key(key)
    if raw.startswith(written, position):
        return after_space(raw, position + len(written))
    match = _STRING.match(raw, position)
    if match is None or orjson.loads(match.group()) != key:
        raise CannotSplice("the line's bytes and its document disagree (a key twice?)")
    return after_space(raw, after_space(raw, match.end()) + 1)


def _skip(raw: bytes, position: int, value: Any) -> int:
    """Return the end of the value that starts here: by comparison if orjson writes it the same, else by scanning."""
    try:
        written = orjson.dumps(value)
    except orjson.JSONEncodeError:
        return end_of_value(raw, position)
    if raw.startswith(written, position) and not isinstance(value, (int, float)):
        return position + len(written)
    return end_of_value(raw, position)


def end_of_value(raw: bytes, position: int) -> int:
    """Return the end of the JSON value that starts here. Raises CannotSplice if there is none."""
    first = raw[position : position + 1]
    if first not in _OPEN:
        match = (_STRING if first == b'"' else _SCALAR).match(raw, position)
        if match is None:
            raise CannotSplice("the line's bytes and its document disagree")
        return match.end()
    depth = 0
    while (match := _TO_BRACKET.match(raw, position)) is not None:
        position = match.end()
        depth += -1 if raw[position - 1] in _CLOSE else 1
        if depth == 0:
            return position
    raise CannotSplice("the line's bytes and its document disagree")
