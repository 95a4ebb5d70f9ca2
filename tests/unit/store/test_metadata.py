"""A new file looks like the one that it replaces."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from sessioncompress.store.disk import copy_metadata
from tests.unit.store.tools import MTIME, disk, make_session


def copied(source: Path, target: Path, *, newest: int = 0) -> os.stat_result:
    """Copy all metadata from one file to another; return the target's."""
    one, other = os.open(source, os.O_RDONLY), os.open(target, os.O_RDWR)
    copy_metadata(one, other, newest=newest)
    os.close(one)
    os.close(other)
    return target.stat()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Create the file that gets the metadata."""
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
    """It keeps its sign."""
    source = make_session(tmp_path)
    os.utime(source, ns=(-5, -(10**18) - 5))
    assert copied(source, target).st_mtime_ns == source.stat().st_mtime_ns < 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owner(tmp_path: Path, target: Path) -> None:
    """Owner and group are kept."""
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
