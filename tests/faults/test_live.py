"""Nothing lost beside a live agent: it appends, we compress and restore, again and again, killed or not."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from sessioncompress.errors import InUse
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from tests.faults.effort import effort
from tests.faults.scenes import NAME, SIZES, built
from tests.faults.tools import ENVIRONMENT
from tests.support.runs import EAGER, write
from tests.unit.store.tools import left_over

_LINES, _SECONDS = effort((400, 8), (5_000, 20), (100_000, 2_000))
"""A writer is done with the one or the other: what a race finds, it finds by the rounds of our commands."""
_CELLS = [*product(("path", "descriptor"), (50, 2000), (1, 0), (0, 1)), ("halves", 50, 1, 0), ("halves", 2000, 1, 0)]
"""Halves are put together where all is seen; only bytes tell how much of them a killed run took."""


@pytest.mark.skipif(sys.platform != "linux", reason="who has a file open is asked of Linux")
def test_no_line_is_gone(tmp_path: Path) -> None:
    """Writers by path, in halves, by descriptor, slow and fast, seen or not, our commands killed or not: all at once."""
    cells = {}
    for cell in _CELLS:
        folder = tmp_path / "-".join(map(str, cell))
        folder.mkdir()
        writer, rate, seen, killed = cell
        lines = min(_LINES, rate * _SECONDS)
        arguments = [str(folder), writer, str(rate), str(lines), str(seen), str(killed)]
        line = [sys.executable, "-m", "tests.faults.live", *arguments]
        cells[cell] = subprocess.Popen(line, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for cell, process in cells.items():
        out, errors = process.communicate()
        assert process.returncode == 0, (cell, errors)
        found = json.loads(out)
        assert (found["gone"], found["twice"]) == (0, 0), (cell, found)
        assert found["rounds"] + found["refused"] + found["killed"] > 1, (cell, found)


@pytest.mark.parametrize("processes", [2, 8])
def test_our_own_processes_on_the_same_sessions(tmp_path: Path, processes: int) -> None:
    """They wait for each other, or say that the session is in use; none is damaged."""
    sessions = []
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        sessions.append(write(tmp_path / str(number), built(SIZES[0], 1), NAME))
    original = sessions[0].read_bytes()

    def work(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(40):
            path = dice.choice(sessions)
            try:
                _ = restore_session(path) if dice.random() < 0.5 else compress_session(path, EAGER)
            except InUse:
                continue
            except BaseException:
                os._exit(9)

    children = []
    for seed in range(processes):
        child = os.fork()
        if child == 0:
            work(seed)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * processes
    for path in sessions:
        restore_session(path)
        assert path.read_bytes() == original
        assert left_over(path.parent) == []
