"""An interrupt is 130 at any time, and never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sessioncompress
from sessioncompress import interrupt

INTERRUPTED_AT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
{ignored}
from sessioncompress.__main__ import run
sys.argv[1:] = ["show", "0123456789ab"]
run()
"""


def interrupted(folder: Path, module: str, *, ignored: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process that is interrupted when a module is imported."""
    ignore = "signal.signal(signal.SIGINT, signal.SIG_IGN)" if ignored else ""
    program = INTERRUPTED_AT.format(module=module, ignored=ignore)
    environment = {**os.environ, "PYTHONPATH": str(Path(sessioncompress.__file__).parent.parent), "HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, cwd=folder, env=environment, timeout=60
    )


@pytest.mark.parametrize("module", ["sessioncompress.cli", "click", "sessioncompress.errors"])
def test_while_it_starts(tmp_path: Path, module: str) -> None:
    """It goes without a word."""
    done = interrupted(tmp_path, module)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_while_it_works(tmp_path: Path) -> None:
    """It says in which state everything is, although most of it is imported only then."""
    done = interrupted(tmp_path, "orjson")
    assert done.returncode == 130
    assert done.stderr.startswith(b"Interrupted; ")
    assert done.stderr.count(b"\n") == 1


def test_where_it_is_ignored(tmp_path: Path) -> None:
    """A shell's background job goes on."""
    done = interrupted(tmp_path, "click", ignored=True)
    assert done.returncode == 2
    assert b"no original with the reference" in done.stderr


def test_a_command_that_is_called_from_a_program_leaves_its_signals_alone() -> None:
    """Only the program itself decides what an interrupt does outside of the commands."""
    before = signal.getsignal(signal.SIGINT)
    with interrupt.raised():
        assert signal.getsignal(signal.SIGINT) is before
    assert signal.getsignal(signal.SIGINT) is before
