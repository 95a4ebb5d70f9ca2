"""When a session has ended: make it smaller, in a process of its own, since the agent does not wait for that."""

from __future__ import annotations

import json
import time
from pathlib import Path

from sessioncompress.hooks import log
from sessioncompress.hooks.command import command

QUIET_SECONDS = 2.0
"""The agent may still append for a moment: so long nothing must have changed."""

MOST_SECONDS = 600
"""What the process may take in all, waiting included."""

_POLL_SECONDS = 0.25


def start(raw: bytes) -> None:
    """Start the process for the session that the agent names (`transcript_path`), and leave it alone."""
    # Imported here: the guard, which runs before each write, does without.
    import subprocess

    session = json.loads(raw).get("transcript_path")
    if not isinstance(session, str) or not Path(session).exists():
        log.note("ended", f"the agent names no session that is there: {session}")
        return
    subprocess.Popen(  # noqa: S603 - this Python, and a path that no shell reads
        command("compress", session),
        # Of a session of its own, so that what ends the agent's processes does not end it; in no folder of anyone's.
        start_new_session=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def compress(session: Path) -> None:
    """Compress a session as its policy says, once nobody writes to it any more. Raises SessionCompressError."""
    from sessioncompress import gate
    from sessioncompress.compress import compress_session
    from sessioncompress.config import policy_for
    from sessioncompress.errors import InUse
    from sessioncompress.report import line

    deadline = time.monotonic() + MOST_SECONDS
    while True:
        _until_quiet(session, deadline)
        policy = policy_for(session, None, None)
        try:
            done = gate.skip(session, policy, force=False) or compress_session(session, policy)
        except InUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
            continue
        log.note("compress", line(done, dry_run=False))
        return


def _until_quiet(session: Path, deadline: float) -> None:
    while time.time() - session.lstat().st_mtime < QUIET_SECONDS and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
