"""Holds summaries against their sessions: `python -m tests.bench.facts FOLDER... [--share 0.4] [--each]`.

A copy of each session is compacted by the default policy, and another one so that a share of it is kept. What a summary
says of files, commands, the todo list and short requests must be what the session says, and `show` must find what it
refers to. Files and todo lists are read from the calls here once more, in the simplest way.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sessioncompress.checkpoints.merge import Earlier, Title, parse, tasks, told
from sessioncompress.checkpoints.merge import commands as rows_of_commands
from sessioncompress.checkpoints.quote import CUT, clean, one_line
from sessioncompress.checkpoints.shell import alike, commands_in
from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.core.model import Purpose
from sessioncompress.core.text import estimate
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.policy.model import BALANCED, Compact, CutRule
from tests.bench.pairs import Halves, halves
from tests.support.runs import journal_of

_PATHS = ("path", "file_path", "filePath", "notebook_path", "absolute_path")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (\S.*?)\s*$", re.MULTILINE)
_FOLDERS = re.compile(r"[^\s'\"=(:,]*/")
_MOST_FILES = 60
_SHORT = 260
_ITEM = 120
_LISTS = frozenset({"todowrite", "update_plan", "write_todos"})


def facts(cut: Halves, text: str) -> Counter[str]:
    """Count what a summary gets right, under `name`, and out of how much, under `of name`."""
    found = parse(text)
    assert found is not None
    said = [each for _, each in cut.old]
    counted: Counter[str] = Counter()
    for name, judged in (
        ("files", _files(said, found)),
        ("verdicts", _verdicts(said, found)),
        ("todo", _todo(said, found)),
        ("prompts", _prompts(said, found)),
    ):
        for right in judged:
            counted[f"of {name}"] += 1
            counted[name] += right
    return counted


def _files(said: Iterable[Utterance], found: Earlier) -> Iterator[bool]:
    """Judge each of the newest files that calls changed: whether the summary names it."""
    changed: dict[str, None] = {}
    for each in said:
        if each.say is not Say.CALL:
            continue
        paths = _PATCHED.findall("\n".join(each.contents()))
        if not paths and each.purpose is Purpose.WRITE:
            paths = [each.given[key] for key in _PATHS if isinstance(each.given.get(key), str)][:1]
        for path in filter(None, paths):
            changed.pop(path, None)
            changed[path] = None
    rows = "\n".join(found.rows(Title.CHANGED))
    for path in list(changed)[-_MOST_FILES:]:
        name = re.split(r"[/\\]", path.rstrip("/"))[-1]
        yield one_line(name, 100).removesuffix(CUT) in rows


def _verdicts(said: Iterable[Utterance], found: Earlier) -> Iterator[bool]:
    """Judge each command that is listed, and of which the agent recorded how it ended."""
    recorded: dict[str, bool | None] = {}
    called: dict[str, Sequence[str]] = {}
    for each in said:
        if each.say is Say.CALL:
            scripts = commands_in(each.given, is_command=each.purpose is Purpose.COMMAND)
            called[each.call] = [alike(script.line) for script in scripts]
            recorded |= dict.fromkeys(called[each.call])
        elif each.say is Say.RESULT:
            recorded |= dict.fromkeys(called.get(each.call, ()), each.failed)
    newest = [(_bare(line), failed) for line, failed in recorded.items()]
    for command, ended in rows_of_commands(found.rows(Title.COMMANDS)):
        whole = command.removesuffix(CUT)
        bare = _bare(alike(whole) if whole == command else whole)
        truths = {failed for line, failed in newest if (line.startswith(bare) if whole != command else line == bare)}
        if truths and None not in truths:
            yield any(ended.failed is failed for failed in truths)


def _bare(command: str) -> str:
    """Write a command without folders, as it may be shown below another one."""
    return _FOLDERS.sub("", " ".join(clean(command).split()))


def _todo(said: Iterable[Utterance], found: Earlier) -> Iterator[bool]:
    """Judge the todo list: whether all of the last one stands there, or the rest is said to be left out."""
    items: list[tuple[str, str]] = []
    for each in said:
        if each.say is Say.CALL and each.tool.lower() in _LISTS:
            items = list(_items(each.given)) or items
    if items:
        section = found.section(Title.TODO)
        rows = list(tasks(section.rows).values())
        wanted = [(one_line(status, 20), one_line(words, _ITEM)) for status, words in items]
        yield len(rows) + section.gone == len(wanted) and not set(rows) - set(wanted)


def _items(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    lists = [value for value in given.values() if isinstance(value, list)]
    for item in lists[0] if lists else ():
        words = item.get("content") or item.get("step") or item.get("description") if isinstance(item, dict) else None
        if isinstance(words, str) and isinstance(item.get("status"), str):
            yield item["status"], words


def _prompts(said: Iterable[Utterance], found: Earlier) -> Iterator[bool]:
    """Judge each short request: whether it stands there verbatim, where the section says of none that it is left out."""
    if found.section(Title.REQUESTS).gone:
        return
    there = {"\n".join(each.lines) for each in told([*found.rows(Title.REQUESTS), *found.rows(Title.PROGRESS)])}
    for each in said:
        if each.say is Say.PROMPT and 0 < len(each.text.strip()) < _SHORT:
            lines = [line for line in map(str.rstrip, clean(each.text.strip()).split("\n")) if line]
            yield "\n".join(lines) in there


def measure(path: Path, rules: Compact) -> Counter[str]:
    """Compact a copy of a session, and judge its summary."""
    counted: Counter[str] = Counter()
    if (cut := halves(path, rules)) is None:
        return counted
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        shutil.copy(path, copy)
        try:
            stats = compact_session(copy, replace(BALANCED, compact=rules))
        except SessionCompressError:
            return Counter({"refused": 1})
        if not stats.is_compacted:
            return counted
        counted = facts(cut, stats.summary)
        counted["cuts"] += 1
        counted["of budget"] += 1
        counted["budget"] += estimate(len(stats.summary)) <= max(min(rules.summary_tokens, cut.tokens // 20), 1_000)
        counted["tokens"] += stats.tokens_summary
        for record in journal_of(copy):
            for ref in record.get("refs", ()):
                counted["of references"] += 1
                counted["references"] += _is_shown(ref, copy)
        restore_session(copy)
        counted["of restored"] += 1
        counted["restored"] += copy.read_bytes() == path.read_bytes()
    return counted


def _is_shown(ref: str, path: Path) -> bool:
    try:
        return bool(show(ref, path))
    except SessionCompressError:
        return False


def main() -> None:
    """Judge the sessions of the folders that are named, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--share", type=float, default=0.4, help="how much of a session the second cut keeps")
    parser.add_argument("--each", action="store_true", help="print what is wrong in each session")
    asked = parser.parse_args()
    paths = sorted(path for folder in asked.folders for path in folder.rglob("*.json*"))
    for title, rules in (
        ("default", Compact()),
        (f"keeps {asked.share}", Compact(keep=CutRule.SHARE, keep_share=asked.share)),
    ):
        total: Counter[str] = Counter()
        for path in paths:
            counted = measure(path, rules)
            total += counted
            wrong = {name: f"{counted[name]} of {counted[f'of {name}']}" for name in NAMES}
            wrong = {name: said for name, said in wrong.items() if counted[name] != counted[f"of {name}"]}
            if asked.each and wrong:
                print(path, wrong)
        cuts = max(total["cuts"], 1)
        print(
            f"{title}: {total['cuts']} cuts, {total['refused']} refused, {total['tokens'] / cuts:.0f} tokens on average"
        )
        for name in NAMES:
            right, of = total[name], total[f"of {name}"]
            print(f"  {name:<12} {right:>6} of {of:>6}  {right / max(of, 1):.3f}")


NAMES = ("files", "verdicts", "todo", "prompts", "references", "budget", "restored")


if __name__ == "__main__":
    main()
