"""What was looked for, where, and how much was found: the research of a session that wrote little."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sessioncompress.checkpoints.outcomes import says_nothing
from sessioncompress.checkpoints.paths import below, names_of
from sessioncompress.checkpoints.quote import code, newest, one_line
from sessioncompress.checkpoints.shell import Script
from sessioncompress.core.checkpoint import Said
from sessioncompress.core.text import counted

_MOST_SEARCHES, _MOST_WAITING = 400, 1_000
_PATTERN, _PLACE = 60, 50
"""Characters of what is looked for, and of where, in a row."""

_TOOLS = frozenset(
    {
        *("grep", "glob", "find", "search", "rg", "ripgrep", "multi_grep", "grep_search", "search_file_content"),
        *("file_search", "find_files", "search_files", "codebase_search", "glob_search"),
    }
)
_COMMAND = re.compile(r"\s{0,8}(?:[ef]?grep|rg|find|fd|ag|git (?:-C \S{1,200} )?grep)\s")
_TOLD = re.compile(r"[Ff]ound ([0-9]{1,9}) (?:match|file|result|line)")
_NOTHING = re.compile(r"No (?:files|matches|results)(?: were)? found", re.IGNORECASE)


class Search(NamedTuple):
    """What was looked for with what, and the places, if told."""

    words: str
    places: tuple[str, ...] = ()


class Searches:
    """The searches of a session, taken in its order; of one made again the newest."""

    def __init__(self) -> None:
        self.found: dict[Search, str] = {}
        """The searches, and how much was found."""
        self.before = 0
        """How many an earlier summary left out."""
        self._waiting: dict[str, Search] = {}

    def call(self, said: Said, commands: Iterable[Script]) -> None:
        """Take a call and the commands in it."""
        if said.tool.lower() in _TOOLS:
            search = _search(said.tool, said.given)
        else:
            search = Search(next((each.line for each in commands if _COMMAND.match(each.line)), ""))
        if search.words:
            self._waiting[said.call] = search
            if len(self._waiting) > _MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]

    def result(self, said: Said) -> None:
        """Take a result: how much was found."""
        search = self._waiting.pop(said.call, None)
        if search is not None:
            self.note(search, _hits(said.text[: 256 * 1024]))

    def note(self, search: Search, found: str) -> None:
        """Remember a search as the newest."""
        self.found.pop(search, None)
        self.found[search] = found
        if len(self.found) > _MOST_SEARCHES:
            del self.found[next(iter(self.found))]
            self.before += 1


def _search(tool: str, given: Mapping[str, Any]) -> Search:
    pattern = _first(given, "pattern", "patterns", "query", "regex", "glob")
    place = _first(given, "path", "dir_path", "directory", "include")[:400]
    if not pattern and not place:
        return Search("")
    return Search(
        f"{one_line(tool, 24)} {one_line(pattern, _PATTERN)}".strip(), tuple(place.split(";")) if place else ()
    )


def _first(given: Mapping[str, Any], *keys: str) -> str:
    """Return the first words under one of some keys."""
    for key in keys:
        value = given.get(key)
        if isinstance(value, list):
            value = " ".join(each for each in value[:20] if isinstance(each, str))
        if value and isinstance(value, str):
            return value
    return ""


def _hits(text: str) -> str:
    if told := _TOLD.search(text, 0, 200):
        return f"{told[1]} found"
    if _NOTHING.search(text, 0, 200):
        return "nothing"
    count = sum(1 for line in text.split("\n") if line.strip() and not says_nothing(line))
    return counted(count, "line", "lines") if count else "nothing"


def rows(searches: Searches, root: str, room: int) -> Sequence[str]:
    """Write the newest searches that fit."""
    written: dict[str, str] = {}
    for search, found in searches.found.items():
        words = _row(search, root)
        written.pop(words, None)
        written[words] = found
    return newest([f"- {code(words)} {found}" for words, found in written.items()], room, searches.before)


def _row(search: Search, root: str) -> str:
    words = search.words
    for name in names_of(root):
        words = words.replace(f"{name}/", "")
    words = one_line(words, 2 * _PATTERN)
    places = [below(each.strip(), root) for each in search.places]
    if not places:
        return words
    # Of a long path its end says most.
    first = places[0] if len(places[0]) <= _PLACE else f".../{places[0][-_PLACE:].partition('/')[2]}"
    others = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"{words} in {one_line(first, _PLACE + 8)}{others}"
