"""Values nested deeper than a parser or Python goes: the line is copied, and nothing else of the session suffers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from sessioncompress.core import jsonl
from sessioncompress.hooks import guard
from sessioncompress.store.layout import store_in
from tests.support.build import PiSession
from tests.support.chats import ChatSession, GenCodeSession
from tests.support.claude import ClaudeSession
from tests.support.documents import GeminiDocument, OpenCodeExport
from tests.support.rollout import Rollout
from tests.support.runs import invoke, journal_of, run, split, turn
from tests.support.turns import B
from tests.unit.hooks.calls import INVENTED

DEPTHS = [1, 100, *range(jsonl.DEEPEST - 10, jsonl.DEEPEST + 6), 254, 300, 500, 800]
"""Around our own bound, which counts what a value stands in."""
FAR = [990, 1000, 1023, 1024, 1030, 3000, 60_000]
"""Around those of parsers and of Python, and beyond."""
LONG = "a line of output, as a tool prints it\n" * 200
_MARK = re.compile(rb'(\\?")@([0-9]+)@\\?"')


pytestmark = pytest.mark.usefixtures("at_home")


def nested(data: bytes) -> bytes:
    """Put a text that is nested so many lists deep in the place of each `@number@`, also where JSON is in a string."""

    def deep(mark: re.Match[bytes]) -> bytes:
        depth = int(mark[2])
        return b"[" * depth + mark[1] + b"x" * 400 + mark[1] + b"]" * depth

    return _MARK.sub(deep, data)


Build = Callable[[Iterable[int]], bytes]


def with_each(kind: Callable[[], B], add: Callable[[B, str], object]) -> Build:
    """Build sessions to which something is added for each depth, before what a run replaces."""

    def build(depths: Iterable[int]) -> bytes:
        made = kind()
        made.asks("Go.")
        for depth in depths:
            add(made, f"@{depth}@")
        for number in range(20):
            made.runs(f"cat {number}", f"{number}\n{LONG}")
        return turn(made, 6).bytes()

    return build


claude = with_each(ClaudeSession, lambda made, mark: made.step("X", {"q": mark}, INVENTED, {"q": mark}))
pi = with_each(PiSession, lambda made, mark: made.step("x", {"q": mark}, INVENTED, details={"q": mark}))
LINES: dict[str, Build] = {
    "claude": claude,
    "pi": pi,
    # In these two in the JSON that a string holds.
    "codex": with_each(Rollout, lambda made, mark: made.mcp("server", "tool", {"q": mark}, INVENTED, {"q": mark})),
    "chat": with_each(ChatSession, lambda made, mark: made.step("x", {"q": mark}, INVENTED)),
}
DOCUMENTS: dict[str, Build] = {
    "gemini": with_each(
        GeminiDocument, lambda made, mark: made.answer("I look.", made.used("x", {"q": mark}, INVENTED, mark))
    ),
    "opencode": with_each(
        OpenCodeExport,
        lambda made, mark: made.assistant().tool("x", {"q": mark}, INVENTED, {"q": mark}).finish("tool-calls"),
    ),
    "gencode": with_each(GenCodeSession, lambda made, mark: made.step("x", {"q": mark}, INVENTED)),
}


def goes_through(path: Path, options: Iterable[str]) -> None:
    """Put a session through every command, and back."""
    was = path.read_bytes()
    done = json.loads(run("compress", "--force", *options, "--json", path).stdout)["files"][0]
    assert done["status"] == "compressed", done
    small = path.read_bytes()
    again = json.loads(run("compress", "--force", *options, "--json", path).stdout)["files"][0]
    assert again["status"] == "unchanged", again
    for command in ("verify", "stats"):
        run(command, path)
    assert invoke("budget", path).exit_code in {0, 1}
    refs = {record["ref"] for record in journal_of(path) if record["type"] == "block"}
    for ref in sorted(refs)[:5]:
        run("show", ref, path)
    for way in ((), ("--from-markers",)):
        run("restore", *way, path)
        assert path.read_bytes() == was
        path.write_bytes(small)


@pytest.mark.parametrize(
    ("build", "depths", "options"),
    [
        *((build, [*DEPTHS, *FAR], ()) for build in LINES.values()),
        *((build, DEPTHS, ()) for build in DOCUMENTS.values()),
        *((claude, [*DEPTHS, *FAR], options) for options in (("--preset", "archive"), ("--prune",))),
    ],
    ids=[*LINES, *DOCUMENTS, "claude, archive", "claude, prune"],
)
def test_every_depth(tmp_path: Path, build: Build, depths: list[int], options: tuple[str, ...]) -> None:
    """In one session: of 990 and more the file failed for good, in every command."""
    path = tmp_path / "session.json"
    path.write_bytes(nested(build(depths)))
    goes_through(path, options)


@pytest.mark.parametrize("depth", [jsonl.DEEPEST, 990, 1030, 60_000])
def test_each_depth_that_is_appended(tmp_path: Path, depth: int) -> None:
    """By an agent that goes on with a compressed session: it comes back with all that was appended."""
    path = tmp_path / "session.jsonl"
    whole = nested(claude([depth]))
    lines = split(whole)
    path.write_bytes(b"".join(lines[4:]))
    run("compress", "--force", path)
    with path.open("ab") as file:
        file.write(b"".join(lines[1:4]))
    for command in (["verify"], ["stats"], ["compress", "--force"], ["verify"], ["restore"]):
        run(*command, path)
    assert path.read_bytes() == b"".join([*lines[4:], *lines[1:4]])


@pytest.mark.parametrize("build", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize("depth", [990, 60_000])
def test_a_document_of_any_depth(tmp_path: Path, build: Build, depth: int) -> None:
    """From a thousand on it was refused, and one that an agent wrote on in could not be restored."""
    path = tmp_path / "session.json"
    path.write_bytes(nested(build([depth])))
    goes_through(path, ())


def test_a_deeper_line_is_counted(tmp_path: Path) -> None:
    """One deeper than the bound is not understood, and has its place all the same."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(nested(pi([jsonl.DEEPEST - 10, jsonl.DEEPEST + 10])))
    (done,) = json.loads(run("compress", "--force", "--json", path).stdout)["files"]
    assert done["linesNotUnderstood"] == 2
    assert b"[" * (jsonl.DEEPEST + 10) in path.read_bytes()


@pytest.mark.parametrize("name", ["claude", "pi", "codex", "gemini", "opencode"])
def test_what_was_rewritten_at_a_depth_that_is_none_now_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """An earlier version read deeper lines."""
    path = tmp_path / "session.json"
    path.write_bytes(nested({**LINES, **DOCUMENTS}[name]([20, 60, 120])))
    was = path.read_bytes()
    run("compress", "--force", path)
    refs = {record["ref"] for record in journal_of(path) if record["type"] == "block"}
    small = path.read_bytes()
    monkeypatch.setattr(jsonl, "DEEPEST", 15)
    for ref in refs:
        run("show", ref, path)
    for way in ((), ("--from-markers",)):
        run("verify", path)
        run("restore", *way, path)
        assert path.read_bytes() == was
        path.write_bytes(small)


@pytest.mark.parametrize("depth", [300, 1500])
def test_a_deep_record_in_a_journal_is_damage(tmp_path: Path, depth: int) -> None:
    """Of a store that came from elsewhere; it ends no command otherwise."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(claude([1]))
    run("compress", "--force", path)
    journal = store_in(path).journal
    lines = split(journal.read_bytes())
    lines[0] = b'{"type":"block","ref":' + b"[" * depth + b"]" * depth + b"}\n"
    journal.write_bytes(b"".join(lines))
    for command in ("verify", "restore"):
        assert invoke(command, path).exit_code == 5


@pytest.mark.parametrize("depth", [300, 60_000])
def test_a_deep_call_does_not_pass_the_guard(depth: int) -> None:
    """What cannot be looked at, and holds what looks like a marker, is not written."""
    call = json.dumps({"tool_name": "Write", "tool_input": {"content": INVENTED, "q": f"@{depth}@"}}).encode()
    assert b'"deny"' in guard.answer(nested(call))
