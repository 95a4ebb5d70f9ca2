"""The real agents call our hooks: a marker is not written, an ordinary text is, an ended session is compressed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress import compress_session
from sessioncompress.core.marker import whole_in
from tests.agents import claude, codex, gemini, opencode, pi, qwen
from tests.agents.claude import NEW, OLD
from tests.agents.installed import need
from tests.agents.replies import anthropic_call, chat_calls, gemini_call, responses_call
from tests.agents.sessions import FIXTURES, LITTLE_PROTECTED, ROOT, compressed
from tests.agents.standin import Request

SECONDS = 30
POLICY = {"sizeThresholdKB": 0, "minSavedKB": 0, "turnThresholdBeforeCompress": 1}
"""A fixture is to be compressed, however small it is."""


def hook(action: str, agent: str, home: Path, *options: str, **environment: str) -> str:
    """Run `sessioncompress hook` as a user with that home would; return what it said."""
    start = [sys.executable, "-P", "-m", "sessioncompress", "hook", action, agent, "--yes", *options]
    own = {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(start, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def small_pays(folder: Path) -> None:
    """Let sessions in this folder be compressed whatever their size."""
    (folder / "compression.json").write_text(json.dumps({"session": POLICY}))


def reference_after(session: Path, home: Path) -> str:
    """Wait until the session was compressed behind the agent; return a marker of it. The agent itself let it grow."""
    log = home / ".local" / "state" / "sessioncompress" / "hook.log"
    until = time.monotonic() + SECONDS
    while not (log.exists() and " compress: " in log.read_text()):
        assert time.monotonic() < until, log.read_text() if log.exists() else f"nothing in {log}"
        time.sleep(0.1)
    assert re.search(r" compress: .* smaller", log.read_text()), log.read_text()
    assert (session.parent / ".sessioncompress").is_dir()
    form = r"\[\[sessioncompress: [^\]]* kept on disk: sessioncompress show [0-9a-f]+\]\]"
    found = re.search(form, session.read_text(encoding="utf-8"))
    assert found
    return found[0]


def said_back(requests: Iterable[Request]) -> str:
    """Return what the model gets to read after its call."""
    *_, last = requests
    said = next(last.body[key] for key in ("messages", "input", "contents") if key in last.body)
    return json.dumps(said[-1])


# The agents

SETTINGS = '{\n\t"cleanupPeriodDays": 99999,\n\t"hooks": { }\n}\n'
MAY = "--allowedTools=Write,Bash"


@pytest.mark.parametrize("version", [OLD, NEW])
def test_hooks_of_claude(version: str, tmp_path: Path) -> None:
    need(claude.command(version), f"Claude Code {version}")
    there = claude.placed(FIXTURES / "claude-code.jsonl", tmp_path / "there")
    (session,) = there.home.glob(".claude/projects/*/*.jsonl")
    small_pays(session.parent)
    settings = there.home / ".claude" / "settings.json"
    settings.write_text(SETTINGS)
    hook("install", "claude", there.home)
    assert json.loads(settings.read_bytes())["cleanupPeriodDays"] == 99999

    plain, target = there.cwd / "plain.txt", there.cwd / "target.txt"
    write = anthropic_call("Write", {"file_path": str(plain), "content": "the level\n"}, "toolu_plain")
    claude.go_on(version, there, write, MAY)
    assert plain.read_text() == "the level\n"
    marker = reference_after(session, there.home)

    text = f"def level():\n{marker}\n"
    write = anthropic_call("Write", {"file_path": str(target), "content": text}, "toolu_write")
    sent = claude.go_on(version, there, write, MAY)
    assert not target.exists()
    assert len(sent) == 2
    assert "`sessioncompress show " in said_back(sent)
    shell = anthropic_call("Bash", {"command": f"cat > {target} <<'END'\n{text}END"}, "toolu_shell")
    sent = claude.go_on(version, there, shell, MAY)
    assert not target.exists()
    assert "`sessioncompress show " in said_back(sent)

    hook("uninstall", "claude", there.home)
    assert settings.read_text() == SETTINGS
    write = anthropic_call("Write", {"file_path": str(target), "content": text}, "toolu_free")
    claude.go_on(version, there, write, MAY)
    assert target.read_text() == text, "without the guard it is written, or the test shows nothing"


# codex

TRUSTED = ("--dangerously-bypass-hook-trust", "--sandbox", "danger-full-access")
THEIRS = '{"hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": "true"}]}]}}'


def patch(name: str, text: str) -> dict[str, Any]:
    added = "".join(f"+{line}\n" for line in text.splitlines())
    given = f"*** Begin Patch\n*** Add File: {name}\n{added}*** End Patch"
    return {"type": "custom_tool_call", "name": "apply_patch", "input": given}


def test_hooks_of_codex(tmp_path: Path) -> None:
    need(codex.program(), "Codex CLI")
    there = codex.placed(codex.ours(FIXTURES / "codex.jsonl", tmp_path / "codex.jsonl"), tmp_path / "there")
    small_pays(there.rollout.parent)
    hooks = there.home / "hooks.json"
    hooks.write_text(THEIRS)
    said = hook("install", "codex", there.home, "--preset", "archive", CODEX_HOME=str(there.home))
    assert "type /hooks in Codex" in said
    size = there.rollout.stat().st_size

    def go_on(item: dict[str, Any]) -> str:
        sent = codex.go_on(there, first=responses_call(item), options=TRUSTED)
        assert len(sent) == 2
        return said_back(sent)

    go_on(patch("plain.txt", "the level\n"))
    assert (there.cwd / "plain.txt").read_text() == "the level\n"
    marker = reference_after(there.rollout, there.home)
    assert there.rollout.stat().st_size < size

    target, text = there.cwd / "target.txt", f"def level():\n{marker}\n"
    assert "`sessioncompress show " in go_on(patch("target.txt", text))
    shell = {"cmd": f"cat > target.txt <<'END'\n{text}END"}
    call = {"type": "function_call", "name": "exec_command", "arguments": json.dumps(shell)}
    assert "`sessioncompress show " in go_on(call)
    assert not target.exists()

    status = hook("status", "codex", there.home, CODEX_HOME=str(there.home))
    assert "the agent does not call them: Codex does not trust them yet" in status
    assert "with the preset archive" in status
    codex.trust_hooks(there)
    assert "not call" not in hook("status", "codex", there.home, CODEX_HOME=str(there.home))

    hook("uninstall", "codex", there.home, CODEX_HOME=str(there.home))
    assert hooks.read_text() == THEIRS
    go_on(patch("target.txt", text))
    assert target.read_text() == text, "without the guard it is written, or the test shows nothing"


# gemini


def test_hooks_of_gemini(tmp_path: Path) -> None:
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    there = gemini.placed(FIXTURES / "gemini.jsonl", tmp_path / "there")
    small_pays(there.session.parent)
    settings = there.home / ".gemini" / "settings.json"
    commented = settings.read_text().replace("{", "{ // mine, with hooks\n", 1)
    settings.write_text(commented)
    hook("install", "gemini", there.home)
    size = there.session.stat().st_size

    def go_on(name: str, **given: Any) -> str:
        sent = gemini.go_on(there, gemini_call(name, given))
        assert len(sent) == 2
        return said_back(sent)

    plain, target = there.cwd / "plain.txt", there.cwd / "target.txt"
    go_on("write_file", file_path=str(plain), content="the level\n")
    assert plain.read_text() == "the level\n"
    marker = reference_after(there.session, there.home)
    assert there.session.stat().st_size < size

    text = f"def level():\n{marker}\n"
    assert "`sessioncompress show " in go_on("write_file", file_path=str(target), content=text)
    shell = f"cat > {target} <<'END'\n{text}END"
    assert "`sessioncompress show " in go_on("run_shell_command", command=shell, description="Write it.")
    assert not target.exists()

    hook("uninstall", "gemini", there.home)
    assert settings.read_text() == commented
    go_on("write_file", file_path=str(target), content=text)
    assert target.read_text() == text, "without the guard it is written, or the test shows nothing"


# opencode


def test_the_guard_of_opencode(tmp_path: Path) -> None:
    """It knows the export beside which the originals lie, in the folder in which the agent works."""
    need(opencode.program(), "OpenCode")
    session = compressed(
        Path(shutil.copyfile(FIXTURES / "opencode.json", tmp_path / "exported.json")), LITTLE_PROTECTED
    )
    found = re.search(r"\[\[sessioncompress: [^\]]*show [0-9a-f]+\]\]", session.read_text(encoding="utf-8"))
    assert found
    text = f"def level():\n{found[0]}\n"
    work = tmp_path / "opencode-home" / "work"
    target = work / "target.txt"

    def go_on(*calls: tuple[str, dict[str, str]], guarded: bool = True) -> str:
        def prepare(home: Path) -> None:
            shutil.copytree(session.parent, work, dirs_exist_ok=True)
            if guarded:
                hook("install", "opencode", home, XDG_CONFIG_HOME=str(home / "config"))

        *_, last = opencode.resume_often(session, tmp_path, 1, first=chat_calls(*calls), prepare=prepare)
        return json.dumps(last.body["messages"][-len(calls) :])

    plain, write = work / "plain.txt", ("write", {"filePath": str(target), "content": text})
    said = go_on(
        ("write", {"filePath": str(plain), "content": "the level\n"}),
        write,
        ("bash", {"command": f"cat > target.txt <<'END'\n{text}END", "description": "Write it."}),
    )
    assert plain.read_text() == "the level\n"
    assert not target.exists()
    assert said.count("`sessioncompress show ") == 2
    go_on(write, guarded=False)
    assert target.read_text() == text, "without the guard it is written, or the test shows nothing"


# pi


@pytest.mark.parametrize("version", ["0.74.2", "0.87.1"])
def test_hooks_of_pi(version: str, tmp_path: Path) -> None:
    need(version in pi.versions(), f"pi {version}")
    there = pi.home(FIXTURES / "pi-anthropic.jsonl", tmp_path / "agent")
    home, size = there.agent / "home", there.session.stat().st_size
    small_pays(there.session.parent)
    hook("install", "pi", home, PI_CODING_AGENT_DIR=str(there.agent))

    write = anthropic_call("write", {"path": "plain.txt", "content": "the level\n"}, "toolu_plain")
    there.go_on(version, write)
    assert (there.agent / "plain.txt").read_text() == "the level\n"
    marker = reference_after(there.session, home)
    assert there.session.stat().st_size < size

    target, text = there.agent / "target.txt", f"def level():\n{marker}\n"
    sent = there.go_on(version, anthropic_call("write", {"path": "target.txt", "content": text}, "toolu_write"))
    assert not target.exists()
    assert len(sent) == 2
    assert "`sessioncompress show " in said_back(sent)
    shell = {"command": f"cat > target.txt <<'END'\n{text}END"}
    sent = there.go_on(version, anthropic_call("bash", shell, "toolu_shell"))
    assert not target.exists()
    assert "`sessioncompress show " in said_back(sent)

    hook("uninstall", "pi", home, PI_CODING_AGENT_DIR=str(there.agent))
    assert not (there.agent / "extensions").exists()
    there.go_on(version, anthropic_call("write", {"path": "target.txt", "content": text}, "toolu_free"))
    assert target.read_text() == text, "without the guard it is written, or the test shows nothing"


@pytest.mark.parametrize("version", ["0.74.2", "0.87.1"])
def test_an_ended_session_of_pi_is_compacted(version: str, tmp_path: Path) -> None:
    """With hooks that were installed so: the next request begins with the summary."""
    need(version in pi.versions(), f"pi {version}")
    there = pi.home(FIXTURES / "pi-anthropic.jsonl", tmp_path / "agent")
    home = there.agent / "home"
    small_pays(there.session.parent)
    hook("install", "pi", home, "--compact", PI_CODING_AGENT_DIR=str(there.agent))
    write = anthropic_call("write", {"path": "plain.txt", "content": "the level\n"}, "toolu_plain")
    before = there.go_on(version, write)
    assert "Extracted by sessioncompress" not in str(before[0].body["messages"])
    reference_after(there.session, home)
    first, *_ = there.go_on(version, anthropic_call("write", {"path": "more.txt", "content": "more\n"}, "toolu_more"))
    assert "Extracted by sessioncompress" in str(first.body["messages"][0])
    assert len(first.body["messages"]) < len(before[0].body["messages"])


# qwen


def test_hooks_of_qwen(tmp_path: Path) -> None:
    need(qwen.installed(), f"Qwen Code {qwen.VERSION}")
    there = qwen.placed(FIXTURES / "qwen.jsonl", tmp_path / "there")
    compress_session(there.session, LITTLE_PROTECTED)
    marker = next(iter(whole_in(there.session.read_text(encoding="utf-8"))))
    hook("install", "qwen", there.home)

    def go_on(**given: Any) -> str:
        return json.dumps([sent.body["messages"][-1] for sent in qwen.go_on(there, chat_calls(("write_file", given)))])

    plain, target = there.cwd / "plain.txt", there.cwd / "target.txt"
    go_on(file_path=str(plain), content="the level\n")
    assert plain.read_text() == "the level\n"
    assert "`sessioncompress show " in go_on(file_path=str(target), content=f"def level():\n{marker}\n")
    assert not target.exists()
