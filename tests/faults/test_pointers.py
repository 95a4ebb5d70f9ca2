"""Nothing lost: whenever a run over a rollout of Codex is killed, no place outside of it leads Codex to wrong turns."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from tests.faults.scenes import kill_at
from tests.support.codex_home import Home, forked, header, home_in, name_of, ordinals
from tests.support.runs import EAGER
from tests.unit.store.tools import disk, in_a_child

_STATE = "thread_history_projection_state"


def _compress(home: Home) -> None:
    compress_session(home.parent, EAGER)


def _restore(home: Home) -> None:
    restore_session(home.parent)


def _compressed(folder: Path) -> Home:
    home = home_in(folder)
    _compress(home)
    return home


def _cramped(folder: Path) -> Home:
    """A home with a fork of a compressed parent, which has no room for its place in the restored one."""
    home = home_in(folder)
    end = next(number for number, place in ordinals(home.parent).items() if place >= 100_000)
    _compress(home)
    fork = forked(home.parent, end, 4)
    made = home._replace(grandchild=fork)
    made.put(fork)
    return made


_SCENES: dict[str, tuple[Callable[[Path], Home], Callable[[Home], None]]] = {
    "compress": (home_in, _compress),
    "restore": (_compressed, _restore),
    "restore beside a fork without room": (_cramped, _restore),
}


@pytest.mark.parametrize("scene", _SCENES)
def test_a_kill_before_any_call(scene: str, tmp_path: Path) -> None:
    """What Codex would read next stands before the right place, where it passes over what it knows.

    A fork goes on from the right place, or from one behind it, which Codex refuses. The next run puts all right.
    """
    prepare, act = _SCENES[scene]
    template = prepare(tmp_path / "template")
    assert template.wrong() == []
    number, wrong = 0, 0
    while True:
        folder = tmp_path / str(number)
        shutil.copytree(template.path, folder, symlinks=True)
        home = Home(folder, *(folder / path.relative_to(template.path) for path in template.rollouts))

        def work(home: Home = home, number: int = number) -> None:
            with disk(kill_at(number)):
                act(home)

        lived = in_a_child(work) != signal.SIGKILL
        wrong += bool(home.wrong())
        _check_that_no_harm_is_done(home)
        act(home)
        assert home.wrong() == []
        verify_session(home.parent)
        shutil.rmtree(folder)
        if lived:
            break
        number += 1
    assert number > 20
    assert wrong > 1


def _check_that_no_harm_is_done(home: Home) -> None:
    for path in home.rollouts:
        places = ordinals(path)
        asked = f"SELECT next_rollout_ordinal, next_rollout_byte_offset FROM {_STATE} WHERE thread_id = ?"
        for number, place in home.rows(asked, name_of(path)):
            assert place <= places[number]
        for other in home.rollouts:
            base = header(other).get("history_base", {})
            if base.get("thread_id") == name_of(path):
                assert base["end_byte_offset"] >= places[base["end_ordinal_exclusive"]]
