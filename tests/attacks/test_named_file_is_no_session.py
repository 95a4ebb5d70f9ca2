"""A file that a user names, and that is no session at all, is refused by name, whatever its size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.support.build import PiSession
from tests.support.claude import ClaudeSession
from tests.support.documents import GeminiDocument
from tests.support.rollout import Rollout
from tests.support.runs import FIXTURES, HOMES, as_user

PASSWORDS = b"root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"

NO_SESSIONS: list[tuple[str, str, bytes]] = [
    ("a file of the system", "passwd", PASSWORDS),
    ("a large one", "large.txt", PASSWORDS * 2000),
    ("an empty one", "empty.jsonl", b""),
    ("a package", "package.json", json.dumps({"name": "a", "type": "module"}, indent=2).encode()),
    ("JSON lines of something else", "events.jsonl", b'{"type":"session","id":1}\n' * 9),
    ("a session of another harness", "deepseek.jsonl", (FIXTURES / "look-alike-deepseek.jsonl").read_bytes()),
    ("a text about sessions", "notes.md", b'# {"type":"session","id":"","timestamp":"","cwd":""}\n'),
]

SESSIONS: list[tuple[str, str, bytes]] = [
    ("pi", "s.jsonl", PiSession().bytes()),
    (
        "pi, before it was in JSON's usual order",
        "s.jsonl",
        b'{ "cwd": "/", "id": "a", "timestamp": "", "type": "session"}\n',
    ),
    ("pi, behind a mark", "s.jsonl", b"\xef\xbb\xbf" + PiSession().bytes()),
    ("Claude Code", "s.jsonl", ClaudeSession().turn().bytes()),
    ("Codex", "s.jsonl", Rollout().user("Go.").bytes()),
    ("Gemini CLI", "s.json", GeminiDocument().user("Go.").bytes()),
    (
        "a chat that names nobody",
        "s.jsonl",
        b'{"role":"user","content":"Go."}\n{"role":"assistant","content":"Done."}\n',
    ),
]

COMMANDS = [
    "compress",
    "compress --dry-run",
    "verify",
    "restore",
    "restore --from-markers",
    "stats",
    "budget",
    "forget",
]


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in HOMES}
    command = [sys.executable, "-m", "sessioncompress", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


@pytest.mark.parametrize("command", [*COMMANDS, "show 0123456789ab"])
def test_it_is_refused(tmp_path: Path, command: str) -> None:
    """Each by its name, with what it is; it stays as it is, and it has no store."""
    for case, name, data in NO_SESSIONS:
        (tmp_path / name).write_bytes(data)
        # One that compresses may answer before there is a command line.
        ran = run if command == "compress" else partial(as_user, os.environ)
        done = ran(tmp_path, *command.split(), name)
        assert done.returncode == 4, (case, done.stdout, done.stderr)
        assert f"{name}: this is " in done.stderr, case
        assert (tmp_path / name).read_bytes() == data
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(name for _, name, _ in NO_SESSIONS)


@pytest.mark.parametrize(("name", "data"), [case[1:] for case in SESSIONS], ids=[case[0] for case in SESSIONS])
def test_a_small_session_is_skipped(tmp_path: Path, name: str, data: bytes) -> None:
    """Whichever agent's it is: of one that the first bytes do not show, its format is asked."""
    (tmp_path / name).write_bytes(data)
    done = run(tmp_path, "compress", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{name}: skipped: " in done.stdout


@pytest.mark.parametrize("policy", [{"enabled": False}, {"idleSeconds": 10**6}], ids=lambda policy: next(iter(policy)))
def test_no_policy_makes_it_one(tmp_path: Path, policy: dict[str, object]) -> None:
    """Whether or not the policy would let sessions alone."""
    (tmp_path / "compression.json").write_text(json.dumps({"session": policy}))
    (tmp_path / "passwd").write_bytes(PASSWORDS * 2000)
    assert run(tmp_path, "compress", "passwd").returncode == 4


def modules(folder: Path, arguments: Sequence[str]) -> set[str]:
    """Return which modules of ours the command imports."""
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sessioncompress", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines() if "sessioncompress" in line}


def test_a_small_session_costs_no_format(tmp_path: Path) -> None:
    """A hook that runs after each turn finds most sessions so: their first bytes tell."""
    (tmp_path / "s.jsonl").write_bytes(PiSession().bytes())
    imported = modules(tmp_path, ["compress", "s.jsonl"])
    assert "sessioncompress.pipeline.triage" in imported
    assert "sessioncompress.cli.main" not in imported
    assert "sessioncompress.formats.pi" not in imported


def test_what_is_only_met_is_passed_over(tmp_path: Path) -> None:
    for name, data in (("small.jsonl", PASSWORDS), ("large.jsonl", PASSWORDS * 2000)):
        (tmp_path / name).write_bytes(data)
    for command in COMMANDS:
        done = as_user(os.environ, tmp_path, *command.split(), tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), command
