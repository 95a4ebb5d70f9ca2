"""A rewritten session is resumed by the real pi, which sends what it sends after the original, only less."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.agents import pi
from tests.agents.compacting import SMALL, compacted
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, NO_THRESHOLDS, compressed, of_corpus, rewritten
from tests.agents.standin import Request
from tests.support.build import PiSession
from tests.support.runs import turn

OLD, MIDDLE, NEW = "0.74.2", "0.87.1", "1.5.2"

RUNS = [
    ("pi-anthropic", OLD, "default"),
    ("pi-anthropic", MIDDLE, "default archive"),
    ("pi-anthropic", NEW, "little pruned"),
    ("pi-responses", OLD, "default"),
    ("pi-responses", MIDDLE, "default pruned"),
    ("pi-responses", NEW, "little"),
    ("pi-compacted", MIDDLE, "default"),
    ("pi-gemini", NEW, "default"),
    ("pi-one-prompt", MIDDLE, "default"),
    ("pi-v1", NEW, "default"),
    ("openclaw", NEW, "default"),
]

CORPUS_RUNS = [
    ("9b0c0a5f", OLD, "little archive pruned"),
    *(("9b0c0a5f", version, "little") for version in (MIDDLE, NEW)),
    ("5fd1e58c", MIDDLE, "little grown"),
    ("019dbe19", OLD, "little grown"),
    ("4853fb3b", NEW, "little archive"),  # Responses
    ("a10e3a9e", MIDDLE, "little pruned"),  # Responses
    ("ff97dd60", OLD, "little grown"),  # Responses
    ("019db951", NEW, "little"),  # Responses by way of GitHub Copilot
    ("019db9ff", NEW, "little"),  # Responses by way of GitHub Copilot, hardly any ids
    ("019dc52b", MIDDLE, "little"),  # Codex
    ("fe0460de", NEW, "little"),
    ("d703a1a9", MIDDLE, "little"),  # version 1, a second model
    ("019da84b", NEW, "little archive pruned grown"),  # Gemini, after Claude and a Responses model
    ("019db92a", OLD, "little"),  # a Responses model after Gemini
    ("019da8da", MIDDLE, "little"),  # Gemini
    ("github-openclaw__issue-4", NEW, "little archive"),
    ("issue-68", NEW, "little pruned"),
    ("gitopenclaw__issue-1", MIDDLE, "little"),
]


@pytest.mark.parametrize(("name", "version", "ways"), RUNS)
def test_a_rewritten_fixture_is_resumed(name: str, version: str, ways: str, tmp_path: Path) -> None:
    check(FIXTURES / f"{name}.jsonl", version, ways, tmp_path)


@pytest.mark.parametrize(("name", "version", "ways"), CORPUS_RUNS)
def test_a_rewritten_real_session_is_resumed(name: str, version: str, ways: str, tmp_path: Path) -> None:
    check(of_corpus(name), version, ways, tmp_path)


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
    smaller = compressed(original, NO_THRESHOLDS)
    assert smaller.read_bytes().count(b"line 200 of an output") == 1
    before, after = resumed(version, [original, smaller], tmp_path)
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
    smaller = compressed(original, NO_THRESHOLDS)
    assert b"line 0 of an output" not in smaller.read_bytes()
    before, after = resumed(NEW, [original, smaller], tmp_path)
    assert differences(before.body, after.body) == []
    assert name in json.dumps(after.body)
    summed = json.dumps(
        pi.resume(NEW, compacted(original, tmp_path / "compacted", SMALL).path, tmp_path / "summed").body
    )
    assert [text for text in ("sesame", "first wording", "of an output") if text in summed] == []
    assert "The second wording." in summed


def check(session: Path, version: str, ways: str, folder: Path) -> None:
    need(version in pi.versions(), f"pi {version}")
    original = pi.with_cwd(session, folder, folder / session.name)
    names = ways.split()
    before, *after = resumed(version, [original, *(rewritten(original, way) for way in names)], folder)
    for way, each in zip(names, after, strict=True):
        assert differences(before.body, each.body, pi.thoughts(original)) == [], way
        assert each.size <= before.size, way


def resumed(version: str, sessions: Sequence[Path], folder: Path) -> list[Request]:
    """Resume all at once: starting pi takes longer than all else."""
    with ThreadPoolExecutor(2) as pool:
        places = (folder / f"at{number}" for number in range(len(sessions)))
        return list(pool.map(partial(pi.resume, version), sessions, places))


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
    before, after = resumed(NEW, [original, damaged], tmp_path)
    found = differences(before.body, after.body)
    assert any("became" in said for said in found)
    assert any("call_other has no call before it" in said for said in found)


def test_an_exported_page_shows_every_entry(tmp_path: Path) -> None:
    """The page draws a compressed session too: as many entries, with their ids, and the markers in them."""
    need(NEW in pi.versions(), f"pi {NEW}")
    original = pi.with_cwd(FIXTURES / "pi-anthropic.jsonl", tmp_path, tmp_path / "session.jsonl")
    smaller = compressed(original, NO_THRESHOLDS)
    page = pi.export_html(NEW, smaller, tmp_path)
    shown = pi.exported_session(page)["entries"]
    assert [entry["id"] for entry in shown] == [e["id"] for e in pi.entries(original) if e["type"] != "session"]
    assert "[[sessioncompress: " in json.dumps(shown)
