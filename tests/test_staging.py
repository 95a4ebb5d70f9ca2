"""What lies beside a session and the next commit: staged as it is, and never touched while a part of it is put aside."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from sessioncompress.errors import FileFailed, Refused
from sessioncompress.staging import put_aside, refuse_if_put_aside, stage
from sessioncompress.store.beside import Beside, beside
from tests.repository import Repository

NAMES = ["a.jsonl", "with a blank.jsonl", "*.jsonl", ":(top)b.jsonl", "-n.jsonl", "\u00e9\n.jsonl"]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return an empty repository, which is the working folder."""
    found = Repository(tmp_path / "work")
    monkeypatch.chdir(found.folder)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


def store(name: str, text: str = "x\n") -> Beside:
    """Write what lies beside a session."""
    files = beside(Path(name))
    files.folder.mkdir(exist_ok=True)
    for path in (files.originals, files.journal):
        path.write_text(text)
    return files


@pytest.mark.parametrize("name", NAMES)
def test_only_what_lies_beside_is_staged(repository: Repository, name: str) -> None:
    """Whatever a name means to git; once, then there is nothing to stage."""
    Path("other.jsonl").write_text("")
    (files, _) = store(name), store("other.jsonl")
    assert len(stage([files], dry_run=True)) == 2
    assert repository.staged() == set()
    assert len(stage([files], dry_run=False)) == 2
    listed = repository.git("ls-files", "-z").split("\0")
    assert set(listed) - {""} == {str(files.originals), str(files.journal)}
    assert stage([files], dry_run=True) == stage([files], dry_run=False) == []
    store(name, "y\n")
    assert len(stage([files], dry_run=False)) == 2


def test_without_a_store_git_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be none, or no repository."""
    monkeypatch.setenv("PATH", "")
    assert stage([beside(tmp_path / "a.jsonl")], dry_run=False) == []
    assert stage([], dry_run=False) == []


def test_what_git_ignores_in_a_folder_is_not_staged(repository: Repository) -> None:
    """Two branches would meet in that list with a conflict."""
    for folder in (Path(".sessioncompress"), Path("elsewhere")):
        folder.mkdir()
        (folder / ".gitignore").write_text("*.temp-*\n")
    store("a.jsonl")
    other = beside(Path("b.jsonl"), Path("elsewhere"))
    other.journal.write_text("x")
    stage([beside(Path("a.jsonl")), other], dry_run=False)
    staged = {".sessioncompress/a.jsonl.zst", ".sessioncompress/a.refs.jsonl"}
    assert repository.staged() == staged | {str(other.journal)}


def test_where_git_is_missing_or_fails_it_is_said(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the state of the sessions, and what to do."""
    files = store("a.jsonl")
    Path(".gitignore").write_text(".sessioncompress\n")
    with pytest.raises(FileFailed, match=r"ignored by one of your .gitignore files.*complete on disk.*commitOriginals"):
        stage([files], dry_run=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileFailed, match="complete on disk"):
        stage([files], dry_run=False)


def absolute(path: Path) -> str:
    """Return where a file is."""
    return str(path.absolute())


ATTRIBUTES = {
    "*.zst filter=lfs diff=lfs merge=lfs -text": "",
    "* filter=git-crypt diff=git-crypt": "",
    "* -filter": "",
    "* text\n*.zst binary": "",
    "* text\n*.zst -text": "",
    "* text=auto": "",
    "* text=auto eol=lf\n*.refs.jsonl text eol=lf": "",
    "* text=auto eol=crlf\n*.refs.jsonl -text": "",
    "*.jsonl text": "",
    "* -text eol=crlf": "",
    "* text": "*.zst -text",
    "* text eol=lf": "*.zst -text",
    "* eol=lf": "*.zst -text",
    "*.zst crlf": "*.zst -text",
    "*.zst ident": "*.zst -ident",
    "*.zst filter=up": "*.zst -filter",
    "*.zst filter": "*.zst -filter",
    "*.zst working-tree-encoding=UTF-16 filter=up": "*.zst -working-tree-encoding -filter",
    "* text=auto eol=crlf": "*.refs.jsonl -text",
    "*.jsonl text eol=crlf": "*.refs.jsonl -text",
    "*.jsonl eol=crlf ident": "*.refs.jsonl -text -ident",
    "*.jsonl filter=up": "*.refs.jsonl -filter",
}
"""Rules, and the one that the user is told to add; none where git keeps every byte."""


@pytest.mark.parametrize(("attributes", "rule"), ATTRIBUTES.items(), ids=map(repr, ATTRIBUTES))
def test_what_git_would_change_is_not_staged(repository: Repository, attributes: str, rule: str) -> None:
    """It takes a carriage return out of what it is told is a text, which no clone gets back; the rule prevents it."""
    files = store("a.jsonl")
    files.originals.write_bytes(b"\x28\xb5\x2f\xfd\0\r\n\r\n")
    Path(".gitattributes").write_text(f"{attributes}\n")
    if rule:
        with pytest.raises(FileFailed, match=f"git would change its bytes.*Add '{re.escape(rule)}'"):
            stage([files], dry_run=False)
        assert repository.staged() == set()
        Path(".gitattributes").write_text(f"{attributes}\n{rule}\n")
    assert len(stage([files], dry_run=True)) == 2


def patch(repository: Repository, home: Path, name: str) -> None:
    """Write a patch of what is not staged as pre-commit does."""
    home.mkdir(exist_ok=True)
    (home / name).write_text(repository.git("diff", "--binary"))


@pytest.mark.parametrize("name", NAMES)
def test_what_pre_commit_has_put_aside_is_known(repository: Repository, tmp_path: Path, name: str) -> None:
    """Text and bytes, by the patch of a process that is at work; of one that is over, or long ago, nothing counts."""
    files = store(name)
    other = store("untouched.jsonl")
    repository.commit()
    files.journal.write_text("more\n")
    files.originals.write_bytes(b"\0\1")
    home, now = tmp_path / "pre-commit", int(time.time())
    assert put_aside() == frozenset()
    ended = subprocess.Popen(["true"])
    ended.wait()
    for none in (
        f"patch{now}-{ended.pid}",
        f"patch{now - 7200}-{os.getpid()}",
        "patch",
        "db.db",
        f"patch{now}-{10**30}",
    ):
        patch(repository, home, none)
    assert put_aside() == frozenset()
    patch(repository, home, f"patch{now}-{os.getpid()}")
    aside = put_aside()
    assert aside == {absolute(files.journal), absolute(files.originals)}
    refuse_if_put_aside(other, aside)
    with pytest.raises(Refused, match="not staged"):
        refuse_if_put_aside(files, aside)


def test_white_space_that_the_user_forbids_does_not_matter(repository: Repository, tmp_path: Path) -> None:
    """Git itself puts the patch back for pre-commit without a look at it."""
    files = store("a.jsonl")
    repository.commit()
    files.journal.write_text("more \n")
    repository.git("config", "apply.whitespace", "error")
    patch(repository, tmp_path / "pre-commit", f"patch{int(time.time())}-{os.getpid()}")
    assert put_aside() == {absolute(files.journal)}


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_its_folder_is_found_as_it_finds_it(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """By the variable of its own, that of all caches, or in the home."""
    files = store("a.jsonl")
    repository.commit()
    files.journal.write_text("more\n")
    for name in ("PRE_COMMIT_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "there"))
    home = tmp_path / "there" / (".cache/pre-commit" if variable == "HOME" else "pre-commit")
    home.mkdir(parents=True)
    patch(repository, home, f"patch{int(time.time())}-{os.getpid()}")
    assert put_aside() == {absolute(files.journal)}
