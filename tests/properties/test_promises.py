"""The promises of the README, each by name, on the sessions of the fixtures; modules' own tests go into the corners."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.core.model import Kind, Line, Protection
from sessioncompress.errors import NotASession
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import BALANCED, PRESETS, Policy
from sessioncompress.store.layout import store_in
from tests.bench.generate import generate
from tests.faults.checks import outline
from tests.faults.memory import memory_of
from tests.support import rollout, texts
from tests.support.build import PiSession
from tests.support.runs import (
    EAGER,
    GREEDY,
    MTIME,
    NATIVE,
    PRUNING,
    compress,
    compress_again,
    disk,
    entries,
    fixture,
    journal_of,
    restore,
    runs_again,
    snapshot,
    split,
    turn,
    units,
    view_of,
    write,
)
from tests.support.stories import FAMILY, SESSIONS, STORIES, of_format

RESUMABLE = [*FAMILY, *of_format("codex")]
"""What stays in others is told by the tests of their formats."""
LARGE = [name for name in SESSIONS if not STORIES[name].is_odd and not STORIES[name].stays]
POLICIES: dict[str, Policy] = {
    **{name: replace(policy, size_threshold_kb=0, min_saved_kb=0) for name, policy in PRESETS.items()},
    "eager": EAGER,
    "greedy": GREEDY,
    "pruned": PRUNING,
    "native": NATIVE,
}


@dataclass(frozen=True)
class Outcome:
    """What a run over a fixture comes to, and what a second one did."""

    status: Status
    data: bytes
    total: int
    beside: list[str]
    second: Status
    second_wrote: bool


@cache
def outcome(name: str, preset: str) -> Outcome:
    """Run over a fixture, once for all promises."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), fixture(name))
        stats = compress_session(path, POLICIES[preset])
        data, total = path.read_bytes(), disk(path)
        names = sorted(each.name for each in Path(folder).rglob("*") if each != path)
        left = snapshot(path)
        second = runs_again(path, POLICIES[preset])
        return Outcome(stats.status, data, total, names, second.status, snapshot(path) != left)


def skeleton(entry: Any) -> Any:
    """Return what of an entry must be there after every run: all but what the design names as replaced."""
    if not isinstance(entry, dict):
        return entry
    if "payload" in entry:
        return rollout.skeleton(entry, outline)
    message = entry.get("message")
    rest = {key: value for key, value in entry.items() if key not in ("message", "data")}
    if not isinstance(message, dict):
        return {**rest, "data": sorted(entry.get("data") or {})}
    gone = ("content", "details", "providerPayload", "toolCallId")
    return {
        **rest,
        "message": {key: value for key, value in message.items() if key not in gone},
        "parts": parts(message),
    }


def parts(message: dict[str, Any]) -> list[Any]:
    """Return a message's content as types, names, call ids, and texts that people and models wrote."""
    content = message.get("content")
    if not isinstance(content, list):
        return [content]
    result = message.get("role") == "toolResult"
    found: list[Any] = [message.get("toolCallId", "").partition("|")[0]]
    for part in content:
        if part["type"] == "toolCall":
            found.append((part["id"].partition("|")[0], part["name"], outline(part["arguments"])))
        elif part["type"] != "thinking":
            found.append(
                "text or image" if result or part["type"] == "image" or marker.is_one(part.get("text", "")) else part
            )
    return [
        {key: value for key, value in each.items() if key != "textSignature"} if isinstance(each, dict) else each
        for each in found
    ]


@pytest.mark.parametrize("preset", POLICIES)
@pytest.mark.parametrize("name", RESUMABLE)
def test_resumable(name: str, preset: str) -> None:
    """Same lines, order, ids, parents, types; calls and results paired; texts verbatim; arguments' keys and types."""
    before, now = split(fixture(name)), split(outcome(name, preset).data)
    assert len(before) == len(now)
    calls: set[str] = set()
    for old, new in zip(before, now, strict=True):
        if old == new and b'"message"' not in old:
            continue
        try:
            entry = json.loads(new)
        except (ValueError, RecursionError):
            assert old == new
            continue
        if old != new:
            was = json.loads(old)
            if preset == "native" and "prunedAt" not in was.get("message", {}):
                # oh-my-pi marks so what it takes out itself.
                entry.get("message", {}).pop("prunedAt", None)
            assert skeleton(entry) == skeleton(was)
        message = entry.get("message") if isinstance(entry, dict) else None
        if isinstance(message, dict) and isinstance(message.get("content"), list):
            calls |= {part["id"] for part in message["content"] if part["type"] == "toolCall"}
            assert message.get("role") != "toolResult" or message["toolCallId"] in calls
            assert message.get("role") != "assistant" or message["content"]
            signed = [part for part in message["content"] if part["type"] == "thinking"]
            assert all(part in json.loads(old)["message"]["content"] for part in signed)


@pytest.mark.parametrize("preset", ["eager", "greedy", "pruned", "native"])
@pytest.mark.parametrize("name", SESSIONS)
def test_recoverable(tmp_path: Path, name: str, preset: str) -> None:
    """Every byte, mode and time come back; what lies beside is checked by SHA-256; `verify` agrees."""
    path = write(tmp_path, fixture(name))
    status = compress_session(path, POLICIES[preset]).status
    if preset != "greedy":
        assert status is (Status.UNCHANGED if STORIES[name].stays else Status.COMPRESSED)
    if status is not Status.COMPRESSED:
        return
    by_hash = {sha256(line).hexdigest() for line in units(fixture(name))}
    kept = {record["was"]["sha256"] for record in journal_of(path) if record["type"] == "edit"}
    assert kept
    assert kept <= by_hash
    assert verify_session(path).originals == len(kept)
    restore(path)
    assert path.read_bytes() == fixture(name)
    assert (path.stat().st_mode & 0o777, path.stat().st_mtime_ns) == (0o640, MTIME)


@pytest.mark.parametrize("name", [name for name in LARGE if name.endswith("l")])
def test_recoverable_whatever_a_key_holds(tmp_path: Path, name: str) -> None:
    """Also a long text where agents write an object, or where an extension may write anything, as pi's `data`."""
    for turned in range(6):
        lines = split(fixture(name))
        for number, line in enumerate(lines[1:], 1):
            entry = json.loads(line)
            for key in [key for key, value in entry.items() if isinstance(value, (dict, list))][turned : turned + 1]:
                entry[key] = f"what the entry says in line {number}\n" * 200
                lines[number] = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        path = write(tmp_path, content := b"".join(lines))
        with suppress(NotASession):
            compress_session(path, GREEDY)
            restore_session(path)
        assert path.read_bytes() == content
        shutil.rmtree(store_in(path).folder, ignore_errors=True)


@pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is not installed")
@pytest.mark.parametrize("name", LARGE)
def test_recoverable_with_zstd_alone(tmp_path: Path, name: str) -> None:
    """`zstd -dc` prints every line that was replaced, once, in order; a message of a document as a line."""
    path = write(tmp_path, fixture(name))
    compress(path)
    printed = subprocess.run(["zstd", "-dc", store_in(path).originals], capture_output=True, check=True).stdout
    changed = [old for old, new in zip(units(fixture(name)), units(path.read_bytes()), strict=True) if old != new]
    assert printed == b"".join(line if line.endswith(b"\n") else line + b"\n" for line in changed)


def without_mirrors(raw: bytes, line: Line, *, at_rest: bool) -> Any:
    """Return a line without its copies for the screen that may go: not at rest only what no screen shows again."""
    entry = json.loads(raw)
    for block in line.blocks:
        if block.kind is Kind.MIRROR and (at_rest or block.unseen):
            holder = entry
            for step in block.path[:-1]:
                holder = holder[step]
            holder.pop(block.path[-1], None)
    return entry


@pytest.mark.parametrize("preset", POLICIES)
@pytest.mark.parametrize("name", LARGE)
def test_recent_context_untouched(name: str, preset: str) -> None:
    """Protected lines keep all but what nobody sees, and mirrors at rest; they are the last ones of the live path."""
    view = view_of(fixture(name), POLICIES[preset])
    standing = view.standing
    pairs = zip(units(fixture(name)), units(outcome(name, preset).data), view.lines, standing, strict=True)
    for old, new, line, where in pairs:
        if where is Protection.PROTECTED and old != new:
            assert any(block.kind is Kind.MIRROR for block in line.blocks)
            left = [without_mirrors(each, line, at_rest=view.policy.at_rest) for each in (old, new)]
            assert left[0] == left[1]
    assert (Protection.PROTECTED in standing) == (preset != "greedy")
    live = [standing[number] for number in view_of(fixture(name)).survey.shape.live]
    first = live.index(Protection.PROTECTED) if Protection.PROTECTED in live else len(live)
    assert set(live[first:]) <= {Protection.PROTECTED}


@pytest.mark.parametrize("preset", POLICIES)
@pytest.mark.parametrize("name", SESSIONS)
def test_smaller_in_total(name: str, preset: str) -> None:
    """Session and all beside it, for each file; or nothing is written."""
    found = outcome(name, preset)
    if found.status is Status.COMPRESSED:
        assert found.total < len(fixture(name))
    else:
        assert found.beside == []
        assert found.data == fixture(name)


def test_smaller_in_total_at_every_run(tmp_path: Path) -> None:
    """Not only at the first: what a run adds beside the session is less than what it takes out."""
    made = PiSession()
    path = write(tmp_path, made)
    rng = random.Random(4)
    runs = 0
    for number in range(40):
        made.user(f"Part {number}.")
        made.step("bash", {"command": "make"}, texts.log_lines(rng, rng.choice((2, 8, 14, 40))))
        made.assistant("Done.")
        with path.open("ab") as file:
            file.write(b"".join(made.lines()[len(split(path.read_bytes())) :]))
        before = disk(path)
        runs += compress_session(path, EAGER, force=True).status is Status.COMPRESSED
        assert disk(path) <= before
    assert runs > 4
    restore(path)
    assert path.read_bytes() == made.bytes()


@pytest.mark.parametrize("preset", POLICIES)
@pytest.mark.parametrize("name", SESSIONS)
def test_never_worse(name: str, preset: str) -> None:
    """No line grows; a second run writes nothing; a line that is not understood is copied."""
    found = outcome(name, preset)
    for old, new in zip(units(fixture(name)), units(found.data), strict=True):
        assert new == old or len(new) < len(old)
    assert found.second is Status.UNCHANGED
    assert not found.second_wrote


BAD = [
    b"\n",
    b"\r\n",
    b"{torn\n",
    b"\0\0\0\n",
    b"\xff\xfe\n",
    b'{"type":"message","message":{"role":"toolResult","content":[NaN]}}\n',
    b'"' + b"x" * 5000 + b'"\n',
    b"[" * 2000 + b"\n",
]


@pytest.mark.parametrize("bad", BAD, ids=lambda raw: repr(raw[:12]))
@pytest.mark.parametrize("name", ["pi-anthropic.jsonl", "pi-v1.jsonl", "omp.jsonl"])
def test_nothing_lost_at_a_bad_line(tmp_path: Path, name: str, bad: bytes) -> None:
    """Wherever it stands, it is copied, and the lines around it are what they would be."""
    lines = split(fixture(name))
    for at in (2, len(lines) // 2, len(lines)):
        path = write(tmp_path, b"".join([*lines[:at], bad, *lines[at:]]))
        compress_session(path, EAGER)
        assert split(path.read_bytes())[at] == bad
        restore_session(path)
        assert path.read_bytes() == b"".join([*lines[:at], bad, *lines[at:]])
        shutil.rmtree(store_in(path).folder, ignore_errors=True)


@pytest.mark.parametrize("cut", range(1, 300, 23))
def test_nothing_lost_at_a_line_that_is_being_written(tmp_path: Path, cut: int) -> None:
    """Cut at any byte: the torn end is copied, and the agent may write on behind it."""
    whole = fixture("pi-anthropic.jsonl")
    path = write(tmp_path, whole[:-cut])
    compress(path)
    assert split(path.read_bytes())[-1] == split(whole[:-cut])[-1]
    with path.open("ab") as file:
        file.write(whole[-cut:])
    restore(path)
    assert path.read_bytes() == whole


def test_not_imitable(tmp_path: Path) -> None:
    """What a session quotes in the marker's form stays content; in a new call it is counted for a warning."""
    text = texts.log_lines(random.Random(1), 100)
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "make"}, text)
    made.step("write", {"path": "a.txt", "content": text}, "ok")
    path = write(tmp_path, turn(made))
    assert compress(path).imitated_markers == 0
    written = entries(path.read_bytes())[4]["message"]["content"][0]["arguments"]["content"]
    assert "the tool received all of it; do not copy this line]]" in written
    made.step("write", {"path": "b.txt", "content": written}, "ok")
    made.step("bash", {"command": "cat b.txt"}, written)
    made.user(written)
    made.assistant(written)
    with path.open("ab") as file:
        file.write(b"".join(made.lines()[len(split(path.read_bytes())) :]))
    stats = compress_session(path, EAGER, force=True)
    assert (stats.imitated_markers, stats.imitated_in_calls) == (2, 1)
    restore(path)
    assert path.read_bytes() == made.bytes()


def test_not_imitable_by_another_sessions_marker(tmp_path: Path) -> None:
    """A result that quotes a marker of another session is content: previewed, kept, and brought back with it."""
    other = write(tmp_path, turn(_logs()), "other.jsonl")
    compress(other)
    quoted = other.read_bytes().decode()
    made = PiSession(seed="quoting")
    made.user("Go.")
    made.step("bash", {"command": "cat other.jsonl"}, quoted)
    path = write(tmp_path, turn(made))
    assert compress(path).imitated_markers == 1
    assert compress_again(path).imitated_markers == 0
    assert restore_session(path, from_markers=True).status is Status.RESTORED
    assert path.read_bytes() == made.bytes()


def _logs() -> PiSession:
    made = PiSession()
    made.user("Go.")
    for number in range(4):
        made.step("bash", {"command": "make"}, texts.log_lines(random.Random(number), 60))
    return made


def test_bounded_memory(tmp_path: Path) -> None:
    """Twice the session takes a bounded number of bytes a line more."""
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    generate(small, 20)
    generate(large, 40)
    lines = len(split(large.read_bytes())) - len(split(small.read_bytes()))
    for command in (("compress", "--force"), ("restore",)):
        (before, *done), (after, *last) = (memory_of(*command, path) for path in (small, large))
        assert done[0] == last[0] == 0
        assert (after - before) * (1 << 20) / lines < 3_000


def test_a_policy_that_says_so_switches_all_off(tmp_path: Path) -> None:
    """`enabled: false` touches nothing."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    before = snapshot(path)
    assert compress_session(path, replace(BALANCED, enabled=False), force=True).status is Status.SKIPPED
    assert snapshot(path) == before
