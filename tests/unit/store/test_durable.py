"""The operations that change the disk do what they say, and no more."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sessioncompress.store import disk as real_disk
from sessioncompress.store import swap
from tests.unit.store.tools import CALLS, disk, failing_at


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
            real_disk.create(tmp_path / name)
    with pytest.raises(OSError, match="symbolic"):
        real_disk.create(tmp_path / "link", exclusive=False)
    with pytest.raises(FileNotFoundError):
        real_disk.open_existing(tmp_path / "none")


def test_appending_goes_to_the_end(tmp_path: Path) -> None:
    """Each write goes behind what others have written meanwhile."""
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    fd = real_disk.open_existing(path, append=True)
    with path.open("ab") as other:
        other.write(b"two\n")
    real_disk.write_all(fd, b"three\n")
    os.close(fd)
    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_cut_stands_at_the_end(tmp_path: Path) -> None:
    """What is written after a cut follows what was left."""
    path = tmp_path / "file"
    path.write_bytes(b"committed, torn")
    fd = real_disk.open_existing(path)
    real_disk.cut(fd, 9)
    real_disk.write_all(fd, b"!")
    os.close(fd)
    assert path.read_bytes() == b"committed!"


def test_folders(tmp_path: Path) -> None:
    """A folder is made with those above it, and removed only if it is empty."""
    folder = tmp_path / "a" / "b"
    real_disk.make_folder(folder)
    real_disk.make_folder(folder)
    assert real_disk.remove_folder(tmp_path / "a") is False
    assert real_disk.remove_folder(folder) is True
    assert real_disk.remove_folder(folder) is True
    with disk(failing_at(0, errno.EACCES)), pytest.raises(PermissionError):
        real_disk.remove_folder(tmp_path / "a")


def test_only_a_folder_that_cannot_be_flushed_is_let_pass(tmp_path: Path) -> None:
    """Some file systems flush no folders; a real error counts, and a file must always be flushed."""
    with disk(failing_at(0, errno.EINVAL)):
        real_disk.flush_folder(tmp_path)
    with disk(failing_at(0, errno.EIO)), pytest.raises(OSError, match="error"):
        real_disk.flush_folder(tmp_path)
    fd = real_disk.create(tmp_path / "file")
    with disk(failing_at(0, errno.EINVAL)), pytest.raises(OSError, match="argument"):
        real_disk.system.fsync(fd)
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
    real_disk.remove(tmp_path / "none")
    with pytest.raises(IsADirectoryError if os.name == "posix" and os.uname().sysname == "Linux" else PermissionError):
        real_disk.remove(tmp_path)
