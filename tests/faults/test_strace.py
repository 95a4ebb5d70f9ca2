"""Nothing lost, seen from outside the process: strace kills it, fails its calls, or lies to it about what was written."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.effort import effort
from tests.faults.scenes import SCENES, SIZES, Scene, Size, Stage, check_it_goes_on, check_old_or_new, each_size, stage
from tests.faults.tools import command, need, run

_CHANGING = (
    "write,pwrite64,fsync,ftruncate,link,linkat,rename,renameat,renameat2,unlink,unlinkat,fchmod,fchown,utimensat,"
    "mkdir,mkdirat,rmdir"
)
_CALL = re.compile(r"^\d+\s+(\w+)\((.*)$")
_OUTPUT = ("1,", "2,")
_scenes = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)


class Point(NamedTuple):
    """One system call of a run: its name, the how many-th of that name it is, and whether it can change the disk."""

    name: str
    when: int
    changes: bool


def traced(play: Stage, path: Path, *injected: str) -> int:
    """Run the scene's command under strace, the trace written beside its folder; return how it ended."""
    line = [need("strace"), "-f", "-qq", "-o", str(path.parent.with_suffix(".trace"))]
    line += ["-e", f"trace=openat,{_CHANGING}", *(part for each in injected for part in ("-e", f"inject={each}"))]
    return run([*line, *command(play.scene.command, path)]).returncode


def points(play: Stage, at: Path) -> Iterator[Point]:
    """Yield the calls of a whole run that touch the session or what lies beside it."""
    with play.played(at) as path:
        assert traced(play, path) == 0
        lines = at.with_suffix(".trace").read_text(errors="replace").splitlines()
    seen: Counter[str] = Counter()
    for name, arguments in (match.groups() for match in map(_CALL.match, lines) if match):
        seen[name] += 1
        ours = str(at) in arguments if name == "openat" else not arguments.startswith(_OUTPUT)
        if ours:
            yield Point(name, seen[name], name != "fsync" and (name != "openat" or "O_CREAT" in arguments))


@each_size(effort(SIZES[:1], SIZES[:1], SIZES))
def test_a_kill_at_any_system_call(tmp_path: Path, scene: Scene, size: Size) -> None:
    """The session is old or new; if it is new its originals restore it; the next run puts everything right."""
    play = stage(scene, size, tmp_path)
    is_new_state = True
    for point in points(play, tmp_path / "whole"):
        # A kill behind a call that changes nothing finds what one before that did.
        is_tried, is_new_state = is_new_state, point.changes
        if not is_tried:
            continue
        with play.played(tmp_path / f"{point.name}-{point.when}") as path:
            ended = traced(play, path, f"{point.name}:signal=SIGKILL:when={point.when}")
            # A folder that changed within the clock's tick is listed once more: the last opens may not come.
            assert ended == -signal.SIGKILL or (ended, point.name) == (0, "openat")
            check_old_or_new(play, path)
            check_it_goes_on(play, path)


@_scenes
def test_an_error_at_any_system_call(tmp_path: Path, scene: Scene) -> None:
    """It fails with the exit code of the system's failures, or does without, and a later run puts everything right."""
    play = stage(scene, SIZES[0], tmp_path)
    for point in points(play, tmp_path / "whole"):
        if point.name == "openat":
            continue
        code = "EIO" if point.name == "fsync" else "ENOSPC"
        with play.played(tmp_path / f"{point.name}-{point.when}") as path:
            ended = traced(play, path, f"{point.name}:error={code}:when={point.when}")
            assert ended in (0, 3)
            assert ended == 3 or path.read_bytes() == play.new
            check_old_or_new(play, path)
            check_it_goes_on(play, path)


@pytest.mark.parametrize(
    "scene", [each for each in SCENES if each.command[0] in ("compress", "restore")], ids=lambda each: each.name
)
def test_a_disk_that_lies_about_what_it_wrote(tmp_path: Path, scene: Scene) -> None:
    """A write that says it wrote 40 bytes and wrote nothing is noticed before the session is replaced."""
    play = stage(scene, SIZES[0], tmp_path)
    writes = [point for point in points(play, tmp_path / "whole") if point.name in ("write", "pwrite64")]
    assert writes
    for point in writes:
        with play.played(tmp_path / f"{point.name}-{point.when}") as path:
            assert traced(play, path, f"{point.name}:retval=40:when={point.when}") in (3, 5)
            assert path.read_bytes() == play.old
            check_old_or_new(play, path)
            check_it_goes_on(play, path)
