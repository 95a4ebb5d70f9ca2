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


@cache
def pi(turns: int = TURNS) -> bytes:
    made = PiSession()
    made.opening()
    for turn in range(turns):
        made.user(f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.step("bash", {"command": f"cat service-{turn}.log"}, _logs(turn), thinking="Let me look. " * 5)
        made.step("write", {"path": f"notes-{turn}.md", "content": f"Gauge {turn} failed.\n"}, "Wrote it.")
        made.assistant(f"Gauge {turn} failed at noon.")
    return made.bytes()


@cache
def claude(turns: int = TURNS) -> bytes:
    made = ClaudeSession()
    for turn in range(turns):
        made.user(f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.step("Bash", {"command": f"cat service-{turn}.log"}, _logs(turn), thinking="Let me look. " * 5)
        made.step("Write", {"file_path": f"/tmp/notes-{turn}.md", "content": f"Gauge {turn} failed.\n"}, "Wrote it.")
        made.respond(f"Gauge {turn} failed at noon.")
    return made.bytes()


@cache
def codex(turns: int = TURNS, kind: type[Rollout] = Rollout) -> bytes:
    made = kind()
    for turn in range(turns):
        made.user(f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.run(f"cat service-{turn}.log", _logs(turn))
        made.patch(f"notes-{turn}.md", None, f"Gauge {turn} failed.\n")
        made.end(f"Gauge {turn} failed at noon.")
    return made.bytes()


@cache
def gemini(turns: int = TURNS) -> bytes:
    made = GeminiRecords()
    for turn in range(turns):
        _gemini_turn(made, turn)
    return made.bytes()


@cache
def gemini_document(turns: int = TURNS) -> bytes:
    made = GeminiDocument()
    for turn in range(turns):
        _gemini_turn(made, turn)
    return made.bytes()


def _gemini_turn(made: GeminiDocument, turn: int) -> None:
    made.user(f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
    made.answer("", made.used("run_shell_command", {"command": f"cat service-{turn}.log"}, _logs(turn)))
    note = {"file_path": f"/tmp/notes-{turn}.md", "content": f"Gauge {turn} failed.\n"}
    made.answer("", made.used("write_file", note, "Wrote it."))
    made.answer(f"Gauge {turn} failed at noon.")


@cache
def opencode(turns: int = TURNS) -> bytes:
    made = OpenCodeExport()
    for turn in range(turns):
        made.user(f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.assistant().tool("bash", {"command": f"cat service-{turn}.log"}, _logs(turn)).finish("tool-calls")
        note = {"filePath": f"/tmp/notes-{turn}.md", "content": f"Gauge {turn} failed.\n"}
        made.assistant().tool("write", note, "Wrote it.").finish("tool-calls")
        made.assistant(finish="stop").part("text", text=f"Gauge {turn} failed at noon.").finish("stop")
    return made.bytes()


@cache
def chat(turns: int = TURNS) -> bytes:
    """Return a chat in OpenAI's form, in one document."""
    made = ChatSession()
    made.message("system", "You are a coding agent.")
    for turn in range(turns):
        made.message("user", f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.step("bash", {"command": f"cat service-{turn}.log"}, _logs(turn))
        made.step("write", {"path": f"/tmp/notes-{turn}.md", "content": f"Gauge {turn} failed.\n"}, "Wrote it.")
        made.message("assistant", f"Gauge {turn} failed at noon.")
    return made.document()


@cache
def gencode(turns: int = TURNS) -> bytes:
    made = GenCodeSession()
    made.message("system", "You are a coding agent.")
    for turn in range(turns):
        made.message("user", f"Part {turn}: look at the logs, then note what failed in notes-{turn}.md.")
        made.step("Bash", {"command": f"cat service-{turn}.log"}, _logs(turn))
        made.step("Write", {"file_path": f"/tmp/notes-{turn}.md", "content": f"Gauge {turn} failed.\n"}, "Wrote it.")
        made.message("assistant", [{"type": "text", "text": f"Gauge {turn} failed at noon."}])
    return made.bytes()


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
