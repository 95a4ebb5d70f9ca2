"""The real OpenCode loads our plugin: a marker is not written, an ordinary text is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from tests.agents import opencode
from tests.agents.hooking import hook, said_back
from tests.agents.installed import need
from tests.agents.replies import chat_call
from tests.agents.sessions import FIXTURES, LITTLE_PROTECTED, compressed


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

    def go_on(name: str, *, guarded: bool = True, **given: Any) -> str:
        def prepare(home: Path) -> None:
            shutil.copytree(session.parent, work, dirs_exist_ok=True)
            if guarded:
                hook("install", "opencode", home, XDG_CONFIG_HOME=str(home / "config"))

        sent = opencode.resume_often(session, tmp_path, 1, first=chat_call(name, given), prepare=prepare)
        return said_back(sent)

    go_on("write", filePath=str(target), content="the level\n")
    assert target.read_text() == "the level\n"
    assert "`sessioncompress show " in go_on("write", filePath=str(target), content=text)
    shell = f"cat > target.txt <<'END'\n{text}END"
    assert "`sessioncompress show " in go_on("bash", command=shell, description="Write it.")
    assert not target.exists()
    go_on("write", guarded=False, filePath=str(target), content=text)
    assert target.read_text() == text, "without the guard it is written, or the test shows nothing"
