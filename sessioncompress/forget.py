"""Delete what lies beside a session: for a secret that must go, or when restoring is not wanted any more."""

from __future__ import annotations

from pathlib import Path

from sessioncompress import files
from sessioncompress.policy import BALANCED, Policy
from sessioncompress.stats import ForgetStats
from sessioncompress.store import journal as journals
from sessioncompress.store import recover
from sessioncompress.store.lock import open_session


def forget_session(path: Path | str, policy: Policy = BALANCED, *, dry_run: bool = False) -> ForgetStats:
    """Delete a session's originals and journal; with `dry_run` only say what that would lose.

    The session itself is not touched: its markers then name originals that are gone. A journal that cannot be read
    is deleted too. Raises SessionCompressError.
    """
    with open_session(Path(path), writing=not dry_run) as session:
        beside = files.beside_of(session.path, policy)
        lost = journals.count_originals(beside.journal)
        stats = ForgetStats(str(session.path), files.size_beside(beside), lost)
        if not dry_run:
            recover.forget(session, beside)
    return stats
