"""One session in the list of all: whether it was compressed, and what could be saved; changes nothing."""

from __future__ import annotations

from msgspec import Struct

from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.sessions import Session
from sessioncompress.pipeline import triage
from sessioncompress.policy.model import Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import beside_of


class ListedSession(Struct, frozen=True, rename="camel"):
    """One session in the list of all: `could_save` are the bytes that a run would free in all, 0 where it would not.

    `reason` then says why. `compressed`: the last run over it was no restore. `modified` counts from 1970.
    """

    path: str
    agent: str
    project: str
    id: str
    size: int
    modified: float
    compressed: bool
    could_save: int
    reason: str = ""


def listed(session: Session, policy: Policy) -> ListedSession:
    """Return what the list says of a session, by a run that writes nothing. Raises SessionCompressError."""
    would = triage.skip(session.path, policy, force=False) or compress_session(session.path, policy, dry_run=True)
    saves = would.is_smaller
    runs = journals.load(beside_of(session.path.parent.resolve() / session.path.name, policy).journal).runs
    return ListedSession(
        path=str(session.path),
        agent=session.agent,
        project=session.project,
        id=session.id,
        size=session.size,
        modified=session.modified,
        compressed=bool(runs) and not runs[-1].restored,
        could_save=would.original_size - would.compressed_size - would.backup_added if saves else 0,
        reason="" if saves else would.reason,
    )
