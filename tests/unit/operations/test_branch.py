"""Leaving a branch: the summary where the conversation goes on, what is refused, the second run, and the way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Damaged, Refused
from sessioncompress.formats.base import Format
from sessioncompress.operations.branch import Place, places, summarize_branch
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.handoff import handoff_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.summary import Status
from sessioncompress.policy.model import BALANCED
from sessioncompress.store.layout import store_in
from tests.support.branched import branched
from tests.support.long import FEW, LONG
from tests.support.runs import MTIME, compress, form_of, journal_of, snapshot, split, survey_of, write
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


def test_the_summary_says_what_was_done_on_the_branch_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    text = summarize_branch(path).summary
    assert "Try the other way" in text
    assert "second.py" in text
    assert not any(words in text for words in ("Look at the gauges", "first way", "again.py"))
    assert text in last(path)["summary"]
    assert last(path)["details"] == {"readFiles": ["gauges.toml"], "modifiedFiles": ["second.py"]}


def test_of_several_other_leaves_the_last_is_taken(tmp_path: Path) -> None:
    made = PiSession()
    made.user("Begin.")
    fork = made.assistant("Begun.")
    ends = []
    for way in range(3):
        made.branch(fork)
        made.user(f"Way {way}.")
        ends.append(made.assistant("Gone."))
    assert summarize_branch(write(tmp_path, made)).to == ends[1]


@pytest.mark.parametrize("to", ["fork", "first"])
def test_an_entry_to_go_on_from_may_be_named(to: str, tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    target = getattr(MADE, to)
    stats = summarize_branch(path, to=target)
    assert (stats.to, last(path)["parentId"]) == (target, target)
    assert not any(b"second.py" in line and b"Extracted" not in line for line in live(path))


def test_a_session_of_two_roots_has_nothing_in_common(tmp_path: Path) -> None:
    made = PiSession()
    made.user("One beginning.")
    one = made.assistant("Begun.")
    made.branch(None)
    made.user("Another beginning.")
    made.assistant("Begun again.")
    path = write(tmp_path, made)
    stats = summarize_branch(path)
    assert (stats.status, stats.to, stats.fork) == (Status.SUMMARIZED, one, "")


def test_an_earlier_summary_on_the_branch_counts_in(tmp_path: Path) -> None:
    """Its files, unless an extension wrote it, and its words."""
    made = PiSession()
    made.user("Begin.")
    fork = made.assistant("Begun.")
    made.user("One way.")
    first = made.assistant("Gone.")
    made.branch(fork)
    for number, beside in enumerate(({}, {"fromHook": True})):
        details = {"readFiles": [f"read-{number}.py", 7], "modifiedFiles": [f"changed-{number}.py"]}
        made.entry("branch_summary", fromId=fork, summary=f"Way {number} was tried.", details=details, **beside)
    made.user("Other way.")
    made.step("write", {"path": "read-0.py", "content": "x = 1\n"}, "Wrote it.")
    made.assistant("Gone too.")
    path = write(tmp_path, made)
    stats = summarize_branch(path)
    assert stats.to == first
    assert last(path)["details"] == {"readFiles": [], "modifiedFiles": ["changed-0.py", "read-0.py"]}
    assert "Way 0 was tried." in stats.summary
    assert "Way 1 was tried." in stats.summary


def test_a_compaction_on_the_branch_is_taken_for_what_it_stands_for(tmp_path: Path) -> None:
    made = PiSession()
    made.user("Begin with the gauges.")
    fork = made.assistant("Begun.")
    made.user("One way.")
    made.assistant("Gone.")
    made.branch(fork)
    made.user("The words before the compaction.")
    made.assistant("Heard.")
    kept = made.user("The words that it kept.")
    made.assistant("Heard too.")
    made.compaction("All that was said before, in short.", kept)
    made.user("The words behind it.")
    made.assistant("Done.")
    path = write(tmp_path, made)
    text = summarize_branch(path).summary
    assert "All that was said before, in short." in text
    assert "The words that it kept." in text
    assert "The words behind it." in text
    # Of what it stands for the requests are the user's own words.
    assert "The words before the compaction." in text
    assert "Heard.\n" not in text
    assert any(b"Begin with the gauges" in line for line in live(path))


def test_the_same_session_gives_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        path = write(tmp_path / folder, MADE.data)
        summarize_branch(path)
        found.append(path.read_bytes())
    assert found[0] == found[1]


def test_a_later_summary_quotes_it_and_takes_it_for_no_earlier_state(tmp_path: Path) -> None:
    """What was asked on the branch that was left is no request of the one that goes on."""
    path = write(tmp_path, MADE.data)
    summarize_branch(path)
    text = handoff_session(path).text
    asked = text.partition("## The user's requests, in order, in their words\n1. > Look")[2].partition("\n## ")[0]
    assert "first way" in asked
    assert "other way" not in asked
    assert "   > 1. > Try the other way" in text.partition("## Summary before this one")[2]


# What is left alone


def test_a_second_run_writes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    summarize_branch(path)
    before = snapshot(path)
    for to, reason in (("", "nothing was said since the last branch summary"), (MADE.first, "nothing was said after")):
        stats = summarize_branch(path, to=to)
        assert (stats.status, reason in stats.reason) == (Status.UNCHANGED, True)
    assert snapshot(path) == before


def test_a_branch_may_be_left_again_and_gone_back_to(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    summarize_branch(path)
    stats = summarize_branch(path, to=MADE.second)
    assert (stats.status, stats.to, stats.fork) == (Status.SUMMARIZED, MADE.second, MADE.fork)
    assert "first way" in stats.summary
    assert restore_session(path).checkpoints_removed == 2
    assert path.read_bytes() == MADE.data


def test_a_dry_run_says_what_a_run_does_and_writes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    before = snapshot(path)
    said = summarize_branch(path, dry_run=True)
    assert said.status is Status.WOULD_SUMMARIZE
    assert snapshot(path) == before
    done = summarize_branch(path)
    assert replace(done, status=said.status, run="") == said


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
        (MADE.data, "nobody", "it has no entry nobody. The session was not changed. --list shows"),
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


def test_a_call_without_a_result_may_be_gone_back_to(tmp_path: Path) -> None:
    """Its agent was stopped there: nobody waits for one."""
    made = PiSession()
    made.user("Look.")
    stopped = made.assistant(made.call("bash", {"command": "cat a.log"}))
    made.user("Look elsewhere.")
    made.assistant("It is empty.")
    assert summarize_branch(write(tmp_path, made), to=stopped).status is Status.SUMMARIZED


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


def test_restore_takes_it_out(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    summarize_branch(path)
    verify_session(path)
    assert restore_session(path).checkpoints_removed == 1
    assert path.read_bytes() == MADE.data


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


def test_with_compact_and_compress(tmp_path: Path) -> None:
    """In a row over one session, each sees what the one before it wrote; one restore takes all of it back."""
    data = LONG["pi"](8)
    names = [json.loads(line).get("id") for line in split(data)]
    path = write(tmp_path, data)
    assert summarize_branch(path, to=names[-7]).status is Status.SUMMARIZED
    assert compact_session(path, FEW).status is Status.COMPACTED
    compress(path)
    text = next(json.loads(line)["summary"] for line in live(path) if b'"type":"compaction"' in line)
    assert "Part 0" in text
    restore_session(path)
    assert path.read_bytes() == data


def test_a_compressed_branch_is_summed_up_from_its_originals(tmp_path: Path) -> None:
    data = LONG["pi"](8)
    names = [json.loads(line).get("id") for line in split(data)]
    whole = write(tmp_path, data, "whole.jsonl")
    path = write(tmp_path, data)
    compress_session(path, replace(FEW, size_threshold_kb=0, turn_threshold_before_compress=1, min_saved_kb=0))
    assert path.read_bytes() != data
    one, other = (summarize_branch(each, to=names[3]) for each in (whole, path))
    assert one.summary == other.summary


def test_a_reference_in_the_summary_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    summarize_branch(path)
    (record,) = [each for each in journal_of(path) if each["type"] == "checkpoint"]
    (ref,) = record["refs"]
    assert show(ref, path)[0].content == b"def second() -> None: ...\n"


# The list


def test_the_list_has_leaves_and_forks(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    before = snapshot(path)
    found = [replace(each, time=0) for each in places(path)]
    assert found == [
        Place(MADE.fork, "fork", is_live=True, words="Gauge 4 failed at noon, and no other one did."),
        Place(MADE.first, "leaf", is_live=False, words="The reader asks again in again.py, and that works."),
        Place(MADE.second, "leaf", is_live=True, words="The second gauge is in second.py, and it fails like [...]"),
    ]
    assert all(each.time > 0 for each in places(path))
    assert snapshot(path) == before


def test_the_list_has_where_the_turns_of_the_live_path_end(tmp_path: Path) -> None:
    path = write(tmp_path, LONG["pi"](3))
    found = [(each.kind, each.is_live, each.words) for each in places(path)]
    assert found == [
        ("turn", True, "Gauge 0 failed at noon."),
        ("turn", True, "Gauge 1 failed at noon."),
        ("leaf", True, "Gauge 2 failed at noon."),
    ]
    assert summarize_branch(path, to=places(path)[0].id).status is Status.SUMMARIZED
    assert [(each.kind, each.is_live, each.words) for each in places(path)] == [
        ("fork", True, "Gauge 0 failed at noon."),
        ("leaf", False, "Gauge 2 failed at noon."),
        ("leaf", True, "Gauge 0 failed at noon."),
    ]


def test_what_says_nothing_has_the_words_above_it(tmp_path: Path) -> None:
    made = PiSession()
    made.user("Look.")
    made.step("bash", {"command": "true"})
    made.entry("label", targetId="x", label="y")
    (only,) = places(write(tmp_path, made))
    assert only.words == "Look."


def test_the_words_of_a_loop_or_a_long_silence_are_given_up(tmp_path: Path) -> None:
    made = PiSession()
    made.user("Look.")
    for number in range(40):
        made.entry("label", targetId="x", label=str(number))
    (only,) = places(write(tmp_path, made))
    assert only.words == ""


def test_the_list_of_an_agent_without_branches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="does not support"):
        places(write(tmp_path, LONG["codex"](2)))
