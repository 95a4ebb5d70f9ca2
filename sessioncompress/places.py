"""Where a policy puts what belongs to a session."""

from __future__ import annotations

import os
from pathlib import Path

from sessioncompress.errors import NOT_CHANGED, UsageError
from sessioncompress.policy import Policy
from sessioncompress.store.beside import Beside, beside


def beside_of(path: Path, policy: Policy) -> Beside:
    """Name what lies beside a session; a relative `backupDir` counts from the session's folder. Raises UsageError."""
    if not policy.backup_dir:
        return beside(path)
    folder = path.parent / backup_folder(policy.backup_dir, path)
    # The system knows no way through a folder that is gone, not even up and out of it.
    return beside(path, folder if path.parent.exists() else Path(os.path.normpath(folder)))


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
