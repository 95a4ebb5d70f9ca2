"""Compacting with the old lines dropped: they leave the session, and every one comes back where it was."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.core.checkpoint import Say
from sessioncompress.errors import Damaged, Refused, Unreadable
from sessioncompress.operations.compact import CompactStats, compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.diff import diff_session
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.goals import Goal
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.operations.wording import at_stake, compact_line
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Policy
from sessioncompress.store.layout import store_in
from tests.support.long import FEW, LINES, LONG, NUMBERED, SMALL, grown, pi
from tests.support.runs import compress, form_of, journal_of, split, survey_of, units, write

DROPPED = {name: LONG[name] for name in (*LINES, "opencode document")}
"""The sessions from which lines leave only where that is asked for."""

EACH = pytest.mark.parametrize("name", [name for name in LONG if name != NUMBERED])
EACH_OF_LINES = pytest.mark.parametrize("name", LINES)
EAGER = replace(SMALL, protect_tokens=0)


def drop(path: Path, policy: Policy = FEW) -> CompactStats:
    return compact_session(path, policy, drop_dead=True)


def dropped(folder: Path, name: str) -> Path:
    path = write(folder, LONG[name](8))
    stats = drop(path)
    assert (stats.status, stats.lines_dropped > 0) == (Status.COMPACTED, True), stats.reason
    return path


def said_in(data: bytes) -> list[str]:
    reader = form_of(data).reader()
    found = [said for raw in units(data) for said in reader.said(json.loads(raw)) if said.say is not Say.SUMMARY]
    return [text for said in found for text in said.contents()]


# What leaves


@pytest.mark.parametrize("name", DROPPED)
def test_the_old_part_leaves_and_the_model_reads_the_same(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, LONG[name](8))
    compact_session(path, FEW)
    whole = survey_of(path.read_bytes())
    restore_session(path)
    stats = drop(path)
    data = path.read_bytes()
    assert (stats.size_after, len(data)) == (len(data), stats.size_after)
    assert stats.size_after < stats.size_before / 2
    assert "cat service-0.log" not in "\n".join(said_in(data))
    found = survey_of(data)
    live = [
        [
            read.lines[number].reads
            for number in read.shape.live
            if number not in read.shape.dead and read.lines[number].reads
        ]
        for read in (whole, found)
    ]
    assert live[0] == live[1]
    assert f"{stats.lines_dropped:,} old lines moved to the originals" in compact_line(stats)


def test_what_another_branch_hangs_on_stays(tmp_path: Path) -> None:
    lines = split(pi(8))
    fork = next(entry for entry in map(json.loads, lines) if entry.get("message", {}).get("role") == "assistant")
    side = {"type": "message", "id": "feedbeef", "parentId": fork["id"], "timestamp": fork["timestamp"]}
    side["message"] = {"role": "user", "content": [{"type": "text", "text": "Or look at the tide?"}], "timestamp": 1}
    data = b"".join([*lines[:9], json.dumps(side).encode() + b"\n", *lines[9:]])
    path = write(tmp_path, data)
    drop(path)
    left = {entry["id"]: entry for entry in map(json.loads, split(path.read_bytes()))}
    step, walked = "feedbeef", 0
    while (parent := left[step]["parentId"]) is not None:
        step, walked = parent, walked + 1
    assert walked > 1
    assert fork["id"] in left
    restore_session(path)
    assert path.read_bytes() == data


# What is refused


@pytest.mark.parametrize("name", DROPPED)
def test_without_originals_it_is_refused(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, LONG[name](8))
    with pytest.raises(Refused, match="keepBackup: false"):
        drop(path, replace(FEW, keep_backup=False))
    assert path.read_bytes() == LONG[name](8)


# The way back


COMMANDS: dict[str, Callable[[Path, Policy], object]] = {"c": compress_session, "d": drop, "p": compact_session}
ORDERS = ["cd", "dc", "cdc", "dcd", "dpc", "pdc", "pcd"]
"""What is done: compress, compact with the old lines dropped, compact with them left; a session goes on behind each."""


@EACH_OF_LINES
@pytest.mark.parametrize("order", ORDERS)
def test_restore_undoes_any_order_of_runs_between_which_the_agent_went_on(
    name: str, order: str, tmp_path: Path
) -> None:
    turns = 8
    path = write(tmp_path, LONG[name](turns))
    for command in order:
        COMMANDS[command](path, EAGER)
        verify_session(path)
        before, turns = LONG[name](turns), turns + 4
        more = b"".join(split(LONG[name](turns))[len(split(before)) :])
        if name == "pi":
            leaf, last = (json.loads(split(data)[-1])["id"] for data in (path.read_bytes(), before))
            more = more.replace(b'"parentId":"%s"' % last.encode(), b'"parentId":"%s"' % leaf.encode(), 1)
        with path.open("ab") as file:
            file.write(more)
    compress_session(path, EAGER)
    verify_session(path)
    stats = restore_session(path)
    assert (path.read_bytes() == LONG[name](turns), stats.reason) == (True, "")
    assert stats.checkpoints_removed == sum(order.count(each) for each in "dp")


@pytest.mark.parametrize("drop_dead", [True, False])
def test_a_line_that_was_compressed_since_comes_back_and_hangs_where_it_should(drop_dead: bool, tmp_path: Path) -> None:
    """In pi the first line behind a checkpoint changes its parent: then its original is what is hung elsewhere."""
    path = write(tmp_path, pi())
    compact_session(path, FEW, drop_dead=drop_dead)
    ours = json.loads(split(path.read_bytes())[-1])
    block = {"type": "text", "text": "long output\n" * 400}
    message = {"role": "toolResult", "toolCallId": "x", "toolName": "bash", "content": [block], "isError": False}
    line = {"type": "message", "id": "feedbeef", "parentId": ours["id"], "message": message}
    turn = {"type": "message", "id": "feedbee0", "parentId": "feedbeef", "message": {"role": "user", "content": "On."}}
    more = [json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in (line, turn)]
    with path.open("ab") as file:
        file.write(b"".join(more))
    compress_session(path, EAGER, force=True)
    assert more[0] not in path.read_bytes()
    restore_session(path)
    expected = more[0].replace(ours["id"].encode(), ours["parentId"].encode())
    assert path.read_bytes() == pi(8) + expected + more[1]
    verify_session(path)
    compress_session(path, EAGER, force=True)
    verify_session(path)
    restore_session(path)
    assert path.read_bytes() == pi(8) + expected + more[1]


@pytest.mark.parametrize("more", [b"", b'{"type":"custom","id":"feedbeef","parentId":"%s"}\n'])
def test_a_last_line_without_its_end_comes_back_without_it(more: bytes, tmp_path: Path) -> None:
    """What the agent wrote behind it keeps a line of its own."""
    data = pi().removesuffix(b"\n")
    path = write(tmp_path, data)
    drop(path)
    last = json.loads(split(path.read_bytes())[-1])
    with path.open("ab") as file:
        file.write(more.replace(b"%s", last["id"].encode()))
    restore_session(path)
    assert path.read_bytes() == data + (b"\n" + more.replace(b"%s", last["parentId"].encode()) if more else b"")


@pytest.mark.parametrize("name", ["codex", "pi"])
def test_any_number_of_them_is_taken_out(name: str, tmp_path: Path) -> None:
    """A session may be compacted after each turn for months."""
    whole = split(LONG[name](40))
    path = write(tmp_path, b"".join(whole[: len(whole) // 4]))
    for end in range(len(whole) // 4, len(whole), 3):
        more = b"".join(whole[end : end + 3])
        if name == "pi":
            ours, last = (json.loads(line)["id"].encode() for line in (split(path.read_bytes())[-1], whole[end - 1]))
            more = more.replace(b'"parentId":"%s"' % last, b'"parentId":"%s"' % ours, 1)
        with path.open("ab") as file:
            file.write(more)
        drop(path, EAGER)
    number = sum(each["type"] == "checkpoint" for each in journal_of(path))
    assert number > 20
    assert restore_session(path).checkpoints_removed == number
    assert path.read_bytes() == b"".join(whole)


def test_long_runs_are_kept_in_several_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessioncompress.operations.checkpoints._TOGETHER", 5_000)
    monkeypatch.setattr("sessioncompress.operations.checkpoints._MOST_RUNS", 3)
    path = dropped(tmp_path, "codex")
    records = [each for each in journal_of(path) if each["type"] == "dropped"]
    assert len(records) > 5
    assert max(len(each["runs"]) for each in records) == 3
    restore_session(path)
    assert path.read_bytes() == LONG["codex"](8)


# What cannot be undone


def altered(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"The user's requests", b"The person's requests"))


def without_a_kept_line(path: Path) -> None:
    lines = split(path.read_bytes())
    path.write_bytes(b"".join(lines[:1] + lines[2:]))


@pytest.mark.parametrize("change", [altered, without_a_kept_line])
@EACH_OF_LINES
def test_where_lines_cannot_go_back_the_summary_stays_and_all_else_comes_back(
    name: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    path = dropped(tmp_path, name)
    change(path)
    there = path.read_bytes()
    compress_session(path, EAGER)
    for _ in range(2):
        done = restore_session(path)
        assert not done.exact
        assert "1 summary is no longer as we wrote it" in done.reason
        assert path.read_bytes() == there
    assert not restore_session(path, from_markers=True).exact
    refuses(path)


def refuses(path: Path) -> None:
    """Verify a session whose old lines cannot go back."""
    with pytest.raises(Damaged, match="1 summary is no longer as we wrote it, and old lines or messages were"):
        verify_session(path)


@EACH_OF_LINES
def test_a_compacted_state_that_is_put_back_behind_a_restore_and_changed_is_told(name: str, tmp_path: Path) -> None:
    """The checkpoint counts as taken out, and stands there again."""
    path = dropped(tmp_path, name)
    left = split(path.read_bytes())
    restore_session(path)
    path.write_bytes(b"".join([*left[:2], *left[1:]]))
    refuses(path)
    assert not restore_session(path).exact


def test_a_rewritten_line_that_was_changed_before_it_left_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, pi())
    compress(path, EAGER)
    number = next(at for at, line in enumerate(split(path.read_bytes())) if line not in split(pi()))
    lines = split(path.read_bytes())
    lines[number] = lines[number].replace(b'{"', b'{ "', 1)
    path.write_bytes(b"".join(lines))
    drop(path, EAGER)
    for _ in range(2):
        done = restore_session(path)
        assert (done.exact, [each.line for each in done.changed]) == (False, [number + 1])


@EACH_OF_LINES
def test_an_older_state_has_its_lines_still(name: str, tmp_path: Path) -> None:
    path = dropped(tmp_path, name)
    path.write_bytes(LONG[name](8))
    verify_session(path)
    assert restore_session(path).status is Status.UNCHANGED
    assert drop(path).status is Status.COMPACTED
    restore_session(path)
    assert path.read_bytes() == LONG[name](8)


@EACH_OF_LINES
def test_a_state_from_before_the_lines_came_that_left_for_a_later_summary_is_an_older_one(
    name: str, tmp_path: Path
) -> None:
    """It lacks all of them, and the later summary; it may have an earlier one, or what left for that."""
    path = write(tmp_path, LONG[name](8))
    drop(path, EAGER)
    states = {LONG[name](8): LONG[name](8), path.read_bytes(): LONG[name](8)}
    grown(path, name)
    assert drop(path, EAGER).is_compacted
    for state, original in states.items():
        path.write_bytes(state)
        verify_session(path)
        restore_session(path)
        assert path.read_bytes() == original


@EACH_OF_LINES
@pytest.mark.parametrize("dropping", [(True, False), (False, False), (True, True), (False, True)])
@pytest.mark.parametrize("run", ["", "20261125-130000-0002"])
def test_a_checkpoint_that_is_gone_has_no_line_of_the_next(
    name: str, dropping: tuple[bool, bool], run: str, tmp_path: Path
) -> None:
    """Codex CLI's end alike. The first one went with an older state of the session, and the second is the only one."""
    path = write(tmp_path, LONG[name](8))
    for drop_dead, each in zip(dropping, ("20261125-130000-0001", "20261125-130000-0002"), strict=True):
        path.write_bytes(LONG[name](8))
        compacted = compact_session(path, FEW, drop_dead=drop_dead, goal=Goal(text=each), run_id=each)
        assert compacted.status is Status.COMPACTED
    verify_session(path)
    stats = restore_session(path, run=run)
    assert (stats.checkpoints_removed, stats.reason) == (1, "")
    assert path.read_bytes() == LONG[name](8)


@EACH
def test_verify_reads_what_left(name: str, tmp_path: Path) -> None:
    path = dropped(tmp_path, name)
    originals = store_in(path).originals
    data = bytearray(originals.read_bytes())
    data[len(data) // 2] ^= 1
    originals.write_bytes(data)
    with pytest.raises((Unreadable, Damaged)):
        verify_session(path)
    there = path.read_bytes()
    with pytest.raises((Unreadable, Damaged)):
        restore_session(path)
    assert path.read_bytes() == there


@EACH
def test_forget_says_that_it_is_the_only_copy(name: str, tmp_path: Path) -> None:
    path = dropped(tmp_path, name)
    stats = forget_session(path, FEW, dry_run=True)
    assert 0 < stats.dropped <= stats.originals_lost
    assert re.search(
        r"among them \d+ old lines? that compact moved out .* cannot be restored after that", at_stake(stats)
    )
    restore_session(path)
    assert forget_session(path, FEW, dry_run=True).originals_lost == 0


# References


@pytest.mark.parametrize("first", [True, False])
@EACH_OF_LINES
def test_a_backup_of_before_comes_back_whichever_way_its_summary_was_written(
    name: str, first: bool, tmp_path: Path
) -> None:
    """The summary is the same one with its old lines dropped and without, and the store knows of both."""
    data = LONG[name](8)
    path = write(tmp_path, data)
    compact_session(path, FEW, drop_dead=first)
    backup = path.read_bytes()
    restore_session(path)
    compact_session(path, FEW, drop_dead=not first)
    with diff_session(path) as found:
        assert [each.moved for each in found.summaries] == [0]
    path.write_bytes(backup)
    verify_session(path)
    restore_session(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("gone", [1, 30])
def test_what_kept_its_old_lines_is_known_though_some_were_deleted(gone: int, tmp_path: Path) -> None:
    """But not where most of them are gone: then it may be the one for which they left."""
    path = write(tmp_path, pi())
    compact_session(path, FEW)
    backup = split(path.read_bytes())
    restore_session(path)
    drop(path)
    path.write_bytes(b"".join([*backup[:9], *backup[9 + gone :]]))
    if gone > 1:
        assert not restore_session(path).exact
        refuses(path)
        return
    assert restore_session(path).exact
    assert split(path.read_bytes()) == [*split(pi())[:9], *split(pi())[10:]]


@pytest.mark.parametrize("name", ["pi", "claude-code", "codex"])
def test_a_session_that_lost_its_summary_and_what_left_for_it_is_no_older_state(name: str, tmp_path: Path) -> None:
    """Nothing of the old part is left in it: who deleted the store then would lose that."""
    path = write(tmp_path, LONG[name](8))
    assert compact_session(path, FEW, drop_dead=True).is_compacted
    now = split(path.read_bytes())
    path.write_bytes(b"".join(line for line in now if b"Extracted by sessioncompress" not in line))
    assert not restore_session(path).exact
    refuses(path)
