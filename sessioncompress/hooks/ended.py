"""Compact and compress a session that has ended, in a process of its own: the agent does not wait for that."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sessioncompress.core import text
from sessioncompress.errors import InUse, SessionCompressError
from sessioncompress.hooks import base
from sessioncompress.hooks.base import COMPRESSED, Ending
from sessioncompress.policy.model import Policy, Rule

if TYPE_CHECKING:
    from sessioncompress.policy.sources import Policies

QUIET_SECONDS = 2.0
"""The agent may still append for a moment: nothing must have changed for this long, or for as long as a policy says."""

MOST_SECONDS = 600
"""The time limit of the process, waiting included."""


def start(raw: bytes, ending: Ending = COMPRESSED) -> None:
    """Start the process for the session that the agent names (`transcript_path`), and do not wait for it."""
    # Imported here: the guard, which runs before each write, does without.
    import subprocess

    session = json.loads(raw).get("transcript_path")
    if not isinstance(session, str) or not Path(session).exists():
        base.note_in_log("ended", f"the agent named a session that does not exist: {session}")
        return
    subprocess.Popen(  # noqa: S603 - this Python, and a path that no shell reads
        # By its absolute path: pi names one as its --session-dir does.
        base.command("compress", os.path.abspath(session), *ending.options()),  # noqa: PTH100 - must not resolve links
        # In a process session of its own, so that the end of the agent does not end it; and not in anyone's folder.
        start_new_session=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def compress(session: Path, ending: Ending = COMPRESSED) -> None:
    """Compress a session and its subagents' once nobody writes to them any more, and compact it before if asked for.

    The sessions of subagents are never gone on with.
    """
    from sessioncompress.formats.table import subagents
    from sessioncompress.policy.sources import Policies

    policies = Policies(
        preset=ending.preset, warn=lambda said: base.note_in_log("compress", said), quiet_seconds=QUIET_SECONDS
    )
    deadline = time.monotonic() + MOST_SECONDS
    run_id = text.run_id(time.time())
    for each in (session, *subagents(session)):
        for name, work in (("compact", _compacted), ("compress", _compressed)):
            if name == "compress" or (ending.compact and each == session):
                base.note_in_log(name, _done(partial(work, run_id=run_id), each, policies, deadline))


def _done(work: Callable[[Path, Policy], str], session: Path, policies: Policies, deadline: float) -> str:
    """Do the work on a session that nobody writes to; return what became of it."""
    try:
        while True:
            try:
                return work(session, policies.of(session))
            except InUse:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.25)
    except SessionCompressError as error:
        return str(error)


def _compacted(session: Path, policy: Policy, run_id: str) -> str:
    """Compact a session where the policy's rule says so, or without one wherever it holds enough."""
    from sessioncompress.operations.compact import compact_session
    from sessioncompress.operations.wording import compact_line

    is_ruled = policy.budget.rule is not Rule.SIZE
    return compact_line(compact_session(session, policy, if_due=is_ruled, named=False, run_id=run_id))


def _compressed(session: Path, policy: Policy, run_id: str) -> str:
    from sessioncompress.operations.compress import compress_session
    from sessioncompress.operations.wording import line

    return line(compress_session(session, policy, named=False, run_id=run_id))
