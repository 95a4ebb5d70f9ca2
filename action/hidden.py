"""Which originals git would not take into a commit, by a rule of the repository's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from sessioncompress.config import policy_for
from sessioncompress.discover import discover
from sessioncompress.store.beside import FOLDER, beside

_OURS = f"{FOLDER}/.gitignore"
"""A run that is to commit what lies beside writes it anew."""
_FIELDS = 4


def hidden(paths: Iterable[str], config: str, preset: str) -> list[str]:
    """Return what of the sessions' originals git ignores, each with the rule; none where there is no repository.

    Where a policy has a folder of its own for them, that is its user's business.
    """
    names = list(_originals(paths, config, preset))
    if not names or shutil.which("git") is None:
        return []
    asked = ["git", "check-ignore", "--stdin", "-z", "--verbose", "--no-index"]
    stdin = b"\0".join(map(os.fsencode, names))
    # No shell reads the names, and the job's own git is meant.
    said = subprocess.run(asked, input=stdin, capture_output=True, check=False).stdout  # noqa: S603
    fields = os.fsdecode(said).split("\0")
    rows = [fields[start : start + _FIELDS] for start in range(0, len(fields) - 1, _FIELDS)]
    return [
        f"{name} ({source}:{line}: {rule})"
        for source, line, rule, name in rows
        if not source.endswith(_OURS) and not rule.startswith("!")
    ]


def _originals(paths: Iterable[str], config: str, preset: str) -> Iterator[Path]:
    """Yield where a run puts the originals of each session."""
    for found in discover(map(Path, paths)):
        if not policy_for(found.path, Path(config) if config else None, preset or None).backup_dir:
            yield beside(found.path).originals
