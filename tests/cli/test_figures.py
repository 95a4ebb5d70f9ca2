"""What two commands print of the same thing is the same number, whatever was done to the sessions before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sessioncompress.core.text import kb
from sessioncompress.operations.page import count, share
from tests.cli.test_report import words
from tests.support.commands import document, run
from tests.support.homes import put
from tests.support.runs import FIXTURES, fixture

DAY = 24 * 3600
HOME = {
    ".pi/agent/sessions/x/one.jsonl": ("pi-anthropic.jsonl", 100),
    ".pi/agent/sessions/x/two.jsonl": ("pi-one-prompt.jsonl", 2),
    ".pi/agent/sessions/x/small.jsonl": ("pi-v2.jsonl", 100),
    ".omp/agent/sessions/x/three.jsonl": ("omp.jsonl", 2),
    ".claude/projects/x/four.jsonl": ("claude-code.jsonl", 2),
    ".codex/sessions/2026/03/02/rollout-five.jsonl": ("codex.jsonl", 2),
    ".gemini/tmp/x/chats/session-six.json": ("gemini.json", 100),
}
"""Sessions of a home: their fixtures, and their ages in days."""

OVER = ("--all", "--older-than", "1d")
COMPRESS, RESTORE = ("compress", *OVER), ("restore", "--all")
PACK, UNPACK = ("pack", "--all", "--older-than", "30d"), ("unpack", "--all")
STATES: dict[str, tuple[tuple[str, ...], ...]] = {
    "untouched": (),
    "compressed": (COMPRESS,),
    "restored": (COMPRESS, RESTORE),
    "restored in part": (COMPRESS, ("restore", "--agent", "pi")),
    "a run of two restored": (("compress", "--agent", "pi"), ("compress", "--all", "--force"), ("restore", "--last")),
    "compressed again": (COMPRESS, RESTORE, COMPRESS),
    "packed": (COMPRESS, PACK),
    "packed, the rest restored": (COMPRESS, PACK, RESTORE),
    "unpacked": (COMPRESS, PACK, UNPACK),
    "compacted": (COMPRESS, ("compact", "--agent", "pi")),
}

SLOW = {"restored", "compressed again", "packed", "unpacked"}
"""Those of which others are part."""

Numbers = Mapping[str, Any]
"""A number of each session, by its path."""


class Source(NamedTuple):
    """Where a number is printed: by which command, and where in its document."""

    command: tuple[str, ...]
    of: Callable[[Any], Any]


def disk(session: dict[str, Any]) -> int:
    """Count what a run frees of the disk, by what `compress` says."""
    found: int = session["originalSize"] - session["compressedSize"] - session["storeAdded"]
    return found


def field(name: str) -> Callable[[Any], Any]:
    return lambda session: session[name]


def protected(session: dict[str, Any]) -> int:
    return sum(share["protectedBytes"] for share in session["shares"])


def accounted(session: dict[str, Any]) -> int:
    shares = (share[name] for share in session["shares"] for name in ("protectedBytes", "oldBytes", "deadBytes"))
    found: int = sum(shares) + session["otherBytes"]
    return found


NOT_OPENED = ("skipped", "unchanged", "refused")
WOULD = ("compress", "--all", "--dry-run", "-q")
LIST, STATS, BUDGET = ("sessions", "--savings"), ("stats", "--all"), ("budget", "--all")
SAME: dict[str, tuple[Source, ...]] = {
    "size": (
        Source(STATS, field("size")),
        Source(STATS, accounted),
        Source(LIST, field("size")),
        Source(WOULD, field("originalSize")),
        Source((*RESTORE, "--dry-run"), field("sizeBefore")),
    ),
    "store": (Source(STATS, field("storeSize")), Source((*RESTORE, "--dry-run"), field("storeSize"))),
    "what a run would free": (
        Source(LIST, field("couldSave")),
        Source(WOULD, disk),
        Source(STATS, lambda session: disk(session["would"])),
    ),
    "protected": (Source(STATS, protected), Source(STATS, lambda session: session["would"]["protectedBytes"])),
    "tokens": (
        Source(STATS, lambda session: session["would"]["tokensBefore"]),
        Source(BUDGET, field("tokensEstimated")),
        Source(("compact", "--all", "--dry-run"), field("tokensBefore")),
        Source(("compact", "--all", "--dry-run", "--if-due", "--rule", "gencode"), field("tokensBefore")),
    ),
    "lines": (Source(STATS, field("lines")), Source(("verify", "--all"), field("lines"))),
    "rewritten": (
        Source(("verify", "--all"), field("linesRewritten")),
        Source(("restore", "--all", "--dry-run"), field("linesRestored")),
    ),
}
"""What is printed of each session by several commands."""


FORCED = ("compress", ".", "--force")
ALIKE = (
    *("format", "originalSize", "compressedSize", "ratio", "tokensBefore", "tokensAfter", "tokensUncached"),
    *("removableBytes", "removedBytes", "protectedBytes", "lines", "linesChanged", "toolResultsCompressed"),
)
"""What a rehearsal says as the run does; the store has its time besides."""


class State(NamedTuple):
    """What was done to the sessions of a home, and what `stats` printed of them before that."""

    name: str
    before: Any


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in STATES])
def state(request: pytest.FixtureRequest, here: Path) -> State:
    """Do to the sessions of a home what makes a state."""
    for name, (of, age) in HOME.items():
        path = put(Path.home() / name, fixture(of))
        os.utime(path, (time.time() - age * DAY,) * 2)
    before = document(*STATS)
    for command in STATES[request.param]:
        done = run(*command, *([] if command[0] == "unpack" else ["--yes"]))
        leaves_packed = command == RESTORE and "are still packed" in done.stderr
        assert done.exit_code == (4 if leaves_packed else 0), done.output
    del here
    return State(request.param, before)


def numbers(source: Source, documents: dict[tuple[str, ...], Any]) -> Numbers:
    """Look up a number of each session that is not packed; what a command never opened has none."""
    if source.command not in documents:
        documents[source.command] = document(*source.command)
    made = documents[source.command]
    sessions = [each for each in made.get("sessions") or made["files"] if Path(each["path"]).exists()]
    return {each["path"]: source.of(each) for each in sessions if each.get("status") not in NOT_OPENED}


def test_every_command_prints_the_same(state: State) -> None:
    """Wherever a number of one session is printed, and then one of a folder."""
    documents: dict[tuple[str, ...], Any] = {}
    wrong = []
    for name, sources in SAME.items():
        first, *others = (numbers(source, documents) for source in sources)
        assert first or "packed" in state.name, name
        for source, other in zip(sources[1:], others, strict=True):
            wrong += [
                f"{name}, {path}: {first[path]:,}, but {other[path]:,} by {' '.join(source.command)}"
                for path in sorted(first.keys() & other.keys())
                if first[path] != other[path]
            ]
    assert not wrong, "\n".join([state.name, *wrong])
    of_a_folder(state, documents[STATS], documents[LIST])


def of_a_folder(state: State, now: Any, listed: Any) -> None:
    """On the page of `report`, in the list, in the history, and in the last lines of a run and of a rehearsal."""
    was, stats = (
        {each["path"]: each for each in made["files"] if Path(each["path"]).exists()} for made in (state.before, now)
    )
    listed, runs = listed["totals"], document("history")["runs"]
    size, original = (sum(each["size"] for each in found.values()) for found in (stats, was))
    tokens, before = (sum(each["would"]["tokensBefore"] for each in found.values()) for found in (stats, was))
    in_place = [each for of in runs for each in of["sessions"] if each["state"] == "in place" and each["path"] in stats]
    saved = sum(each["savedOnDisk"] for each in in_place)
    assert run("report", "--all").exit_code == 0
    page = words(Path())
    assert f"Sessions now {kb(size)} {count(tokens)} tokens" in page
    if in_place:
        assert f"Session files {kb(original - size, original)} " in page
        disk_now = f"{kb(saved, original)} {share(saved, original)} {kb(original)} {kb(original - saved, original)}"
        assert f"Disk with stores {disk_now}" in page
        less = f"Tokens {count(before - tokens)} {share(before - tokens, before)} {count(before)} {count(tokens)}"
        assert less in page or state.name == "compacted"
    else:
        assert "Saved so far nothing yet" in page
    frees, of = listed["couldSave"], original - saved
    rehearsed = run(*WOULD[:-1]).stdout
    if frees:
        assert f"{share(frees, of)} {kb(frees)} of disk with stores" in page
        with_stores = f"with the stores: {kb(of)} would become {kb(of - frees, of)}"
        assert with_stores in rehearsed or state.name == "a run of two restored"
    assert f"could save {kb(frees, size)}, stores included" in run("sessions", "--savings").stdout
    run("compress", "--all", "--yes")
    in_place = [each for of in document("history")["runs"] for each in of["sessions"] if each["state"] == "in place"]
    # Only a run that writes has an id.
    assert 0 <= saved + frees - sum(each["savedOnDisk"] for each in in_place if not each["packed"]) < 100 * len(HOME)
    archives = [path.stat().st_size for path in Path.home().rglob("*.tar.zst")]
    assert abs(listed["packedSize"] - sum(archives)) <= len(HOME)


def test_a_rehearsal_a_run_and_what_is_there_after_it_have_the_same_numbers(here: Path) -> None:
    for path in FIXTURES.glob("*.json*"):
        put(here / path.name, path.read_bytes())
    would, did = ({each["path"]: each for each in document(*FORCED, *more)["files"]} for more in (["--dry-run"], []))
    changed = {path for path, each in did.items() if each["status"] == "compressed"}
    assert len(changed) > 15
    done = {
        command: {each["path"]: each for each in document(*command, ".")["files"]}
        for command in (("stats",), ("verify",), ("restore", "--dry-run"))
    }
    stats, verified, restored = done.values()
    for path in changed:
        assert {name: would[path][name] for name in ALIKE} == {name: did[path][name] for name in ALIKE}, path
        now = stats[path]
        assert (now["size"], now["storeSize"]) == (did[path]["compressedSize"], did[path]["storeSize"]), path
        assert now["would"]["tokensBefore"] == did[path]["tokensAfter"], path
        assert verified[path]["linesRewritten"] == restored[path]["linesRestored"] == did[path]["linesChanged"], path
        assert restored[path]["sizeAfter"] == did[path]["originalSize"] == would[path]["originalSize"], path
        saves = did[path]["originalSize"] - did[path]["compressedSize"]
        assert did[path]["ratio"] == pytest.approx(saves / did[path]["originalSize"], abs=0.0001), path
