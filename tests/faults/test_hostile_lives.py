"""Ways in which sessions were destroyed in the course of time, or by where they lay: by runs, restores and agents."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.errors import Refused
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import PRESETS, Policy
from sessioncompress.store.layout import store_in
from tests.faults.checks import check_restored
from tests.faults.effort import effort
from tests.faults.hostile import KINDS, POLICIES, around, bulk, by_every_policy, work_much
from tests.support.build import PiSession
from tests.support.runs import EAGER, GREEDY, MTIME, append, compress, disk, fixture, snapshot, split, turn, write

_RUNS = effort(8, 50, 500)
_TIES = ("type", "id", "parentId", "timestamp")
_every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def _worked(path: Path, made: PiSession, name: str) -> None:
    """The agent works on for a turn."""
    made.user(f"Part {name}.")
    append(path, turn(bulk(made, name), 1))


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-1]], ids=lambda kind: kind.__name__)
def test_a_backup_for_each_run_filled_the_disk(tmp_path: Path, kind: type[PiSession]) -> None:
    """cozempic#19, openclaw#125183: many runs leave two files, and less on the disk than no run at all."""
    made = kind().opening()
    path = write(tmp_path, made)
    for number in range(_RUNS):
        _worked(path, made, str(number))
        size = disk(path)
        compress_session(path, EAGER)
        assert disk(path) <= size
        left = snapshot(path)
        compress_session(path, EAGER)
        assert snapshot(path) == left
    assert len(snapshot(path)) == 3
    assert disk(path) < len(made.bytes())
    check_restored(path, EAGER, made.bytes())
    forget_session(path)
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == [path.name]


@pytest.mark.parametrize("cut", [1, 20, 400, 3000])
def test_a_torn_line_was_glued_to_the_next(tmp_path: Path, cut: int) -> None:
    """codex#24425, cozempic#147: a run between the two halves of a line lets both stand as the agent wrote them."""
    made = bulk(around(lambda made: made), "torn")
    path = write(tmp_path, made.bytes()[:-cut])
    compress(path, GREEDY)
    with path.open("ab") as file:
        file.write(made.bytes()[-cut:])
    assert split(path.read_bytes())[-1] == made.lines()[-1]
    _worked(path, made, "more")
    compress(path, GREEDY)
    check_restored(path, GREEDY, made.bytes())


@_every_kind
def test_the_last_turns_were_altered(tmp_path: Path, kind: type[PiSession]) -> None:
    """claudecompress, cozempic, flatten-mcp: of the last four turns every byte stays, by the policy that keeps turns."""
    made = around(work_much, kind)
    for number in range(4):
        made.user(f"Turn {number}.")
        work_much(made)
    path = write(tmp_path, made)
    kept = path.read_bytes()[path.read_bytes().index(made.lines()[_line_of(made, "Turn 0.")]) :]
    assert compress(path, replace(PRESETS["high-quality"], size_threshold_kb=0, min_saved_kb=0)).is_smaller
    assert path.read_bytes().endswith(kept)


def _line_of(made: PiSession, prompt: str) -> int:
    return next(number for number, line in enumerate(made.lines()) if prompt.encode() in line)


def test_a_marker_named_a_way_back_that_was_not_there(tmp_path: Path) -> None:
    """headroom#1006, oh-my-pi#12466: where no original is kept no marker says so, and a restore makes nothing up."""
    path = write(tmp_path, around(work_much))
    compress(path, replace(GREEDY, keep_backup=False))
    after = path.read_bytes()
    assert marker.PREFIX_BYTES in after
    assert not marker.references(after.decode())
    assert not store_in(path).originals.exists()
    assert not restore_session(path, GREEDY).exact
    assert path.read_bytes() == after


def test_the_order_of_sessions_by_time_was_turned_round(tmp_path: Path) -> None:
    """claude-code#62250, KiroCrew#10863: pickers show the newest, cleaners take the oldest; each time stays."""
    paths = []
    for number in (2, 0, 1):
        path = write(tmp_path, around(work_much), f"{number}.jsonl")
        os.utime(path, ns=(MTIME, MTIME + number))
        paths.append(path)
    for change in (lambda path: compress(path, GREEDY), lambda path: restore_session(path, GREEDY)):
        for path in paths:
            change(path)
        assert [path.stat().st_mtime_ns - MTIME for path in paths] == [2, 0, 1]


@pytest.mark.parametrize(
    ("folder", "beside_it"),
    [("agents/main/sessions", "sessions.json"), (".GITCLAW/state/sessions", "../issues/7.json"), ("sessions", "a.bak")],
)
def test_what_lies_around_a_session_was_rewritten_or_went(tmp_path: Path, folder: str, beside_it: str) -> None:
    """claude-code#25032: the agents' own lists of sessions, and what others keep there, are nobody's business."""
    (tmp_path / folder).mkdir(parents=True)
    other = tmp_path / folder / beside_it
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(b'{"sessionFile": "session.jsonl", "updatedAt": 7}\n')
    os.utime(other, ns=(MTIME, MTIME))
    path = write(tmp_path / folder, around(work_much))
    original = path.read_bytes()
    compress(path, GREEDY)
    check_restored(path, GREEDY, original)
    forget_session(path)
    assert other.read_bytes() == b'{"sessionFile": "session.jsonl", "updatedAt": 7}\n'
    assert other.stat().st_mtime_ns == MTIME
    assert {each.resolve() for each in tmp_path.rglob("*") if each.is_file()} == {path, other.resolve()}


def test_a_skill_and_hooks_came_with_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """session-distiller, cozempic: a run writes beside the session and nowhere else, least of all in a home."""
    home, folder = tmp_path / "home", tmp_path / "folder"
    for each in (home, folder):
        each.mkdir()
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.chdir(home)
    path = write(folder, around(work_much))
    compress(path, GREEDY)
    restore_session(path, GREEDY)
    assert list(home.iterdir()) == []
    assert {each.parent for each in tmp_path.rglob("*") if each.is_file()} == {folder, store_in(path).folder}


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_link_was_replaced_by_a_file(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    """flatten-mcp, cozempic: of two names of one session neither is left behind with an old text; it is refused."""
    path = write(tmp_path, around(work_much))
    link(path, tmp_path / "other.jsonl")
    before = snapshot(path)
    with pytest.raises(Refused):
        compress_session(tmp_path / "other.jsonl", GREEDY)
    assert snapshot(path) == before
    assert (tmp_path / "other.jsonl").samefile(path)


def test_originals_that_hold_secrets_were_open_to_all(tmp_path: Path) -> None:
    """claude-code#86707, openclaw#7862: whatever the umask and the session's mode, they are the user's alone."""
    path = write(tmp_path, around(lambda made: made.step("bash", {"command": "env"}, "SECRET=1\n" * 900)))
    path.chmod(0o666)
    usual = os.umask(0)
    try:
        compress(path, GREEDY)
    finally:
        os.umask(usual)
    folder = store_in(path).folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}
    assert path.stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_restore_that_was_not_exact_deleted_the_originals(tmp_path: Path, policy: Policy) -> None:
    """flatten-mcp: what lies beside stays after a restore by markers, which is not exact, and the exact one can be had."""
    made = around(work_much)
    path = write(tmp_path, made)
    compress(path, policy)
    fork = write(tmp_path, path.read_bytes().replace(b'"isError":false', b'"isError":0'), "fork.jsonl")
    names = sorted(snapshot(path))
    restore_session(fork, policy, from_markers=True, originals=path)
    assert fork.read_bytes() != made.bytes()
    restore_session(path, policy, from_markers=True)
    assert sorted(snapshot(path)) == names
    check_restored(path, policy, made.bytes())


def test_a_restore_lost_what_the_agent_had_appended(tmp_path: Path) -> None:
    """contextzip, ccprune: lines that came after a run are there after a restore, behind the original ones."""
    made = around(work_much)
    path = write(tmp_path, made)
    compress(path, GREEDY)
    _worked(path, made, "appended")
    check_restored(path, GREEDY, made.bytes())


def test_a_small_session_grew(tmp_path: Path) -> None:
    """pi-context-prune skips it too: where originals and journal would take more than is saved, nothing is written."""
    made = turn(PiSession().opening())
    made.step("bash", {"command": "ls"}, "a\n" * 150)
    path = write(tmp_path, turn(made, 2))
    before = snapshot(path)
    assert compress_session(path, GREEDY).status is Status.UNCHANGED
    assert snapshot(path) == before


_GITCLAW = "gitclaw/GITCLAW-layout/state/sessions/2026-03-02T09-00-00-000Z_gitclaw.jsonl"


def _gone_on(name: str) -> PiSession:
    """Return a session of a fixture with more work behind it."""
    made = PiSession(version=1 if name == "pi-v1.jsonl" else 3)
    made.take_last()
    for line in split(fixture(name)):
        made.raw(line)
    made.branch(json.loads(made.lines()[-1]).get("id"))
    return turn(bulk(bulk(made, "one"), "two"), 2)


@by_every_policy
@pytest.mark.parametrize("name", ["pi-v1.jsonl", "pi-v2.jsonl", "pi-1x.jsonl", _GITCLAW], ids=lambda name: name[:7])
def test_an_older_session_was_not_its_agents_any_more(tmp_path: Path, name: str, policy: Policy) -> None:
    """Lists without ids, trees of version 2 and newer entries: the same lines, in order, with their ids and parents."""
    made = _gone_on(name)
    path = write(tmp_path, made)
    compress(path, policy)
    for old, new in zip(map(json.loads, made.lines()), map(json.loads, split(path.read_bytes())), strict=True):
        assert [old.get(key) for key in _TIES] == [new.get(key) for key in _TIES]
        assert "message" in old or new == old
    check_restored(path, policy, made.bytes())
