"""The commit checked out around a session, read from git's own files; empty wherever that is not plain."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.checkout import head

ID = "0123456789abcdef0123456789abcdef01234567"


def plain(folder: Path, content: str = "ref: refs/heads/main\n") -> Path:
    """Make what git makes, with one commit on main."""
    git = folder / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text(content)
    (git / "refs" / "heads" / "main").write_text(ID + "\n")
    return git


def packed(folder: Path) -> None:
    """Put the branch among the packed ones."""
    git = plain(folder)
    (git / "refs" / "heads" / "main").unlink()
    (git / "packed-refs").write_text(
        f"# pack-refs with: peeled\n{'f' * 40} refs/heads/notmain\n{ID} refs/heads/main\n^{'e' * 40}\n"
    )


def linked(folder: Path) -> None:
    """Make a work tree whose git folder lies elsewhere."""
    main = plain(folder / "main")
    own = main / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    (folder / ".git").write_text(f"gitdir: {own}\n")


FOUND: list[tuple[str, Callable[[Path], object]]] = [
    ("a branch", plain),
    ("detached", lambda folder: plain(folder, ID + "\n")),
    ("a packed branch", packed),
    ("a linked work tree", linked),
    ("SHA-256", lambda folder: (plain(folder).parent / ".git" / "refs" / "heads" / "main").write_text("ab" * 32)),
]

NOT_FOUND: list[tuple[str, Callable[[Path], object]]] = [
    ("a branch without a commit", lambda folder: (plain(folder) / "refs" / "heads" / "main").unlink()),
    ("an empty .git", lambda folder: (folder / ".git").mkdir()),
    ("a .git that is no folder and names none", lambda folder: (folder / ".git").write_text("nonsense")),
    ("a HEAD that is no id", lambda folder: plain(folder, "hello\n")),
    ("a HEAD that begins like an id", lambda folder: plain(folder, ID + " and more\n")),
    ("a HEAD that is no text", lambda folder: (plain(folder) / "HEAD").write_bytes(b"ref: \xff\xfe\n")),
    ("a branch file that is no id", lambda folder: (plain(folder) / "refs" / "heads" / "main").write_text("hello\n")),
    ("a HEAD that names a file elsewhere", lambda folder: plain(folder, "ref: ../secret\n")),
    ("a HEAD that names an absolute file", lambda folder: plain(folder, f"ref: {folder / 'secret'}\n")),
    ("a HEAD with NUL", lambda folder: plain(folder, "ref: a\0b\n")),
]


@pytest.mark.parametrize("make", [case[1] for case in FOUND], ids=[case[0] for case in FOUND])
def test_the_commit_is_found_from_any_folder_below(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """Without running git."""
    make(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert head(tmp_path / "a" / "b") in (ID, "ab" * 32)
    assert head(tmp_path) == head(tmp_path / "a" / "b")


@pytest.mark.parametrize("make", [case[1] for case in NOT_FOUND], ids=[case[0] for case in NOT_FOUND])
def test_what_is_not_plain_is_empty(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """A run never fails for it, and nothing that is no commit gets into the journal."""
    (tmp_path / "secret").write_text("password\n")
    make(tmp_path)
    assert head(tmp_path) == ""


def test_git_agrees(tmp_path: Path) -> None:
    """In a repository that git itself made, loose and packed."""

    def git(*words: str) -> str:
        said = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        return said.stdout.strip()

    git("init", "-q")
    assert head(tmp_path) == ""
    git("commit", "-q", "--allow-empty", "-m", "x")
    made = git("rev-parse", "HEAD")
    assert head(tmp_path) == made
    git("pack-refs", "--all")
    assert head(tmp_path) == made
    git("worktree", "add", "-q", "other")
    assert head(tmp_path / "other") == made
