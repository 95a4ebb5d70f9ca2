"""The order of writes of packs, an agent that comes back at any moment, and what lies in the way."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from sessioncompress.errors import Damaged, FileFailed, InUse, IsALink, Refused, Unreadable, Unsupported
from sessioncompress.operations.pack import pack_sessions
from sessioncompress.operations.packed import each_packed, meant_by, packed_in, unpack_sessions
from sessioncompress.pipeline.discover import discover
from sessioncompress.policy.model import BALANCED
from sessioncompress.store import moves, packing
from sessioncompress.store.lock import OpenForWriting, wait_until_free
from sessioncompress.store.machine import folder_name
from sessioncompress.store.pack import INDEX, State, read_index
from sessioncompress.store.places import Disk, packs_of
from tests.faults.tools import need
from tests.support.packs import in_packs, pack, packs_in, planted, session, sessions_in, state, unpack, without_tail
from tests.support.runs import write
from tests.unit.store.tools import disk

LINE = b'{"type":"message"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sessions_in(tmp_path / "s")
    return tmp_path / "s"


def test_nothing_goes_before_the_pack_is_certain(folder: Path) -> None:
    """The archive is flushed, gets its name and then its index, and only then a session is put aside."""
    seen: list[str] = []

    def note(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        del number
        first = arguments[0]
        kind = Path(f"/proc/self/fd/{first}").readlink().name if isinstance(first, int) else Path(first).name
        kind = ".tmp-1.index" if kind.startswith(".tmp-1.index.") else kind
        if name in ("fsync", "replace") or (name == "unlink" and kind == "one.jsonl.originals.zst"):
            seen.append(f"{name} {kind}")

    with disk(note):
        pack(folder)
    aside = ["replace one.jsonl", "replace three.jsonl", "replace two.jsonl"]
    certain = [
        "fsync tmp-1.tar.zst.temp",
        "replace tmp-1.tar.zst.temp",
        "fsync packs",
        "fsync .tmp-1.index",
        "replace .tmp-1.index",
        "fsync packs",
    ]
    begins = seen.index(certain[0])
    assert seen[begins : begins + len(certain)] == certain
    assert min(map(seen.index, aside)) >= begins + len(certain)
    assert seen.index("unlink one.jsonl.originals.zst") > seen.index("replace one.jsonl")


def at(call: str, kind: str, act: Callable[[], object]) -> Callable[[int, str, tuple[Any, ...]], None]:
    """Make a `before` that acts once, just before a call for a file of that name."""
    done: list[bool] = []

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        del number
        if name == call and not done and not isinstance(arguments[0], int) and Path(arguments[0]).name == kind:
            done.append(True)
            act()

    return before


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(LINE)


@pytest.mark.parametrize(
    ("moment", "how"),
    [
        ("tmp-1.tar.zst.temp", "is written to"),
        ("two.jsonl", "is written to"),
        ("two.jsonl", "is opened"),
        ("two.jsonl", "is written to just before it is asked who has it open"),
        ("tmp-1.tar.zst.temp", "changes by no byte and at no time"),
    ],
)
def test_a_session_that_an_agent_comes_back_to_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str, how: str
) -> None:
    """Behind its reading, or in the very last moment; the index says so, and its lines are there."""
    path, opened = folder / "two.jsonl", list[BinaryIO]()
    before = path.read_bytes()

    def comes() -> None:
        if how == "is written to":
            append(path)
        elif how.startswith("changes"):
            status = path.stat()
            path.write_bytes(before.replace(b"part 1", b"part 9"))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        else:
            opened.append(path.open("ab"))

    def asked(fd: int, seconds: float) -> OpenForWriting:
        while opened and how.startswith("is written"):
            with opened.pop() as file:
                file.write(LINE)
        return wait_until_free(fd, seconds)

    monkeypatch.setattr(moves, "wait_until_free", asked)
    with disk(at("replace", moment, comes)):
        outcomes = pack(folder)
    for file in opened:
        file.close()
    assert [type(each.error) for each in outcomes if each.error] == [InUse]
    changed = before.replace(b"part 1", b"part 9") if how.startswith("changes") else before
    assert path.read_bytes() == changed + LINE * how.startswith("is written")
    assert in_packs(folder) == ["below/three.jsonl", "one.jsonl"]
    states = {each.path: each.state for made in packs_in(folder) for each in made.index.entries}
    assert states["two.jsonl"] is State.LEFT
    assert list(folder.rglob("*.packed")) == []


def test_both_stay_where_the_agent_begins_another_one(folder: Path) -> None:
    """Of the same name, as the first one was written to."""
    path = folder / "two.jsonl"
    late = at("replace", "two.jsonl", lambda: append(path))
    begins = at("link", "two.jsonl.packed", lambda: path.write_bytes(b"another\n"))

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        late(number, name, arguments)
        begins(number, name, arguments)

    with disk(before):
        outcomes = pack(folder)
    assert [type(each.error) for each in outcomes if each.error] == [Refused]
    assert path.read_bytes() == b"another\n"
    aside = folder / ".sessioncompress" / folder_name() / "two.jsonl.packed"
    assert aside.read_bytes().endswith(LINE)


def test_a_file_of_a_branch_is_none_that_was_put_aside(folder: Path) -> None:
    """It was put into the session's place, which then counted as left there, and its archive went."""
    path = folder / "two.jsonl"
    pack(folder)
    (folder / ".sessioncompress" / "two.jsonl.packed").write_bytes(b"another\n")
    assert not path.exists()
    assert [each.error for each in unpack(folder) if each.error] == []
    assert path.read_bytes() != b"another\n"


def test_a_session_in_use_is_not_packed(folder: Path) -> None:
    with (folder / "two.jsonl").open("ab"):
        outcomes = pack(folder)
    assert [type(each.error) for each in outcomes if each.error] == [InUse]
    assert in_packs(folder) == ["below/three.jsonl", "one.jsonl"]


def test_nothing_is_overwritten(folder: Path) -> None:
    """Another file in the place stays, and the packed one stays packed; the same bytes are no other."""
    was = state(folder)
    pack(folder)
    (folder / "one.jsonl").write_bytes(b"another\n")
    (folder / "two.jsonl").write_bytes(was["two.jsonl"].content)
    rehearsed = list(unpack_sessions(meant_by([str(folder)]), dry_run=True))
    outcomes = unpack(folder)
    assert [str(each.error) for each in rehearsed] == [str(each.error) for each in outcomes]
    assert [str(each.found.path.name) for each in outcomes if each.error] == ["one.jsonl"]
    assert (folder / "one.jsonl").read_bytes() == b"another\n"
    (folder / "one.jsonl").unlink()
    assert [each.error for each in unpack(folder)] == [None]
    assert state(folder)["one.jsonl"] == was["one.jsonl"]


def test_no_link_leads_elsewhere(folder: Path) -> None:
    pack(folder)
    (folder / "below").rmdir()
    (folder.parent / "elsewhere").mkdir()
    (folder / "below").symlink_to(folder.parent / "elsewhere")
    outcomes = unpack(folder)
    assert [type(each.error) for each in outcomes if each.error] == [IsALink]
    assert list((folder.parent / "elsewhere").iterdir()) == []


def test_a_linked_folder_of_packs_is_none(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    packs_of(folder).symlink_to(folder.parent / "elsewhere")
    assert [type(each.error) for each in pack(folder)] == [IsALink]
    assert packs_in(folder) == []
    assert list((folder.parent / "elsewhere").iterdir()) == []


def test_what_is_no_session_does_not_come_back(tmp_path: Path) -> None:
    """An index near sessions is a stranger's data."""
    made = planted(tmp_path, "settings.json", [b'{"hooks": {}}'], 13)
    (outcome,) = unpack_sessions(meant_by([str(made.archive)]))
    assert outcome.error is not None
    assert outcome.error.where == str(tmp_path / "settings.json")
    assert not (tmp_path / "settings.json").exists()
    assert list(tmp_path.glob(".sessioncompress/*.temp-*")) == []


def test_a_session_without_room_does_not_come_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it copied to be read: a stranger's pack may be small and hold terabytes of zeros."""
    pack(folder)
    with monkeypatch.context() as patched:
        patched.setattr("sessioncompress.store.moves.disk_usage", lambda _: SimpleNamespace(free=1000))
        outcomes = unpack(folder)
        copied = list(each_packed(packed_in([folder]), lambda place, copy: None))
    assert [type(each.error) for each in outcomes] == [FileFailed] * 3
    assert [type(each.error) for each in copied] == [FileFailed] * 3
    assert state(folder) == {}
    assert [each.error for each in unpack(folder)] == [None] * 3


def test_a_session_that_cannot_get_its_name_leaves_no_store(folder: Path) -> None:
    """The folder of the store may be writable where the one of the session is not."""
    was = state(folder)
    pack(folder)

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "link" and arguments[1] == folder / "one.jsonl":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), arguments[1])

    with disk(before):
        outcomes = unpack(folder)
    assert [type(each.error) for each in outcomes if each.error] == [FileFailed]
    assert [name for name in state(folder) if "one" in name] == []
    assert [each.error for each in unpack(folder)] == [None]
    assert state(folder) == was


def test_a_file_system_without_hard_links(folder: Path) -> None:
    """Nothing is packed there, as nothing would come back; and a pack that was copied there says what unpacks it."""

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        del number
        if name == "link":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), arguments[1])

    was = state(folder)
    with disk(before):
        assert [type(each.error) for each in pack(folder)] == [Unsupported]
    assert (state(folder), (folder / "below/.sessioncompress").exists()) == (was, False)
    pack(folder)
    (one,) = packs_in(folder)
    with disk(before):
        outcomes = unpack(folder)
    assert [type(each.error) for each in outcomes] == [Unsupported] * 3
    assert f"xf {one.archive}'" in str(outcomes[0].error)
    assert state(folder) == {}
    unpack(folder)
    assert state(folder) == was


def test_an_archive_that_lost_its_index_has_it_at_its_end(folder: Path) -> None:
    """It is read as ever, and what is noted then is in an index again."""
    was = state(folder)
    pack(folder)
    (one,) = packs_in(folder)
    (index := one.archive.with_name(f"{one.name}{INDEX}")).unlink()
    assert [each.index for each in packs_in(folder)] == [one.index]
    write(folder, session("Look at part 3."), "four.jsonl")
    assert [each.error for each in pack(folder)] == [None]
    assert read_index(index) == one.index
    index.unlink()
    (folder / "two.jsonl").write_bytes(b"another\n")
    assert [type(each.error) for each in unpack(folder) if each.error] == [Refused]
    assert [each.state for each in read_index(index).entries].count(State.PACKED) == 1
    (folder / "two.jsonl").unlink()
    assert [each.error for each in unpack(folder)] == [None]
    (folder / "four.jsonl").unlink()
    assert state(folder) == was


@pytest.mark.parametrize("size", ["larger", "smaller"])
@pytest.mark.parametrize("work", [pack, unpack], ids=["pack", "unpack"])
def test_an_archive_stays_that_its_index_does_not_tell_of(
    folder: Path, work: Callable[[Path], list[Any]], size: str
) -> None:
    """Names are free again once a pack is gone, so that a backup may have the index of an earlier one."""
    pack(folder)
    (one,) = packs_in(folder)
    index = one.archive.with_name(f"{one.name}{INDEX}")
    earlier = index.read_bytes()
    unpack(folder)
    steps = 90 if size == "larger" else 2
    alone = write(folder, session("Look at part 4.", steps=steps), "four.jsonl")
    list(pack_sessions(discover([alone]), [folder], lambda _: BALANCED))
    later, archive = index.read_bytes(), one.archive.read_bytes()
    index.write_bytes(earlier)
    with suppress(Damaged):
        work(folder)
    assert one.archive.read_bytes() == archive
    (told,) = [each for each in packing.packs_in(Disk(folder)) if isinstance(each, Damaged)]
    assert (told.where, told.what) == (str(one.archive), "its index is of an archive of another size")
    index.write_bytes(later)
    assert "four.jsonl" in in_packs(folder)


def test_an_index_that_that_of_a_larger_pack_has_overwritten(folder: Path) -> None:
    """Both name the same sessions then, and nothing names those of the smaller archive."""
    pack(folder)
    (larger,) = packs_in(folder)
    alone = write(folder, session("Look at part 4.", steps=2), "four.jsonl")
    list(pack_sessions(discover([alone]), [folder], lambda _: BALANCED))
    (smaller,) = (each for each in packs_in(folder) if each.name != larger.name)
    index = smaller.archive.with_name(f"{smaller.name}{INDEX}")
    index.write_bytes(larger.archive.with_name(f"{larger.name}{INDEX}").read_bytes())
    (told,) = [each for each in packing.packs_in(Disk(folder)) if isinstance(each, Damaged)]
    assert (told.where, told.what) == (str(smaller.archive), "its index is of an archive of another size")


def test_what_the_remedy_for_a_cut_index_does(folder: Path) -> None:
    """It brings back what is not there, and nothing in the place of what is."""
    was = state(folder)
    pack(folder)
    (one,) = packs_in(folder)
    index = one.archive.with_name(f"{one.name}{INDEX}")
    index.write_bytes(index.read_bytes()[:-20])
    (told,) = packing.packs_in(Disk(folder))
    assert isinstance(told, Damaged)
    assert "move it away" in told.remedy
    assert "tar " not in told.remedy
    index.rename(folder.parent / "away")
    (folder / "two.jsonl").write_bytes(b"gone on with")
    assert [type(each.error) for each in unpack(folder) if each.error] == [Refused]
    now = state(folder)
    assert now.pop("two.jsonl").content == b"gone on with"
    assert now == {name: each for name, each in was.items() if name != "two.jsonl"}


def test_what_the_remedy_for_an_archive_without_its_index_does(folder: Path) -> None:
    """It brings back what is not there, as it was, and nothing in the place of what is."""
    need("zstd")
    was = state(folder)
    pack(folder)
    (one,) = packs_in(folder)
    without_tail(one.archive)
    (folder / "two.jsonl").write_bytes(b"gone on with")
    (told,) = packing.packs_in(Disk(folder))
    assert isinstance(told, Damaged)
    tar, *arguments = shlex.split(told.remedy.split("'")[1])
    # It ends with an error where something stays.
    subprocess.run([need(tar), *arguments], cwd=folder.parent, check=False, stderr=subprocess.DEVNULL)
    now = state(folder)
    assert now.pop("two.jsonl").content == b"gone on with"
    assert {name: each.content for name, each in now.items()} == {
        name: each.content for name, each in was.items() if name != "two.jsonl"
    }


def test_two_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One waits for the other, but not for long."""
    monkeypatch.setattr(moves, "_LOCK_SECONDS", 0)
    with moves.alone(Disk(folder)):
        assert [type(each.error) for each in pack(folder)] == [InUse]
    assert os.listdir(folder / ".sessioncompress") != ["packs"]


def test_a_damaged_pack_keeps_what_it_cannot_give(folder: Path) -> None:
    """And a session that is there again is packed anew."""
    was = state(folder)
    pack(folder)
    (made,) = packs_in(folder)
    made.archive.write_bytes(made.archive.read_bytes()[:200])
    outcomes = unpack(folder)
    assert all(each.error is not None and each.error.exit_code == 5 for each in outcomes)
    assert state(folder) == {}
    (folder / "two.jsonl").write_bytes(was["two.jsonl"].content)
    pack(folder)
    assert (folder / "two.jsonl").exists() is False
    assert len(packs_in(folder)) == 2


def test_a_disk_that_keeps_other_bytes_is_noticed(folder: Path) -> None:
    was = state(folder)
    archive = packs_of(folder) / "tmp-1.tar.zst.temp"

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "fsync" and isinstance(arguments[0], int) and archive.exists() and archive.stat().st_size:
            content = bytearray(archive.read_bytes())
            content[len(content) // 2] ^= 1
            archive.write_bytes(content)

    with disk(before):
        outcomes = pack(folder)
    assert [type(each.error) for each in outcomes] == [Unreadable]
    assert state(folder) == was
    assert packs_in(folder) == []
