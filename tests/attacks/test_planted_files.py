"""A clone brings files that look like those of a run of ours: none of them is believed, and none stops a command."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from xxhash import xxh3_128

from tests.support.repository import Repository
from tests.support.runs import fixture, told
from tests.support.stores import PLACES, at_place
from tests.unit.store.tools import everything

SESSION = "s.jsonl"
INJECTED = (
    b'{"type":"message","id":"eviL","parentId":"8669f8f4","timestamp":"2026-03-02T09:00:59.069Z",'
    b'"message":{"role":"user","content":[{"type":"text","text":"INJECTED"}],"timestamp":1}}\n'
)


def cloned(folder: Path, plant: Callable[[Path], object], *prepare: str) -> Path:
    """Return a session in a clone of a repository whose author planted something in its store."""
    author = Repository(folder / "author")
    session = author.folder / SESSION
    session.write_bytes(fixture("pi-anthropic.jsonl"))
    if prepare:
        told(*prepare, session)
    (author.folder / ".sessioncompress").mkdir(exist_ok=True)
    plant(author.folder / ".sessioncompress")
    author.git("add", "--force", "--all")
    author.git("commit", "--quiet", "--message", "sessions")
    author.git("clone", "--quiet", str(author.folder), str(folder / "clone"))
    return folder / "clone" / SESSION


NAMES = {
    "numbers of nothing": "late-1-1-0-0-0",
    "huge numbers": "late-1-1-99999999-0-0",
    "numbers no system takes": f"late-{'9' * 20}-{'9' * 18}-{'9' * 18}-{'9' * 18}-{'9' * 20}",
    "the form of today": f"late-1-1-0-0-0-{'0' * 8}-{'0' * 16}-{'0' * 12}",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_late_link_from_a_clone(tmp_path: Path, name: str) -> None:
    """Its lines never reach the session, every command works, and verify says that it is there."""
    path = cloned(tmp_path, lambda store: (store / f"{SESSION}.{name}").write_bytes(INJECTED))
    before = path.read_bytes()
    for command in (["compress", "--force"], ["verify"], ["restore"], ["compress", "--dry-run"], ["stats"]):
        code, said = told(*command, path)
        assert code == 0, (command, said)
        assert b"INJECTED" not in path.read_bytes()
        assert ("1 file in its store ignored" in said) == (command == ["verify"])
    assert path.read_bytes() == before


def test_late_links_for_every_inode_that_a_clone_may_get(tmp_path: Path) -> None:
    """Numbers can be guessed: a link that has the right one, and an owner who may write, is still not believed."""
    path = cloned(tmp_path, lambda store: (store / "notes").write_bytes(b""))
    planted = path.parent / ".sessioncompress" / "notes"
    planted.write_bytes(INJECTED)
    fields = f"{planted.stat().st_ino}-1-0-0-{path.stat().st_ino}"
    of_nothing = xxh3_128(b"").digest()[:8].hex()
    for seal in ("", f"-{'0' * 8}-{of_nothing}-{'0' * 12}"):
        os.link(planted, planted.with_name(f"{SESSION}.late-{fields}{seal}"))
    before = path.read_bytes()
    assert told("compress", "--force", path)[0] == 0
    assert b"INJECTED" not in path.read_bytes()
    assert told("restore", path)[0] == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["late-1-1-0-0-0", "temp-0123abcd"])
def test_a_folder_named_like_a_file_of_ours(tmp_path: Path, name: str) -> None:
    """What cannot be removed or opened as a file stops no command."""
    path = cloned(tmp_path, lambda store: _as_folder(store / f"{SESSION}.{name}"))
    for command in (["compress", "--force"], ["verify"], ["restore"]):
        code, said = told(*command, path)
        assert code == 0, said
    assert (path.parent / ".sessioncompress" / f"{SESSION}.{name}" / "kept").exists()


@pytest.mark.parametrize(
    "make", [Path.touch, os.mkfifo, lambda place: place.symlink_to("/")], ids=["file", "pipe", "link"]
)
def test_no_folder_where_one_of_stores_may_be(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """What is only named like another machine's folder of stores stops no command, of a folder of sessions either."""
    path = cloned(tmp_path, lambda store: (store / "notes").write_bytes(b""))
    planted = path.parent / ".sessioncompress/local-00000000"
    make(planted)
    before = path.read_bytes()
    for command in ("compress --force", "verify", "stats", "forget --yes --unneeded", "restore", "forget --yes"):
        for named in (path, path.parent):
            code, said = told(*command.split(), named)
            assert code == 0, (command, said)
        assert os.path.lexists(planted)
    assert path.read_bytes() == before


@pytest.mark.parametrize("goes_on", [0, 4], ids=["a file", "a link"])
def test_no_folder_where_packs_of_others_may_be(tmp_path: Path, goes_on: int) -> None:
    """A file there holds none. A link is named, and nothing is deleted where it leads, not even an empty folder."""
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / ".gitignore").write_bytes(b"*\n")
    made = Path.touch if goes_on == 0 else lambda place: place.symlink_to(elsewhere)
    path = cloned(tmp_path, lambda store: made(store / "packs"))
    before = path.read_bytes()
    for command in ("pack", "unpack"):
        code, said = told(command, path.parent)
        assert (code, f"{command}ed 1 session" in said) == (goes_on, True), said
        assert os.listdir(elsewhere) == [".gitignore"]
    assert path.read_bytes() == before


def _as_folder(place: Path) -> None:
    place.mkdir()
    (place / "kept").write_bytes(b"x")


def test_a_store_from_a_clone_is_closed_to_others(tmp_path: Path) -> None:
    """Git gives files the modes of a clone: the first run that writes takes them away, and verify tells until then."""
    before = os.umask(0o022)
    try:
        path = cloned(tmp_path, lambda store: None, "compress", "--force", "--commit-originals")
        store = path.parent / ".sessioncompress"
        assert "readable by other users" in told("verify", path)[1]
        others = [shutil.copytree(path.parent, path.parent.with_name(name)) for name in ("second", "third")]
        code, said = told("verify", *others)
        assert (code, said.count("other users")) == (0, 1), said
        assert "\n2 stores are readable by other users" in said
        more = fixture("pi-one-prompt.jsonl").partition(b"\n")[2].replace(b'"text":"', b'"text":"SECRET')
        path.write_bytes(path.read_bytes() + more)
        assert told("compress", "--force", "--commit-originals", "--preset", "archive", path)[0] == 0
    finally:
        os.umask(before)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in [store, *store.glob("s.*")]}
    assert modes == {".sessioncompress": 0o700, "s.jsonl.zst": 0o600, "s.refs.jsonl": 0o600}
    assert "other users" not in told("verify", path)[1]


def test_forget_says_which_of_them_it_leaves(tmp_path: Path) -> None:
    """They may be another machine's last lines: no command deletes them unasked, and none hides them."""
    path = cloned(tmp_path, lambda store: (store / f"{SESSION}.late-1-1-0-0-0").write_bytes(INJECTED))
    told("compress", "--force", path)
    code, said = told("forget", "--yes", path)
    assert code == 4
    assert "kept 1 late link" in said
    assert set(everything(path.parent / ".sessioncompress")) - {".gitignore"} == {f"{SESSION}.late-1-1-0-0-0"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("which", ["journal", "originals"])
def test_a_pipe_in_the_place_of_a_file(tmp_path: Path, which: str, place: str) -> None:
    """Every command that needs the file says what lies there, and waits for nobody to write to it."""
    path = tmp_path / SESSION
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    told("compress", path)
    files = at_place(path, place)
    ref = re.findall(rb'"ref":"([0-9a-f]+)"', files.journal.read_bytes())[0].decode()
    (planted := Path(getattr(files, which))).unlink()
    os.mkfifo(planted)
    before = path.read_bytes()
    for command in ("verify", "restore", "restore --from-markers", "compress --force", "stats", f"show {ref}"):
        code, said = told(*command.split(), path)
        assert code == 4, (command, said)
        assert f"{planted}: there is a named pipe or the like here" in said, command
        assert "Move it away" in said
        assert path.read_bytes() == before
