"""A rewritten session is resumed by the real Copilot CLI, which sends what it sends after the original, only less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.agents import copilot
from tests.agents.bodies import Body, messages
from tests.agents.checkpointing import said_in, strings_of
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.resuming import PROMPT
from tests.agents.sessions import FIXTURES, rewritten
from tests.agents.standin import Request
from tests.support.checkpoints import SUMMARY, checkpointed
from tests.support.runs import units

SESSION = FIXTURES / "copilot.jsonl"
LONG = 200
"""Characters. A result of more is of one call alone."""


def resumed(session: Path, folder: Path) -> Request:
    """Resume without the last prompt, which says when it is."""
    need(copilot.installed(), f"Copilot CLI {copilot.VERSION}")
    request = copilot.resume(session, folder / "resumed")
    *_, last = request.body["messages"][-1]["content"]
    assert last["text"].endswith(PROMPT)
    del request.body["messages"][-1]["content"][-1]
    return request


def test_a_rewritten_session_is_resumed(tmp_path: Path) -> None:
    original = tmp_path / SESSION.name
    original.write_bytes(SESSION.read_bytes())
    before = resumed(original, tmp_path)
    accounts = accounted(tmp_path)
    for way in ("default", "little", "archive"):
        after = resumed(rewritten(original, way), tmp_path)
        assert differences(before.body, after.body) == [], way
        assert after.size < before.size, way
        assert accounted(tmp_path) == accounts, way


def accounted(folder: Path) -> Any:
    """Return what the agent counted at its end, with all that the session took before."""
    (session,) = (folder / "resumed").glob("home/.copilot/session-state/*/events.jsonl")
    return json.loads(session.read_bytes().splitlines()[-1])["data"]["modelMetrics"]


def test_a_session_with_a_summary_is_resumed(tmp_path: Path) -> None:
    """What is kept follows it to the byte; above it the agent says the prompts for which it stands."""
    made = checkpointed(SESSION.read_bytes())
    original, session = tmp_path / "original.jsonl", tmp_path / "session.jsonl"
    original.write_bytes(made.before)
    session.write_bytes(made.after)
    before, after = resumed(original, tmp_path), resumed(session, tmp_path)
    old, new = messages(before.body), messages(after.body)
    assert [SUMMARY.text in said_in(each) for each in new] == [True, *[False] * (len(new) - 1)]
    assert 1 < len(new) < len(old)
    assert new[1:] == old[len(old) - len(new) + 1 :]
    assert results_in(made.before, made.cut.old).isdisjoint(strings_of(after.body))
    assert set(after.problems) <= set(before.problems)


def results_in(data: bytes, numbers: Any) -> set[str]:
    events: list[Body] = [json.loads(units(data)[number]) for number in numbers]
    found = (each["data"]["result"]["content"] for each in events if each["type"] == "tool.execution_complete")
    return {text for text in found if len(text) > LONG}
