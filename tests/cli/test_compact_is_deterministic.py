"""The same bytes from every process: whatever the seed of hashes, the time zone, the language and the order of files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.long import LONG
from tests.support.runs import write

_POLICY = '{"session": {"compact": {"keepTokens": 3000, "minDeadTokens": 1000, "minSavedTokens": 1000}}}'
_PROCESSES: tuple[tuple[Mapping[str, str], int], ...] = (
    ({"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"}, 1),
    ({"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}, 2),
)


@pytest.mark.slow
def test_every_process_writes_the_same(tmp_path: Path) -> None:
    written: list[dict[str, bytes]] = []
    for number, (environment, jobs) in enumerate(_PROCESSES):
        folder = tmp_path / str(number)
        folder.mkdir()
        policy = tmp_path / "policy.json"
        policy.write_text(_POLICY)
        paths = [write(folder, made(8), f"{name}.jsonl") for name, made in LONG.items()]
        if number:
            paths.reverse()
        line = [sys.executable, "-m", "sessioncompress", "compact", f"--jobs={jobs}", f"--config={policy}"]
        line += map(str, paths)
        done = subprocess.run(line, env={**os.environ, **environment}, cwd=folder, check=False, capture_output=True)
        assert done.returncode == 0, done
        written.append({path.name: path.read_bytes() for path in paths})
    assert written[0] == written[1]
    assert [name for name, data in written[0].items() if b"Extracted by sessioncompress" not in data] == []
