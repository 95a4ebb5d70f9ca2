"""A rewritten session is loaded by oh-my-pi's own loader into the messages that the original gives, only less of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessioncompress import Policy
from tests.agents import omp
from tests.agents.compare import context_differences
from tests.agents.installed import need
from tests.agents.sessions import (
    ARCHIVE,
    FIXTURES,
    LITTLE_PROTECTED,
    NO_THRESHOLDS,
    PRUNED,
    PRUNED_NATIVE,
    compressed,
    of_corpus,
)

CORPUS_RUNS = [
    "01a01ae5-8d1a",  # Responses, with payloads
    "01a01b67-3441",  # the same, one prompt and three dozen calls
    "01a0221c-9435",
    "01a01b95-b852-7001",  # Gemini
    "01a01d30-1823-7002",
]


@pytest.mark.parametrize(
    "policy",
    [NO_THRESHOLDS, LITTLE_PROTECTED, ARCHIVE, PRUNED],
    ids=["default", "little-protected", "archive", "pruned"],
)
def test_a_compressed_fixture_is_loaded(policy: Policy, tmp_path: Path) -> None:
    check(FIXTURES / "omp.jsonl", policy, tmp_path)


@pytest.mark.parametrize("name", CORPUS_RUNS)
def test_a_compressed_real_session_is_loaded(name: str, tmp_path: Path) -> None:
    check(of_corpus(name), LITTLE_PROTECTED, tmp_path)


@pytest.mark.parametrize("name", CORPUS_RUNS[1:4])
def test_an_archived_session_is_loaded(name: str, tmp_path: Path) -> None:
    check(of_corpus(name), ARCHIVE, tmp_path)


@pytest.mark.parametrize("name", CORPUS_RUNS[:4])
def test_a_pruned_session_is_loaded(name: str, tmp_path: Path) -> None:
    check(of_corpus(name), PRUNED, tmp_path)


@pytest.mark.parametrize("name", ["", *CORPUS_RUNS[:2]], ids=["fixture", *CORPUS_RUNS[:2]])
def test_what_is_pruned_in_its_own_words_is_loaded(name: str, tmp_path: Path) -> None:
    """The loader takes its mark and its words, and gives all else as it was."""
    need(omp.installed(), "oh-my-pi")
    session = of_corpus(name) if name else FIXTURES / "omp.jsonl"
    original = tmp_path / session.name
    original.write_bytes(session.read_bytes())
    before = omp.context(original, tmp_path)
    after = omp.context(compressed(original, PRUNED_NATIVE), tmp_path)
    pruned = [message for message in after if "prunedAt" in message]
    assert pruned
    for message in pruned:
        assert message["content"][0]["text"].startswith("[Output truncated - ")
        # What the loader gave of it is what it gives of the original, but for the two.
        was = next(each for each in before if each.get("timestamp") == message["timestamp"])
        assert message.pop("prunedAt") > was["timestamp"]
        message["content"] = was["content"]
    assert context_differences(before, after) == []


def check(session: Path, policy: Policy, folder: Path) -> None:
    need(omp.installed(), "oh-my-pi")
    original = folder / session.name
    original.write_bytes(session.read_bytes())
    before = omp.context(original, folder)
    after = omp.context(compressed(original, policy), folder)
    assert before
    assert context_differences(before, after) == []
    assert len(json.dumps(after)) < len(json.dumps(before))
