"""A pull request, or an archive, whose files are a git repository: its configuration names programs, and none runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sessioncompress.cli.main import main
from tests.support.repository import Repository
from tests.support.runs import fixture

ROOT = Path(__file__).resolve().parents[2]
NAME = "s.jsonl"
POLICY = '{"session": {"sizeThresholdKB": 1, "minSavedKB": 1}}'
PROGRAMS = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "core.gitProxy"),
    *("core.alternateRefsCommand", "credential.helper", "diff.external", "diff.x.command", "diff.x.textconv"),
    *("gpg.program", "merge.x.driver", "pager.rev-list", "remote.origin.uploadpack", "sequence.editor"),
    *("uploadpack.packObjectsHook", "alias.check-ignore", "alias.rev-list"),
)
FILTERS = ("filter.lfs.clean", "filter.lfs.smudge", "filter.lfs.process")
"""Of the one filter that git may run over originals wherever a user has set it up."""
HOOKS = ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman", "reference-transaction")


class Stranger:
    """A clone, or what was unpacked, in which `folder` holds a session and is what git takes for a repository.

    Whatever runs in it leaves `mark`.
    """

    def __init__(self, at: Path) -> None:
        self.at = at
        self.mark = at / "RUN"
        self.workspace = Repository(at / "work", {"HOME": str(at), "XDG_CACHE_HOME": str(at / "cache")})
        self.folder = self.workspace.folder / "sessions"

    def configure(self, git: Path, *, programs: tuple[str, ...]) -> None:
        """Let a git folder name a program wherever one can be named."""
        (hooks := git / "programs").mkdir()
        for hook in HOOKS:
            (hooks / hook).write_text(f"#!/bin/sh\necho {hook} >> {self.mark}\n")
            (hooks / hook).chmod(0o755)
        given = [(name, f"echo {name} >> {self.mark}; false") for name in programs]
        more = [("core.hooksPath", str(hooks)), ("log.showSignature", "true"), ("protocol.allow", "always")]
        for name, value in (*given, *more):
            self.workspace.git("config", "--file", git / "config", name, value)

    def runs(self) -> bool:
        """Return whether any program was run since this was asked last."""
        ran = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return ran

    def command(self, *arguments: str, at: Path | None = None) -> Result:
        with chdir(at or self.workspace.folder):
            return CliRunner().invoke(main, arguments, env=self.workspace.environment)


def _bare(stranger: Stranger, folder: Path) -> None:
    """Commit what looks like a bare repository, which has all for a work tree, and clone that."""
    pull_request = Repository(stranger.at / "pull request", stranger.workspace.environment)
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
        (folder / name / "kept").touch()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(f"[core]\nrepositoryformatversion = 0\nworktree = {stranger.workspace.folder}\n")
    stranger.configure(folder, programs=PROGRAMS + FILTERS)
    shutil.copytree(stranger.workspace.folder, pull_request.folder, dirs_exist_ok=True)
    pull_request.commit()
    shutil.rmtree(stranger.workspace.folder)
    pull_request.clone(stranger.workspace.folder)


def a_bare_look_alike(stranger: Stranger) -> None:
    _bare(stranger, stranger.folder)


def a_bare_look_alike_above(stranger: Stranger) -> None:
    stranger.folder /= "deep/down"
    stranger.folder.mkdir(parents=True)
    shutil.move(stranger.workspace.folder / "sessions" / NAME, stranger.folder)
    _bare(stranger, stranger.workspace.folder / "sessions")


def an_unpacked_repository(stranger: Stranger) -> None:
    """An archive holds a `.git`, which no commit can."""
    inner = Repository(stranger.folder, stranger.workspace.environment)
    inner.commit()
    stranger.configure(inner.folder / ".git", programs=PROGRAMS)


def a_partial_clone(stranger: Stranger) -> None:
    """Its `.git` lacks a tree, which a program is to fetch."""
    an_unpacked_repository(stranger)
    inner = Repository(stranger.folder, stranger.workspace.environment)
    tree = inner.git("rev-parse", "HEAD^{tree}").strip()
    (inner.folder / ".git/objects" / tree[:2] / tree[2:]).unlink()
    config = inner.folder / ".git/config"
    inner.git("config", "--file", config, "--unset", "core.fsmonitor")
    for name, value in (("url", str(inner.folder)), ("promisor", "true")):
        inner.git("config", "--file", config, f"remote.origin.{name}", value)
    inner.git("config", "--file", config, "extensions.partialClone", "origin")


def a_git_file(stranger: Stranger) -> None:
    """Its `.git` is a file that names a folder of files beside."""
    an_unpacked_repository(stranger)
    (stranger.folder / ".git").rename(stranger.folder / "data")
    (stranger.folder / ".git").write_text("gitdir: data\n")


KINDS = (a_bare_look_alike, a_bare_look_alike_above, an_unpacked_repository, a_partial_clone, a_git_file)


@pytest.fixture(params=KINDS, ids=lambda each: each.__name__)
def stranger(request: pytest.FixtureRequest, tmp_path: Path) -> Stranger:
    """Return what a stranger made, once git itself has run a program of it."""
    made = Stranger(tmp_path)
    made.folder.mkdir()
    (made.folder / NAME).write_bytes(fixture("pi-anthropic.jsonl"))
    (made.workspace.folder / "compression.json").write_text(POLICY)
    (made.workspace.folder / ".gitattributes").write_text("* filter=lfs diff=x merge=x\n")
    kind: Callable[[Stranger], None] = request.param
    kind(made)
    for arguments in (["status"], ["rev-list", "--all", "--", NAME]):
        made.workspace.run("git", "-C", made.folder, *arguments)
    assert made.runs(), "the attack is none"
    return made


def test_the_action(stranger: Stranger) -> None:
    """It asks git of each session's originals, and goes on."""
    files = {name: str(stranger.at / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    given = {"PATHS": "sessions", "COMPACT": "false", "CONFIG": "", "PRESET": "", "ORIGINALS": "commit"}
    given |= {"FORCE": "false", "FAIL_IF_LARGER": "true"}
    stranger.workspace.environment |= {
        **files,
        **{f"SESSIONCOMPRESS_{name}": value for name, value in given.items()},
        "GITHUB_WORKSPACE": str(stranger.workspace.folder),
        "RUNNER_TEMP": str(stranger.at),
    }
    done = stranger.workspace.run(sys.executable, ROOT / "action" / "step.py")
    assert not stranger.runs(), done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_of_pre_commit(stranger: Stranger) -> None:
    """Called in the workspace, and in the folder itself: the originals are staged, or that is refused."""
    name = os.path.relpath(stranger.folder / NAME, stranger.workspace.folder)
    done = stranger.command("pre-commit", "--commit-originals", name)
    assert not stranger.runs(), done.stdout + done.stderr
    done = stranger.command("pre-commit", "--commit-originals", NAME, at=stranger.folder)
    assert not stranger.runs(), done.stdout + done.stderr


def test_a_clean_up(stranger: Stranger) -> None:
    """It asks git whether it has a session that is not there."""
    path = stranger.folder / NAME
    assert stranger.command("compress", str(path)).exit_code == 0
    path.unlink()
    for arguments in (["--max-size", "0KB", "."], [str(path)]):
        done = stranger.command("forget", "--yes", "--gone", *arguments)
        assert not stranger.runs(), done.stdout
        assert done.exit_code == 0, done.stderr
        assert "kept: the session is missing, and git " in done.stdout
