"""Lines that the agent wrote or read; it needs the names in them to continue."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sessioncompress.checkpoints.quote import below, clean, code, one_line

_MOST_HELD = 320 * 1024
"""Characters of written text, and of read text, that are kept: the newest."""
_MOST_OF_ONE = 24 * 1024
_SHORTEST, _LONGEST = 12, 160
"""Characters of a line."""
_OFTEN = 6
_SEARCHED = 1_000
"""Largest number of lines of one file that are searched for a replaced part."""
_ASKED = 2.0
"""The weight of a word that the user used three times; a name weighs 1 or more."""
_THRICE = 3
_STEM, _SHORTEST_WORD = 5, 4
"""Letters by which other forms of a word are recognized, and its least length."""
_COMMON = 8
"""A word that tells lines apart is in at most one of this many lines."""
_PER_LINE = 8
"""Characters that a row adds to its line."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{3,47}(?![A-Za-z0-9_-])|[0-9]{4,}")
_NAME = re.compile(
    r"[a-z][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]|[A-Za-z][0-9]|[A-Z]{2}[a-z]|^[A-Z][A-Z0-9]{3,}$|[a-z0-9]-[a-z0-9]"
)
"""Matches names; plain words recur by chance."""
_PATH = re.compile(r"/|\w\.\w")
_PLAIN = re.compile(r"[A-Z]?[a-z]{3,40}|[A-Z]{4,40}")
_NUMBERED = re.compile(r"\s{0,8}[0-9]{1,7}(?:\t|\u2192|: ?|\| ?)")
"""The line number that a reading tool writes before each line."""
_NOT_WRITTEN = ("-", "@@", "***")


class Candidate(NamedTuple):
    """A candidate line: its file, its words, how often it was written."""

    where: str
    words: str
    times: int = 1


class RankedLine(NamedTuple):
    """A candidate line with its place among all, its new names, and its stems that were asked for."""

    place: int
    where: str
    words: str
    names: frozenset[str]
    stems: frozenset[str] = frozenset()


class Excerpts:
    """The newest lines that were written and, judging by the calls, still exist; and the newest read of each file."""

    def __init__(self) -> None:
        # In a plain dict, finding the first key takes longer the more keys were deleted before it.
        self._written: OrderedDict[tuple[str, str], int] = OrderedDict()
        """The number of times each line of a file was written, oldest first."""
        self._of: dict[str, dict[str, None]] = {}
        self._read: dict[str, str] = {}
        self._held = self._held_read = 0

    def wrote(self, where: str, text: str, *, replaced: str = "", whole: bool = False) -> None:
        """Add a text that a call wrote, and its file.

        Lines that it replaced are dropped; if it is the whole file, so are all lines that it lacks.
        """
        new = dict.fromkeys(_lines(_part(text)))
        if whole and where:
            for line in [line for line in self._of.get(where, ()) if line not in new]:
                self._drop(where, line)
        elif replaced and where:
            self._replace(where, replaced, new)
        for line in new:
            times = self._written.pop((where, line), 0)
            self._held += 0 if times else len(line)
            self._written[where, line] = times + 1
            self._of.setdefault(where, {})[line] = None
        while self._held > _MOST_HELD:
            self._drop(*next(iter(self._written)))

    def _drop(self, where: str, line: str) -> None:
        del self._written[where, line]
        of = self._of[where]
        del of[line]
        if not of:
            del self._of[where]
        self._held -= len(line)

    def _replace(self, where: str, old: str, lines: Iterable[str]) -> None:
        """Drop the lines that an edit removed or changed in part."""
        of, gone, part = self._of.get(where, {}), list(_lines(old)), old.strip()
        if "\n" not in part and len(part) >= _SHORTEST and len(of) <= _SEARCHED:
            gone += [line for line in of if part in line]
        for line in gone:
            if line in of and line not in lines:
                self._drop(where, line)

    def read(self, where: str, text: str) -> None:
        """Add the text that was read from a file."""
        text = _part(text)
        self._held_read += len(text) - len(self._read.pop(where, ""))
        self._read[where] = text
        while self._held_read > _MOST_HELD:
            self._held_read -= len(self._read.pop(next(iter(self._read))))

    def written(self) -> Iterator[Candidate]:
        """Yield the written lines that still exist, oldest first."""
        return (Candidate(where, line, times) for (where, line), times in self._written.items())

    def readings(self) -> Iterator[Candidate]:
        """Yield the lines that were read, oldest first."""
        for where, text in self._read.items():
            for raw in text.split("\n"):
                number = _NUMBERED.match(raw)
                if not raw.startswith(_NOT_WRITTEN):
                    yield Candidate(where, raw[number.end() :] if number else raw)


def _part(text: str) -> str:
    if len(text) <= _MOST_OF_ONE:
        return text
    return f"{text[: _MOST_OF_ONE // 3 * 2]}\n{text[-_MOST_OF_ONE // 3 :]}"


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text or a patch that may be shown."""
    for raw in text.split("\n"):
        if not raw.startswith(_NOT_WRITTEN):
            line = raw.removeprefix("+").strip()
            if len(line) >= _SHORTEST:
                yield line


def lines(texts: Iterable[Candidate], said: str, root: str, room: int, asked: str = "") -> list[tuple[str, str]]:
    """Choose the lines with the most names that the given text lacks; return each with its file.

    Lines that share words with `asked` are preferred.
    """
    known = names_in(said)
    wanted = stems_in(asked)
    found, counts = _candidates(texts, known, wanted)
    # A word in many lines does not tell them apart.
    wanted = Counter(
        {stem: min(n, _THRICE) for stem, n in wanted.items() if counts[f" {stem}"] * _COMMON <= len(found)}
    )

    def worth(line: RankedLine) -> float:
        names: float = sum(min(counts[name], _OFTEN) ** 0.5 for name in sorted(line.names))
        stems = _ASKED / _THRICE * sum(wanted[stem] for stem in line.stems)
        return (names + stems) / (len(line.words) + _PER_LINE)

    chosen: list[RankedLine] = []
    opened: set[str] = set()
    for line in sorted(found, key=lambda line: (-worth(line), -line.place)):
        if room < _SHORTEST:
            break
        where = _where(line.where, root)
        size = len(line.words) + len("  > \n") + (0 if where in opened else len(where) + len("- :\n"))
        if size <= room and (line.names - known or sum(wanted[stem] for stem in line.stems) >= _THRICE):
            chosen.append(line)
            opened.add(where)
            known |= line.names
            room -= size
    chosen.sort(key=lambda line: line.place)
    return [(line.where, line.words) for line in chosen]


def names_in(text: str) -> set[str]:
    """Return the names in a text."""
    return {word for each in set(_WORD.findall(text)) if _NAME.search(word := each.rstrip("-"))}


def stems_in(text: str) -> Counter[str]:
    """Count the stems of the words in a text; words in names count, words in paths do not."""
    plain = (word for part in text.split() if not _PATH.search(part) for word in _PLAIN.findall(part))
    return Counter(word[:_STEM].lower() for word in plain if len(word) >= _SHORTEST_WORD)


def _candidates(
    texts: Iterable[Candidate], known: set[str], asked: Counter[str]
) -> tuple[list[RankedLine], Counter[str]]:
    """Return the lines with new names or requested stems; count these names and stems."""
    counts: Counter[str] = Counter()
    held: dict[tuple[str, str], RankedLine] = {}
    for place, (where, raw, times) in enumerate(texts):
        words = clean(raw).replace("\n", " ").strip()
        if not _SHORTEST <= len(words) <= _LONGEST:
            continue
        names = frozenset(names_in(words))
        stems = frozenset(asked.keys() & stems_in(words).keys() if asked else ())
        if not names and not stems:
            continue
        counts.update(dict.fromkeys(names, times))
        counts.update(f" {stem}" for stem in stems)
        if stems or names - known:
            held[where, words] = RankedLine(place, where, words, names - known, stems)
    return list(held.values()), counts


IN_COMMANDS = "in commands"
"""Used instead of a file's name for lines that commands wrote."""


def _where(path: str, root: str) -> str:
    return code(one_line(below(path, root), 100)) if path else IN_COMMANDS


def by_file(found: Iterable[tuple[str, str]], root: str) -> list[str]:
    """Write one row for each file, with its lines."""
    files: dict[str, list[str]] = {}
    for where, words in found:
        files.setdefault(_where(where, root), []).append(words)
    return [f"- {where}:\n" + "\n".join(f"  > {each}" for each in words) for where, words in files.items()]
