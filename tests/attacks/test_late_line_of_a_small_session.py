"""A line that came to the old file of a run that was killed is carried over, also where nothing else is due."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.hooks import ended
from sessioncompress.operations.compress import compress_session
from sessioncompress.policy.model import BALANCED
from tests.support.build import PiSession
from tests.support.runs import invoke, snapshot, write
from tests.support.sessions import large
from tests.unit.store.tools import late_link

LATE = b'{"type":"custom","customType":"late","id":"ffffffff","parentId":null,"timestamp":"2026-01-01T00:00:00Z"}\n'


def _command(*arguments: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        done = invoke(*arguments, path)
        assert done.exit_code == 0, done.output

    return run


def _as_a_hook_calls_it(path: Path) -> None:
    subprocess.run([sys.executable, "-m", "sessioncompress", "compress", path], check=True, stdout=subprocess.DEVNULL)


WAYS: dict[str, Callable[[Path], object]] = {
    "the command": _command("compress"),
    "the quick way": _as_a_hook_calls_it,
    "pre-commit": _command("pre-commit"),
    "an agent's hook": ended.compress,
    "the library": lambda path: compress_session(path, BALANCED),
}


def killed_at_the_drain(path: Path) -> Path:
    """Leave a session as a run does that is killed between its swap and its drain, with a line that came late."""
    content = path.read_bytes()
    return late_link(path, content + LATE, carried=len(content))


@pytest.mark.parametrize("way", WAYS)
def test_under_the_threshold(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is asked for only then."""
    monkeypatch.setattr(ended, "QUIET_SECONDS", 0)
    path = write(tmp_path, PiSession().bytes())
    content = path.read_bytes()
    link = killed_at_the_drain(path)
    WAYS[way](path)
    assert path.read_bytes() == content + LATE
    assert not link.exists()


def test_in_a_folder(tmp_path: Path) -> None:
    """Of many sessions the one that has it is opened."""
    paths = [write(tmp_path, PiSession(seed=name).bytes(), f"{name}.jsonl") for name in "abc"]
    before = [path.read_bytes() for path in paths]
    killed_at_the_drain(paths[1])
    _command("compress")(tmp_path)
    assert [path.read_bytes() for path in paths] == [before[0], before[1] + LATE, before[2]]


def test_while_the_cache_may_have_it(tmp_path: Path) -> None:
    """The line is new to the provider: it is carried over, and nothing else happens."""
    path = large(tmp_path)
    now = time.time()
    (tmp_path / "compression.json").write_text(json.dumps({"session": {"idleSeconds": now}}))
    content = path.read_bytes()
    killed_at_the_drain(path)
    done = invoke("compress", path)
    assert "its provider may still have it cached" in done.stdout
    assert path.read_bytes() == content + LATE


def test_a_dry_run_leaves_it(tmp_path: Path) -> None:
    path = write(tmp_path, PiSession().bytes())
    killed_at_the_drain(path)
    before = snapshot(path)
    assert invoke("compress", "--dry-run", path).exit_code == 0
    assert snapshot(path) == before
