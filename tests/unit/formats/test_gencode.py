"""gencode's documents: what is a turn, a block, what stays, and that number and order of messages do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core.model import Kind, Line, Role
from sessioncompress.core.splice import REMOVED, Added
from sessioncompress.formats.gencode import GenCode, GenCodeReader
from sessioncompress.formats.table import detect, head_of
from sessioncompress.pipeline.reading import read_line
from tests.support.chats import GenCodeSession
from tests.support.runs import compress, compress_again, fixture, restore

LONG = "a line of output\n" * 60
ODD: list[Any] = [None, True, 7, "", LONG, [], [1], [None], [[LONG]], {}, {"a": LONG}, {"type": []}]


def read(message: Any, reader: GenCodeReader | None = None) -> Line:
    """Read one message."""
    return read_line(json.dumps(message).encode(), reader or GenCodeReader(), ended=False)


def used(tool: str, given: Any, **more: Any) -> Any:
    """Return a message that calls a tool."""
    return {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": tool, "input": given, **more}]}


def result(content: Any, *names: str, **more: Any) -> Any:
    """Return a message with results."""
    parts = [{"type": "tool_result", "toolUseId": name, "content": content, **more} for name in names or ("t1",)]
    return {"role": "user", "content": parts}


ROLES: dict[str, tuple[Any, Role]] = {
    "results": (result("x"), Role.RESULT),
    "a summary": ({"role": "system", "content": "x"}, Role.OTHER),
    "a prompt": ({"role": "user", "content": "x"}, Role.USER),
    "a prompt in parts": ({"role": "user", "content": [{"type": "text", "text": "x"}]}, Role.USER),
    "an answer": ({"role": "assistant", "content": "x"}, Role.ASSISTANT),
}


@pytest.mark.parametrize(("entry", "role"), ROLES.values(), ids=ROLES)
def test_roles(entry: Any, role: Role) -> None:
    """Results are no turn of the user."""
    assert read(entry).role is role


BLOCKS: dict[str, tuple[Any, list[tuple[Kind, tuple[str | int, ...]]]]] = {
    "text": ({"role": "assistant", "content": LONG}, []),
    "a text part": ({"role": "assistant", "content": [{"type": "text", "text": LONG}]}, []),
    "a prompt": ({"role": "user", "content": LONG}, []),
    "a summary": ({"role": "system", "content": LONG}, []),
    "a short result": (result("x"), []),
    "a result that is no text": (result([{"type": "text", "text": LONG}]), []),
    "what the agent left out": (result("[Old tool result content cleared]", pruned=True, prunedAt="2026"), []),
    "a call that is signed": (used("Write", {"content": LONG}, thoughtSignature="x"), []),
    "arguments": (used("Write", {"content": LONG}), [(Kind.ARGUMENT, ("content", 0, "input"))]),
    "results": (
        result(LONG, "t1", "t2"),
        [(Kind.RESULT, ("content", 0, "content")), (Kind.RESULT, ("content", 1, "content"))],
    ),
}


@pytest.mark.parametrize(("entry", "blocks"), BLOCKS.values(), ids=BLOCKS)
def test_blocks(entry: Any, blocks: Any) -> None:
    """What is left alone comes first."""
    assert [(block.kind, block.path) for block in read(entry).blocks] == blocks


def test_a_result_knows_its_call() -> None:
    """Its tool, what failed, and that a skill was read."""
    reader = GenCodeReader()
    read(used("Bash", {"command": "ls"}), reader)
    line = read(result(LONG, isError=True), reader)
    assert (line.answers, line.facts.failed, line.blocks[0].tool) == ("t1", True, "Bash")
    read(used("Read", {"file_path": "a/SKILL.md"}), reader)
    assert read(result(LONG), reader).blocks == ()
    assert read(result(LONG, "t1", "t2"), reader).facts.several == ("t1", "t2")


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_types_in_every_field(odd: Any) -> None:
    """They are read, whatever they are."""
    for whole in (used("Write", {"content": LONG}), result(LONG)):
        for key in whole:
            read({**whole, key: odd})
        for key in whole["content"][0]:
            read({**whole, "content": [{**whole["content"][0], key: odd}, odd]})


CALL = used("Write", {"file_path": "a", "content": LONG})
SIGNED = used("Write", {"content": LONG}, thoughtSignature="x")
MAY: list[tuple[Any, tuple[str | int, ...], Any]] = [
    (CALL, ("content", 0, "input", "content"), "x"),
    (result(LONG), ("content", 0, "content"), "x"),
    (result(LONG), ("content", 0, "pruned"), Added(True)),
    (result(LONG), ("content", 0, "prunedAt"), Added("2026")),
]
MAY_NOT: list[tuple[Any, tuple[str | int, ...], Any]] = [
    (CALL, ("content", 0, "input", "file_path"), "x"),
    (CALL, ("content", 0, "input"), {}),
    (CALL, ("content", 0), REMOVED),
    (SIGNED, ("content", 0, "input", "content"), "x"),
    (result(LONG), ("content", 0, "content"), REMOVED),
    (result(LONG), ("content", 0, "toolUseId"), "x"),
    (CALL, ("content", 0, "content"), "x"),
    ({"role": "user", "content": LONG}, ("content",), "x"),
    (result(LONG), ("content", 0, "pruned"), True),
    (result(LONG, pruned=False), ("content", 0, "pruned"), Added(True)),
    (result(LONG), ("content", 0, "isError"), Added(True)),
    (CALL, ("content", 0, "pruned"), Added(True)),
]


@pytest.mark.parametrize(("entry", "path", "value"), MAY, ids=[str(case[1]) for case in MAY])
def test_may_change(entry: Any, path: Any, value: Any) -> None:
    """What compressors propose."""
    assert GenCode().may_change(entry, path, value)


@pytest.mark.parametrize(("entry", "path", "value"), MAY_NOT, ids=[f"{case[1]} {case[2]}" for case in MAY_NOT])
def test_may_not_change(entry: Any, path: Any, value: Any) -> None:
    """Ids, paths, and what is signed."""
    assert not GenCode().may_change(entry, path, value)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_end_to_end(tmp_path: Path, indent: Any) -> None:
    """Its indexes point to the same messages, and what stands around them is as it was, copies of files too."""
    data = json.dumps(json.loads(fixture("gencode.json")), indent=indent, ensure_ascii=False).encode()
    path = tmp_path / "session.json"
    path.write_bytes(data)
    compress(path)
    old, new = json.loads(data), json.loads(path.read_bytes())
    assert path.read_bytes() == json.dumps(new, indent=indent, ensure_ascii=False).encode()
    assert {**old, "messages": 0} == {**new, "messages": 0}
    assert len(old["messages"]) == len(new["messages"])
    for was, now in zip(old["messages"], new["messages"], strict=True):
        assert was["role"] == now["role"]
        for part, other in zip(was["content"], now["content"], strict=True):
            rest = ("input", "content")
            assert part == other or {k: v for k, v in part.items() if k not in rest} == {
                k: v for k, v in other.items() if k not in rest
            }
    signed = [part for message in new["messages"] for part in message["content"] if "thoughtSignature" in part]
    assert signed == [part for message in old["messages"] for part in message["content"] if "thoughtSignature" in part]
    compress_again(path)
    restore(path)
    assert path.read_bytes() == data


DETECTED: dict[str, tuple[Any, list[Any], bool]] = {
    "lines": (None, [CALL], False),
    "no model": ({"metadata": {**GenCodeSession().outer["metadata"], "model": 7}}, [CALL], False),
    "metadata that is a list": ({"metadata": []}, [CALL], False),
    "other roles": (GenCodeSession().outer, [{"role": "tool", "content": "x"}], False),
    "a role that is none": (GenCodeSession().outer, [{"role": [], "content": "x"}], False),
    "placeholder, not content": (GenCodeSession().outer, [{"role": "user"}], False),
    "a session": (GenCodeSession().outer, [CALL, result("x")], True),
    "a session without messages": (GenCodeSession().outer, [], True),
}


@pytest.mark.parametrize(("outer", "messages", "is_one"), DETECTED.values(), ids=DETECTED)
def test_detection(outer: Any, messages: list[Any], is_one: bool) -> None:
    """By what the document holds."""
    form = detect(head_of([json.dumps(each).encode() for each in messages], outer))
    assert (form is not None and form.name == "gencode") is is_one


def test_it_is_known_by_its_id() -> None:
    """And by that of the session it was forked from."""
    outer = GenCodeSession().outer
    outer["metadata"] |= {"parentId": "older"}
    name = GenCode().named(head_of([], outer))
    assert (name.id, name.parents) == (outer["metadata"]["id"], ("older",))
