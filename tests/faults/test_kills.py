"""Recoverable, nothing lost: SIGKILL before every call that changes the disk, and again while the next run recovers."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.faults.effort import effort
from tests.faults.scenes import (
    PATHS,
    SCENES,
    SIZES,
    Scene,
    Size,
    State,
    check,
    each_size,
    frames_of,
    killed,
    stage,
    state_of,
)
from tests.unit.store.tools import CALLS, steps_of


@pytest.mark.parametrize("scene", [each for each in SCENES if each.like], ids=lambda each: each.name)
def test_a_scene_makes_the_calls_of_another(tmp_path: Path, scene: Scene) -> None:
    """So a second kill, an error, a power cut and what is seen from outside are tried on that other one."""
    (other,) = (each for each in PATHS if each.name == scene.like)
    made = []
    for number, each in enumerate((scene, other)):
        (folder := tmp_path / str(number)).mkdir()
        play = stage(each, SIZES[0], folder)
        with play.played(folder / "played") as path, steps_of(tuple(CALLS)) as steps:
            each.act(path)
        made.append(steps)
    assert made[0] == made[1]


@each_size(effort(SIZES[:1], SIZES, SIZES), SCENES)
def test_a_kill_before_any_call(tmp_path: Path, scene: Scene, size: Size) -> None:
    """The session is old or new; if it is new its originals restore it; the next run puts everything right."""
    with frames_of(size):
        play = stage(scene, size, tmp_path)
        assert play.states > 4
        for number in range(play.states):
            with play.played(tmp_path / str(number)) as path:
                assert killed(play, path, number)
                check(play, path)


@each_size(effort(SIZES[:1], SIZES[:1], SIZES))
def test_a_kill_before_any_call_of_the_run_after_a_kill(tmp_path: Path, scene: Scene, size: Size) -> None:
    """Two kills in a row, each pair that differs: the first run that lives finishes."""
    points = 0
    firsts: set[State] = set()
    with frames_of(size):
        play = stage(scene, size, tmp_path)
        for number in range(play.states):
            with play.played(tmp_path / "once") as first:
                assert killed(play, first, number)
                if (state := state_of(first.parent)) in firsts:
                    continue
                firsts.add(state)
                next_run = replace(play, folder=first.parent, begun=play.begun + 1)
                for again in count():
                    with next_run.played(tmp_path / "twice") as path:
                        lived = not killed(next_run, path, again)
                        check(next_run, path)
                    points += 1
                    if lived:
                        break
    assert points > len(firsts) * 3
