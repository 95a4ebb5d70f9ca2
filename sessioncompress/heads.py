"""What a file says of whose session it is: its header, and the references that its markers name; only reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sessioncompress.documents import document_of
from sessioncompress.errors import FileFailed, failing
from sessioncompress.formats import claims, head_of
from sessioncompress.formats.base import HEAD_LINES, Entry, Head, Name
from sessioncompress.marker import references_in
from sessioncompress.store.lock import open_file

KEPT = "Nothing of what lies beside sessions that are gone is deleted."
_HEAD_BYTES = 64 * 1024
"""In so many bytes a header stands, but for one with a long line: of that more is read."""
_LONGEST_LINE = 16 * 1024 * 1024
_HEADER_WITHIN = 2
"""A header is the first object of a session, or the second behind a title."""
_PIECE = 1024 * 1024
_OVERLAP = 128
"""More bytes than a marker has from its command to the end of its reference."""
_BLANK = b"\xef\xbb\xbf \t\r\n"


def name_of(path: Path) -> Name:
    """Return the name in a file's header, or in a document; an empty one where there is none.

    Raises FileFailed, or NotASession.
    """
    with _opened(path) as file:
        entries: list[Entry] = []
        for raw in _first_lines(file, path):
            entries += head_of([raw]).entries
            name = claims(Head(tuple(entries[-1:])))
            if name.id or name.parents:
                return name
            if file.tell() > _HEAD_BYTES and len(entries) >= _HEADER_WITHIN:
                break
        with failing(path, KEPT):
            size = os.fstat(file.fileno()).st_size
            file.seek(0)
            document = document_of(lambda: file, size)
    return Name() if document is None else claims(head_of(document.messages(), document.outer))


def references_of(path: Path) -> set[str]:
    """Return what the markers in a file may name, and perhaps more. Raises FileFailed, or NotASession."""
    found: set[bytes] = set()
    with failing(path, KEPT), _opened(path) as file:
        end = b""
        while piece := file.read(_PIECE):
            found |= references_in(end + piece)
            end = piece[-_OVERLAP:]
    return {each.decode() for each in found}


def _opened(path: Path) -> BinaryIO:
    """Open what lies at a path, or what a link there leads to."""
    with failing(path, KEPT):
        return open(open_file(Path(os.path.realpath(path))), "rb")


def _first_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the lines among which a header may be; what begins with a long line that is no JSON object is none."""
    with failing(path, KEPT):
        for _ in range(HEAD_LINES):
            raw = file.readline(_HEAD_BYTES)
            if len(raw) == _HEAD_BYTES and not raw.endswith(b"\n"):
                if not raw.lstrip(_BLANK).startswith(b"{"):
                    return
                raw += file.readline(_LONGEST_LINE)
            if len(raw) > _LONGEST_LINE:
                remedy = "Move it away, if it is no session."
                raise FileFailed(
                    "its first lines are too long to look for a header", where=path, state=KEPT, remedy=remedy
                )
            yield raw
