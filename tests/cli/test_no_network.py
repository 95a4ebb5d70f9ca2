"""No byte leaves the machine: every command does its work where nobody may open a socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.commands import policy
from tests.support.long import LONG

_ENDS = 97
_GUARD = f"""
import os, sys
def forbid(event, args):
    if event.startswith("socket.") and event != "socket.gethostname":
        os.write(2, f"sockets are forbidden: {{event}} {{args}}".encode())
        os._exit({_ENDS})
sys.addaudithook(forbid)
"""
"""Ends a process, and each that it starts, where it opens a socket or looks up a name: nothing can catch that."""
_COMPACT = {"keepTokens": 3_000, "minDeadTokens": 1_000, "minSavedTokens": 1_000}


@pytest.fixture
def guarded(tmp_path: Path) -> Mapping[str, str]:
    """Return the environment of processes that may not open a socket."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_GUARD)
    return {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def test_the_guard_ends_a_process(guarded: Mapping[str, str]) -> None:
    """Also where it would go on after an error, and in a process that it starts."""
    opens = "import socket\ntry:\n  socket.create_connection(('127.0.0.1', 9))\nexcept BaseException:\n  pass"
    starts = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {opens!r}]).returncode)"
    for script in (opens, starts):
        done = subprocess.run([sys.executable, "-c", script], env=guarded, capture_output=True, check=False)
        assert (done.returncode, b"sockets are forbidden" in done.stderr) == (_ENDS, True), done


def test_no_command_opens_a_socket(guarded: Mapping[str, str], tmp_path: Path) -> None:
    """Over a session of each agent; and each command does something."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    policy(folder / "compression.json", sizeThresholdKB=0, minSavedKB=0, compact=_COMPACT)
    paths = [folder / f"{name.replace(' ', '-')}.jsonl" for name in LONG]
    for path, made in zip(paths, LONG.values(), strict=True):
        path.write_bytes(made(8))

    def run(*words: str | Path) -> str:
        command = [sys.executable, "-m", "sessioncompress", *map(str, words)]
        done = subprocess.run(command, env=guarded, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, (words[0], done.stderr)
        return done.stdout

    before = [path.read_bytes() for path in paths]
    for name, statuses in (("compact", {"compacted"}), ("compress", {"compressed", "unchanged"})):
        found = json.loads(run(name, "--jobs", "1", "--json", *paths))["files"]
        assert {each["status"] for each in found} <= statuses, found
        assert any(each["status"] != "unchanged" for each in found)
    assert len(json.loads(run("stats", "--jobs", "1", "--json", *paths))["files"]) == len(paths)
    run("report", "-o", tmp_path / "page.html", *paths)
    assert "<html" in (tmp_path / "page.html").read_text("utf-8")
    run("restore", "--jobs", "1", *paths)
    assert [path.read_bytes() for path in paths] == before
