"""Decide whether a rewritten line can be the result of a run over an original."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sessioncompress import errors
from sessioncompress.compressors.preview import said
from sessioncompress.core import marker
from sessioncompress.core.jsonl import parse_any
from sessioncompress.core.marker import INDEX, PREFIX, references
from sessioncompress.core.splice import within
from sessioncompress.formats import values
from sessioncompress.pipeline.reading import as_written
from sessioncompress.pipeline.rewrite import is_of_one, recorded
from sessioncompress.store.journal import Journal
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord

_CUT = re.compile(r"\A(?:[^|\s]+(?=\|)|data:[^,\s]*,)")
"""The part that may remain of an id or a data URL."""
_IN_INDEX = frozenset(f"{INDEX}| ... and more deleted moved here".split())
_SEARCHED = 1 << 34
"""Maximum characters to search when checking a line against its original; an untrusted line may show anything."""


def original_of(raw: bytes, record: LineRecord, originals: OriginalsReader, journal: Journal, where: Path) -> bytes:
    """Read the original of a rewritten line, see as_written(). Raises Damaged on a mix-up."""
    original = as_written(raw, record, originals)
    if not is_of_one(raw, original):
        raise of_another(where)
    if not journal.is_ours:
        _refuse_others(raw, record, original, originals, journal, where)
    return original


def _refuse_others(
    raw: bytes, record: LineRecord, original: bytes, originals: OriginalsReader, journal: Journal, where: Path
) -> None:
    """Raise Damaged if a rewritten line, or a marker in it, has content that its original lacks."""
    if lacks(original, raw):
        raise of_another(where)
    refs = [ref for ref in references(raw.decode(errors="replace")) if ref.encode() not in original]
    row = journal.rewriting(bytes.fromhex(record.rewritten)) if refs else None
    if row is None:
        return
    first = journal.placed(row)
    if first.sha256 != record.sha256 and first.place is not None:
        # The block is in what an earlier run left of it.
        original = originals.line(first.place, first.sha256)
    entry = parse_any(original)
    for ref in refs:
        block = journal.named(ref, bytes.fromhex(first.sha256))
        if block is None:
            raise of_another(where)
        recorded(entry, block, where)


def lacks(original: bytes, raw: bytes, *, but: str = "") -> bool:
    """True if a line has content that its original lacks, so no run produced it from that. Ignores the key `but`.

    A run removes values, or replaces one with nothing, with the first part of an id, or with a marker and a preview
    made of the value's lines. Its additions carry no content. Everything else is in the original, under the same keys.
    """
    content, entry = _Content(original), parse_any(raw)
    rest = iter(content.values)
    for path, key, value in _values(entry):
        if key == but:
            continue
        is_known = content.holds(path, value)
        if not is_known and not content.may_become(path, key, value):
            return True
        # Texts must be in the original's order.
        is_text = isinstance(value, str) and value not in ("", *values.ADDED.get(key, ()))
        if is_text and is_known and not _comes(rest, path, value):
            return True
    return entry is None


class _Content:
    """The content of an original: its values with their paths, and the lines of its texts, as previews show them."""

    def __init__(self, original: bytes) -> None:
        self.values = list(_values(parse_any(original)))
        self._paths = {path for path, _, _ in self.values}
        self._known, self._texts = set[tuple[int, type, Any]](), list[str]()
        for path, _, value in self.values:
            self._known.add((path, type(value), value))
            if isinstance(value, str):
                self._texts.append(value)
                self._known |= {(path, str, each) for each in _CUT.findall(value)}
        # A preview shows text without colors and, for JSON, without escapes, also after other lines.
        both = (each for value in self._texts for each in (value, said(f'"{value}')))
        self._text = "\n".join(both).replace("\\", "")
        self._lines = set(map(str.strip, self._text.split("\n")))
        self._left = iter(range(_SEARCHED // (len(self._text) + 1)))

    def holds(self, path: int, value: Any) -> bool:
        """True if this value, or for a text one that it starts, is at a path."""
        return (path, type(value), value) in self._known

    def may_become(self, path: int, key: Any, value: Any) -> bool:
        """True if a run may have put this value at a path: nothing, or a preview of what is held."""
        is_new = path not in self._paths
        if is_new and key not in values.ADDED:
            return False
        if value in (None, "", *values.ADDED.get(key, ())) or (is_new and key in values.ADDED_TIMES):
            return True
        if not isinstance(value, str):
            return False
        if values.CLEARED.fullmatch(value) or within(value) is not None:
            # The values of a JSON text are checked one by one.
            return True
        parts = marker.around(value.replace("\\", ""))
        return PREFIX in value and all(self._shows(line.strip()) for part in parts for line in part.split("\n"))

    def _shows(self, line: str) -> bool:
        """True if a preview may show this line."""
        if line in self._lines or self._says(line):
            return True
        if line.startswith(INDEX):
            return all(word in _IN_INDEX or word.isdigit() or self._says(word) for word in line.split())
        # A preview's heading tells how commands ended, or a document's title.
        return all(map(self._says, line.split(", "))) or line in map(marker.name, self._texts)

    def _says(self, part: str) -> bool:
        return next(self._left, None) is not None and part in self._text


def _comes(rest: Iterator[tuple[int, Any, Any]], path: int, text: str) -> bool:
    """True if a text, or one that it starts, is among the remaining values; consumes the values up to it."""
    those = (value for at, _, value in rest if at == path and isinstance(value, str))
    return any(text == value or text in _CUT.findall(value) for value in those)


def has_words(raw: bytes, *, but: str) -> bool:
    """True if a line has a text of several words other than `but`, or one that may be several words without spaces."""
    texts = (value for _, _, value in _values(parse_any(raw)) if isinstance(value, str) and value != but)
    return any(len(each) >= 64 or not each.isascii() or len(each.split(maxsplit=1)) > 1 for each in texts)  # noqa: PLR2004


def _values(entry: Any) -> Iterator[tuple[int, Any, Any]]:
    """Yield a line's values, each with a hash of its path and its last key. A container's value is None."""
    waiting = [(0, "", entry)]
    while waiting:
        path, key, value = waiting.pop()
        inner = within(value) if isinstance(value, str) else value
        if isinstance(inner, dict):
            waiting += ((hash((path, step)), step, each) for step, each in inner.items())
        elif isinstance(inner, list):
            waiting += ((hash((path, None)), key, each) for each in inner)
        yield path, key, None if isinstance(value, (dict, list)) else value


def of_another(journal: Path) -> errors.Damaged:
    """Build the error for a journal that mixes up two lines."""
    return errors.Damaged(
        "it names the original of another entry for a line of the session",
        where=journal,
        remedy="Put the journal back from a backup. If others made this store, move its two files away.",
    )
