"""Originals hold all that a session held: git sees those alone that a run was told to let it see."""

from __future__ import annotations

import os
import re
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sessioncompress.cli.main import main
from tests.support.repository import Repository
from tests.support.runs import fixture

ATTRIBUTES = "sessions/.sessioncompress/.gitattributes"
STORE = {ATTRIBUTES, "sessions/.sessioncompress/s.jsonl.zst", "sessions/.sessioncompress/s.refs.jsonl"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with a session that is not committed."""
    found = Repository(tmp_path / "work", {"HOME": str(tmp_path)})
    (found.folder / "sessions").mkdir()
    put(found, "s.jsonl")
    return found


def put(repository: Repository, name: str) -> None:
    (repository.folder / "sessions" / name).write_bytes(fixture("pi-anthropic.jsonl"))


def command(repository: Repository, *arguments: str) -> Result:
    with chdir(repository.folder / "sessions"):
        return CliRunner().invoke(main, arguments, env=repository.environment)


def sees(repository: Repository) -> set[str]:
    asked = ("ls-files", "-z", "--others", "--cached", "--exclude-standard", "--", ":(glob)**/.sessioncompress/**")
    return {name for name in repository.git(*asked).split("\0") if name}


@pytest.mark.parametrize("name", ["compress", "pre-commit"])
def test_a_repository_that_the_environment_names_sees_none(repository: Repository, name: str) -> None:
    """As that of dotfiles: no `.git` lies around the session."""
    kept = repository.folder.parent / "kept.git"
    (repository.folder / ".git").rename(kept)
    repository.environment |= {"GIT_DIR": str(kept), "GIT_WORK_TREE": str(repository.folder)}
    assert command(repository, name, "s.jsonl").exit_code in (0, 1)
    assert len(list(repository.folder.glob("sessions/.sessioncompress/**/*.zst"))) == 1
    assert sees(repository) == set()


@pytest.mark.parametrize("old", ["*.temp-*\n*.late-*\n", "*.temp-*\n*.late-*\n*.missing\n"])
def test_a_clone_shows_no_session_that_comes_later(repository: Repository, old: str) -> None:
    """Earlier versions wrote a file of ours that let git see all: a clone may bring it."""
    ignore = repository.folder / "sessions/.sessioncompress/.gitignore"
    ignore.parent.mkdir()
    ignore.write_text(old)
    # Else our folder would be empty, and be made anew.
    (ignore.parent / "x").touch()
    repository.commit()
    assert command(repository, "compress", "--force", "s.jsonl").exit_code == 0
    assert sees(repository) == {f"sessions/.sessioncompress/{name}" for name in (".gitignore", "x")}, "of the clone"
    assert ignore.read_text() == "*\n"


def test_a_clone_shows_no_session_by_its_name(repository: Repository) -> None:
    """A file of our form may come with a clone: no run of this user wrote its lines."""
    ignore = repository.folder / "sessions/.sessioncompress/.gitignore"
    ignore.parent.mkdir()
    ignore.write_text("*\n!/s.jsonl.zst\n!/s.refs.jsonl\n")
    (ignore.parent / "x").touch()
    assert command(repository, "compress", "--force", "s.jsonl").exit_code == 0
    assert sees(repository) == set()
    assert command(repository, "compress", "--force", "--commit-originals", "s.jsonl").exit_code == 0
    assert sees(repository) == STORE


def test_a_session_that_was_forgotten_is_hidden_when_it_is_compressed_again(repository: Repository) -> None:
    """Where the folder stays, since another session has a store in it."""
    put(repository, "t.jsonl")
    assert command(repository, "compress", "--commit-originals", ".").exit_code == 0
    assert command(repository, "restore", "s.jsonl").exit_code == 0
    assert command(repository, "forget", "--yes", "s.jsonl").exit_code == 0
    assert command(repository, "compress", "s.jsonl").exit_code == 0
    store = {f"sessions/.sessioncompress/t{ending}" for ending in (".jsonl.zst", ".refs.jsonl")}
    assert sees(repository) == {ATTRIBUTES, *store}


def test_a_backup_folder_of_a_clone_is_hidden_too(repository: Repository) -> None:
    """What git has of it stays in git; our `.gitignore` does not come with it."""
    put(repository, "t.jsonl")
    kept = ("--backup-dir", "../kept")
    assert command(repository, "compress", *kept, "--commit-originals", "s.jsonl").exit_code == 0
    repository.commit()
    clone = repository.clone(repository.folder.parent / "clone")
    assert not (clone.folder / "kept/.gitignore").exists()
    assert command(clone, "compress", *kept, "t.jsonl").exit_code == 0
    clone.git("add", "--all")
    assert clone.staged() == {"sessions/t.jsonl"}


def test_the_hook_says_which_session_is_hidden(repository: Repository) -> None:
    """Also where another one in the folder is shown."""
    put(repository, "t.jsonl")
    assert command(repository, "compress", "--commit-originals", "t.jsonl").exit_code == 0
    assert command(repository, "compress", "s.jsonl").exit_code == 0
    checked = command(repository, "pre-commit", "--check", "--commit-originals", "s.jsonl")
    assert checked.exit_code == 1
    assert "s.jsonl: its originals are hidden from git in .sessioncompress/local-" in checked.stdout


@pytest.mark.parametrize("name", ["compress", "pre-commit"])
def test_a_session_is_shown_alone(repository: Repository, name: str) -> None:
    """The store of another one in the folder stays hidden, before and after."""
    put(repository, "private-1.jsonl")
    put(repository, "private-2.jsonl")
    assert command(repository, "compress", "private-1.jsonl").exit_code == 0
    assert command(repository, name, "--commit-originals", "s.jsonl").exit_code in (0, 1)
    assert sees(repository) == STORE
    assert command(repository, "compress", "private-2.jsonl").exit_code == 0
    assert command(repository, "restore", "private-1.jsonl").exit_code == 0
    assert sees(repository) == STORE
    assert command(repository, "compress", "--commit-originals", "private-2.jsonl").exit_code == 0
    assert len(sees(repository)) == 5


NAMES = ("a b.jsonl", "#.jsonl", "!a.jsonl", "*.jsonl", "?.jsonl", "[s].jsonl", "a\\.jsonl", "\\*.jsonl", " ")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_shows_no_other(repository: Repository, name: str) -> None:
    put(repository, name)
    assert command(repository, "compress", ".").exit_code == 0
    assert sees(repository) == set()
    for _ in range(2):
        assert command(repository, "compress", "--force", "--commit-originals", "--", name).exit_code == 0
        originals = {each for each in sees(repository) if each.endswith(".zst")}
        assert originals == {f"sessions/.sessioncompress/{name}.zst"}
        assert len(sees(repository)) == 3


def test_a_name_that_ends_a_line_is_refused(repository: Repository) -> None:
    """What follows would be a rule of its own, here one that shows all."""
    name = "a\n!*.jsonl"
    put(repository, name)
    for stored in (False, True):
        refused = command(repository, "compress", "--commit-originals", "--", name)
        assert refused.exit_code == 4
        assert "since the name contains a line break. The session was not changed. Rename the session" in refused.stderr
        assert bool(list(repository.folder.glob("sessions/.sessioncompress/**/*.zst"))) == stored
        assert command(repository, "compress", ".").exit_code == 0
        assert sees(repository) == set()


@pytest.mark.parametrize("rule", ["*.zst filter=up", "*.jsonl text eol=crlf", "*.jsonl ident"])
def test_git_takes_nothing_that_a_rule_of_the_clone_changes(repository: Repository, rule: str) -> None:
    """Such as a filter that the user has for something else: a clone of the commit could not be restored."""
    (repository.folder / ".gitattributes").write_text(f"{rule}\n")
    repository.git("add", "--all")
    result = command(repository, "pre-commit", "--commit-originals", "s.jsonl")
    assert result.exit_code == 3
    assert "makes git change its bytes" in result.stderr
    assert STORE.isdisjoint(repository.staged())


CHANGED = {
    "carriage returns are put in": ("*.jsonl text eol=crlf", b"", b""),
    "carriage returns are taken out": ("*.jsonl text", b"\n", b"\r\n"),
    "carriage returns where git decides": ("* text=auto", b"\n", b"\r\n"),
    "a word is cut": ("*.jsonl ident", b"# tidewatch", b"# $Id: of another program$"),
    "a filter": ("*.jsonl filter=up", b"", b""),
    "all at once": ("* text eol=crlf ident", b"", b""),
}
"""A rule, and what a session has instead of what."""


@pytest.mark.parametrize(("rule", "old", "new"), CHANGED.values(), ids=CHANGED)
def test_with_the_rules_that_are_told_a_clone_can_be_restored(
    repository: Repository, rule: str, old: bytes, new: bytes
) -> None:
    """All are told at once, and what git had of the session before is staged anew."""
    session, attributes = repository.folder / "sessions/s.jsonl", repository.folder / ".gitattributes"
    original = session.read_bytes().replace(old, new) if old else session.read_bytes()
    session.write_bytes(original)
    repository.git("config", "filter.up.clean", "tr a-z A-Z")
    assert command(repository, "compress", "--commit-originals", "s.jsonl").exit_code == 0
    # Else git would look at the session again by itself.
    os.utime(session, (10**9, 10**9))
    attributes.write_text(f"{rule}\n")
    repository.git("add", "--force", "--all")
    refused = command(repository, "pre-commit", "--commit-originals", "s.jsonl")
    assert refused.exit_code == 3
    assert "at the end of the .gitattributes nearest to the file" in refused.stderr
    rules = re.findall(r"'(\*[^']*)'", refused.stderr)
    attributes.write_text("\n".join([rule, *rules, ""]))
    repository.git("add", attributes)
    repository.git("add", "--renormalize", "sessions")
    assert command(repository, "pre-commit", "--commit-originals", "s.jsonl").exit_code == 0
    repository.git("commit", "--quiet", "--message", "a turn")
    clone = repository.clone(repository.folder.parent / "clone")
    assert command(clone, "verify", "s.jsonl").exit_code == 0
    assert command(clone, "restore", "s.jsonl").exit_code == 0
    assert (clone.folder / "sessions/s.jsonl").read_bytes() == original


def test_no_rule_that_a_clone_has_in_our_folder_counts(repository: Repository) -> None:
    """Ours stands behind it: git changes no byte of what is committed there."""
    attributes = repository.folder / "sessions/.sessioncompress/.gitattributes"
    attributes.parent.mkdir()
    attributes.write_text("*.zst text eol=lf ident\n*.jsonl eol=crlf")
    repository.git("add", "--force", attributes)
    assert command(repository, "compress", "--commit-originals", "s.jsonl").exit_code == 0
    repository.commit()
    clone = repository.clone(repository.folder.parent / "clone")
    assert command(clone, "restore", "s.jsonl").exit_code == 0
    assert (clone.folder / "sessions/s.jsonl").read_bytes() == fixture("pi-anthropic.jsonl")


def test_two_branches_meet_without_a_conflict(repository: Repository) -> None:
    """Each compressed a session of its own, with originals for git to see; both can be restored in the merge."""
    put(repository, "t.jsonl")
    repository.commit()
    for branch, name in (("one", "s.jsonl"), ("two", "t.jsonl")):
        repository.git("checkout", "--quiet", "-b", branch, "main")
        assert command(repository, "compress", "--commit-originals", name).exit_code == 0
        repository.commit()
    repository.git("merge", "--quiet", "--no-edit", "one")
    clone = repository.clone(repository.folder.parent / "clone")
    for name in ("s.jsonl", "t.jsonl"):
        assert command(clone, "restore", name).exit_code == 0
        assert (clone.folder / "sessions" / name).read_bytes() == fixture("pi-anthropic.jsonl")
