"""What the tests of the documents share: pages, their sections, tables and code, and a place to run their commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.runs import FIXTURES, HOMES, as_user, fixture

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = "README.md"
COMMANDS = "docs/reference/commands.md"
CONFIGURATION = "docs/reference/configuration.md"
DOCUMENTS = "docs/reference/json.md"
FORMATS = "docs/reference/formats.md"
BENCHMARKS = "docs/explanation/benchmarks.md"
PROMISES = "docs/explanation/promises.md"
DESIGN = "docs/explanation/design.md"
_WITHIN = 0.02
"""A number of an output that is shown may differ by so much: another zstd packs a little better."""
_YES = ("hook install", "hook uninstall", "forget")
"""Commands that ask; in a test nobody answers."""


def pages() -> list[str]:
    """Return all pages: the documents in the root, and those of docs/."""
    found = sorted(str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md"))
    return [README, "CONTRIBUTING.md", "CHANGELOG.md", *found]


@cache
def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def without_code(text: str) -> str:
    """Return a text with its code blocks blank, so that places stay."""
    return re.sub(r"^```.*?^```$", lambda code: re.sub(r"[^\n]", " ", code[0]), text, flags=re.MULTILINE | re.DOTALL)


def section(name: str, title: str) -> str:
    """Return the text under a heading of a page, up to the next one of its level or above."""
    text = page(name)
    bare = without_code(text)
    level = re.search(rf"^(#+) {re.escape(title)}$", bare, re.MULTILINE)
    assert level, (name, title)
    following = re.compile(rf"^#{{1,{len(level[1])}}} ", re.MULTILINE).search(bare, level.end())
    return text[level.end() : following.start() if following else len(text)]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def rows(text: str) -> dict[str, str]:
    """Return the rows of the tables in a text: first cell to the rest."""
    found = [line.strip("|").split("|", 1) for line in text.splitlines() if line.startswith("| ")]
    return {first.strip(): rest for first, rest in found}


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


def fields_of(text: str) -> set[str]:
    """Return the names in the first cells of a text's tables."""
    return {name for first in rows(text) for name in quoted(first)}


def anchors(name: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", without_code(page(name)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


# Commands that a page shows


class Code(NamedTuple):
    """The lines of a page's shell block, and what the page says that they print; None where it says nothing."""

    lines: tuple[str, ...]
    output: str | None = None


def code(text: str) -> list[Code]:
    """Return all `sh` blocks in their order; a `text` block that follows one at once is what its lines print."""
    found: list[Code] = []
    end = 0
    for each in re.finditer(r"^```(sh|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if each[1] == "sh":
            found.append(Code(tuple(line.strip() for line in each[2].splitlines() if line.strip())))
        elif found and not text[end : each.start()].strip():
            found[-1] = found[-1]._replace(output=each[2])
        end = each.end()
    return found


def commands_shown(text: str) -> Iterator[str]:
    """Yield the commands of ours in a text's shell code and backquotes, without what is before `sessioncompress`."""
    code = "\n".join(blocks(text, "sh") + blocks(text, "bash"))
    yield from (found.strip() for found in re.findall(r"(?:^|[\s/(])sessioncompress ([^\n|;&)#]+)", code))
    yield from re.findall(r"`sessioncompress ([a-z][^`\n]*)`", text)


_PLAIN = re.compile(r"sessioncompress [\w ./=:,-]*")
"""A line in which a shell has nothing to do: no process need be started for it."""


class Place:
    """A home with sessions of an agent, and a working folder with what the pages speak of; or a copy of one."""

    def __init__(self, folder: Path, copied: Place | None = None) -> None:
        self.home = folder
        self.work = folder / "work"
        self.environment = {name: value for name, value in os.environ.items() if name not in HOMES}
        self.environment |= {
            "HOME": str(folder),
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        if copied:
            shutil.copytree(copied.home, folder, symlinks=True, dirs_exist_ok=True)
        else:
            self._make()

    def _make(self) -> None:
        own = self.home / "bin" / "sessioncompress"
        own.parent.mkdir()
        own.write_text(f'#!/bin/sh\nexec {sys.executable} -m sessioncompress "$@"\n')
        own.chmod(0o755)
        tool = self.work / "TOOL" / "bin"
        tool.mkdir(parents=True)
        (tool / own.name).symlink_to(Path("../../../bin", own.name))
        (self.work / "fixtures").symlink_to(FIXTURES)
        for name in ("sessions/a.jsonl", ".GITCLAW/state/sessions/1.jsonl", "session.jsonl"):
            self._put(self.work / name, "pi-anthropic.jsonl")
        self._put(self.home / "archive" / "2026-03-02.jsonl", "claude-code.jsonl")
        self._put(self.home / ".pi/agent/sessions/--work--/2026-03-02_first.jsonl", "pi-anthropic.jsonl")
        self.run("git init --quiet .")

    def _put(self, path: Path, name: str) -> None:
        """Write a session that nobody has worked in for long, and that names nothing which no pack carries."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(fixture(name).replace(b"tool-results", b"saved-outputs"))
        os.utime(path, (1_700_000_000, 1_700_000_000))

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a page, as somebody who answers `yes`."""
        if any(f"sessioncompress {name}" in line for name in _YES) and "--yes" not in line:
            line += " --yes"
        if _PLAIN.fullmatch(line):
            return as_user(self.environment, self.work, *line.split()[1:])
        return subprocess.run(
            ["bash", "-c", line], cwd=self.work, env=self.environment, capture_output=True, text=True, check=False
        )


def alike(shown: str, printed: str) -> bool:
    """Say whether an output is what a page shows of it, but for spaces and numbers that differ by a little.

    How wide a table is, its terminal says.
    """
    shown, printed = (" ".join(each.split()) for each in (shown, printed))
    if re.sub(r"[\d,]+", "", shown) != re.sub(r"[\d,]+", "", printed):
        return False
    pairs: Iterator[tuple[str, str]] = zip(numbers(shown), numbers(printed), strict=True)
    return all(abs(int(one) - int(other)) <= _WITHIN * max(int(one), int(other), 50) for one, other in pairs)


def numbers(text: str) -> list[str]:
    return [found.replace(",", "") for found in re.findall(r"\d[\d,]*", text)]


def snake(names: Mapping[str, object]) -> set[str]:
    return {re.sub(r"([A-Z])", r"_\1", name).lower() for name in names}
