"""The real Qwen Code calls our guard: a marker is not written, a text is. It tells the end of a session only at a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sessioncompress import compress_session
from sessioncompress.core.marker import whole_in
from tests.agents import qwen
from tests.agents.hooking import hook
from tests.agents.installed import need
from tests.agents.replies import chat_calls
from tests.agents.sessions import FIXTURES, LITTLE_PROTECTED


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
