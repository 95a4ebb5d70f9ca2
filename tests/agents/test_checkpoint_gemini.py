"""Gemini CLI goes on from a summary of ours as from one of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents import gemini
from tests.agents.bodies import messages
from tests.agents.checkpointing import check, said_in
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, of_corpus
from tests.support.checkpoints import SUMMARY, Cutting, checkpointed
from tests.support.runs import units

THANKED = b"Thanks for the additional context"
THANKS = 1
"""The messages that follow the summary and are part of it."""

FIXTURE_RUNS = [
    ("gemini.json", 0.3),
    ("gemini.jsonl", 0.3),  # all that is kept was set at once, by an earlier resume
    ("gemini.jsonl", 0.001),  # what is kept stands in lines of its own
]

CORPUS_RUNS = ["970c70a7", "cdb14b05", "d0ed8c54"]


@pytest.mark.parametrize(("name", "share"), FIXTURE_RUNS)
def test_a_fixture_with_a_summary_is_resumed(name: str, share: float, tmp_path: Path) -> None:
    resumed_twice(FIXTURES / name, share, tmp_path)


@pytest.mark.parametrize("name", CORPUS_RUNS)
def test_a_real_session_with_a_summary_is_resumed(name: str, tmp_path: Path) -> None:
    resumed_twice(of_corpus(name), 0.3, tmp_path)


def resumed_twice(session: Path, share: float, folder: Path) -> None:
    """The agent makes a file of records of a document: that is what it resumes then."""
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    made, original, session = prepared(session, share, folder)
    for _ in range(2):
        before, was = gemini.resume(original, folder / "resumed"), left_in(folder)
        after, now = gemini.resume(session, folder / "resumed"), left_in(folder)
        check(made, before, after, framed=THANKS)
        original, session = folder / "original.jsonl", folder / "session.jsonl"
        original.write_bytes(was)
        session.write_bytes(now)


def prepared(session: Path, share: float, folder: Path) -> tuple[Cutting, Path, Path]:
    """Write a session, and beside it the same one with a summary."""
    original, path = folder / f"original{session.suffix}", folder / f"session{session.suffix}"
    original.write_bytes(session.read_bytes())
    made = checkpointed(original.read_bytes(), share)
    path.write_bytes(made.after)
    return made, original, path


def left_in(folder: Path) -> bytes:
    return gemini.copy_in(folder / "resumed", ".jsonl").read_bytes()


SUMS_UP = [("gemini.json", 0.01), ("gemini.jsonl", 0.005)]


@pytest.mark.parametrize(("name", "threshold"), SUMS_UP)
def test_it_does_not_sum_up_again(name: str, threshold: float, tmp_path: Path) -> None:
    """It does with the original, where what it reads takes more than it may."""
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    _, original, session = prepared(FIXTURES / name, 0.3, tmp_path)
    before = gemini.resume_compressing(original, tmp_path / "resumed", threshold)
    assert any(request.path.endswith(":generateContent") for request in before)
    (after,) = gemini.resume_compressing(session, tmp_path / "resumed", threshold)
    assert len([message for message in messages(after.body) if SUMMARY.text in said_in(message)]) == 1


@pytest.mark.parametrize(("name", "threshold"), SUMS_UP)
def test_gemini_writes_what_we_write(name: str, threshold: float, tmp_path: Path) -> None:
    """By the keys of both messages: a new version that writes others is noticed."""
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    made, original, _ = prepared(FIXTURES / name, 0.3, tmp_path)
    gemini.resume_compressing(original, tmp_path / "resumed", threshold)
    set_anew = [json.loads(line) for line in left_in(tmp_path).splitlines() if line.startswith(b'{"$set"')]
    own = [each["$set"]["messages"] for each in set_anew if "messages" in each["$set"]][-1][:2]
    ours = [json.loads(raw) for raw in units(made.after) if SUMMARY.text.encode() in raw or THANKED in raw][:2]
    assert [set(each) for each in own] == [set(each) for each in ours]
    assert [set(each["content"][0]) for each in own] == [set(each["content"][0]) for each in ours]
