"""Nothing lost, seen from outside the process: strace kills it, fails its calls, or lies to it about what was written."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import pytest

from sessioncompress.cli.main import main
from tests.faults.effort import effort
from tests.faults.scenes import PATHS, SIZES, Scene, Size, Stage, check, check_it_goes_on, each_size, stage
from tests.faults.tools import need
from tests.support.runs import invoke

pytestmark = pytest.mark.usefixtures("flushed")
_CHANGING = (
    "write,pwrite64,fsync,ftruncate,link,linkat,rename,renameat,renameat2,unlink,unlinkat,fchmod,fchown,utimensat,"
    "mkdir,mkdirat,rmdir"
)
_CALL = re.compile(r"^(\w+)\((.*)$")
_ELSEWHERE = re.compile(r"[12]<|\d+<pipe:")
"""What a user or git is told, not the disk."""
_MAY_TRACE: Final = 0x59616D61
_ANYBODY: Final = (1 << 64) - 1
"""PR_SET_PTRACER and PR_SET_PTRACER_ANY of <sys/prctl.h>."""
_scenes = pytest.mark.parametrize("scene", PATHS, ids=lambda scene: scene.name)


class Point(NamedTuple):
    """One system call of a run: its name, the how many-th of that name it is, and whether it can change the disk."""

    name: str
    when: int
    changes: bool


def traced(play: Stage, path: Path, *injected: str) -> int:
    """Run the scene's command under strace, the trace written beside its folder; return how it ended.

    It runs in a child that has all modules: to start Python under strace takes longer than all else.
    """
    began, begin = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(begin)
        with play.clock():
            _run_once_told(began, [*play.scene.command, str(path)])
    # Without "-f": git is asked in a process of its own, whose calls are counted apart.
    line = [need("strace"), "-y", "-p", str(child), "-o", str(path.parent.with_suffix(".trace"))]
    line += ["-e", f"trace=openat,{_CHANGING}", *(part for each in injected for part in ("-e", f"inject={each}"))]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        said = strace.stderr.readline()
        os.close(began)
        os.close(begin)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        strace.communicate(timeout=120)
    assert said.endswith(" attached\n"), said
    return ended


def _run_once_told(began: int, arguments: list[str]) -> NoReturn:
    """Run our command in this process, once nobody holds the other end of a pipe, and end."""
    code = 1
    try:
        # Where the system asks for that, a child says who may trace it.
        ctypes.CDLL(None).prctl(_MAY_TRACE, ctypes.c_ulong(_ANYBODY), 0, 0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.read(began, 1)
        main(arguments, prog_name="sessioncompress")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os._exit(code)


def points(play: Stage, at: Path) -> Iterator[Point]:
    """Yield the calls of a whole run that touch the session or what lies beside it."""
    with play.played(at) as path:
        # Whatever the command imports as it runs is there from now on: no later run of it has fewer calls.
        invoke(*play.scene.command, path)
        check_it_goes_on(play, path)
    with play.played(at) as path:
        assert traced(play, path) == 0
        lines = at.with_suffix(".trace").read_text(errors="replace").splitlines()
    seen: Counter[str] = Counter()
    for name, arguments in (match.groups() for match in map(_CALL.match, lines) if match):
        seen[name] += 1
        ours = str(at) in arguments if name == "openat" else not _ELSEWHERE.match(arguments)
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
            check(play, path)


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
            check(play, path)


@pytest.mark.parametrize(
    "scene",
    # What git is told of a store, in a .gitignore, is not read back.
    [each for each in PATHS if each.command[0] in ("compress", "restore") and "--originals-in" not in each.command],
    ids=lambda each: each.name,
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
            check(play, path)
