"""OpenCode's exports: what is a turn, a block, what hangs on the thinking, what is dead, and what must stay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core import marker
from sessioncompress.core.model import JsonPath, Kind, Line, Role
from sessioncompress.core.splice import REMOVED, Added
from sessioncompress.formats.opencode import OpenCode
from sessioncompress.pipeline.reading import read_line
from tests.support.documents import OpenCodeExport
from tests.support.runs import survey_of

LONG = "a line of output\n" * 60
PREVIEW = marker.marker("60 of 60 lines", "7f3a91c2e05b")
PICTURES = [{"type": "file", "mime": "image/png", "url": "data:image/png;base64," + "A" * 400}]


def read(made: Any) -> Line:
    message = made.messages[-1] if isinstance(made, OpenCodeExport) else made
    return read_line(json.dumps(message).encode(), OpenCode().reader(), ended=False)


def asked() -> OpenCodeExport:
    return OpenCodeExport().user("Go.")


def called(tool: str = "bash", output: str = LONG, status: str = "completed", **given: Any) -> OpenCodeExport:
    made = asked().assistant().tool(tool, given, output, {"output": output})
    made.messages[-1]["parts"][-1]["state"]["status"] = status
    return made


def pruned(output: str = LONG, **state: Any) -> OpenCodeExport:
    """Return an export whose last message is a call that the agent no longer sends the output of."""
    made = called(output=output).prune(-1, 99)
    made.messages[-1]["parts"][-1]["state"].update(state)
    return made


def thinking(**metadata: Any) -> OpenCodeExport:
    """Return an export whose last message thinks, and says something that has this metadata."""
    said = {"metadata": metadata} if metadata else {}
    return asked().assistant().part("reasoning", text=LONG, time={}).part("text", text="Now.", **said)


def given_back(*attachments: Any, output: str = "Read.") -> OpenCodeExport:
    """Return an export whose last message is a call that gave back files."""
    made = called("read", output, filePath="a.png")
    made.messages[-1]["parts"][-1]["state"]["attachments"] = list(attachments)
    return made


def put_in(*texts: str) -> OpenCodeExport:
    made = asked()
    for each in texts:
        made.part("text", text=each, synthetic=True)
    return made


def attached(mime: str, url: str) -> OpenCodeExport:
    return asked().part("file", mime=mime, url=url)


def synthetic() -> OpenCodeExport:
    """Return an export with a prompt that the agent wrote, as after a compaction."""
    made = OpenCodeExport().user("Go on.")
    made.messages[-1]["parts"][0]["synthetic"] = True
    return made


TURNS: dict[str, tuple[OpenCodeExport, Role]] = {
    "what the user says": (asked(), Role.USER),
    "what the agent says in the user's name": (synthetic(), Role.OTHER),
    "an answer": (asked().assistant(), Role.ASSISTANT),
    "the call for a compaction": (OpenCodeExport().user("").part("compaction", auto=True), Role.OTHER),
}


@pytest.mark.parametrize(("made", "role"), TURNS.values(), ids=TURNS)
def test_turns(made: OpenCodeExport, role: Role) -> None:
    """A compaction is asked for by a message of the user's role, and is none of his turns."""
    assert read(made).role is role


PDF, PLAIN = ("data:" + media + ";base64," + "A" * 400 for media in ("application/pdf", "text/plain"))
READ = 'Called the Read tool with the following input: {"filePath":"/a.py"}'
RESOURCE = "Reading MCP resource: notes (notes://1)"
ITEM: JsonPath = ("parts", 1, "metadata", "openai", "itemId")
STATE: JsonPath = ("parts", 0, "state")
RESULT, SHOWN, GIVEN = (Kind.RESULT, (*STATE, "output")), (Kind.MIRROR, (*STATE, "metadata")), (*STATE, "input")
BLOCKS: dict[str, tuple[OpenCodeExport, list[tuple[Kind, JsonPath]]]] = {
    "a prompt": (OpenCodeExport().user(LONG), []),
    "an answer": (asked().assistant().part("text", text=LONG), []),
    "a short call": (called(output="short"), []),
    "only thinking": (asked().assistant().part("reasoning", text=LONG), []),
    "thinking that a seal hangs on": (thinking(google={"thoughtSignature": "x"}), []),
    "thinking and what nobody knows": (thinking(openai={"itemId": "msg_1"}, new={}), []),
    "thinking that a seal of Vertex hangs on": (thinking(vertex={"thoughtSignature": "x"}), []),
    "thinking, and an item of which more is said": (thinking(azure={"itemId": "msg_1", "new": 1}), []),
    "thinking and white space": (asked().assistant().part("reasoning", text=LONG).part("text", text=" \n"), []),
    "a file that lies elsewhere": (attached("image/png", "https://example.org/" + "a" * 400), []),
    "a text that lies elsewhere": (attached("text/plain", "file:///" + "a" * 400), []),
    "a picture of a result that lies elsewhere": (
        given_back({**PICTURES[0], "url": "https://example.org/" + "a" * 400}),
        [],
    ),
    "instructions of the agent": (put_in(LONG), []),
    "instructions behind a file": (put_in(READ, "x", f"<system-reminder>{LONG}"), []),
    "diffs of a prompt": (OpenCodeExport().user("Go.", LONG), [(Kind.MIRROR, ("info", "summary", "diffs"))]),
    "a result, and what the screen shows of it": (called(), [RESULT, SHOWN]),
    "a call that was interrupted": (called(status="error"), [RESULT]),
    "a skill that was read": (called("read", filePath="a/SKILL.md"), [SHOWN]),
    "what the agent has pruned": (pruned(), [(Kind.MIRROR, (*STATE, "output")), SHOWN]),
    "pictures of that": (pruned("short", attachments=PICTURES), [(Kind.MIRROR, (*STATE, "attachments"))]),
    "a preview of ours that it has pruned": (pruned(LONG + PREVIEW), [RESULT, SHOWN]),
    "arguments": (called("write", "ok", filePath="a", content=LONG), [(Kind.ARGUMENT, GIVEN)]),
    "thinking": (thinking(), [(Kind.THINKING, ("parts", 0))]),
    "thinking of OpenAI": (thinking(openai={"itemId": "msg_1"}), [(Kind.THINKING, ("parts", 0))]),
    "thinking of Azure": (thinking(azure={"itemId": "msg_1"}), [(Kind.THINKING, ("parts", 0))]),
    "thinking of any other": (thinking(new={"itemId": "msg_1", "phase": "x"}), [(Kind.THINKING, ("parts", 0))]),
    "a picture of a result": (given_back(*PICTURES), [RESULT]),
    "a picture of a prompt": (attached("image/png", PICTURES[0]["url"]), [(Kind.IMAGE, ("parts", 1))]),
    "a document of a prompt": (attached("application/pdf", PDF), [(Kind.IMAGE, ("parts", 1))]),
    "a file whose text stands there": (attached("text/plain", PLAIN), [(Kind.MIRROR, ("parts", 1, "url"))]),
    "a file that the user named": (put_in(READ, LONG), [(Kind.RESULT, ("parts", 2, "text"))]),
    "a resource that the user named": (put_in(RESOURCE, LONG), [(Kind.RESULT, ("parts", 2, "text"))]),
}


@pytest.mark.parametrize(("made", "blocks"), BLOCKS.values(), ids=BLOCKS)
def test_blocks(made: OpenCodeExport, blocks: list[tuple[Kind, JsonPath]]) -> None:
    assert [(block.kind, block.path) for block in read(made).blocks] == blocks


def test_what_names_the_thinking_goes_with_it() -> None:
    """OpenAI refuses an item without its reasoning."""
    assert [tie.path for tie in read(thinking(openai={"itemId": "msg_1"})).facts.ties] == [("parts", 1, "metadata")]
    assert read(thinking(new={})).facts.ties == ()


@pytest.mark.parametrize("provider", ["azure", "openai-compatible"])
def test_what_names_the_thinking_goes_with_it_whoever_the_provider_is(provider: str) -> None:
    """Azure keeps the same items under its own name; a phase stays there too."""
    plain, phased = ({"itemId": "msg_1"}, {"itemId": "msg_1", "phase": "commentary"})
    assert [tie.path for tie in read(thinking(**{provider: plain})).facts.ties] == [("parts", 1, "metadata")]
    item = ("parts", 1, "metadata", provider, "itemId")
    assert [tie.path for tie in read(thinking(**{provider: phased})).facts.ties] == [item]


def test_a_phase_stays_without_the_item_id() -> None:
    """OpenAI asks for it in every later request; a second run finds nothing left to cut."""
    both = read(thinking(openai={"itemId": "msg_1", "phase": "commentary"})).facts.ties
    assert [(tie.path, tie.value, tie.size) for tie in both] == [(ITEM, None, len('"msg_1"'))]
    assert read(thinking(openai={"phase": "commentary"})).facts.ties == ()


@pytest.mark.parametrize(("tail", "dead"), [(False, 2), (True, 1)])
def test_what_lies_before_a_compaction_is_dead(tail: bool, dead: int) -> None:
    made = asked().assistant().part("text", text="Done.")
    made.compaction("All is done.").user("And now?").assistant()
    if tail:
        made.messages[2]["parts"][0]["tail_start_id"] = made.messages[1]["info"]["id"]
    assert survey_of(made.bytes()).shape.dead == frozenset(range(dead))


def test_a_compaction_that_failed_is_none() -> None:
    made = asked().assistant().compaction("Half of")
    made.messages[-1]["info"]["error"] = {"name": "MessageAbortedError"}
    assert survey_of(made.bytes()).shape.dead == frozenset()


CALL = called("write", filePath="a.py", content=LONG).messages[-1]
PRUNED = pruned(attachments=PICTURES).messages[-1]
THOUGHT = thinking(openai={"itemId": "msg_1"}).messages[-1]
PHASED = thinking(openai={"itemId": "msg_1", "phase": "commentary"}).messages[-1]
MAY: list[tuple[Any, JsonPath, Any]] = [
    (CALL, (*STATE, "output"), "x"),
    (CALL, (*STATE, "metadata"), {}),
    (CALL, (*GIVEN, "content"), "x"),
    (CALL, (*STATE, "time", "compacted"), Added(1)),
    (PRUNED, (*STATE, "output"), ""),
    (PRUNED, (*STATE, "attachments"), []),
    (THOUGHT, ("parts", 0), REMOVED),
    (THOUGHT, ("parts", 1, "metadata"), REMOVED),
    (PHASED, ITEM, REMOVED),
    (CALL, ("info", "summary", "diffs"), []),
    (given_back(*PICTURES).messages[-1], (*STATE, "attachments", 0), REMOVED),
    (attached("image/png", PDF).messages[-1], ("parts", 1), {"type": "text"}),
    (attached("text/plain", PLAIN).messages[-1], ("parts", 1, "url"), "data:text/plain;base64,"),
    (put_in(READ, LONG).messages[-1], ("parts", 2, "text"), "x"),
]
MAY_NOT: list[tuple[Any, JsonPath, Any]] = [
    (CALL, (*STATE, "time", "compacted"), 1),
    (CALL, (*STATE, "time", "end"), Added(1)),
    (PRUNED, (*STATE, "time", "compacted"), Added(1)),
    (CALL, (*STATE, "output"), REMOVED),
    (CALL, (*STATE, "metadata"), REMOVED),
    (CALL, (*STATE, "title"), "x"),
    (CALL, (*STATE, "attachments"), []),
    (PRUNED, (*STATE, "attachments"), REMOVED),
    (PRUNED, (*STATE, "time"), {}),
    (CALL, (*GIVEN, "filePath"), "x"),
    (CALL, GIVEN, {}),
    (CALL, ("parts", 0), REMOVED),
    (CALL, ("parts", 0, "callID"), "x"),
    (CALL, ("info", "id"), "x"),
    (THOUGHT, ITEM, REMOVED),
    (PHASED, ("parts", 1, "metadata"), REMOVED),
    (PHASED, ("parts", 1, "metadata", "openai", "phase"), REMOVED),
    (THOUGHT, ("parts", 0, "text"), "x"),
    (THOUGHT, ("parts", 1), REMOVED),
    (THOUGHT, ("parts", 1, "text"), "x"),
    (CALL, ("info", "summary", "diffs"), REMOVED),
    (given_back(*PICTURES).messages[-1], (*STATE, "attachments", 0), {}),
    (attached("image/png", PDF).messages[-1], ("parts", 1), REMOVED),
    (attached("image/png", PDF).messages[-1], ("parts", 1, "url"), "data:,"),
    (asked().messages[-1], ("parts", 0, "text"), "x"),
]


@pytest.mark.parametrize("case", [*MAY, *MAY_NOT], ids=lambda case: f"{case[1]} {case[2]}")
def test_what_may_change(case: Any) -> None:
    assert OpenCode().may_change(*case) is (case in MAY)
