"""Which originals or sessions git would not take into a commit as they are, by a rule of the repository's own."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sessioncompress.cli.pre_commit import altered
from sessioncompress.errors import FileFailed, NotASession, Refused, SessionCompressError
from sessioncompress.pipeline.discover import discover
from sessioncompress.pipeline.reading import whose
from sessioncompress.policy.sources import Policies
from sessioncompress.store import git
from sessioncompress.store.folder import show_to_git
from sessioncompress.store.layout import backups_of, plain_in

_FIELDS = 4
_OPTIONS = {"commit_originals": "committed"}
"""What the command is asked with: what a policy says of the same is then no error."""


class _Names(NamedTuple):
    """Sessions, and where a run puts the originals and the journal of each, by their names from a work tree's top."""

    sessions: dict[str, Path]
    beside: dict[str, Path]


def hidden(paths: Iterable[str], config: str, preset: str) -> list[str]:
    """Return which originals git ignores, or would change, or the session, each with why; none without a repository.

    What an earlier run of ours hid is shown first, as the command does it: what it hid may also be hidden by a rule of
    the repository's own. A work tree in which git does not answer is returned too: nobody knows then. A folder for
    originals that lies in another work tree than the session, or in none, is its user's business.
    """
    if shutil.which("git") is None:
        return []
    found: list[str] = []
    for top, names in _by_work_tree(paths, config, preset).items():
        try:
            found += _ignored(top, names.beside)
            found += _altered(top, names)
        except FileFailed as error:
            found.append(f"{top} ({error.what})")
    return found


def _ignored(top: Path, files: Mapping[str, Path]) -> Iterator[str]:
    given = b"\0".join(map(os.fsencode, files))
    asked = ["check-ignore", "--stdin", "-z", "--verbose", "--no-index"]
    said = git.call(asked, at=top, trusted=checkout(), given=given, fine=(0, 1))
    fields = os.fsdecode(said).split("\0")
    for start in range(0, len(fields) - 1, _FIELDS):
        source, line, rule, name = fields[start : start + _FIELDS]
        if not rule.startswith("!"):
            yield f"{files[name]} ({source}:{line}: {rule})"


def _altered(top: Path, names: _Names) -> Iterator[str]:
    for name, rule in altered(names.sessions, names.beside, top, checkout()).items():
        path = names.sessions.get(name)
        if path is None or _is_session(path):
            yield (
                f"{path or names.beside[name]} (.gitattributes have its bytes changed: add '{rule}' at the end of the "
                "one nearest to it, and 'git add --renormalize' the file)"
            )


def _is_session(path: Path) -> bool:
    """Return whether a file that may be a session by its name is one; where it cannot be told, it counts as one."""
    try:
        whose(path)
    except NotASession:
        return False
    except SessionCompressError:
        return True
    return True


def checkout() -> str:
    """Return the folder of the workflow's checkout: in a job's container it is another user's."""
    return os.environ.get("GITHUB_WORKSPACE", "")


def _by_work_tree(paths: Iterable[str], config: str, preset: str) -> Mapping[Path, _Names]:
    """Return what is to be in a commit together, by the work tree."""
    found: defaultdict[Path, _Names] = defaultdict(lambda: _Names({}, {}))
    # What is ignored the command says.
    policies = Policies(Path(config) if config else None, preset or None, _OPTIONS, warn=lambda _: None)
    for path in (each.path for each in discover(map(Path, paths))):
        top = next(git.work_trees(path.parent), None)
        if top is None:
            continue
        # What is hidden now moves there.
        files = plain_in(path, backups_of(path, policies.of(path)))
        folder = Path(os.path.realpath(files.folder))
        if next(git.work_trees(folder), None) == top:
            # What cannot be shown is hidden by ours.
            with suppress(Refused):
                show_to_git(files)
            found[top].sessions[_within(top, path)] = path
            for file in (files.originals, files.journal):
                found[top].beside[_within(top, file)] = file
    return found


def _within(top: Path, file: Path) -> str:
    """Return a file's name from the top; it begins with "./", so that git takes it for none of its patterns."""
    return f"./{os.path.relpath(os.path.realpath(file.parent), top)}/{file.name}"
