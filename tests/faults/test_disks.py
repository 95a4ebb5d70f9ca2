"""Nothing lost on disks as they are: full ones, limits on a file's size, and power that fails at any moment."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import FileFailed
from tests.faults.effort import effort
from tests.faults.scenes import (
    NAME,
    SCENES,
    SIZES,
    Scene,
    Size,
    Stage,
    check,
    check_it_goes_on,
    check_old_or_new,
    each_size,
    stage,
)
from tests.faults.tools import command, run
from tests.unit.store.tools import copy_folder, disk, everything, in_a_child

pytestmark = pytest.mark.usefixtures("flushed")
_LARGE = Size("larger than the disk", 40, 300)
_MIB = 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="a disk of 1 MiB is made with Linux's tmpfs")
def test_a_full_disk(tmp_path: Path) -> None:
    """Exit code 3, the session as it was, nothing left; with room it goes on. A user's own namespace needs no root."""
    play = stage(SCENES[0], _LARGE, tmp_path)
    assert len(play.old) > _MIB
    folder = tmp_path / "disk"
    folder.mkdir()
    script = (
        f'mount -t tmpfs -o size={len(play.old) + _MIB // 4} none "$1" && cp -p "$2" "$1" && shift 2 && "$@"; code=$?; '
        f'cmp "{folder}/{NAME}" "{play.folder}/{NAME}" && echo same; find "{folder}" -mindepth 1; exit $code'
    )
    line = ["unshare", "-Urm", "sh", "-c", script, "sh", str(folder), str(play.folder / NAME)]
    try:
        ended = run([*line, *command(play.scene.command, folder / NAME)])
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if "ermission" in ended.stderr or "not permitted" in ended.stderr:
        pytest.skip("this system lets nobody make a namespace")
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.splitlines()[-2:] == ["same", f"{folder}/{NAME}"]
    assert "no space left" in ended.stderr


@pytest.mark.parametrize("short", [1, 2, 500, 5000, 0])
def test_a_limit_on_the_size_of_files(tmp_path: Path, short: int) -> None:
    """A short write, then an error: the session stays as it was; with just enough for the largest file all is well."""
    play = stage(SCENES[0], SIZES[1], tmp_path)
    with play.played(tmp_path / "free") as path:
        play.scene.act(path)
        largest = max(each.stat().st_size for each in path.parent.rglob("*") if each.is_file())
    with play.played(tmp_path / "limited") as path:
        before = everything(path.parent)

        def work() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest - short, largest - short))
            try:
                play.scene.act(path)
            except FileFailed as error:
                os._exit(error.exit_code)

        assert os.waitstatus_to_exitcode(in_a_child(work)) == (3 if short else 0)
        if short:
            assert everything(path.parent) == before
        check_old_or_new(play, path)
        check_it_goes_on(play, path)


# Power cuts: a session on an ext4 of its own, whose image is copied before each call. What has not reached the image
# by then is what a disk would not have either.


@contextmanager
def mounted(image: Path, at: Path, options: str) -> Iterator[Path]:
    """Mount an image for a block."""
    at.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", f"loop,{options}", image, at], check=True, capture_output=True)
    try:
        yield at
    finally:
        with suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", "-l", at], check=True, capture_output=True)


@contextmanager
def empty_disk(image: Path, at: Path, options: str, size: int = 8) -> Iterator[Path]:
    """Make an image of an empty ext4 of so many MiB, mounted for a block."""
    with image.open("wb") as file:
        file.truncate(size * _MIB)
    subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", image], check=True, capture_output=True)
    with mounted(image, at, options):
        yield at


@contextmanager
def _image(play: Stage, folder: Path, options: str) -> Iterator[tuple[Path, Path]]:
    """Make an image of an ext4 with the scene's folder on it, all of it on the disk; return it and where it is."""
    image = folder / "disk.img"
    with empty_disk(image, folder / "disk", options) as at:
        copy_folder(play.folder, at / "work")
        subprocess.run(["sync", "-f", at], check=True)
        yield image, at / "work" / NAME


def _cut_at_every_call(play: Stage, folder: Path, options: str) -> list[Path]:
    """Play the scene; return copies of the disk as it was before each call, and at the end."""
    cuts: list[Path] = []

    def cut(number: int = 0, name: str = "", arguments: tuple[Any, ...] = ()) -> None:
        del number, name, arguments
        cuts.append(folder / f"cut-{len(cuts)}.img")
        shutil.copyfile(image, cuts[-1])

    with _image(play, folder, options) as (image, path):
        with play.clock(), disk(cut):
            play.scene.act(path)
        cut()
    return cuts


cuts_power = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists() or shutil.which("mkfs.ext4") is None,
    reason="power cuts need root, loop devices and mkfs.ext4",
)


@cuts_power
@each_size(effort(SIZES[:1], SIZES[:2], SIZES))
def test_a_power_cut_before_any_call(tmp_path: Path, scene: Scene, size: Size) -> None:
    """What is on the disk is the old session or the new one with its originals; after the last call the new one."""
    play = stage(scene, size, tmp_path)
    for options in ("defaults", "noauto_da_alloc", "data=writeback,noauto_da_alloc"):
        cuts = _cut_at_every_call(play, tmp_path, options)
        assert len(cuts) == play.calls + 1
        for cut in cuts:
            with mounted(cut, tmp_path / "after", options) as at:
                path = at / "work" / NAME
                if cut == cuts[-1]:
                    assert path.read_bytes() == play.new
                    assert scene.done(path)
                check(play, path)
            cut.unlink()
