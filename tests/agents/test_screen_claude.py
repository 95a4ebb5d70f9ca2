"""Claude Code's screen draws a rewritten session too, which decides what its copies of results may become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents import claude
from tests.agents.claude import NEW, OLD
from tests.agents.claude_screen import bare, drawn
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, LITTLE_PROTECTED, compressed

LAST = "You're welcome."
WRITE = "Write(src/tidewatch/silent.py)"


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_screen_shows_where_a_result_went(version: str, tmp_path: Path) -> None:
    need(claude.command(version), f"Claude Code {version}")
    original = tmp_path / "session.jsonl"
    original.write_bytes((FIXTURES / "claude-code.jsonl").read_bytes())
    rewritten = compressed(original, LITTLE_PROTECTED)
    (written,) = (copy["content"] for copy in copies(rewritten) if copy.get("type") == "create")
    assert written.startswith("[[sessioncompress: ")
    shown = drawn(version, rewritten, tmp_path / "resumed", LAST)
    assert bare(WRITE) in shown
    assert bare(written) in shown


def test_a_copy_that_is_nothing_is_drawn_as_nothing(tmp_path: Path) -> None:
    """So it is with a short text in its place, or none: hence a copy keeps its form, and only its texts go."""
    need(claude.command(OLD), f"Claude Code {OLD}")
    emptied = tmp_path / "session.jsonl"
    lines = (FIXTURES / "claude-code.jsonl").read_bytes().splitlines(keepends=True)
    emptied.write_bytes(b"".join(without_copy(line) for line in lines))
    shown = drawn(OLD, emptied, tmp_path / "resumed", LAST)
    assert bare(WRITE) in shown
    assert "Wrote" not in shown


def copies(session: Path) -> list[dict[str, Any]]:
    found = (entry.get("toolUseResult") for entry in claude.entries(session))
    return [copy for copy in found if isinstance(copy, dict)]


def without_copy(line: bytes) -> bytes:
    entry = json.loads(line)
    return json.dumps(entry | {"toolUseResult": None}).encode() + b"\n" if "toolUseResult" in entry else line
