"""The real Gemini CLI calls our hooks: a marker is not written, a text is, an ended session is compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agents import gemini
from tests.agents.hooking import hook, reference_after, said_back, small_pays
from tests.agents.installed import need
from tests.agents.replies import gemini_call
from tests.agents.sessions import FIXTURES


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
