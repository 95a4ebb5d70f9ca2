"""Check that the journal and the originals are bit for bit as the runs wrote them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sessioncompress.core.text import counted, quote
from sessioncompress.errors import Damaged, Unreadable, failing
from sessioncompress.store import disk, git, originals
from sessioncompress.store.journal import Journal, one_side
from sessioncompress.store.layout import Store, session_of, size_of
from sessioncompress.store.lock import open_file
from sessioncompress.store.originals import (
    COMMITS_CAN,
    FRAME_BYTES,
    FRAME_MAGIC,
    FROM_MARKERS,
    InFrame,
    OriginalsReader,
    read_frame,
)

FORGET: Final = (
    "'sessioncompress forget' ends this: it deletes what is left there. The session stays as it is, and what was only "
    "in the originals is lost."
)
"""The last resort if no copy of a file can be put back."""


def too_short(path: Path, size: int, committed: int, *, left: bool = False) -> Damaged:
    """Return the error for a store file that has lost bytes or is gone. `left`: an original in it can be read."""
    what = f"{committed - size:,} of its {committed:,} bytes are missing"
    prints = f", and 'zstd -dc {quote(str(path))}' prints what comes before the damage"
    if not os.path.lexists(path):
        # Commits may still hold some of the lines.
        what, prints = f"it is missing, and with it the {committed:,} bytes that the session needs", ""
    first = f", {FROM_MARKERS}{prints}. Only after that"
    remedy = f"{put_back(path, committed)} Without one{first if left else ''} {FORGET}"
    return Damaged(what, where=path, remedy=remedy)


def put_back(path: Path, committed: int) -> str:
    """Return advice on where to find a lost store file; the session needs `committed` bytes of it."""
    # An older state from git must not replace a newer file.
    what = f"all {committed:,} bytes of it" if os.path.lexists(path) else "it"
    return f"Put a copy of it back from a backup{or_from_git(path, what)}."


def or_from_git(path: Path, what: str = "it") -> str:
    """Return advice to take a store file from git, or empty if git has none. A hidden store is in no commit."""
    has = git.known([path]).get(path, path) is None
    return f", or where git has {what} with 'git checkout -- {quote(str(path))}'" if has else ""


def refuse_if_changed(store: Store, journal: Journal) -> None:
    """Raise Damaged if a bit of journal or originals has changed; FileFailed if the originals can't be read."""
    _refuse_if_broken(store, journal)
    if journal.blobs and (lost := git.out_of_reach(journal.blobs, store.work.parent / session_of(store.journal).name)):
        what = f"originals are in {counted(len(lost), 'git blob', 'git blobs')} of no commit that HEAD comes from"
        remedy = f"A squash, a rebase or a filter left them out. Before git deletes them here, {git.INTO_A_STORE}."
        raise Damaged(what, where=store.journal, remedy=remedy)
    spans = [(run.originals_sha256, start, run.store_size) for run, start in journal.spans if run.originals_sha256]
    if not spans:
        return
    with failing(store.originals), disk.closing(open_file(store.originals)) as fd:
        for wanted, start, end in spans:
            if disk.sha256_of(fd, start, end) != wanted:
                what = f"what a run wrote to bytes {start:,} to {end:,} has changed"
                remedy = "Put the file back from a backup."
                raise Damaged(what, where=store.originals, remedy=remedy)


def _refuse_if_broken(store: Store, journal: Journal) -> None:
    if journal.broken:
        raise Damaged(
            "what a run wrote to the journal has changed",
            where=store.journal,
            line=journal.broken,
            remedy="Put the journal back from a backup. Until then restore compares every line with its SHA-256.",
        )


def refuse_if_no_journal(store: Store) -> None:
    """Raise Damaged if there are originals without a journal."""
    if not size_of(store.originals) or os.path.lexists(store.journal):
        return
    remedy = (
        f"Put {store.journal.name} back from a backup{or_from_git(store.journal)}. Without it "
        f"'zstd -dc {quote(str(store.originals))}' still prints the originals; then move "
        "them away, or 'sessioncompress forget' deletes them."
    )
    what = "the journal of these originals is missing"
    raise Damaged(what, where=store.originals, remedy=remedy)


def refuse_unless_whole(store: Store, journal: Journal) -> None:
    """Raise Damaged unless both files of a store end where its last run left them.

    For a store without its session: nothing else shows whether a run was killed, or the record of one was lost.
    """
    refuse_if_no_journal(store)
    _refuse_if_broken(store, journal)
    sizes = (size_of(store.originals) or 0, size_of(store.journal) or 0)
    if sizes[0] < journal.lengths.originals:
        raise too_short(store.originals, sizes[0], journal.lengths.originals)
    if sizes != journal.lengths:
        what = "either it has lost the record of a run, or a run was killed"
        remedy = "If it lost a record, put it back from a backup. If not, 'sessioncompress forget' deletes both files."
        raise Damaged(what, where=store.journal, state="Nothing was deleted.", remedy=remedy)


def refuse_if_of_another(store: Store, journal: Journal) -> None:
    """Raise Damaged if the journal belongs to other originals: bytes past its end are then no trace of a killed run.

    Cutting them off would truncate a frame, and no line in it could be read again. The check compares the originals of
    the last run with their SHA-256.
    """
    last = next(((run, start) for run, start in reversed(list(journal.spans)) if run.store_size > start), None)
    if last is None:
        return
    run, start = last
    with disk.closing(open_file(store.originals)) as fd:
        belongs = disk.sha256_of(fd, start, run.store_size) == run.originals_sha256
    if not belongs:
        raise Damaged(
            f"it is not the journal of {store.originals.name}, which does not end or continue where the journal says",
            where=store.journal,
            state="The session and its originals were not changed.",
            remedy="Put back the journal that was written with them, or the originals that belong to this one. "
            f"{one_side(store.journal)}'zstd -dc {quote(str(store.originals))}' prints all that are there.",
        )


class SalvagingReader(OriginalsReader):
    """A reader that also returns the undamaged lines of a damaged frame, checked by SHA-256."""

    def _decode(self, start: int, place: InFrame) -> tuple[bytes, int]:
        try:
            return super()._decode(start, place)
        except Unreadable:
            # Ignore the frame's checksum: a SHA-256 vouches for each line.
            content, end = _readable(self._fd, start, (FRAME_BYTES + 1, 1), checksum=False)
            following = _next_frame(self._fd, end)
            return content, following if following >= 0 else os.fstat(self._fd).st_size


def any_readable(path: Path, journal: Journal) -> bool:
    """Return True if at least one original of a journal can be read."""
    with suppress(Unreadable), SalvagingReader(path) as kept:
        for row in journal.kept:
            record = journal.line(row)
            with suppress(Unreadable):
                if record.place is not None:
                    kept.line(record.place, record.sha256)
                    return True
    return False


@contextmanager
def judging(path: Path, journal: Journal) -> Iterator[None]:
    """If an original can't be read, recommend `restore --from-markers` only if that can read another one."""
    try:
        yield
    except Unreadable as error:
        is_here, is_in_git = error.where == str(path), error.remedy.endswith(COMMITS_CAN)
        if (is_here or is_in_git) and not any_readable(path, journal):
            first = put_back(path, journal.store_size) if is_here else error.remedy.removesuffix(COMMITS_CAN)
            last = " 'compress --originals-in committed' after it stores what comes." if is_in_git else ""
            error.remedy = f"{first} Without one {FORGET}{last}"
        raise


def readable_lines(path: Path, start: int) -> Iterator[bytes]:
    """Yield the readable lines of an originals file from byte `start` on, without records that name them.

    Skip what cannot be decompressed, and the rest of a line that continues after it. Yield nothing if the file does not
    exist.
    """
    with suppress(FileNotFoundError), disk.closing(open_file(path)) as fd:
        expected, begun = start, b""
        while (position := _next_frame(fd, expected)) >= 0:
            content, end = _readable(fd, position)
            if position != expected:
                content = content[content.find(b"\n") + 1 :]
                begun = b""
            *lines, begun = (begun + content).split(b"\n")
            yield from (line + b"\n" for line in lines)
            expected = end


def first_damaged(path: Path, start: int) -> int | None:
    """Return the start of the first damaged frame at or after byte `start` of an originals file, or None.

    A frame that ends with the file is not damaged but cut off: a killed run leaves it so. After a power cut, zeros may
    follow it.
    """
    with suppress(FileNotFoundError, EOFError), disk.closing(open_file(path)) as fd:
        end = position = start
        while data := os.pread(fd, originals.READ_BYTES, position):
            if held := data.rstrip(b"\0"):
                end = position + len(held)
            position += len(data)
        position = start
        while position < end:
            try:
                position = read_frame(fd, position, bytearray(), end=end)
            except (originals.zstd.ZstdError, OverflowError):
                return position
    return None


def _next_frame(fd: int, position: int) -> int:
    while data := os.pread(fd, FRAME_BYTES, position):
        found = data.find(FRAME_MAGIC)
        if found >= 0:
            return position + found
        position += max(1, len(data) - len(FRAME_MAGIC) + 1)
    return -1


def _readable(
    fd: int, start: int, steps: Sequence[int] = (FRAME_BYTES + 1,), *, checksum: bool = True
) -> tuple[bytes, int]:
    """Return what can be decompressed at byte `start`, and where to search next: after the frame if it is whole.

    A call that hits the damage loses all it decompressed, so each of `steps` is a number of bytes per call.
    """
    content = bytearray()
    for step in steps:
        content.clear()
        try:
            end = read_frame(fd, start, content, step=step, checksum=checksum)
            return bytes(content), end
        except (EOFError, OverflowError):
            break
        except originals.zstd.ZstdError:
            continue
    return bytes(content), start + 1
