"""A rewritten export is imported and resumed by the real OpenCode, which sends what it sends after the original."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agents import opencode
from tests.agents.bodies import messages
from tests.agents.checkpointing import said_in
from tests.agents.compare import MARKER, differences
from tests.agents.installed import need
from tests.agents.opencode import Fork
from tests.agents.sessions import (
    FIXTURES,
    LITTLE_PROTECTED,
    NO_THRESHOLDS,
    PRUNED_NATIVE,
    compressed,
    of_corpus,
    rewritten,
)
from tests.agents.standin import Request
from tests.support import blocks
from tests.support.documents import OpenCodeExport
from tests.support.rows import rows
from tests.support.runs import run

CLEARED = "[Old tool result content cleared]"
NOTES = "/tmp/notes.txt"
TEXT = "\n".join(f"{number}: The gauge of the harbor reads {number * 37}." for number in range(1, 90))

_NOW = re.compile(r"(?:Message time|Working directory): [^\\]+")
"""What Kilo says below each prompt."""

CORPUS_RUNS = [
    ("ses_00e640058ffe", "little"),  # chat completions, reasoning
    ("ses_09378d3bdffe", "little pruned"),  # the same, calls that failed
    ("ses_277daa810ffe", "little"),  # signed reasoning by way of GitHub Copilot, a compaction
    ("ses_280fa301bffe", "little"),  # Responses
]


def test_a_rewritten_fixture_is_resumed(tmp_path: Path) -> None:
    for after in check(FIXTURES / "opencode.json", "default little archive pruned", tmp_path):
        assert any(MARKER in each["content"] for each in after.body["messages"] if each["role"] == "tool")


@pytest.mark.parametrize(("name", "ways"), CORPUS_RUNS)
def test_a_rewritten_real_session_is_resumed(name: str, ways: str, tmp_path: Path) -> None:
    check(of_corpus(name), ways, tmp_path)


def test_what_is_pruned_in_its_own_words_is_heeded(tmp_path: Path) -> None:
    """The model gets what it gets of a call that OpenCode pruned itself, and all else as it was."""
    need(opencode.program(), "OpenCode")
    original = tmp_path / "opencode.json"
    original.write_bytes((FIXTURES / original.name).read_bytes())
    smaller = compressed(original, PRUNED_NATIVE)
    before, after = resumed([original, smaller], tmp_path)
    pruned = {
        part["callID"]
        for each in json.loads(smaller.read_bytes())["messages"]
        for part in each["parts"]
        if part["type"] == "tool" and "compacted" in part["state"]["time"]
    }
    sent = {each["tool_call_id"]: each["content"] for each in after.body["messages"] if each["role"] == "tool"}
    assert pruned & sent.keys()
    assert all(sent[name] == CLEARED for name in pruned & sent.keys())
    said = differences(before.body, after.body, opencode.thoughts(original))
    assert len(said) == sum(each.endswith(f"changed and does not say so: {CLEARED!r}") for each in said)
    assert after.size < before.size


def check(session: Path, ways: str, folder: Path) -> list[Request]:
    """Compare the requests, and return those of the rewritten sessions."""
    need(opencode.program(), "OpenCode")
    original = folder / session.name
    original.write_bytes(session.read_bytes())
    names = ways.split()
    before, *after = resumed([original, *(rewritten(original, way) for way in names)], folder)
    for way, each in zip(names, after, strict=True):
        assert differences(before.body, each.body, opencode.thoughts(original)) == [], way
        assert each.size < before.size, way
    return after


def resumed(sessions: Sequence[Path], folder: Path) -> list[Request]:
    """Resume all at once: starting an agent takes longer than all else. A request may name the folder."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(opencode.resume, sessions, (folder / f"at{number}" for number in range(len(sessions)))))


def test_what_it_holds_in_data_urls_goes_and_is_named(tmp_path: Path) -> None:
    """Files in results and prompts, and what its own read of a file that the user named gave back."""
    need(opencode.program(), "OpenCode")
    read = {"synthetic": True, "text": f'Called the Read tool with the following input: {{"filePath":"{NOTES}"}}'}
    made = OpenCodeExport().user("Look at @notes.txt.").part("text", **read)
    made.part("text", synthetic=True, text=f"<path>{NOTES}</path>\n<type>file</type>\n<content>\n{TEXT}\n</content>")
    made.part("file", mime="text/plain", url=f"data:text/plain;base64,{base64.b64encode(TEXT.encode()).decode()}")
    made.part("file", mime="image/png", filename="a.png", url=f"data:image/png;base64,{blocks.png()}")
    made.assistant().tool("read", {"filePath": "/tmp/b.png"}, "Image read successfully")
    part = made.messages[-1]["parts"][-1]
    ids = {key: part[key] for key in ("id", "sessionID", "messageID")}
    picture = {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{blocks.png(48, 1)}"}
    part["state"]["attachments"] = [{**picture, **ids}]
    made.part("text", text="Now.", metadata={"anthropic": {}})
    for number in range(6):
        made.user(f"Step {number}.").assistant().part("text", text="Done.")
    original = tmp_path / "made.json"
    original.write_bytes(made.bytes())
    before, after = resumed([original, compressed(original, LITTLE_PROTECTED)], tmp_path)
    (said,) = differences(before.body, after.body)
    assert said.startswith(f"message 0 (user): text changed from '<path>{NOTES}</path>")
    sent = json.dumps(after.body)
    assert sent.count(MARKER) == 3
    assert "base64" in json.dumps(before.body)
    assert "base64" not in sent


def test_its_own_pruning_would_hide_our_previews(tmp_path: Path) -> None:
    """What decided against `time.compacted`: of a call that has it the model gets neither preview nor way back."""
    need(opencode.program(), "OpenCode")
    original = tmp_path / "opencode.json"
    original.write_bytes((FIXTURES / original.name).read_bytes())
    document = json.loads(compressed(original, NO_THRESHOLDS).read_bytes())
    states = [part["state"] for each in document["messages"] for part in each["parts"] if part["type"] == "tool"]
    shortened = [state for state in states if MARKER in state["output"]]
    for state in shortened:
        state["time"]["compacted"] = state["time"]["end"]
    original.write_text(json.dumps(document))
    results = [each for each in opencode.resume(original, tmp_path).body["messages"] if each["role"] == "tool"]
    assert CLEARED in {each["content"] for each in results}
    assert not any(MARKER in each["content"] for each in results)


@pytest.mark.parametrize("fork", [opencode.OPENCODE, opencode.KILO], ids=lambda fork: fork.folder)
def test_a_session_is_resumed_from_its_database(fork: Fork, tmp_path: Path) -> None:
    """As the rewritten export is; and after a restore the request is the original's, with each row as it was."""
    need(opencode.program(fork=fork), fork.called)
    original, archive = FIXTURES / "opencode.json", ("compress", "--force", "--preset", "archive")
    found: list[bool] = []

    def restored(path: Path) -> None:
        before = rows(path)
        run(*archive, path)
        found.append(rows(path) == before)
        run("restore", path)
        found.append(rows(path) == before)

    changes: Sequence[Callable[[Path], object]] = (
        lambda _: None,
        lambda path: run("compress", "--force", path),
        lambda path: run(*archive, path),
        restored,
    )
    folders = (tmp_path / str(number) for number in range(len(changes)))

    def resumed_in(folder: Path, change: Callable[[Path], object]) -> Request:
        (request,) = opencode.resume_often(original, folder, 1, change=change, fork=fork)
        return replace(request, body=json.loads(_NOW.sub("", json.dumps(request.body))))

    with ThreadPoolExecutor(2) as pool:
        before, default, archived, back = pool.map(resumed_in, folders, changes)
    for after in (default, archived):
        assert differences(before.body, after.body, opencode.thoughts(original)) == []
    assert archived.size < default.size < before.size
    assert differences(before.body, back.body) == []
    assert found == [False, True]


def test_a_summary_in_a_database_is_read(tmp_path: Path) -> None:
    need(opencode.program(), "OpenCode")

    def summed_up(path: Path) -> None:
        run("compact", "--keep-tokens", "2000", path)

    sent = opencode.resume_often(FIXTURES / "opencode.json", tmp_path, 2, change=summed_up)
    for request in sent:
        texts = [said_in(each) for each in messages(request.body)]
        assert sum("What did we do so far?" in each for each in texts) == 1
