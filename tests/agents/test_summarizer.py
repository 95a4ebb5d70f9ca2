"""Real agents write the summary, as `--summarizer`: the prompt on their stdin reaches the model, its answer the session."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sessioncompress.operations.restore import restore_session
from tests.agents import claude, pi
from tests.agents.installed import need
from tests.agents.replies import TEXT
from tests.agents.resuming import environment_of
from tests.agents.sessions import FIXTURES
from tests.agents.standin import StandIn
from tests.support.long import pi as long
from tests.support.runs import write


def summed_up(folder: Path, agent: Sequence[str], environment: Mapping[str, str], stand_in: StandIn) -> list[Path]:
    """Compact a session with a command, and check what was asked and written; return what lies in the folder then."""
    session = write(folder, long(8))
    own = folder / "own.json"
    few = {"keepTokens": 3_000, "minDeadTokens": 1_000, "minSavedTokens": 1_000}
    own.write_text(json.dumps({"session": {"compact": few}}))
    command = [sys.executable, "-m", "sessioncompress", "compact", "--json", "--config", str(own)]
    command += ["--on-failure", "leave", "--summarizer", shlex.join(agent), str(session)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["files"]
    assert told["by"] == "command"
    assert stand_in.strangers == []
    asked = json.dumps(stand_in.requests[-1].body)
    assert "another model goes on" in asked
    assert "<conversation>" in asked
    assert "Part 0: look at the logs" in asked
    assert f"> {TEXT}" in session.read_text()
    restore_session(session)
    assert session.read_bytes() == long(8)
    return [path for path in folder.rglob("*.jsonl") if ".sessioncompress" not in path.parts and path != session]


def test_claude_code_writes_it(tmp_path: Path) -> None:
    """And leaves no session of its own."""
    command = claude.command(claude.NEW)
    need(command, f"Claude Code {claude.NEW}")
    home = tmp_path / "home"
    home.mkdir()
    with StandIn() as stand_in:
        environment = {**environment_of(home, stand_in.url), **claude.environment(stand_in.url)}
        agent = [*command, "-p", "--no-session-persistence", "--tools", ""]
        assert summed_up(tmp_path, agent, environment, stand_in) == []


def test_pi_writes_it(tmp_path: Path) -> None:
    version = "0.87.1"
    need(version in pi.versions(), f"pi {version}")
    there = pi.home(FIXTURES / "pi-anthropic.jsonl", tmp_path / "agent")
    with StandIn() as stand_in:
        providers = pi.providers(there.models, stand_in.url, 10_000_000)
        (there.agent / "models.json").write_text(json.dumps({"providers": providers}))
        agent = pi._command(version, [*pi._choice(there.models), "-p", "--no-session", "--no-tools"])
        environment = pi.environment_of(there.agent, stand_in.url, Path(agent[0]))
        (tmp_path / "work").mkdir()
        assert (
            summed_up(tmp_path / "work", agent, environment | {"TMPDIR": os.environ.get("TMPDIR", "/tmp")}, stand_in)
            == []
        )
