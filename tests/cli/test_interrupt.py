"""An interrupt is 130 at any time, and never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sessioncompress
from sessioncompress.core import process
from sessioncompress.store.layout import journals_in
from tests.bench.generate import generate
from tests.support.runs import but_undo

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


@pytest.mark.parametrize("module", ["sessioncompress.cli.main", "click", "sessioncompress.errors"])
def test_while_it_starts(tmp_path: Path, module: str) -> None:
    done = interrupted(tmp_path, module)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_while_it_works(tmp_path: Path) -> None:
    """It says in which state everything is, although most of it is imported only then."""
    done = interrupted(tmp_path, "orjson")
    assert done.returncode == 130
    assert done.stderr.startswith(b"Interrupted. ")
    assert done.stderr.count(b"\n") == 1


def test_where_it_is_ignored(tmp_path: Path) -> None:
    """A shell's background job goes on."""
    done = interrupted(tmp_path, "click", ignored=True)
    assert done.returncode == 2
    assert b"no original with the reference" in done.stderr


def test_a_command_that_is_called_from_a_program_leaves_its_signals_alone() -> None:
    """Only the program itself decides what an interrupt does outside of the commands."""
    before = signal.getsignal(signal.SIGINT)
    with process.raised():
        assert signal.getsignal(signal.SIGINT) is before
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_over_an_archive(tmp_path: Path, jobs: str) -> None:
    """The terminal sends it to all processes: the files at work are finished, and the next run does the others."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    generate(folder / "0.jsonl", 2)
    for number in range(1, 10):
        (folder / f"{number}.jsonl").write_bytes((folder / "0.jsonl").read_bytes())
    command = [sys.executable, "-m", "sessioncompress", "compress", "--json", "--jobs", jobs, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(sessioncompress.__file__).parent.parent), "HOME": str(tmp_path)}
    begun = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True, start_new_session=True
    )
    while not journals_in(folder) and begun.poll() is None:
        time.sleep(0.01)
    os.killpg(begun.pid, signal.SIGINT)
    out, err = begun.communicate(timeout=60)
    assert begun.returncode == 130
    done = json.loads(out)["files"]
    assert {each["status"] for each in done} == {"compressed"}
    assert 0 < len(done) < 10
    assert but_undo(err).splitlines() == [
        "",
        "Finishing the files in progress. Press Ctrl-C again to stop now.",
        f"Interrupted. {10 - len(done)} files left. Run the command again to continue.",
    ]
    assert len(list(folder.glob(".sessioncompress/*/*.zst"))) == len(done)
    assert {each.name for each in folder.iterdir() if each.stat().st_size < 1_500_000} - {".sessioncompress"} == {
        Path(each["path"]).name for each in done
    }
    again = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=120)
    assert again.returncode == 0
    became = {Path(each["path"]).name: each["status"] for each in json.loads(again.stdout)["files"]}
    before = {Path(each["path"]).name for each in done}
    assert became == {name: "unchanged" if name in before else "compressed" for name in became}
