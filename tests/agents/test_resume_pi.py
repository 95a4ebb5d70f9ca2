"""A rewritten session is resumed by the real pi, which sends what it sends after the original, only less."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessioncompress import Policy
from tests.agents import pi
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
from tests.agents.standin import Request

OLD, MIDDLE, NEW = "0.74.2", "0.87.1", "1.5.2"

FIXTURE_RUNS = [
    ("pi-anthropic", OLD, NO_THRESHOLDS),
    ("pi-anthropic", MIDDLE, NO_THRESHOLDS),
    ("pi-anthropic", NEW, LITTLE_PROTECTED),
    ("pi-responses", OLD, NO_THRESHOLDS),
    ("pi-responses", MIDDLE, NO_THRESHOLDS),
    ("pi-responses", NEW, LITTLE_PROTECTED),
    ("pi-compacted", MIDDLE, NO_THRESHOLDS),
    ("pi-gemini", NEW, NO_THRESHOLDS),
    ("pi-one-prompt", MIDDLE, NO_THRESHOLDS),
    ("pi-v1", NEW, NO_THRESHOLDS),
    ("pi-anthropic", MIDDLE, ARCHIVE),
    ("openclaw", NEW, NO_THRESHOLDS),
    ("pi-anthropic", NEW, PRUNED),
    ("pi-responses", MIDDLE, PRUNED),
]

CORPUS_RUNS = [
    *((name, version) for name in ("9b0c0a5f", "5fd1e58c", "019dbe19") for version in (OLD, MIDDLE, NEW)),
    ("4853fb3b", NEW),  # Responses
    ("a10e3a9e", MIDDLE),  # Responses
    ("ff97dd60", OLD),  # Responses
    ("019db951", NEW),  # Responses by way of GitHub Copilot
    ("019db9ff", NEW),  # Responses by way of GitHub Copilot, hardly any ids
    ("019dc52b", MIDDLE),  # Codex
    ("fe0460de", NEW),
    ("d703a1a9", MIDDLE),  # version 1, a second model
    ("019da84b", NEW),  # Gemini, after Claude and a Responses model
    ("019db92a", OLD),  # a Responses model after Gemini
    ("019da8da", MIDDLE),  # Gemini
    ("github-openclaw__issue-4", OLD),
    ("issue-68", NEW),
    ("gitopenclaw__issue-1", MIDDLE),
]

GROWN = [
    ("019dbe19", OLD),
    ("5fd1e58c", MIDDLE),
    ("a10e3a9e", OLD),  # Responses
    ("ff97dd60", NEW),  # Responses
    ("019da84b", MIDDLE),  # Gemini, after Claude and a Responses model
]

ARCHIVED = [
    ("9b0c0a5f", OLD),
    ("4853fb3b", NEW),  # Responses
    ("019da84b", MIDDLE),  # Gemini, after Claude and a Responses model
    ("github-openclaw__issue-4", NEW),
]

PRUNED_RUNS = [
    ("9b0c0a5f", OLD),
    ("a10e3a9e", MIDDLE),  # Responses
    ("019da84b", NEW),  # Gemini, after Claude and a Responses model
    ("issue-68", NEW),
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
    need(version in pi.versions(), f"pi {version}")
    original = pi.with_cwd(session, folder, folder / session.name)
    before, after = resumed(version, original, rewrite(original, policy), folder)
    assert differences(before.body, after.body, pi.thoughts(original)) == []
    assert after.size <= before.size


def resumed(version: str, original: Path, rewritten: Path, folder: Path) -> tuple[Request, Request]:
    """Resume both at once: starting pi takes longer than all else."""
    with ThreadPoolExecutor(2) as pool:
        before = pool.submit(pi.resume, version, original, folder / "before")
        after = pool.submit(pi.resume, version, rewritten, folder / "after")
        return before.result(), after.result()


def test_damage_to_a_session_is_seen(tmp_path: Path) -> None:
    """What pi mends by itself, it mends in the open: here a result whose call id was changed."""
    need(NEW in pi.versions(), f"pi {NEW}")
    original = pi.with_cwd(FIXTURES / "pi-responses.jsonl", tmp_path, tmp_path / "whole.jsonl")
    damaged = tmp_path / "damaged.jsonl"
    lines = original.read_bytes().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if b'"toolCallId"' in line)
    call = json.loads(lines[place])["message"]["toolCallId"]
    lines[place] = lines[place].replace(call.encode(), b"call_other")
    damaged.write_bytes(b"".join(lines))
    before, after = resumed(NEW, original, damaged, tmp_path)
    found = differences(before.body, after.body)
    assert any("became" in said for said in found)
    assert any("call_other has no call before it" in said for said in found)


def test_an_exported_page_shows_every_entry(tmp_path: Path) -> None:
    """The page draws a compressed session too: as many entries, with their ids, and the markers in them."""
    need(NEW in pi.versions(), f"pi {NEW}")
    original = pi.with_cwd(FIXTURES / "pi-anthropic.jsonl", tmp_path, tmp_path / "session.jsonl")
    rewritten = compressed(original, NO_THRESHOLDS)
    page = pi.export_html(NEW, rewritten, tmp_path)
    shown = pi.exported_session(page)["entries"]
    assert [entry["id"] for entry in shown] == [e["id"] for e in pi.entries(original) if e["type"] != "session"]
    assert "[[sessioncompress: " in json.dumps(shown)
