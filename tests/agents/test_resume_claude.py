"""A rewritten session is resumed by the real Claude Code, which sends what it sends after the original, only less."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessioncompress import Policy
from tests.agents import claude
from tests.agents.claude import NEW, OLD
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, LITTLE_PROTECTED, NO_THRESHOLDS, compressed, of_corpus

FIXTURE_RUNS = [
    ("claude-code", OLD, NO_THRESHOLDS),
    ("claude-code", NEW, LITTLE_PROTECTED),
    ("claude-compacted", OLD, LITTLE_PROTECTED),
    ("claude-compacted", NEW, LITTLE_PROTECTED),
]

CORPUS_RUNS = [
    ("2dd48f89", OLD),  # of 2.1.62, with progress lines that others hang on
    ("acc53d32", NEW),
    ("4d5c2eec", OLD),
    ("c937a377", NEW),
    ("30e54c59", NEW),  # results that name tools
    ("e0a6db83", OLD),  # images
    ("f70db4c5", NEW),  # 361 attachments
    ("da81b1d5", OLD),  # two compactions, tools of the provider
    ("030df228", NEW),  # a compaction
]


@pytest.mark.parametrize(
    ("name", "version", "policy"), FIXTURE_RUNS, ids=[f"{name}-{version}" for name, version, _ in FIXTURE_RUNS]
)
def test_a_compressed_fixture_is_resumed(name: str, version: str, policy: Policy, tmp_path: Path) -> None:
    check(FIXTURES / f"{name}.jsonl", version, policy, tmp_path)


@pytest.mark.parametrize(("name", "version"), CORPUS_RUNS)
def test_a_compressed_real_session_is_resumed(name: str, version: str, tmp_path: Path) -> None:
    check(of_corpus(name), version, LITTLE_PROTECTED, tmp_path)


def check(session: Path, version: str, policy: Policy, folder: Path) -> None:
    need(claude.command(version), f"Claude Code {version}")
    original = folder / session.name
    original.write_bytes(session.read_bytes())
    before = claude.resume(version, original, folder / "resumed")
    after = claude.resume(version, compressed(original, policy), folder / "resumed")
    assert differences(before.body, after.body) == []
    assert after.size < before.size
