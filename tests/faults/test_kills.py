"""Recoverable, nothing lost: SIGKILL before every call that changes the disk, and again while the next run recovers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.effort import effort
from tests.faults.scenes import (
    SIZES,
    Scene,
    Size,
    check_it_goes_on,
    check_old_or_new,
    each_size,
    frames_of,
    killed,
    stage,
)

PARTS = 4
"""The pairs are many: in parts they can be tried side by side."""


@each_size(effort(SIZES[:1], SIZES, SIZES))
def test_a_kill_before_any_call(tmp_path: Path, scene: Scene, size: Size) -> None:
    """The session is old or new; if it is new its originals restore it; the next run puts everything right."""
    with frames_of(size):
        play = stage(scene, size, tmp_path)
        assert play.states > 4
        for number in range(play.states):
            with play.played(tmp_path / str(number)) as path:
                assert killed(play, path, number)
                check_old_or_new(play, path)
                check_it_goes_on(play, path)


@each_size(effort(SIZES[:1], SIZES[:1], SIZES))
@pytest.mark.parametrize("part", range(PARTS))
def test_a_kill_before_any_call_of_the_run_after_a_kill(tmp_path: Path, scene: Scene, size: Size, part: int) -> None:
    """Two kills in a row, each pair of calls: the first run that lives finishes."""
    points = 0
    with frames_of(size):
        play = stage(scene, size, tmp_path)
        firsts = range(part, play.states, PARTS)
        for number in firsts:
            again = 0
            lived = False
            while not lived:
                with play.played(tmp_path / f"{number}-{again}") as path:
                    assert killed(play, path, number)
                    lived = not killed(play, path, again)
                    check_old_or_new(play, path)
                    check_it_goes_on(play, path)
                again += 1
                points += 1
    assert points > len(firsts) * 3
