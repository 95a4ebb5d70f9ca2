"""The operations that change the disk do what they say, and no more."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store import disk as store_disk
from sessioncompress.store import swap
from sessioncompress.store.disk import copy_metadata, put, put_new
from tests.unit.store.tools import CALLS, MTIME, disk, everything, failing_at, make_session


def test_the_seam_has_every_call() -> None:
    """What a test can make fail is every call that changes the disk."""
    assert {"open", "write", "truncate", "fsync", "mkdir", "rmdir", "link", "replace", "exchange", "unlink"} < set(
        CALLS
    )


def test_create_refuses_what_is_there(tmp_path: Path) -> None:
    """A temp file is never someone else's file, nor what a link leads to."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("target")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            store_disk.create(tmp_path / name)
    with pytest.raises(OSError, match="symbolic"):
        store_disk.create(tmp_path / "link", exclusive=False)
    with pytest.raises(FileNotFoundError):
        store_disk.open_existing(tmp_path / "none")


def test_appending_goes_to_the_end(tmp_path: Path) -> None:
    """Each write goes behind what others have written meanwhile."""
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    fd = store_disk.open_existing(path, append=True)
    with path.open("ab") as other:
        other.write(b"two\n")
    store_disk.write_all(fd, b"three\n")
    os.close(fd)
    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_cut_stands_at_the_end(tmp_path: Path) -> None:
    """What is written after a cut follows what was left."""
    path = tmp_path / "file"
    path.write_bytes(b"committed, torn")
    fd = store_disk.open_existing(path)
    store_disk.cut(fd, 9)
    store_disk.write_all(fd, b"!")
    os.close(fd)
    assert path.read_bytes() == b"committed!"


def test_folders(tmp_path: Path) -> None:
    """A folder is made with those above it, and removed only if it is empty and this user may."""
    folder = tmp_path / "a" / "b"
    store_disk.make_folder(folder)
    store_disk.make_folder(folder)
    assert store_disk.remove_folder(tmp_path / "a") is False
    assert store_disk.remove_folder(folder) is True
    assert store_disk.remove_folder(folder) is True
    with disk(failing_at(0, errno.EACCES)):
        assert store_disk.remove_folder(tmp_path / "a") is False
    with disk(failing_at(0, errno.EIO)), pytest.raises(OSError, match="error"):
        store_disk.remove_folder(tmp_path / "a")


def test_only_a_folder_that_cannot_be_flushed_is_let_pass(tmp_path: Path) -> None:
    """Some file systems flush no folders; a real error counts, and a file must always be flushed."""
    with disk(failing_at(0, errno.EINVAL)):
        store_disk.flush_folder(tmp_path)
    with disk(failing_at(0, errno.EIO)), pytest.raises(OSError, match="error"):
        store_disk.flush_folder(tmp_path)
    fd = store_disk.create(tmp_path / "file")
    with disk(failing_at(0, errno.EINVAL)), pytest.raises(OSError, match="argument"):
        store_disk.system.fsync(fd)
    os.close(fd)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A second name for a link is one for the link."""
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "link").symlink_to("target")
    swap.link(tmp_path / "link", tmp_path / "second")
    assert (tmp_path / "second").is_symlink()
    assert (tmp_path / "target").stat().st_nlink == 1


def test_remove_is_done_when_it_is_gone(tmp_path: Path) -> None:
    """A name that is not there is as good as removed; an error is an error."""
    store_disk.remove(tmp_path / "none")
    with pytest.raises(IsADirectoryError if os.name == "posix" and os.uname().sysname == "Linux" else PermissionError):
        store_disk.remove(tmp_path)


# A small file is written whole or not at all.


@pytest.mark.parametrize("write", [put, put_new])
def test_a_new_file_is_its_owners(write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    write(tmp_path / "x", b"new")
    assert everything(tmp_path) == {"x": b"new"}
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_an_old_one_keeps_its_mode_and_gets_a_time_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old and longer")
    path.chmod(0o644)
    os.utime(path, (1, 1))
    put(path, b"new")
    assert everything(tmp_path) == {"x": b"new"}
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.stat().st_mtime > 1


def test_one_that_must_be_new_replaces_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        put_new(tmp_path / "x", b"new")
    assert everything(tmp_path) == {"x": b"old"}


@pytest.mark.parametrize(("write", "named"), [(put, ["replace"]), (put_new, ["link", "unlink"])])
def test_its_bytes_are_on_the_disk_before_its_name(
    write: Callable[[Path, bytes], None], named: list[str], tmp_path: Path
) -> None:
    """A power cut leaves the old file or the new one, and after it the new one for good."""
    with disk() as seam:
        write(tmp_path / "x", b"new")
    assert seam.calls == ["open", "write", "fsync", *named, "fsync"]


FAILING = [(put, call) for call in ("write", "fsync", "replace", "utime")]
FAILING += [(put_new, call) for call in ("write", "fsync", "link")]


@pytest.mark.parametrize(("write", "call"), FAILING)
def test_a_failure_leaves_all_as_it_was(write: Callable[[Path, bytes], None], call: str, tmp_path: Path) -> None:
    if write is put:
        (tmp_path / "x").write_bytes(b"old")
    before = everything(tmp_path)

    def fail(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name == call:
            raise OSError(5, "Input/output error")

    with disk(fail), pytest.raises(OSError, match="Input"):
        write(tmp_path / "x", b"new")
    assert everything(tmp_path) == before


# A new file looks like the one that it replaces.


def copied(source: Path, target: Path, *, newest: int = 0) -> os.stat_result:
    """Copy all metadata from one file to another; return the target's."""
    one, other = os.open(source, os.O_RDONLY), os.open(target, os.O_RDWR)
    copy_metadata(one, other, newest=newest)
    os.close(one)
    os.close(other)
    return target.stat()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target"
    path.touch(0o600)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664, 0o2755])
def test_mode_and_time(tmp_path: Path, target: Path, mode: int) -> None:
    """Mode and time of change are kept to the bit and the nanosecond."""
    source = make_session(tmp_path)
    source.chmod(mode)
    found = copied(source, target)
    assert stat.S_IMODE(found.st_mode) == mode
    assert found.st_mtime_ns == MTIME


def test_newest_time(tmp_path: Path, target: Path) -> None:
    """A later change counts, an earlier one does not."""
    source = make_session(tmp_path)
    assert copied(source, target, newest=MTIME + 5).st_mtime_ns == MTIME + 5
    assert copied(source, target, newest=5).st_mtime_ns == MTIME


def test_a_time_before_1970(tmp_path: Path, target: Path) -> None:
    source = make_session(tmp_path)
    os.utime(source, ns=(-5, -(10**18) - 5))
    assert copied(source, target).st_mtime_ns == source.stat().st_mtime_ns < 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owner(tmp_path: Path, target: Path) -> None:
    source = make_session(tmp_path)
    os.chown(source, 1234, 5678)
    source.chmod(0o640)
    found = copied(source, target)
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 5678, 0o640)


def test_owner_is_not_set_needlessly(tmp_path: Path, target: Path) -> None:
    """Who owns the session needs no rights to give files away."""
    with disk() as seam:
        copied(make_session(tmp_path), target)
    assert "chown" not in seam.calls


@pytest.mark.skipif(sys.platform != "linux", reason="Python has extended attributes on Linux alone")
def test_extended_attributes(tmp_path: Path, target: Path) -> None:
    """Extended attributes are kept, and what the target has of its own goes."""
    source = make_session(tmp_path)
    try:
        os.setxattr(source, "user.tag", b"\x00value")
        os.setxattr(target, "user.other", b"x")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    copied(source, target)
    assert {name: os.getxattr(target, name) for name in os.listxattr(target)} == {"user.tag": b"\x00value"}
