"""The real Claude Code goes on from a checkpoint as if it had written it itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sessioncompress import Policy, compress_session
from tests.agents import claude, compare
from tests.agents.claude import NEW, OLD
from tests.agents.compacting import DEFAULT, HEAD, SMALL, Compacted, compacted, differences
from tests.agents.installed import need
from tests.agents.replies import TEXT
from tests.agents.sessions import FIXTURES, NO_THRESHOLDS, of_corpus
from tests.agents.standin import Request

RUNS = [("claude-code", OLD), ("claude-code", NEW), ("claude-compacted", OLD)]

CORPUS_RUNS = [
    ("2dd48f89", OLD),  # progress lines that others hang on
    ("030df228", OLD),  # a compaction of the agent's own
    ("da81b1d5", NEW),  # two of them, tools of the provider
    ("f70db4c5", OLD),  # 361 attachments
]

SUMS_UP = "Your task is to create a detailed summary"
"""So the agent asks for a summary."""


OF_WHAT_IS_KEPT = {*("preservedSegment", "headUuid", "anchorUuid", "tailUuid"), *("preservedMessages", "uuids")}
"""The older version, asked to, keeps nothing; when it does by itself, it writes only the first of these."""


@pytest.mark.parametrize(("name", "version"), RUNS)
def test_a_compacted_fixture_is_resumed_twice(name: str, version: str, tmp_path: Path) -> None:
    check(FIXTURES / f"{name}.jsonl", version, SMALL, tmp_path)


@pytest.mark.parametrize(("name", "version"), CORPUS_RUNS)
def test_a_compacted_real_session_is_resumed_twice(name: str, version: str, tmp_path: Path) -> None:
    check(of_corpus(name), version, DEFAULT, tmp_path)


def check(session: Path, version: str, policy: Policy, folder: Path) -> Compacted:
    need(claude.command(version), f"Claude Code {version}")
    place = folder / "resumed"
    made = compacted(session, folder / "compacted", policy)
    before = resumed(version, session, place)
    after = resumed(version, made.path, place)
    assert [differences(made, was.body, now.body) for was, now in zip(before, after, strict=True)] == [[], []]
    return made


def resumed(version: str, session: Path, folder: Path) -> list[Request]:
    there = claude.placed(session, folder)
    return [request for _ in range(2) for request in claude.go_on(version, there, None)]


@pytest.mark.parametrize(("name", "version"), [("claude-code", NEW), ("claude-compacted", OLD)])
def test_what_is_dead_may_be_compressed(name: str, version: str, tmp_path: Path) -> None:
    need(claude.command(version), f"Claude Code {version}")
    made = compacted(FIXTURES / f"{name}.jsonl", tmp_path / "compacted", SMALL)
    before = resumed(version, made.path, tmp_path / "resumed")
    size = made.path.stat().st_size
    compress_session(made.path, NO_THRESHOLDS)
    assert made.path.stat().st_size < size
    after = resumed(version, made.path, tmp_path / "resumed")
    assert [compare.differences(was.body, now.body) for was, now in zip(before, after, strict=True)] == [[], []]


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_compacted_session_is_not_compacted_again(version: str, tmp_path: Path) -> None:
    """With a window that the recorded usage exceeds, the agent compacts the original at once, and ours never."""
    need(claude.command(version), f"Claude Code {version}")
    session = FIXTURES / "claude-code.jsonl"
    made = compacted(session, tmp_path / "compacted", SMALL)
    sums_up = []
    for path in (session, made.path):
        there = claude.placed(path, tmp_path / "resumed")
        requests = [request for _ in range(2) for request in claude.go_on(version, there, None, around=narrow)]
        sums_up.append([asks_for_a_summary(request) for request in requests])
    assert any(sums_up[0])
    assert sums_up[1] == [False, False]


def narrow(url: str) -> Mapping[str, str]:
    """Let the agent compact by itself, from 24,000 tokens on."""
    on = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "30"}
    off = {"DISABLE_AUTO_COMPACT", "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE"}
    return {key: value for key, value in claude.environment(url).items() if key not in off} | on


def asks_for_a_summary(request: Request) -> bool:
    return SUMS_UP in json.dumps(request.body["messages"])


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_agent_compacts_on_top_of_ours(version: str, tmp_path: Path) -> None:
    """Its model reads our summary, and what it writes has all the keys that ours has."""
    need(claude.command(version), f"Claude Code {version}")
    made = compacted(FIXTURES / "claude-code.jsonl", tmp_path / "compacted", SMALL)
    there = claude.placed(made.path, tmp_path / "resumed")
    requests = claude.go_on(version, there, None, prompt="/compact")
    assert asks_for_a_summary(requests[0])
    assert json.dumps(requests[0].body).count(HEAD) == 1
    (grown,) = there.home.glob(".claude/projects/*/*.jsonl")
    entries = list(claude.entries(grown))
    for ours, own in (boundaries(entries), summaries(entries)):
        assert keys_of(ours) - keys_of(own) <= (set() if version == NEW else OF_WHAT_IS_KEPT)
    (after,) = claude.go_on(version, there, None)
    assert HEAD not in json.dumps(after.body)
    assert TEXT in json.dumps(after.body)


def boundaries(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry.get("subtype") == "compact_boundary"]


def summaries(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry.get("isCompactSummary")]


def keys_of(entry: dict[str, Any]) -> set[str]:
    metadata = {key: value for key, value in entry.get("compactMetadata", {}).items() if isinstance(value, dict)}
    return {*entry, *entry.get("compactMetadata", ()), *(key for inner in metadata.values() for key in inner)}
