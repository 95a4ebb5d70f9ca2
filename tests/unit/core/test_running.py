"""Programs that are run for a user: what they print, how long they may take, and what they leave behind."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from sessioncompress.core import process

MOST = 100_000


def ran(program: str, given: bytes = b"", *, seconds: float = 10) -> process.Ran:
    return process.run([sys.executable, "-S", "-c", program], given, seconds=seconds, most=MOST)


FAILING = {
    "an exit status": ("raise SystemExit(3)", 10.0, "it exited with status 3"),
    "a signal": ("import os; os.kill(os.getpid(), 9)", 10.0, "signal 9 stopped it"),
    "a hang": ("import time; time.sleep(30)", 0.3, "it took longer than 0.3 seconds"),
    "a hang with closed output": ("import os, time; os.close(1); time.sleep(30)", 0.3, "it took longer than"),
    "output without end": ("while True: print('x' * 1000)", 10.0, f"it printed more than {MOST:,} bytes"),
    "output that trickles": (
        "import time\nwhile True: print('x', flush=True); time.sleep(.01)",
        0.3,
        "it took longer than",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_counts_as_failed(name: str) -> None:
    program, seconds, failure = FAILING[name]
    began = time.monotonic()
    assert ran(program, b"x" * 500_000, seconds=seconds).failure.startswith(failure)
    assert time.monotonic() - began < 5


def test_a_child_that_holds_the_pipe_is_not_waited_for_and_ends(tmp_path: Path) -> None:
    program = (
        "import os, time\nprint('done', flush=True)\n"
        f"if os.fork() == 0:\n    open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n    time.sleep(30)\n"
        f"while not os.path.exists({str(tmp_path / 'pid')!r}): time.sleep(.01)\n"
    )
    began = time.monotonic()
    assert ran(program) == process.Ran(b"done\n")
    assert time.monotonic() - began < 5
    status = Path(f"/proc/{(tmp_path / 'pid').read_text()}/status")
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() - began < 5
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["/nowhere/at/all", "/etc/hostname", "a\0b"])
def test_one_that_cannot_be_started(name: str) -> None:
    assert process.run([name], b"", seconds=1, most=1).failure.startswith("it could not be started (")
