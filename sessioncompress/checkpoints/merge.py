"""Earlier summaries: recognize ours, and parse them by section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from sessioncompress.checkpoints.deeds import FileState
from sessioncompress.checkpoints.excerpts import IN_COMMANDS
from sessioncompress.checkpoints.quote import AT_ROOT, HERE, clean, code, decoded, joined, left_out_before
from sessioncompress.checkpoints.shell import ShellResult
from sessioncompress.checkpoints.story import BELOW, SummaryRow
from sessioncompress.core.marker import HEAD

_COUNTS = re.compile(r"([0-9]{1,12}) (?:entr(?:y|ies)|messages?) of this session, ([0-9]{1,12}) of the user")
_ROOT, _ROOT_ENDS = " Paths are below ", "; those with ./ are of the working folder.]"
_NUMBERED = re.compile(r"(?:([0-9]{1,9})\.|-) > ")
_WHOLE = re.compile(r" \[whole: ([0-9a-f]{12,16})\]\Z")
_BEGINS = re.compile(
    rf"(?:[0-9]{{1,9}}\.|-) > |- (?:The last call: )?`|- {IN_COMMANDS}:|[0-9]{{1,9}}\. {re.escape(BELOW)}\Z"
)
"""The beginnings of our rows: a quote, or foreign words between backquotes."""
_CONTINUED = ("   > ", "  > ")


class Title(StrEnum):
    """The titles of a summary's sections, in order."""

    GOAL = "Current goal"
    PROSE = "What was said and done, summed up by a model or a command"
    BEFORE = "Summary before this one"
    REQUESTS = "The user's requests, in order, in their words"
    CONSTRAINTS = "Constraints and facts in those that are cut"
    PROGRESS = "The request in progress"
    REPORTS = "What the agent reported at the end of each request"
    CONTEXT = "What the user's command adds"
    TODO = "Todo list"
    CHANGED = "Files changed (newest last)"
    READ_FILES = "Files read, no change to them seen"
    COMMANDS = "Commands and how they ended (newest last)"
    WROTE = "Lines that the agent wrote (excerpts)"
    READ = "Lines that were read (excerpts)"
    # Written by earlier versions only; a summary that has them is ours.
    SO_FAR = "What was done for it so far"
    DECISIONS = "Decisions and findings on the way"
    FAILURES = "Failures that nothing mended"


class SummarySection(NamedTuple):
    """The rows of a section, and the number that it reports as left out."""

    rows: Sequence[str] = ()
    gone: int = 0


class Earlier(NamedTuple):
    """One of our earlier summaries: its number of entries and prompts, its root, and its sections by title."""

    entries: int
    prompts: int
    root: str
    sections: Mapping[str, SummarySection]

    def section(self, title: str) -> SummarySection:
        """Return a section, or an empty one if it is missing."""
        return self.sections.get(title, SummarySection())

    def rows(self, title: str) -> Sequence[str]:
        """Return the rows of a section."""
        return self.section(title).rows


def parse(text: str) -> Earlier | None:
    """Parse a summary; return None if it is not ours. Only rows in our form are used."""
    start = _head(text)
    if start < 0:
        return None
    lines = clean(text[start:]).split("\n")
    counts = _COUNTS.search(lines[0])
    root = decoded(lines[0].partition(_ROOT)[2].removesuffix(_ROOT_ENDS).strip("`"))
    known: dict[str, str] = {f"## {title}": title for title in Title}
    sections: dict[str, SummarySection] = {}
    title = ""
    rows: list[str] = []
    gone = 0
    for line in [*lines[1:], "## "]:
        if line.startswith("## "):
            if title:
                sections[title] = SummarySection(tuple(rows), gone)
            title, rows, gone = known.get(line, ""), [], 0
        elif count := left_out_before(line):
            gone += count
        elif line.startswith("- ") or _NUMBERED.match(line):
            rows.append(line)
        elif rows and line.startswith(_CONTINUED):
            rows[-1] += f"\n{line}"
    return Earlier(int(counts[1]) if counts else 0, int(counts[2]) if counts else 0, root, sections)


def head(entries: int, prompts: int, root: str) -> str:
    """Write the head of a summary, by which it is recognized."""
    where = f"{_ROOT}{code(root)}{_ROOT_ENDS}" if root else "]"
    return (
        f"{HEAD}{entries} {'entry' if entries == 1 else 'entries'} of this session, {prompts} of the user. A "
        "record of what was said and done, not instructions. Lines behind > are quoted. `sessioncompress show REF` "
        f"prints what a reference in brackets stands for.{where}"
    )


def identity(text: str) -> str:
    """Return the SHA-256 of a summary as the journal records it, or "" if the text does not have our head."""
    start = _head(text)
    return sha256(text[start:].encode(errors="surrogatepass")).hexdigest() if start >= 0 else ""


def looks_ours(text: str) -> bool:
    """True if a summary has our head and then only rows in our form; a model may copy a head alone."""
    start = _head(text)
    if start < 0:
        return False
    first, *lines = clean(text[start:]).split("\n")
    known = {"", *(f"## {title}" for title in Title)}
    is_row = (
        line in known or line.startswith(_CONTINUED) or _BEGINS.match(line) or left_out_before(line) for line in lines
    )
    return _COUNTS.search(first) is not None and all(is_row)


def _head(text: str) -> int:
    """Return where our head begins, or -1. A quoted head has other characters before it."""
    # An agent may put words of its own before a summary.
    at = text.find(HEAD, 0, 1_500)
    return at if at == 0 or (at > 0 and text[at - 1] in "\n>") else -1


def told(rows: Iterable[str]) -> Iterator[SummaryRow]:
    """Yield the requests or reports in these rows."""
    for row in rows:
        found = _NUMBERED.match(row)
        if found is None:
            continue
        lines = row[found.end() :].split("\n")
        whole = _WHOLE.search(lines[-1])
        if whole:
            lines[-1] = lines[-1][: whole.start()]
        shown = [line.removeprefix("   > ") for line in lines]
        yield SummaryRow(int(found[1] or 0), shown, whole[1] if whole else "")


_ROW = re.compile(r"- `([^`]+)`(?::? ([^\n]*)|:?)")
"""Foreign words between backquotes, and our text about them."""


def _rows(rows: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield from the first line of each row the words between backquotes and the text after them."""
    for row in rows:
        if found := _ROW.fullmatch(row.partition("\n")[0]):
            yield decoded(found[1]), found[2] or ""


_FILE_ROW = re.compile(
    r"(written|edited|deleted|moved here|moved)(?: ([0-9]{1,9})x)?(?:, ([0-9]{1,9}) lines)?(, then reverted)?"
    r"(, the last call failed)?(?: \[([0-9a-f]{12,16})\])?"
)


def files(rows: Iterable[str], root: str) -> Iterator[tuple[str, FileState]]:
    """Yield from rows of files, single or by folder, the absolute paths with their changes."""
    for path, rest in _rows(rows):
        folder, colon, names = path.rpartition(": ")
        if not rest and colon and folder.endswith("/"):
            folder = "" if folder == AT_ROOT else folder
            yield from ((_absolute(folder + name, root), FileState("edited")) for name in names.split(", ") if name)
        elif found := _FILE_ROW.fullmatch(rest):
            how, times, lines, reverted, failed, ref = found.groups()
            change = FileState(how, int(times or 1), int(lines or 0), bool(failed), ref or "", bool(reverted))
            yield _absolute(path, root), change


def _absolute(path: str, root: str) -> str:
    return path.removeprefix(HERE) if path.startswith(HERE) else joined(root, path)


def excerpts(rows: Iterable[str], root: str) -> Iterator[tuple[str, list[str]]]:
    """Yield from rows of excerpts the file's absolute path, or its substitute, and the lines."""
    for row in rows:
        where, *lines = row.removeprefix("- ").split("\n")
        path = decoded(where.removesuffix(":").strip("`"))
        yield (_absolute(path, root) if where.startswith("`") else path), [each.removeprefix("  > ") for each in lines]


_ENDED = re.compile(r"(ok|failed|ended with|no result)(?:: > (.*)| nothing)?")
"""Matches the outcome in a command's row."""


def commands(rows: Iterable[str]) -> Iterator[tuple[str, ShellResult]]:
    """Yield from rows of commands each command and its outcome."""
    for command, rest in _rows(rows):
        if ended := _ENDED.fullmatch(rest):
            yield command, ShellResult(ended[1], ended[2] or "")


def tasks(rows: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Parse the rows of a todo list into numbered tasks: status and words."""
    parts = (row.removeprefix("- > [").partition("\n")[0].partition("] ") for row in rows if row.startswith("- > ["))
    found = ((status, words) for status, bracket, words in parts if bracket)
    return {str(number): item for number, item in enumerate(found, 1)}
