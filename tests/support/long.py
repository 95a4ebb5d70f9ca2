"""Sessions of several agents that are long enough for a checkpoint: the same work, as each agent writes it down."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from sessioncompress.policy.model import BALANCED, Compact
from tests.support import texts
from tests.support.claude import ClaudeSession
from tests.support.rollout import Rollout
from tests.support.session import PiSession

FEW = replace(BALANCED, compact=Compact(keep_tokens=3_000, min_dead_tokens=1_000, min_saved_tokens=1_000))
"""Keeps little, so that short sessions are cut."""

TURNS = 8


def _logs(turn: int) -> str:
    return texts.log_lines(random.Random(turn), 60)


def pi(turns: int = TURNS) -> bytes:
    """Return a session of pi."""
    made = PiSession()
    made.opening()
    for turn in range(turns):
        made.user(f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.step("bash", {"command": f"cat service-{turn}.log"}, _logs(turn), thinking="Let me look. " * 5)
        made.step("write", {"path": f"notes-{turn}.md", "content": f"Gauge {turn} failed.\n"}, "Wrote it.")
        made.assistant(f"Gauge {turn} failed at noon.")
    return made.bytes()


def claude(turns: int = TURNS) -> bytes:
    """Return a session of Claude Code."""
    made = ClaudeSession()
    for turn in range(turns):
        made.user(f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.step("Bash", {"command": f"cat service-{turn}.log"}, _logs(turn), thinking="Let me look. " * 5)
        made.step("Write", {"file_path": f"/tmp/notes-{turn}.md", "content": f"Gauge {turn} failed.\n"}, "Wrote it.")
        made.respond(f"Gauge {turn} failed at noon.")
    return made.bytes()


def codex(turns: int = TURNS) -> bytes:
    """Return a rollout of Codex CLI."""
    made = Rollout()
    for turn in range(turns):
        made.user(f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.run(f"cat service-{turn}.log", _logs(turn))
        made.patch(f"notes-{turn}.md", None, f"Gauge {turn} failed.\n")
        made.end(f"Gauge {turn} failed at noon.")
    return made.bytes()


LONG: Mapping[str, Callable[[int], bytes]] = {"pi": pi, "claude-code": claude, "codex": codex}
"""By the names of their formats."""
