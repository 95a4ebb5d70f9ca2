"""Gemini CLI goes on from a summary of ours as from one of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents import gemini
from tests.agents.bodies import messages
from tests.agents.checkpointing import check, said_in
from tests.agents.installed import need
from tests.agents.resuming import ResumeError
from tests.agents.sessions import FIXTURES, of_corpus
from tests.support.checkpoints import SUMMARY, Cutting, checkpointed

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
    """Return the session as the agent left it."""
    return gemini.copy_in(folder / "resumed", ".jsonl").read_bytes()


@pytest.mark.parametrize(("name", "threshold"), [("gemini.json", 0.01), ("gemini.jsonl", 0.005)])
def test_it_does_not_sum_up_again(name: str, threshold: float, tmp_path: Path) -> None:
    """It wants to with the original, where what it reads takes more than it may; the stand-in refuses that."""
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    _, original, session = prepared(FIXTURES / name, 0.3, tmp_path)
    with pytest.raises(ResumeError, match=r"(?s):generateContent'.*ChatCompressionService"):
        gemini.resume_compressing(original, tmp_path / "resumed", threshold)
    (after,) = gemini.resume_compressing(session, tmp_path / "resumed", threshold)
    assert len([message for message in messages(after.body) if SUMMARY.text in said_in(message)]) == 1
