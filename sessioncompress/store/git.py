"""The only module that calls git. It never runs a program that a repository's own configuration names.

A repository's configuration is untrusted: a folder that looks like a bare repository can be committed as ordinary
files, and any unpacked archive can contain a `.git` folder. The environment and the user's own configuration are
trusted.
"""

from __future__ import annotations

import os
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from sessioncompress.errors import NOT_CHANGED, FileFailed, failed, failing

if TYPE_CHECKING:
    from subprocess import Popen

_OPTIONS = (
    "--no-pager",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "safe.bareRepository=explicit"),
)
_SET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    # A partial clone runs the program that its configuration names to fetch missing objects.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    # A replacement object or a graft exists only in this repository, not in its clones.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
}
_KEPT = ("GIT_CONFIG", "GIT_EXEC_PATH")
"""Prefixes of git's variables that we keep. Any other may name another repository, or change an answer."""
_OF_A_COMMIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""Variables that git sets for its hooks to describe the commit: `git commit FILE` uses an index of its own."""
_SECONDS = 300
"""Git needs less, even for the whole history of a large repository. On a named pipe it would wait forever."""


def call(
    arguments: Sequence[str | Path],
    *,
    at: Path | None = None,
    trusted: str = "",
    given: bytes = b"",
    fine: tuple[int, ...] = (0,),
    state: str = "",
    remedy: str = "See what git says about it, and run again.",
) -> bytes:
    """Run git with `given` on its stdin, and return its stdout.

    `at` is the top of a work tree, as returned by work_trees(); the call then uses that repository, whatever the
    environment names. Without `at` it uses the repository of the working folder, as git sets it for a hook. `trusted`
    is the top of a work tree that may belong to another user. `git add` runs the configured filters
    (`filter.*.clean`), as it does for the user: call it only without `at`. Raises FileFailed if git is not installed,
    does not finish in time, or exits with a code that is not in `fine`.
    """
    import subprocess

    options = [*_OPTIONS, *(["-c", f"safe.directory={os.path.realpath(trusted)}"] if trusted else [])]
    try:
        with _running(state):
            # No shell parses the names. PATH lookup is intended: it finds the user's own git.
            done = subprocess.run(  # noqa: S603
                ["git", *options, *arguments],  # noqa: S607
                cwd=at,
                env=_environment(() if at else _OF_A_COMMIT),
                input=given,
                capture_output=True,
                check=False,
                timeout=_SECONDS,
            )
    except subprocess.TimeoutExpired as error:
        what = f"git did not finish within {_SECONDS} seconds and was stopped"
        look = "See whether 'git status' finishes there; no file in a repository may be a named pipe. Then run again."
        raise FileFailed(what, where=at or arguments[-1], state=state, remedy=look) from error
    if done.returncode not in fine:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise FileFailed(f"git failed: {said}", where=at or arguments[-1], state=state, remedy=remedy)
    return done.stdout


@contextmanager
def _running(state: str = NOT_CHANGED) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename == "git":
            what, remedy = "there is no git in the PATH", "Install git, and run again."
            raise FileFailed(what, where="git", state=state, remedy=remedy) from error
        raise failed(error, "git", state) from error


def _environment(kept: tuple[str, ...] = ()) -> dict[str, str]:
    named = {name: value for name, value in os.environ.items() if name in kept or name.startswith(_KEPT)}
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Git runs at the top of a work tree, which may contain a stranger's programs: never look up a name there.
    path = os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))
    return {**others, **named, **_SET, "PATH": path}


LARGEST_BLOB = 32 << 20
"""Bytes. Larger blobs are not read, so that no repository can exhaust the reader's memory."""
_LONGEST_ANSWER = 1 << 12
"""Bytes of the line in which git reports an object's id, type and size, or that it is missing."""


class Blobs:
    """Reads objects from the repository of the innermost work tree around a folder, with one git process.

    Fetches nothing and runs no filter. The process starts at the first read. The most recent blobs are cached.
    """

    def __init__(self, folder: Path) -> None:
        self.top = next(work_trees(folder), None)
        self._process: Popen[bytes] | None = None
        self._held: dict[str, bytes] = {}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            # Closing the pipe may fail: it still contains a question that git did not read.
            with suppress(OSError), self._process:
                self._process = None

    def read(self, name: str) -> tuple[str, bytes] | None:
        """Return the id and the content of a blob, named by its id or by `COMMIT:PATH`, the path relative to the top.

        Return None if it is not in the local repository, or is over LARGEST_BLOB. Raises FileFailed if git fails.
        """
        if self.top is None or "\n" in name:
            return None
        if (held := self._held.get(name)) is not None:
            return name, held
        content = None
        try:
            with _running():
                # One question at a time: read each answer before the next question.
                self._process = self._process or _started(["cat-file", "--batch"], self.top)
                with _stopped_in_time(self._process):
                    blob, content = _asked(self._process, name)
        finally:
            if content is None:
                # The process failed, or its next output is content that we must not read.
                self.close()
        if content is None or not blob:
            return None
        while self._held and sum(map(len, self._held.values())) > LARGEST_BLOB - len(content):
            self._held.pop(next(iter(self._held)))
        self._held[blob] = content
        return blob, content

    @cached_property
    def is_shallow(self) -> bool:
        """True if the repository lacks old commits. Raises FileFailed."""
        return self.top is not None and b"true" in call(["rev-parse", "--is-shallow-repository"], at=self.top)

    def version(self, file: Path) -> tuple[str, bytes] | None:
        """Return the id and content of a file at HEAD, or None; see read(). Raises FileFailed.

        In a git hook, use the commit before HEAD, because `commit --amend` replaces HEAD.
        """
        if self.top is None:
            return None
        commit = "HEAD~1" if "GIT_INDEX_FILE" in os.environ else "HEAD"
        return self.read(f"{commit}:{os.path.relpath(os.path.realpath(file), self.top)}")


def _started(arguments: Sequence[str], top: Path) -> Popen[bytes]:
    from subprocess import DEVNULL, PIPE, Popen

    asked = ["git", *_OPTIONS, *arguments]
    return Popen(asked, cwd=top, env=_environment(), stdin=PIPE, stdout=PIPE, stderr=DEVNULL)  # noqa: S603


@contextmanager
def _stopped_in_time(process: Popen[bytes]) -> Iterator[None]:
    from threading import Timer

    stop = Timer(_SECONDS, process.kill)
    stop.start()
    try:
        yield
    finally:
        stop.cancel()


def out_of_reach(blobs: Collection[str], file: Path) -> set[str]:
    """Return the blobs that are unreachable from HEAD: git will delete them. `file` had them. Raises FileFailed."""
    lost, top = set(blobs), next(work_trees(file.parent), None)
    own = f":(top,literal){os.path.relpath(os.path.realpath(file), top)}"
    # Search the file's own history first, and the whole history only if blobs are left. Stop at the last one found.
    for names in ([own], []):
        if top is None or not lost:
            break
        asked = ["rev-list", "--objects", "--full-history", "--no-object-names", "HEAD", "--", *names]
        with _running(), _started(asked, top) as process, _stopped_in_time(process):
            assert process.stdout is not None
            for line in process.stdout:
                lost.discard(line.rstrip().decode())
                if not lost:
                    process.kill()
                    break
        if lost and process.returncode:
            remedy = "See what 'git rev-list --objects HEAD' says there, and run again."
            raise FileFailed("git did not list what HEAD comes from", where=top, remedy=remedy)
    return lost


BRING_BACK = (
    "A squash, a rebase or a filter left that commit out of the branch, or the clone is only a part: fetch a branch or "
    "a tag that comes from it ('git fetch origin refs/pull/NUMBER/head' on GitHub), or work in a clone that has it "
    "('git reflog' lists it there)."
)
"""The remedy if a commit is missing."""
INTO_A_STORE = (
    "'sessioncompress restore', 'forget' and 'compress --originals-in committed', in this order, move them to a store"
)
"""The remedy if originals are in a commit that a squash leaves out of the branch, or may."""


def _asked(process: Popen[bytes], name: str) -> tuple[str, bytes | None]:
    """Return a blob's id and content: ("", b"") if it is missing, ("", None) if not a blob or too large to read."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(os.fsencode(f"{name}\n"))
    process.stdin.flush()
    said = process.stdout.readline(_LONGEST_ANSWER)
    blob, kind, size, *_ = *said.split(), b"", b"", b""
    if said.endswith(b" missing\n"):
        return "", b""
    if (kind and kind != b"blob") or int(size or 0) > LARGEST_BLOB:
        return "", None
    content = process.stdout.read(int(size or 0))
    if not size or process.stdout.read(1) != b"\n":
        what = f"git does not give {name}"
        remedy = f"Run 'git cat-file -t {name}' here: a partial clone fetches it, and another says what is damaged."
        raise FileFailed(what, where="git", remedy=remedy)
    return blob.decode(), content


def work_trees(folder: Path) -> Iterator[Path]:
    """Yield the tops of the work trees that contain a folder, innermost first: the folders that hold a `.git`.

    Git cannot commit anything named `.git`, so none of these is just committed files that look like a repository.
    """
    real = Path(os.path.realpath(folder))
    return (each for each in (real, *real.parents) if os.path.lexists(each / ".git"))


def in_work_tree(folder: Path) -> bool:
    """True if a folder is in a work tree, or may be in the one that the environment names."""
    return any(map(os.environ.get, _OF_A_COMMIT[:2])) or next(work_trees(folder), None) is not None


def work_tree(state: str = "") -> Path:
    """Return the top of the work tree that a git hook runs for, with links resolved. Raises FileFailed."""
    return Path(os.path.realpath(_path(call(["rev-parse", "--show-toplevel"], state=state))))


def known(files: Iterable[Path]) -> dict[Path, FileFailed | None]:
    """Return the files that git has in a reachable commit, an index, the reflog or a stash.

    A file's value is None, or the error if git failed: such a file counts as known.

    Files in a folder that any of these records as a submodule count as known too: a checkout removes the folder's
    `.git` and restores it with the files. So does a file recorded in the folder's place; telling the two apart would
    take more calls.

    The files' folders must not be links. Searches the repositories of the work trees around each file, and the one that
    the environment names: the user chose it, and keeps its `.git` elsewhere. Git is called a few times per work tree,
    not per file.
    """
    files = list(files)
    asked: defaultdict[tuple[Path, Path | None], dict[str, Path]] = defaultdict(dict)
    found: dict[Path, FileFailed | None] = {}
    named = None
    try:
        if any(name in os.environ for name in _OF_A_COMMIT):
            named = work_tree()
    except FileFailed as error:
        found |= dict.fromkeys(files, error)
    for file in files:
        tops: list[tuple[Path, Path | None]] = [(top, top) for top in work_trees(file.parent)]
        if named and file.is_relative_to(named):
            tops.append((named, None))
        for each in tops:
            asked[each][_composed(os.path.relpath(file, each[0]))] = file
    for (top, at), names in asked.items():
        try:
            parts = {part for name in names for part in (name, *_folders_of(name))}
            there = parts.intersection(map(_composed, _names_in(top, at, names.values())))
            found |= {file: None for name, file in names.items() if not there.isdisjoint((name, *_folders_of(name)))}
        except FileFailed as error:
            found |= {file: error for file in names.values() if file not in found}
    return found


def _names_in(top: Path, at: Path | None, files: Iterable[Path]) -> Iterator[str]:
    """Yield names of files that git has, relative to the top, including all wanted ones. Raises FileFailed.

    `at` is as in call(). Only plumbing commands: `git log` would run the signature checker that a configuration names.
    """
    names = [os.path.relpath(file, top) for file in files]
    if odd := [name for name in names if set(name) & set("\r\n")]:
        raise FileFailed(f"the name {odd[0]!r} contains a line break", where=top, state="")
    # The system may return names with decomposed accents (NFD); git composes them.
    asked = dict.fromkeys([*names, *map(_composed, names)])
    submodules = False
    # .gitmodules lists the submodules; a checkout never removes any other nested repository.
    for said in (_changed_with([*asked, ".gitmodules"], at), *_indexes(top, at)):
        there = os.fsdecode(said).split("\0")
        submodules = submodules or ".gitmodules" in there
        yield from there
    if submodules and (folders := dict.fromkeys(each for name in asked for each in _folders_of(name))):
        # Only if there are submodules: a large folder is in many commits.
        yield from os.fsdecode(_changed_with(folders, at)).split("\0")


def _changed_with(names: Iterable[str], at: Path | None) -> bytes:
    """Return the names of all files changed by the commits that changed any of `names`. Raises FileFailed."""
    given = "".join(f"{name}\n" for name in ("--", *(f":(top,literal){name}" for name in names)))
    listed = call(["rev-list", "--all", "--reflog", "--full-history", "--stdin"], at=at, given=os.fsencode(given))
    # A .gitmodules file can tell git to ignore changes of a submodule.
    shown = ["--ignore-submodules=none", "--no-renames", "--no-commit-id", "--name-only", "-z"]
    changed = ["diff-tree", "--stdin", "-r", "-m", "--root", *shown]
    return call(changed, at=at, given=listed)


def _folders_of(name: str) -> Iterator[str]:
    return (os.fspath(each) for each in PurePosixPath(name).parents[:-1])


def _indexes(top: Path, at: Path | None) -> Iterator[bytes]:
    """Yield the names in the current index, and in the index of each work tree of the repository. Raises FileFailed.

    The folder of a linked work tree may be deleted or on an unmounted disk, but its index is in the repository.
    """
    listed = ["ls-files", "-z", "--full-name", ":/"]
    yield call(listed, at=at)
    common = Path(at or Path.cwd(), _path(call(["rev-parse", "--git-common-dir"], at=at)))
    linked = common / "worktrees"
    with failing(linked, ""):
        folders = [each for each in linked.iterdir() if each.is_dir()] if os.path.lexists(linked) else []
    for folder in (common, *folders):
        yield call([f"--git-dir={folder}", *listed], at=top)


def _path(said: bytes) -> str:
    return os.fsdecode(said.removesuffix(b"\n"))


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)
