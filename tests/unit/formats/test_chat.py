"""Chats in OpenAI's form: what is a turn, a block, what stays, and that arguments stay JSON in a string."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.model import Kind, Line, Role
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats.chat import Chat, ChatReader
from sessioncompress.pipeline.reading import read_line

LONG = "a line of output\n" * 60


def read(message: Any, reader: ChatReader | None = None) -> Line:
    return read_line(json.dumps(message).encode(), reader or ChatReader(), ended=False)


def used(tool: str, written: Any, **more: Any) -> Any:
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": written}}
    return {"role": "assistant", "content": None, "tool_calls": [call], **more}


def given(**arguments: Any) -> str:
    return json.dumps(arguments)


def result(content: Any, **more: Any) -> Any:
    return {"role": "tool", "tool_call_id": "c1", "content": content, **more}


def said(content: Any, **more: Any) -> Any:
    return {"role": "assistant", "content": content, **more}


def picture(url: str) -> Any:
    return {"type": "image_url", "image_url": {"url": url}}


DATA = "data:image/png;base64," + "iVBORw0KGgo" * 50
FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64," + "JVBERi0x" * 50}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg" * 80, "format": "wav"}}
ARGUMENTS = ("tool_calls", 0, "function", "arguments")

ROLES: dict[str, tuple[Any, Role]] = {
    "what the program says": ({"role": "system", "content": "x"}, Role.OTHER),
    "what the developer says": ({"role": "developer", "content": "x"}, Role.OTHER),
    "a prompt": ({"role": "user", "content": "x"}, Role.USER),
    "an answer": (said("x"), Role.ASSISTANT),
    "a result": (result("x"), Role.RESULT),
}


@pytest.mark.parametrize(("entry", "role"), ROLES.values(), ids=ROLES)
def test_roles(entry: Any, role: Role) -> None:
    assert read(entry).role is role


BLOCKS: dict[str, tuple[Any, list[tuple[Kind, tuple[str | int, ...]]]]] = {
    "text": (said(LONG), []),
    "a prompt": ({"role": "user", "content": LONG}, []),
    "what the program says": ({"role": "system", "content": LONG}, []),
    "short ones": (used("ls", given(path=".")), []),
    "a short result": (result("x"), []),
    "a part of another type": (result([{"type": "input_text", "text": LONG}]), []),
    "a picture elsewhere": ({"role": "user", "content": [picture("https://" + "x" * 999)]}, []),
    "a file elsewhere": ({"role": "user", "content": [{"type": "file", "file": {"file_id": "x" * 90}}]}, []),
    "a sound of another type": ({"role": "user", "content": [{"type": "video", "video": {"data": LONG}}]}, []),
    "reasoning beside calls": (used("ls", "{}", reasoning_content=LONG), []),
    "reasoning beside calls and a text": ({**used("ls", "{}", reasoning=LONG), "content": "Now."}, []),
    "reasoning alone": (said(None, reasoning_content=LONG), []),
    "reasoning that is signed": (said("x", reasoning=LONG, reasoning_details=[{"signature": "x"}]), []),
    "reasoning": (said("x", reasoning_content=LONG), [(Kind.THINKING, ("reasoning_content",))]),
    "arguments": (used("write", given(path="a", content=LONG)), [(Kind.ARGUMENT, ARGUMENTS)]),
    "arguments that are no JSON": (used("write", LONG), [(Kind.ARGUMENT, ARGUMENTS)]),
    "a result": (result(LONG), [(Kind.RESULT, ("content",))]),
    "a result in parts": (result([{"type": "text", "text": LONG}]), [(Kind.RESULT, ("content", 0, "text"))]),
    "a picture": ({"role": "user", "content": [picture(DATA)]}, [(Kind.IMAGE, ("content", 0))]),
    "a file": ({"role": "user", "content": [FILE]}, [(Kind.IMAGE, ("content", 0))]),
    "a sound": ({"role": "user", "content": [SOUND]}, [(Kind.IMAGE, ("content", 0))]),
    "a file that a tool gave back": (result([FILE]), [(Kind.IMAGE, ("content", 0))]),
}


@pytest.mark.parametrize(("entry", "blocks"), BLOCKS.values(), ids=BLOCKS)
def test_blocks(entry: Any, blocks: Any) -> None:
    assert [(block.kind, block.path) for block in read(entry).blocks] == blocks


CALL = used("write", given(path="a", content=LONG))
FREE = used("write", LONG)
PICTURE = {"role": "user", "content": [picture(DATA), {"type": "text", "text": LONG}]}
MAY: list[tuple[Any, tuple[str | int, ...], Any]] = [
    (CALL, (*ARGUMENTS, "content"), "x"),
    (FREE, ARGUMENTS, "x"),
    (result(LONG), ("content",), "x"),
    (result([{"type": "text", "text": LONG}]), ("content", 0, "text"), "x"),
    (said("x", reasoning=LONG), ("reasoning",), REMOVED),
    (PICTURE, ("content", 0), {"type": "text", "text": "x"}),
    (result([FILE, SOUND]), ("content", 1), {"type": "text", "text": "x"}),
]
MAY_NOT: list[tuple[Any, tuple[str | int, ...], Any]] = [
    (CALL, ARGUMENTS, "x"),
    (CALL, (*ARGUMENTS, "path"), "x"),
    (CALL, ("tool_calls", 0), REMOVED),
    (CALL, ("tool_calls", 0, "id"), "x"),
    (result(LONG), ("content",), REMOVED),
    (result(LONG), ("tool_call_id",), "x"),
    (said(LONG), ("content",), "x"),
    ({"role": "user", "content": LONG}, ("content",), "x"),
    (said("x", reasoning=LONG), ("reasoning",), "y"),
    (used("ls", "{}", reasoning=LONG), ("reasoning",), REMOVED),
    (PICTURE, ("content", 1, "text"), "x"),
    (PICTURE, ("content", 1), {"type": "text", "text": "x"}),
    (PICTURE, ("content", 0), REMOVED),
]


@pytest.mark.parametrize("case", [*MAY, *MAY_NOT], ids=lambda case: f"{case[1]} {case[2]}")
def test_what_may_change(case: Any) -> None:
    assert Chat().may_change(*case) is (case in MAY)
