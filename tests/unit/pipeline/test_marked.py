"""Markers that a session's own journal does not know: told by verify and restore, and no reason to fail."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core import marker
from sessioncompress.core.splice import within
from sessioncompress.errors import NotASession
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.operations.wording import verified
from sessioncompress.pipeline.summary import Status
from tests.support import blocks, texts
from tests.support.build import PiSession, image
from tests.support.runs import FIXTURES, GREEDY, append, compress, entries, fixture, result_texts, turn, write

UNKNOWN = "7f3a91c2e05b"
QUOTE = f"[[sessioncompress: 398 of 404 lines, 18.6 KB, kept on disk: sessioncompress show {UNKNOWN}]]"


def log(name: str) -> str:
    return texts.log_lines(random.Random(name), 90)


def grown(*names: str) -> PiSession:
    """Return a session with a step for each name."""
    made = PiSession()
    made.user("Go.", [image("A" * 6000)])
    for name in names:
        made.step("bash", {"command": f"cat {name}"}, log(name))
        turn(made, 2)
    return made


def of_two_sides(folder: Path) -> Path:
    """Return the session of one side beside the store from which both sides went on."""
    for side in ("ours", "theirs"):
        (folder / side).mkdir()
    ours = write(folder / "ours", grown("a", "b"))
    compress(ours)
    shutil.copytree(ours.parent, folder / "theirs", dirs_exist_ok=True)
    theirs = folder / "theirs" / ours.name
    append(theirs, grown("a", "b", "c", "d"))
    compress(theirs)
    shutil.copyfile(theirs, ours)
    return ours


def test_the_session_of_one_side_beside_the_store_of_another_is_told(tmp_path: Path) -> None:
    """Every line that the journal knows is right, and comes back; two more were rewritten by the other side."""
    path = of_two_sides(tmp_path)
    told = "2 markers stay that its journal does not know"
    found = verify_session(path)
    assert found.unknown_markers == 2
    assert told in verified(found)
    first, again, by_markers = (restore_session(path), restore_session(path), restore_session(path, from_markers=True))
    assert [each.status for each in (first, again, by_markers)] == [Status.RESTORED, *[Status.UNCHANGED] * 2]
    for each in (first, again, by_markers):
        assert told in each.reason
        assert "--originals OTHER" in each.reason
        assert "it has its original bytes" not in each.reason
    restore_session(path, from_markers=True, originals=tmp_path / "theirs" / path.name)
    assert path.read_bytes() == grown("a", "b", "c", "d").bytes()
    assert verify_session(path).unknown_markers == 0


def test_what_a_tool_printed_is_not_told(tmp_path: Path) -> None:
    """A marker among other lines, our own markers, and what stood there before the first run: all of it is content."""
    made = grown("a")
    made.step("bash", {"command": "cat README.md"}, f"# The marker\n\n{QUOTE}\n\nIt has one grammar.\n" + log("readme"))
    path = write(tmp_path, turn(made, 2))
    compress(path)
    whole = next(text for text in result_texts(entries(path.read_bytes())) if marker.references(text))
    made.step("bash", {"command": "jq . session.jsonl"}, whole)
    made.step("bash", {"command": "head -3 README.md"}, f"# The marker\n\n{QUOTE}")
    append(path, made)
    assert verify_session(path).unknown_markers == 0
    assert restore_session(path).reason == ""
    assert path.read_bytes() == made.bytes()
    assert restore_session(path).reason == "no line in it is rewritten"


def test_the_whole_text_of_another_session_is_told_and_stops_nothing(tmp_path: Path) -> None:
    """It looks as the session of another side does: only the user knows."""
    made = grown("a")
    path = write(tmp_path, turn(made, 2))
    compress(path)
    made.step("bash", {"command": "jq . other.jsonl"}, f"1\n2\n3\n{QUOTE}\n4\n5\n6")
    append(path, made)
    assert verify_session(path).unknown_markers == 1
    assert restore_session(path).reason.startswith("1 marker stays")
    assert path.read_bytes() == made.bytes()


@pytest.mark.parametrize("name", sorted(each.name for each in FIXTURES.glob("*.jsonl") if "-" in each.name))
def test_every_text_that_we_write_adds_up(tmp_path: Path, name: str) -> None:
    """So that none of another session is passed over; and all of it has the form."""
    path = write(tmp_path, fixture(name))
    with suppress(NotASession):
        compress_session(path, GREEDY)
    written = strings(entries(path.read_bytes()))
    assert all(text.count(marker.PREFIX) == len(marker.whole_in(text)) for text in written)
    for text in filter(marker.references, written):
        if marker.stands_in(text, in_arguments=marker.ARGUMENT_END in text):
            assert marker.adds_up(text), text


def strings(value: object) -> list[str]:
    """Return all texts in a value, those inside of one that holds JSON instead of it."""
    if isinstance(value, str):
        held = within(value)
        return [value] if held is None else strings(held)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in strings(each)]


NUMBERS = [
    ("all of it is left out", "[[sessioncompress: 3 lines, 1.0 KB]]", True),
    ("and something stands around it", "1\n2\n3\n[[sessioncompress: 3 lines, 1.0 KB]]", False),
    ("a picture", "[[sessioncompress: image/png, 3.6 KB]]", True),
    ("six lines of 404 stand", f"1\n2\n3\n{QUOTE}\n4\n5\n6", True),
    ("two of them cut in part", "\n".join([*"1234", QUOTE, *"5678"]), True),
    ("one too many", "\n".join([*"1234", QUOTE, *"56789"]), False),
    ("one too few", f"1\n2\n{QUOTE}\n4\n5\n6", False),
    ("two gaps", f"1\n{QUOTE.replace('398', '200')}\n2\n{QUOTE.replace('398', '200')}\n3\n4\n", True),
]


@pytest.mark.parametrize(("text", "adds_up"), [case[1:] for case in NUMBERS], ids=[case[0] for case in NUMBERS])
def test_the_lines_around_a_marker_are_as_many_as_it_says(text: str, adds_up: bool) -> None:
    """Where it is quoted among other text they are not."""
    assert marker.adds_up(text) is adds_up


def test_markers_that_the_agent_copied_are_told(tmp_path: Path) -> None:
    """Gemini CLI writes the results that it resumed with into lines of its own, which no restore knows."""
    records: list[dict[str, Any]] = [
        {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00.000Z", "kind": "main"}
    ]
    for number in range(3):
        part = {"functionResponse": {"id": f"c{number}", "name": "cat", "response": {"output": log(str(number))}}}
        stamp = {"timestamp": "2026-01-01T00:00:00.000Z"}
        call = {"id": f"c{number}", "name": "cat", "args": {}, "result": [part], "status": "success"}
        records.append({"id": f"u{number}", **stamp, "type": "user", "content": f"Look at {number}."})
        records.append({"id": f"g{number}", **stamp, "type": "gemini", "content": "I look.", "toolCalls": [call]})
    original = b"".join(json.dumps(each).encode() + b"\n" for each in records)
    path = write(tmp_path, original)
    compress(path)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    copied = [
        {**line, "id": f"{line['id']}_response", "type": "user", "content": line["toolCalls"][0]["result"]}
        for line in lines
        if line.get("toolCalls")
    ]
    for each in copied:
        del each["toolCalls"]
    with path.open("ab") as file:
        file.write(b"".join(json.dumps(each).encode() + b"\n" for each in copied))
    told = "2 markers stay that the agent copied: 'restore --from-markers' puts back what they stand for"
    first, again = restore_session(path), restore_session(path)
    assert [each.status for each in (first, again)] == [Status.RESTORED, Status.UNCHANGED]
    assert first.reason == told
    assert told in again.reason
    assert path.read_bytes().startswith(original)
    restore_session(path, from_markers=True)
    assert marker.PREFIX_BYTES not in path.read_bytes()
    assert restore_session(path).reason == "no line in it is rewritten"


@pytest.mark.parametrize("name", ["g_response", "r"], ids=["a copy", "the answer"])
def test_a_result_and_what_the_agent_moves_it_into_are_one(name: str, tmp_path: Path) -> None:
    """Gemini CLI takes the results in such a line, and the pictures, into the message of their calls."""
    stamp = {"timestamp": "2026-01-01T00:00:00.000Z"}
    header = {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00.000Z"}
    part = {"functionResponse": {"id": "c", "name": "cat", "response": {"output": log("a")}}}
    first = {"id": "u", **stamp, "type": "user", "content": "Look."}
    call = {"id": "g", **stamp, "type": "gemini", "content": [{"functionCall": {"id": "c", "name": "cat", "args": {}}}]}
    picture = {"inlineData": {"mimeType": "image/png", "data": blocks.png(160)}}
    answer = {"id": name, **stamp, "type": "user", "content": [part, picture]}
    last = [
        {"id": "v", **stamp, "type": "user", "content": "And?"},
        {"id": "w", **stamp, "type": "gemini", "content": "."},
    ]
    original = b"".join(json.dumps(each).encode() + b"\n" for each in (header, first, call, answer, *last))
    path = write(tmp_path, original)
    compress(path)
    parts = json.loads(path.read_bytes().splitlines()[3])["content"]
    made = {"id": "c", "name": "cat", "args": {}, "result": parts, "status": "success"}
    with path.open("ab") as file:
        file.write(json.dumps({**call, "content": "", "toolCalls": [made]}).encode() + b"\n")
    assert restore_session(path).reason.startswith("2 markers stay that the agent copied")
    restore_session(path, from_markers=True)
    moved = json.loads(path.read_bytes().splitlines()[-1])["toolCalls"][0]["result"]
    assert moved == [part, picture]
