"""Codex's reasoning: it goes with the ids of all that came in one response with it, or all of that stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.model import JsonPath
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats.codex import Codex
from sessioncompress.policy.model import PRESETS
from tests.support.rollout import Rollout, lost_its_seal, parted
from tests.support.runs import entries, fixture
from tests.unit.formats.test_codex import LONG, OTHER, Change, after, line, old, part, payloads

IDS = ("message", "function_call", "custom_tool_call")


def thought(made: Rollout, **fields: Any) -> Rollout:
    return made.item("reasoning", **{"id": "rs_of_the_test", "summary": [], **fields})


def searched(made: Rollout) -> Rollout:
    """Search the web: the API does not take such an item without its id."""
    made.think().item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "tides"})
    return made.say("I searched.")


def several(made: Rollout) -> None:
    """Make two calls in one response, whose outputs come behind both; so many lines change for much reasoning only."""
    thought(made, encrypted_content=LONG).say("Both.")
    for name in ("a", "b"):
        made.item("function_call", id=f"fc_{name}", name="f", arguments="{}", call_id=name)
    for name in ("a", "b"):
        made.item("function_call_output", call_id=name, output=LONG)


STAYS: list[tuple[str, Change]] = [
    ("with nothing behind it", lambda made: made.think().message("user", [part("And?")])),
    ("without a seal", lambda made: thought(made).say("Yes.")),
    ("with a short seal", lambda made: thought(made, encrypted_content="gAAAA").say("Yes.")),
    ("with a seal that is no text", lambda made: thought(made, encrypted_content={"x": LONG}).say("Yes.")),
    ("where a part of the response has no seal", lambda made: thought(made.think()).say("Yes.")),
    ("where the response holds a search", searched),
    ("where the response holds an item of tomorrow", lambda made: made.think().item("tomorrow", id="tm_1").say("Yes.")),
]


@pytest.mark.parametrize("change", [case[1] for case in STAYS], ids=[case[0] for case in STAYS])
def test_stays(change: Change) -> None:
    """With all its ids; the answer behind this response is another one, whose reasoning goes."""
    made = Rollout().user("Go.")
    change(made)
    size = len(made.lines())
    made.user("And?").end("Done.")
    made.user("Thanks.").end("You're welcome.")
    data = made.bytes()
    done = entries(after(data))
    assert done[:size] == entries(data)[:size]
    assert any(map(lost_its_seal, done[size:]))


GOES: list[tuple[str, Change]] = [
    ("with an answer", lambda made: made.think().say("Yes.")),
    ("with a call", lambda made: made.run("ls", "a\n")),
    ("with a call of a custom tool", lambda made: made.custom("exec", "text(1)", "1")),
    ("with several calls at once", several),
    ("with reasoning behind reasoning", lambda made: made.think().think().say("Yes.")),
    ("where there are no ids", lambda made: made.think().item("message", role="assistant", content=[part("Yes.")])),
]


@pytest.mark.parametrize("ordinals", [False, True], ids=["plain", "ordinals"])
@pytest.mark.parametrize("change", [case[1] for case in GOES], ids=[case[0] for case in GOES])
def test_goes_with_the_ids(change: Change, ordinals: bool) -> None:
    """The line stays in its place, under a type that Codex leaves out, with all but its seal.

    Codex does not migrate a rollout without ordinals with an item of an unknown type: there it is an event.
    """
    data = old(change, Rollout(ordinals=ordinals))
    new = after(data)
    assert parted(entries(data), entries(new)) == []
    before, now = payloads(data, "reasoning"), [entry for entry in entries(new) if lost_its_seal(entry)]
    assert len(now) == len(before) - 1
    where, kind = ("response_item", "other") if ordinals else ("event_msg", "token_count")
    for was, found in zip(before, now, strict=False):
        left = {key: value for key, value in was.items() if key != "encrypted_content"} | {"type": kind}
        assert (found["type"], found["payload"]) == (where, left)
    assert payloads(new, "reasoning") == before[-1:]
    kept = [each["id"] for each in payloads(new, *IDS) if each.get("role") in (None, "assistant") and "id" in each]
    assert kept == [payloads(data, "message")[-1]["id"]]


@pytest.mark.parametrize("preset", PRESETS)
def test_no_response_of_a_fixture_is_parted(preset: str) -> None:
    data = fixture("codex.jsonl")
    assert parted(entries(data), entries(after(data, PRESETS[preset]))) == []


def test_the_check_sees_a_response_that_is_parted() -> None:
    """Reasoning that is gone, with an id that stayed."""
    data = old(lambda made: made.run("ls", "a\n"))
    broken = json.loads(json.dumps(entries(data)))
    thought = next(each["payload"] for each in broken if each["payload"].get("type") == "reasoning")
    thought["type"] = "other"
    assert len(parted(entries(data), broken)) == 1


SEALED = line("response_item", {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": OTHER})
ORDERED = {**SEALED, "ordinal": 7}
ANSWER = line("response_item", {"type": "message", "role": "assistant", "id": "msg_1", "content": []})
ASKED = line("response_item", {"type": "message", "role": "user", "id": "msg_2", "content": []})
SEARCH = line("response_item", {"type": "web_search_call", "id": "ws_1"})
CALL = line("response_item", {"type": "function_call", "id": "fc_1", "arguments": "{}"})


@pytest.mark.parametrize(
    ("entry", "path", "value", "may"),
    [
        (SEALED, ("payload", "encrypted_content"), REMOVED, True),
        (SEALED, ("payload", "encrypted_content"), "", False),
        (SEALED, ("payload", "type"), "token_count", True),
        (SEALED, ("payload", "type"), "other", False),
        (SEALED, ("type",), "event_msg", True),
        (SEALED, ("type",), "compacted", False),
        (ORDERED, ("payload", "type"), "other", True),
        (ORDERED, ("payload", "type"), "token_count", False),
        (ORDERED, ("type",), "event_msg", False),
        (ANSWER, ("type",), "event_msg", False),
        (SEALED, ("payload", "type"), "message", False),
        (SEALED, ("payload", "type"), REMOVED, False),
        (SEALED, ("payload", "id"), REMOVED, False),
        (SEALED, ("payload", "summary"), REMOVED, False),
        (SEALED, ("payload",), REMOVED, False),
        (ANSWER, ("payload", "id"), REMOVED, True),
        (ANSWER, ("payload", "id"), "x", False),
        (ANSWER, ("payload", "type"), "other", False),
        (CALL, ("payload", "id"), REMOVED, True),
        (ASKED, ("payload", "id"), REMOVED, False),
        (SEARCH, ("payload", "id"), REMOVED, False),
        (line("event_msg", {"type": "reasoning", "id": "x"}), ("payload", "encrypted_content"), REMOVED, False),
    ],
)
def test_what_may_change(entry: Any, path: JsonPath, value: Any, may: bool) -> None:
    assert Codex().may_change(entry, path, value) is may
