"""A rewritten rollout is resumed by the real Codex CLI, which sends what it sends after the original, only less."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store.originals import zstd
from tests.agents import codex, replies
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.replies import Reply
from tests.agents.rules import reasoned_ids
from tests.agents.sessions import FIXTURES, LITTLE_PROTECTED, compressed, of_corpus, rewritten
from tests.agents.standin import Request

CORPUS_RUNS = [
    ("019ed50c", "little grown"),  # no ids, calls of all kinds
    ("019ed893", "little archive pruned"),  # a compaction
    ("019efc87", "little grown"),  # ids, a compaction
    ("019f03e0", "little archive pruned"),  # ids, two compactions, another model
    ("019f1d64", "little archive pruned grown"),  # ids, no compaction
    ("01a00ba5", "little grown"),  # ids, messages between agents
    ("01a0108e", "little archive pruned"),
]


@pytest.mark.parametrize("name", ["codex", "codex-older"])
def test_a_rewritten_fixture_is_resumed(name: str, tmp_path: Path) -> None:
    check(FIXTURES / f"{name}.jsonl", "default little archive pruned", tmp_path)


def test_codex_reads_what_it_has_packed(tmp_path: Path) -> None:
    """So `pack` leaves no session worse that it takes as it is. Codex unpacks it as it goes on."""
    need(codex.program(), "the Codex CLI")
    session = codex.ours(FIXTURES / "codex.jsonl", tmp_path / "session.jsonl")
    (plain,) = codex.go_on(codex.placed(session, tmp_path))
    there = codex.placed(session, tmp_path)
    packed = there.rollout.with_name(f"{there.rollout.name}.zst")
    packed.write_bytes(zstd.compress(there.rollout.read_bytes()))
    there.rollout.unlink()
    (request,) = codex.go_on(there)
    assert differences(plain.body, request.body) == []
    assert (there.rollout.exists(), packed.exists()) == (True, False)


@pytest.mark.parametrize(("name", "ways"), CORPUS_RUNS)
def test_a_rewritten_real_session_is_resumed(name: str, ways: str, tmp_path: Path) -> None:
    check(of_corpus(name), ways, tmp_path)


def check(session: Path, ways: str, folder: Path) -> list[Request]:
    """Resume a session and what each way makes of it, all at once: starting an agent takes longer than all else."""
    need(codex.program(), "Codex CLI")
    original = codex.ours(session, folder / session.name)
    names = ways.split()
    before, *after = resumed([original, *(rewritten(original, way) for way in names)], folder)
    for way, each in zip(names, after, strict=True):
        assert differences(before.body, each.body) == [], way
        assert each.size < before.size or (way == "default" and each.size == before.size), way
    return [before, *after]


def resumed(sessions: Sequence[Path], folder: Path) -> list[Request]:
    """Return the requests. They may name the folder: names of one length."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(codex.resume, sessions, (folder / f"at{number}" for number in range(len(sessions)))))


def kinds(request: Request, *wanted: str) -> list[Any]:
    return [item for item in request.body["input"] if item.get("type") in wanted]


def test_reasoning_goes_with_the_ids_of_its_response(tmp_path: Path) -> None:
    """What decided that it goes: Codex leaves the item out, keeps all others in their places, and sends them nameless."""
    before, after = check(FIXTURES / "codex.jsonl", "little", tmp_path)
    assert 0 < len(kinds(after, "reasoning")) < len(kinds(before, "reasoning"))
    assert kinds(after, "other") == []
    calls = [len(kinds(each, "function_call", "custom_tool_call")) for each in (before, after)]
    assert calls[0] == calls[1]
    assert reasoned_ids(after.body) < reasoned_ids(before.body)


@pytest.mark.parametrize("name", ["codex", "codex-older"])
def test_a_compressed_rollout_is_migrated(name: str, tmp_path: Path) -> None:
    """As without us: with all its lines in their places, whose items the next request holds."""
    need(codex.program(), "Codex CLI")
    original = codex.ours(FIXTURES / f"{name}.jsonl", tmp_path / f"{name}.jsonl")
    migrated = []
    for folder, session in (("one", original), ("two", compressed(original, LITTLE_PROTECTED))):
        there = codex.placed(session, tmp_path / folder)
        codex.migrate(there)
        lines = [json.loads(line) for line in there.rollout.read_bytes().splitlines()]
        assert [line["ordinal"] for line in lines] == list(range(len(lines)))
        migrated.append((len(lines), codex.go_on(there)))
    (before, (asked,)), (after, (asks,)) = migrated
    assert after == before
    assert len(kinds(asks, "reasoning")) < len(kinds(asked, "reasoning"))
    assert differences(asked.body, asks.body) == []


def used(tokens: int) -> Reply:
    return lambda model, _: replies.responses(model, tokens)


def test_a_migrated_rollout_is_resumed_and_forked(tmp_path: Path) -> None:
    """Also behind an earlier turn, and where the newest count of tokens in that makes Codex compact at once."""
    need(codex.program(), "Codex CLI")
    there = codex.placed(codex.ours(FIXTURES / "codex.jsonl", tmp_path / "codex.jsonl"), tmp_path)
    codex.migrate(there)
    for usage in (90_000, 1000, 1000):
        codex.go_on(there, first=used(usage))
    original = Path(shutil.copyfile(there.rollout, tmp_path / "ordered.jsonl"))
    smaller = compressed(original, LITTLE_PROTECTED)
    assert smaller.read_bytes().count(b'"info":null,"rate_limits":null') > original.read_bytes().count(b'"info":null')
    before, after = resumed([original, smaller], tmp_path)
    assert differences(before.body, after.body) == []
    for turn, requests in ((-2, 1), (-3, 2)):
        (asked, shown), (asks, shows) = (
            codex.fork(codex.placed(session, tmp_path / folder), turn, 50_000)
            for folder, session in (("one", original), ("two", smaller))
        )
        assert [each["id"] for each in shows] == [each["id"] for each in shown]
        assert len(asks) == len(asked) == requests
        assert differences(asked[-1].body, asks[-1].body) == []


def test_damage_to_a_rollout_is_seen(tmp_path: Path) -> None:
    """Codex itself answers a call whose output is gone, and drops an output whose call is."""
    need(codex.program(), "Codex CLI")
    original = codex.ours(FIXTURES / "codex.jsonl", tmp_path / "whole.jsonl")
    damaged = tmp_path / "damaged.jsonl"
    lines = original.read_bytes().splitlines(keepends=True)
    place = next(number for number in reversed(range(len(lines))) if b'"function_call_output"' in lines[number])
    entry = json.loads(lines[place])
    entry["payload"]["output"] = {"text": "an object"}
    lines[place] = json.dumps(entry).encode() + b"\n"
    damaged.write_bytes(b"".join(lines))
    before, after = resumed([original, damaged], tmp_path)
    assert any("changed and does not say so: 'aborted'" in said for said in differences(before.body, after.body))


def test_reasoning_that_is_gone_alone_is_seen(tmp_path: Path) -> None:
    """With the ids of its response still there: what the API refuses."""
    need(codex.program(), "Codex CLI")
    original = codex.ours(FIXTURES / "codex.jsonl", tmp_path / "whole.jsonl")
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(original.read_bytes().replace(b'"type":"reasoning"', b'"type":"other"'))
    before, after = resumed([original, damaged], tmp_path)
    found = differences(before.body, after.body)
    assert any("stands without its reasoning item" in said for said in found)
