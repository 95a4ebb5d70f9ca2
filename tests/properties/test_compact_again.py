"""What was compacted just now stays: the same command again changes nothing, and another one only what it asks for."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.agents.sessions import CORPUS
from tests.cli.conftest import here
from tests.support.build import dice
from tests.support.commands import policy, run
from tests.support.long import LINES, LONG, grown
from tests.support.runs import fixture, snapshot, write
from tests.support.session import PiSession
from tests.support.stories import SESSIONS
from tests.support.texts import log_lines

__all__ = ["here"]

OPTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "goal": ("--goal", "Add a <b>webhook</b>"),
    "goal from last": ("--goal-from", "last"),
    "goal from todo": ("--goal-from", "todo"),
    "goal and keep": ("--goal", "Add a webhook", "--keep", "tokens"),
    "ask": ("--ask",),
    **{f"keep {rule}": ("--keep", rule) for rule in ("tokens", "messages", "share", "sincePrompt", "turns")},
    "keep-tokens": ("--keep-tokens", "900"),
    "summary-tokens": ("--summary-tokens", "1500"),
    "drop-dead": ("--drop-dead",),
    "summarizer": ("--summarizer", "head -c 600", "--yes"),
}
LITTLE = {"keepTokens": 600, "minDeadTokens": 200, "minSavedTokens": 1}
"""With these short sessions are cut."""
STAYS = "said since it was compacted; "


def compact(path: Path, *options: str) -> dict[str, object]:
    """Run the command; return what it says of the session, or an empty document where it refuses it."""
    result = run("compact", "--json", *options, path)
    assert result.exit_code in (0, 4), result.output
    (said,) = json.loads(result.stdout)["files"]
    return {**said, "stderr": result.stderr}


def compacts_once(path: Path, options: tuple[str, ...]) -> bool:
    """Run the command twice, and see that the second run writes nothing; return whether the first one did."""
    first = compact(path, *options)
    left = snapshot(path)
    again = compact(path, *options)
    assert again["status"] == ("unchanged" if first["status"] == "compacted" else first["status"])
    assert snapshot(path) == left
    assert "goal was not written" not in str(again["stderr"])
    return first["status"] == "compacted"


@pytest.fixture
def keeps_little(here: Path) -> Path:
    policy(here / "compression.json", compact=LITTLE, minSavedKB=0, sizeThresholdKB=0)
    return here


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *(("pi", how) for how in OPTIONS),
        *((name, how) for name in LONG if name != "pi" for how in ("goal", "keep messages")),
        *((name, "drop-dead") for name in ("claude-code", "codex")),
    ],
)
def test_a_second_run_writes_nothing(name: str, how: str, keeps_little: Path) -> None:
    """Also behind a run of compress. Where a session is cut no format decides."""
    options = OPTIONS[how]
    path = write(keeps_little, LONG[name](8))
    assert compacts_once(path, options)
    run("compress", "--keep-turns", "1", path)
    left = snapshot(path)
    assert compact(path, *options)["status"] == "unchanged"
    assert snapshot(path) == left


@pytest.mark.parametrize("name", LINES)
def test_other_runs_before_and_behind_it_count_nothing(name: str, keeps_little: Path) -> None:
    path = write(keeps_little, LONG[name](8))
    lengths = [path.stat().st_size]
    little, much = ("compress", "--keep-turns", "4"), ("compress", "--keep-turns", "1", "--protect-tokens", "0")
    for command in (little, ("compact", "--keep", "share"), much):
        run(*command, path)
        lengths.append(path.stat().st_size)
    assert len(set(lengths)) == len(lengths)
    assert str(compact(path, "--keep", "share")["reason"]).startswith(f"nothing was {STAYS}")


@pytest.mark.slow
@pytest.mark.parametrize("at", range(len(OPTIONS)), ids=list(OPTIONS))
def test_of_every_fixture(at: int, keeps_little: Path) -> None:
    compacted, options = 0, [*OPTIONS.values()][at]
    for name in SESSIONS[at % 4 :: 4]:
        folder = keeps_little / name
        folder.mkdir(parents=True)
        compacted += compacts_once(write(folder, fixture(name), Path(name).name), options)
    assert compacted


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="there are no real sessions beside the repository")
@pytest.mark.parametrize("at", range(len(OPTIONS)), ids=list(OPTIONS))
def test_of_real_sessions(at: int, here: Path) -> None:
    """Each by one of the options, with the policy as it is shipped."""
    compacted, options = 0, [*OPTIONS.values()][at]
    for number, session in enumerate(sorted(CORPUS.glob("*/*.json*"))[at :: len(OPTIONS)]):
        (here / str(number)).mkdir()
        compacted += compacts_once(Path(shutil.copy(session, here / str(number))), options)
        shutil.rmtree(here / str(number))
    assert compacted


# Another command


def goal_cut(folder: Path) -> Path:
    """Compact a session by a goal, so that a newest request stays that is longer than the policy keeps."""
    made = PiSession()
    made.opening()
    for turn in range(4):
        made.user(f"Part {turn}.")
        for step in range(3 + turn):
            made.step("bash", {"command": f"cat {turn}-{step}"}, log_lines(dice("again", turn, step), 20))
    path = write(folder, made.bytes())
    assert compact(path, "--goal", "Add a webhook")["strategy"] == "sincePrompt"
    return path


@pytest.mark.parametrize("options", [(), ("--goal", "Mend it"), ("--goal-from", "first"), ("--ask",)])
def test_another_goal_or_none_cuts_nothing_more(options: tuple[str, ...], keeps_little: Path) -> None:
    path = goal_cut(keeps_little)
    left = snapshot(path)
    said = compact(path, *options)
    assert snapshot(path) == left
    how = "--keep tokens (compact.keep) leaves less, or restore it first to compact it differently"
    assert (said["status"], said["reason"]) == ("unchanged", f"nothing was {STAYS}{how}")


@pytest.mark.parametrize("options", [(), ("--goal", "Mend it"), ("--keep", "share")])
def test_nothing_said_is_too_little_for_any_policy(options: tuple[str, ...], keeps_little: Path) -> None:
    path = goal_cut(keeps_little)
    policy(keeps_little / "compression.json", compact={**LITTLE, "minDeadTokens": 0, "minSavedTokens": 0})
    if "--keep" in options:
        assert compact(path, *options)["status"] == "compacted"
    left = snapshot(path)
    assert compact(path, *options)["status"] == "unchanged"
    assert snapshot(path) == left


def test_a_goal_that_is_not_written_is_said(keeps_little: Path) -> None:
    path = goal_cut(keeps_little)
    result = run("compact", "--goal", "Mend it", path)
    assert " ".join(result.stderr.split()).startswith(
        f"warning: {path}: the goal was not written, since the session was compacted before: run 'sessioncompress "
        "restore' on it, then compact it again"
    )
    assert run("compact", "--goal", "Add a webhook", path).stderr == ""
    assert run("restore", path).exit_code == 0
    assert run("compact", "--goal", "Mend it", path).exit_code == 0
    assert b"## Current goal\\n- > Mend it\\n" in path.read_bytes()


@pytest.mark.parametrize("options", [("--keep", "tokens"), ("--keep-tokens", "600")])
def test_who_says_how_much_stays_gets_that(options: tuple[str, ...], keeps_little: Path) -> None:
    """It is said that a session is cut again; more than there is cannot stay."""
    path = goal_cut(keeps_little)
    assert compact(path, "--keep-tokens", "90000")["status"] == "unchanged"
    said = compact(path, *options)
    assert (said["status"], said["reason"]) == (
        "compacted",
        "it was compacted before; this keeps less of what was kept then",
    )
    assert int(str(said["messagesKept"])) < int(str(said["messagesBefore"])) == 13
    assert not compacts_once(path, options)


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("options", [(), ("--goal", "Add a webhook"), ("--keep", "share")])
def test_what_was_said_since_counts_behind_compress_too(
    name: str, options: tuple[str, ...], keeps_little: Path
) -> None:
    """That makes the session shorter than the checkpoint left it; and a little that was said since pays nothing."""
    path = write(keeps_little, LONG[name](8))
    assert compact(path, *options)["status"] == "compacted"
    run("compress", "--keep-turns", "1", "--protect-tokens", "0", path)
    grown(path, name)
    much = policy(keeps_little / "much.json", compact={**LITTLE, "minDeadTokens": 90_000})
    said = compact(path, "--config", str(much), *options)
    assert said["status"] == "unchanged"
    number = r"[1-9][\d,]+ tokens \(4 characters each\), under minDeadTokens 90,000, were "
    assert re.match(number + STAYS, str(said["reason"]))
    assert compacts_once(path, options)


def test_another_branch_is_no_compacted_session(keeps_little: Path) -> None:
    """Of pi: the model reads nothing of the checkpoint there."""
    path = goal_cut(keeps_little)
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    ours = next(each for each in entries if each["type"] == "compaction")
    branch = PiSession(seed="branch")
    branch.user("Go another way.")
    lines = [json.loads(line) for line in branch.bytes().splitlines()[1:]]
    lines[0]["parentId"] = ours["parentId"]
    with path.open("ab") as file:
        file.write(b"".join(json.dumps(each).encode() + b"\n" for each in lines))
    assert compact(path)["status"] == "compacted"


def test_a_restored_session_is_compacted_again(keeps_little: Path) -> None:
    path = goal_cut(keeps_little)
    assert run("restore", "--last", path).exit_code == 0
    assert compacts_once(path, ())
