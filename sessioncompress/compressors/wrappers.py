"""The tags that an agent itself writes around a result or beside it: a preview shows both of a pair, or neither."""

from __future__ import annotations

from collections.abc import Sequence

from sessioncompress.compressors.preview import Part, Span

_NOTE, _NOTE_ENDS = "<system-reminder>", "</system-reminder>"
"""Claude Code's words to the model, in lines of their own above or below a result."""

_AROUND = (
    ("<persisted-output>", "<persisted-output>", "</persisted-output>"),
    ("<tool_use_error>", "<tool_use_error>", "</tool_use_error>"),
    ("<retrieval_status>", "<output>", "</output>"),
    (_NOTE, _NOTE, _NOTE_ENDS),
)
"""What Claude Code puts around a whole result: how it begins, the tag that opens it, the tag that ends it."""

_OPENS_WITHIN = 300
"""Characters from the beginning within which that tag stands."""


def own_part(text: str) -> Part:
    """Find the result itself in a text: without the agent's notes at its ends, and inside the tags around it."""
    notes = _notes(text)
    first, last = 0, len(text)
    while notes and not text[first : notes[0][0]].strip():
        first = notes.pop(0)[1]
    while notes and not text[notes[-1][1] : last].strip():
        last = notes.pop()[0]
    if first >= last or not text[first:last].strip():
        return _inside(text, 0, len(text), ())
    if first:
        first = last - len(text[first:last].lstrip("\n"))
    if last < len(text):
        last = first + len(text[first:last].rstrip("\n")) + 1
    return _inside(text, first, last, notes)


def _notes(text: str) -> list[Span]:
    """Return where notes stand, each from the beginning of a line on; one tag without the other is content."""
    found: list[Span] = []
    end = 0
    while (start := _opening(text, end)) >= 0 and (close := text.find(_NOTE_ENDS, start)) >= 0:
        end = close + len(_NOTE_ENDS)
        # Of several tags that open, the last one is the note's.
        found.append((max(start, text.rfind("\n" + _NOTE, start, close) + 1), end))
    return found


def _opening(text: str, start: int) -> int:
    """Return where from there on a line begins with a note, or -1."""
    if not start and text.startswith(_NOTE):
        return 0
    found = text.find("\n" + _NOTE, start)
    return found + 1 if found >= 0 else -1


def _inside(text: str, first: int, last: int, notes: Sequence[Span]) -> Part:
    """Return the part within the tags around it, where there are such; they stay."""
    end = first + len(text[first:last].rstrip())
    for begins, opens, closes in _AROUND:
        if text.startswith(begins, first) and text.endswith(closes, first, end):
            start = text.find(opens, first, first + _OPENS_WITHIN) + len(opens)
            start += text.startswith("\n", start)
            stop = end - len(closes)
            if len(opens) <= start - first and start < stop:
                return Part((start, stop), ((first, start), (stop, last)), tuple(notes))
    return Part((first, last), (), tuple(notes))
