"""`forget --gone` and the originals of a session that lives elsewhere in git: they are ignored by git, so the only copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sessioncompress.cli.main import main
from sessioncompress.store.layout import store_in
from tests.support.repository import Repository
from tests.support.runs import days_ago, fixture

ORIGINAL = fixture("pi-anthropic.jsonl")
NAME = "sessions/s.jsonl"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with a compressed session that is not committed yet."""
    found = Repository(tmp_path / "work", {"HOME": str(tmp_path)})
    (found.folder / "README").write_text("hi\n")
    found.commit()
    (found.folder / NAME).parent.mkdir()
    (found.folder / NAME).write_bytes(ORIGINAL)
    assert command(found, "compress", "--force", NAME).exit_code == 0
    return found


def command(repository: Repository, *arguments: str, days: int = 0) -> Result:
    with chdir(repository.folder), days_ago(-days):
        return CliRunner().invoke(main, arguments, env=repository.environment)


def restored(repository: Repository) -> bytes:
    done = command(repository, "restore", NAME)
    assert done.exit_code == 0, done.stderr
    return (repository.folder / NAME).read_bytes()


def on_a_branch(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "work")
    repository.commit()
    repository.git("checkout", "--quiet", "main")


def in_a_stash(repository: Repository) -> None:
    repository.git("stash", "--quiet", "--include-untracked")


def under_another_stash(repository: Repository) -> None:
    in_a_stash(repository)
    (repository.folder / "README").write_text("more\n")
    repository.git("stash", "--quiet")


def on_a_deleted_branch(repository: Repository) -> None:
    on_a_branch(repository)
    repository.git("branch", "--quiet", "-D", "work")


def in_the_index(repository: Repository) -> None:
    repository.git("add", NAME)
    (repository.folder / NAME).unlink()


def in_a_merge_alone(repository: Repository) -> None:
    """Add it in the merge of two branches, neither of which has it."""
    repository.git("stash", "--quiet", "--include-untracked")
    repository.git("checkout", "--quiet", "-b", "side")
    (repository.folder / "side").touch()
    repository.commit()
    repository.git("checkout", "--quiet", "-b", "work", "main")
    repository.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
    repository.git("checkout", "stash^3", "--", NAME)
    repository.git("commit", "--quiet", "--message", "merge")
    repository.git("stash", "drop", "--quiet")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("checkout", "--quiet", "main")


def moved_on_a_branch(repository: Repository) -> None:
    """Move it with git on another branch: its old path is in the history of that one."""
    on_a_branch(repository)
    repository.git("checkout", "--quiet", "work")
    repository.git("mv", NAME, "sessions/moved.jsonl")
    repository.commit()
    repository.git("checkout", "--quiet", "main")


def in_another_work_tree(repository: Repository) -> None:
    """Have its branch checked out beside this one, as no branch."""
    on_a_branch(repository)
    repository.git("worktree", "add", "--quiet", "--detach", "../other", "work")
    repository.git("branch", "--quiet", "-D", "work")
    repository.git("reflog", "expire", "--expire=now", "--all")


def left_out_of_the_work_tree(repository: Repository) -> None:
    """Have git leave its folder out of the work tree."""
    repository.commit()
    repository.git("sparse-checkout", "set", "--no-cone", "/README")


def in_the_repository_above(repository: Repository) -> None:
    """Commit the session, and begin a repository of its own for its folder afterwards."""
    on_a_branch(repository)
    Repository(repository.folder / "sessions", repository.environment)


def in_the_index_of_another_work_tree(repository: Repository) -> None:
    """Move it to a linked work tree, stage it there, and lose that folder: its index lies in the repository."""
    other = Repository(repository.folder.parent / "other", repository.environment)
    shutil.rmtree(other.folder)
    repository.git("worktree", "add", "--quiet", "--detach", other.folder)
    (other.folder / NAME).parent.mkdir()
    (repository.folder / NAME).rename(other.folder / NAME)
    other.git("add", NAME)
    shutil.rmtree(other.folder)


def in_the_index_of_the_first_work_tree(repository: Repository) -> None:
    """Stage it, and go on in a linked work tree, which the session has been moved to and lost in."""
    repository.git("add", NAME)
    first, repository.folder = repository.folder, repository.folder.parent / "other"
    Repository(first, repository.environment).git("worktree", "add", "--quiet", "--detach", repository.folder)
    (first / "sessions").rename(repository.folder / "sessions")
    (repository.folder / NAME).unlink()


def in_a_submodule_that_a_branch_is_without(repository: Repository) -> None:
    """Commit it there, and check out a branch that knows no submodule: its `.git` goes with its files."""
    origin = repository.folder.parent / "origin"
    (repository.folder / "sessions").rename(origin)
    Repository(origin, repository.environment).commit()
    repository.git("branch", "without")
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../origin", "sessions")
    repository.commit()
    (origin / ".sessioncompress").rename(repository.folder / "sessions/.sessioncompress")
    repository.git("checkout", "--quiet", "--recurse-submodules", "without")
    assert not (repository.folder / "sessions/.git").exists()


def in_a_repository_kept_elsewhere(repository: Repository) -> None:
    """Keep the folder of the repository elsewhere, as that of dotfiles, and name it in the environment."""
    on_a_branch(repository)
    (repository.folder / ".git").rename(repository.folder.parent / "kept.git")
    repository.environment |= {"GIT_DIR": "../kept.git", "GIT_WORK_TREE": "."}


def in_the_index_of_a_repository_kept_elsewhere(repository: Repository) -> None:
    """Stage it in one that names its work tree itself."""
    (repository.folder / ".git").rename(repository.folder.parent / "kept.git")
    repository.environment["GIT_DIR"] = str(repository.folder.parent / "kept.git")
    repository.git("config", "core.worktree", repository.folder)
    in_the_index(repository)


PLACES: tuple[Callable[[Repository], None], ...] = (
    on_a_branch,
    in_a_stash,
    under_another_stash,
    on_a_deleted_branch,
    in_the_index,
    in_a_merge_alone,
    moved_on_a_branch,
    in_another_work_tree,
    left_out_of_the_work_tree,
    in_the_repository_above,
    in_the_index_of_another_work_tree,
    in_the_index_of_the_first_work_tree,
    in_a_submodule_that_a_branch_is_without,
    in_a_repository_kept_elsewhere,
    in_the_index_of_a_repository_kept_elsewhere,
)


@pytest.mark.parametrize("put_away", PLACES, ids=lambda each: each.__name__)
def test_what_git_can_bring_back_keeps_its_originals(
    repository: Repository, put_away: Callable[[Repository], None]
) -> None:
    """In two runs a month apart, where it is named itself, and by the limit; each run says so."""
    content = (repository.folder / NAME).read_bytes()
    put_away(repository)
    assert not (repository.folder / NAME).exists()
    asked = [["."], ["--max-size", "0KB", "."], [".", NAME], [NAME]]
    done = [
        command(repository, "forget", "--gone", "--yes", *paths, days=31 * days) for days, paths in enumerate(asked)
    ]
    (repository.folder / NAME).parent.mkdir(exist_ok=True)
    (repository.folder / NAME).write_bytes(content)
    assert restored(repository) == ORIGINAL
    assert [each.exit_code for each in done] == [0] * len(asked)
    assert all("kept: the session is missing, and git still has it in a commit" in each.stdout for each in done)


def test_a_session_that_git_never_had_goes(repository: Repository) -> None:
    (repository.folder / NAME).unlink()
    originals = store_in(repository.folder / NAME).originals
    for option in (["--older-than", "0d"], ["--max-size", "0KB"], ["--unneeded"]):
        command(repository, "forget", "--yes", *option, ".", days=31)
    assert originals.exists()
    assert "which can no longer be restored" in command(repository, "forget", "--yes", "--gone", ".").stdout
    assert not originals.exists()


def no_git(repository: Repository) -> None:
    on_a_branch(repository)
    repository.environment["PATH"] = ""


def a_broken_repository(repository: Repository) -> None:
    on_a_branch(repository)
    (repository.folder / ".git/HEAD").write_text("?")


def a_broken_repository_above(repository: Repository) -> None:
    """Have the session in no commit here; its folder lies in a broken repository too."""
    (repository.folder / NAME).unlink()
    (repository.folder.parent / ".git").mkdir()


def trees_that_lie_elsewhere(repository: Repository) -> None:
    """Have git fetch what it lacks when it is needed, from where nobody is asked to fetch."""
    on_a_branch(repository)
    origin, part = repository.folder.parent / "origin", repository.folder.parent / "part"
    repository.git("clone", "--quiet", "--bare", ".", origin)
    repository.git("-C", origin, "config", "uploadpack.allowFilter", "true")
    repository.git("clone", "--quiet", "--no-checkout", "--filter=tree:0", f"file://{origin}", part)
    (repository.folder / ".git").rename(repository.folder.parent / "whole")
    (part / ".git").rename(repository.folder / ".git")


def a_bare_repository_without_a_work_tree(repository: Repository) -> None:
    """Name one in the environment; each command of git's names the work tree."""
    in_a_repository_kept_elsewhere(repository)
    del repository.environment["GIT_WORK_TREE"]
    repository.run("git", "config", "core.bare", "true")


def no_repository_where_the_environment_names_one(repository: Repository) -> None:
    in_a_repository_kept_elsewhere(repository)
    repository.environment["GIT_DIR"] = "../nowhere.git"


@pytest.mark.parametrize(
    "harm",
    [
        no_git,
        a_broken_repository,
        a_broken_repository_above,
        trees_that_lie_elsewhere,
        a_bare_repository_without_a_work_tree,
        no_repository_where_the_environment_names_one,
    ],
    ids=lambda each: each.__name__,
)
def test_where_git_does_not_answer_nothing_goes(repository: Repository, harm: Callable[[Repository], None]) -> None:
    """It may have the session; only without --gone it is not asked."""
    harm(repository)
    for asked in ([NAME], ["--max-size", "0KB", "."]):
        done = command(repository, "forget", "--gone", "--yes", *asked, days=31)
        assert done.exit_code == 0, done.stderr
        assert "git may have it, but did not answer" in done.stdout
    assert store_in(repository.folder / NAME).originals.exists()
    assert command(repository, "forget", "--yes", NAME).exit_code == 0
    assert not store_in(repository.folder / NAME).originals.exists()
