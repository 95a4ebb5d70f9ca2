"""A value that the agent's JavaScript reads and our parser does not, in a session that holds others in one JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.core.jsonl import cut
from tests.support.chats import GenCodeSession
from tests.support.documents import GeminiDocument, OpenCodeExport
from tests.support.records import GeminiRecords
from tests.support.runs import invoke, journal_of, run, turn
from tests.support.turns import B

LONG = "a line of output, as a tool prints it\n" * 200
LATE = "said last"
VALUES = {
    "half a character": rb'"cut \ud83d"',
    "the other half": rb'"\\\uDE00 cut"',
    "beyond floats": b"1e400",
    "an integer beyond floats": b"-" + b"9" * 400,
    "deep": b"[" * 1100 + b'"\xc3\xbc"' + b"]" * 1100,
    "deeper": b'{"a":' * 60_000 + b'"]"' + b"}" * 60_000,
    "all of them": b'["\xc3\xbc",' + b'{"a":[' * 1100 + rb'"\ud83d",-1E+999' + b"]}" * 1100 + rb',"\udbff"]',
}


pytestmark = pytest.mark.usefixtures("at_home")


def worked(made: B) -> B:
    made.asks("Größe?")
    for number in range(12):
        made.runs(f"cat {number}", f"{number}\n{LONG}")
    turn(made, 6).asks(LATE)
    return made


def gemini() -> bytes:
    return worked(GeminiDocument()).bytes()


def opencode() -> bytes:
    return worked(OpenCodeExport()).bytes()


def gencode() -> bytes:
    return worked(GenCodeSession()).bytes()


def records() -> bytes:
    """Return records of Gemini CLI that a resume ends: a line that sets all messages anew."""
    made = GeminiRecords()
    made.user("Größe?")
    for number in range(12):
        made.steps("I look.", made.used("shell", {"command": f"cat {number}"}, f"{number}\n{LONG}"))
    return turn(made, 6).user(LATE).resume().bytes()


Build = Callable[[], bytes]
DOCUMENTS: list[Build] = [gemini, opencode, gencode]
SESSIONS: list[Build] = [*DOCUMENTS, records]


def named(build: Build) -> str:
    return build.__name__


def each_in(builds: list[Build]) -> pytest.MarkDecorator:
    """Try each value in the last of these sessions, and all of them at once in the others: no format reads values."""
    pairs = [(builds[-1], name) for name in VALUES] + [(build, "all of them") for build in builds[:-1]]
    return pytest.mark.parametrize(
        ("build", "value"),
        [(build, VALUES[name]) for build, name in pairs],
        ids=[f"{named(build)}, {name}" for build, name in pairs],
    )


EACH_IN_SESSIONS, EACH_IN_DOCUMENTS = each_in(SESSIONS), each_in(DOCUMENTS)


def with_late(data: bytes, value: bytes) -> bytes:
    """Return a session with a value in the place of the text that was said last."""
    before, said, behind = data.rpartition(json.dumps(LATE).encode())
    assert said
    return before + value + behind


def compressed(tmp_path: Path, data: bytes) -> Path:
    """Return a session with this content that was compressed."""
    path = tmp_path / "session.json"
    path.write_bytes(data)
    run("compress", "--force", path)
    assert path.stat().st_size < len(data) / 2
    return path


@EACH_IN_SESSIONS
def test_what_the_agent_adds_keeps_no_original_from_coming_back(tmp_path: Path, build: Build, value: bytes) -> None:
    """It ended every way back, and the error said that nothing could be put back."""
    was = build()
    path = compressed(tmp_path, was)
    small = with_late(path.read_bytes(), value)
    path.write_bytes(small)
    (checked,) = json.loads(run("verify", "--json", path).stdout)["files"]
    assert checked["linesRewritten"] >= 10
    for way in ((), ("--from-markers",)):
        path.write_bytes(small)
        run("restore", *way, path)
        assert path.read_bytes() == with_late(was, value)


@EACH_IN_SESSIONS
def test_a_session_that_holds_one_is_compressed(tmp_path: Path, build: Build, value: bytes) -> None:
    """Its message is copied, and counted as not understood, as a line is in other sessions."""
    was = with_late(build(), value)
    path = tmp_path / "session.json"
    path.write_bytes(was)
    (done,) = json.loads(run("compress", "--force", "--json", path).stdout)["files"]
    assert (done["status"], done["linesNotUnderstood"]) == ("compressed", 1)
    assert value in path.read_bytes()
    run("verify", path)
    run("restore", path)
    assert path.read_bytes() == was


@EACH_IN_DOCUMENTS
def test_one_that_stands_around_the_messages(tmp_path: Path, build: Build, value: bytes) -> None:
    was = build()
    path = compressed(tmp_path, was)
    path.write_bytes(path.read_bytes().replace(b"{", b'{"new": ' + value + b", ", 1))
    run("verify", path)
    run("restore", path)
    assert path.read_bytes() == was.replace(b"{", b'{"new": ' + value + b", ", 1)


@pytest.mark.parametrize("build", DOCUMENTS, ids=named)
def test_beside_a_message_that_is_gone(tmp_path: Path, build: Build) -> None:
    """The message that is not understood is not taken for what became of the missing one."""
    was = build()
    path = compressed(tmp_path, was)
    now, then = (with_late(data, VALUES["half a character"]) for data in (path.read_bytes(), was))
    spans, original_spans = ((found.spans if (found := cut(data)) else ()) for data in (now, then))
    first = next(
        number
        for number, (one, other) in enumerate(zip(spans, original_spans, strict=True))
        if now[slice(*one)] != then[slice(*other)]
    )
    path.write_bytes(now[: spans[first][0]] + now[spans[first + 1][0] :])
    (checked,) = json.loads(run("verify", "--json", path).stdout)["files"]
    assert checked["linesNotThere"] == 1
    run("restore", path)
    assert path.read_bytes() == then[: original_spans[first][0]] + then[original_spans[first + 1][0] :]


@pytest.mark.parametrize("build", DOCUMENTS, ids=named)
def test_where_nothing_can_be_put_back_what_is_kept_is_named(tmp_path: Path, build: Build) -> None:
    """A document that is cut off is no session any more; every original can still be printed."""
    path = compressed(tmp_path, build())
    path.write_bytes(path.read_bytes()[:-20])
    result = invoke("restore", path)
    assert result.exit_code == 4
    for record in journal_of(path):
        if record["type"] == "block":
            run("show", record["ref"], path)
