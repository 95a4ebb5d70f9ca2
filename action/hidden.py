"""Which originals git would not take into a commit as they are, by a rule of the repository's own."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from sessioncompress import git
from sessioncompress.discover import discover
from sessioncompress.errors import FileFailed, Refused
from sessioncompress.places import beside_of
from sessioncompress.sources import Policies
from sessioncompress.staging import altered
from sessioncompress.store.folder import show_to_git

_FIELDS = 4
_OPTIONS = {"commit_originals": True}
"""What the command is asked with: what a policy says of the same is then no error."""


def hidden(paths: Iterable[str], config: str, preset: str) -> list[str]:
    """Return what of the sessions' originals git ignores, or would change, each with why; none without a repository.

    What an earlier run of ours hid is shown first, as the command does it: what it hid may also be hidden by a rule of
    the repository's own. A work tree in which git does not answer is returned too: nobody knows then. A folder for
    originals that lies in another work tree than the session, or in none, is its user's business.
    """
    if shutil.which("git") is None:
        return []
    found: list[str] = []
    for top, files in _by_work_tree(paths, config, preset).items():
        try:
            found += _ignored(top, files)
            found += _altered(top, files)
        except FileFailed as error:
            found.append(f"{top} ({error.what})")
    return found


def _ignored(top: Path, files: Mapping[str, Path]) -> Iterator[str]:
    given = b"\0".join(map(os.fsencode, files))
    asked = ["check-ignore", "--stdin", "-z", "--verbose", "--no-index"]
    said = git.call(asked, at=top, trusted=_checkout(), given=given, fine=(0, 1))
    fields = os.fsdecode(said).split("\0")
    for start in range(0, len(fields) - 1, _FIELDS):
        source, line, rule, name = fields[start : start + _FIELDS]
        if not rule.startswith("!"):
            yield f"{files[name]} ({source}:{line}: {rule})"


def _altered(top: Path, files: Mapping[str, Path]) -> Iterator[str]:
    for name, rule in altered(files, top, _checkout()).items():
        yield f"{files[name]} (.gitattributes have its bytes changed: add '{rule}' at their end)"


def _checkout() -> str:
    """Return the folder of the workflow's checkout: in a job's container it is another user's."""
    return os.environ.get("GITHUB_WORKSPACE", "")


def _by_work_tree(paths: Iterable[str], config: str, preset: str) -> Mapping[Path, dict[str, Path]]:
    """Return by work tree where a run puts each session's originals and journal, by their names from its top."""
    found: defaultdict[Path, dict[str, Path]] = defaultdict(dict)
    # What is ignored the command says.
    policies = Policies(Path(config) if config else None, preset or None, _OPTIONS, warn=lambda _: None)
    for path in (each.path for each in discover(map(Path, paths))):
        top = next(git.work_trees(path.parent), None)
        if top is None:
            continue
        files = beside_of(path, policies.of(path))
        folder = Path(os.path.realpath(files.folder))
        if next(git.work_trees(folder), None) == top:
            # What cannot be shown is hidden by ours.
            with suppress(Refused):
                show_to_git(files)
            # Begins with "./", so that git takes no name for one of its patterns.
            within = f"./{os.path.relpath(folder, top)}"
            for file in (files.originals, files.journal):
                found[top][f"{within}/{file.name}"] = file
    return found
