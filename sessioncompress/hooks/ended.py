"""Compress a session that has ended, in a process of its own: the agent does not wait for that."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from sessioncompress.errors import NOT_CHANGED, InUse, SessionCompressError, failing
from sessioncompress.hooks import base

QUIET_SECONDS = 2.0
"""The agent may still append for a moment, so that nothing must have changed for this long."""

MOST_SECONDS = 600
"""The time limit of the process, waiting included."""

_POLL_SECONDS = 0.25


def start(raw: bytes) -> None:
    """Start the process for the session that the agent names (`transcript_path`), and do not wait for it."""
    # Imported here: the guard, which runs before each write, does without.
    import subprocess

    session = json.loads(raw).get("transcript_path")
    if not isinstance(session, str) or not Path(session).exists():
        base.note_in_log("ended", f"the agent names no session that is there: {session}")
        return
    subprocess.Popen(  # noqa: S603 - this Python, and a path that no shell reads
        # By its absolute path: pi names one as its --session-dir does.
        base.command("compress", os.path.abspath(session)),  # noqa: PTH100 - must not resolve links
        # In a process session of its own, so that the end of the agent does not end it; and not in anyone's folder.
        start_new_session=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def compress(session: Path) -> None:
    """Compress a session and its subagents' once nobody writes to them any more."""
    from sessioncompress.formats.table import subagents
    from sessioncompress.operations.compress import compress_session
    from sessioncompress.operations.report import line
    from sessioncompress.pipeline import triage
    from sessioncompress.policy.sources import Policies

    policies = Policies(warn=lambda said: base.note_in_log("compress", said))
    deadline = time.monotonic() + MOST_SECONDS
    for each in (session, *subagents(session)):
        done = None
        try:
            while done is None:
                _until_quiet(each, deadline)
                policy = policies.of(each)
                try:
                    done = triage.skip(each, policy, force=False) or compress_session(each, policy)
                except InUse:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_POLL_SECONDS)
            base.note_in_log("compress", line(done))
        except SessionCompressError as error:
            base.note_in_log("compress", str(error))


def _until_quiet(session: Path, deadline: float) -> None:
    """Wait until the file stops changing, by its time, or by our clock if its time is in the future.

    Raises InUse after the deadline, and FileFailed.
    """
    seen: object = None
    since = time.monotonic()
    while True:
        with failing(session):
            found = session.lstat()
        if seen != (seen := (found.st_mtime_ns, found.st_size)):
            since = time.monotonic()
        if max(time.time() - found.st_mtime, time.monotonic() - since) >= QUIET_SECONDS:
            return
        if time.monotonic() > deadline:
            what, remedy = "it still changes", "Its next end, or 'sessioncompress compress', does it."
            raise InUse(what, where=session, state=NOT_CHANGED, remedy=remedy)
        time.sleep(_POLL_SECONDS)
