"""pi and oh-my-pi go on from a checkpoint of ours as from one of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents import omp, pi
from tests.agents.checkpointing import check, lines_of_old, strings_of
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, of_corpus
from tests.support.checkpoints import SUMMARY, Cutting, checkpointed

OLD, MIDDLE, NEW = "0.74.2", "0.87.1", "1.5.2"

RUNS = [
    ("pi-anthropic", OLD),
    ("pi-anthropic", MIDDLE),
    ("pi-responses", OLD),
    ("pi-compacted", MIDDLE),
    ("pi-gemini", MIDDLE),
    ("pi-one-prompt", OLD),
    ("pi-1x", MIDDLE),
    ("pi-1x", NEW),
    ("openclaw", MIDDLE),
]

CORPUS_RUNS = [
    ("9b0c0a5f", OLD),
    ("019dbe19", OLD),  # compacted before
    ("a10e3a9e", MIDDLE),  # Responses
    ("ff97dd60", OLD),  # Responses
    ("019dc52b", MIDDLE),  # Codex
    ("019da84b", MIDDLE),  # Gemini, after Claude and a Responses model
    ("019da8da", OLD),  # Gemini
    ("issue-68", MIDDLE),
]

OMP_RUNS = ["01a01ae5-8d1a", "01a01b67-3441", "01a0221c-9435", "01a01b95-b852-7001", "01a01d30-1823-7002"]


@pytest.mark.parametrize(("name", "version"), RUNS)
def test_a_fixture_with_a_checkpoint_is_resumed(name: str, version: str, tmp_path: Path) -> None:
    resumed_twice(FIXTURES / f"{name}.jsonl", version, tmp_path)


@pytest.mark.parametrize(("name", "version"), CORPUS_RUNS)
def test_a_real_session_with_a_checkpoint_is_resumed(name: str, version: str, tmp_path: Path) -> None:
    resumed_twice(of_corpus(name), version, tmp_path)


def resumed_twice(session: Path, version: str, folder: Path) -> None:
    need(version in pi.versions(), f"pi {version}")
    made, session = prepared(session, folder)
    original = folder / "original.jsonl"
    before = pi.run(version, original, folder / "before")
    after = pi.run(version, session, folder / "after")
    check(made, before.requests[0], after.requests[0])
    assert after.session.startswith(made.after)
    original.write_bytes(before.session)
    session.write_bytes(after.session)
    again = pi.resume(version, original, folder / "before"), pi.resume(version, session, folder / "after")
    check(made, *again)


def prepared(session: Path, folder: Path) -> tuple[Cutting, Path]:
    original = pi.with_cwd(session, folder, folder / "original.jsonl")
    made = checkpointed(original.read_bytes())
    path = folder / "session.jsonl"
    path.write_bytes(made.after)
    return made, path


@pytest.mark.parametrize("version", [OLD, MIDDLE])
def test_what_was_used_before_does_not_count(version: str, tmp_path: Path) -> None:
    """The window is smaller than what the last request took: pi compacts the original, and ours not again."""
    need(version in pi.versions(), f"pi {version}")
    _, session = prepared(FIXTURES / "pi-anthropic.jsonl", tmp_path)
    settings = {"compaction": {"enabled": True, "reserveTokens": 1000, "keepRecentTokens": 2000}}
    counts = []
    for path in (tmp_path / "original.jsonl", session):
        found = pi.run(version, path, tmp_path / "run", context_window=22_000, settings=settings)
        counts.append(
            (
                len(found.requests),
                found.session.count(b'"type":"compaction"') - path.read_bytes().count(b'"type":"compaction"'),
            )
        )
    assert counts[0][1] == 1
    assert counts[1] == (1, 0)


@pytest.mark.parametrize("version", [OLD, MIDDLE])
def test_pi_compacts_on_top(version: str, tmp_path: Path) -> None:
    """It takes our summary as the one before, and our files into its lists; it writes the keys that we write."""
    need(version in pi.versions(), f"pi {version}")
    made, session = prepared(FIXTURES / "pi-anthropic.jsonl", tmp_path)
    session.write_bytes(pi.run(version, session, tmp_path / "run").session)
    found = pi.compact(version, session, tmp_path, keep=50)
    assert '"success":true' in found.output
    asked = "\n".join(text for request in found.requests for text in strings_of(request.body))
    assert SUMMARY.text in asked.split("<previous-summary>")[1].split("</previous-summary>")[0]
    ours, theirs = json.loads(made.checkpoint.added[0].line), json.loads(found.session.splitlines()[-1])
    assert set(theirs["details"]["readFiles"]) >= set(SUMMARY.read) - set(theirs["details"]["modifiedFiles"])
    assert set(theirs["details"]["modifiedFiles"]) >= set(SUMMARY.changed)
    assert {key: type(value) for key, value in ours.items()}.items() <= kinds(theirs).items()
    # What it writes besides: what its own summary took, what the system said since, and that no extension wrote it.
    assert theirs.keys() - ours.keys() <= {"usage", "systemMessage", "fromHook"}
    assert theirs.get("fromHook") is False
    assert theirs["details"].keys() == ours["details"].keys()


def kinds(entry: dict[str, Any]) -> dict[str, type]:
    return {key: type(value) for key, value in entry.items()}


@pytest.mark.parametrize("name", ["omp", "omp-gemini", *OMP_RUNS])
def test_oh_my_pi_loads_a_session_with_a_checkpoint(name: str, tmp_path: Path) -> None:
    need(omp.installed(), "oh-my-pi")
    made, session = prepared(FIXTURES / f"{name}.jsonl" if name.startswith("omp") else of_corpus(name), tmp_path)
    before = omp.context(tmp_path / "original.jsonl", tmp_path)
    after = omp.context(session, tmp_path)
    summary, *kept = after
    assert (summary["role"], summary["shortSummary"], summary["tokensAfter"]) == (
        "compactionSummary",
        SUMMARY.short,
        SUMMARY.tokens_after,
    )
    assert summary["summary"].startswith(SUMMARY.text)
    assert 0 < len(kept) < len(before)
    assert kept == before[len(before) - len(kept) :]
    everything = "\n".join(strings_of(after))
    assert [text for text in lines_of_old(made) if text in everything] == []
