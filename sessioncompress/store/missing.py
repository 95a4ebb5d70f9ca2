"""The note of when a session was first found missing: a command has no other memory of the runs before it."""

from __future__ import annotations

import os

import orjson

from sessioncompress.store import durable, times
from sessioncompress.store.beside import Beside
from sessioncompress.store.folder import create_in_folder, tidy
from sessioncompress.store.lock import open_file

_LONGEST = 4096


def since(files: Beside, session_id: str) -> float | None:
    """Return since when the session with that id is missing; None where no note says it.

    A note that a kill cut short, that is dated to come or speaks of another session says nothing: then the time
    begins anew, which only ever keeps originals for longer.
    """
    try:
        fd = open_file(files.missing)
    except FileNotFoundError:
        return None
    try:
        record = orjson.loads(os.pread(fd, _LONGEST, 0))
    except orjson.JSONDecodeError:
        return None
    finally:
        os.close(fd)
    if not isinstance(record, dict) or record.get("sessionId") != session_id:
        return None
    return times.read(str(record.get("missingSince")))


def note(files: Beside, session_id: str, now: float) -> None:
    """Write down that the session with that id is missing from now on."""
    record = {"missingSince": times.written(now), "sessionId": session_id}
    fd = create_in_folder(files.missing, exclusive=False, commit_originals=False)
    try:
        durable.cut(fd, 0)
        durable.write_all(fd, orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        durable.flush(fd)
    finally:
        os.close(fd)
    durable.flush_folder(files.folder)


def forget_note(files: Beside) -> None:
    """Remove the note of a session that is there again."""
    if os.path.lexists(files.missing):
        durable.remove(files.missing)
        tidy(files.folder)
