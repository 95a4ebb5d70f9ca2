"""What matters next: the options of `compact` and `handoff`, the question at a terminal, and whose commands are run."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.cli import compact, options
from tests.support.commands import document, one, policy, run
from tests.support.long import pi, pi_grown
from tests.support.runs import snapshot, write
from tests.support.victim import Victim, victim

__all__ = ["victim"]

KEEPS_LITTLE = {"keepTokens": 3_000, "minDeadTokens": 1_000, "minSavedTokens": 1_000}
LAST = "Part 7: look at the logs, then note what failed in notes-7.md."
OWN = Path(".config/sessioncompress/config.json")


@pytest.fixture
def session(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a session that can be cut into the folder, with a policy there that lets it be."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path(os.environ["HOME"], ".config")))
    policy(here / "compression.json", compact=KEEPS_LITTLE)
    return write(here, pi())


class Answering:
    """Somebody who types lines, after so many seconds each; then nobody does. The clock is its own."""

    def __init__(self, lines: Sequence[tuple[float, str]]) -> None:
        self.lines = list(lines)
        self.clock = 0.0

    def line(self, left: float | None = None) -> str | None:
        seconds, text = self.lines.pop(0) if self.lines else (1e9, "")
        if left is not None and seconds > left:
            self.clock += left
            return None
        self.clock += seconds
        return text


def answer(monkeypatch: pytest.MonkeyPatch, *lines: str | tuple[float, str]) -> Answering:
    """Type lines; each takes a second, if it does not say how many."""
    terminal = Answering([each if isinstance(each, tuple) else (1, each) for each in lines])
    monkeypatch.setattr(options, "may_be_asked", lambda: True)
    monkeypatch.setattr(compact, "_line", terminal.line)
    monkeypatch.setattr(compact, "monotonic", lambda: terminal.clock)
    return terminal


def asked(*options: str | Path) -> tuple[Any, str]:
    """Compact the session with the question; return what the document says of it, and stderr."""
    result = run("compact", "session.jsonl", "--ask", "--json", *options)
    assert result.exit_code == 0, result.output
    (told,) = json.loads(result.stdout)["files"]
    return told, result.stderr


# Options


FOUND_NOTHING = {
    "no list": (["--goal-from", "todo"], "its todo list has no open items: the summary has no goal"),
    "no word": (
        ["--instructions", "zebra"],
        "the instructions share no word with the session, so they change nothing in the summary",
    ),
}


@pytest.mark.parametrize("name", FOUND_NOTHING)
def test_what_found_nothing_is_said(session: Path, name: str) -> None:
    """On stderr, with what stands instead; what found something is not."""
    options, said = FOUND_NOTHING[name]
    result = run("compact", session, "--dry-run", *options)
    assert result.exit_code == 0
    assert result.stderr == f"warning: {session}: {said}\n"
    assert run("compact", session, "--dry-run", "--goal", "x", "--instructions", "gauge 5").stderr == ""


def test_a_goal_that_was_taken_from_the_session_is_said(session: Path) -> None:
    """It may be no goal at all; one of a summary before stays where a new one is not found."""
    data = session.read_bytes() + b"".join(_said("ok, \x1b[1mthanks", session.read_bytes()))
    session.write_bytes(data)
    result = run("compact", session, "--goal-from", "last")
    assert result.exit_code == 0
    assert f"{session}: goal (--goal-from last): ok, thanks\n" in result.stderr
    assert "goal (" not in run("compact", session, "--goal-from", "last").stderr
    write(session.parent, pi_grown(session.read_bytes()))
    again = run("compact", session, "--goal-from", "todo", "--print")
    assert "its todo list has no open items: the goal of the earlier summary stays" in again.stderr
    assert "## Current goal\n- > ok, thanks\n" in again.stdout


def _said(words: str, data: bytes) -> list[bytes]:
    leaf = json.loads(data.splitlines()[-1])["id"]
    message = {"role": "user", "content": [{"type": "text", "text": words}]}
    entry = {"type": "message", "id": "0a0b0c0d", "parentId": leaf, "timestamp": "2026-01-01T00:00:00.000Z"}
    return [json.dumps(entry | {"message": message}).encode() + b"\n"]


def test_a_goal_by_option(session: Path) -> None:
    """It heads the summary, and cuts at the newest request, unless something else is said."""
    told = one("compact", session, "--goal", "Mend the \x1b[1mgauge", "--dry-run")
    assert (told["goalMethod"], told["strategy"], told["by"]) == ("given", "sincePrompt", "extractive")
    assert (
        "## Current goal\n- > Mend the gauge\n" in run("compact", session, "--print", "--goal", "Mend the gauge").stdout
    )
    assert told["reason"] == (
        "with a goal, only the newest request and what came after it stay; --keep tokens (compact.keep) keeps "
        "as much as without a goal"
    )
    assert told["reason"] in run("compact", session, "--goal", "x", "--dry-run").stdout
    for keep in ("tokens", "sincePrompt"):
        chosen = one("compact", session, "--goal", "x", "--keep", keep, "--dry-run")
        assert (chosen["strategy"], chosen["reason"]) == (keep, "")
    assert one("compact", session, "--goal", "x", "--keep-tokens", "900", "--dry-run")["strategy"] == "tokens"
    assert one("compact", session, "--goal-from", "last", "--dry-run")["goalMethod"] == "last"
    assert one("compact", session, "--instructions", "gauge 5", "--dry-run")["strategy"] == "tokens"
    policy(session.parent / "compression.json", compact={**KEEPS_LITTLE, "keep": "tokens"})
    assert one("compact", session, "--goal", "x", "--dry-run")["strategy"] == "tokens"
    assert "## Current goal\n- > Mend it\n" in run("handoff", session, "--goal", "Mend it").stdout


WRONG = {
    "two goals": (("--goal", "x", "--goal-from", "last"), "use only one of"),
    "a goal and a question": (("--goal", "x", "--ask"), "use only one of"),
    "an empty goal": (("--goal", " \x1b[1m"), "--goal is empty"),
    "a question about a folder": ((".", "--ask"), "--ask needs the path of one session"),
    "a question about all": (("--all", "--ask"), "PATHS can't be combined with"),
}


@pytest.mark.parametrize(("options", "said"), WRONG.values(), ids=list(WRONG))
def test_options_that_do_not_go_together(session: Path, options: tuple[str, ...], said: str) -> None:
    before = snapshot(session)
    result = run("compact", session, *options)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert snapshot(session) == before


# The question


@pytest.mark.parametrize(
    ("lines", "method", "goal"),
    [
        (["1"], "chosen", LAST),
        (["3"], "chosen", LAST.replace("7", "5")),
        (["o", "Mend \x1b[1mthe </summary> gauge"], "other", "Mend the \u2039/summary> gauge"),
        (["O", (900, "Slowly typed")], "other", "Slowly typed"),
        (["o", ""], "auto", ""),
        (["a"], "auto", ""),
        ([""], "auto", ""),
        (["4", "x", "99999999999999999999", "\u0662", "-1", "2"], "chosen", LAST.replace("7", "6")),
        ([(29, "1")], "chosen", LAST),
        ([(31, "1")], "timeout", ""),
        ([(20, "x"), (20, "1")], "timeout", ""),
        ([], "timeout", ""),
    ],
)
def test_each_answer(session: Path, monkeypatch: pytest.MonkeyPatch, lines: list[Any], method: str, goal: str) -> None:
    """With a goal what came since the newest request stays, without one a share; 30 seconds without an answer is none."""
    answer(monkeypatch, *lines)
    told, said = asked()
    assert (told["goalMethod"], told["strategy"]) == (method, "sincePrompt" if goal else "share")
    assert f"  1  {LAST}\n" in said
    assert "  a  auto: no goal\n  o  type another goal\n" in said
    head = json.dumps(f"## Current goal\n- > {goal}\n", ensure_ascii=False)[1:-1]
    assert (head in session.read_text()) is bool(goal)
    assert not Path(os.environ["HOME"], OWN).exists()


def test_a_number_of_another_script_is_no_crash(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python takes for digits, and what it does not."""
    answer(monkeypatch, "\u00b2", "\u0661\u0661\u0661\u0661", "a")
    assert asked()[0]["goalMethod"] == "auto"
    assert session.exists()


@pytest.mark.parametrize("options", [("--dry-run",), ("--check",), ("--yes",)])
def test_nobody_is_asked_for_nothing(session: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str]) -> None:
    """A dry run tells of `auto`, and --yes takes it."""
    answer(monkeypatch, "1")
    result = run("compact", session, "--ask", "--json", *options)
    (told,) = json.loads(result.stdout)["files"]
    assert (told["goalMethod"], "What matters" in result.stderr) == ("auto", False)


def test_a_session_that_is_not_compacted_is_not_asked_about(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is short, or its store is damaged: the run says so."""
    terminal = answer(monkeypatch, "1")
    write(here, pi(1))
    told, said = asked()
    assert (told["status"], said, len(terminal.lines)) == ("unchanged", "", 1)


# What an answer writes


def deliberate(here: Path, *, window: int = 10_000_000) -> Path:
    """Let the rule act on the session now, by the user's own configuration; return that."""
    budget = {"rule": "deliberate", "models": [{"pattern": "*", "contextWindow": window, "outputLimit": 1_000}]}
    file = Path(os.environ["HOME"], OWN)
    file.parent.mkdir(parents=True, exist_ok=True)
    policy(file, budget=budget)
    file.chmod(0o600)
    return file


def test_less_often_again_and_again(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """40,000 / 25 becomes 60,000 / 38, and that 90,000 / 57, up to the limits, in the user's own file, which is shown before."""
    file = deliberate(session.parent)
    before = file.read_bytes().removesuffix(b"}}}")
    near = (session.parent / "compression.json").read_bytes()
    for tokens, messages in ((60_000, 38), (90_000, 57), (135_000, 86), (200_000, 100)):
        write(session.parent, pi())
        answer(monkeypatch, "l")
        told, said = asked()
        run("restore", session)
        assert told["goalMethod"] == "lessOften"
        assert f"  l  less often: actTokens {tokens:,}, actMessages {messages}\n" in said
        assert f'{file}: {{"budget": {{"actTokens": {tokens}, "actMessages": {messages}}}}}\n' in said
        budget = json.loads(file.read_bytes())["session"]["budget"]
        assert (budget["actTokens"], budget["actMessages"]) == (tokens, messages)
    assert file.read_bytes().startswith(before[:-2])
    assert (session.parent / "compression.json").read_bytes() == near


def test_what_a_file_near_the_session_says_is_not_made_the_users(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be anybody's: less often is not offered by its numbers."""
    file = deliberate(session.parent)
    before = file.read_bytes()
    policy(session.parent / "compression.json", compact=KEEPS_LITTLE, budget={"actTokens": 200_000})
    answer(monkeypatch, "l", "a")
    assert "less often" not in asked()[1]
    assert file.read_bytes() == before


def test_never(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no configuration, one is begun; afterwards nobody is asked. Not less often: no rule acts by that."""
    near = (session.parent / "compression.json").read_bytes()
    file = Path(os.environ["HOME"], OWN)
    answer(monkeypatch, "l", "n")
    told, said = asked()
    assert (told["status"], told["goalMethod"]) == ("compacted", "never")
    assert "less often" not in said
    assert f'{file}: {{"compact": {{"ask": false}}}}\n' in said
    assert json.loads(file.read_bytes()) == {"session": {"compact": {"ask": False}}}
    assert (session.parent / "compression.json").read_bytes() == near
    write(session.parent, pi(), "other.jsonl")
    answer(monkeypatch, "1")
    assert "What matters" not in run("compact", "other.jsonl", "--ask").stderr


def test_the_named_file_is_written(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = policy(session.parent / "mine.json", compact=KEEPS_LITTLE)
    answer(monkeypatch, "n")
    asked("--config", named)
    assert json.loads(named.read_bytes())["session"]["compact"] == {**KEEPS_LITTLE, "ask": False}
    assert not Path(os.environ["HOME"], OWN).exists()


def test_a_file_that_wins_is_said(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near = policy(session.parent / "compression.json", compact={**KEEPS_LITTLE, "ask": True})
    answer(monkeypatch, "n")
    assert f"warning: {near}: it sets this too, and takes precedence for this session" in asked()[1]


def test_a_configuration_that_does_not_count_is_not_written(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may write to it: what is there says nothing, and neither does an answer."""
    file = deliberate(session.parent)
    file.chmod(0o666)
    before = file.read_bytes()
    answer(monkeypatch, "n", "a")
    said = asked()[1]
    assert "never" not in said
    assert file.read_bytes() == before


def test_what_cannot_be_written_changes_no_session(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = policy(session.parent / "mine.json", compact=KEEPS_LITTLE)
    os.link(named, session.parent / "link.json")
    before = session.read_bytes()
    answer(monkeypatch, "n")
    result = run("compact", session, "--ask", "--config", named)
    assert result.exit_code == 4
    assert "neither was any session" in result.stderr
    assert session.read_bytes() == before


def test_the_valve_hides_both(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And asks though nobody is to be asked: the session is due in any case."""
    file = deliberate(session.parent, window=20_000)
    document = json.loads(file.read_bytes())
    document["session"]["compact"] = {"ask": False}
    file.write_text(json.dumps(document))
    before = file.read_bytes()
    answer(monkeypatch, "l", "n", "2")
    told, said = asked()
    assert told["goalMethod"] == "chosen"
    assert "  l  " not in said
    assert "  n  " not in said
    used, why = said.splitlines()[:2]
    tokens, percent = re.findall(r"session.jsonl: ([\d,]+) tokens in use, (\d+) % of the window", used)[0]
    assert round(int(tokens.replace(",", "")) / 200) == int(percent) >= 50
    assert why == "It is due in any case (budget.safetyPercent 50), so less often and never are not offered."
    assert file.read_bytes() == before


# A terminal

PROGRAM = """
import sys
from sessioncompress.cli import compact
compact._line = {line}
from sessioncompress.__main__ import run
run()
"""


def at_terminal(folder: Path, typed: bytes, line: str = "compact._line") -> tuple[Any, str]:
    """Compact the session in a process at a pseudo terminal; return what its document says, and what was printed."""
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    command = [sys.executable, "-c", PROGRAM.format(line=line), "compact", "session.jsonl", "--ask", "--json"]
    done = subprocess.run(command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, cwd=folder, check=False)
    said = os.read(ours, 1 << 16).decode()
    for each in (ours, theirs):
        os.close(each)
    assert done.returncode == 0, said
    return json.loads(done.stdout)["files"][0], said


def test_at_a_pseudo_terminal(session: Path) -> None:
    told, said = at_terminal(session.parent, b"x\no\nMend it\n")
    assert told["goalMethod"] == "other"
    assert "Answer (auto after 30 seconds): " in said
    assert b"- > Mend it" in session.read_bytes()


@pytest.mark.parametrize("typed", [b"", b"\x04"], ids=["nothing", "the end"])
def test_nobody_answers_at_a_pseudo_terminal(session: Path, typed: bytes) -> None:
    line = "compact._line" if typed else "lambda seconds: None if 29 < seconds <= 30 else 'o'"
    told, said = at_terminal(session.parent, typed, line)
    assert (told["status"], told["goalMethod"], told["strategy"]) == ("compacted", "auto", "share")
    assert said.endswith("auto\r\n") or "auto\r\nundo with" in said


def test_without_a_terminal_nobody_is_asked(session: Path) -> None:
    told = document("compact", session, "--ask")["files"][0]
    assert (told["status"], told["goalMethod"], told["strategy"]) == ("compacted", "auto", "share")


# Commands


def test_commands_by_option_and_by_the_users_file(session: Path) -> None:
    """A failure before leaves the session, exit code 3; one afterwards is said, exit code 0."""
    before = session.read_bytes()
    result = run("compact", session, "--before-command", "sh -c 'exit 9'")
    assert result.exit_code == 3
    assert "the beforeCommand sh failed: it exited with status 9" in result.stderr
    assert session.read_bytes() == before
    named = policy(session.parent / "mine.json", compact=KEEPS_LITTLE, afterCommand="false")
    result = run("compact", session, "--config", named)
    assert result.exit_code == 0
    assert "session.jsonl: the afterCommand false failed: it exited with status 1; the summary was" in result.stderr
    assert session.read_bytes() != before


@pytest.mark.parametrize(
    ("key", "where"), [("beforeCommand", "compression.json"), ("afterCommand", ".GITCLAW/compression.json")]
)
def test_a_command_of_a_clone_is_not_run(victim: Victim, key: str, where: str) -> None:
    """It is an error, in a dry run too; with the user's own the clone's does not count."""
    mark = victim.folder / "mark"
    file = victim.commits(
        {key: f"touch {mark}", "compact": {"keepTokens": 1, "minDeadTokens": 1, "minSavedTokens": 1}}, where
    )
    before = victim.tree()
    done = victim.sessioncompress("compact", "--dry-run", victim.session)
    assert (done.returncode, done.stdout, victim.tree()) == (2, "", before)
    assert done.stderr.startswith(f'failed: {file}: the policy\'s "session.{key}" names a program to run, which a file')
    option = f"--{key.removesuffix('Command')}-command"
    done = victim.sessioncompress("compact", option, f"touch {victim.home}/mine", victim.session)
    assert done.returncode == 0, done.stderr
    assert (victim.home / "mine").exists()
    assert not mark.exists()
