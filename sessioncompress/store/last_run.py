"""The newest run of a journal, read from the journal's end: what came before it is not looked at."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO

from sessioncompress.errors import failing
from sessioncompress.store.disk import BUFFER
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Beside, last_line, size_of
from sessioncompress.store.lock import open_file
from sessioncompress.store.records import RunRecord, Seals, decode, raw_records

_DIGITS = 12
_NAMED = re.compile(rb'"(xxh3|sha256|rewrittenSha256)":"([0-9a-f]{12})([0-9a-f]*)"')
_CONTENT = b"xxh3"
_RUN = b'{"type":"run"'


def last_run(files: Beside) -> Journal | None:
    """Read the newest run of a journal alone; None unless that one is whole and both files end with it.

    A run that noted no prefix is of no use to whoever would go on from it: then, too, the answer is None. Raises what
    load() of a journal raises where the system fails.
    """
    with failing(files.journal):
        refuse_linked(files.journal)
        try:
            fd = open_file(files.journal)
        except FileNotFoundError:
            return None
        with open(fd, "rb") as file, suppress(ValueError, KeyError, TypeError):
            size = os.fstat(fd).st_size
            run = _last(file, last_line(files.journal), size)
            if run is not None and (size_of(files.originals) or 0) == run.store_size:
                return Journal([run], size, run.store_size)
    return None


def _last(file: BinaryIO, raw: bytes, size: int) -> RunRecord | None:
    run = decode(raw)
    end = size - len(raw)
    if not isinstance(run, RunRecord) or not run.prefix.size or run.records is None or run.start > end:
        return None
    file.seek(run.start)
    seals = Seals()
    while piece := file.read(min(BUFFER, end - file.tell())):
        seals.record(piece)
    seals.run(raw, 1, run)
    return run if not seals.broken and file.read() == raw else None


def clash(files: Beside, records: Iterable[bytes]) -> bool:
    """Tell whether a journal names what new records name: a line of theirs, or other content by their reference.

    Whoever has not read the journal cannot know how it must be told apart; nor that it is damaged, and no restore would
    read what is written behind that: there, too, the answer is yes.
    """
    contents: dict[bytes, bytes] = {}
    lines: set[bytes] = set()
    for record in records:
        for what, first, rest in _NAMED.findall(record):
            if what == _CONTENT:
                contents[first] = rest
            else:
                lines.add(first)
    seals = Seals()
    with open(open_file(files.journal), "rb") as file:
        for number, raw in enumerate(raw_records(file), 1):
            if raw.startswith(_RUN):
                with suppress(ValueError, KeyError, TypeError):
                    if isinstance(run := decode(raw), RunRecord):
                        seals.run(raw, number, run)
            else:
                seals.record(raw)
            for what, first, rest in _NAMED.findall(raw):
                if contents.get(first, rest) != rest if what == _CONTENT else first in lines:
                    return True
    return seals.broken > 0
