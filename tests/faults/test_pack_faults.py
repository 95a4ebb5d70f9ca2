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
from sessioncompress.operations import pack as packing
from sessioncompress.store.layout import ARCHIVE
from sessioncompress.store.packing import NEW
from tests.faults.effort import effort
from tests.faults.scenes import kill_at
from tests.support.packs import Was, copied, in_packs, pack, packs_in, session, sessions_in, state, unpack
from tests.support.runs import write
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
        aside = now.get(str(path.parent / ".sessioncompress" / f"{path.name}.packed"))
        assert now.get(name) == file or (aside is not None and aside.content == file.content) or name in held, name
        if name not in held:
            store = {each for each in was if Path(each).name.startswith(path.stem) and each != name}
            assert store <= now.keys() | set(), name


def check_no_index_is_left(folder: Path) -> None:
    """One that waits for its name has an archive."""
    for path in folder.glob(f"**/*{NEW}"):
        assert path.with_name(path.name.removesuffix(NEW) + ARCHIVE).exists()


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
    every = effort(16, 3, 3)
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


def test_a_kill_of_a_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small packs with a new one: each session is in one, and the next run leaves it in one alone."""
    monkeypatch.setattr(packing, "_MANY", 2)
    folder, kept = tmp_path / "s", tmp_path / "kept"
    folder.mkdir()
    was: dict[str, Was] = {}
    for number in range(3):
        write(folder, session(f"Look at part {number}."), f"{number}.jsonl")
        was |= state(folder)
        if number < 2:
            pack(folder)
    folder.rename(kept)
    for number in range(0, calls_of(kept, folder, pack), effort(4, 1, 1)):
        shutil.rmtree(folder)
        copied(kept, folder)
        assert in_a_child(lambda: _killed(pack, folder, number)) == signal.SIGKILL  # noqa: B023 - called at once
        check_nothing_is_lost(folder, was)
        if number % 8:
            pack(folder)
            assert in_packs(folder) == sorted(was)
            assert len(packs_in(folder)) == 1
        check_it_ends(folder, was)


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
        if not ever_after:
            check_no_index_is_left(folder)
        check_nothing_is_lost(folder, was)
        check_it_ends(folder, was)
        shutil.rmtree(folder)
