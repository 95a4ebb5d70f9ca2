"""The real Codex calls our hooks: a marker is not written, an ordinary text is, an ended session is compressed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.agents import codex
from tests.agents.hooking import hook, reference_after, said_back, small_pays
from tests.agents.installed import need
from tests.agents.replies import responses_call
from tests.agents.sessions import FIXTURES

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
