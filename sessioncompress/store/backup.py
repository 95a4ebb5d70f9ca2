"""The originals and the journal of one run: in which order they grow, and in which order they are taken back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sessioncompress.store import reading
from sessioncompress.store.folder import names_of
from sessioncompress.store.growing import GrowingFile
from sessioncompress.store.layout import Beside, Lengths
from sessioncompress.store.originals import Place
from sessioncompress.store.packer import OriginalsPacker

_HELD = 4 * reading.BUFFER
"""Bytes of packed originals that wait in memory until the run is known to pay."""


class Backup:
    """What one run adds beside the session. Nothing is on disk before 4 MiB of packed originals, or write().

    The journal's file exists before the originals' does: originals without a journal are therefore never the trace
    of a crash, and are never cut back as one.
    """

    def __init__(self, files: Beside, lengths: Lengths, *, commit_originals: bool) -> None:
        shown = names_of(files) if commit_originals else ()
        self._journal = GrowingFile(files.journal, lengths.journal, shown=shown)
        self._originals = GrowingFile(files.originals, lengths.originals, shown=shown)
        self._packer = OriginalsPacker(lengths.originals, self._append_frame)

    def keep(self, line: bytes) -> int:
        """Add an original; return its index in what finish() returns."""
        return self._packer.add(line)

    def finish(self) -> Sequence[Place]:
        """Pack all originals; return their places."""
        return self._packer.finish()

    def write(self) -> None:
        """Bring all packed originals into the file."""
        if self._originals.held:
            self._journal.open()
            self._originals.write()

    @property
    def originals_size(self) -> int:
        """Bytes of the originals file, after finish()."""
        return self._originals.size

    @property
    def originals_sha256(self) -> str:
        """The SHA-256 of what the run added to the originals, after finish(); empty where that is nothing."""
        return self._originals.added_sha256

    def commit(self, records: Iterable[bytes]) -> None:
        """Make the originals certain on disk, then the journal's records; from here on the backup counts."""
        self._originals.settle()
        waiting = bytearray()
        for record in records:
            waiting += record
            if len(waiting) >= reading.BUFFER:
                self._journal.append(waiting)
                waiting = bytearray()
        if waiting:
            self._journal.append(waiting)
        self._journal.settle()

    def take_back(self) -> None:
        """Undo everything: the journal stops naming originals before they go, and its file goes last."""
        self._journal.cut_back()
        self._originals.cut_back()
        self._originals.remove_if_new()
        self._journal.remove_if_new()

    def close(self) -> None:
        """Close the files."""
        self._originals.close()
        self._journal.close()

    def _append_frame(self, frame: bytes) -> None:
        self._originals.hold(frame)
        if self._originals.held > _HELD:
            self.write()
