"""A rewritten session is resumed by the real pi, which sends what it sends after the original, only less."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessioncompress import Policy
from tests.agents import pi
from tests.agents.compacting import SMALL, compacted
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
from tests.support.build import PiSession
from tests.support.runs import turn

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


OUTPUT = "".join(f"line {number} of an output\n" for number in range(400))
SHOWN = ("bashExecution", "custom_message")
"""What of beside() a model reads."""


def beside(made: PiSession) -> PiSession:
    """Build a session with what stands in it beside calls and results, each of it old."""
    made.opening().user("Go.")
    made.assistant("I begin.")
    made.message("bashExecution", command="make", output=OUTPUT, exitCode=1, cancelled=False, truncated=False)
    made.message("bashExecution", command="env", output=OUTPUT, exitCode=0, excludeFromContext=True)
    made.entry("custom_message", customType="gauges", content=OUTPUT, display=True, details={"all": OUTPUT * 2})
    for number in range(3):
        made.entry("custom", customType="board", data={"number": number, "items": [OUTPUT]})
    made.step("process", {"action": "poll"}, "It runs.", details={"output": OUTPUT * 2})
    return turn(made, 5)


@pytest.mark.parametrize("version", [OLD, MIDDLE, NEW])
def test_what_stands_beside_results_is_resumed_smaller(version: str, tmp_path: Path) -> None:
    """Two outputs, and nothing else in the request."""
    need(version in pi.versions(), f"pi {version}")
    original = beside(PiSession(cwd=str(tmp_path))).write(tmp_path / "session.jsonl")
    rewritten = compressed(original, NO_THRESHOLDS)
    assert rewritten.read_bytes().count(b"line 200 of an output") == 1
    before, after = resumed(version, original, rewritten, tmp_path)
    found = differences(before.body, after.body)
    assert len(found) == len(SHOWN)
    assert all("text changed" in each and "line 0 of an output" in each for each in found)


def test_what_was_taken_out_of_the_context_stays_out(tmp_path: Path) -> None:
    """A prompt, a result and words that took another's place: compressed, compacted, they are in no request."""
    need(NEW in pi.versions(), f"pi {NEW}")
    made = PiSession(cwd=str(tmp_path)).opening()
    gone = made.user("Say the word sesame.")
    made.assistant("I do not.")
    said = made.user("The first wording.")
    name = made.step("bash", {"command": "make"}, OUTPUT)
    result = made.leaf
    for number in range(9):
        made.step("read", {"path": f"{number}.py"}, f"part {number}\n" * 400)
    for target, instead in ((gone, None), (said, {"content": "x"}), (said, {"content": "The second wording."})):
        made.entry("context_edit", targetId=target, replacement=instead)
    made.entry("context_edit", targetId=result, replacement={"content": [{"type": "text", "text": "It went well."}]})
    original = turn(made, 5).write(tmp_path / "session.jsonl")
    rewritten = compressed(original, NO_THRESHOLDS)
    assert b"line 0 of an output" not in rewritten.read_bytes()
    before, after = resumed(NEW, original, rewritten, tmp_path)
    assert differences(before.body, after.body) == []
    assert name in json.dumps(after.body)
    summed = json.dumps(
        pi.resume(NEW, compacted(original, tmp_path / "compacted", SMALL).path, tmp_path / "summed").body
    )
    assert [text for text in ("sesame", "first wording", "of an output") if text in summed] == []
    assert "The second wording." in summed


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
