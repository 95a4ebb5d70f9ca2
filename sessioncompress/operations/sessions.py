"""Find the sessions of all agents on this machine; measure a session, and judge it by its budget. Changes nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.core.lines import turns_of
from sessioncompress.errors import IsALink, NotASession, SessionCompressError, failing
from sessioncompress.formats import table
from sessioncompress.operations.compress import compress_session, judge_open, refuse_in_merge, rehearse_open
from sessioncompress.pipeline import reading, triage
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, discover, is_folder
from sessioncompress.pipeline.incremental import Part
from sessioncompress.pipeline.summary import BudgetStats, CompressionStats
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_at, store_of
from sessioncompress.store.lock import open_session


class Selection(Struct, frozen=True):
    """Selects sessions by agent, project, seconds since the last change, and patterns for their paths; None: all."""

    agent: str | None = None
    project: Path | None = None
    older_than: int | None = None
    globs: Globs = EVERYTHING


class Session(Found, frozen=True):
    """A session in its agent's folder. `size` is in bytes, `modified` in seconds since 1970.

    `project` is the folder that it was begun in, as Name has it; else the one in which the agent keeps its state.
    """

    agent: str = ""
    id: str = ""
    project: str = ""
    size: int = 0
    modified: float = 0


def sessions(selection: Selection) -> Iterator[Found]:
    """Yield the selected sessions, folder by folder, and a Found with an error for what cannot be read.

    Searches the agents' folders, and those of GitClaw in the selection's project or upward from the working folder.
    Other files are passed over: agents keep much else there.
    """
    if selection.project:
        selection = replace(selection, project=Path(os.path.realpath(selection.project)))
    met: set[str] = set()
    for folder, keeper in _places(selection.project):
        for found in discover([folder], selection.globs) if is_folder(folder) else ():
            real = os.path.realpath(found.path)
            if real in met:
                continue
            met.add(real)
            try:
                one: Found | None = _looked_at(found, keeper, selection)
            except (NotASession, IsALink):
                continue
            except SessionCompressError as error:
                one = Found(found.path, named=False, error=error)
            if one is not None:
                yield one


def _places(project: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """Yield the folders to search, each with the project that an agent keeps its state in there."""
    for root in table.agent_roots():
        yield root, None
    keepers = [project] if project else []
    if project is None:
        # The working folder may have been deleted.
        with suppress(FileNotFoundError):
            here = Path.cwd()
            keepers = [here, *here.parents]
    for keeper in keepers:
        for folder in table.below(keeper):
            yield folder, keeper


def _looked_at(found: Found, keeper: Path | None, selection: Selection) -> Session | None:
    """Read a session's properties; None if it is not selected. Raises SessionCompressError."""
    if found.error is not None:
        raise found.error
    with failing(found.path):
        status = found.path.lstat()
    if selection.older_than is not None and time.time() - status.st_mtime < selection.older_than:
        return None
    form, name = reading.whose(found.path)
    if selection.agent not in (None, form.name):
        return None
    wanted = selection.project
    if wanted and keeper != wanted and name.project != sha256(os.fsencode(wanted)).hexdigest():
        # The header names the folder, if not its digest as above.
        is_path = "\0" not in name.project and Path(name.project).is_absolute()
        if not (is_path and Path(os.path.realpath(name.project)).is_relative_to(wanted)):
            return None
    return Session(
        found.path,
        named=False,
        agent=form.name,
        id=name.id,
        project=name.project or str(keeper or ""),
        size=status.st_size,
        modified=status.st_mtime,
    )


class ListedSession(Struct, frozen=True, rename="camel"):
    """One session in the list. `could_save` are the bytes that a run would free in all; if 0, `reason` says why.

    `compressed`: the last run over it was no restore. `packed`: it is in a pack. `modified` is in seconds since 1970.
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
    packed: bool = False


def listed(session: Session, policy: Policy) -> ListedSession:
    """Do a dry run over a session for the list. Raises SessionCompressError."""
    would = triage.skip(session.path, policy, force=False) or compress_session(session.path, policy, dry_run=True)
    saves = would.is_smaller
    runs = journals.load(store_at(session.path.parent.resolve() / session.path.name, policy).journal).runs
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


class Share(Struct, frozen=True, rename="camel"):
    """The blocks of one kind and tool: their number, and their bytes by standing."""

    kind: str
    tool: str
    blocks: int = 0
    protected: int = field(default=0, name="protectedBytes")
    old: int = field(default=0, name="oldBytes")
    dead: int = field(default=0, name="deadBytes")


class SessionStats(Struct, frozen=True, rename="camel"):
    """The bytes of a session, and the result of a dry run with the same policy."""

    path: str
    format: str
    size: int
    backup_size: int
    lines: int
    turns: int
    shares: tuple[Share, ...]
    would: CompressionStats


def inspect_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> SessionStats:
    """Measure the blocks of a session and do a dry run over it. `form` as in compress_session().

    Raises SessionCompressError.
    """
    with open_session(Path(path), writing=False) as session:
        # The dry run comes first, so that the session is not held twice.
        store = store_of(session.path, policy)
        would = rehearse_open(session, store, policy, form)
        known = reading.read_session(session, journals.load(store.journal), form)
        view = View(known.survey, policy, known.form, Ours())
        shares: dict[tuple[str, str], Share] = {}
        for number, standing in enumerate(view.standing):
            for block in view.lines[number].blocks:
                if not block.marked:
                    key = (block.kind.value, block.tool)
                    share = shares.get(key, Share(*key))
                    added = {standing.value: getattr(share, standing.value) + block.size}
                    shares[key] = replace(share, blocks=share.blocks + 1, **added)
        return SessionStats(
            path=str(session.path),
            format=known.form.name,
            size=session.size,
            backup_size=reading.size_of_store(store),
            lines=len(known.survey.lines),
            turns=turns_of(known.survey),
            shares=tuple(sorted(shares.values(), key=lambda share: -(share.protected + share.old + share.dead))),
            would=would,
        )


def budget_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> BudgetStats:
    """Judge a session by the rule of a policy. `form` as in compress_session(). Raises SessionCompressError."""
    # Imported here because the other commands hardly ever need it.
    from sessioncompress.pipeline.budget import Action

    with open_session(Path(path), writing=False) as session:
        store = store_of(session.path, policy)
        journal = journals.load(store.journal)
        part = Part(session, reading.read_session(session, journal, form), journal)
        refuse_in_merge(part)
        stats = judge_open(part, store, policy, form)
        return stats if policy.enabled else replace(stats, decision=Action.NONE.value, reason=triage.SWITCHED_OFF)
