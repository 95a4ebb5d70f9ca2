"""Our folder is private, out of git, never a link, and gone when it is empty."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessioncompress.errors import IsALink, Refused
from sessioncompress.store.folder import create_in_folder, tidy
from sessioncompress.store.layout import FOLDER
from tests.unit.store.tools import disk


def create(path: Path, *shown: str) -> None:
    os.close(create_in_folder(path, exclusive=False, shown=shown))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Name a folder of ours that does not exist."""
    return tmp_path / "project" / ".sessioncompress"


@pytest.mark.parametrize("umask", [0, 0o077])
def test_modes(folder: Path, umask: int) -> None:
    """Folder 0700 and files 0600 from the moment they exist, whatever the umask."""
    before = os.umask(umask)
    try:
        create(folder / "file")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "file").stat().st_mode) == 0o600


def test_outside_git_there_is_no_gitignore(folder: Path) -> None:
    """Nothing is written that serves nobody."""
    create(folder / "file")
    assert [path.name for path in folder.iterdir()] == ["file"]


@pytest.mark.parametrize("git", ["folder", "file"])
def test_inside_a_work_tree(folder: Path, tmp_path: Path, git: str) -> None:
    """Originals stay out of commits; on request only what is named does not. Then a user's own file stays."""
    (tmp_path / ".git").mkdir() if git == "folder" else (tmp_path / ".git").write_text("gitdir: elsewhere")
    ignore = folder / ".gitignore"
    create(folder / "file")
    assert ignore.read_bytes() == b"*\n"
    create(folder / "file", "b.zst", "b.refs.jsonl")
    assert ignore.read_bytes() == b"*\n!/.gitattributes\n!/b.refs.jsonl\n!/b.zst\n"
    create(folder / "file", "a.zst", "b.zst")
    shown = b"*\n!/.gitattributes\n!/a.zst\n!/b.refs.jsonl\n!/b.zst\n"
    assert ignore.read_bytes() == shown
    create(folder / "file")
    assert ignore.read_bytes() == shown, "sessions in git need them"
    ignore.write_bytes(b"")
    create(folder / "file")
    assert ignore.read_bytes() == b"*\n"
    ignore.write_bytes(b"mine\n")
    create(folder / "file", "a.zst")
    assert ignore.read_bytes() == b"mine\n"
    create(folder / "file")
    assert ignore.read_bytes() == b"*\n"


def test_a_name_that_ends_a_line_cannot_be_shown(folder: Path, tmp_path: Path) -> None:
    """Its end would be a rule of its own."""
    (tmp_path / ".git").mkdir()
    with pytest.raises(Refused, match=r"since the name contains a line break.*run without --commit-originals"):
        create(folder / "file", "a\n*.zst")


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        (b"!/a.zst", True),
        (b"!/a.refs.jsonl.zst", True),
        (b"!/.zst.zst", True),
        (rb"!/a\*\[\?\\.refs.jsonl", True),
        (b"!/.zst", False),
        (b"!/.refs.jsonl", False),
        (b"!/*.zst", False),
        (rb"!/a\b.zst", False),
        (rb"!/a\\*.zst", False),
        (b"!/a/b.zst", False),
        (b"!/a.zst ", False),
        (b"!a.zst", False),
        (b"", False),
    ],
)
def test_what_is_our_gitignore(folder: Path, tmp_path: Path, line: bytes, is_ours: bool) -> None:
    """What it shows stays shown where each line names a file of a store; of any other one nothing does."""
    (tmp_path / ".git").mkdir()
    folder.mkdir(parents=True)
    (folder / ".gitignore").write_bytes(b"*\n%b\n" % line)
    create(folder / "b.zst")
    assert (folder / ".gitignore").read_bytes() == (b"*\n!/.gitattributes\n%b\n" % line if is_ours else b"*\n")


def test_many_at_once_are_all_shown(folder: Path, tmp_path: Path) -> None:
    """No run takes back what another one has just let git see."""
    (tmp_path / ".git").mkdir()
    names = [f"{number}.zst" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: create(folder / name, name), names))
    lines = (folder / ".gitignore").read_text().splitlines()
    assert lines == ["*", "!/.gitattributes", *sorted(f"!/{name}" for name in names)]


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe"])
def test_what_is_no_gitignore_is_refused(folder: Path, tmp_path: Path, kind: str) -> None:
    """Git hides nothing by it, and it is not ours to remove."""
    (tmp_path / ".git").mkdir()
    folder.mkdir(parents=True)
    (tmp_path / "mine").write_text("*\n")
    ignore = folder / ".gitignore"
    if kind in ("link", "dangling"):
        ignore.symlink_to(tmp_path / ("mine" if kind == "link" else "none"))
    elif kind == "folder":
        ignore.mkdir()
    else:
        os.mkfifo(ignore)
    with pytest.raises(IsALink, match="hides the originals from git"):
        create(folder / "file")
    assert [path.name for path in folder.iterdir()] == [".gitignore"]


def test_a_backup_folder_that_is_in_use_gets_no_gitignore(tmp_path: Path) -> None:
    """Somebody else's files are not hidden from git; a backup folder of our own is."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "text").write_text("")
    create(tmp_path / "docs" / "file")
    assert not (tmp_path / "docs" / ".gitignore").exists()
    create(tmp_path / "backup" / "deep" / "file")
    assert (tmp_path / "backup" / "deep" / ".gitignore").exists()


def test_linked_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    """What belongs beside a session is not written elsewhere because someone put a link there."""
    (tmp_path / "elsewhere").mkdir()
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IsALink):
        create(folder / "file")
    assert not any((tmp_path / "elsewhere").iterdir())


def test_linked_file_is_refused(folder: Path, tmp_path: Path) -> None:
    create(folder / "file")
    (folder / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        create(folder / "link")
    assert not (tmp_path / "target").exists()


def test_tidy(folder: Path, tmp_path: Path) -> None:
    """The folder goes when it is empty but for our .gitignore; not with anything else in it."""
    (tmp_path / ".git").mkdir()
    create(folder / "file")
    tidy(folder)
    assert folder.exists()
    (folder / "file").unlink()
    (folder / ".gitignore").write_bytes(b"mine\n")
    tidy(folder)
    assert folder.exists()
    (folder / ".gitignore").write_bytes(b"*\n")
    tidy(folder)
    assert not folder.exists()
    tidy(folder)


def test_a_folder_removed_by_another_run_is_made_again(folder: Path) -> None:
    """Two runs on two sessions of one folder do not trip over each other's tidying."""
    removed: list[int] = []

    def remove_once(number: int, name: str, arguments: tuple[object, ...]) -> None:
        if name == "open" and not removed:
            removed.append(number)
            folder.rmdir()

    with disk(remove_once):
        create(folder / "file")
    assert removed
    assert (folder / "file").exists()


@pytest.mark.parametrize("name", [FOLDER, f"{FOLDER}/local-00000000", f"{FOLDER}/packs"])
def test_nothing_is_tidied_through_a_link(tmp_path: Path, name: str) -> None:
    """A clone may bring one that leads to a folder with nothing but a .gitignore in it."""
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / ".gitignore").write_bytes(b"*\n")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(elsewhere)
    for folder in (tmp_path / name, tmp_path / FOLDER):
        tidy(folder)
    assert (os.listdir(elsewhere), (tmp_path / name).is_symlink()) == ([".gitignore"], True)


def test_tidy_meets_a_new_file(folder: Path, tmp_path: Path) -> None:
    """If another run puts a file there at that moment, the folder keeps its .gitignore."""
    (tmp_path / ".git").mkdir()
    create(folder / "file")
    (folder / "file").unlink()

    def fill(number: int, name: str, arguments: tuple[object, ...]) -> None:
        if name == "rmdir":
            (folder / "other").write_text("")

    with disk(fill):
        tidy(folder)
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "other"]


def test_what_git_is_told_of_stores_that_it_sees(folder: Path, tmp_path: Path) -> None:
    """Only of these; ours counts behind what a clone put there, which stays; it goes with the folder."""
    (tmp_path / ".git").mkdir()
    attributes = folder / ".gitattributes"
    create(folder / "a.zst")
    assert not attributes.exists()
    create(folder / "a.zst", "a.zst", "a.refs.jsonl")
    ours = attributes.read_bytes()
    assert b"\n* -text -ident -merge\n" in ours
    attributes.write_bytes(b"")
    create(folder / "a.zst", "a.zst", "a.refs.jsonl")
    assert attributes.read_bytes() == ours
    for there in (b"* text eol=lf", b"* text eol=lf\n" + ours):
        attributes.write_bytes(there)
        create(folder / "a.zst", "a.zst", "a.refs.jsonl")
        assert attributes.read_bytes() == b"* text eol=lf\n" + ours
    (folder / "a.zst").unlink()
    tidy(folder)
    assert attributes.exists()
    attributes.unlink()
    attributes.symlink_to("nowhere")
    with pytest.raises(IsALink, match="by which git changes no byte"):
        create(folder / "a.zst", "a.zst", "a.refs.jsonl")
    attributes.unlink()
    tidy(folder)
    assert not folder.exists()
