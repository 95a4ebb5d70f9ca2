"""The real Codex CLI goes on from a checkpoint as if it had written it itself."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress import Policy, compress_session
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.policy.model import CutRule
from tests.agents import codex, compare
from tests.agents.compacting import DEFAULT, HEAD, SMALL, compacted, differences
from tests.agents.installed import need
from tests.agents.replies import TEXT
from tests.agents.sessions import ARCHIVE, FIXTURES, NO_THRESHOLDS, of_corpus
from tests.agents.standin import Request
from tests.support.rollout import lost_its_seal

FIXTURE_RUNS = ["codex", "codex-older", "codex-paginated"]

CORPUS_RUNS = [
    "019ed50c",  # no ids, calls of all kinds
    "019ed893",  # a sealed compaction
    "019f03e0",  # ids, two of them, another model
    "019f1d64",  # ids, no compaction
    "019f1de1",  # cut at a turn
    "01a00ba5",  # ids, messages between agents
]

SUMS_UP = "CONTEXT CHECKPOINT COMPACTION"
"""So Codex asks for a summary."""


@pytest.mark.parametrize("name", FIXTURE_RUNS)
def test_a_compacted_fixture_is_resumed_twice(name: str, tmp_path: Path) -> None:
    check(FIXTURES / f"{name}.jsonl", SMALL, tmp_path)


@pytest.mark.parametrize("name", FIXTURE_RUNS)
def test_a_compressed_fixture_is_compacted(name: str, tmp_path: Path) -> None:
    """Reasoning that went is in no request."""
    session = codex.ours(FIXTURES / f"{name}.jsonl", tmp_path / f"{name}.jsonl")
    compress_session(session, replace(NO_THRESHOLDS, protect_tokens=0, turn_threshold_before_compress=0))
    assert any(lost_its_seal(json.loads(line)) for line in session.read_bytes().splitlines())
    (tmp_path / "resumed").mkdir()
    check(session, SMALL, tmp_path / "resumed")


@pytest.mark.parametrize("name", CORPUS_RUNS)
def test_a_compacted_real_session_is_resumed_twice(name: str, tmp_path: Path) -> None:
    check(of_corpus(name), DEFAULT, tmp_path)


def check(session: Path, policy: Policy, folder: Path) -> None:
    need(codex.program(), "Codex CLI")
    original = codex.ours(session, folder / session.name)
    made = compacted(original, folder / "compacted", policy)
    with ThreadPoolExecutor(2) as pool:
        before, after = pool.map(resumed, (original, made.path), (folder / "one", folder / "two"))
    assert [differences(made, was.body, now.body) for was, now in zip(before, after, strict=True)] == [[], []]


def resumed(session: Path, workdir: Path) -> list[Request]:
    there = codex.placed(session, workdir)
    return [request for _ in range(2) for request in codex.go_on(there)]


@pytest.mark.parametrize("policy", [NO_THRESHOLDS, ARCHIVE], ids=["default", "archive"])
@pytest.mark.parametrize("name", FIXTURE_RUNS)
def test_what_is_dead_may_be_compressed(name: str, policy: Policy, tmp_path: Path) -> None:
    need(codex.program(), "Codex CLI")
    original = codex.ours(FIXTURES / f"{name}.jsonl", tmp_path / "whole.jsonl")
    made = compacted(original, tmp_path / "compacted", SMALL)
    before = resumed(made.path, tmp_path / "one")
    size = made.path.stat().st_size
    compress_session(made.path, policy)
    assert made.path.stat().st_size < size
    after = resumed(made.path, tmp_path / "two")
    assert [compare.differences(was.body, now.body) for was, now in zip(before, after, strict=True)] == [[], []]


@pytest.mark.parametrize("name", FIXTURE_RUNS)
def test_a_compacted_rollout_is_not_compacted_again(name: str, tmp_path: Path) -> None:
    """With a limit that the recorded context exceeds, Codex compacts the original at once, and ours never."""
    need(codex.program(), "Codex CLI")
    original = counted(codex.ours(FIXTURES / f"{name}.jsonl", tmp_path / "whole.jsonl"))
    made = compacted(original, tmp_path / "compacted", SMALL)
    most = recorded(original) - 1
    assert asks_for_a_summary(codex.go_on(codex.placed(original, tmp_path / "one"), most)[0])
    there = codex.placed(made.path, tmp_path / "two")
    found = [[asks_for_a_summary(each) for each in codex.go_on(there, most)] for _ in range(2)]
    assert found == [[False], [False]]


def test_a_paginated_rollout_lists_all_turns_and_comes_back(tmp_path: Path) -> None:
    """Also from under turns of the agent's, where the numbers of its lines then have a gap; and a second time."""
    need(codex.program(), "Codex CLI")
    original = codex.ours(FIXTURES / "codex-paginated.jsonl", tmp_path / "whole.jsonl")
    whole, before = original.read_bytes(), codex.placed(original, tmp_path / "one")
    codex.go_on(before)
    turns = codex.listed(before)
    assert len(turns) == 9
    most = replace(SMALL.compact, keep_messages=12)
    made = compacted(original, tmp_path / "compacted", replace(SMALL, compact=most))
    added = made.path.read_bytes()[len(whole) :]
    there = codex.placed(made.path, tmp_path / "two")
    for _ in range(2):
        codex.go_on(there)
    now = codex.listed(there)
    assert [len(turn) for turn in now] == [*(len(turn) for turn in turns[:-2]), len(turns[-2]) + 1, 2, 2]
    assert now[-3][-1] == ("contextCompaction", "")
    made.path.write_bytes(there.rollout.read_bytes())
    one_turn = replace(SMALL.compact, keep=CutRule.TURNS, keep_turns=1)
    second = compact_session(made.path, replace(SMALL, compact=one_turn))
    assert second.is_compacted, second.reason
    again = codex.placed(made.path, tmp_path / "three")
    assert json.dumps(codex.go_on(again)[0].body["input"]).count(HEAD) == 1
    made.path.write_bytes(again.rollout.read_bytes())
    restore_session(made.path)
    back = made.path.read_bytes()
    assert back.startswith(whole)
    assert added not in back
    assert there.rollout.read_bytes()[len(whole) + len(added) :] in back
    last = codex.placed(made.path, tmp_path / "four")
    (request,) = codex.go_on(last)
    assert HEAD not in json.dumps(request.body["input"])
    assert codex.listed(last) == [*turns, *turns[-1:] * 3]


@pytest.mark.parametrize("name", ["codex", "codex-paginated"])
def test_codex_writes_what_we_write(name: str, tmp_path: Path) -> None:
    """What a compaction of Codex's own adds to a rollout has all the keys that ours has."""
    need(codex.program(), "Codex CLI")
    original = counted(codex.ours(FIXTURES / f"{name}.jsonl", tmp_path / "whole.jsonl"))
    made = compacted(original, tmp_path / "compacted", SMALL)
    there = codex.placed(original, tmp_path / "one")
    codex.go_on(there, recorded(original) - 1)
    own, ours = last_of(there.rollout), last_of(made.path)
    for kind, entry in ours.items():
        assert entry.keys() <= own[kind].keys(), kind
        assert entry["payload"].keys() <= own[kind]["payload"].keys(), kind
    theirs, written = (each["compacted"]["payload"] for each in (own, ours))
    item = written["replacement_history"][0]
    last = theirs["replacement_history"][-1]
    assert item.keys() <= last.keys()
    assert item["content"][0].keys() == last["content"][0].keys()
    prefix = written["message"].partition("\n")[0]
    assert [theirs["message"], last["content"][0]["text"]] == [f"{prefix}\n{TEXT}"] * 2
    usage = ours["token_count"]["payload"]["info"]
    assert usage.keys() <= own["token_count"]["payload"]["info"].keys()


def counted(rollout: Path) -> Path:
    """Put all counts into what was used, which the fixtures leave out: without them Codex reads nothing of it."""
    none = {"cached_input_tokens": 0, "reasoning_output_tokens": 0}
    lines = [json.loads(line) for line in rollout.read_bytes().splitlines()]
    for info in [line["payload"]["info"] for line in lines if line["payload"].get("type") == "token_count"]:
        for key in ("total_token_usage", "last_token_usage"):
            info[key] = none | info[key]
    rollout.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))
    return rollout


def recorded(rollout: Path) -> int:
    """Return the tokens of the context as the rollout last recorded them."""
    return int(last_of(rollout)["token_count"]["payload"]["info"]["last_token_usage"]["total_tokens"])


def last_of(rollout: Path) -> dict[str, dict[str, Any]]:
    """Return the last line of each kind that a checkpoint is written with."""
    kinds = ("compacted", "token_count", "context_compacted", "ContextCompaction")
    found: dict[str, dict[str, Any]] = {}
    for line in rollout.read_bytes().splitlines():
        entry = json.loads(line)
        kind = entry["type"] if entry["type"] == "compacted" else entry["payload"].get("type")
        kind = entry["payload"]["item"]["type"] if kind == "item_completed" else kind
        if kind in kinds:
            found[kind] = entry
    return found


def asks_for_a_summary(request: Request) -> bool:
    return SUMS_UP in json.dumps(request.body["input"])
