"""Lines that the agent wrote, and of those that it read: the names in them are what it goes on with."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sessioncompress.checkpoints.paths import below
from sessioncompress.checkpoints.quote import clean, one_line

_MOST_HELD = 320 * 1024
"""Characters of what was written, and of what was read, that are held: the newest."""
_MOST_OF_ONE = 24 * 1024
_SHORTEST, _LONGEST = 12, 160
"""Characters of a line."""
_DEFINITION = 1.5
_OLDEST = 0.4
"""The worth of a definition beside another line, and of the oldest line beside the newest."""
_OFTEN = 6
_PER_LINE = 8
"""Characters that a line takes beside its own."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{3,47}(?![A-Za-z0-9_-])|[0-9]{4,}")
_NAME = re.compile(
    r"[a-z][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]|[A-Za-z][0-9]|[A-Z]{2}[a-z]|^[A-Z][A-Z0-9]{3,}$|[a-z0-9]-[a-z0-9]"
)
"""More than a plain word: those recur by chance."""
_DEFINES = re.compile(
    r"(?:export\s{1,4})?(?:default\s{1,4})?(?:pub(?:\([a-z]{1,12}\))?\s{1,4})?(?:async\s{1,4})?(?:abstract\s{1,4})?"
    r"(?:def|class|function|fn|func|interface|type|enum|struct|trait|impl|const|let|static|public|private|protected|"
    r"CREATE TABLE)\b.{4}|#{1,6} \S|@\w{1,40}\.\w"
)
_NUMBERED = re.compile(r"\s{0,8}[0-9]{1,7}(?:\t|\u2192|: ?|\| ?)")
"""What a reading tool writes before each line."""
_NOT_WRITTEN = ("-", "@@", "***")


class Line(NamedTuple):
    """A line that may be shown: where it stands, its place among all, its words, and its names."""

    worth: float
    place: int
    where: str
    words: str
    names: frozenset[str]


class Excerpts:
    """The newest texts that were written, and the newest reading of each file."""

    def __init__(self) -> None:
        self._written: deque[tuple[str, str]] = deque()
        self._read: dict[str, str] = {}
        self._held = self._held_read = 0

    def wrote(self, where: str, text: str) -> None:
        """Take a text that a call was given, and the file it is for."""
        text = _part(text)
        self._written.append((where, text))
        self._held += len(text)
        while self._held > _MOST_HELD:
            self._held -= len(self._written.popleft()[1])

    def read(self, where: str, text: str) -> None:
        """Take what was read of a file."""
        text = _part(text)
        self._held_read += len(text) - len(self._read.pop(where, ""))
        self._read[where] = text
        while self._held_read > _MOST_HELD:
            self._held_read -= len(self._read.pop(next(iter(self._read))))

    def written(self) -> Iterable[tuple[str, str]]:
        """Give what was written, the oldest first."""
        return self._written

    def readings(self) -> Iterable[tuple[str, str]]:
        """Give what was read, the oldest first."""
        return self._read.items()


def _part(text: str) -> str:
    if len(text) <= _MOST_OF_ONE:
        return text
    return f"{text[: _MOST_OF_ONE // 3 * 2]}\n{text[-_MOST_OF_ONE // 3 :]}"


def lines(texts: Iterable[tuple[str, str]], said: str, root: str, room: int) -> list[str]:
    """Choose the lines that hold most names which nothing that was said so far holds; write them by file."""
    known = names_in(said)
    found, counts = _candidates(list(texts), known)
    ranked = sorted((_ranked(line, counts) for line in found), key=lambda line: (-line.worth, line.place))
    chosen: list[Line] = []
    opened: set[str] = set()
    for line in ranked:
        if room < _SHORTEST:
            break
        where = _where(line.where, root)
        size = len(line.words) + len("  > \n") + (0 if where in opened else len(where) + len("- :\n"))
        if size <= room and line.names - known:
            chosen.append(line)
            opened.add(where)
            known |= line.names
            room -= size
    return list(_by_file(chosen, root))


def names_in(text: str) -> set[str]:
    """Find the names in a text."""
    return {word for each in set(_WORD.findall(text)) if _NAME.search(word := each.rstrip("-"))}


def _candidates(texts: list[tuple[str, str]], known: set[str]) -> tuple[list[Line], Counter[str]]:
    counts: Counter[str] = Counter()
    held: dict[tuple[str, str], Line] = {}
    place = 0
    for at, (where, text) in enumerate(texts):
        recent = _OLDEST + (at + 1) / len(texts)
        for raw in text.split("\n"):
            if raw.startswith(_NOT_WRITTEN):
                continue
            number = _NUMBERED.match(raw)
            words = clean(raw[number.end() :] if number else raw.removeprefix("+")).replace("\n", " ").strip()
            if not _SHORTEST <= len(words) <= _LONGEST:
                continue
            names = frozenset(names_in(words))
            if not names:
                continue
            counts.update(names)
            if names - known:
                place += 1
                worth = recent * (_DEFINITION if _DEFINES.match(words) else 1)
                held[where, words] = Line(worth, place, where, words, names - known)
    return list(held.values()), counts


def _ranked(line: Line, counts: Counter[str]) -> Line:
    worth = sum(min(counts[name], _OFTEN) ** 0.5 for name in sorted(line.names))
    return line._replace(worth=worth * line.worth / (len(line.words) + _PER_LINE))


def _where(path: str, root: str) -> str:
    return one_line(below(path, root), 100) if path else "in commands"


def _by_file(chosen: Iterable[Line], root: str) -> Iterator[str]:
    files: dict[str, list[str]] = {}
    for line in sorted(chosen, key=lambda line: line.place):
        files.setdefault(_where(line.where, root), []).append(line.words)
    for where, words in files.items():
        yield f"- {where}:\n" + "\n".join(f"  > {each}" for each in words)


def carry(rows: Sequence[str], room: int) -> list[str]:
    """Take of an earlier summary's rows the lines that fit, of the newest row first."""
    taken: list[str] = []
    for row in reversed(rows):
        where, *words = row.split("\n")
        room -= len(where) + 1
        kept: list[str] = []
        for line in words:
            room -= len(line) + 1
            if room < 0:
                break
            kept.append(line)
        if kept:
            taken.append("\n".join([where, *kept]))
        if room < 0:
            break
    taken.reverse()
    return taken


def together(rows: Iterable[str]) -> list[str]:
    """Write the lines of each file in one row."""
    files: dict[str, str] = {}
    for row in rows:
        where, _, words = row.partition("\n")
        files[where] = f"{files[where]}\n{words}" if where in files else row
    return list(files.values())
