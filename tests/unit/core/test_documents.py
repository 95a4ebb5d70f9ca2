"""One document into its messages: every byte is in one piece, and what is no document of messages is lines."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

from sessioncompress.core.jsonl import GAP, pieces_of

ONE = {"id": "1", "text": 'ü"}],"messages":[{'}
TWO = {"id": "2", "nested": {"messages": [{"a": 1}], "b": [[], {}]}}

NO_DOCUMENTS = {
    "nothing": b"",
    "text": b"messages",
    "lines": b'{"type":"session"}\n{"messages":[{}]}\n',
    "lines of chats": b'{"messages":[{}]}\n{"messages":[{}]}\n',
    "no messages": b'{"a":1}',
    "messages that are none": b'{"messages":{}}',
    "messages twice": b'{"messages":[],"messages":[]}',
    "a message that is a text": b'{"messages":[{},"text"]}',
    "a list of numbers": b"[1, 2]",
    "cut off": b'{"messages":[{}',
    "more behind it": b'{"messages":[{}]} x',
    "a BOM": b'\xef\xbb\xbf{"messages":[{}]}',
    "bytes that are no text": b'{"messages":[{"a":"\xff"}]}',
    "NaN": b'{"messages":[{"a":NaN}]}',
    "nested too deep, and cut off": b'{"messages":[{"a":' + b"[" * 2000 + b"]" * 1999 + b"}]}",
    "half a character outside of strings": rb'{"messages":[{"a":\ud83d}]}',
    "a number that is none": b'{"messages":[{"a":1e400e400}]}',
    "a number that is cut short": b'{"messages":[{"a":1e}]}',
    "two numbers": b'{"messages":[{"a":1e400-1e400}]}',
    "lines of which the first holds a number beyond floats": b'{"messages":[{"a":1e400}]}\n{"messages":[{}]}\n',
}

DOCUMENTS: dict[str, Any] = {
    "messages last": {"id": "x", "list": [1, {"messages": 2}], "messages": [ONE, TWO]},
    "messages first": {"messages": [ONE, TWO], "ü": "ü"},
    "nothing else": {"messages": [ONE, TWO]},
    "a list": [ONE, TWO],
}


def pieces(data: bytes) -> list[tuple[int, bytes, bool]]:
    return list(pieces_of(lambda: BytesIO(data), len(data)))


@pytest.mark.parametrize("data", NO_DOCUMENTS.values(), ids=NO_DOCUMENTS)
def test_what_is_no_document_is_lines(data: bytes) -> None:
    """Split at LF, as if there were no documents."""
    lines = data.splitlines(keepends=True)
    assert pieces(data) == [(number, line, True) for number, line in enumerate(lines)]


@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_is_cut_into_its_messages(document: Any, ascii_only: bool, indent: Any) -> None:
    """Its own formatting stays, in the messages and around them."""
    data = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode() + b"\n"
    found = pieces(data)
    assert b"".join(raw for _, raw, _ in found) == data
    messages = [(number, json.loads(raw)) for number, raw, whole in found if whole]
    assert messages == [(0, ONE), (1, TWO)]
    assert all(number == GAP and not whole for number, raw, whole in found[::2])


SET = json.dumps({"$set": {"messages": [ONE, TWO], "lastUpdated": "ü"}}, separators=(",", ":")).encode() + b"\n"

NOT_CUT = {
    "no line end": SET[:-1],
    "spaces": SET.replace(b":", b": ", 1),
    "another key first": SET.replace(b'"messages"', b'"a":1,"messages"', 1),
    "more beside it": SET.replace(b'"lastUpdated":', b'"messages":[],"lastUpdated":'),
    "messages twice, the first a text": SET.replace(b'"lastUpdated":', b'"messages":'),
    "set twice": SET.replace(b"}}\n", b'},"$set":{}}\n'),
    "more than that": SET.replace(b"}}\n", b'},"id":"x"}\n'),
    "no messages": b'{"$set":{"messages":[]}}\n',
    "a message that is a text": b'{"$set":{"messages":["x"]}}\n',
    "cut off": SET[:-3] + b"\n",
    "bytes that are no text": SET.replace(b"lastUpdated", b"\xff"),
    "nested too deep, and cut off": SET.replace(b'"text":', b'"a":' + b"[" * 2000 + b"]" * 1999 + b',"text":', 1),
}


@pytest.mark.parametrize("line", NOT_CUT.values(), ids=NOT_CUT)
def test_a_line_that_is_not_cut_is_one(line: bytes) -> None:
    """Where it is not plain what an agent reads there, or the line may still be being written."""
    assert pieces(b'{"a":1}\n' + line) == [(0, b'{"a":1}\n', True), (1, line, True)]
