"""A signal that ends us ends the programs that we run for the user, with all that they began; sessions stay."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import sessioncompress
from sessioncompress.core import process
from tests.support.commands import policy
from tests.support.long import pi
from tests.support.runs import noted, write

KEEPS_LITTLE = {"keepTokens": 3_000, "minDeadTokens": 1_000, "minSavedTokens": 1_000}
CODES = {each: -each for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)} | {signal.SIGINT: process.EXIT_CODE}


def thinking(folder: Path, *, stubborn: bool = False) -> str:
    """Write a command that begins another one and then thinks for long; it notes both, and how it is asked to end."""
    asked = "" if stubborn else f"echo asked > {folder}/$$.asked; exit 1"
    line = f"trap '{asked}' TERM; sleep 60 & echo $$ $! > {folder}/$$.ids; while :; do wait; sleep .1; done"
    return shlex.join(["sh", "-c", line])


def begun(options: Sequence[str | Path]) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(sessioncompress.__file__).parent.parent)}
    command = [sys.executable, "-m", "sessioncompress", "compact", "--json", *map(str, options)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def thinkers(folder: Path, number: int = 1) -> list[int]:
    """Wait for so many commands, and return the processes of all."""
    ends = time.monotonic() + 30
    while len(found := [path.read_text().split() for path in folder.glob("*.ids") if path.stat().st_size]) < number:
        assert time.monotonic() < ends
        time.sleep(0.02)
    return [int(each) for ids in found for each in ids]


def are_gone(ids: Sequence[int]) -> bool:
    ends = time.monotonic() + 10
    while alive := [each for each in ids if _is_alive(each)]:
        if time.monotonic() > ends:
            return not alive
        time.sleep(0.02)
    return True


def _is_alive(number: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("number", "name"),
    [
        *((number, "summarizer") for number in CODES),
        (signal.SIGINT, "before-command"),
        (signal.SIGTERM, "after-command"),
    ],
)
def test_a_signal_ends_what_runs_for_the_user(here: Path, number: signal.Signals, name: str) -> None:
    """It is asked to end, and so is what it began; we end as if nothing had run."""
    policy(here / "compression.json", compact=KEEPS_LITTLE)
    session = write(here, pi(8))
    before = session.read_bytes()
    with begun([f"--{name}", thinking(here), session]) as ours:
        ids = thinkers(here)
        ours.send_signal(number)
        out, _ = ours.communicate(timeout=20)
    assert (ours.returncode, out) == (CODES[number], "")
    assert are_gone(ids)
    assert list(here.glob("*.asked"))
    assert (session.read_bytes() == before) is (name != "after-command")


@pytest.mark.parametrize("signals", [1, 2])
def test_what_does_not_end_is_killed(here: Path, signals: int) -> None:
    """After a while, or at once when a signal comes again."""
    policy(here / "compression.json", compact=KEEPS_LITTLE)
    with begun(["--summarizer", thinking(here, stubborn=True), write(here, pi(8))]) as ours:
        ids = thinkers(here)
        began = time.monotonic()
        ours.terminate()
        # Two signals that come before the first is taken are one.
        while signals == 2 and ours.poll() is None:
            time.sleep(0.2)
            ours.terminate()
        ours.communicate(timeout=20)
    assert ours.returncode == -signal.SIGTERM
    assert (time.monotonic() - began < process.GRACE) is (signals == 2)
    assert are_gone(ids)


def test_an_interrupt_of_several_in_turn(here: Path) -> None:
    """The one at work is left, by name; no other is begun."""
    policy(here / "compression.json", compact=KEEPS_LITTLE)
    sessions = [write(here, pi(8), f"{number}.jsonl") for number in range(3)]
    with begun(["--summarizer", thinking(here), *sessions]) as ours:
        ids = thinkers(here)
        ours.send_signal(signal.SIGINT)
        out, said = ours.communicate(timeout=20)
    assert ours.returncode == process.EXIT_CODE
    assert [each["status"] for each in json.loads(out)["files"]] == ["failed"]
    assert "it was stopped together with sessioncompress. The session was not changed." in said
    assert "2 files left" in said
    assert are_gone(ids)
    assert {each.read_bytes() for each in sessions} == {pi(8)}


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "SIGINT to all", "SIGINT twice"])
def test_several_at_once(here: Path, how: str) -> None:
    """Whoever they work for is gone, or the terminal interrupts all."""
    policy(here / "compression.json", compact=KEEPS_LITTLE)
    data = pi(300)
    sessions = [write(here, data, f"{number}.jsonl") for number in range(2)]
    with begun(["--jobs", "2", "--summarizer", thinking(here), *sessions]) as ours:
        ids = thinkers(here, 2)
        if how == "SIGINT to all":
            os.killpg(ours.pid, signal.SIGINT)
        else:
            ours.send_signal(signal.Signals[how.split(maxsplit=1)[0]])
        if how == "SIGINT twice":
            noted(ours)
            ours.send_signal(signal.SIGINT)
        ours.communicate(timeout=20)
    assert ours.returncode == (process.EXIT_CODE if "SIGINT" in how else -signal.Signals[how])
    assert are_gone(ids)
    assert [each.read_bytes() == data for each in sessions] == [True, True]
