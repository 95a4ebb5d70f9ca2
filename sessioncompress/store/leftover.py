"""What lies behind the committed bytes beside a session: the trace of a killed run, or what the session needs."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from shlex import quote

from sessioncompress.errors import NOT_CHANGED, Damaged
from sessioncompress.store import journal as journals
from sessioncompress.store.growing import or_from_git, too_short
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Beside, Lengths, size_of
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import LONGEST_LINE


def refuse_if_needed(session: OpenSession, files: Beside, lengths: Lengths, *, salvaging: bool = False) -> None:
    """Raise Damaged unless what is committed is there, and the session can do without what lies behind it.

    The session's own lines are the witness. A run that was killed before its commit has not replaced the session:
    each original that it kept still stands there, and no line that it meant to write does. Where a line that it meant
    to write stands, the journal has lost the record of a run. Where only an original does not, the agent may as well
    have changed it since: only the user knows. Where nothing lies behind, no file is opened. If `salvaging`, originals
    may have lost bytes, or be gone: they stay as they are, and what is left of them is read.
    """
    originals, journal = size_of(files.originals), size_of(files.journal)
    if originals and journal is None:
        raise Damaged(
            "the journal of these originals is missing",
            where=files.originals,
            state=NOT_CHANGED,
            remedy=f"Put {files.journal.name} back from a backup{or_from_git(files.journal)}. Without it "
            f"'zstd -dc {quote(files.originals.name)}' still prints the originals; then move "
            "them away, or 'sessioncompress forget' deletes them.",
        )
    behind = Lengths(originals or 0, journal or 0) != lengths
    if not behind:
        return
    # Imported here, as below, because hardly any run is killed.
    from sessioncompress.store.damage import refuse_if_of_another
    from sessioncompress.store.salvage import any_readable

    loaded = _loaded(files) if originals != lengths.originals else None
    for path, size, committed in (
        (files.originals, originals or 0, lengths.originals),
        (files.journal, journal or 0, lengths.journal),
    ):
        if size < committed and not (salvaging and path == files.originals):
            left = path == files.originals and loaded is not None and any_readable(path, loaded)
            raise too_short(path, size, committed, left=left)
    is_short = (originals or 0) < lengths.originals
    if not is_short and loaded is not None:
        refuse_if_of_another(files, loaded)
    _refuse_unless_a_trace(session, files, lengths)


def _loaded(files: Beside) -> Journal | None:
    """Return the journal, None where it cannot be read: whoever needs what it says tells that."""
    try:
        return journals.load(files.journal)
    except Damaged:
        return None


def _refuse_unless_a_trace(session: OpenSession, files: Beside, lengths: Lengths) -> None:
    """Raise Damaged unless what lies behind the committed bytes is only the trace of a killed run."""
    from sessioncompress.store.salvage import readable_lines

    kept = {sha256(line).digest() for line in readable_lines(files.originals, lengths.originals)}
    written = {bytes.fromhex(record.rewritten) for record in journals.uncommitted(files.journal, lengths.journal)}
    standing = {digest for line in _lines(session) if (digest := sha256(line).digest()) in kept or digest in written}
    replaced, missing = len(written & standing), len(kept - standing)
    if not replaced and not missing:
        _refuse_if_damaged(files, lengths)
        return
    lost = f"lost the record of a run that replaced {_lines_of(max(replaced, missing))} of the session"
    prints = f"'zstd -dc {quote(files.originals.name)}' prints the originals"
    if replaced:
        what = f"it has {lost}"
        remedy = f"Put the journal back from a backup. {prints}; 'sessioncompress forget' deletes them."
    else:
        since = f"of {_lines_of(len(kept))} that it kept {missing:,} changed since"
        what = f"either it has {lost}, or a run was killed, and {since}"
        remedy = f"If it lost a record, put it back from a backup. {prints}. If not, {_way_out(files, lengths)}."
    raise Damaged(what, where=files.journal, state="The session and its originals are not changed.", remedy=remedy)


def _refuse_if_damaged(files: Beside, lengths: Lengths) -> None:
    """Raise Damaged where what lies behind cannot be read: nobody knows then what the session needs of it."""
    from sessioncompress.store.salvage import first_damaged

    damaged = first_damaged(files.originals, lengths.originals)
    if damaged is not None:
        raise Damaged(
            f"the originals cannot be read from byte {damaged:,} on, and {files.journal.name} names none of these",
            where=files.originals,
            state="The session and its originals are not changed.",
            remedy=f"Put both back from a backup. If they are only what a killed run left, {_way_out(files, lengths)}.",
        )


def _way_out(files: Beside, lengths: Lengths) -> str:
    """Say how to get rid of the trace of a killed run, and of nothing else."""
    if lengths == Lengths():
        return "'sessioncompress forget' deletes them"
    return (
        f"cut off what the killed run left: all behind the first {lengths.originals} bytes of {files.originals.name} "
        f"and the first {lengths.journal} bytes of {files.journal.name}"
    )


def _lines_of(number: int) -> str:
    return f"{number:,} {'line' if number == 1 else 'lines'}"


def _lines(session: OpenSession) -> Iterator[bytes]:
    """Yield the session's whole lines, but for those that are too long to be kept."""
    begins = True
    with session.reader() as file:
        for piece in iter(lambda: file.readline(LONGEST_LINE), b""):
            ends = piece.endswith(b"\n")
            if begins and ends:
                yield piece
            begins = ends
