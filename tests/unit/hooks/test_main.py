"""A hook fails no agent: exit 0 in time, whatever it is given; and it starts fast."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sessioncompress.hooks import base
from sessioncompress.hooks import ended as ended_module
from sessioncompress.hooks.__main__ import main
from sessioncompress.hooks.base import Ending
from sessioncompress.hooks.ended import QUIET_SECONDS
from tests.support.long import claude
from tests.support.runs import fixture
from tests.unit.hooks.calls import INVENTED, ROOT, call, compressed, logged, markers, run

SECONDS = 30
KEEPS_LITTLE = {"keepTokens": 3_000, "minDeadTokens": 1_000, "minSavedTokens": 1_000}


BAD = {
    "empty": b"",
    "half": b"{",
    "list": b"[]",
    "number": b"1",
    "bytes": b"\xff",
    "no call": b'{"tool_input": 1}',
    "marker": INVENTED.encode(),
    "no path": b'{"transcript_path": 1}',
    "deep": b"[" * 100_000,
}
# The others read none of it.
HOOKS = [
    *((hook, bad) for hook in ("guard", "ended") for bad in BAD),
    *((hook, "half") for hook in ("compress", "no", "")),
]


@pytest.mark.parametrize(("hook", "bad"), HOOKS)
def test_bad_input_ends_quietly(hook: str, bad: str, tmp_path: Path) -> None:
    done = run(hook, BAD[bad], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (hook == "guard" and bad != "marker") or f" {hook}: " in logged(tmp_path)


@pytest.mark.parametrize("hook", ["guard", "ended", "no such hook"])
def test_no_time_is_up_while_an_error_is_noted(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would handle it: the agent would see a traceback."""
    left, closed = list[int](), io.BytesIO()
    closed.close()
    monkeypatch.setattr(base, "note_in_log", lambda what, text: left.append(signal.alarm(0)))
    before = signal.getsignal(signal.SIGALRM)
    try:
        main([hook], closed, io.BytesIO())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert left == [0]


def test_the_guard_answers_as_a_process(tmp_path: Path) -> None:
    session = compressed(tmp_path)
    done = run("guard", call(session, content=markers(session)[0]), tmp_path / "state")
    assert done.returncode == 0
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "guard: refused Write" in logged(tmp_path / "state")


@pytest.mark.slow
def test_a_guard_that_waits_too_long_lets_the_call_run(tmp_path: Path) -> None:
    """Here a pipe that nobody writes to has taken the session's place."""
    session = compressed(tmp_path, keep_backup=False)
    session.unlink()
    os.mkfifo(session)
    started = time.monotonic()
    done = run("guard", call(session, content="[[sessioncompress: 7 lines, 9 KB]]"), tmp_path / "state")
    assert (done.returncode, done.stdout) == (0, b"")
    assert time.monotonic() - started < SECONDS
    assert "guard: given up after 5 seconds" in logged(tmp_path / "state")


@pytest.mark.slow
def test_a_guard_that_gets_nothing_does_not_wait_for_ever(tmp_path: Path) -> None:
    start = [sys.executable, "-P", "-m", "sessioncompress.hooks", "guard"]
    own = {"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(start, env=own, stdin=subprocess.PIPE) as process:
        assert process.wait(SECONDS) == 0
    assert "guard: given up" in logged(tmp_path)


def test_an_ordinary_call_imports_next_to_nothing() -> None:
    """It runs before each write: nothing of what reads sessions, nor the command line."""
    program = (
        "import sys, io; from sessioncompress.hooks.__main__ import main;"
        "before = set(sys.modules); main(['guard'], io.BytesIO(b'{}'), io.BytesIO());"
        "print(*(name for name in sys.modules if name in"
        " ('click', 'orjson', 'xxhash', 'json', 'subprocess', 'hashlib') or name.startswith('sessioncompress')))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", program],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= {
        "sessioncompress",
        "sessioncompress.core",
        "sessioncompress.core.marker",
        "sessioncompress.hooks",
        "sessioncompress.hooks.__main__",
        "sessioncompress.hooks.guard",
    }


def ended(session: Path, state: Path, *options: str) -> str:
    """Let a session end; return what the process behind it notes."""
    started = time.monotonic()
    done = run("ended", json.dumps({"transcript_path": str(session), "reason": "other"}).encode(), state, *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert " compress: " not in logged(state), "the agent waited for it"
    while " compress: " not in logged(state):
        assert time.monotonic() - started < SECONDS, logged(state)
        time.sleep(0.05)
    return logged(state)


def test_an_ended_session_is_compressed_once_it_is_quiet(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    (tmp_path / "compression.json").write_text('{"session": {"turnThresholdBeforeCompress": 1}}')
    written = time.monotonic()
    session.write_bytes(fixture("claude-code.jsonl"))
    assert " smaller; " in ended(session, tmp_path / "state")
    assert time.monotonic() - written > QUIET_SECONDS
    assert session.stat().st_size < len(fixture("claude-code.jsonl"))


def test_an_ended_session_is_compacted_first_where_that_is_asked_for(tmp_path: Path) -> None:
    """Then what the summary stands for is compressed."""
    session = tmp_path / "session.jsonl"
    given = {"compact": KEEPS_LITTLE, "sizeThresholdKB": 0, "minSavedKB": 0}
    (tmp_path / "compression.json").write_text(json.dumps({"session": given}))
    session.write_bytes(claude())
    said = ended(session, tmp_path / "state", "--compact")
    assert [line.split(" ")[1] for line in said.splitlines()] == ["compact:", "compress:"]
    assert " (9 of 48 messages kept" in said
    assert " smaller; " in said
    assert b'"isCompactSummary":true' in session.read_bytes()


def by_hook(folder: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, **keys: object) -> list[str]:
    """Let a session with a policy end, with `--compact`; return what is noted of it."""
    (folder / "compression.json").write_text(json.dumps({"session": {"compact": KEEPS_LITTLE, **keys}}))
    (folder / "session.jsonl").write_bytes(data)
    os.utime(folder / "session.jsonl", (1_700_000_000,) * 2)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    ended_module.compress(folder / "session.jsonl", Ending(compact=True))
    return [line.partition("session.jsonl: ")[2] for line in logged(folder / "state").splitlines()]


OMP = {"rule": "omp", "thresholdTokens": 10_000}


@pytest.mark.slow
def test_an_ended_session_is_compressed_with_the_preset_of_its_hook(tmp_path: Path) -> None:
    """Under the policy of its folder; a preset that is none is noted."""
    sizes = []
    for preset in (None, "archive"):
        folder = tmp_path / str(preset)
        folder.mkdir()
        (folder / "compression.json").write_text('{"session": {"sizeThresholdKB": 0, "minSavedKB": 0}}')
        (folder / "session.jsonl").write_bytes(fixture("claude-code.jsonl"))
        ended(folder / "session.jsonl", folder / "state", *Ending(preset=preset).options())
        sizes.append((folder / "session.jsonl").stat().st_size)
    assert sizes[1] < sizes[0]
    assert "'frugal'" in ended(folder / "session.jsonl", tmp_path / "state", "--preset", "frugal")


COMPACTING: list[tuple[dict[str, object], int, str]] = [
    ({}, 8, " (9 of 48 messages kept"),
    ({}, 1, "unchanged: nothing is old enough to summarize"),
    ({"budget": OMP}, 8, " (9 of 48 messages kept"),
    ({"budget": {"rule": "omp"}}, 8, " tokens in use are within the threshold of 850,000 (rule omp)"),
    ({"enabled": False}, 8, "skipped: switched off by the policy (enabled: false)"),
]


@pytest.mark.parametrize(("keys", "turns", "expected"), COMPACTING)
def test_the_rule_says_whether_an_ended_session_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, object], turns: int, expected: str
) -> None:
    """Without one, or with that of sizes, it is wherever it holds enough."""
    first, second = by_hook(tmp_path, monkeypatch, claude(turns), **keys)
    assert expected in first
    assert "tokens for the model" not in second


@pytest.mark.slow
def test_a_session_is_found_from_where_the_agent_is(tmp_path: Path) -> None:
    """Pi names its file as --session-dir was given, and hooks start where it works."""
    (tmp_path / "compression.json").write_text('{"session": {"turnThresholdBeforeCompress": 1}}')
    (tmp_path / "session.jsonl").write_bytes(fixture("claude-code.jsonl"))
    assert " smaller; " in ended(Path("../session.jsonl"), tmp_path / "state")


@pytest.mark.slow
def test_who_ends_the_agents_processes_does_not_end_it(tmp_path: Path) -> None:
    """A terminal that is closed, or an agent that cleans up behind its hooks."""
    session = tmp_path / "session.jsonl"
    session.write_bytes(fixture("claude-code.jsonl"))
    program = (
        "import os, signal, sys; from pathlib import Path; from tests.unit.hooks.calls import run; os.setsid();"
        "print(run('ended', sys.argv[1].encode(), Path(sys.argv[2])).returncode, flush=True); os.killpg(0, signal.SIGKILL)"
    )
    given = json.dumps({"transcript_path": str(session)})
    start = [sys.executable, "-c", program, given, str(tmp_path / "state")]
    done = subprocess.run(start, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"0\n")
    until = time.monotonic() + SECONDS
    while " compress: " not in logged(tmp_path / "state"):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_a_session_that_is_held_open_is_waited_for(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    session.write_bytes(fixture("claude-code.jsonl"))
    (tmp_path / "compression.json").write_text('{"session": {"turnThresholdBeforeCompress": 1}}')
    with session.open("ab") as file:
        run("ended", json.dumps({"transcript_path": str(session)}).encode(), tmp_path / "state")
        time.sleep(4)
        assert "compress: " not in logged(tmp_path / "state")
        assert session.stat().st_ino == os.fstat(file.fileno()).st_ino
    until = time.monotonic() + SECONDS
    while " smaller; " not in logged(tmp_path / "state"):
        assert time.monotonic() < until, logged(tmp_path / "state")
        time.sleep(0.05)


def test_a_session_that_goes_on_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent was started again at once; it is not rewritten under it when the time is up."""
    session = tmp_path / "session.jsonl"
    session.write_bytes(fixture("claude-code.jsonl"))
    monkeypatch.setattr(ended_module, "MOST_SECONDS", 0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ended_module.compress(session)
    assert "it changed 0 seconds ago" in logged(tmp_path / "state")
    assert session.read_bytes() == fixture("claude-code.jsonl")


@pytest.mark.slow
def test_a_time_that_lies_ahead_is_not_waited_for(tmp_path: Path) -> None:
    """Of a file server whose clock is ahead, or a restored copy."""
    session = tmp_path / "session.jsonl"
    session.write_bytes(fixture("claude-code.jsonl"))
    os.utime(session, (time.time() + 3600,) * 2)
    assert "session.jsonl: " in ended(session, tmp_path / "state")


def test_subagents_of_a_session_that_is_gone_are_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be found stops none of the others."""
    folder = tmp_path / "session" / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-1.jsonl").write_bytes(fixture("claude-code.jsonl"))
    (tmp_path / "compression.json").write_text('{"session": {"turnThresholdBeforeCompress": 1}}')
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ended_module.compress(tmp_path / "session.jsonl")
    assert "session.jsonl: no such file" in logged(tmp_path / "state")
    assert " smaller; " in logged(tmp_path / "state")


# The log


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "sessioncompress"


def test_it_stays_bounded(state: Path) -> None:
    for _ in range(2 * base.LARGEST // 1000 + 300):
        base.note_in_log("guard", "x" * 3000)
    assert sorted(each.name for each in state.iterdir()) == ["hook.log", "hook.log.1"]
    assert all(each.stat().st_size < base.LARGEST + 3000 for each in state.iterdir())


def test_what_cannot_be_noted_is_not(state: Path, tmp_path: Path) -> None:
    """A link that someone put there is not followed, and nothing fails."""
    state.mkdir()
    (state / "hook.log").symlink_to(tmp_path / "elsewhere")
    base.note_in_log("guard", "one")
    assert not (tmp_path / "elsewhere").exists()
    state.rename(tmp_path / "moved")
    state.write_text("a file")
    base.note_in_log("guard", "one")
    assert state.read_text() == "a file"


def test_without_a_home_nothing_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container whose user nobody knows; the project's folder gets no `~`."""
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr("os.path.expanduser", str)
    monkeypatch.chdir(tmp_path)
    base.note_in_log("guard", "one")
    assert list(tmp_path.iterdir()) == []
