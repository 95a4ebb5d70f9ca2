"""gencode's documents: what is a turn, a block, what stays, and that number and order of messages do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.model import Kind, Line, Role
from sessioncompress.core.splice import REMOVED, Added
from sessioncompress.formats.chat import GenCode, GenCodeReader
from sessioncompress.formats.table import head_of
from sessioncompress.pipeline.reading import read_line
from tests.support.chats import GenCodeSession

LONG = "a line of output\n" * 60


def read(message: Any, reader: GenCodeReader | None = None) -> Line:
    return read_line(json.dumps(message).encode(), reader or GenCodeReader(), ended=False)


def used(tool: str, given: Any, **more: Any) -> Any:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": tool, "input": given, **more}]}


def result(content: Any, *names: str, **more: Any) -> Any:
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
    assert [(block.kind, block.path) for block in read(entry).blocks] == blocks


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


@pytest.mark.parametrize("case", [*MAY, *MAY_NOT], ids=lambda case: f"{case[1]} {case[2]}")
def test_what_may_change(case: Any) -> None:
    assert GenCode().may_change(*case) is (case in MAY)


def test_it_is_known_by_its_id() -> None:
    """And by that of the session it was forked from."""
    outer = GenCodeSession().outer
    outer["metadata"] |= {"parentId": "older"}
    name = GenCode().named(head_of([], outer))
    assert (name.id, name.parents) == (outer["metadata"]["id"], ("older",))
