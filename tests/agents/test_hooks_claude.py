"""The real Claude Code calls our hooks: a marker is not written, an ordinary text is, an ended session is compressed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents import claude
from tests.agents.claude import NEW, OLD
from tests.agents.hooking import hook, reference_after, said_back, small_pays
from tests.agents.installed import need
from tests.agents.replies import anthropic_call
from tests.agents.sessions import FIXTURES

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
