"""Which originals git would not take into a commit as they are, by a rule of the repository's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from sessioncompress.discover import discover
from sessioncompress.errors import FileFailed
from sessioncompress.sources import Policies
from sessioncompress.staging import altered
from sessioncompress.store.beside import FOLDER, JOURNAL, beside

_OURS = f"{FOLDER}/.gitignore"
"""A run that is to commit what lies beside writes it anew."""
_FIELDS = 4


def hidden(paths: Iterable[str], config: str, preset: str) -> list[str]:
    """Return what of the sessions' originals git ignores, or would change, each with why; none without a repository.

    Where a policy has a folder of its own for them, that is its user's business.
    """
    if shutil.which("git") is None:
        return []
    found = _beside_sessions(paths, config, preset)
    return [
        each for look in (_hidden_in, _altered_in) for folder, names in found.items() for each in look(folder, names)
    ]


def _hidden_in(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """Ask git in the folder itself: each may be of another repository, and a path outside of its own ends git.

    Whoever owns it: in a container that is another than the job's user, whom a later step may have git trust.
    """
    git = ["git", "-c", "safe.directory=*", "-C", str(folder)]
    asked = [*git, "check-ignore", "--stdin", "-z", "--verbose", "--no-index"]
    stdin = b"\0".join(map(os.fsencode, names))
    # No shell reads the names, and the job's own git is meant.
    said = subprocess.run(asked, input=stdin, capture_output=True, check=False).stdout  # noqa: S603
    fields = os.fsdecode(said).split("\0")
    for start in range(0, len(fields) - 1, _FIELDS):
        source, line, rule, name = fields[start : start + _FIELDS]
        if not source.endswith(_OURS) and not rule.startswith("!"):
            yield f"{folder / name} ({source}:{line}: {rule})"


def _altered_in(folder: Path, names: Iterable[str]) -> Iterator[str]:
    with suppress(FileFailed):
        for name in altered((name for name in names if not name.endswith(JOURNAL)), folder):
            yield f"{folder / name} (.gitattributes call it a text: add '*.zst -text' at their end)"


def _beside_sessions(paths: Iterable[str], config: str, preset: str) -> Mapping[Path, list[str]]:
    """Return by their folders where a run puts the originals of each session, and the journal that tells of them."""
    found: defaultdict[Path, list[str]] = defaultdict(list)
    # What is ignored the command says.
    policies = Policies(Path(config) if config else None, preset or None, warn=lambda _: None)
    for path in (each.path for each in discover(map(Path, paths))):
        if not policies.of(path).backup_dir:
            files = beside(path)
            found[path.parent] += [f"{FOLDER}/{file.name}" for file in (files.originals, files.journal)]
    return found
