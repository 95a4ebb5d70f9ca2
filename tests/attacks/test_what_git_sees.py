"""Originals hold all that a session held: git sees those alone that a run was told to let it see."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sessioncompress.cli import main
from tests.repository import Repository
from tests.runs import fixture

STORE = {"sessions/.sessioncompress/s.jsonl.zst", "sessions/.sessioncompress/s.refs.jsonl"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with a session that is not committed."""
    found = Repository(tmp_path / "work", {"HOME": str(tmp_path)})
    (found.folder / "sessions").mkdir()
    put(found, "s.jsonl")
    return found


def put(repository: Repository, name: str) -> None:
    """Write a session."""
    (repository.folder / "sessions" / name).write_bytes(fixture("pi-anthropic.jsonl"))


def command(repository: Repository, *arguments: str) -> Result:
    """Run the command in the folder of the sessions."""
    with chdir(repository.folder / "sessions"):
        return CliRunner().invoke(main, arguments, env=repository.environment)


def sees(repository: Repository) -> set[str]:
    """Return what git would add of all that lies beside the sessions."""
    asked = ("ls-files", "-z", "--others", "--cached", "--exclude-standard", "--", ":(glob)**/.sessioncompress/**")
    return {name for name in repository.git(*asked).split("\0") if name}


@pytest.mark.parametrize("name", ["compress", "pre-commit"])
def test_a_repository_that_the_environment_names_sees_none(repository: Repository, name: str) -> None:
    """As that of dotfiles: no `.git` lies around the session."""
    kept = repository.folder.parent / "kept.git"
    (repository.folder / ".git").rename(kept)
    repository.environment |= {"GIT_DIR": str(kept), "GIT_WORK_TREE": str(repository.folder)}
    assert command(repository, name, "s.jsonl").exit_code in (0, 1)
    assert len(list(repository.folder.glob("sessions/.sessioncompress/*.zst"))) == 1
    assert sees(repository) == set()
