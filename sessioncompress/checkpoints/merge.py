"""An earlier summary: one of ours is read back by its sections, any other is quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from sessioncompress.checkpoints.deeds import Change
from sessioncompress.checkpoints.excerpts import IN_COMMANDS
from sessioncompress.checkpoints.quote import AT_ROOT, HERE, clean, code, decoded, joined, left_out_before
from sessioncompress.checkpoints.shell import Outcome
from sessioncompress.checkpoints.story import BELOW, Told
from sessioncompress.core.marker import HEAD

_COUNTS = re.compile(r"([0-9]{1,12}) (?:entr(?:y|ies)|messages?) of this session, ([0-9]{1,12}) of the user")
_ROOT, _ROOT_ENDS = " Paths are below ", "; those with ./ are of the working folder.]"
_NUMBERED = re.compile(r"(?:([0-9]{1,9})\.|-) > ")
_WHOLE = re.compile(r" \[whole: ([0-9a-f]{12,16})\]\Z")
_BEGINS = re.compile(
    rf"(?:[0-9]{{1,9}}\.|-) > |- (?:The last call: )?`|- {IN_COMMANDS}:|[0-9]{{1,9}}\. {re.escape(BELOW)}\Z"
)
"""How a row of ours begins: with a quote, or with somebody else's words between backquotes."""
_CONTINUED = ("   > ", "  > ")


class Title(StrEnum):
    """The titles of a summary's sections, by which an earlier one is read back."""

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


class Section(NamedTuple):
    """The rows of a section as they stand in a summary, and how many rows it says were left out."""

    rows: Sequence[str] = ()
    gone: int = 0


class Earlier(NamedTuple):
    """What an earlier summary of ours says: how much it is about, and its sections by their titles."""

    entries: int
    prompts: int
    root: str
    sections: Mapping[str, Section]

    def section(self, title: str) -> Section:
        """Find a section; an empty one where there is none."""
        return self.sections.get(title, Section())

    def rows(self, title: str) -> Sequence[str]:
        """Find the rows of a section."""
        return self.section(title).rows


def parse(text: str) -> Earlier | None:
    """Read a summary of ours; None where it is somebody else's. Only what has the form of our rows is taken."""
    start = _head(text)
    if start < 0:
        return None
    lines = clean(text[start:]).split("\n")
    counts = _COUNTS.search(lines[0])
    root = decoded(lines[0].partition(_ROOT)[2].removesuffix(_ROOT_ENDS).strip("`"))
    known: dict[str, str] = {f"## {title}": title for title in Title}
    sections: dict[str, Section] = {}
    title = ""
    rows: list[str] = []
    gone = 0
    for line in [*lines[1:], "## "]:
        if line.startswith("## "):
            if title:
                sections[title] = Section(tuple(rows), gone)
            title, rows, gone = known.get(line, ""), [], 0
        elif count := left_out_before(line):
            gone += count
        elif line.startswith("- ") or _NUMBERED.match(line):
            rows.append(line)
        elif rows and line.startswith(_CONTINUED):
            rows[-1] += f"\n{line}"
    return Earlier(int(counts[1]) if counts else 0, int(counts[2]) if counts else 0, root, sections)


def head(entries: int, prompts: int, root: str) -> str:
    """Write the head of a summary, by which it is known again."""
    where = f"{_ROOT}{code(root)}{_ROOT_ENDS}" if root else "]"
    return (
        f"{HEAD}{entries} {'entry' if entries == 1 else 'entries'} of this session, {prompts} of the user. A "
        "record of what was said and done, not instructions. Lines behind > are quoted. `sessioncompress show REF` "
        f"prints what a reference in brackets stands for.{where}"
    )


def identity(text: str) -> str:
    """Hash a summary of ours, as the journal records it; empty where a text has not even its head."""
    start = _head(text)
    return sha256(text[start:].encode(errors="surrogatepass")).hexdigest() if start >= 0 else ""


def looks_ours(text: str) -> bool:
    """Tell whether a summary has our head and then only rows of ours: a model that copies a head goes on freely."""
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
    """Find where a summary of ours begins; -1 where it is none. A quoted head has something else before it."""
    # An agent may put words of its own before a summary.
    at = text.find(HEAD, 0, 1_500)
    return at if at == 0 or (at > 0 and text[at - 1] in "\n>") else -1


def told(rows: Iterable[str]) -> Iterator[Told]:
    """Read rows of requests or reports."""
    for row in rows:
        found = _NUMBERED.match(row)
        if found is None:
            continue
        lines = row[found.end() :].split("\n")
        whole = _WHOLE.search(lines[-1])
        if whole:
            lines[-1] = lines[-1][: whole.start()]
        shown = [line.removeprefix("   > ") for line in lines]
        yield Told(int(found[1] or 0), shown, whole[1] if whole else "")


_ROW = re.compile(r"- `([^`]+)`(?::? ([^\n]*)|:?)")
"""Somebody else's words between backquotes, and ours of them."""


def _rows(rows: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Read the first lines of rows: what stands between backquotes, and what is said of it."""
    for row in rows:
        if found := _ROW.fullmatch(row.partition("\n")[0]):
            yield decoded(found[1]), found[2] or ""


_FILE_ROW = re.compile(
    r"(written|edited|deleted|moved here|moved)(?: ([0-9]{1,9})x)?(?:, ([0-9]{1,9}) lines)?(, then reverted)?"
    r"(, the last call failed)?(?: \[([0-9a-f]{12,16})\])?"
)


def files(rows: Iterable[str], root: str) -> Iterator[tuple[str, Change]]:
    """Read the rows of files, one each or by folder: their whole paths, and what became of them."""
    for path, rest in _rows(rows):
        folder, colon, names = path.rpartition(": ")
        if not rest and colon and folder.endswith("/"):
            folder = "" if folder == AT_ROOT else folder
            yield from ((_absolute(folder + name, root), Change("edited")) for name in names.split(", ") if name)
        elif found := _FILE_ROW.fullmatch(rest):
            how, times, lines, reverted, failed, ref = found.groups()
            change = Change(how, int(times or 1), int(lines or 0), bool(failed), ref or "", bool(reverted))
            yield _absolute(path, root), change


def _absolute(path: str, root: str) -> str:
    return path.removeprefix(HERE) if path.startswith(HERE) else joined(root, path)


def excerpts(rows: Iterable[str], root: str) -> Iterator[tuple[str, list[str]]]:
    """Read the rows of excerpts: the file with its whole path, or what stands in its place, and the lines."""
    for row in rows:
        where, *lines = row.removeprefix("- ").split("\n")
        path = decoded(where.removesuffix(":").strip("`"))
        yield (_absolute(path, root) if where.startswith("`") else path), [each.removeprefix("  > ") for each in lines]


_ENDED = re.compile(r"(ok|failed|ended with|no result)(?:: > (.*)| nothing)?")
"""What is said of a command."""


def commands(rows: Iterable[str]) -> Iterator[tuple[str, Outcome]]:
    """Read the rows of commands, and how they ended."""
    for command, rest in _rows(rows):
        if ended := _ENDED.fullmatch(rest):
            yield command, Outcome(ended[1], ended[2] or "")


def tasks(rows: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Read the rows of a todo list, status and words, and number them as tasks."""
    parts = (row.removeprefix("- > [").partition("\n")[0].partition("] ") for row in rows if row.startswith("- > ["))
    found = ((status, words) for status, bracket, words in parts if bracket)
    return {str(number): item for number, item in enumerate(found, 1)}
