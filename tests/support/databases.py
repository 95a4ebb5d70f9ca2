"""Databases of OpenCode and OpenClaw with a long session and a short one, and what tests ask of them and do to them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run
from tests.support.documents import OpenCodeExport
from tests.support.rows import database, execute, openclaw
from tests.support.rows import rows as rows_in
from tests.support.runs import fixture

EXPORT = fixture("opencode.json")
OPENCODE = json.loads(EXPORT)["info"]["id"]
"""The long session of OpenCode's."""

SENTINEL = "5e417ae1 is the harbor's gate"
LONG = "\n".join(f"The gauge {number} reads {number * 37}." for number in range(400))


def opencode_database(folder: Path) -> Path:
    """Make a database as OpenCode has it in a folder of data."""
    short = OpenCodeExport("short").user("Hello.").assistant().part("text", text="Hello.").bytes()
    # Ids of both rise from 1.
    return database(folder / "opencode/opencode.db", EXPORT, short.replace(b"_000000", b"_000001"))


def _asked(number: int, above: str) -> bytes:
    """Ask once more, so that what came before is old."""
    message = {"role": "user", "content": [{"type": "text", "text": "Go on."}]}
    told = {"id": f"asked{number}", "parentId": above, "timestamp": f"2026-03-02T12:00:0{number}.000Z"}
    return json.dumps({"type": "message", **told, "message": message}).encode() + b"\n"


_STORY = fixture("openclaw.jsonl")
_LAST = json.loads(_STORY.splitlines()[-1])["id"]
LINES = _STORY + b"".join(_asked(number, f"asked{number - 1}" if number else _LAST) for number in range(5))
OPENCLAW, OPENCLAW_SHORT = "11111111-1111-4111-8111-111111111111", "short_0"
"""The two sessions of OpenClaw's."""


def openclaw_database(folder: Path) -> Path:
    """Make a database as OpenClaw has it in the folder of its state."""
    short = b"".join(_STORY.splitlines(keepends=True)[:5])
    return openclaw(folder / "agents/main/agent/openclaw-agent.sqlite", **{OPENCLAW: LINES, OPENCLAW_SHORT: short})


def folder(path: Path) -> Path:
    """Return the folder of a database's stores."""
    return path.parent / ".sessioncompress" / path.name


def forked(path: Path) -> str:
    """Fork the session as OpenCode does, and return the id."""
    others = "workspace_id, parent_id, directory, title, version, time_created, time_updated"
    execute(path, f"INSERT INTO session SELECT id || 'f', project_id, {others} FROM session WHERE id = ?", OPENCODE)
    copied = "session_id || 'f', time_created, time_updated, data"
    for table, ids in (("message", "id || 'f'"), ("part", "id || 'f', message_id || 'f'")):
        execute(path, f"INSERT INTO {table} SELECT {ids}, {copied} FROM {table} WHERE session_id = ?", OPENCODE)
    return f"{OPENCODE}f"


def with_output(path: Path, name: str = "tool-output/tool_f7a1") -> Path:
    """Let a call write all of its output to a file, of which the session has the beginning."""
    file = path.parent / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{LONG}{SENTINEL}\n")
    call = next(row[0] for row in rows_in(path)["part"] if json.loads(row[-1])["type"] == "tool")
    state = "json_set(data, '$.state.output', ?, '$.state.metadata.outputPath', ?)"
    execute(
        path, f"UPDATE part SET data = {state} WHERE id = ?", f"{LONG}\n\n...30 bytes truncated...", str(file), call
    )
    return file


def killed(path: Path, command: str, patch: pytest.MonkeyPatch, owner: object, name: str, number: int = 1) -> bool:
    """Run a command in a process that dies before the call of that number; tell whether it came to that."""
    if (child := os.fork()) == 0:
        real, calls = getattr(owner, name), 0

        def dying(*given: Any, **how: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                os._exit(9)
            return real(*given, **how)

        patch.setattr(owner, name, dying, raising=False)
        try:
            run(command, path)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
