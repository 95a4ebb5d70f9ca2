"""`compact` over archives and by a budget's rule: lines, totals, JSON and exit codes, in any order and number of jobs."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.operations import batch
from sessioncompress.store.layout import store_in
from tests.support.commands import document, one, policy, run
from tests.support.long import LINES, LONG, pi
from tests.support.rollout import Rollout
from tests.support.runs import snapshot, split, write
from tests.support.session import PiSession

FIELDS = {
    *("path", "format", "status", "reason", "sizeBefore", "sizeAfter", "tokensBefore", "tokensAfter"),
    *("tokensSummary", "tokensSent", "tokensRecorded", "messagesBefore", "messagesKept"),
    *("messagesCompacted", "linesDropped", "splitsTurn", "strategy", "goalMethod", "by", "trigger"),
    *("tokensSince", "messagesSince", "multiplier", "thresholds", "warning", "exitCode", "run", "model"),
    *("modelFailure", "markersWithoutJournal", "madeElsewhere"),
}
KEEPS_LITTLE = {"keepTokens": 3_000, "minDeadTokens": 1_000, "minSavedTokens": 1_000}
OMP = {"rule": "omp", "thresholdTokens": 10_000}
PROTECTING: dict[str, Any] = {"turnThresholdBeforeCompress": 100, "protectTokens": None}
"""With these a run of compress takes nothing, so that only a summary helps."""


@pytest.fixture(autouse=True)
def keeps_little(here: Path) -> Path:
    return policy(here / "compression.json", compact=KEEPS_LITTLE)


def branched(turns: int = 8) -> bytes:
    """Return a rollout of Codex that goes on from another one, which can have no checkpoint."""
    made = Rollout(ordinals=True)
    for turn in range(turns):
        made.user(f"Part {turn}.")
        made.run(f"cat {turn}.log", f"line {turn}\n" * 400)
        made.end("Done.")
    return made.bytes().replace(b'"source":"cli"', b'"source":"cli","history_base":{"thread_id":"x"}', 1)


def archive(folder: Path) -> Path:
    """Fill a folder: a session of each agent, a short one, one that cannot have a checkpoint, and no session."""
    folder.mkdir()
    for name, made in LINES.items():
        write(folder, made(8), f"{name}.jsonl")
    write(folder, PiSession().bytes(), "short.jsonl")
    write(folder, branched(), "branched.jsonl")
    (folder / "none.jsonl").write_bytes(b'{"x": 1}\n' * 20_000)
    return folder


# Archives


def test_a_folder_ends_with_a_total(here: Path) -> None:
    """What is found there and cannot have a checkpoint is skipped; by name it is refused."""
    folder = archive(here / "sessions")
    result = run("compact", folder)
    assert result.exit_code == 0, result.output
    total = result.stdout.splitlines()[-1]
    assert total.startswith(f"total: {len(LINES)} sessions compacted: ")
    assert total.endswith(" tokens for the model; 1 unchanged; 1 skipped; 1 passed over (not sessions, or links)")
    again = run("compact", folder).stdout.splitlines()[-1]
    assert again.startswith(f"total: 0 sessions; {len(LINES) + 1} unchanged; 1 skipped; 1 passed over")
    assert run("compact", folder / "branched.jsonl").exit_code == 4


def damage(path: Path) -> None:
    write(path.parent, pi(8), path.name)
    assert run("compact", path).exit_code == 0
    journal = store_in(path).journal
    journal.write_bytes(b"{}\n" + journal.read_bytes())


def link(path: Path) -> None:
    write(path.parent, pi(8), path.name)
    os.link(path, path.with_suffix(".other"))


def write_none(path: Path) -> None:
    path.write_text("nothing\n")


def test_the_line_says_of_what_each_number_is(here: Path) -> None:
    """The summary is a part of the tokens; what stays, of the messages that the model reads."""
    policy(here / "compression.json", compact={**KEEPS_LITTLE, "minDeadTokens": 1, "minSavedTokens": 1})
    path = write(here, pi(8))
    said = run("compact", path).stdout
    numbers = r": [\d,]+ -> [\d,]+ tokens for the model, [\d,]+ of them the summary \((\d+) of (\d+) messages kept"
    kept, before = re.findall(numbers, said)[0]
    assert (int(kept), before) < (48, "48")
    assert re.findall(numbers, run("compact", "--keep-tokens", "1", path).stdout)[0][1] == kept


def test_how_much_stays_says_by_what(here: Path) -> None:
    policy(here / "compression.json", compact={**KEEPS_LITTLE, "keep": "share"})
    path = write(here, pi(8))
    for options, (strategy, kept) in {
        ("--keep-messages", "7"): ("messages", 7),
        ("--keep-tokens", "1"): ("tokens", 1),
    }.items():
        (said,) = document("compact", "--dry-run", *options, path)["files"]
        assert (said["strategy"], said["messagesKept"]) == (strategy, kept)
    wrong: list[tuple[tuple[str, ...], str]] = [
        (("--keep-messages", "7", "--keep-tokens", "1"), "use only one of --keep-tokens and --keep-messages"),
        (("--keep-messages", "7", "--keep", "turns"), "--keep-messages needs --keep messages"),
        (("--target-tokens", "9"), "--target-tokens needs --if-due"),
    ]
    for given, why in wrong:
        assert why in run("compact", *given, path).stderr


def test_what_the_summary_lacks_for_want_of_originals_is_said(here: Path) -> None:
    """Of a session that was compressed, and came without its store; never of one that has it."""
    path = write(here, pi(8))
    run("compress", "--min-size", "0", "--keep-turns", "1", "--protect-tokens", "0", path)
    (said,) = document("compact", "--keep-tokens", "300", "--dry-run", path)["files"]
    assert (said["status"], said["markersWithoutJournal"]) == ("would-compact", 0)
    shutil.rmtree(store_in(path).folder)
    result = run("compact", "--keep-tokens", "300", "--dry-run", path)
    assert " ".join(result.stderr.split()) == (
        f"warning: {path}: it has 8 previews whose originals are in no store here; the summary is made from what is "
        "left. To look for them first, run 'sessioncompress restore --from-markers' on it"
    )
    (said,) = document("compact", "--keep-tokens", "300", path)["files"]
    assert (said["status"], said["markersWithoutJournal"]) == ("compacted", 8)


WORST: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "damaged": (damage, 5, "failed"),
    "no session, by name": (write_none, 4, "refused"),
    "a hard link": (link, 4, "refused"),
}


@pytest.mark.parametrize("name", WORST)
def test_one_bad_file_stops_no_other(here: Path, name: str) -> None:
    make, code, status = WORST[name]
    make(here / "b.jsonl")
    for each in ("a.jsonl", "c.jsonl"):
        write(here, pi(8), each)
    paths = [here / each for each in ("a.jsonl", "b.jsonl", "c.jsonl")]
    result = run("compact", *paths)
    assert result.exit_code == code
    assert f"; 1 {status}" in result.stdout.splitlines()[-1]
    assert result.stderr.startswith(f"{status}: {here}/")
    told = json.loads(run("compact", "--json", *paths).stdout)["files"]
    assert sorted(each["status"] for each in told) == sorted(["unchanged", "unchanged", status])
    assert [each["exitCode"] for each in told] == [0, code, 0]


@pytest.mark.parametrize("options", [(), ("--if-due", "--rule", "eunice")])
def test_jobs_and_order_change_no_byte(here: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    monkeypatch.setattr(batch, "_LITTLE", 0)
    found: list[tuple[dict[str, bytes], list[str]]] = []
    for name, jobs, reverse in (("one", "1", False), ("two", "2", False), ("other", "2", True)):
        folder = archive(here / name)
        paths = sorted(folder.glob("*[!e].jsonl"), reverse=reverse)
        done = run("compact", "--jobs", jobs, *options, *paths)
        bytes_of = {path.name: path.read_bytes() for path in paths}
        found.append((bytes_of, sorted(line.replace(str(folder), "") for line in done.stdout.splitlines())))
    assert found[0] == found[1] == found[2]
    assert (found[0][0]["pi.jsonl"] == pi(8)) is bool(options)


def test_only_what_is_old_of_all_agents(here: Path) -> None:
    folder = here.parent / "home" / ".pi" / "agent" / "sessions" / "--work--"
    folder.mkdir(parents=True)
    config = policy(here / "mine.json", compact=KEEPS_LITTLE)
    old, new = write(folder, pi(8), "old.jsonl"), write(folder, pi(8), "new.jsonl")
    os.utime(new, (time.time(),) * 2)
    result = run("compact", "--all", "--older-than", "7d", "--config", config, "--check")
    assert result.exit_code == 1
    assert str(new) not in result.stdout
    assert run("compact", "--all", "--older-than", "7d", "--config", config).exit_code == 0
    assert len(split(old.read_bytes())) == len(split(pi(8))) + 1
    assert new.read_bytes() == pi(8)
    assert run("compact", "--all", "--older-than", "7d", "--config", config, "--check").exit_code == 0


def test_a_document_for_others_to_build_on(here: Path) -> None:
    """Every field, of what was compacted and of what was not; no text of the session."""
    folder = archive(here / "sessions")
    told = document("compact", "--dry-run", folder)
    assert (told["schema"], told["dryRun"]) == ("sessioncompress.compact/1", True)
    assert all(set(each) == FIELDS for each in told["files"])
    by_name = {Path(each["path"]).name: each for each in told["files"]}
    assert by_name["pi.jsonl"]["status"] == "would-compact"
    assert (by_name["pi.jsonl"]["strategy"], by_name["pi.jsonl"]["trigger"]) == ("tokens", "manual")
    assert by_name["pi.jsonl"]["messagesSince"] is by_name["pi.jsonl"]["tokensSince"] is None
    assert by_name["branched.jsonl"]["status"] == "skipped"
    assert "Gauge" not in json.dumps(told)


# By rule


def test_a_rule_must_be_named(here: Path) -> None:
    """Before any session is changed, also one that has a rule."""
    path = write(here, pi(8))
    ruled = here / "ruled"
    ruled.mkdir()
    policy(ruled / "compression.json", compact=KEEPS_LITTLE, budget=OMP)
    other = write(ruled, pi(8))
    there = snapshot(path), snapshot(other)
    result = run("compact", "--if-due", other, path)
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f'{path}: the budget\'s rule is "size", which does not say when to write a summary.'
    )
    assert "Name a rule with --rule" in result.stderr
    assert (snapshot(path), snapshot(other)) == there
    assert run("compact", "--if-due", "--rule", "omp", path).exit_code == 0


def test_only_where_a_summary_is_due(here: Path) -> None:
    """With the reason where it is not; `--check` says so by its exit code."""
    policy(here / "compression.json", compact=KEEPS_LITTLE, budget=OMP, **PROTECTING)
    due, small = write(here, pi(8), "due.jsonl"), write(here, pi(1), "small.jsonl")
    assert run("compact", "--if-due", "--check", due).exit_code == 1
    assert run("compact", "--if-due", "--check", small).exit_code == 0
    result = run("compact", "--if-due", here)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert re.fullmatch(rf"{due}: [\d,]+ -> [\d,]+ tokens \(-\d+ %\)", lines[0])
    assert lines[1].startswith("1 skipped: ")
    assert lines[1].endswith(" tokens in use are within the threshold of 10,000 (rule omp)")
    assert lines[2].startswith("total: 1 session compacted: ")
    assert lines[2].endswith("; 1 skipped")
    assert run("budget", here).exit_code == 0


def test_compact_then_compress(here: Path) -> None:
    """What the summary stands for becomes references, and then neither command has anything to do."""
    policy(here / "compression.json", compact=KEEPS_LITTLE, budget=OMP, minSavedKB=0, **PROTECTING)
    path = write(here, pi(8))
    for commands in (2, 0):
        there = snapshot(path)
        compress = ("compress", "--keep-turns", "1", "--protect-tokens", "0")
        done: list[dict[str, Any]] = [one("compact", "--if-due", path), one(*compress, path)]
        assert sum(each["status"] in ("compacted", "compressed") for each in done) == commands
    assert snapshot(path) == there
    assert path.stat().st_size < len(pi(8))
    assert run("restore", path).exit_code == 0
    assert path.read_bytes() == pi(8)


def test_a_session_that_may_be_cached_is_left(here: Path) -> None:
    path = write(here, pi(8))
    os.utime(path, (time.time(),) * 2)
    assert "may still have it cached" in run("compact", "--idle-seconds", "600", path).stdout
    assert path.read_bytes() == pi(8)


def test_a_refusal_fits_a_terminal(here: Path) -> None:
    """It says what, where, in what state the session is and what to do, in lines of its width."""
    (here / "branched.jsonl").write_bytes(branched(20))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sessioncompress", "compact", "branched.jsonl"]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, stderr=theirs, stdout=subprocess.PIPE, cwd=here, env=environment, check=False)
    lines = os.read(ours, 1 << 16).decode().splitlines()
    for each in (ours, theirs):
        os.close(each)
    assert done.returncode == 4
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()) == (
        "refused: branched.jsonl: Codex began it as a branch of another rollout, and what was said before that stands "
        "only there. The session was not changed. Resume it with Codex, and compact it there with /compact."
    )


_PROCESSES: tuple[tuple[Mapping[str, str], int], ...] = (
    ({"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"}, 1),
    ({"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}, 2),
)


@pytest.mark.slow
def test_every_process_writes_the_same(tmp_path: Path) -> None:
    """Whatever the seed of hashes, the time zone, the language and the order of files."""
    written: list[dict[str, bytes]] = []
    for number, (environment, jobs) in enumerate(_PROCESSES):
        folder = tmp_path / str(number)
        folder.mkdir()
        config = policy(tmp_path / "policy.json", compact=KEEPS_LITTLE)
        paths = [write(folder, made(8), f"{name}.jsonl") for name, made in LONG.items()]
        if number:
            paths.reverse()
        line = [sys.executable, "-m", "sessioncompress", "compact", f"--jobs={jobs}", f"--config={config}"]
        line += map(str, paths)
        done = subprocess.run(line, env={**os.environ, **environment}, cwd=folder, check=False, capture_output=True)
        assert done.returncode == 0, done
        written.append({path.name: path.read_bytes() for path in paths})
    assert written[0] == written[1]
    assert [name for name, data in written[0].items() if b"Extracted by sessioncompress" not in data] == []
