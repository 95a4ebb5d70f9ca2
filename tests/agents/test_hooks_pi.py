"""The real pi loads our extension: a marker is not written, an ordinary text is, an ended session is compressed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents import pi
from tests.agents.hooking import hook, reference_after, said_back, small_pays
from tests.agents.installed import need
from tests.agents.replies import anthropic_call
from tests.agents.sessions import FIXTURES


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
