"""Where git has no say, nothing is hidden by it; the rules that hide are tested with the whole action."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hidden import hidden

from tests.faults.tools import need
from tests.support.repository import Repository
from tests.support.runs import fixture


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository that hides all originals; it is the working folder."""
    found = Repository(tmp_path / "work")
    monkeypatch.chdir(found.folder)
    Path("sessions").mkdir()
    Path("sessions/a.jsonl").write_bytes(fixture("pi-anthropic.jsonl"))
    Path(".gitignore").write_text(".sessioncompress\n")
    return found


def owned_by_another(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a git before all others that takes every repository for another user's."""
    program = repository.folder.parent / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {need("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_each_is_named_with_its_rule(repository: Repository) -> None:
    """Also where the session itself is named, not its folder."""
    files = ("a.jsonl.zst", "a.refs.jsonl")
    said = [f"sessions/.sessioncompress/{name} (.gitignore:1: .sessioncompress)" for name in files]
    assert hidden(["sessions"], "", "low-cost") == said
    assert hidden(["sessions/a.jsonl", "sessions"], "", "") == said


def test_a_journal_alone_is_named(repository: Repository) -> None:
    """Without it the originals bring nothing back."""
    Path(".gitignore").write_text("*.refs.jsonl\n")
    assert hidden(["sessions"], "", "") == ["sessions/.sessioncompress/a.refs.jsonl (.gitignore:1: *.refs.jsonl)"]


def test_each_is_judged_by_its_own_repository(repository: Repository, tmp_path: Path) -> None:
    """One outside of all, or in another, hides no later one; what ignores a nested repository is not in its commits."""
    outside = tmp_path / "outside" / "a.jsonl"
    outside.parent.mkdir()
    outside.write_bytes(b"{}\n")
    assert len(hidden([str(outside), "sessions"], "", "")) == 2
    Path(".gitignore").write_text("state\n")
    state = Repository(Path("state").absolute()).folder / "a.jsonl"
    state.write_bytes(fixture("pi-anthropic.jsonl"))
    assert hidden(["state"], "", "") == []
    (state.parent / ".gitignore").write_text("*.zst\n")
    assert hidden(["state"], "", "") == ["state/.sessioncompress/a.jsonl.zst (.gitignore:1: *.zst)"]


def test_originals_that_git_would_change_are_named(repository: Repository) -> None:
    """Those of the session's own repository, by its own attributes."""
    Path(".gitignore").unlink()
    Path(".gitattributes").write_text("* text eol=lf\n")
    (said,) = hidden(["sessions"], "", "")
    assert said.startswith("sessions/.sessioncompress/a.jsonl.zst (.gitattributes")
    Path(".gitattributes").write_text("* text=auto\n")
    assert hidden(["sessions"], "", "") == []


def test_sessions_that_git_would_change_are_named(repository: Repository) -> None:
    """Which have carriage returns, or get some; of other files with such names nothing is said."""
    Path(".gitignore").unlink()
    Path("sessions/table.jsonl").write_bytes(b'{"level": 1}\r\n' * 20)
    Path(".gitattributes").write_text("*.jsonl text\n")
    assert hidden(["sessions"], "", "") == []
    Path("sessions/a.jsonl").write_bytes(fixture("pi-anthropic.jsonl").replace(b"\n", b"\r\n"))
    (said,) = hidden(["sessions"], "", "")
    assert said.startswith("sessions/a.jsonl (.gitattributes")
    assert "add '*.jsonl -text' at the end of the one nearest to it" in said
    Path(".gitattributes").write_text("*.jsonl text\n*.jsonl -text\n")
    assert hidden(["sessions"], "", "") == []


def test_a_repository_of_another_user_is_asked_too(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a job's container, where git does nothing else until it is told to trust it: the job's checkout alone."""
    owned_by_another(repository, monkeypatch)
    (said,) = hidden(["sessions"], "", "")
    assert said.startswith(f"{repository.folder} (git failed: fatal: detected dubious ownership")
    monkeypatch.setenv("GITHUB_WORKSPACE", os.fspath(repository.folder))
    assert len(hidden(["sessions"], "", "")) == 2
    Path(".gitattributes").write_text("* text\n")
    assert len(hidden(["sessions"], "", "")) == 3


def test_a_folder_outside_of_the_work_tree_is_its_users_business(repository: Repository, tmp_path: Path) -> None:
    """It may be meant to be outside of the commit, such as a cached one; through a link, or in another repository."""
    Path("linked").symlink_to(tmp_path / "cache")
    Repository(repository.folder / "other")
    for folder in (tmp_path / "cache", "../../cache", "../linked", "../linked/below", "../other/kept"):
        Path("policy.json").write_text(f'{{"session": {{"backupDir": "{folder}"}}}}')
        assert hidden(["sessions"], "policy.json", "") == []


@pytest.mark.parametrize("session", ["sessions", "sessions/a.jsonl"])
def test_a_folder_inside_the_work_tree_is_looked_at(repository: Repository, session: str) -> None:
    """The originals are to be in the commit, wherever in it; their names begin with a digest."""
    Path("policy.json").write_text('{"session": {"backupDir": "../kept"}}')
    assert hidden([session], "policy.json", "") == []
    Path(".gitignore").write_text("kept/\n")
    said = hidden([session], "policy.json", "")
    assert [re.sub(r"/[0-9a-f]{12}-", "/", each) for each in said] == [
        "sessions/../kept/a.jsonl.zst (.gitignore:1: kept/)",
        "sessions/../kept/a.refs.jsonl (.gitignore:1: kept/)",
    ]
    Path(".gitignore").unlink()
    Path(".gitattributes").write_text("* text\n")
    (altered,) = hidden([session], "policy.json", "")
    assert "sessions/../kept/" in altered


def test_a_backup_folder_that_hides_what_else_lies_in_it_is_named(repository: Repository) -> None:
    """A run writes the `.gitignore` anew only where nothing but ours is hidden by it."""
    Path("policy.json").write_text('{"session": {"backupDir": "../kept"}}')
    Path("kept").mkdir()
    Path("kept/.gitignore").write_text("*\n")
    Path("kept/token").write_text("secret")
    assert len(hidden(["sessions"], "policy.json", "")) == 2
    Path("kept/token").unlink()
    assert hidden(["sessions"], "policy.json", "") == []


def test_without_git_or_a_repository_or_sessions(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no commit that they could be missing in."""
    Path("empty").mkdir()
    assert hidden(["empty"], "", "") == []
    outside = tmp_path / "outside" / "a.jsonl"
    outside.parent.mkdir()
    outside.write_bytes(b"{}\n")
    assert hidden([str(outside)], "", "") == []
    monkeypatch.setenv("PATH", "")
    assert hidden(["sessions"], "", "") == []
