"""A rewritten session is loaded by oh-my-pi's own loader into the messages that the original gives, only less of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessioncompress import Policy
from tests.agents import omp
from tests.agents.compare import context_differences
from tests.agents.installed import need
from tests.agents.sessions import ARCHIVE, FIXTURES, LITTLE_PROTECTED, NO_THRESHOLDS, compressed, of_corpus

CORPUS_RUNS = [
    "01a01ae5-8d1a",  # Responses, with payloads
    "01a01b67-3441",  # the same, one prompt and three dozen calls
    "01a0221c-9435",
    "01a01b95-b852-7001",  # Gemini
    "01a01d30-1823-7002",
]


@pytest.mark.parametrize(
    "policy", [NO_THRESHOLDS, LITTLE_PROTECTED, ARCHIVE], ids=["default", "little-protected", "archive"]
)
def test_a_compressed_fixture_is_loaded(policy: Policy, tmp_path: Path) -> None:
    check(FIXTURES / "omp.jsonl", policy, tmp_path)


@pytest.mark.parametrize("name", CORPUS_RUNS)
def test_a_compressed_real_session_is_loaded(name: str, tmp_path: Path) -> None:
    check(of_corpus(name), LITTLE_PROTECTED, tmp_path)


@pytest.mark.parametrize("name", CORPUS_RUNS[1:4])
def test_an_archived_session_is_loaded(name: str, tmp_path: Path) -> None:
    check(of_corpus(name), ARCHIVE, tmp_path)


def check(session: Path, policy: Policy, folder: Path) -> None:
    need(omp.installed(), "oh-my-pi")
    original = folder / session.name
    original.write_bytes(session.read_bytes())
    before = omp.context(original, folder)
    after = omp.context(compressed(original, policy), folder)
    assert before
    assert context_differences(before, after) == []
    assert len(json.dumps(after)) < len(json.dumps(before))
