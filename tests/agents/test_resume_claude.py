"""A rewritten session is resumed by the real Claude Code, which sends what it sends after the original, only less."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import claude
from tests.agents.claude import NEW, OLD
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, LITTLE_PROTECTED, compressed, of_corpus, rewritten

RUNS = [
    ("claude-code", OLD, "default pruned"),
    ("claude-code", NEW, "little archive"),
    ("claude-compacted", OLD, "little archive"),
    ("claude-compacted", NEW, "little pruned"),
]

CORPUS_RUNS = [
    ("2dd48f89", OLD, "little archive pruned grown"),  # of 2.1.62, with progress lines that others hang on
    ("acc53d32", NEW, "little archive"),
    ("4d5c2eec", OLD, "little"),
    ("c937a377", NEW, "little archive pruned grown"),
    ("30e54c59", NEW, "little"),  # results that name tools
    ("e0a6db83", OLD, "little"),  # images
    ("f70db4c5", NEW, "little archive grown"),  # 361 attachments
    ("da81b1d5", OLD, "little"),  # two compactions, tools of the provider
    ("030df228", OLD, "little archive pruned grown"),  # a compaction
]


@pytest.mark.parametrize(("name", "version", "ways"), RUNS)
def test_a_rewritten_fixture_is_resumed(name: str, version: str, ways: str, tmp_path: Path) -> None:
    check(FIXTURES / f"{name}.jsonl", version, ways, tmp_path)


@pytest.mark.parametrize(("name", "version", "ways"), CORPUS_RUNS)
def test_a_rewritten_real_session_is_resumed(name: str, version: str, ways: str, tmp_path: Path) -> None:
    check(of_corpus(name), version, ways, tmp_path)


def check(session: Path, version: str, ways: str, folder: Path) -> None:
    need(claude.command(version), f"Claude Code {version}")
    original = folder / session.name
    original.write_bytes(session.read_bytes())
    before = claude.resume(version, original, folder / "resumed")
    for way in ways.split():
        after = claude.resume(version, rewritten(original, way), folder / "resumed")
        assert differences(before.body, after.body) == [], way
        assert after.size < before.size, way


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
