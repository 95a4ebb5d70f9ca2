"""The names of files as a summary shows them."""

from __future__ import annotations

import pytest

from sessioncompress.checkpoints import paths


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("./src/a.py", "src/a.py"),
        ("/w/a.py:10-20", "/w/a.py"),
        ("/w/a.py:7", "/w/a.py"),
        ("D:\\w\\a.py", "D:/w/a.py"),
        ("a\\b.py", "a\\b.py"),
        ("/w/skills/", "/w/skills"),
        ("/", "/"),
        ("a\nb.py", "a b.py"),
        ("", ""),
    ],
)
def test_a_path_is_remembered_in_one_way(path: str, key: str) -> None:
    """Without the lines that were read of it."""
    assert paths.Paths().key(path) == key


@pytest.mark.parametrize(
    ("seen", "root"),
    [
        (["/w/harbour/a.py", "/w/harbour/src/b.py"], "/w/harbour"),
        (["/w/harbour/src/a.py", "/w/harbour/src/b.py", "/etc/x"], "/w/harbour/src"),
        (["/w/harbour/a.py", "/v/quay/b.py", "/u/pier/c.py"], ""),
        (["/w/harbour/a.py", "b.py", "c.py"], ""),
        (["D:\\harbour\\a.py", "D:/harbour/b/c.py"], "D:/harbour"),
        (["/w/x/a.py"], ""),
        (["memory://notes/a.md"], ""),
        ([], ""),
    ],
)
def test_the_root_is_where_most_files_are(seen: list[str], root: str) -> None:
    """And there is none where they are all over the place."""
    found = paths.Paths()
    for path in seen:
        found.key(path)
    assert found.root() == root


@pytest.mark.parametrize(
    ("path", "root", "shown"),
    [
        ("/w/harbour/a.py", "/w/harbour", "a.py"),
        ("/w/harbours/a.py", "/w/harbour", "/w/harbours/a.py"),
        ("a.py", "/w/harbour", "./a.py"),
        ("a.py", "", "a.py"),
        ("/d/harbour/a.py", "D:/harbour", "a.py"),
        ("https://harbour/a", "/w/harbour", "https://harbour/a"),
    ],
)
def test_a_path_is_shown_below_the_root(path: str, root: str, shown: str) -> None:
    """And one of the working folder as such."""
    assert paths.below(path, root) == shown


@pytest.mark.parametrize(
    ("folder", "path", "joined"),
    [("/w", "a.py", "/w/a.py"), ("/w/", "./a.py", "/w/a.py"), ("/w", "/a.py", "/a.py"), ("", "a.py", "a.py")],
)
def test_a_path_is_told_from_a_folder(folder: str, path: str, joined: str) -> None:
    """One that is whole is not."""
    assert paths.joined(folder, path) == joined
