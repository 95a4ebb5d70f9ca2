"""A session that was compressed, and calls as an agent announces them to the guard."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sessioncompress import Policy, compress_session
from tests.support.runs import FIXTURES, fixture

ROOT = FIXTURES.parent
POLICY = Policy(size_threshold_kb=0, min_saved_kb=0, turn_threshold_before_compress=1)
INVENTED = "[[sessioncompress: 3 lines, 40 bytes, kept on disk: sessioncompress show 0123456789ab]]"


def compressed(folder: Path, name: str = "session.jsonl", **policy: Any) -> Path:
    session = folder / name
    session.write_bytes(fixture("claude-code.jsonl"))
    compress_session(session, replace(POLICY, **policy))
    return session


def markers(session: Path) -> list[str]:
    return re.findall(r"\[\[sessioncompress: [^\[\]]*\]\]", session.read_text(encoding="utf-8"))


def call(session: Path | None, **given: Any) -> bytes:
    named = {} if session is None else {"transcript_path": str(session)}
    return json.dumps({"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": given, **named}).encode()


def run(hook: str, given: bytes, state: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a hook as an agent does, in a folder that holds a module which must not be taken for Python's own."""
    state.mkdir(exist_ok=True)
    (state / "json.py").write_text("raise SystemExit('the project was imported')\n")
    own = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(state), **environment}
    start = [sys.executable, "-P", "-m", "sessioncompress.hooks", hook, *more]
    return subprocess.run(start, input=given, cwd=state, env=own, capture_output=True, check=False, timeout=60)


def logged(state: Path) -> str:
    log = state / "sessioncompress" / "hook.log"
    return log.read_text() if log.exists() else ""
