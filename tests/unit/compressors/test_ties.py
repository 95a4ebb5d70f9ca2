"""Ties: with OpenAI item ids thinking, calls, results and signatures go together or not at all."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.core import jsonl
from sessioncompress.operations.compress import compress_session
from sessioncompress.policy.model import Policy
from tests.support import texts
from tests.support.build import OmpSession, PiSession, ResponsesSession, Use
from tests.support.runs import EAGER, compress, compress_again, entries, fixture, restore, turn, write

LONG = "Let me think about the tide. " * 60
OUTPUT = texts.log_lines(random.Random(1), 90)
Scene = Callable[[], PiSession]


def sound(before: Sequence[Any], after: Sequence[Any]) -> None:
    """Check every message: its reasoning with all its ids, or nothing of them; each result with its call's id."""
    made, ids = ({part["id"] for entry in lines for part in parts(entry, "toolCall")} for lines in (before, after))
    assert len(ids) == len(made), "two calls, one id"
    for old, new in zip(before, after, strict=True):
        if (old or {}).get("message", {}).get("role") == "toolResult":
            was, now = old["message"]["toolCallId"], new["message"]["toolCallId"]
            assert now.partition("|")[0] == was.partition("|")[0]
            assert (now in ids) == (was in made)
        thought = [part["thinkingSignature"] for part in parts(old, "thinking")]
        if "responses" not in (old or {}).get("message", {}).get("api", "") or not thought:
            continue
        assert [part["thinkingSignature"] for part in parts(new, "thinking")] in (thought, [])
        stays = bool(parts(new, "thinking"))
        for part, other in zip(parts(old, "toolCall"), parts(new, "toolCall"), strict=True):
            assert other["id"] == (part["id"] if stays else part["id"].partition("|")[0])
        for part, other in zip(parts(old, "text"), parts(new, "text"), strict=True):
            signature = json.loads(part["textSignature"])
            assert json.loads(other["textSignature"]) == (signature if stays else {**signature, "id": ""})
            assert other["text"] == part["text"]
        assert ("providerPayload" in new["message"]) == (stays and "providerPayload" in old["message"])


def parts(entry: Any, kind: str) -> list[Any]:
    content = ((entry or {}).get("message") or {}).get("content")
    return [part for part in content if part.get("type") == kind] if isinstance(content, list) else []


def start(made: PiSession | None = None) -> PiSession:
    """Return a session with two steps that can go."""
    made = made or ResponsesSession()
    made.user("Go.")
    for number in range(2):
        made.step("bash", {"command": f"make {number}"}, OUTPUT + str(number), thinking=LONG, text="I make it.")
    return made


def end(made: PiSession) -> PiSession:
    made.user("And?")
    made.assistant(made.think(LONG), "The latest.")
    return turn(made)


def without_result() -> PiSession:
    made = start()
    made.assistant(made.think(LONG), made.call("bash", {"command": "sleep"}))
    return end(made)


def opaque_result(twist: Callable[[bytes], bytes]) -> Scene:
    """Return a session with a result that its agent can read and we cannot."""

    def scene() -> PiSession:
        made = start()
        made.step("bash", {"command": "odd"}, OUTPUT + "@@", thinking=LONG)
        made.raw(twist(made.take_last()))
        return end(made)

    return scene


def unsplicable_result() -> PiSession:
    """Return a session with a result whose id stands there twice."""
    made = start()
    made.step("bash", {"command": "odd"}, OUTPUT, thinking=LONG)
    line = made.take_last()
    key = line[line.index(b'"toolCallId"') : line.index(b',"toolName"')]
    return end(made.raw(line.replace(b'"role":"toolResult"', key + b',"role":"toolResult"')))


def unsplicable_call() -> PiSession:
    """Return a session with a call whose id stands there twice."""
    made = start()
    made.step("bash", {"command": "odd"}, OUTPUT, thinking=LONG)
    result, call = made.take_last(), made.take_last()
    at = call.index(b'"id":"call_')
    key = call[at : call.index(b",", at)]
    return end(made.raw(call.replace(key, key + b"," + key)).raw(result))


def same_id_twice() -> PiSession:
    """Return a session in which two calls have one id."""
    made = start()
    for number in range(2):
        made.parallel(
            [Use("bash", {"command": "x"}, OUTPUT + f".{number}", call_id="call_same|fc_same")], thinking=LONG
        )
    return end(made)


def same_name_twice() -> PiSession:
    """Return a session in which two calls differ only in their item ids."""
    made = start()
    for number in range(2):
        made.parallel(
            [Use("bash", {"command": "x"}, OUTPUT + f".{number}", call_id=f"call_same|fc_{number}")], thinking=LONG
        )
    return end(made)


def name_without_item() -> PiSession:
    """Return a session in which a call has the id that another would get."""
    made = start()
    for name in ("call_same", "call_same|fc_1"):
        made.parallel([Use("bash", {"command": "x"}, OUTPUT + name, call_id=name)], thinking=LONG)
    return end(made)


def result_without_item() -> PiSession:
    """Return a session in which a result names its call without the item id: to the agent that call has no result."""
    made = start()
    made.step("bash", {"command": "odd"}, OUTPUT, thinking=LONG)
    line = made.take_last()
    at = line.index(b"|fc_")
    return end(made.raw(line.replace(line[at : line.index(b'"', at)], b"")))


def result_off_the_path() -> PiSession:
    """Return a session in which a call is answered on two branches."""
    made = start()
    call = made.call("bash", {"command": "x"})
    made.assistant(made.think(LONG), call)
    here = made.leaf
    made.result(call["id"], OUTPUT)
    made.branch(here)
    made.result(call["id"], OUTPUT + "again")
    return end(made)


def too_deep() -> PiSession:
    """Return a session with a thinking part nested deeper than can be written, beside one that is not."""
    made = start()
    made.assistant(made.think(LONG), {**made.think(LONG), "deep": "@@"}, made.call("bash", {"command": "x"}))
    made.raw(made.take_last().replace(b'"@@"', b"[" * 300 + b"]" * 300))
    made.result(json.loads(made.lines()[-1])["message"]["content"][2]["id"], OUTPUT)
    return end(made)


def parallel_across_the_boundary() -> PiSession:
    """Return a session in which the user steered between the results of one message."""
    made = start()
    calls = [made.call("bash", {"command": "x"}) for _ in range(2)]
    made.assistant(made.think(LONG), *calls)
    made.result(calls[0]["id"], OUTPUT)
    made.user("Stop.")
    made.result(calls[1]["id"], OUTPUT + ".")
    made.assistant(made.think(LONG), "Stopped.")
    return made


def torn_result() -> PiSession:
    """Return a session whose last line, a result, has no LF yet."""
    made = start()
    made.step("bash", {"command": "x"}, OUTPUT, thinking=LONG)
    made.raw(made.take_last()[:-1])
    return made


def only_thinking() -> PiSession:
    made = start()
    made.assistant(made.think(LONG))
    return end(made)


def without_thinking() -> PiSession:
    """Return a session whose calls have item ids, but no reasoning with them."""
    made = ResponsesSession()
    made.user("Go.")
    for number in range(2):
        made.step("bash", {"command": f"make {number}"}, OUTPUT + str(number))
    return end(made)


def other_payload() -> PiSession:
    """Return an oh-my-pi session with a payload of a kind that we do not know."""
    made = start(OmpSession())
    made.assistant(
        made.think(LONG),
        made.call("write", {"path": "a", "content": LONG * 2}),
        providerPayload={"type": "new", "x": LONG},
    )
    made.result(json.loads(made.lines()[-1])["message"]["content"][1]["id"], OUTPUT)
    return end(made)


def payload_with_left_over() -> PiSession:
    """Return an oh-my-pi session with what is left over of the stream beside a payload."""
    made = start(OmpSession())
    call = {**made.call("write", {"path": "a"}), "partialJson": LONG}
    made.assistant(made.think(LONG), call)
    made.result(call["id"], OUTPUT)
    return end(made)


def payload_of_another_api() -> PiSession:
    """Return an oh-my-pi session whose messages name an API that does not say Responses."""
    made = start(OmpSession())
    call = made.call("write", {"path": "a", "content": LONG * 2})
    made.assistant(made.think(LONG), call, api="openai-next")
    made.result(call["id"], OUTPUT)
    return end(made)


SCENES: list[tuple[str, Scene]] = [
    ("plain", lambda: end(start())),
    ("oh-my-pi", lambda: end(start(OmpSession()))),
    ("the latest thinking is old", lambda: turn(start(), 3)),
    ("a call without a result", without_result),
    ("a result with a lone surrogate", opaque_result(lambda line: line.replace(b"@@", b"\\ud83d"))),
    ("a result that is no UTF-8", opaque_result(lambda line: line.replace(b"@@", b"\xff"))),
    (
        "a result with a number beyond floats",
        opaque_result(lambda line: line.replace(b'"isError":', b'"n":1e999,"isError":')),
    ),
    ("a result that cannot be spliced", unsplicable_result),
    ("a call that cannot be spliced", unsplicable_call),
    ("an id twice", same_id_twice),
    ("two item ids of one call id", same_name_twice),
    ("the short id is taken", name_without_item),
    ("a result names the short id", result_without_item),
    ("a call answered on two branches", result_off_the_path),
    ("thinking nested too deep", too_deep),
    ("results on both sides of the boundary", parallel_across_the_boundary),
    ("a result that is being written", torn_result),
    ("nothing but reasoning", only_thinking),
    ("no reasoning", without_thinking),
    ("a payload that we do not know", other_payload),
    ("a left-over beside a payload", payload_with_left_over),
    ("a payload of another API", payload_of_another_api),
]
POLICIES: list[Policy] = [
    EAGER,
    replace(EAGER, turn_threshold_before_compress=0),
    replace(EAGER, turn_threshold_before_compress=0, tool_result_max_bytes=100_000, tool_call_max_bytes=100_000),
    replace(EAGER, strip_thinking=False),
    replace(EAGER, protect_tools=("",)),
]


@pytest.mark.parametrize(
    "policy", POLICIES, ids=["eager", "no turns", "thinking alone", "thinking stays", "no tool is protected"]
)
@pytest.mark.parametrize("scene", [case[1] for case in SCENES], ids=[case[0] for case in SCENES])
def test_all_or_none(tmp_path: Path, scene: Scene, policy: Policy) -> None:
    """In whatever state the session is; and it is restored exactly."""
    made = scene()
    path = write(tmp_path, made)
    changed = compress_session(path, policy).lines_changed
    sound(lenient(made.bytes()), lenient(path.read_bytes()))
    compress_again(path, policy)
    if changed:
        restore(path, policy)
    assert path.read_bytes() == made.bytes()


def long_result() -> PiSession:
    made = start()
    made.step("bash", {"command": "odd"}, OUTPUT * 3, thinking=LONG)
    return end(made)


def long_call() -> PiSession:
    made = start()
    made.step("write", {"path": "a", "content": OUTPUT * 3}, OUTPUT, thinking=LONG)
    return end(made)


@pytest.mark.parametrize("scene", [long_result, long_call])
def test_with_a_line_over_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    """The side of a pair that can be read does not change without the other."""
    monkeypatch.setattr(jsonl.pieces, "__defaults__", (2 * len(OUTPUT),))
    made = scene()
    path = write(tmp_path, made)
    compress(path)
    sound(entries(made.bytes()), entries(path.read_bytes()))
    compress_again(path)


def lenient(data: bytes) -> list[Any]:
    """Return the entries as JavaScript reads them, lone surrogates and replaced bytes too."""
    return entries(data.replace(b"\xff", b"?").replace(b"1e999", b"1"))


@pytest.mark.parametrize(
    "name", [name for name, _ in SCENES if name not in ("no reasoning", "a result that is being written")]
)
def test_the_steps_that_can_go_go(tmp_path: Path, name: str) -> None:
    """One odd message keeps no other from losing its thinking."""
    made = dict(SCENES)[name]()
    path = write(tmp_path, made)
    compress(path)
    before, after = lenient(made.bytes()), lenient(path.read_bytes())
    first = next(number for number, entry in enumerate(before) if parts(entry, "thinking"))
    assert parts(after[first], "thinking") == []
    assert "|" not in parts(after[first], "toolCall")[0]["id"]


@pytest.mark.parametrize("name", ["pi-responses.jsonl", "omp.jsonl"])
@pytest.mark.parametrize(
    "policy", POLICIES, ids=["eager", "no turns", "thinking alone", "thinking stays", "no tool is protected"]
)
def test_fixtures(tmp_path: Path, name: str, policy: Policy) -> None:
    path = write(tmp_path, fixture(name))
    compress(path, policy)
    sound(entries(fixture(name)), entries(path.read_bytes()))
