"""pi goes on from a branch that was left with a summary of ours, and pi and oh-my-pi from a handoff of ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessioncompress.operations.branch import places, summarize_branch
from sessioncompress.operations.handoff import handoff_session
from sessioncompress.operations.restore import restore_session
from tests.agents import omp, pi
from tests.agents.bodies import messages
from tests.agents.checkpointing import said_in, strings_of
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, of_corpus
from tests.support.branched import branched
from tests.support.runs import split

VERSIONS = ("0.74.2", "0.87.1", "1.5.2")
EACH = pytest.mark.parametrize("version", VERSIONS)


@EACH
def test_the_request_holds_the_other_path_and_the_summary(version: str, tmp_path: Path) -> None:
    need(version in pi.versions(), f"pi {version}")
    made = branched(str(tmp_path))
    original, session = tmp_path / "original.jsonl", tmp_path / "session.jsonl"
    original.write_bytes(b"".join(split(made.data)[: made.before]))
    session.write_bytes(made.data)
    summary = summarize_branch(session).summary
    alone, after = pi.run(version, original, tmp_path / "alone"), pi.run(version, session, tmp_path / "after")
    old, new = messages(alone.requests[0].body), messages(after.requests[0].body)
    (place,) = [number for number, message in enumerate(new) if summary in said_in(message)]
    assert place == len(old) - 1, "the summary stands before the new prompt"
    assert [*new[:place], *new[place + 1 :]] == old
    left = "\n".join(text for number, each in enumerate(new) if number != place for text in strings_of(said_in(each)))
    assert not any(words in left for words in ("second gauge", "gauges.toml", "second.py"))
    assert [part for part in strings_of(after.requests[0].body) if "def second()" in part] == []
    assert after.requests[0].problems == alone.requests[0].problems


@EACH
def test_the_original_comes_back(version: str, tmp_path: Path) -> None:
    """Before pi went on byte for byte, and behind that with its turn on the branch where it was said."""
    need(version in pi.versions(), f"pi {version}")
    made = branched(str(tmp_path))
    session = tmp_path / "session.jsonl"
    session.write_bytes(made.data)
    summarize_branch(session)
    gone_on = pi.run(version, session, tmp_path / "run").session
    restore_session(session)
    assert session.read_bytes() == made.data
    summarize_branch(session)
    session.write_bytes(gone_on)
    restore_session(session)
    lines = split(session.read_bytes())
    assert b"".join(lines[: len(split(made.data))]) == made.data
    first, *_ = map(json.loads, lines[len(split(made.data)) :])
    assert first["parentId"] == made.first
    again = pi.resume(version, session, tmp_path / "again")
    assert not any("<summary>" in text for text in strings_of(again.body))


@EACH
def test_pi_starts_from_a_handoff(version: str, tmp_path: Path) -> None:
    need(version in pi.versions(), f"pi {version}")
    made = branched(str(tmp_path))
    session = tmp_path / "session.jsonl"
    session.write_bytes(made.data)
    handoff = handoff_session(session, new=True)
    begun = Path(handoff.begun)
    found = pi.run(version, begun, tmp_path / "run", like=session)
    assert len(found.requests) == 1
    first, *_, prompt = messages(found.requests[0].body)
    assert handoff.text.rstrip() in said_in(first)
    assert pi.PROMPT in said_in(prompt)
    assert not any("Wrote the other way" in text for text in strings_of(found.requests[0].body))
    assert found.session.startswith(begun.read_bytes())
    assert session.read_bytes() == made.data
    begun.write_bytes(found.session)
    again = messages(pi.resume(version, begun, tmp_path / "again").body)
    assert [handoff.text.rstrip() in said_in(message) for message in again].count(True) == 1


def test_oh_my_pi_starts_from_a_handoff(tmp_path: Path) -> None:
    need(omp.installed(), "oh-my-pi")
    session = tmp_path / "session.jsonl"
    session.write_bytes(branched(str(tmp_path)).data)
    handoff = handoff_session(session, new=True)
    (only,) = omp.context(Path(handoff.begun), tmp_path)
    assert (only["role"], only["customType"], only["display"]) == ("custom", "handoff", True)
    assert handoff.text.rstrip() in only["content"]


def test_oh_my_pi_loads_the_other_path_and_the_summary(tmp_path: Path) -> None:
    need(omp.installed(), "oh-my-pi")
    made = branched(str(tmp_path))
    session, alone = tmp_path / "session.jsonl", tmp_path / "alone.jsonl"
    session.write_bytes(made.data)
    alone.write_bytes(b"".join(split(made.data)[: made.before]))
    summary = summarize_branch(session).summary
    *path, last = omp.context(session, tmp_path)
    assert path == omp.context(alone, tmp_path)
    assert (last["role"], last["fromId"]) == ("branchSummary", made.first)
    assert summary in last["summary"]


@pytest.mark.parametrize("name", ["omp", "omp-gemini"])
def test_oh_my_pi_starts_from_a_handoff_of_its_own_session(name: str, tmp_path: Path) -> None:
    need(omp.installed(), "oh-my-pi")
    session = pi.with_cwd(FIXTURES / f"{name}.jsonl", tmp_path, tmp_path / "session.jsonl")
    handoff = handoff_session(session, new=True)
    (only,) = omp.context(Path(handoff.begun), tmp_path)
    assert (only["customType"], only["attribution"]) == ("handoff", "agent")
    assert handoff.text.rstrip() in only["content"]


@pytest.mark.parametrize(("name", "version"), [("9b0c0a5f", "0.74.2"), ("019dbe19", "0.87.1"), ("ff97dd60", "0.74.2")])
def test_a_real_session_goes_on_from_an_earlier_turn(name: str, version: str, tmp_path: Path) -> None:
    """As one that ended there, but for the summary."""
    need(version in pi.versions(), f"pi {version}")
    session = pi.with_cwd(of_corpus(name), tmp_path, tmp_path / "session.jsonl")
    data = session.read_bytes()
    turns = [place.id for place in places(session) if place.kind == "turn"]
    target = turns[len(turns) // 2]
    lines = split(data)
    last = next(number for number, line in enumerate(lines) if json.loads(line).get("id") == target)
    alone = tmp_path / "alone.jsonl"
    alone.write_bytes(b"".join(lines[: last + 1]))
    summary = summarize_branch(session, to=target).summary
    # The model is the last one of the file, which may be one of the branch that is left.
    (before,) = pi.run(version, alone, tmp_path / "before", like=session).requests
    (after,) = pi.run(version, session, tmp_path / "after").requests
    old, new = messages(before.body), messages(after.body)
    (place,) = [number for number, message in enumerate(new) if summary in said_in(message)]
    assert [*new[:place], *new[place + 1 :]] == old
    assert after.problems == before.problems
    restore_session(session)
    assert session.read_bytes() == data
