"""The one way to call git. No program that a repository's own configuration names is run.

A repository's configuration is data from whoever made it. A folder that looks like a bare repository can be committed
as ordinary files, and a `.git` folder comes with any unpacked archive. The environment and the user's configuration
are the user's own, and count.
"""

from __future__ import annotations

import os
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Self

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
    # A partial clone fetches what it lacks with the program that its configuration names.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    # What stands in for an object here is in no clone.
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_KEPT = ("GIT_CONFIG", "GIT_EXEC_PATH")
"""What variables of git's that are kept begin with. All others may name another repository, or change an answer."""
_OF_A_COMMIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""What git tells its hooks of the commit at hand: that of `git commit FILE` has an index of its own."""
_SECONDS = 300
"""Git takes less, even for the whole history of a large repository. A named pipe would let it wait forever."""


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
    """Return what git printed, with `given` on its stdin.

    `at` is the top of a work tree, as work_trees() gives it; whatever repository the environment names, that one is
    asked. Without it the one of the working folder is, as a hook of git's means it. `trusted` is the top of a work
    tree that another user may own. Filters (`filter.*.clean`) run in `git add`, as in the user's own: call that only
    without `at`. Raises FileFailed where there is no git, it does not end in time, or its exit code is not `fine`.
    """
    # Imported here: hardly any run calls git.
    import subprocess

    options = [*_OPTIONS, *(["-c", f"safe.directory={os.path.realpath(trusted)}"] if trusted else [])]
    try:
        with _running(state):
            # No shell reads the names, and the user's own git is meant.
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
    # Git runs at the top of a work tree, where a stranger's program may stand: no name is looked up from there.
    path = os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))
    return {**others, **named, **_SET, "PATH": path}


LARGEST_BLOB = 32 << 20
"""Bytes. A larger one is not read, so that no repository can make the reader use more memory."""
_LONGEST_ANSWER = 1 << 12
"""Bytes of the line in which git says what an object is, or that there is none of that name."""


class Blobs:
    """Reads what is in the repository of the innermost work tree around a folder, with one process of git's.

    Nothing is fetched, and no filter is run. The process starts with the first question. The blobs read last are held.
    """

    def __init__(self, folder: Path) -> None:
        self.top = next(work_trees(folder), None)
        self._process: Popen[bytes] | None = None
        self._held: dict[str, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            # What it was not asked any more is still in the pipe.
            with suppress(OSError), self._process:
                self._process = None

    def read(self, name: str) -> tuple[str, bytes] | None:
        """Return the id and the content of a blob, by that or by `COMMIT:PATH` from the top.

        None where the repository has none at hand, or one over LARGEST_BLOB. Raises FileFailed where git fails.
        """
        if self.top is None or "\n" in name:
            return None
        if (held := self._held.get(name)) is not None:
            return name, held
        content = None
        try:
            with _running():
                # Each question is answered before the next one is put.
                self._process = self._process or _started(["cat-file", "--batch"], self.top)
                with _stopped_in_time(self._process):
                    blob, content = _asked(self._process, name)
        finally:
            if content is None:
                # It has ended, or is about to give what is no blob, or too large.
                self.close()
        if content is None or not blob:
            return None
        while self._held and sum(map(len, self._held.values())) > LARGEST_BLOB - len(content):
            self._held.pop(next(iter(self._held)))
        self._held[blob] = content
        return blob, content

    @cached_property
    def is_shallow(self) -> bool:
        """Tell whether the repository lacks old commits. Raises FileFailed."""
        return self.top is not None and b"true" in call(["rev-parse", "--is-shallow-repository"], at=self.top)

    def version(self, file: Path) -> tuple[str, bytes] | None:
        """Read a file as HEAD has it. Raises FileFailed.

        In a hook of git's, the commit before HEAD is asked: `commit --amend` replaces HEAD.
        """
        if self.top is None:
            return None
        commit = "HEAD~1" if "GIT_INDEX_FILE" in os.environ else "HEAD"
        return self.read(f"{commit}:{os.path.relpath(os.path.realpath(file), self.top)}")


def _started(arguments: Sequence[str], top: Path) -> Popen[bytes]:
    # Imported here, as above.
    from subprocess import DEVNULL, PIPE, Popen

    asked = ["git", *_OPTIONS, *arguments]
    return Popen(asked, cwd=top, env=_environment(), stdin=PIPE, stdout=PIPE, stderr=DEVNULL)  # noqa: S603


@contextmanager
def _stopped_in_time(process: Popen[bytes]) -> Iterator[None]:
    # Imported here, as above.
    from threading import Timer

    stop = Timer(_SECONDS, process.kill)
    stop.start()
    try:
        yield
    finally:
        stop.cancel()


def out_of_reach(blobs: Collection[str], file: Path) -> set[str]:
    """Find which blobs no commit has that HEAD comes from: git deletes them. `file` had them. Raises FileFailed."""
    lost, top = set(blobs), next(work_trees(file.parent), None)
    own = f":(top,literal){os.path.relpath(os.path.realpath(file), top)}"
    # The whole history only where another name may have had them: as far as needed, and never all of it at once.
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
            raise FileFailed("git did not list what HEAD comes from", where=top, state=NOT_CHANGED, remedy=remedy)
    return lost


BRING_BACK = (
    "A squash, a rebase or a filter left that commit out of the branch, or the clone is only a part: fetch a branch or "
    "a tag that comes from it ('git fetch origin refs/pull/NUMBER/head' on GitHub), or work in a clone that has it."
)
"""What to do where a commit is gone."""


def _asked(process: Popen[bytes], name: str) -> tuple[str, bytes | None]:
    """Read a blob; its id is empty where there is none of that name, and None follows what is not to be read."""
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
        raise FileFailed(what, where="git", state=NOT_CHANGED, remedy=remedy)
    return blob.decode(), content


def work_trees(folder: Path) -> Iterator[Path]:
    """Yield the tops of the work trees that a folder is in, the innermost first: the folders that hold a `.git`.

    Nothing that is called `.git` can be committed. So git is asked there, never in what may only look like a
    repository.
    """
    real = Path(os.path.realpath(folder))
    return (each for each in (real, *real.parents) if os.path.lexists(each / ".git"))


def in_work_tree(folder: Path) -> bool:
    """Tell whether a folder is in any work tree, or may be in the one that the environment names."""
    return any(map(os.environ.get, _OF_A_COMMIT[:2])) or next(work_trees(folder), None) is not None


def work_tree(state: str = "") -> Path:
    """Ask for the top of the work tree that a hook of git's means, without links. Raises FileFailed."""
    return Path(os.path.realpath(_path(call(["rev-parse", "--show-toplevel"], state=state))))


def known(files: Iterable[Path]) -> dict[Path, FileFailed | None]:
    """Find which of some files git has in any commit that it can still find, in an index or in a stash.

    It may have what is in a folder that is a submodule in any of these: a checkout removes the folder's `.git`, and
    brings it back with the files. A file in the folder's place counts as well; telling the two apart would take more
    questions.

    The folders that the files are in must not be links. Asked are the repositories of the work trees around a file,
    and the one that the environment names: the user keeps its folder elsewhere, and chose it. Where git does not
    answer the file counts as known, with the error. Git is asked a few times a work tree, not a few times a file.
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
    """Yield at least the names of the files that git has, from the top. `at` is call()'s. Raises FileFailed.

    Plumbing alone: `git log` runs the program that checks signatures where a configuration says so.
    """
    names = [os.path.relpath(file, top) for file in files]
    if odd := [name for name in names if set(name) & set("\r\n")]:
        raise FileFailed(f"the name {odd[0]!r} contains a line break", where=top)
    # A system may give the letters of a name apart from their accents, as git does not.
    asked = dict.fromkeys([*names, *map(_composed, names)])
    submodules = False
    # It names the submodules of a work tree: git removes no other repository with a checkout.
    for said in (_changed_with([*asked, ".gitmodules"], at), *_indexes(top, at)):
        there = os.fsdecode(said).split("\0")
        submodules = submodules or ".gitmodules" in there
        yield from there
    if submodules and (folders := dict.fromkeys(each for name in asked for each in _folders_of(name))):
        # Only now: a folder of many files is in many commits.
        yield from os.fsdecode(_changed_with(folders, at)).split("\0")


def _changed_with(names: Iterable[str], at: Path | None) -> bytes:
    """List the names of all that changed in the commits in which any of some names did. Raises FileFailed."""
    given = "".join(f"{name}\n" for name in ("--", *(f":(top,literal){name}" for name in names)))
    listed = call(["rev-list", "--all", "--reflog", "--full-history", "--stdin"], at=at, given=os.fsencode(given))
    # A .gitmodules may say that changes of a submodule are of no interest.
    shown = ["--ignore-submodules=none", "--no-renames", "--no-commit-id", "--name-only", "-z"]
    changed = ["diff-tree", "--stdin", "-r", "-m", "--root", *shown]
    return call(changed, at=at, given=listed)


def _folders_of(name: str) -> Iterator[str]:
    return (os.fspath(each) for each in PurePosixPath(name).parents[:-1])


def _indexes(top: Path, at: Path | None) -> Iterator[bytes]:
    """Yield the names in the index at hand, and in that of each work tree of its repository. Raises FileFailed.

    The folder of a linked work tree may be gone, or on a disk that is off: its index lies in the repository.
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
