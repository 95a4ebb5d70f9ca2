"""What a run would do is not told as done, and what is told is true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import fixture, invoke
from tests.support.session import PiSession

_OUTPUT = "a line of output\n" * 600


def said(*arguments: str | Path) -> str:
    return invoke(*arguments).stdout


def a_session(path: Path, *tools: str) -> Path:
    """Write a session with a result of each of these tools, before its last turn."""
    session = PiSession().opening()
    session.user("go")
    for tool in tools:
        session.step(tool, {"command": "make"}, _OUTPUT)
    session.user("and now?")
    session.assistant("Nothing.")
    return session.write(path)


def test_a_dry_run_says_so(tmp_path: Path) -> None:
    """In its JSON, of the whole and of each file; and in its text."""
    path = a_session(tmp_path / "s.jsonl", *["bash"] * 20)
    before = path.read_bytes()
    for option in ("--dry-run", "--check"):
        would = json.loads(said("compress", option, "--keep-turns", "1", "--json", path))
        assert (would["dryRun"], would["files"][0]["status"]) == (True, "would-compress")
        text = said("compress", option, "--keep-turns", "1", path)
        assert " would become " in text
        assert "compressed" not in text
    assert path.read_bytes() == before
    done = json.loads(said("compress", "--keep-turns", "1", "--json", path))
    assert (done["dryRun"], done["files"][0]["status"]) == (False, "compressed")


def one_step(output: str) -> bytes:
    """Return a session of one prompt and one step."""
    session = PiSession().opening()
    session.user("go")
    session.step("bash", {"command": "make"}, output)
    return session.bytes()


@pytest.mark.parametrize(
    ("data", "hinted"),
    [
        (one_step("a line\n" * 40_000), False),
        (one_step("a line\n" * 400), False),
        (fixture("pi-gemini.jsonl"), True),
        (fixture("claude-code.jsonl"), True),
    ],
    ids=["the newest step is too long for any", "nothing to keep less of", "pi", "claude code"],
)
def test_a_hint_is_given_only_where_it_helps(tmp_path: Path, data: bytes, hinted: bool) -> None:
    """A run with the options that it names keeps less, also against a policy file that says otherwise."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    policy = {"protectTokens": None, "turnThresholdBeforeCompress": 9, "minSavedKB": 100_000}
    (tmp_path / "compression.json").write_text(json.dumps({"session": policy}))

    def run(*options: str) -> dict[str, Any]:
        document = json.loads(said("compress", "--dry-run", "--min-size", "0", "--json", *options, path))
        file: dict[str, Any] = document["files"][0]
        return file

    file = run()
    hint = re.search(r"; (--[^;]+) \(\w+\) keeps less$", file["reason"])
    assert bool(hint) == hinted
    if hint:
        assert run(*hint[1].split())["protectedBytes"] < file["protectedBytes"]


def test_tools_of_one_server_differ_in_the_table(tmp_path: Path) -> None:
    """Their names begin alike, and are long: none is cut where no terminal is too narrow for it."""
    tools = (
        "mcp__chrome-devtools__take_snapshot",
        "mcp__chrome-devtools__take_screenshot",
        "mcp__chrome-devtools__click",
    )
    lines = said("stats", a_session(tmp_path / "s.jsonl", *tools, "bash")).splitlines()
    rows = [line.split("\t") for line in lines if line.startswith("result\t")]
    assert {row[1] for row in rows} == {*tools, "bash"}
    assert {row[2] for row in rows} == {"1"}
