"""Leaving a branch: the summary where the conversation goes on, what is refused, the second run, and the way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Damaged, Refused
from sessioncompress.formats.base import Format
from sessioncompress.operations.branch import places, summarize_branch
from sessioncompress.operations.restore import restore_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import BALANCED
from sessioncompress.store.layout import store_in
from tests.support.branched import branched
from tests.support.long import LONG
from tests.support.runs import MTIME, form_of, journal_of, snapshot, split, survey_of, write
from tests.support.session import PiSession

MADE = branched()


def last(path: Path) -> Any:
    return json.loads(split(path.read_bytes())[-1])


def live(path: Path) -> list[bytes]:
    read, lines = survey_of(path.read_bytes()), split(path.read_bytes())
    return [lines[number] for number in read.shape.live if number not in read.shape.dead]


# What is written


def test_the_summary_hangs_on_the_last_other_leaf(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    stats = summarize_branch(path)
    assert path.read_bytes().startswith(MADE.data)
    lines = split(MADE.data)
    assert split(path.read_bytes())[:-1] == lines
    assert live(path) == [*lines[1 : MADE.before], split(path.read_bytes())[-1]]
    entry = last(path)
    assert (entry["type"], entry["parentId"], entry["fromId"]) == ("branch_summary", MADE.first, MADE.first)
    assert (stats.status, stats.leaf, stats.to, stats.fork) == (Status.SUMMARIZED, MADE.second, MADE.first, MADE.fork)
    assert stats.messages_left == 6
    assert (stats.size_before, stats.size_after) == (len(MADE.data), path.stat().st_size)
    assert (path.stat().st_mtime_ns, path.stat().st_mode & 0o777) == (MTIME, 0o640)
    (record,) = [each for each in journal_of(path) if each["type"] == "checkpoint"]
    assert (record["rule"], len(record["lines"])) == ("branch", 1)


# What is left alone


def test_a_second_run_writes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    summarize_branch(path)
    before = snapshot(path)
    for to, reason in (("", "nothing was said since the last branch summary"), (MADE.first, "nothing was said after")):
        stats = summarize_branch(path, to=to)
        assert (stats.status, reason in stats.reason) == (Status.UNCHANGED, True)
    assert snapshot(path) == before


def test_what_the_policy_switches_off_is_skipped(tmp_path: Path) -> None:
    assert summarize_branch(write(tmp_path, MADE.data), replace(BALANCED, enabled=False)).status is Status.SKIPPED


def inside_a_step() -> tuple[PiSession, str]:
    """Return a session, and an entry of it with two calls of which one result stands behind the other."""
    made = PiSession()
    made.user("Look.")
    calls = [made.call("bash", {"command": f"cat {number}.log"}) for number in range(2)]
    made.assistant(*calls)
    one = made.result(calls[0]["id"], "one")
    made.result(calls[1]["id"], "two")
    made.assistant("Both are empty.")
    return made, one


def listed() -> PiSession:
    made = PiSession(version=1)
    made.user("Begin.")
    made.assistant("Begun.")
    return made


def alone() -> PiSession:
    made = PiSession()
    made.user("Begin.")
    made.assistant("Begun.")
    return made


@pytest.mark.parametrize(
    ("data", "to", "what"),
    [
        (MADE.data, "nobody", "it has no entry nobody. The session was not changed. Name one of its"),
        (MADE.data, MADE.second, f"{MADE.second} is its last entry, so there is no branch to leave"),
        (alone(), "", "it has no second leaf. The session was not changed. Name the entry to go back to"),
        (inside_a_step()[0], inside_a_step()[1], "is between calls and their results"),
        (listed(), "", "its entries have no ids, as in the first version of pi's sessions"),
        (PiSession(), "", "its entries have no ids"),
        (LONG["claude-code"](2), "", "does not support claude-code sessions"),
        (LONG["codex"](2), "", "does not support codex sessions"),
    ],
)
def test_what_cannot_be_left_is_refused_by_name(data: PiSession | bytes, to: str, what: str, tmp_path: Path) -> None:
    path = write(tmp_path, data)
    before = snapshot(path)
    with pytest.raises(Refused) as met:
        summarize_branch(path, to=to)
    assert what in str(met.value)
    assert snapshot(path) == before


@pytest.mark.parametrize("fault", ["it hangs elsewhere", "it is not read"])
def test_a_summary_that_the_reader_does_not_see_is_not_written(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = type(form_of(MADE.data))
    real = form.branch_summary

    def wrong(self: Format, *given: Any) -> object:
        made = real(self, *given)
        (one,) = made.added
        entry = json.loads(one.line)
        entry |= {"it hangs elsewhere": {"parentId": MADE.second}, "it is not read": {"id": ""}}[fault]
        return made._replace(added=(one._replace(line=json.dumps(entry).encode() + b"\n"),))

    monkeypatch.setattr(form, "branch_summary", wrong)
    path = write(tmp_path, MADE.data)
    with pytest.raises(Damaged, match="the rewritten session failed its check"):
        summarize_branch(path)
    assert path.read_bytes() == MADE.data
    assert not store_in(path).journal.exists()


# The way back


def test_what_was_said_on_it_is_hung_where_it_hung(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    summarize_branch(path)
    more = PiSession(seed="more").branch(last(path)["id"])
    more.user("Go on.")
    more.assistant("Gone on.")
    added = b"".join(more.lines()[1:])
    with path.open("ab") as file:
        file.write(added)
    restore_session(path)
    ours = json.loads(split(added)[0])["parentId"].encode()
    assert path.read_bytes() == MADE.data + added.replace(ours, MADE.first.encode())


def test_behind_a_line_without_its_lf(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data.removesuffix(b"\n"))
    summarize_branch(path)
    assert path.read_bytes().startswith(MADE.data)
    restore_session(path)
    assert path.read_bytes() == MADE.data.removesuffix(b"\n")


# The list


def test_the_words_of_a_loop_or_a_long_silence_are_given_up(tmp_path: Path) -> None:
    made = PiSession()
    made.user("Look.")
    for number in range(40):
        made.entry("label", targetId="x", label=str(number))
    (only,) = places(write(tmp_path, made))
    assert only.words == ""
