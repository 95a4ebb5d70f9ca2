"""A rewritten rollout is resumed by the real Codex CLI, which sends what it sends after the original, only less."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sessioncompress import Policy
from sessioncompress.store.originals import zstd
from tests.agents import codex, replies
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.replies import Reply
from tests.agents.rules import reasoned_ids
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

FIXTURE_RUNS = [
    ("codex", NO_THRESHOLDS),
    ("codex", LITTLE_PROTECTED),
    ("codex", ARCHIVE),
    ("codex", PRUNED),
    ("codex-older", NO_THRESHOLDS),
    ("codex-older", LITTLE_PROTECTED),
    ("codex-older", ARCHIVE),
    ("codex-older", PRUNED),
]

CORPUS_RUNS = [
    "019ed50c",  # no ids, calls of all kinds
    "019ed893",  # a compaction
    "019efc87",  # ids, a compaction
    "019f03e0",  # ids, two compactions, another model
    "019f1d64",  # ids, no compaction
    "01a00ba5",  # ids, messages between agents
    "01a0108e",
]

GROWN = ["019ed50c", "019efc87", "019f1d64", "01a00ba5"]

ARCHIVED = ["019ed893", "019f03e0", "019f1d64", "01a0108e"]


@pytest.mark.parametrize(("name", "policy"), FIXTURE_RUNS, ids=["default", "little-protected", "archive", "pruned"] * 2)
def test_a_compressed_fixture_is_resumed(name: str, policy: Policy, tmp_path: Path) -> None:
    before, after = check(FIXTURES / f"{name}.jsonl", policy, tmp_path)
    assert after.size < before.size or policy is NO_THRESHOLDS


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


@pytest.mark.parametrize("name", CORPUS_RUNS)
def test_a_compressed_real_session_is_resumed(name: str, tmp_path: Path) -> None:
    before, after = check(of_corpus(name), LITTLE_PROTECTED, tmp_path)
    assert after.size < before.size


@pytest.mark.parametrize("name", ARCHIVED)
def test_an_archived_session_is_resumed(name: str, tmp_path: Path) -> None:
    before, after = check(of_corpus(name), ARCHIVE, tmp_path)
    assert after.size < before.size


@pytest.mark.parametrize("name", ARCHIVED)
def test_a_pruned_session_is_resumed(name: str, tmp_path: Path) -> None:
    before, after = check(of_corpus(name), PRUNED, tmp_path)
    assert after.size < before.size


@pytest.mark.parametrize("name", GROWN)
def test_a_session_compressed_as_it_grew_is_resumed(name: str, tmp_path: Path) -> None:
    before, after = check(of_corpus(name), LITTLE_PROTECTED, tmp_path, grown)
    assert after.size < before.size


def check(
    session: Path, policy: Policy, folder: Path, rewrite: Callable[[Path, Policy], Path] = compressed
) -> tuple[Request, Request]:
    need(codex.program(), "Codex CLI")
    original = codex.ours(session, folder / session.name)
    before, after = resumed(original, rewrite(original, policy), folder)
    assert differences(before.body, after.body) == []
    assert after.size <= before.size
    return before, after


def resumed(original: Path, rewritten: Path, folder: Path) -> tuple[Request, Request]:
    """Resume both at once: starting an agent takes longer than all else. A request may name the folder."""
    with ThreadPoolExecutor(2) as pool:
        before = pool.submit(codex.resume, original, folder / "one")
        after = pool.submit(codex.resume, rewritten, folder / "two")
        return before.result(), after.result()


def kinds(request: Request, *wanted: str) -> list[Any]:
    """Return the items of these types."""
    return [item for item in request.body["input"] if item.get("type") in wanted]


def test_reasoning_goes_with_the_ids_of_its_response(tmp_path: Path) -> None:
    """What decided that it goes: Codex leaves the item out, keeps all others in their places, and sends them nameless."""
    before, after = check(FIXTURES / "codex.jsonl", LITTLE_PROTECTED, tmp_path)
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
    """Return what answers with this usage."""
    return lambda model, _: replies.responses(model, tokens)


def test_a_migrated_rollout_is_resumed_and_forked(tmp_path: Path) -> None:
    """Also behind an earlier turn, and where the newest count of tokens in that makes Codex compact at once."""
    need(codex.program(), "Codex CLI")
    there = codex.placed(codex.ours(FIXTURES / "codex.jsonl", tmp_path / "codex.jsonl"), tmp_path)
    codex.migrate(there)
    for usage in (90_000, 1000, 1000):
        codex.go_on(there, first=used(usage))
    original = Path(shutil.copyfile(there.rollout, tmp_path / "ordered.jsonl"))
    rewritten = compressed(original, LITTLE_PROTECTED)
    assert rewritten.read_bytes().count(b'"info":null,"rate_limits":null') > original.read_bytes().count(b'"info":null')
    before, after = resumed(original, rewritten, tmp_path)
    assert differences(before.body, after.body) == []
    for turn, requests in ((-2, 1), (-3, 2)):
        (asked, shown), (asks, shows) = (
            codex.fork(codex.placed(session, tmp_path / folder), turn, 50_000)
            for folder, session in (("one", original), ("two", rewritten))
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
    before, after = resumed(original, damaged, tmp_path)
    assert any("changed and does not say so: 'aborted'" in said for said in differences(before.body, after.body))


def test_reasoning_that_is_gone_alone_is_seen(tmp_path: Path) -> None:
    """With the ids of its response still there: what the API refuses."""
    need(codex.program(), "Codex CLI")
    original = codex.ours(FIXTURES / "codex.jsonl", tmp_path / "whole.jsonl")
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(original.read_bytes().replace(b'"type":"reasoning"', b'"type":"other"'))
    before, after = resumed(original, damaged, tmp_path)
    found = differences(before.body, after.body)
    assert any("stands without its reasoning item" in said for said in found)
