"""Where a policy puts what belongs to a session."""

from __future__ import annotations

import os
from pathlib import Path

from sessioncompress.errors import NOT_CHANGED, Refused, UsageError
from sessioncompress.policy.model import Policy
from sessioncompress.store.layout import Beside, beside

_NO_FOLDER = '{"session": {"backupDir": null}}'
"""A policy file that takes back the folder of a user's configuration."""


def beside_of(path: Path, policy: Policy) -> Beside:
    """Name what lies beside a session; a relative `backupDir` counts from the session's folder. Raises UsageError."""
    if not policy.backup_dir:
        return beside(path)
    folder = path.parent / backup_folder(policy.backup_dir, path)
    # The system knows no way through a folder that is gone, not even up and out of it.
    return beside(path, folder if path.parent.exists() else Path(os.path.normpath(folder)))


def store_of(path: Path, policy: Policy) -> Beside:
    """Name what lies beside a session, for a command that works on it.

    Raises Refused where nothing of the session lies in the backup folder, but its store lies beside it: a second one
    would part what belongs together, and what the first one holds would pass for lost.
    """
    files = beside_of(path, policy)
    there = store_beside(path, policy)
    if there is None or holds(files):
        return files
    raise Refused(
        f"its originals lie in {there.folder}, not in the backup folder {files.folder}",
        where=path,
        state=NOT_CHANGED,
        remedy="Run without --backup-dir (where your configuration has backupDir, with a --config file of "
        f"'{_NO_FOLDER}'), also to 'restore' and 'forget' it first. Or move its two files: "
        f"{there.originals.name} to {files.originals}, and {there.journal.name} to {files.journal}.",
    )


def store_beside(path: Path, policy: Policy) -> Beside | None:
    """Name the store that lies beside a session although its policy has a backup folder; None where none does."""
    there = beside(path)
    return there if policy.backup_dir and holds(there) else None


def holds(files: Beside) -> bool:
    """Tell whether anything of a session's store is there."""
    return os.path.lexists(files.originals) or os.path.lexists(files.journal)


def backup_folder(named: str, where: Path) -> Path:
    """Return a policy's backup folder, of which `~` is a home. Raises UsageError where nobody has that home."""
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"the policy's backupDir is {named!r}, but there is no such home",
            where=where,
            state=NOT_CHANGED,
            remedy="Name a folder that is there.",
        ) from error
