"""Nothing lost, nothing twice: a kill, and an error of the system, at every call of `pack` and `unpack`."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.packed import meant_by, unpack_sessions
from sessioncompress.store.machine import folder_name
from tests.faults.effort import effort
from tests.faults.scenes import kill_at
from tests.support.packs import Was, copied, in_packs, pack, packs_in, sessions_in, state, unpack
from tests.unit.store.tools import disk, failing_at, in_a_child

ERRNOS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES)[: effort(1, 5, 5)]
COMMANDS = {"pack": pack, "unpack": unpack}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder of sessions."""
    folder = tmp_path_factory.mktemp("plain") / "s"
    sessions_in(folder)
    return folder


@pytest.fixture(scope="module")
def packed(plain: Path) -> Path:
    """Make the same folder, packed."""
    folder = copied(plain, plain.with_name("packed"))
    pack(folder)
    return folder


def calls_of(folder: Path, to: Path, command: Callable[[Path], object]) -> int:
    """Count the calls of a command that goes well."""
    copied(folder, to)
    with disk() as seam:
        command(to)
    return len(seam.calls)


def check_nothing_is_lost(folder: Path, was: dict[str, Was]) -> None:
    """Each session is where it was, or put aside, or in a pack; with all of its store."""
    held = in_packs(folder)
    now = state(folder)
    for name, file in was.items():
        if not name.endswith(".jsonl") or ".sessioncompress" in name:
            continue
        path = Path(name)
        aside = now.get(str(path.parent / ".sessioncompress" / folder_name() / f"{path.name}.packed"))
        assert now.get(name) == file or (aside is not None and aside.content == file.content) or name in held, name
        if name not in held:
            store = {each for each in was if Path(each).name.startswith(path.stem) and each != name}
            assert store <= now.keys() | set(), name


def check_it_ends(folder: Path, was: dict[str, Was]) -> None:
    """The next runs finish what was begun, keep each session once, and bring all back."""
    assert [each.error for each in pack(folder) if each.error] == []
    assert state(folder) == {}
    assert [path for path in folder.glob("*/.sessioncompress") if not os.listdir(path)] == []
    assert in_packs(folder) == sessions_of(was)
    assert {each.name for pack in packs_in(folder) for each in pack.archive.parent.iterdir()} == {
        name for pack in packs_in(folder) for name in (pack.archive.name, f"{pack.name}.index")
    }
    assert [each.error for each in unpack(folder)] == [None] * len(sessions_of(was))
    assert state(folder) == was
    assert packs_in(folder) == []


def sessions_of(was: dict[str, Was]) -> list[str]:
    """Name the sessions of a folder."""
    return sorted(name for name in was if ".sessioncompress" not in name)


def run(command: Callable[[Path], object], folder: Path) -> None:
    """Run a command; that it fails is no failure here."""
    try:
        command(folder)
    except (SessionCompressError, OSError):
        return


@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_at_any_call(plain: Path, packed: Path, tmp_path: Path, name: str) -> None:
    """Every session is somewhere whole, and the next run puts all right."""
    was, begun, command = state(plain), plain if name == "pack" else packed, COMMANDS[name]
    number = 0
    while True:
        folder = copied(begun, tmp_path / "played")

        if in_a_child(lambda: _killed(command, folder, number)) != signal.SIGKILL:  # noqa: B023 - called at once
            break
        check_nothing_is_lost(folder, was)
        check_it_ends(folder, was)
        shutil.rmtree(folder)
        number += 1
    assert number > 20


@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_of_the_run_after_a_kill(plain: Path, packed: Path, tmp_path: Path, name: str) -> None:
    """Two in a row: of `pack` the next run, too, or an `unpack`, and the other way round."""
    was, begun, command = state(plain), plain if name == "pack" else packed, COMMANDS[name]
    every = effort(16, 5, 3)
    for number in range(every // 2, calls_of(begun, tmp_path / "counted", command), every):
        for then in (pack, unpack):
            again, lived = every // 3, False
            while not lived:
                folder = copied(begun, tmp_path / "played")
                assert in_a_child(lambda: _killed(command, folder, number)) == signal.SIGKILL  # noqa: B023 - called at once
                lived = in_a_child(lambda: _killed(then, folder, again)) != signal.SIGKILL  # noqa: B023 - as above
                check_nothing_is_lost(folder, was)
                check_it_ends(folder, was)
                shutil.rmtree(folder)
                again += every


def _killed(command: Callable[[Path], object], folder: Path, number: int) -> None:
    with disk(kill_at(number)):
        command(folder)


def test_a_kill_as_a_secret_is_forgotten(packed: Path, tmp_path: Path) -> None:
    """The pack that is written anew has what stays before the earlier one goes, and a second run ends it."""
    begun = copied(packed, tmp_path / "begun")
    list(unpack_sessions(meant_by([str(begun / "two.jsonl")])))
    was = state(begun)
    for number in range(0, calls_of(begun, tmp_path / "counted", forget), effort(4, 1, 1)):
        folder = copied(begun, tmp_path / "played")
        assert in_a_child(lambda: _killed(forget, folder, number)) == signal.SIGKILL  # noqa: B023 - called at once
        assert set(in_packs(folder)) == {"below/three.jsonl", "one.jsonl"}
        forget(folder)
        assert {each.path for made in packs_in(folder) for each in made.index.entries} == set(in_packs(folder))
        assert {name: file for name, file in state(folder).items() if "/." not in f"/{name}"} == was
        assert [each.error for each in unpack(folder) if each.error] == []
        assert packs_in(folder) == []
        shutil.rmtree(folder)


def forget(folder: Path) -> None:
    """Forget a session that came back from a pack with others."""
    forget_session(folder / "two.jsonl")


@pytest.mark.parametrize("ever_after", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("code", ERRNOS, ids=lambda code: errno.errorcode[code])
@pytest.mark.parametrize("name", COMMANDS)
def test_an_error_at_any_call(
    plain: Path, packed: Path, tmp_path: Path, name: str, code: int, ever_after: bool
) -> None:
    """As with a kill."""
    was, begun, command = state(plain), plain if name == "pack" else packed, COMMANDS[name]
    for number in range(0, calls_of(begun, tmp_path / "counted", command), effort(5, 1, 1)):
        folder = copied(begun, tmp_path / "played")
        with disk(failing_at(number, code, ever_after=ever_after)):
            run(command, folder)
        check_nothing_is_lost(folder, was)
        check_it_ends(folder, was)
        shutil.rmtree(folder)
