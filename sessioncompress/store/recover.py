"""Begin a writing run: undo what a killed run left, and carry over late lines. Also forget a session's store."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path

from sessioncompress.core import jsonl
from sessioncompress.core.documents import undo_of
from sessioncompress.core.text import counted, quote
from sessioncompress.errors import Damaged, Refused, failing
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk, folder
from sessioncompress.store import journal as journals
from sessioncompress.store.late_links import LeftOver, holding_state
from sessioncompress.store.layout import (
    FOLDER,
    Lengths,
    OtherStores,
    Store,
    backups_of,
    draft_of,
    hidden_in,
    holds,
    plain_in,
    sessions_named,
    size_of,
    store_of,
    writers,
)
from sessioncompress.store.lock import OpenForWriting, OpenSession, held, lock, open_file
from sessioncompress.store.machine import folder_name
from sessioncompress.store.swap import LINK_SECONDS, Replaced, drain, is_done, is_rewritten, state_of


def _refuse_if_needed(session: OpenSession, store: Store, lengths: Lengths, *, salvaging: bool) -> None:
    """Raise Damaged unless the committed bytes exist, and the session does not need anything after them.

    If `salvaging`, originals may have lost bytes or be gone: they stay, and what is left is read. No file is opened if
    nothing follows the committed bytes.
    """
    originals, journal = size_of(store.originals) or 0, size_of(store.journal)
    if Lengths(originals, journal or 0) == lengths and not (originals and journal is None):
        return
    from sessioncompress.store.damage import any_readable, refuse_if_no_journal, refuse_if_of_another, too_short

    refuse_if_no_journal(store)
    loaded = None
    if originals != lengths.originals:
        # Whoever needs its contents reports that it can't be read.
        with suppress(Damaged):
            loaded = journals.load(store.journal)
    if originals < lengths.originals and not salvaging:
        left = loaded is not None and any_readable(store.originals, loaded)
        raise too_short(store.originals, originals, lengths.originals, left=left)
    if (journal or 0) < lengths.journal:
        raise too_short(store.journal, journal or 0, lengths.journal)
    if originals >= lengths.originals and loaded is not None:
        refuse_if_of_another(store, loaded)
    _refuse_unless_a_trace(session, store, lengths)


def _refuse_unless_a_trace(session: OpenSession, store: Store, lengths: Lengths) -> None:
    """Raise Damaged unless the bytes after the committed ones are only the trace of a killed run.

    The session's own lines are the witness. A run that was killed before its commit has not replaced the session: the
    session still holds each original that the run kept, and none of the lines that it meant to write. If it holds such
    a line, the journal has lost the record of a run. If it only lacks an original, the agent may have changed that line
    since; only the user knows. Originals that can't be read may be needed too.
    """
    from sessioncompress.store.damage import first_damaged, readable_lines

    kept: set[bytes] = set()
    standing: set[bytes] = set()
    document = jsonl.document_of(session.reader, session.size) if session.size else None
    for line in readable_lines(store.originals, lengths.originals):
        kept.add(digest := sha256(line).digest())
        if document is not None and _holds(document.raw, line):
            standing.add(digest)
    written = {bytes.fromhex(each) for each in journals.uncommitted(store.journal, lengths.journal)}
    lines = jsonl.pieces_of(session.reader, session.size) if document is None else document.pieces()
    for _, raw, whole in lines:
        # A message that is not a line of its own is kept as one.
        for line in (raw,) if raw.endswith(b"\n") else (raw, raw + b"\n"):
            if whole and ((digest := sha256(line).digest()) in kept or digest in written):
                standing.add(digest)
    replaced, missing = len(written & standing), len(kept - standing)
    gone = counted(max(replaced, missing), "line", "lines")
    lost = f"lost the record of a run that replaced {gone} of the session"
    prints = f"'zstd -dc {quote(str(store.originals))}' prints the originals"
    way_out = (
        f"cut off what the killed run left: everything after the first {lengths.originals} bytes of "
        f"{store.originals.name} and the first {lengths.journal} bytes of {store.journal.name}"
    )
    if lengths == Lengths():
        way_out = "'sessioncompress forget' deletes them"
    where = store.journal
    if replaced:
        what = f"it has {lost}"
        remedy = f"Put the journal back from a backup. {prints}; 'sessioncompress forget' deletes them."
    elif missing:
        since = f"of {counted(len(kept), 'line', 'lines')} that it kept {missing:,} changed since"
        what = f"either it has {lost}, or a run was killed, and {since}"
        remedy = f"If it lost a record, put it back from a backup. {prints}. If not, {way_out}."
    elif (damaged := first_damaged(store.originals, lengths.originals)) is not None:
        where = store.originals
        what = f"the originals cannot be read from byte {damaged:,} on, and {store.journal.name} names none of these"
        remedy = f"Put both back from a backup. If they are only what a killed run left, {way_out}."
    else:
        return
    raise Damaged(what, where=where, state="The session and its originals were not changed.", remedy=remedy)


def _holds(document: bytes, kept: bytes) -> bool:
    """Return True if a document still has what was kept of it: a message, or the text that a checkpoint replaces."""
    try:
        edits = undo_of(kept).edits
    except (ValueError, KeyError, TypeError):
        return kept.removesuffix(b"\n") in document
    # An edit that removes nothing leaves the old text in the document too, so look for the new text first.
    is_written = all(made in document for _, made, _ in edits)
    return not is_written and all(was in document for _, _, was in edits)


def recover(session: OpenSession, store: Store, lengths: Lengths, *, salvaging: bool = False) -> int:
    """Restore a session and its store to the state of the last commit; return the number of bytes carried over.

    Every writing run does this first, before it reads the session. If nothing is left over, nothing is written. If
    lines were carried over, `session` is the new file afterwards. Raises Damaged if a store file has lost bytes, or if
    the journal or the record of a run that the session needs is missing; InUse if the session cannot be replaced now;
    FileFailed. If `salvaging`, leave alone originals that have lost bytes or are gone.
    """
    check(session, store, lengths, salvaging=salvaging)
    with failing(session.path):
        cut_back(store.originals, lengths.originals)
        cut_back(store.journal, lengths.journal)
        carried = _carry_over_all(session)
        folder.tidy_after(store)
    return carried


def cut_back(path: Path, length: int) -> None:
    """Cut one of a store's files back to `length` bytes; remove it if they are none. Raises OSError and Refused."""
    size = size_of(path)
    if size is not None and length == 0:
        disk.remove(path)
    elif size is not None and size > length:
        with disk.closing(disk.open_existing(path)) as fd:
            folder.refuse_other_names(path, fd)
            disk.cut(fd, length)
            disk.system.fsync(fd)


def brought_home(session: OpenSession, policy: Policy, *, writing: bool = True) -> Store:
    """Move a session's store to where it belongs, and return it there; see Store. Unless `writing`, move nothing.

    A store that git ignores, or that is in no repository, is moved to this user's folder, no matter who made it. No
    checkout can overwrite it there, not even one of a repository that is created later or is elsewhere. A store to be
    committed is copied to where git sees it; the other copy stays, because other branches may need it. If the session
    holds no lines of a store that a branch brought, ignore that store and begin our own. Remove what a killed move
    left.

    Raises the errors of recover(). Raises Refused if another store is already there, or if git sees the existing store
    and only others made it: that does not mean that this user's originals may be committed.
    """
    store, backups = store_of(session.path, policy), backups_of(session.path, policy)
    plain, own = plain_in(session.path, backups), hidden_in(session.path, folder_name(), backups)
    due = store
    if policy.commit_originals:
        due = plain
    elif store != own and holds(store):
        folder.refuse_linked(store.journal)
        if folder.may_move(store):
            due = own
        elif not (ours := writers(store.journal, session.path)):
            return own
        elif policy.keep_backup and not any(ours):
            # Report first if git changed its line ends.
            journals.load(store.journal)
            what = f"git sees its store in {store.folder}, and others made it: a run would add originals to it"
            remedy = (
                "Run with --commit-originals if they may go into commits. Else move the store's two files away, after "
                "'sessioncompress restore' if you trust them."
            )
            raise Refused(what, where=session.path, remedy=remedy)
    if not writing:
        return store
    if due == store or not holds(store):
        if store == own and begins(plain, own) and folder.may_move(plain):
            with failing(session.path):
                _remove(plain)
            folder.tidy_after(plain)
        return store
    if holds(due) and not begins(due, store):
        others = OtherStores(session.path, due, backups)
        if not (needed := others.known(jsonl.pieces_of(session.reader, session.size)).get(store.journal, 0)):
            return due
        known = counted(needed, "line of it is", "lines of it are")
        what = f"it has two stores, and {known} known only to {store.journal}, not to that in {due.folder}"
        raise Refused(what, where=session.path, remedy="'sessioncompress restore' it first.")
    recover(session, store, journals.load(store.journal).lengths)
    with failing(session.path):
        # Copy the journal last and remove it first: a store without one is ignored if another store has one.
        for path, to in ((store.originals, due.originals), (store.journal, due.journal)):
            if os.path.lexists(path):
                _copy(path, to, shown=() if due.is_hidden else folder.names_of(due))
        if due == own:
            _remove(store)
    folder.tidy_after(store)
    return due


def begins(part: Store, whole: Store) -> bool:
    """Return True if a store is only a beginning of another, as after a killed move."""
    if not holds(part):
        return False
    for one, other in ((part.originals, whole.originals), (part.journal, whole.journal)):
        size = size_of(one)
        if size is None:
            continue
        with suppress(OSError, Refused), disk.closing(open_file(one)) as fd, disk.closing(open_file(other)) as there:
            if disk.sha256_of(fd, 0, size) == disk.sha256_of(there, 0, size):
                continue
        return False
    return True


def _copy(path: Path, to: Path, *, shown: Sequence[str]) -> None:
    draft = draft_of(to)
    disk.remove(draft)
    with (
        disk.closing(open_file(path)) as fd,
        disk.reader(fd, 0, os.fstat(fd).st_size) as file,
        disk.closing(folder.create_in_folder(draft, exclusive=True, shown=shown)) as made,
    ):
        for piece in iter(lambda: file.read(disk.BUFFER), b""):
            disk.write_all(made, piece)
        disk.system.fsync(made)
    disk.system.replace(draft, to)
    disk.flush_folder(to.parent)


def _remove(store: Store) -> None:
    for path in (store.journal, store.originals):
        disk.remove(path)
        disk.flush_folder(store.folder)


def check(session: OpenSession, store: Store, lengths: Lengths, *, salvaging: bool = False) -> None:
    """Raise recover()'s errors about a store, for commands that change nothing."""
    with failing(session.path):
        folder.refuse_linked_folder(store.work)
        folder.refuse_linked(store.originals)
        _refuse_if_needed(session, store, lengths, salvaging=salvaging)
        _refuse_what_others_wrote(session)


def _refuse_what_others_wrote(session: OpenSession) -> None:
    """Raise Refused if another program's newest text may be in our folder because of a race.

    Either it rewrote the file just after a run replaced it, or it put a new file in the session's place just before a
    run was killed. Only the user can decide which one counts.
    """
    links = session.left_over.replaced(session.stat.st_ino)
    drafts = {path: path.lstat().st_ino for path in session.left_over.drafts}
    for state in chain.from_iterable(links.values()):
        path = state.path(session.path)
        with disk.closing(open_file(path)) as late:
            if is_rewritten(session, state, Replaced(late)):
                raise _of_others(session, path, "another program rewrote this file, which a run replaced")
        for draft, inode in drafts.items():
            if draft.name.endswith(f".temp-{state.draft}") and inode not in (state.inode, state.successor):
                raise _of_others(session, draft, "another program put this file in the session's place as a run ended")


def _of_others(session: OpenSession, path: Path, what: str) -> Refused:
    remedy = f"Compare the two, move the right one to {session.path}, remove the other, and run again."
    return Refused(what, where=path, remedy=remedy)


def removable(session: OpenSession) -> list[Path]:
    """List the drafts and late links that recover() would remove now."""
    with failing(session.path):
        left_over, inode = session.left_over, session.stat.st_ino
        going = list(dict.fromkeys([*left_over.drafts, *left_over.names_of(inode)]))
        for states in left_over.replaced(inode).values():
            with disk.closing(open_file(states[0].path(session.path))) as late:
                keeps, holding = holding_state(states, inode), held(late)
                rewritten = is_rewritten(session, state_of(session, late), Replaced(late))
                goes = not rewritten and is_done(late, holding, keeps)
            going += [state.path(session.path) for state in states if goes or state != keeps]
    return going


def forget(session: OpenSession, store: Store) -> list[Path]:
    """Delete a session's store; return the late links that must stay.

    First carry over late lines. A link stays if more lines may arrive, or if its file was rewritten. Delete the journal
    last: after a crash in between, it shows what is missing, and a second forget finishes.
    """
    with failing(session.path):
        _carry_over_all(session)
        for path in (store.originals, store.journal):
            disk.remove(path)
        if store.folder.is_dir():
            # A deleted secret must not reappear after a power cut.
            disk.flush_folder(store.folder)
        folder.tidy_after(store)
        return session.left_over.links


def refuse_unless_deletable(stores: Iterable[Store]) -> None:
    """Raise PermissionError if this user may not delete one of these stores.

    Ask before anything is deleted: a deleted journal next to originals that cannot be removed would help no one.
    """
    for store in stores:
        for each in (store.folder, store.folder.parent) if store.is_hidden else (store.folder,):
            if each.is_dir() and not os.access(each, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), each)


def _carry_over_all(session: OpenSession) -> int:
    """Undo what killed runs left half done, and bring late lines into the session; return the number of bytes."""
    # Links to the session itself: from a run killed before the swap, or after the old file was put back.
    if names := session.left_over.names_of(session.stat.st_ino):
        for path in names:
            disk.remove(path)
        del session.left_over
    left_over = session.left_over
    # Drop unused links of a killed swap. Drop them before any temp file: until then no other file can get the inode
    # number of a successor that was not put in place.
    for states in left_over.late.values():
        counts = holding_state(states, session.stat.st_ino)
        left_over.drop(state for state in states if state != counts)
    while left_over.drafts:
        disk.remove(left_over.drafts[-1])
        left_over.drafts.pop()
    carried = 0
    for inode in left_over.late:
        # Draining one file may have carried over others.
        if links := left_over.late.get(inode):
            with disk.closing(open_file(links[0].path(session.path))) as late:
                carried += drain(session, Replaced(late))
    return carried


def sweep(where: Path) -> None:
    """Delete temp files of sessions that no longer exist: no later run would recover those.

    There is no session to lock. So a temp file counts as in use if it is locked, open for writing or young.
    """
    work = where / FOLDER
    # Files that can't be deleted do no harm.
    with suppress(OSError, Refused):
        folder.refuse_linked_folder(work)
        for name in sessions_named(work):
            for path in () if os.path.lexists(where / name) else LeftOver(where / name).drafts:
                with disk.closing(open_file(path)) as fd:
                    is_old = time.time() - os.fstat(fd).st_mtime > LINK_SECONDS
                    if is_old and lock(fd) and held(fd) is not OpenForWriting.YES:
                        disk.remove(path)
        folder.tidy(work)
        if where.parent.name == FOLDER and not os.path.lexists(where.parent.parent / where.name):
            # It has the stores of a database, which is gone.
            folder.tidy(where)
            folder.tidy(where.parent)
