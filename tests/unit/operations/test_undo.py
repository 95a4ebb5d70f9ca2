"""Taking one run back: to the byte, or refused with the lines that others rewrote; what came since stays."""

from __future__ import annotations

import json
import os
import random
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Refused, UsageError
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.history import RunState, SessionRun, history, session_runs
from sessioncompress.operations.restore import RestoreStats, restore_session, undo_run
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import PRESETS, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_in
from tests.support import texts
from tests.support.build import PiSession
from tests.support.long import FEW, LONG, NUMBERED, SMALL
from tests.support.runs import EAGER, GREEDY, append, blocks_of, compress, fixture, split, turn, write

ONE, TWO, THREE = (f"20260101-00000{number}-0000" for number in (1, 2, 3))
PRUNES = replace(EAGER, prune=replace(EAGER.prune, enabled=True, prune_minimum=0, prune_protect=0))
LEAST = replace(EAGER, tool_result_max_bytes=20_000, tool_call_max_bytes=20_000)
"""Takes thinking and mirrors, and leaves what a model reads."""


def work(made: PiSession, part: int) -> PiSession:
    """Add a part of the work, which is old then."""
    made.user(f"Part {part}: look at the logs.")
    for step in range(3):
        text = texts.log_lines(random.Random(f"{part} {step}"), 60)
        made.step("bash", {"command": f"cat {part}-{step}.log"}, text, details={"diff": text}, thinking="Look. " * 99)
    return turn(made)


def grown(folder: Path, policies: tuple[Policy, ...], names: tuple[str, ...]) -> tuple[Path, PiSession, list[bytes]]:
    """Write a session that grows before each run; return it, and what it was before each of them."""
    made, before = PiSession(), []
    path = write(folder, b"")
    for number, (policy, name) in enumerate(zip(policies, names, strict=True)):
        append(path, work(made, number))
        before.append(path.read_bytes())
        compress(path, policy, run_id=name)
    return path, made, before


def undo(path: Path, run: str, **options: Any) -> RestoreStats:
    stats = restore_session(path, run=run, **options)
    assert stats.status is Status.RESTORED, stats.reason
    return stats


def states(path: Path) -> dict[str, RunState]:
    return {run.run: run.state for run in history(session_runs(path))}


def test_what_the_second_run_cleared_is_as_the_first_one_left_it(tmp_path: Path) -> None:
    """Of what stood between them the store keeps every line that the second one rewrote."""
    path, made, before = grown(tmp_path, (EAGER, PRUNES), (ONE, TWO))
    assert undo(path, TWO).reason == ""
    assert path.read_bytes() == before[1]
    assert states(path) == {ONE: RunState.IN_PLACE, TWO: RunState.RESTORED}
    append(path, turn(made))
    compress(path, PRUNES, run_id=THREE)
    verify_session(path)
    restore_session(path)
    assert path.read_bytes() == made.bytes()


def test_what_was_put_back_behind_a_restore_stays_where_a_later_run_is_undone(tmp_path: Path) -> None:
    """It is of a run that counts as undone."""
    path, made, _ = grown(tmp_path, (LEAST,), (ONE,))
    left = path.read_bytes()
    undo(path, ONE)
    path.write_bytes(left)
    compress(path, EAGER, run_id=TWO)
    assert undo(path, TWO).reason == ""
    assert path.read_bytes() == left
    restore_session(path)
    assert path.read_bytes() == made.bytes()


def test_an_undo_that_left_a_changed_line_takes_no_other_run_with_it(tmp_path: Path) -> None:
    """However often it is tried; only that run is undone in part."""
    path, _, before = grown(tmp_path, (EAGER, EAGER), (ONE, TWO))
    changed = next(line for line in split(path.read_bytes()) if line not in split(before[1]) and b"toolResult" in line)
    path.write_bytes(path.read_bytes().replace(changed, changed.replace(b'{"', b'{ "', 1)))
    for _ in range(2):
        assert not restore_session(path, run=TWO).exact
        now = [was for was, line in zip(split(before[1]), split(path.read_bytes()), strict=True) if was != line]
        assert len(now) == 1
    assert states(path) == {ONE: RunState.IN_PLACE, TWO: RunState.PARTLY}


def test_where_a_later_run_rewrote_the_lines_again_they_are_named(tmp_path: Path) -> None:
    """What the older of the two took cannot go alone."""
    path, made, before = grown(tmp_path, (EAGER, PRUNES), (ONE, TWO))
    now = path.read_bytes()
    again = [
        number for number, (one, other) in enumerate(zip(split(before[1]), split(now), strict=True), 1) if one != other
    ]
    append(path, turn(made))
    named = refused(path, ONE)
    assert any(str(number) in named for number in again)
    assert path.read_bytes().startswith(now)
    assert set(states(path).values()) == {RunState.IN_PLACE}
    undo(path, TWO)
    undo(path, ONE)
    assert path.read_bytes() == made.bytes()


def refused(path: Path, run: str) -> str:
    """Undo a run that others came after; return the numbers of the lines that the error names."""
    with pytest.raises(Refused, match="can't be undone alone") as caught:
        restore_session(path, run=run)
    return str(caught.value).partition("other runs rewrote")[2]


@pytest.mark.parametrize("markers", [False, True], ids=["exactly", "by markers"])
def test_what_was_taken_back_and_not_rewritten_again_is_not_missed(markers: bool, tmp_path: Path) -> None:
    """A summary may name what only the first run took: it is none of the rewritten lines that was altered."""
    original = b"".join(split(fixture("codex.jsonl"))[:151])
    path = write(tmp_path, original)
    compress(path, GREEDY, run_id=ONE)
    restore_session(path, run="" if markers else ONE, from_markers=markers)
    assert path.read_bytes() == original
    assert compact_session(path, SMALL, run_id=TWO).is_compacted
    known = journals.load(store_in(path).journal)
    assert {block.ref for _, block in blocks_of(known)}.intersection(known.checkpoints[-1].refs)
    compress(path, replace(PRESETS["high-quality"], size_threshold_kb=0, min_saved_kb=0), force=True, run_id=THREE)
    assert verify_session(path).lines_not_there == 0
    restore_session(path)
    assert path.read_bytes() == original


@pytest.mark.parametrize("first", [EAGER, LEAST], ids=["the same", "less"])
@pytest.mark.parametrize("markers", [False, True], ids=["by hand", "by their markers"])
def test_what_came_back_by_other_means_and_was_rewritten_again_is_of_the_new_run(
    first: Policy, markers: bool, tmp_path: Path
) -> None:
    """No record tells that what the first run did is gone, or that all of it is."""
    path, made, _ = grown(tmp_path, (first,), (ONE,))
    if markers:
        restore_session(path, first, from_markers=True)
    else:
        path.write_bytes(made.bytes())
    compress(path, EAGER, run_id=TWO)
    verify_session(path)
    assert restore_session(path, run=ONE).reason == f"nothing that the run {ONE} did is left in it"
    assert undo(path, TWO).reason == ""
    assert path.read_bytes() == made.bytes()


def test_a_run_that_died_before_the_session_was_put_in_place_is_not_undone(tmp_path: Path) -> None:
    """Its records are there, and those of the run that did the same after it."""
    path, _, before = grown(tmp_path, (EAGER, EAGER), (ONE, TWO))
    after = path.read_bytes()
    keep_time = path.stat().st_mtime_ns
    path.write_bytes(before[1])
    os.utime(path, ns=(keep_time, keep_time))
    compress(path, EAGER, run_id=THREE)
    assert path.read_bytes() == after
    assert states(path) == {ONE: RunState.IN_PLACE, THREE: RunState.IN_PLACE}
    assert undo_run(path, EAGER, run=TWO).reason == f"the run {TWO} did not change it"
    with pytest.raises(UsageError, match=f"it was not changed by a run {TWO}. "):
        restore_session(path, run=TWO)
    assert undo(path, THREE).reason == ""
    assert path.read_bytes() == before[1]


def test_a_run_that_is_none_of_the_sessions(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    with pytest.raises(UsageError, match=r"it was not changed by a run nope; it has no store\. "):
        restore_session(path, run="nope")
    compress(path, EAGER, run_id=ONE)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"it was not changed by a run nope\. "):
        restore_session(path, run="nope", dry_run=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["pi-anthropic.jsonl", "codex.jsonl", "gemini.json"])
def test_a_redo_adds_only_its_own_record(name: str, tmp_path: Path) -> None:
    """It takes over the records of the run that was taken back; each of both can be undone."""
    path = write(tmp_path, fixture(name))
    store = store_in(path)
    compress(path, EAGER, run_id=ONE)
    after, originals, counts = path.read_bytes(), store.originals.read_bytes(), journals.load(store.journal).counts
    for run, last in ((TWO, 2), (THREE, 4)):
        undo(path, ONE if run == TWO else TWO)
        compress(path, EAGER, run_id=run)
        assert (path.read_bytes(), store.originals.read_bytes()) == (after, originals)
        journal = journals.load(store.journal)
        assert journal.counts == counts
        assert {journal.run_of(row) for row in range(counts[0])} == {last}
    undo(path, THREE)
    assert path.read_bytes() == fixture(name)


def test_a_redo_repeats_the_records_of_lines_of_other_numbers_and_in_place(tmp_path: Path) -> None:
    """A row belongs to one run: of a run that is in place none is taken over, and of another line none either."""
    path, _, before = grown(tmp_path, (EAGER,), (ONE,))
    rows = journals.load(store_in(path).journal).counts[0]
    path.write_bytes(before[0])
    os.utime(path, ns=(1, 1))
    compress(path, EAGER, run_id=TWO)
    undo(path, TWO)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n", 1))
    compress(path, EAGER, run_id=THREE)
    journal = journals.load(store_in(path).journal)
    assert [journal.run_of(row) for row in range(journal.counts[0])] == [0] * rows + [1] * rows + [3] * rows


def test_an_equal_line_of_which_no_block_is_replaced_is_of_the_run_that_rewrote_it(tmp_path: Path) -> None:
    """Of Codex CLI an id alone may go: then the record of the line itself says which it was."""
    data = LONG["codex"](12)
    lines = split(data)
    path = write(tmp_path, data)
    compress(path, run_id=ONE)
    now = split(path.read_bytes())
    records = [json.loads(raw) for raw in split(store_in(path).journal.read_bytes())]
    bare = {
        record["isSha256"] for record, then in pairwise(records) if record["type"] == "edit" and then["type"] != "block"
    }
    again = next(old for old, new in zip(lines, now, strict=True) if sha256(new).hexdigest() in bare)
    with path.open("ab") as file:
        file.write(again)
        file.writelines(split(LONG["codex"](14))[len(lines) :])
    grown_by = path.read_bytes()[sum(map(len, now)) :]
    compress(path, run_id=TWO)
    now = split(path.read_bytes())
    (twice,) = {line for line in now if sha256(line).hexdigest() in bare and now.count(line) > 1}
    moved = b"".join([now[0], *now[:1], *now[1:]])
    undo(path, TWO)
    assert split(path.read_bytes()).count(twice) == 1
    undo(path, ONE)
    assert path.read_bytes() == data + grown_by
    path.write_bytes(moved)
    restore_session(path)
    assert path.read_bytes() == lines[0] + data + grown_by


@pytest.mark.parametrize("order", [(TWO, ONE), (ONE, TWO)])
def test_equal_lines_come_back_run_by_run(order: tuple[str, str], tmp_path: Path) -> None:
    """Each of the runs rewrote one of them: which one the records of its values say, of the runs in place."""
    call = {"id": "call_same", "type": "function", "function": {"name": "bash", "arguments": '{"command": "tail"}'}}
    log = "\n".join(f"INFO row {at} value={at * 919 % 1000} station={at * 31 % 97}" for at in range(120))
    entries = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": log, "tool_call_id": "call_same"},
        {"role": "assistant", "content": "Done."},
    ]
    part = [json.dumps(each).encode() + b"\n" for each in entries]
    asked = [
        b'{"role": "user", "content": "Part %d?"}\n{"role": "assistant", "content": "Yes."}\n' % at for at in range(6)
    ]
    first, more = b"".join([asked[0], *part, *asked[1:3]]), b"".join([asked[3], *part, *asked[4:]])
    path = write(tmp_path, first)
    compress(path, EAGER, run_id=ONE)
    path.write_bytes(path.read_bytes() + more)
    compress(path, EAGER, run_id=TWO)
    now = split(path.read_bytes())
    assert max(now.count(line) for line in now if b"[[sessioncompress: " in line) == 2
    for run in order:
        assert undo(path, run).reason == ""
    assert path.read_bytes() == first + more
    assert restore_session(path).status is Status.UNCHANGED


@pytest.mark.parametrize("name", sorted(LONG))
@pytest.mark.parametrize("drop", [False, True], ids=["", "lines dropped"])
def test_a_summary_and_what_was_compressed_with_it_go_together(name: str, drop: bool, tmp_path: Path) -> None:
    """One command may have done both; what was compressed before stays."""
    path = write(tmp_path, LONG[name](8))
    original = path.read_bytes()
    compress(path, SMALL, run_id=ONE)
    before = path.read_bytes()
    done = compact_session(path, SMALL, run_id=TWO, drop_dead=drop and name != NUMBERED)
    if not done.is_compacted:
        pytest.skip("its agent has no such summary")
    compress_session(path, SMALL, run_id=TWO)
    said = restore_session(path, run=TWO, dry_run=True)
    now = undo(path, TWO)
    assert (said.size_after, said.lines_restored, said.checkpoints_removed) == (
        now.size_after,
        now.lines_restored,
        now.checkpoints_removed,
    )
    assert path.read_bytes() == before
    restore_session(path)
    assert path.read_bytes() == original


@pytest.mark.parametrize("drop", [False, True], ids=["", "lines dropped"])
@pytest.mark.parametrize("name", ["codex", "opencode document"])
def test_the_newer_of_two_summaries_goes_alone(name: str, drop: bool, tmp_path: Path) -> None:
    """Of Codex CLI both hold an equal line."""
    path = write(tmp_path, LONG[name](16))
    compress(path, replace(SMALL, turn_threshold_before_compress=12), run_id=THREE)
    assert compact_session(path, FEW, run_id=ONE, drop_dead=drop).is_compacted
    before = path.read_bytes()
    assert compact_session(path, SMALL, run_id=TWO).is_compacted
    verify_session(path)
    assert undo(path, TWO).reason == ""
    assert path.read_bytes() == before
    assert compact_session(path, SMALL, run_id=TWO).is_compacted
    restore_session(path)
    assert path.read_bytes() == LONG[name](16)


def test_a_summary_under_a_later_run_does_not_go_alone(tmp_path: Path) -> None:
    path = write(tmp_path, LONG["pi"](8))
    original = path.read_bytes()
    assert compact_session(path, SMALL, run_id=ONE).is_compacted
    compress(path, SMALL, run_id=TWO)
    assert refused(path, ONE) == ""
    undo(path, TWO)
    undo(path, ONE)
    assert path.read_bytes() == original


@pytest.mark.parametrize("name", sorted(name for name in LONG if not name.endswith("document")))
def test_the_second_of_two_summaries_goes_alone_where_nothing_else_was_done(name: str, tmp_path: Path) -> None:
    """No original was kept then, so that the store has no file of them."""
    lines = LONG[name](8).splitlines(keepends=True)
    path = write(tmp_path, b"".join(lines[: len(lines) // 2]))
    assert compact_session(path, SMALL, run_id=ONE).is_compacted
    with path.open("ab") as file:
        file.writelines(lines[len(lines) // 2 :])
    before = path.read_bytes()
    assert compact_session(path, SMALL, run_id=TWO).is_compacted
    assert not store_in(path).originals.exists()
    assert undo(path, TWO).reason == ""
    assert path.read_bytes() == before
    undo(path, ONE)
    assert path.read_bytes() == b"".join(lines)


# The runs

ORDERS = [
    ("by their times", {"a": "13", "b": "2"}, "321"),
    ("one whose clock was ahead", {"a": "193"}, "391"),
    ("and another session", {"a": "193", "b": "2"}, "3921"),
    ("in both sessions", {"a": "192", "b": "93"}, "3291"),
    ("a command that wrote twice", {"a": "121"}, "12"),
    ("journals that contradict each other", {"a": "12", "b": "21"}, "21"),
    ("none", {}, ""),
]


@pytest.mark.parametrize(("sessions", "order"), [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS])
def test_the_newest_comes_first(sessions: dict[str, str], order: str) -> None:
    """Each digit is a run, with its time in its name."""
    found = [
        SessionRun(path, run, f"2026-01-0{run}T00:00:00Z", "compress", RunState.IN_PLACE, 1, 1)
        for path, runs in sessions.items()
        for run in runs
    ]
    assert "".join(each.run for each in history(found)) == order
