"""Why a file is refused whose sessions are not plain: what it is, or what was seen in it, and what to do."""

from __future__ import annotations

from typing import Any

from sessioncompress.core.jsonl import LINE_CAP, begins_document, value_of
from sessioncompress.errors import NotASession, Refused
from sessioncompress.formats.base import Head
from sessioncompress.formats.others import FIRST_BYTES, Sample, other, seen
from sessioncompress.formats.table import AGENTS, recognising
from sessioncompress.store.lock import OpenSession

_STATE = "The file is not changed."


def refusal(session: OpenSession, head: Head) -> Refused:
    """Make the error for a file that is not of exactly one format.

    NotASession where it is of none; Refused where it may be of several, or is too long to know.
    """
    if found := recognising(head):
        names = " and of ".join(each.name for each in found)
        remedy = "Say which it is with --format NAME."
        return Refused(f"it may be a session of {names}", where=session.path, state=_STATE, remedy=remedy)
    if session.size > LINE_CAP and begins_document(session.reader, session.size):
        what = f"it begins as one JSON document, of {session.size:,} bytes, and none over {LINE_CAP >> 20} MiB is read"
        return Refused(what, where=session.path, state=_STATE, remedy="It stays as it is.")
    return _no_session(session, _sample(session, head))


def _no_session(session: OpenSession, sample: Sample) -> NotASession:
    known = other(sample)
    what = f"this is {known.what}" if known else f"this is no session of a known agent ({seen(sample)})"
    remedy = (known.remedy if known else "") or f"Name a session of {AGENTS}."
    return NotASession(what, where=session.path, state=_STATE, remedy=remedy)


def _sample(session: OpenSession, head: Head) -> Sample:
    with session.reader() as file:
        first = file.read(min(FIRST_BYTES, session.size))
    return Sample(first, head.entries, _value(session))


def _value(session: OpenSession) -> Any:
    """Return the one JSON value that a file is, None where it is lines, or too long, or no JSON."""
    if session.size > LINE_CAP or not begins_document(session.reader, session.size):
        return None
    with session.reader() as file:
        return value_of(file.read())
