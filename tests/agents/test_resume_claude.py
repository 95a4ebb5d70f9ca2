"""A rewritten session is resumed by the real Claude Code, which sends what it sends after the original, only less."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessioncompress import Policy
from tests.agents import claude
from tests.agents.claude import NEW, OLD
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.sessions import (
    ARCHIVE,
    FIXTURES,
    LITTLE_PROTECTED,
    NO_THRESHOLDS,
    PRUNED,
    compressed,
    grown,
    of_corpus,
)

FIXTURE_RUNS = [
    ("claude-code", OLD, NO_THRESHOLDS),
    ("claude-code", NEW, LITTLE_PROTECTED),
    ("claude-compacted", OLD, LITTLE_PROTECTED),
    ("claude-compacted", NEW, LITTLE_PROTECTED),
    ("claude-code", NEW, ARCHIVE),
    ("claude-compacted", OLD, ARCHIVE),
    ("claude-code", OLD, PRUNED),
    ("claude-compacted", NEW, PRUNED),
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

GROWN = [
    ("2dd48f89", NEW),  # of 2.1.62, with progress lines that others hang on
    ("c937a377", OLD),
    ("f70db4c5", NEW),  # 361 attachments
    ("030df228", OLD),  # a compaction
]

ARCHIVED = [
    ("2dd48f89", NEW),
    ("acc53d32", OLD),
    ("c937a377", NEW),
    ("f70db4c5", OLD),  # 361 attachments
    ("030df228", NEW),  # a compaction
]

PRUNED_RUNS = [
    ("2dd48f89", OLD),
    ("c937a377", NEW),
    ("030df228", OLD),  # a compaction
]


@pytest.mark.parametrize(
    ("name", "version", "policy"), FIXTURE_RUNS, ids=[f"{name}-{version}" for name, version, _ in FIXTURE_RUNS]
)
def test_a_compressed_fixture_is_resumed(name: str, version: str, policy: Policy, tmp_path: Path) -> None:
    check(FIXTURES / f"{name}.jsonl", version, policy, tmp_path)


@pytest.mark.parametrize(("name", "version"), CORPUS_RUNS)
def test_a_compressed_real_session_is_resumed(name: str, version: str, tmp_path: Path) -> None:
    check(of_corpus(name), version, LITTLE_PROTECTED, tmp_path)


@pytest.mark.parametrize(("name", "version"), ARCHIVED)
def test_an_archived_session_is_resumed(name: str, version: str, tmp_path: Path) -> None:
    check(of_corpus(name), version, ARCHIVE, tmp_path)


@pytest.mark.parametrize(("name", "version"), PRUNED_RUNS)
def test_a_pruned_session_is_resumed(name: str, version: str, tmp_path: Path) -> None:
    check(of_corpus(name), version, PRUNED, tmp_path)


@pytest.mark.parametrize(("name", "version"), GROWN)
def test_a_session_compressed_as_it_grew_is_resumed(name: str, version: str, tmp_path: Path) -> None:
    check(of_corpus(name), version, LITTLE_PROTECTED, tmp_path, grown)


def check(
    session: Path, version: str, policy: Policy, folder: Path, rewrite: Callable[[Path, Policy], Path] = compressed
) -> None:
    need(claude.command(version), f"Claude Code {version}")
    original = folder / session.name
    original.write_bytes(session.read_bytes())
    before = claude.resume(version, original, folder / "resumed")
    after = claude.resume(version, rewrite(original, policy), folder / "resumed")
    assert differences(before.body, after.body) == []
    assert after.size < before.size


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_compressed_subagent_goes_on(version: str, tmp_path: Path) -> None:
    """Its lines lie in a file of their own, which is read when the model sends it a message."""
    need(claude.command(version), f"Claude Code {version}")
    original = tmp_path / "agent.jsonl"
    original.write_bytes((FIXTURES / "claude-agent.jsonl").read_bytes())
    session, folder = FIXTURES / "claude-code.jsonl", tmp_path / "resumed"
    before = claude.resume_subagent(version, session, original, folder)
    after = claude.resume_subagent(version, session, compressed(original, LITTLE_PROTECTED), folder)
    assert differences(before.body, after.body) == []
    assert after.size < before.size


def test_damage_to_a_session_is_seen(tmp_path: Path) -> None:
    """What Claude Code mends by itself, it mends in the open: here a result whose call id was changed."""
    need(claude.command(NEW), f"Claude Code {NEW}")
    original = FIXTURES / "claude-code.jsonl"
    entries = list(claude.entries(original))
    _, result = next(results(entries))
    result["tool_use_id"] = "toolu_other"
    before = claude.resume(NEW, original, tmp_path / "resumed")
    after = claude.resume(NEW, written(entries, tmp_path / "damaged.jsonl"), tmp_path / "resumed")
    assert any("59 messages became 57" in said for said in differences(before.body, after.body))


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_agents_own_replacements_are_not_heeded(version: str, tmp_path: Path) -> None:
    """So we do not write any: the originals would stay in the session, and the model would read them again."""
    need(claude.command(version), f"Claude Code {version}")
    original = FIXTURES / "claude-code.jsonl"
    entries = list(claude.entries(original))
    instead = "[Old tool result content cleared]"
    replacements = [{"kind": "tool-result", "toolUseId": name, "replacement": instead} for name, _ in results(entries)]
    added = {"type": "content-replacement", "sessionId": entries[0]["sessionId"], "replacements": replacements}
    before = claude.resume(version, original, tmp_path / "resumed")
    after = claude.resume(version, written([*entries, added], tmp_path / "replaced.jsonl"), tmp_path / "resumed")
    assert differences(before.body, after.body) == []
    assert instead not in json.dumps(after.body["messages"])


def results(entries: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in entries:
        content = entry.get("message", {}).get("content")
        for part in content if isinstance(content, list) else ():
            if part["type"] == "tool_result":
                yield part["tool_use_id"], part


def written(entries: list[dict[str, Any]], path: Path) -> Path:
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path
