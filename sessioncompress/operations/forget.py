"""Delete what lies beside a session: for a secret that must go, or when restoring is not wanted any more."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.core.jsonl import pieces_of
from sessioncompress.errors import Damaged, Refused, SessionCompressError, UsageError, failing
from sessioncompress.operations import stores
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.markers import referring, strangers_of, unknown_to
from sessioncompress.pipeline.relatives import Kin
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store import recover
from sessioncompress.store.damage import readable_lines
from sessioncompress.store.folder import refuse_folders, refuse_linked_folder
from sessioncompress.store.layout import Beside, size_of, store_of
from sessioncompress.store.lock import OpenSession, open_session


class ForgetStats(Struct, frozen=True, rename="camel"):
    """What `forget` deletes beside one session: bytes, originals, and how many of them stand nowhere else.

    `gone`: the session itself does not exist any more. `links_kept` late links of it stay: a program has them open for
    writing, or lines came late that stand nowhere else, or they are not of this user's runs on this machine. `markers`
    stand in the session that no journal here knows: another store is elsewhere, or was deleted. `referring` are the
    names of other sessions in its folder with markers that these originals alone can expand.
    """

    path: str
    bytes_deleted: int
    originals: int
    originals_lost: int
    gone: bool = False
    links_kept: int = 0
    markers: int = 0
    referring: tuple[str, ...] = ()


def forget_session(path: Path | str, policy: Policy = BALANCED, *, dry_run: bool = False) -> ForgetStats:
    """Delete a session's originals and journal; with `dry_run` only say what that would lose.

    The session itself is not touched: its markers then name originals that are gone. A journal that cannot be read
    is deleted too. The session may be gone itself where files of ours still lie there. Raises SessionCompressError:
    NotASession where a file is no session, and nothing lies beside it.
    """
    return forget_one(path, policy, Kin(), dry_run=dry_run)


def forget_one(path: Path | str, policy: Policy, kin: Kin, *, dry_run: bool = False) -> ForgetStats:
    """Do the same for one of many sessions, which share what is known of their folders."""
    if not _is_there(path):
        return forget_gone(path, policy, kin, dry_run=dry_run)
    with open_session(Path(path), writing=not dry_run) as session:
        beside = store_of(session.path, policy)
        journal = _journal(beside)
        done = forget_open(session, beside, policy, kin, dry_run=dry_run)
        if not (done.bytes_deleted or done.links_kept):
            reading.refuse_unless_session(session)
        # Where the journal cannot be read, nothing tells whose the markers are.
        unknown = unknown_to(journal, strangers_of(session, journals.Journal())) if journal else []
        return replace(done, markers=len(unknown))


def forget_open(
    session: OpenSession, beside: Beside, policy: Policy, kin: Kin, *, dry_run: bool = False
) -> ForgetStats:
    """Do the same for a session that is open, and locked where something is to go."""
    journal = _journal(beside)
    stored = _stored(beside, journal)
    if stored:
        # Which lines will be left of it, and what of the originals they hold, is not decided yet.
        reading.refuse_in_merge(session)
    refer = _referring(session.path, beside, journal, policy, kin) if stored else ()
    lost = stored - _standing(session, stored)
    going, kept = recover.leftovers(session, beside)
    size = reading.size_beside(beside) + reading.size_of_names(going)
    if not dry_run:
        kept = recover.forget(session, beside)
    return ForgetStats(str(session.path), size, len(stored), len(lost), links_kept=len(kept), referring=refer)


def _is_there(path: Path | str) -> bool:
    """Say whether anything lies at the path. Raises FileFailed where only others may know it."""
    with failing(path):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def forget_gone(path: Path | str, policy: Policy, kin: Kin, *, dry_run: bool = False) -> ForgetStats:
    """Do the same for a session that is gone. Raises SessionCompressError."""
    path = Path(path)
    path = path.parent.resolve() / path.name
    beside = store_of(path, policy)
    with failing(path, state=""):
        needed = stores.needed_links(path, beside)
        left = [each for each in stores.remains(path, beside) if each not in needed]
        size = reading.size_beside(beside) + sum(each.lstat().st_size for each in left)
    if not size and not needed:
        raise UsageError("it does not exist, and nothing of ours lies there for it", where=path)
    journal = _journal(beside)
    number = len(_stored(beside, journal))
    refer = _referring(path, beside, journal, policy, kin) if number else ()
    if not dry_run:
        stores.forget_gone(path, beside)
    return ForgetStats(str(path), size, number, number, gone=True, links_kept=len(needed), referring=refer)


def _journal(beside: Beside) -> journals.Journal | None:
    """Return the journal, None where it cannot be read, or is a link, a pipe or the like, which goes as it is.

    Raises Refused where a folder lies in the place of a file, or our folder is a link.
    """
    refuse_linked_folder(beside.work)
    refuse_folders(beside)
    try:
        return journals.load(beside.journal, to_hole=True)
    except (Damaged, Refused):
        return None


def _referring(
    session: Path, beside: Beside, journal: journals.Journal | None, policy: Policy, kin: Kin
) -> tuple[str, ...]:
    """Return the names of the sessions here whose markers only these originals can expand."""
    ids = set(journal.session_ids) if journal else set()
    with suppress(SessionCompressError):
        ids.add(reading.whose(session)[1].id)
    return tuple(referring(session, ids, beside, journal, policy, kin))


def _stored(beside: Beside, journal: journals.Journal | None) -> set[bytes]:
    """Return the SHA-256 of the originals that are stored; where the journal cannot say it, of all that can be read."""
    if journal is None or not journal.runs:
        found: set[bytes] = set()
        with suppress(Refused):
            found.update(sha256(line).digest() for line in readable_lines(beside.originals, 0))
        return found
    size = size_of(beside.originals) or 0
    records = ((row, journal.line(row).place) for row in journal.kept)
    return {journal.original_of(row) for row, place in records if place and place.frame < size}


def _standing(session: OpenSession, stored: set[bytes]) -> set[bytes]:
    """Return which of the originals stand in the session."""
    read = pieces_of(session.reader, session.size) if stored else ()
    return {digest for _, raw, whole in read if whole and (digest := sha256(raw).digest()) in stored}
