"""The one way to git: what it is asked, by whose configuration, and what it knows of files."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from sessioncompress.errors import FileFailed
from sessioncompress.store import git
from tests.faults.tools import need
from tests.support.repository import Repository

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository with one commit, which is the working folder."""
    found = Repository(tmp_path / "work")
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(found.folder)
    Path("README").touch()
    found.commit()
    return found


def test_only_one_module_calls_it() -> None:
    """Nobody else starts a program of that name; two start the command itself, and one what its user names."""
    sources = [*(ROOT / "sessioncompress").rglob("*.py"), *(ROOT / "action").glob("*.py")]
    starts = {
        path.name
        for path in sources
        if re.search(r"import subprocess|os\.(?:system|popen|exec|spawn)", path.read_text())
    }
    assert starts == {"git.py", "ended.py", "process.py", "step.py"}
    assert {path.name for path in sources if '["git"' in path.read_text()} == {"git.py"}


# Which repository


def test_a_work_tree_is_what_holds_a_git_folder(tmp_path: Path) -> None:
    """Innermost first, behind links; a folder that only looks like a repository is none."""
    deep = tmp_path / "outer" / "inner" / "bare"
    deep.mkdir(parents=True)
    (tmp_path / "outer" / ".git").mkdir()
    (tmp_path / "outer" / "inner" / ".git").touch()
    for name in ("objects", "refs"):
        (deep / name).mkdir()
    (deep / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "link").symlink_to(deep)
    assert list(git.work_trees(tmp_path / "link")) == [tmp_path / "outer" / "inner", tmp_path / "outer"]
    assert git.in_work_tree(deep)
    assert not git.in_work_tree(tmp_path)


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE"])
def test_any_folder_may_be_in_the_work_tree_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(tmp_path / "kept"))
    assert git.in_work_tree(tmp_path)
    monkeypatch.setenv(name, "")
    assert not git.in_work_tree(tmp_path)


ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_COMMON_DIR")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_work_tree_is_asked_whatever_the_environment_names(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A hook of another repository may call us."""
    monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    assert git.call(["ls-files"], at=repository.folder) == b"README\n"


def test_the_commit_at_hand_is_the_one_that_git_tells_its_hooks(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git commit FILE` has an index of its own, and one in a linked work tree a folder elsewhere."""
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    Path("new").touch()
    git.call(["add", "new"])
    assert git.call(["ls-files"]) == b"new\n"
    assert git.call(["ls-files"], at=repository.folder) == b"README\n"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(repository.folder / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repository.folder))
    assert git.call(["ls-files"]) == b"new\n"


def test_the_users_own_configuration_counts(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, or what `git -c` hands on; but not where it would run anything."""
    (repository.folder.parent / "config").write_text("[user]\nname = me\n[core]\nfsmonitor = touch RUN; false\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(repository.folder.parent / "config"))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'user.email'='a@b' 'core.fsmonitor'='touch RUN; false'")
    said = [git.call(["config", name]) for name in ("user.name", "user.email", "core.fsmonitor")]
    assert said == [b"me\n", b"a@b\n", b"false\n"]


def test_no_program_of_a_work_tree_is_git(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder in PATH is that of the user's working folder, and git runs at the top of another."""
    fake = repository.folder / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho it ran\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(["bin", "", os.environ["PATH"]]))
    monkeypatch.chdir("/")
    assert git.call(["rev-parse", "--is-inside-work-tree"], at=repository.folder) == b"true\n"


@pytest.mark.parametrize("kind", ["commit -a", "commit FILE", "commit", "work tree"])
def test_a_hook_of_git_stages_in_the_commit_at_hand(repository: Repository, kind: str) -> None:
    """With the variables that git itself sets."""
    hook = repository.folder / ".git/hooks/pre-commit"
    program = (
        "from pathlib import Path; from sessioncompress.store import git; Path('new').touch(); git.call(['add', 'new'])"
    )
    hook.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "{program}"\n')
    hook.chmod(0o755)
    at = repository
    if kind == "work tree":
        repository.git("worktree", "add", "--quiet", "../linked")
        at = Repository(repository.folder.parent / "linked", repository.environment)
    (at.folder / "README").write_text(kind)
    if kind == "commit":
        at.git("add", "README")
    at.git("commit", "--quiet", "-m", "x", *{"commit": [], "commit FILE": ["README"]}.get(kind, ["-a"]))
    assert at.tracked() == {"README", "new"}


# What it says


def test_where_it_fails_it_is_said(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """With git's words; another exit code may be an answer."""
    with pytest.raises(FileFailed, match="git failed: fatal: Needed a single revision"):
        git.call(["rev-parse", "--verify", "nowhere"], at=repository.folder)
    with pytest.raises(FileFailed):
        git.call(["check-ignore", "README"])
    assert git.call(["check-ignore", "README"], fine=(0, 1)) == b""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileFailed, match="there is no git"):
        git.call(["--version"])


PIPES = (".git", ".git/HEAD", ".git/config", ".git/index", ".git/worktrees/other/index")


@pytest.mark.parametrize("name", PIPES)
def test_a_pipe_in_a_repository_holds_nobody_up(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Git would wait for whoever writes to it; what cannot be asked may be known."""
    monkeypatch.setattr(git, "_SECONDS", 0.5)
    repository.git("worktree", "add", "--quiet", "--detach", "../other")
    (repository.folder / name).rename(repository.folder.parent / "away")
    os.mkfifo(repository.folder / name)
    assert known("s.jsonl") == {"s.jsonl": True}
    if name == ".git/HEAD":
        with pytest.raises(FileFailed, match=r"within 0.5 seconds and was stopped") as caught:
            git.call(["ls-files"], at=repository.folder, state="It is as it was.")
        assert str(caught.value).startswith(f"{repository.folder}: git did not finish within 0.5 seconds")
        assert "It is as it was. See whether 'git status' finishes there" in str(caught.value)


# Which files it has


def known(*names: str) -> dict[str, bool]:
    """Return of some files below the working folder whether git has them; True where it does not answer."""
    here = Path.cwd()
    found = git.known(here / name for name in names)
    return {str(path.relative_to(here)): error is not None for path, error in found.items()}


_COMMIT = ("add .", "commit --allow-empty -m x")
_FORGOTTEN = "reflog expire --expire=now --all"
WAYS: dict[str, tuple[str, ...]] = {
    "committed": _COMMIT,
    "on a branch": ("checkout -b work", *_COMMIT, "checkout main"),
    "in history": (*_COMMIT, "rm -r sessions", *_COMMIT),
    "staged": ("add .",),
    "stashed": ("add .", "stash"),
    "in the reflog": (*_COMMIT, "reset --hard HEAD~"),
    "in a merge": (
        *("add .", "stash", "checkout -b side", "commit --allow-empty -m side"),
        *("checkout -b work main", "commit --allow-empty -m work", "merge --no-ff --no-commit side", "stash pop"),
        *(*_COMMIT, "branch -D side", "checkout main", _FORGOTTEN),
    ),
    "dropped by a merge": (
        *("checkout -b side", *_COMMIT, "checkout main", "merge --no-ff --strategy ours -m x side"),
        *("branch -D side", _FORGOTTEN),
    ),
    "in a tag": (*_COMMIT, "tag kept", "reset --hard HEAD~", _FORGOTTEN),
}


@pytest.mark.parametrize("commands", WAYS.values(), ids=WAYS)
def test_what_git_can_bring_back_is_known(repository: Repository, commands: tuple[str, ...]) -> None:
    """In whatever place; a file whose name only is alike is not."""
    names = ["sessions/a.jsonl", "sessions/*.jsonl", "sessions/a b\té.jsonl", "top.jsonl", ":(top)x", "-n"]
    Path("sessions").mkdir()
    for name in names:
        Path(name).write_text(name)
    for command in commands:
        repository.git(*command.split())
    others = ["sessions/b.jsonl", "a.jsonl", "sessions/top.jsonl", "sessions/A.jsonl"]
    assert known(*names, *others) == dict.fromkeys(names, False)
    assert known(*others) == {}


def test_what_git_never_had_is_not_known(repository: Repository, tmp_path: Path) -> None:
    """Ignored, untracked, or outside of every repository; nor in an empty one."""
    Path(".gitignore").write_text("a.jsonl\n")
    repository.commit()
    for name in ("a.jsonl", "b.jsonl"):
        Path(name).touch()
    assert known("a.jsonl", "b.jsonl", "c.jsonl") == {}
    assert git.known([tmp_path / "d.jsonl"]) == {}
    empty = Repository(tmp_path / "empty")
    assert git.known([empty.folder / "a.jsonl"]) == {}


def test_the_repository_around_another_is_asked_too(repository: Repository) -> None:
    """It may have had the folder before; where it does not answer, what the inner one has is known all the same."""
    Path("sessions").mkdir()
    Path("sessions/a.jsonl").touch()
    repository.commit()
    inner = Repository(Path("sessions").absolute())
    assert known("sessions/a.jsonl", "sessions/b.jsonl") == {"sessions/a.jsonl": False}
    (inner.folder / "b.jsonl").touch()
    inner.commit()
    Path(".git/HEAD").write_text("?")
    assert known("sessions/b.jsonl", "sessions/c.jsonl") == {"sessions/b.jsonl": False, "sessions/c.jsonl": True}


@pytest.mark.parametrize("here", ["work", ".", "work/sessions"])
def test_the_repository_that_the_environment_names_is_asked_too(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str
) -> None:
    """From whatever folder, of the files in its work tree; where it does not answer each file may be known."""
    Path("sessions").mkdir()
    Path("sessions/a.jsonl").touch()
    repository.commit()
    repository.git("config", "core.bare", "true")
    (repository.folder / ".git").rename(tmp_path / "kept.git")
    monkeypatch.chdir(tmp_path / here)
    sessions = repository.folder / "sessions"
    files = [sessions / "a.jsonl", sessions / "b.jsonl", tmp_path / "a.jsonl"]
    assert git.known(files) == {}
    monkeypatch.setenv("GIT_WORK_TREE", os.path.relpath(repository.folder))
    monkeypatch.setenv("GIT_DIR", os.path.relpath(tmp_path / "kept.git"))
    assert git.known(files) == {files[0]: None}
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere.git"))
    found = git.known(files)
    assert {file: type(error) for file, error in found.items()} == dict.fromkeys(files, FileFailed)


def test_what_lies_in_a_submodule_is_known(repository: Repository) -> None:
    """Whether it is one in the index, in the history alone, or got its name from `.gitmodules` in another commit."""
    head = repository.git("rev-parse", "HEAD").strip()
    Path(".gitmodules").touch()
    repository.commit()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},deep/sub")
    names = ["deep/sub/a.jsonl", "deep/sub/sessions/a.jsonl"]
    others = ["deep/a.jsonl", "deep/sub2/a.jsonl", "sub/a.jsonl"]
    assert known(*names, *others) == dict.fromkeys(names, False)
    repository.git("commit", "--quiet", "--message", "sub")
    repository.git("rm", "--quiet", "--cached", "deep/sub", ".gitmodules")
    repository.git("commit", "--quiet", "--message", "none")
    assert known(*names, *others) == dict.fromkeys(names, False)


def test_a_submodule_is_known_whatever_the_work_tree_says_of_it(repository: Repository) -> None:
    """A clone's `.gitmodules` may tell git to let it alone, or to show no change of it."""
    head = repository.git("rev-parse", "HEAD").strip()
    Path(".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ../sub\n\tignore = all\n')
    repository.commit()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    repository.git("commit", "--quiet", "--message", "sub")
    repository.git("rm", "--quiet", "--cached", "sub")
    repository.git("commit", "--quiet", "--message", "none")
    assert known("sub/a.jsonl") == {"sub/a.jsonl": False}


def test_a_name_in_the_index_of_any_work_tree_is_known(repository: Repository) -> None:
    """Of the first one and of linked ones, whichever of them is asked; the index of one may be split."""
    names = ["first.jsonl", "second.jsonl", "third.jsonl"]
    folders = [repository.folder, repository.folder.parent / "second", repository.folder.parent / "third"]
    for folder, name in zip(folders, names, strict=True):
        if folder != repository.folder:
            repository.git("worktree", "add", "--quiet", "--detach", folder)
        (folder / name).touch()
        Repository(folder, repository.environment).git("add", name)
    Repository(folders[2], repository.environment).git("update-index", "--split-index")
    for folder in folders:
        asked = [folder / name for name in (*names, "fourth.jsonl")]
        assert git.known(asked) == dict.fromkeys(asked[:3])
    (repository.folder / ".git/worktrees/second/index").write_bytes(b"?")
    found = git.known([repository.folder / "fourth.jsonl"])
    assert "index file" in str(found[repository.folder / "fourth.jsonl"])


def test_accents_may_be_given_apart_from_their_letters(repository: Repository) -> None:
    """As some systems list names, and git does not keep them."""
    name = "s\u00e9ance.jsonl"
    Path(name).touch()
    repository.commit()
    apart = unicodedata.normalize("NFD", name)
    assert apart != name
    assert known(apart) == {apart: False}


@pytest.mark.parametrize("name", ["a\nb.jsonl", "a\r.jsonl"])
def test_a_name_that_ends_a_line_may_be_known(repository: Repository, name: str) -> None:
    """Git is not asked for it, and stands for nothing."""
    assert known(name) == {name: True}


def test_it_is_asked_once_for_many(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """History is read once, not once a file."""
    log = repository.folder.parent / "log"
    program = repository.folder.parent / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {need("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert known(*(f"sessions/{number}.jsonl" for number in range(5000))) == {}
    assert len(log.read_text().splitlines()) == 5
