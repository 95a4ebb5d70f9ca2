"""A rewritten session is resumed by the real Qwen Code, which sends what it sends after the original, only less."""

from __future__ import annotations

from pathlib import Path

from tests.agents import qwen
from tests.agents.checkpointing import check
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, rewritten
from tests.support.checkpoints import checkpointed

SESSION = FIXTURES / "qwen.jsonl"
THANKS = 1
"""The messages that follow the summary and are part of it."""


def test_a_rewritten_session_is_resumed(tmp_path: Path) -> None:
    need(qwen.installed(), f"Qwen Code {qwen.VERSION}")
    original = tmp_path / SESSION.name
    original.write_bytes(SESSION.read_bytes())
    before = qwen.resume(original, tmp_path / "resumed")
    for way in ("little", "archive"):
        after = qwen.resume(rewritten(original, way), tmp_path / "resumed")
        assert differences(before.body, after.body) == [], way
        assert after.size < before.size, way


def test_a_session_with_a_summary_is_resumed(tmp_path: Path) -> None:
    """Twice: what the agent appended hangs on what we wrote."""
    need(qwen.installed(), f"Qwen Code {qwen.VERSION}")
    made = checkpointed(SESSION.read_bytes())
    original, session = tmp_path / "original.jsonl", tmp_path / "session.jsonl"
    original.write_bytes(made.before)
    session.write_bytes(made.after)
    for _ in range(2):
        before = qwen.resume(original, tmp_path / "resumed")
        was = qwen.copy_in(tmp_path / "resumed", original).read_bytes()
        after = qwen.resume(session, tmp_path / "resumed")
        check(made, before, after, framed=THANKS)
        session.write_bytes(qwen.copy_in(tmp_path / "resumed", session).read_bytes())
        original.write_bytes(was)
