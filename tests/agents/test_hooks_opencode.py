"""The real OpenCode loads our plugin: a marker is not written, an ordinary text is."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.agents import opencode
from tests.agents.hooking import hook
from tests.agents.installed import need
from tests.agents.replies import chat_calls
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
