"""A text shortened to whole lines of its head and its tail, with the marker where text is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sessioncompress import marker
from sessioncompress.model import Origin

_HEAD_SHARE = 0.6
_FAILURE = re.compile(
    r"\b(error|errors|fail|failed|failure|fatal|panic|exception|traceback|denied|not found|no such)\b|Error\b|[✗✘]",
    re.IGNORECASE,
)
_FAILURE_BYTES = 320


@dataclass(frozen=True, slots=True)
class Wording:
    """How the marker of one text is written: its reference (None: no original is kept), and where it stands."""

    ref: str | None
    in_arguments: bool = False

    def marker(self, what: str) -> str:
        """Return the marker for what is left out."""
        return marker.marker(what, self.ref, in_arguments=self.in_arguments)


def reference(text: str, wording: Wording, note: str = "") -> str:
    """Return the marker alone, for a text that is left out whole."""
    return wording.marker(whole(_lines(text), _size(text), note))


def shrunk(origin: Origin, note: str) -> str:
    """Return the bare marker for a text that holds a preview of ours."""
    return Wording(origin.ref).marker(whole(origin.lines, origin.bytes, note))


def whole(lines: int, size: int, note: str = "") -> str:
    """Say that all of a text is left out, and what it repeats."""
    amount = marker.left_out(lines, lines, size)
    return f"{amount}, {note}" if note else amount


def preview(text: str, budget: int, wording: Wording, *, failures: bool = False) -> str:
    """Return the head and the tail of a text in about `budget` bytes, in their order, around the marker.

    With `failures`, the lines that report a failure stay too, in their place.
    """
    head_budget = int(budget * _HEAD_SHARE)
    head = _head(text, head_budget)
    tail = _tail(text, len(head), budget - _size(head))
    middle = text[len(head) : len(text) - len(tail)]
    if not middle or middle.isspace():
        return text
    kept = _failures(middle) if failures else []
    of_lines = _lines(text)
    return head + _gaps(middle, kept, of_lines, wording) + tail


def _lines(text: str) -> int:
    """Return how many lines a text has; the last one counts whether LF ends it or not."""
    return text.count("\n") + (not text.endswith("\n"))


def _size(text: str) -> int:
    """Return the text's bytes in UTF-8; Python knows at once of most texts that each character is one."""
    return len(text) if text.isascii() else len(text.encode())


def _head(text: str, budget: int) -> str:
    """Whole lines while they fit; of a first line that does not fit, as much as does."""
    end = text.rfind("\n", 0, budget) + 1
    while end and _size(text[:end]) > budget:
        end = text.rfind("\n", 0, end - 1) + 1
    return text[:end] if end else _fitting(text[: budget + 1], budget)


def _tail(text: str, head: int, budget: int) -> str:
    """Whole lines from the end while they fit; of a last line that does not fit, its end."""
    start = text.find("\n", max(head, len(text) - budget - 1), len(text) - 1) + 1
    while start and _size(text[start:]) > budget:
        start = text.find("\n", start, len(text) - 1) + 1
    return text[start:] if start else _fitting(text[max(head, len(text) - budget) :], budget, from_end=True)


def _fitting(text: str, budget: int, *, from_end: bool = False) -> str:
    """Return as many whole characters as fit into so many bytes."""
    data = text.encode()
    if len(data) <= budget:
        return text
    return (data[-budget:] if from_end else data[:budget]).decode(errors="ignore") if budget > 0 else ""


def _failures(middle: str) -> list[tuple[int, int]]:
    """Return where lines that report a failure stand, as many as the budget holds."""
    found: list[tuple[int, int]] = []
    left = _FAILURE_BYTES
    position = 0
    while match := _FAILURE.search(middle, position):
        start = middle.rfind("\n", 0, match.start()) + 1
        end = middle.find("\n", match.end()) + 1 or len(middle)
        size = _size(middle[start:end])
        if size <= left:
            found.append((start, end))
            left -= size
        position = end
    return found


def _gaps(middle: str, kept: list[tuple[int, int]], of_lines: int, wording: Wording) -> str:
    """Put markers where text is left out around the kept lines; the first names the way back."""
    parts: list[str] = []
    position = 0
    speaks = wording
    for start, end in [*kept, (len(middle), len(middle))]:
        if position < start and not middle[position:start].isspace():
            parts.append(_gap(middle[position:start], of_lines, speaks, ends=start == len(middle)))
            speaks = Wording(None)
        parts.append(middle[start:end])
        position = end
    return "".join(parts)


def _gap(left: str, of_lines: int, wording: Wording, *, ends: bool) -> str:
    note = wording.marker(marker.left_out(_lines(left), of_lines, _size(left)))
    return note if ends and not left.endswith("\n") else note + "\n"
