"""The fixtures on disk are what their stories make, and the sessions among them are sound."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.generate import generate
from tests.support.stories import FAMILY, STORIES, of_format

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
CLAUDE = of_format("claude-code")
ROLLOUTS = of_format("codex")
SESSIONS = [name for name in FAMILY if not STORIES[name].is_odd]
"""Those of pi and its relatives."""

MOST_BYTES = 360_000
"""Of one fixture: the tests run over each of them many times."""


@pytest.mark.parametrize("name", sorted(STORIES))
def test_the_fixture_on_disk_is_what_its_story_makes(name: str) -> None:
    """A difference means that someone edited a fixture by hand, or a story without running fixtures/make.py."""
    assert (FIXTURES / name).read_bytes() == STORIES[name].data()


def test_make_check_agrees() -> None:
    done = subprocess.run([sys.executable, str(FIXTURES / "make.py"), "--check"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_no_other_fixture_lies_there() -> None:
    """Every session beside make.py has a story."""
    found = {str(path.relative_to(FIXTURES)) for path in FIXTURES.rglob("*.json*")}
    assert found == set(STORIES)


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_fixture_is_small(name: str) -> None:
    size = len(STORIES[name].data())
    assert size < MOST_BYTES, f"{name} has {size:,} bytes; shorten its story: {MOST_BYTES:,} are the most"


@pytest.mark.parametrize("name", SESSIONS)
def test_the_session_has_a_header_in_tmp(name: str) -> None:
    """The real agent refuses a session whose working folder is not there."""
    header = next(entry for entry in entries(name) if entry["type"] == "session")
    assert header["cwd"] == "/tmp"
    assert isinstance(header["id"], str)


@pytest.mark.parametrize("name", SESSIONS)
def test_every_parent_was_written_before(name: str) -> None:
    """The chain of parents is unbroken, ids occur once, references point to entries; version 1 has none of this."""
    seen: set[str | None] = {None}
    for entry in body(name):
        if "id" not in entry:
            assert name == "pi-v1.jsonl"
            continue
        assert entry["parentId"] in seen
        assert entry["id"] not in seen
        for key in ("firstKeptEntryId", "targetId", "fromId"):
            assert entry.get(key) in seen, f"{key} of {entry['id']}"
        seen.add(entry["id"])


@pytest.mark.parametrize("name", SESSIONS)
def test_each_call_has_one_result(name: str) -> None:
    """Calls and results come in pairs, with ids in a form that the APIs accept."""
    calls: list[str] = []
    results: list[str] = []
    for message in messages(name):
        if message["role"] == "assistant":
            made = [part["id"] for part in message["content"] if part["type"] == "toolCall"]
            assert (message["stopReason"] == "toolUse") == bool(made)
            calls += made
        elif message["role"] == "toolResult":
            results.append(message["toolCallId"])
            assert isinstance(message["content"], list)
            assert message["isError"] == any("exited with code" in part.get("text", "") for part in message["content"])
    assert calls
    assert sorted(calls) == sorted(results) == sorted(set(calls))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+(\|fc_[0-9a-f]+)?", call) for call in calls)


@pytest.mark.parametrize("name", ROLLOUTS)
def test_a_rollout_is_sound(name: str) -> None:
    """Its folder is there, its times rise, each call has one output behind it, and ids occur once."""
    lines = entries(name)
    assert lines[0]["payload"]["cwd"] == "/tmp"
    stamps = [line["timestamp"] for line in lines]
    assert stamps == sorted(stamps)
    items = [line["payload"] for line in lines if line["type"] == "response_item"]
    calls = [item["call_id"] for item in items if item["type"].endswith("_call")]
    outputs = [item["call_id"] for item in items if item["type"].endswith("_output")]
    assert calls
    assert calls == outputs
    ids = [item["id"] for item in items if "id" in item]
    assert len(set(ids)) == len(ids)


def test_a_document_of_gemini_is_sound() -> None:
    """Times rise, ids occur once, and each call has its own response."""
    messages = json.loads((FIXTURES / "gemini.json").read_bytes())["messages"]
    stamps = [message["timestamp"] for message in messages]
    assert stamps == sorted(stamps)
    assert len({message["id"] for message in messages}) == len(messages)
    made = [call for message in messages for call in message.get("toolCalls", ())]
    assert made
    assert len({call["id"] for call in made}) == len(made)
    for call in made:
        (response,) = [part["functionResponse"] for part in call["result"]]
        assert (response["id"], response["name"]) == (call["id"], call["name"])


def test_an_export_of_opencode_is_sound() -> None:
    """Ids rise, since the agent sorts by them; answers and parts name what they belong to; calls have their output."""
    document = json.loads((FIXTURES / "opencode.json").read_bytes())
    messages = document["messages"]
    ids = [message["info"]["id"] for message in messages]
    assert ids == sorted(set(ids))
    parts = [(part, message["info"]) for message in messages for part in message["parts"]]
    names = [part["id"] for part, _ in parts]
    assert names == sorted(set(names))
    assert all(part["messageID"] == info["id"] for part, info in parts)
    assert all(part["sessionID"] == document["info"]["id"] for part, _ in parts)
    assert {message["info"].get("parentID", ids[0]) for message in messages} <= set(ids)
    states = [part["state"] for part, _ in parts if part["type"] == "tool"]
    assert states
    assert all({"input", "output", "title", "metadata", "time"} <= state.keys() for state in states)


def test_records_of_gemini_are_sound() -> None:
    """The header is first, times rise, what is gone back to was said, and each call has its own response."""
    records = [json.loads(line) for line in (FIXTURES / "gemini.jsonl").read_bytes().splitlines()]
    assert {"sessionId", "projectHash", "startTime"} <= records[0].keys()
    messages = [record for record in records if "id" in record]
    stamps = [message["timestamp"] for message in messages]
    assert stamps == sorted(stamps)
    said: set[str] = set()
    for record in records:
        said |= {record["id"]} if "id" in record else set()
        assert record.get("$rewindTo", next(iter(said), None)) in said | {None}
        assert {message["id"] for message in record.get("$set", {}).get("messages", ())} <= said
    for call in [call for message in messages for call in message.get("toolCalls", ()) if call["result"]]:
        (response,) = [part["functionResponse"] for part in call["result"]]
        assert (response["id"], response["name"]) == (call["id"], call["name"])
    assert sum("$rewindTo" in record for record in records) == 1
    assert sum("messages" in record.get("$set", {}) for record in records) == 2


def test_a_document_of_gencode_is_sound() -> None:
    """Each call has its result in the message behind it, and what counts messages counts right."""
    document = json.loads((FIXTURES / "gencode.json").read_bytes())
    messages = document["messages"]
    assert document["metadata"]["messageCount"] == len(messages)
    assert document["metadata"]["completions"][0]["afterMessageIndex"] == len(messages) - 1
    for message, following in itertools.pairwise(messages):
        calls = [part["id"] for part in message["content"] if isinstance(part, dict) and part["type"] == "tool_use"]
        parts = following["content"] if isinstance(following["content"], list) else []
        assert calls == [part["toolUseId"] for part in parts if part["type"] == "tool_result"]


@pytest.mark.parametrize("name", ["chat.jsonl", "chat.json"])
def test_a_chat_is_sound(name: str) -> None:
    """Each call has its result in the message behind it; its arguments are JSON in a string."""
    data = (FIXTURES / name).read_bytes()
    messages = json.loads(data) if name == "chat.json" else [json.loads(line) for line in data.splitlines()]
    for message, following in itertools.pairwise(messages):
        calls = message.get("tool_calls", [])
        assert [call["id"] for call in calls] == ([following["tool_call_id"]] if following["role"] == "tool" else [])
        assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)


@pytest.mark.parametrize("name", SESSIONS)
def test_every_answer_says_what_it_cost(name: str) -> None:
    """The agents read `usage.cost.total` unguarded."""
    for message in messages(name):
        if message["role"] == "assistant":
            assert message["usage"]["cost"]["total"] > 0
            assert message["usage"]["output"] > 0


@pytest.mark.parametrize("name", SESSIONS)
def test_times_rise(name: str) -> None:
    """Entries are written one after the other."""
    stamps = [entry["timestamp"] for entry in body(name)]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize("name", CLAUDE)
def test_a_session_of_claude_code_is_sound(name: str) -> None:
    """Parents were written before, but a compaction has none; each call has one result; times rise."""
    seen: set[str | None] = {None}
    calls: list[str] = []
    results: list[str] = []
    tree = [entry for entry in entries(name) if "parentUuid" in entry]
    for entry in tree:
        assert entry["parentUuid"] in seen
        assert entry["uuid"] not in seen
        assert entry.get("logicalParentUuid") in seen
        seen.add(entry["uuid"])
        content = entry.get("message", {}).get("content")
        for part in content if isinstance(content, list) else ():
            calls += [part["id"]] if part["type"] == "tool_use" else []
            results += [part["tool_use_id"]] if part["type"] == "tool_result" else []
    assert calls
    assert sorted(calls) == sorted(results) == sorted(set(calls))
    stamps = [entry["timestamp"] for entry in tree]
    assert stamps == sorted(stamps)


def test_the_title_slot_is_256_bytes() -> None:
    """oh-my-pi writes titles over its first line."""
    for name in ("omp.jsonl", "omp-gemini.jsonl"):
        assert len((FIXTURES / name).read_bytes().split(b"\n", 1)[0]) == 255


def test_small_numbers_are_written_as_javascript_does() -> None:
    """The fixtures hold numbers that a Python writer would change."""
    written = (FIXTURES / "pi-anthropic.jsonl").read_bytes()
    assert b'"input":0.00000' in written
    assert not re.search(rb":\d[.\d]*e-0", written)


def test_a_generated_session_is_sound(tmp_path: Path) -> None:
    """The large sessions for benchmarks parse, chain and have the size that was asked for."""
    path = tmp_path / "big.jsonl"
    size = generate(path, 2)
    assert size == path.stat().st_size
    assert 2_000_000 <= size < 2_500_000
    parent: str | None = None
    for line in path.read_bytes().splitlines()[1:]:
        entry = json.loads(line)
        assert entry["parentId"] == parent
        parent = entry["id"]


def test_the_same_seed_generates_the_same_session(tmp_path: Path) -> None:
    """Benchmarks compare like with like."""
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        generate(tmp_path / name, 0.3, seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


def entries(name: str) -> list[Any]:
    """Return the entries of a fixture, the title slot and the header too."""
    return [json.loads(line) for line in (FIXTURES / name).read_bytes().split(b"\n") if line]


def body(name: str) -> Iterator[Any]:
    yield from (entry for entry in entries(name) if entry["type"] not in ("session", "title"))


def messages(name: str) -> Iterator[Any]:
    yield from (entry["message"] for entry in body(name) if entry["type"] == "message")
