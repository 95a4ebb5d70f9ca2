"""Nothing lost in sessions of no good shape: torn, cut, crossed, orphaned, of the wrong types, of an unknown kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import NotASession
from sessioncompress.operations.compress import compress_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Policy
from tests.faults.checks import Played, check_restored
from tests.faults.effort import effort
from tests.faults.hostile import Case, around, bulk, by_every_policy, cases, play
from tests.support import blocks, texts
from tests.support.blocks import stringify
from tests.support.build import PiSession, Use, dice
from tests.support.runs import GREEDY, snapshot, turn, write

_LONG = texts.log_lines(dice("shapes"), 40)
_ODD: dict[str, Any] = {
    "null": None,
    "a number": 7,
    "true": True,
    "an empty text": "",
    "a long text": _LONG,
    "a list": [None, _LONG],
    "an object": {"text": _LONG},
}


def _stays(sign: bytes) -> Callable[[Played], None]:
    """Lines with these bytes are the same after a run."""

    def asks(played: Played) -> None:
        assert all(old == new for old, new in played.lines_with(sign))

    return asks


def _line(data: bytes) -> Callable[[], PiSession]:
    return lambda: around(lambda made: made.raw(data))


def _message(**fields: Any) -> Callable[[], PiSession]:
    return lambda: around(lambda made: made.entry("message", message=fields))


def _called(arguments: Any, **extra: Any) -> Callable[[PiSession], None]:
    """Add a call whose arguments are of any type, and its result."""

    def add(made: PiSession) -> None:
        part = {"type": "toolCall", "id": "odd", "name": "write", "arguments": arguments, **extra}
        made.assistant(part)
        made.result("odd", _LONG, "write")

    return add


def _answered(**fields: Any) -> Callable[[PiSession], None]:
    """Add a call and its result with odd fields."""

    def add(made: PiSession) -> None:
        made.assistant(made.call("read", {"path": "a"}, call_id="odd"))
        usual = {"toolCallId": "odd", "toolName": "read", "content": [blocks.text(_LONG)], "isError": False}
        made.message("toolResult", **{**usual, **fields})

    return add


def _crossed(made: PiSession) -> None:
    """Answer parallel calls in the opposite order."""
    calls = [made.call("read", {"path": name}) for name in "abc"]
    made.assistant(*calls)
    for number, part in enumerate(reversed(calls)):
        made.result(part["id"], texts.log_lines(dice(number), 50), "read")


def _one_id_twice(made: PiSession) -> None:
    for number in range(2):
        made.assistant(made.call("read", {"path": "a"}, call_id="same"))
        made.result("same", texts.log_lines(dice(number), 50), "read")


def _answered_twice(made: PiSession) -> None:
    made.assistant(made.call("read", {"path": "a"}, call_id="same"))
    for number in range(2):
        made.result("same", texts.log_lines(dice(number), 50), "read")


def _branched() -> PiSession:
    made = PiSession().opening()
    root = made.user("Look at the logs.")
    bulk(made, "left")
    turn(made, 2)
    made.branch(root)
    bulk(made, "right")
    return turn(made, 2)


def _circle(made: PiSession) -> None:
    made.raw(_entry("aaaaaaaa", "bbbbbbbb")).raw(_entry("bbbbbbbb", "aaaaaaaa"))


def _entry(name: str, parent: str) -> bytes:
    message = {"role": "user", "content": _LONG}
    return stringify({"type": "message", "id": name, "parentId": parent, "message": message}).encode() + b"\n"


def _ids_twice(made: PiSession) -> None:
    for number in range(2):
        made.raw(_entry("cccccccc", str(made.leaf)))
        bulk(made, f"twice {number}")


def _compacted_to(keep: str | int) -> Callable[[PiSession], None]:
    def add(made: PiSession) -> None:
        made.compaction("The logs were looked at. " * 60, keep)

    return add


def _listed() -> PiSession:
    made = PiSession(version=1)
    made.user("Look at the logs.")
    bulk(bulk(made, "one"), "two")
    made.compaction("The logs were looked at.", 2)
    return turn(bulk(made, "three"), 2)


def _torn(cut: int) -> Callable[[], PiSession]:
    def make() -> PiSession:
        made = bulk(around(lambda made: made), "torn")
        made.raw(made.take_last()[:-cut])
        return made

    return make


def _of_every_type(what: str, make: Callable[[Any], Callable[[], PiSession]], sign: bytes) -> list[Case]:
    """Return a case for a value of each odd type; the lines with the sign stay."""
    return [Case(f"{what} that is {name}", make(value), _stays(sign)) for name, value in _ODD.items()]


def _session(add: Callable[[PiSession], object]) -> Callable[[], PiSession]:
    return lambda: around(add)


LEFT_ALONE = [
    Case("a block of NUL bytes", _line(b"\0" * 4096 + b"\n"), _stays(b"\0\0\0")),
    Case("a list, a text, a number and null", _line(b'[1]\n"a text alone"\n7\nnull\n'), _stays(b"a text alone")),
    Case("an empty object", _line(b"{}\n"), _stays(b"{}\n")),
    Case("a header in the middle", _line(b'{"type":"session","version":3,"id":"2"}\n'), _stays(b'"id":"2"')),
    Case("an entry of an unknown type", _session(lambda made: made.entry("new", odd=_LONG)), _stays(b'"odd":')),
    Case("an entry whose type is no text", _line(b'{"type":7,"odd":"' + b"x" * 4000 + b'"}\n'), _stays(b'"odd":')),
    Case("a message of an unknown role", _message(role="critic", content=[blocks.text(_LONG)]), _stays(b'"critic"')),
    Case(
        "a part of an unknown type", _message(role="assistant", content=[{"type": "new", "x": _LONG}]), _stays(b'"x":')
    ),
    Case(
        "a short command of the user's own", _session(lambda made: made.bash_execution("make", "ok")), _stays(b"bashEx")
    ),
    Case("a long prompt", _session(lambda made: made.user("Prompt: " + _LONG)), _stays(b"Prompt: ")),
    Case("a long answer", _session(lambda made: made.assistant("Answer: " + _LONG)), _stays(b"Answer: ")),
    *_of_every_type(
        "a message", lambda value: _session(lambda made: made.entry("message", message=value, odd=1)), b'"odd":1'
    ),
    *_of_every_type("a prompt", lambda value: _message(role="user", content=value, odd=1), b'"odd":1'),
    *_of_every_type("an answer", lambda value: _message(role="assistant", content=value, odd=1), b'"odd":1'),
    *_of_every_type("a result's content", lambda value: _session(_answered(content=value, odd=1)), b'"odd":1'),
    *_of_every_type("a part", lambda value: _message(role="assistant", content=[value], odd=1), b'"odd":1'),
    Case("a last line torn in its text", _torn(400)),
    Case("a last line torn in its last key", _torn(12)),
    Case("a last line without its end", _torn(1)),
]

REWRITTEN = [
    *[
        Case(f"a call's arguments that are {name}", _session(_called(value)), _stays(b'"arguments":'))
        for name, value in _ODD.items()
        if name != "an object"
    ],
    *[
        Case(f"a result whose {key} is {name}", _session(_answered(**{key: value})))
        for key in ("toolCallId", "toolName", "isError", "details")
        for name, value in _ODD.items()
    ],
    Case("results in the opposite order of their calls", _session(_crossed)),
    Case("two calls of one id", _session(_one_id_twice)),
    Case("two results of one call", _session(_answered_twice)),
    Case("a call without a result", _session(lambda made: made.assistant(made.call("write", {"content": _LONG})))),
    Case("a result without a call", _session(lambda made: made.result("none", _LONG))),
    Case("ids with the names of keys in them", _session(_called({"content": _LONG, '"id":"': '"parentId":null'}))),
    Case("two branches from one prompt", _branched),
    Case("entries that are each other's parent", _session(_circle)),
    Case("an entry that is its own parent", _session(lambda made: made.raw(_entry("dddddddd", "dddddddd")))),
    Case("two entries of one id", _session(_ids_twice)),
    Case("a parent that is not there", _session(lambda made: made.branch("eeeeeeee").user("Where am I?"))),
    Case("a second root", _session(lambda made: made.branch(None).user("From the start."))),
    Case("a checkpoint that keeps what is not there", _session(_compacted_to("ffffffff"))),
    Case("a checkpoint that keeps an index", _session(_compacted_to(2))),
    Case("a checkpoint that keeps a negative index", _session(_compacted_to(-1))),
    Case("a line of two megabytes", _session(lambda made: made.step("bash", {"command": "x"}, "x y " * (1 << 19)))),
    Case("a thousand small lines", _session(lambda made: [made.user(str(number)) for number in range(1000)])),
    Case("a thousand calls in one message", _session(lambda made: made.parallel([Use("read", {"path": "a"})] * 1000))),
    Case("an old list of entries", _listed),
    Case("a header of version 2", lambda: turn(bulk(PiSession(version=2), "two"), 2)),
]


@cases(LEFT_ALONE)
def test_a_line_of_no_known_shape_is_copied(tmp_path: Path, case: Case, policy: Policy) -> None:
    """It stays to the byte, and the lines around it are rewritten and come back."""
    play(case, policy, tmp_path)


@cases(REWRITTEN)
def test_an_odd_session_is_rewritten_and_comes_back(tmp_path: Path, case: Case, policy: Policy) -> None:
    """Whatever hangs on what: ids, pairs and parents stay, and what the odd line itself must keep."""
    play(case, policy, tmp_path)


@pytest.mark.parametrize("cut", range(1, 301, effort(23, 1, 1)))
def test_a_session_cut_at_any_of_its_last_bytes(tmp_path: Path, cut: int) -> None:
    """The torn end is copied, and where the agent writes the rest behind it the session is whole again."""
    made = bulk(around(lambda made: made), "torn")
    whole = made.bytes()
    path = write(tmp_path, whole[:-cut])
    assert compress_session(path, GREEDY).status is Status.COMPRESSED
    assert path.read_bytes().endswith(whole[:-cut].rpartition(b"\n")[2])
    with path.open("ab") as file:
        file.write(whole[-cut:])
    check_restored(path, GREEDY, whole)


_HEADER = b'{"type":"session","version":3,"id":"x","timestamp":"2026-03-02T09:00:00.000Z","cwd":"/tmp"}\n'


@by_every_policy
@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n",
        b"\0" * 512,
        _HEADER[:40],
        _HEADER.replace(b'"type":"session",', b""),
        _HEADER.replace(b'"id":"x",', b""),
        _HEADER.replace(b'"cwd":"/tmp"', b'"cwd":7'),
        _HEADER.replace(b"}", b',"createdAt":1}'),
        b'{"type":"session_meta","payload":{"id":"x","cwd":"/tmp"}}\n',
        b'{"parentUuid":null,"type":"user","message":{"role":"user","content":"Go."},"uuid":"x"}\n',
        b"[" + _HEADER[:-1] + b"]\n",
    ],
    ids=lambda head: repr(head[:50]),
)
def test_what_has_no_header_of_ours_is_refused(tmp_path: Path, head: bytes, policy: Policy) -> None:
    """A file of another agent, or one that lost its first line, is not touched: who knows what must stay in it."""
    body = b"".join(around(lambda made: made).lines()[1:])
    path = write(tmp_path, head + body)
    before = snapshot(path)
    with pytest.raises(NotASession):
        compress_session(path, policy)
    assert snapshot(path) == before
