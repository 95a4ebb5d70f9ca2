"""What a run packs, and what it leaves in older packs."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.errors import FileFailed, InUse, Refused
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.pack import pack_sessions
from sessioncompress.operations.packed import meant_by, selected, unpack_sessions
from sessioncompress.operations.sessions import Selection
from sessioncompress.pipeline.discover import Found, discover
from sessioncompress.pipeline.rollouts import with_zipped
from sessioncompress.policy.model import BALANCED
from sessioncompress.store.layout import FOLDER, plain_in, store_in
from sessioncompress.store.originals import zstd
from sessioncompress.store.places import packs_of
from tests.support.packs import in_packs, pack, packs_in, session, sessions_in, state, unpack
from tests.support.runs import EAGER, MTIME, fixture, invoke, write
from tests.unit.store.tools import disk, in_a_child


def killed(work: Callable[[], object], is_at: Callable[[str, tuple[object, ...]], bool]) -> None:
    """Do some work in a process that is killed before a call to the disk."""

    def before(number: int, name: str, arguments: tuple[object, ...]) -> None:
        if is_at(name, arguments):
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        with disk(before):
            work()

    assert in_a_child(run) == signal.SIGKILL


def test_a_folder_of_ours_does_not_come_and_go_with_each_session(tmp_path: Path) -> None:
    """It is made once, and gone in the end: two flushes of a folder take longer than a session does."""
    (below := tmp_path / "below").mkdir()
    for number in range(5):
        write(below, session(f"Look at part {number}."), f"{number}.jsonl")
    with disk() as seam:
        assert [each.error for each in pack(tmp_path)] == [None] * 5
    packs = packs_in(tmp_path)[0].archive.parent
    made = [tmp_path / FOLDER, packs.parent, packs, below / FOLDER, below / FOLDER / packs.parent.name]
    assert seam.calls.count("mkdir") == len(made)
    assert list(below.iterdir()) == []


def test_another_session_in_its_place_takes_nothing(tmp_path: Path) -> None:
    """Both are packed then, and the newer one comes back first; that the other stays is told."""
    old = write(tmp_path, session("The old one."), "s.jsonl").read_bytes()
    os.utime(tmp_path / "s.jsonl", ns=(MTIME, MTIME))
    pack(tmp_path)
    new = write(tmp_path, session("The new one."), "s.jsonl").read_bytes()
    pack(tmp_path)
    assert in_packs(tmp_path) == ["s.jsonl", "s.jsonl"]
    assert [type(each.error) for each in unpack(tmp_path)] == [type(None), Refused]
    assert (tmp_path / "s.jsonl").read_bytes() == new
    (tmp_path / "s.jsonl").rename(tmp_path / "new.jsonl")
    assert [each.error for each in unpack(tmp_path)] == [None]
    assert (tmp_path / "s.jsonl").read_bytes() == old


def test_of_two_that_changed_at_the_same_time_the_one_packed_later_comes_back(tmp_path: Path) -> None:
    """Whatever their packs are called; all are listed."""
    for number in range(11):
        path = write(tmp_path, session(f"Version {number}."), "s.jsonl")
        os.utime(path, ns=(MTIME, MTIME))
        newest = path.read_bytes()
        pack(tmp_path)
    assert len(meant_by([str(path)])) == len(list(selected([tmp_path], Selection()))) == 11
    unpack(tmp_path)
    assert path.read_bytes() == newest


def test_a_session_without_its_store_takes_no_store(tmp_path: Path) -> None:
    """As where 'tar' unpacked the session alone: the originals are in the pack, and come back to it."""
    was = sessions_in(tmp_path / "s")
    pack(tmp_path / "s")
    (tmp_path / "s/one.jsonl").write_bytes(was["one.jsonl"].content)
    pack(tmp_path / "s")
    assert in_packs(tmp_path / "s").count("one.jsonl") == 2
    unpack(tmp_path / "s")
    assert {name: each.content for name, each in state(tmp_path / "s").items()} == {
        name: each.content for name, each in was.items()
    }


def test_a_run_on_what_a_killed_unpack_left(tmp_path: Path) -> None:
    """Between its two names; the second one goes, and the run is not refused."""
    was = sessions_in(tmp_path / "s")
    pack(tmp_path / "s")
    path = tmp_path / "s/two.jsonl"
    killed(lambda: list(unpack_sessions(meant_by([str(path)]))), lambda name, _: name == "unlink" and path.exists())
    assert path.stat().st_nlink == 2
    assert compress_session(path, EAGER).is_smaller
    assert path.stat().st_nlink == 1
    assert list(path.parent.glob(".sessioncompress/two.jsonl.temp-*")) == []
    unpack(tmp_path / "s")
    assert sorted(name for name in was if ".sessioncompress" not in name) == sorted(
        name for name in state(tmp_path / "s") if ".sessioncompress" not in name
    )


def test_a_session_that_was_gone_on_with_since_is_in_one_pack_alone(tmp_path: Path) -> None:
    """As after a kill between its pack and its going; what stands in the older pack is the same session."""
    was = sessions_in(tmp_path / "s")
    path = tmp_path / "s/two.jsonl"
    killed(lambda: pack(tmp_path / "s"), lambda name, given: name == "replace" and given[0] == path)
    with path.open("ab") as file:
        file.write(b'{"type":"message"}\n')
    pack(tmp_path / "s")
    assert in_packs(tmp_path / "s") == sorted(name for name in was if ".sessioncompress" not in name)


def test_a_session_that_another_run_packs_meanwhile_is_told_of(tmp_path: Path) -> None:
    """One that looked at it before: nothing failed, and the archive is named."""
    was = sessions_in(tmp_path / "s")

    def meanwhile() -> Iterator[Found]:
        yield Found(tmp_path / "s/two.jsonl", named=True)
        pack(tmp_path / "s")

    (outcome,) = pack_sessions(meanwhile(), [tmp_path / "s"], lambda _: BALANCED)
    assert isinstance(outcome.error, InUse)
    (archive,) = (each.archive for each in packs_in(tmp_path / "s"))
    assert str(outcome.error) == f"{tmp_path}/s/two.jsonl: another run has packed it. It is in {archive}."
    unpack(tmp_path / "s")
    assert state(tmp_path / "s") == was


def test_a_session_that_a_killed_run_kept_originals_of_is_packed_anew(tmp_path: Path) -> None:
    """It is as it was packed, but has a store now: the pack lacks that, and one run is enough."""
    was = sessions_in(tmp_path / "s")
    path = tmp_path / "s/two.jsonl"
    pack(tmp_path / "s")
    path.write_bytes(was["two.jsonl"].content)
    killed(lambda: compress_session(path, EAGER), lambda name, given: name == "exchange" and path in given)
    assert path.read_bytes() == was["two.jsonl"].content
    assert [each.error for each in pack(tmp_path / "s")] == [None]
    assert in_packs(tmp_path / "s").count("two.jsonl") == 1


@pytest.mark.parametrize(
    ("place", "year"), [("node_modules", 2026), (".git/x", 2026), ("Node_Modules", 2026), ("below", 2300)]
)
def test_what_no_index_can_name_stays(tmp_path: Path, place: str, year: int) -> None:
    """A whole index is refused for one line, and all other sessions of its pack would not come back."""
    folder = tmp_path / "s"
    (folder / place).mkdir(parents=True)
    path, other = (
        write(folder / place, session("Look at part 1."), "1.jsonl"),
        write(folder, session("Look at part 2.")),
    )
    seconds = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    os.utime(path, (seconds, seconds))
    was = state(folder)
    outcomes = list(pack_sessions(discover([folder, path]), [folder], lambda _: BALANCED))
    assert {each.found.path: type(each.error) for each in outcomes} == {path: Refused, other: type(None)}
    assert path.exists()
    assert [each.error for each in unpack(folder)] == [None]
    assert state(folder) == was


def test_an_index_that_does_not_read_back_takes_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessioncompress.store.pack.LONGEST_INDEX", 100)
    was = sessions_in(tmp_path / "s")
    assert [type(each.error) for each in pack(tmp_path / "s")] == [FileFailed]
    assert state(tmp_path / "s") == was
    assert not packs_of(tmp_path / "s").exists()


def test_a_second_store_stays_and_is_told_of(tmp_path: Path) -> None:
    """As one that a branch brought: a pack has the one that counts, and after all the session has both again."""
    path = write(tmp_path, session("Do it."))
    original, plain = path.read_bytes(), plain_in(path)
    compress_session(path, replace(EAGER, commit_originals=True))
    brought = {each: each.read_bytes() for each in (plain.originals, plain.journal)}
    for each in brought:
        each.unlink()
    path.write_bytes(original)
    compress_session(path, EAGER)
    hidden = store_in(path)
    for each, content in brought.items():
        each.write_bytes(content)
    assert store_in(path) == plain
    was = state(tmp_path)
    (outcome,) = pack(tmp_path)
    assert outcome.result is not None
    assert outcome.result.other_stores == (str(hidden.journal),)
    assert invoke("forget", "--yes", tmp_path).exit_code == 4
    assert set(tmp_path.rglob("session.*")) == {hidden.originals, hidden.journal}
    unpack(tmp_path)
    assert state(tmp_path) == was


def test_originals_in_a_backup_folder_are_refused(tmp_path: Path) -> None:
    policy = replace(EAGER, backup_dir=str(tmp_path / "backup"))
    folder = tmp_path / "s"
    folder.mkdir()
    for name in ("one.jsonl", "two.jsonl"):
        write(folder, session(name), name)
    compress_session(folder / "one.jsonl", policy)
    errors = [each.error for each in pack_sessions(discover([folder]), [folder], lambda _: policy) if each.error]
    assert ["backup folder" in str(each) for each in errors] == [True]
    assert in_packs(folder) == ["two.jsonl"]


def whole(name: str) -> bytes:
    return re.sub(rb"blob:sha256:|artifact://|tool-results", b"x", fixture(name))


PARTS: list[tuple[str, str, str, str]] = [
    ("a blob", "omp.jsonl", f"blob:sha256:{'0' * 64}", ""),
    ("an artifact", "omp.jsonl", "artifact://3", ""),
    ("an artifact that it does not name", "omp.jsonl", "", "one/3.bash.log"),
    ("a saved output", "claude-code.jsonl", "Output saved to: /home/a/1/tool-results/x.txt", ""),
    ("a saved output with lines below", "claude-code.jsonl", "saved to: /a/tool-results/x.txt\n\nThe", ""),
    ("a saved output of Windows", "claude-code.jsonl", r"Output saved to: C:\a\tool-results\new.txt", ""),
    ("a saved output in a command", "claude-code.jsonl", "saved to: /home/a/tool-results/x.txt; head", ""),
    ("a saved output that it does not name", "claude-code.jsonl", "", "one/tool-results/x.txt"),
    ("what is known of a subagent", "claude-code.jsonl", "", "one/subagents/agent-1.meta.json"),
    ("what is known of itself", "claude-agent.jsonl", "", "one.meta.json"),
]


ELSEWHERE = [
    ("pi-v2.jsonl", "artifact://3", "one/3.bash.log"),
    ("omp.jsonl", "blob:sha256:0 tool-results/x", "other/3.bash.log"),
    ("claude-code.jsonl", "artifact://3 src/tool-results/x.txt", "one/subagents/.sessioncompress/agent-1.refs.jsonl"),
]
"""What only looks alike, what is of another agent or session, and our own: it does not hold a session."""


def with_a_part(folder: Path, name: str, named: str, beside: str) -> Path:
    """Write a session that names something, and a file beside it."""
    said = json.dumps({"type": "custom_message", "content": named}).encode() + b"\n"
    (path := folder / "one.jsonl").write_bytes(whole(name) + said)
    if beside:
        (folder / beside).parent.mkdir(parents=True, exist_ok=True)
        (folder / beside).write_text("a")
    return path


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(("name", "named", "beside"), [case[1:] for case in PARTS], ids=[case[0] for case in PARTS])
def test_a_session_of_which_a_part_lies_elsewhere_stays(
    tmp_path: Path, name: str, named: str, beside: str, dry_run: bool
) -> None:
    """The agent deletes that once the session is gone. The others are packed."""
    path, other = with_a_part(tmp_path, name, named, beside), write(tmp_path, session("Look."), "two.jsonl")
    outcomes = list(pack_sessions(discover([tmp_path]), [tmp_path], lambda _: BALANCED, dry_run=dry_run))
    assert {each.found.path: type(each.error) for each in outcomes} == {path: Refused, other: type(None)}
    assert path.exists()
    (error,) = [str(each.error) for each in outcomes if each.error]
    name = re.split(r"[/\\]", re.split(r"[\n;]", named)[0])[-1] or Path(beside).name
    assert re.search(rf"is in another file \((artifact://)?{re.escape(name)}\)", error)
    assert in_packs(tmp_path) == ([] if dry_run else ["two.jsonl"])


@pytest.mark.parametrize(("name", "named", "beside"), ELSEWHERE, ids=[case[0] for case in ELSEWHERE])
def test_what_is_no_part_of_a_session_does_not_hold_it(tmp_path: Path, name: str, named: str, beside: str) -> None:
    path = with_a_part(tmp_path, name, named, beside)
    outcomes = list(pack_sessions([Found(path, named=True)], [tmp_path], lambda _: BALANCED))
    assert [each.error for each in outcomes] == [None]


ROLLOUT = "rollout-2026-03-02T09-00-00-0.jsonl.zst"
NO_ROLLOUTS = [b"\x28\xb5\x2f\xfd damaged", zstd.compress(b"no session\n"), b"", zstd.compress(b"\0" * (1 << 20))]


@pytest.mark.parametrize("content", NO_ROLLOUTS, ids=["damaged", "no session", "empty", "zeros"])
def test_what_is_no_rollout_stays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ROLLOUT).write_bytes(content)
    (one,) = pack_sessions(with_zipped([tmp_path]), [tmp_path], lambda _: BALANCED)
    assert one.passed_over
    assert (tmp_path / ROLLOUT).read_bytes() == content
