"""OpenCode goes on from a compaction of ours as from one of its own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.agents import opencode
from tests.agents.bodies import messages
from tests.agents.checkpointing import check, said_in
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, of_corpus
from tests.support.checkpoints import SUMMARY, Cutting, checkpointed

ASKED = "What did we do so far?"
"""What the agent itself sends for the message that asks for a compaction."""

_PARTS = ("compaction", "text")


def test_a_fixture_with_a_compaction_is_resumed(tmp_path: Path) -> None:
    """And again behind what the agent itself added."""
    check_resumed(FIXTURES / "opencode.json", tmp_path, 2)


def test_a_real_session_that_was_compacted_before_is_resumed(tmp_path: Path) -> None:
    check_resumed(of_corpus("ses_277daa81"), tmp_path, 1)


def check_resumed(session: Path, folder: Path, times: int) -> None:
    need(opencode.program() is not None, "OpenCode")
    made, original, path = prepared(session, folder)
    before = opencode.resume_often(original, folder, times)
    after = opencode.resume_often(path, folder, times)
    for was, now in zip(before, after, strict=True):
        assert [said_in(message) for message in messages(now.body)].count(ASKED) == 1
        check(made, was, now, asked=1)


def prepared(session: Path, folder: Path) -> tuple[Cutting, Path, Path]:
    """Write a session, and beside it the same one with a compaction."""
    original, path = folder / "original.json", folder / "session.json"
    original.write_bytes(session.read_bytes())
    made = checkpointed(original.read_bytes())
    path.write_bytes(made.after)
    return made, original, path


def test_a_compaction_before_is_not_read_again(tmp_path: Path) -> None:
    """Also where it stands in what is kept: the agent would read it there."""
    need(opencode.program() is not None, "OpenCode")
    made = checkpointed(checkpointed((FIXTURES / "opencode.json").read_bytes()).after, share=0.6)
    assert made.checkpoint.removed
    path = tmp_path / "session.json"
    path.write_bytes(made.after)
    found = messages(opencode.resume(path, tmp_path).body)
    assert [said_in(message) for message in found].count(ASKED) == 1
    assert [said_in(message) for message in found].count(SUMMARY.text) == 1


def test_it_compacts_the_original_and_not_ours(tmp_path: Path) -> None:
    """The last request took more than the window. It writes the keys that we write, in messages and in their parts."""
    need(opencode.program() is not None, "OpenCode")
    _, original, path = prepared(FIXTURES / "opencode.json", tmp_path)
    before = opencode.resume_often(original, tmp_path, 1, window=24_000, auto=True)
    assert compaction_in(path.read_bytes()) == compaction_in((tmp_path / opencode.EXPORTED).read_bytes())
    after = opencode.resume_often(path, tmp_path, 1, window=24_000, auto=True)
    assert len(before) > 1
    assert [len([each for each in messages(sent.body) if SUMMARY.text == said_in(each)]) for sent in after] == [1]


def compaction_in(data: bytes) -> list[dict[str, set[str]]]:
    """Return the keys of the messages of a compaction, and of the parts that both write."""
    found = json.loads(data)["messages"]
    asks = next(at for at, each in enumerate(found) if any(part["type"] == "compaction" for part in each["parts"]))
    return [
        {"info": set(each["info"])} | {part["type"]: set(part) for part in each["parts"] if part["type"] in _PARTS}
        for each in found[asks : asks + 2]
    ]
