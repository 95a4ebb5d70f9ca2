"""One reading of a session: every line to what the plan must know of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import orjson
from xxhash import xxh3_64, xxh3_64_intdigest

from sessioncompress.core.jsonl import GAP, Piece, is_readable, loads
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.model import PLAIN, Facts, Line, Role
from sessioncompress.formats.base import Entry, Format, Reader

_NONE: Mapping[bytes, Entry] = {}
CONFLICT = re.compile(rb"<{7} ")
"""The line that git puts first around what it could not merge; those that follow it tell nothing alone."""


def survey(pieces: Iterable[Piece], form: Format, parsed: Mapping[bytes, Entry] = _NONE) -> Survey:
    """Read a session's pieces once; a line that is not understood is opaque: copied, counted, never changed.

    `parsed` are entries of its first lines, by their bytes.
    """
    reader = form.reader()
    waiting = dict(parsed)
    lines: list[Line] = []
    size = 0
    ended = True
    first = False
    for number, raw, whole in pieces:
        size += len(raw)
        if number == GAP:
            first = raw.rstrip().endswith(b"[")
            # Behind a line that sets messages, lines go on that end with LF.
            ended = raw.lstrip().startswith(b"]")
            continue
        if whole:
            entry = waiting.pop(raw, None) if waiting else None
            line = read_line(raw, reader, ended=ended, entry=entry)
            lines.append(line._replace(facts=line.facts._replace(first=True)) if first else line)
            first = False
            continue
        if number == len(lines):
            long_line = _LongLine(reader)
            lines.append(long_line.add(raw))
        else:
            lines[number] = long_line.add(raw)
    found = Lines(lines)
    return Survey(found, form.shape(found), size)


class _LongLine:
    """A line over the cap: it is never changed, but it may be a part of the path, and one side of a pair."""

    def __init__(self, reader: Reader) -> None:
        # Imported here, as below, because few sessions hold such a line.
        from sessioncompress.formats.values import Skeleton

        self._reader = reader
        self._skeleton = Skeleton()
        self._digest = xxh3_64()
        self._size = 0

    def add(self, piece: bytes) -> Line:
        """Take the line's next piece; return what is known of the line with it."""
        self._skeleton.add(piece)
        self._digest.update(piece)
        self._size += len(piece)
        left = self._skeleton.left()
        line = Line(Role.OPAQUE, 0, 0, facts=Facts(sealed=True)) if left is None else _opaque(left, self._reader)
        return line._replace(size=self._size, digest=self._digest.intdigest())


def read_line(raw: bytes, reader: Reader, *, ended: bool = True, entry: Entry | None = None) -> Line:
    """Read one whole line. A line without its LF may still be being written: it is known, but never changed.

    Messages of a document are not `ended` by one. `entry` is the parsed line, where it was parsed before.
    """
    entry = entry or parse(raw)
    if entry is None:
        return _opaque(raw, reader)
    line = reader.line(raw, entry)
    return line if not ended or raw.endswith(b"\n") else unchangeable(line)


def _opaque(raw: bytes, reader: Reader) -> Line:
    """Read a line that our parser does not: its agent may, and then the path through the session goes on there."""
    from sessioncompress.formats.values import entry_of

    entry = entry_of(raw) if raw.strip() else None
    if entry is None:
        facts = Facts(conflict=True) if CONFLICT.match(raw) else PLAIN
        return Line(Role.OPAQUE if raw.strip() else Role.BLANK, len(raw), xxh3_64_intdigest(raw), facts=facts)
    line = unchangeable(reader.line(raw, entry))
    return line._replace(facts=line.facts._replace(foreign=True))


def unchangeable(line: Line) -> Line:
    """Return the line with nothing in it that could be replaced."""
    return line._replace(blocks=(), facts=line.facts._replace(ties=(), sealed=True))


def parse(raw: bytes) -> Entry | None:
    """Return a line's JSON object; None where it holds none that this parser reads, is too large or nested too deep."""
    try:
        value = loads(raw) if is_readable(raw) else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_any(raw: bytes) -> Entry | None:
    """Return the same however large or deep it is: of a line that parse() took, or that is only followed along paths.

    An earlier version rewrote lines that are too large or deep for this one, and their originals must come back.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
