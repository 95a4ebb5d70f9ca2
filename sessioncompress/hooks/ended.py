"""Compact and compress a session that ended, in a separate process that the agent doesn't wait for."""

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
"""The session must be unchanged this long, or as long as the policy sets: the agent may still append for a moment."""

MOST_SECONDS = 600
"""Time limit of the process, including waiting."""


def start(raw: bytes, ending: Ending = COMPRESSED) -> None:
    """Start the process for the session that the agent names (`transcript_path`) without waiting for it."""
    import subprocess

    session = json.loads(raw).get("transcript_path")
    if not isinstance(session, str) or not Path(session).exists():
        base.note_in_log("ended", f"the agent named a session that does not exist: {session}")
        return
    subprocess.Popen(  # noqa: S603 - our own Python, and a path that no shell parses
        # pi gives the path in the form of its --session-dir, which may be relative.
        base.command("compress", os.path.abspath(session), *ending.options()),  # noqa: PTH100 - must not resolve links
        # In a new process session, so that it survives the agent; and not in the user's working folder.
        start_new_session=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def compress(session: Path, ending: Ending = COMPRESSED) -> None:
    """Compress a session and its subagents' sessions once no one writes to them; compact it first if asked.

    Subagent sessions are never resumed, so they aren't compacted.
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
    """Work on a session once no one writes to it, and return the result as text."""
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
    """Compact a session if the policy's rule asks for it, or without a rule whenever it is long enough."""
    from sessioncompress.operations.compact import compact_session
    from sessioncompress.operations.wording import compact_line

    is_ruled = policy.budget.rule is not Rule.SIZE
    return compact_line(compact_session(session, policy, if_due=is_ruled, named=False, run_id=run_id))


def _compressed(session: Path, policy: Policy, run_id: str) -> str:
    from sessioncompress.operations.compress import compress_session
    from sessioncompress.operations.wording import line

    return line(compress_session(session, policy, named=False, run_id=run_id))
