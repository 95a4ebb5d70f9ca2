"""Links, pipes and folders where a file should be lead nowhere; tests/unit/store/test_lock.py has kinds of sessions."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sessioncompress.errors import Refused, SessionCompressError
from sessioncompress.store.layout import Store
from tests.faults.forging import commands, reference
from tests.faults.scenes import NAME, SCENES, SIZES, built
from tests.faults.test_rights import COMMANDS, REPLACING
from tests.faults.watch import nothing_outside
from tests.support.runs import invoke, write
from tests.support.stores import PLACES, at_place
from tests.unit.store.tools import everything


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a session that was compressed and went on, with nothing else in its folder."""
    (tmp_path / "work").mkdir()
    return SCENES[1].prepare(tmp_path / "work", SIZES[0])


def _as_link(place: Path, elsewhere: Path) -> None:
    place.rename(elsewhere)
    place.symlink_to(elsewhere)


def _as_pipe(place: Path, elsewhere: Path) -> None:
    place.rename(elsewhere)
    os.mkfifo(place)


def _as_folder(place: Path, elsewhere: Path) -> None:
    place.rename(elsewhere)
    place.mkdir()


def _named(files: Store, which: str) -> Path:
    """Return one of the paths of a store, or what is below one."""
    field, _, below = which.partition("/")
    return Path(getattr(files, field), below)


@pytest.mark.parametrize("put", [_as_link, _as_pipe, _as_folder])
@pytest.mark.parametrize("which", ["journal", "originals", "folder", "work", "work/.gitignore", "folder/.gitignore"])
@pytest.mark.parametrize("at", PLACES)
def test_no_way_leads_out_of_the_folder(path: Path, at: str, which: str, put: Callable[[Path, Path], None]) -> None:
    """A command works or refuses; it neither follows a link nor waits for the writer of a pipe."""
    ref, files = reference(path), at_place(path, at)
    place = _named(files, which)
    (path.parent / ".git").mkdir()
    if "/" in which:
        place.write_bytes(b"*\n")
    elsewhere = path.parent.parent / "elsewhere"
    put(place, elsewhere)
    target, old = everything(path.parent.parent), path.read_bytes()
    for name, act in commands(ref).items():
        with nothing_outside(path.parent), suppress(SessionCompressError):
            act(path)
        now = everything(path.parent.parent)
        assert all(now[each] == target[each] for each in now if each.startswith("elsewhere")), name
        assert now.keys() >= {each for each in target if each.startswith("elsewhere")}, name
        if which in ("journal", "folder", "work"):
            # An empty folder of ours is none that a run must keep its hands off; nor is what no store can be in.
            is_gone = put is _as_folder and which != "journal"
            is_gone |= put is _as_pipe and (at, which) == ("another machine's", "folder")
            is_new = is_gone and name == "compress"
            assert path.read_bytes() == old or is_new, name


@pytest.mark.parametrize("which", ["journal", "originals", "folder", "work"])
@pytest.mark.parametrize("at", PLACES)
def test_a_link_beside_a_session_is_refused_by_every_command(path: Path, at: str, which: str) -> None:
    """Also by those that only read: it might lead to another session's originals."""
    ref, files = reference(path), at_place(path, at)
    _as_link(_named(files, which), path.parent.parent / "elsewhere")
    before = everything(path.parent.parent)
    for name, act in commands(ref).items():
        # Who looks at no original need not mind; who deletes a file deletes the link.
        needs = name in ("verify", "show", "compress", "restore", "restore --from-markers")
        if which in ("folder", "work") or needs or (which == "journal" and not name.startswith("forget")):
            with pytest.raises(Refused):
                act(path)
        else:
            continue
        assert everything(path.parent.parent) == before, name


def _no_link(folder: Path) -> Path:
    (folder / "real.jsonl").write_bytes(built(SIZES[0], 1).bytes())
    os.link(folder / "real.jsonl", folder / NAME)
    return folder / NAME


def _made(make: Callable[[Path], object]) -> Callable[[Path], Path]:
    def made(folder: Path) -> Path:
        make(folder / NAME)
        return folder / NAME

    return made


KINDS: dict[str, Callable[[Path], Path]] = {
    "a link": _made(lambda path: path.symlink_to(write(path.parent, built(SIZES[0], 1), "real.jsonl"))),
    "a hard link": _no_link,
    "a pipe": _made(os.mkfifo),
    "a device": lambda folder: Path("/dev/null"),
    "a folder": _made(Path.mkdir),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_no_session_file_stays(tmp_path: Path, kind: Callable[[Path], Path]) -> None:
    """Every command refuses it at once, or passes it over, and changes nothing."""
    path = kind(tmp_path)
    before = everything(tmp_path)
    for command in COMMANDS:
        done = invoke(*command, path)
        assert isinstance(done.exception, SystemExit | None), (command, done.exception)
        if command in REPLACING and not path.is_dir():
            assert done.exit_code == 4, (command, done.output)
        assert everything(tmp_path) == before, command
