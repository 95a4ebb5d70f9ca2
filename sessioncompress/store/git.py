"""The one way to call git. No program that a repository's own configuration names is run.

A repository's configuration is data from whoever made it. A folder that looks like a bare repository can be committed
as ordinary files, and a `.git` folder comes with any unpacked archive. The environment and the user's configuration
are the user's own, and count.
"""

from __future__ import annotations

import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from sessioncompress.errors import FileFailed, failing

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
    kept = () if at else _OF_A_COMMIT
    named = {name: value for name, value in os.environ.items() if name in kept or name.startswith(_KEPT)}
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        with failing("git", state):
            # No shell reads the names, and the user's own git is meant.
            done = subprocess.run(  # noqa: S603
                ["git", *options, *arguments],  # noqa: S607
                cwd=at,
                env={**others, **named, **_SET},
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
