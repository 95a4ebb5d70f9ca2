"""Sessions of several agents that are long enough for a checkpoint: the same work, as each agent writes it down."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from msgspec.structs import replace

from sessioncompress.operations.compact import CompactStats
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import BALANCED, Compact
from tests.support import texts
from tests.support.chats import ChatSession, GenCodeSession
from tests.support.claude import ClaudeSession
from tests.support.documents import GeminiDocument, OpenCodeExport
from tests.support.records import GeminiRecords
from tests.support.rollout import Paginated, Rollout
from tests.support.runs import snapshot, split, write
from tests.support.session import PiSession
from tests.support.turns import B

FEW = replace(BALANCED, compact=Compact(keep_tokens=3_000, min_dead_tokens=1_000, min_saved_tokens=1_000))
"""Keeps little, so that short sessions are cut."""

SMALL = replace(
    FEW,
    size_threshold_kb=0,
    min_saved_kb=0,
    turn_threshold_before_compress=1,
    compact=Compact(keep_tokens=600, min_dead_tokens=200, min_saved_tokens=1),
)
"""Leaves so little that both commands find more to do after each other."""

TURNS = 8


@cache
def _logs(turn: int) -> str:
    return texts.log_lines(random.Random(turn), 60)


def _worked(made: B, turns: int) -> B:
    for turn in range(turns):
        made.asks(f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.runs(f"cat service-{turn}.log", _logs(turn))
        made.writes(f"notes-{turn}.md", f"Gauge {turn} failed.\n")
        made.says(f"Gauge {turn} failed at noon.")
    return made


@cache
def pi(turns: int = TURNS) -> bytes:
    return _worked(PiSession().opening(), turns).bytes()


@cache
def claude(turns: int = TURNS) -> bytes:
    return _worked(ClaudeSession(), turns).bytes()


@cache
def codex(turns: int = TURNS, kind: type[Rollout] = Rollout) -> bytes:
    return _worked(kind(), turns).bytes()


@cache
def gemini(turns: int = TURNS) -> bytes:
    return _worked(GeminiRecords(), turns).bytes()


@cache
def gemini_document(turns: int = TURNS) -> bytes:
    return _worked(GeminiDocument(), turns).bytes()


@cache
def opencode(turns: int = TURNS) -> bytes:
    return _worked(OpenCodeExport(), turns).bytes()


@cache
def chat(turns: int = TURNS) -> bytes:
    """Return a chat in OpenAI's form, in one document."""
    return _worked(ChatSession().message("system", "You are a coding agent."), turns).document()


@cache
def gencode(turns: int = TURNS) -> bytes:
    return _worked(GenCodeSession().message("system", "You are a coding agent."), turns).bytes()


LINES: Mapping[str, Callable[[int], bytes]] = {"pi": pi, "claude-code": claude, "codex": codex, "gemini": gemini}
"""Sessions with an entry a line, by the names of their formats."""

DOCUMENTS: Mapping[str, Callable[[int], bytes]] = {
    "gemini": gemini_document,
    "opencode": opencode,
    "gencode": gencode,
    "openai-chat": chat,
}
"""Those that are one document."""

NUMBERED = "codex numbered"
"""Repeats at its end what a checkpoint keeps, and is refused where old lines are to leave."""

LONG: Mapping[str, Callable[[int], bytes]] = {
    **LINES,
    NUMBERED: partial(codex, kind=Paginated),
    **{f"{name} document": made for name, made in DOCUMENTS.items()},
}


def grown(path: Path, name: str) -> bytes:
    """Let the agent go on with a session of eight turns; return the whole session as it was without a checkpoint."""
    whole = LONG[name](16)
    more = b"".join(split(whole)[len(split(LONG[name](8))) :])
    if name == "pi":
        ours, last = (json.loads(split(data)[-1])["id"] for data in (path.read_bytes(), LONG[name](8)))
        more = more.replace(b'"parentId":"%s"' % last.encode(), b'"parentId":"%s"' % ours.encode(), 1)
    with path.open("ab") as file:
        file.write(more)
    return whole


def pi_grown(data: bytes) -> bytes:
    """Let a session of pi go on for as long as it is."""
    leaf = json.loads(data.splitlines()[-1])["id"]
    added = []
    for line in pi(24).splitlines()[1:]:
        entry = json.loads(line)
        if "id" in entry:
            entry["parentId"], entry["id"] = leaf, f"f{entry['id'][1:]}"
            leaf = entry["id"]
            added.append(json.dumps(entry).replace("notes-", "more-").encode() + b"\n")
    return data + b"".join(added)


def rounds_come_to_rest(folder: Path, name: str, act: Callable[[Path], CompactStats]) -> None:
    """Act and compress by turns, until neither writes anything; then all comes back."""
    path = write(folder, LONG[name](TURNS))
    for _ in range(5):
        act(path)
        compress_session(path, SMALL)
    before = snapshot(path)
    for _ in range(2):
        assert compress_session(path, SMALL).status is Status.UNCHANGED
        assert act(path).status is Status.UNCHANGED
    assert snapshot(path) == before
    restore_session(path)
    assert path.read_bytes() == LONG[name](TURNS)
