"""What formats read of values of any type: how much a model reads, times, and what is left of a line that is too long.

How much a model reads of each agent's lines was measured on recorded usage: what it is not sent comes first. What is
compressed and protected never depends on it: a line's calls and results are counted apart.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import pytest

from sessioncompress.core.model import Line
from sessioncompress.formats import values
from sessioncompress.formats.base import moment
from sessioncompress.formats.table import format_named
from sessioncompress.formats.values import CALL, PICTURE, RESULT, Skeleton, picture
from sessioncompress.pipeline.reading import read_line

Entry = dict[str, Any]

SAID = "x" * 100
SEAL = "A" * 1000
SHOT = "A" * 20_000


def read(name: str, *entries: Entry) -> Line:
    reader = format_named(name).reader()
    return [read_line(json.dumps(entry).encode() + b"\n", reader) for entry in entries][-1]


def pi(role: str, **fields: Any) -> Entry:
    return {"type": "message", "id": "a", "message": {"role": role, **fields}}


def claude(kind: str, *parts: Entry) -> Entry:
    return {"type": kind, "uuid": "a", "sessionId": "s", "message": {"id": "m", "role": kind, "content": list(parts)}}


def codex(kind: str, **fields: Any) -> Entry:
    return {"type": "response_item", "payload": {"type": kind, **fields}}


def gemini(**fields: Any) -> Entry:
    return {"id": "a", "timestamp": "2026", "type": "gemini", "content": "", **fields}


def response(**said: Any) -> Entry:
    return {"functionResponse": {"id": "call-1", "name": "read_file", "response": said}}


TEXT = {"type": "text", "text": SAID}
PI_CALL = {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}
PI_SEALED = {"type": "thinking", "thinking": "", "thinkingSignature": SEAL}
PI_SHOT = {"type": "image", "data": SHOT, "mimeType": "image/png"}
USE = {"type": "tool_use", "id": "c", "name": "LS", "input": {}}
CHAT_CALL = {"id": "c", "function": {"name": "ls", "arguments": "{}"}}
OPENCODE_CALL = {"type": "tool", "tool": "ls", "state": {"input": {}, "output": SAID}}


def gemini_call(result: Any) -> Entry:
    return gemini(toolCalls=[{"id": "call-1", "name": "ls", "args": {}, "result": result}])


NOT_SENT: list[tuple[str, Entry]] = [
    ("pi", pi("assistant", content=[TEXT], stopReason="error")),
    ("oh-my-pi", pi("assistant", content=[TEXT], stopReason="aborted")),
    ("gemini", gemini(thoughts=[{"subject": "Next", "description": SAID}])),
    ("codex", codex("reasoning", summary=[{"type": "summary_text", "text": SAID}])),
]

SENT: list[tuple[str, Entry, int]] = [
    ("pi", pi("assistant", content=[PI_CALL]), 2 + CALL),
    ("pi", pi("toolResult", toolCallId="c", content=[TEXT]), 100 + RESULT),
    ("pi", pi("assistant", content=[PI_SEALED]), 500),
    ("pi", pi("assistant", content=[{"type": "thinking", "thinking": SAID}]), 100),
    ("pi", pi("user", content=[TEXT, PI_SHOT]), 100 + PICTURE),
    ("claude-code", claude("assistant", USE), 2 + CALL),
    ("claude-code", claude("user", {"type": "tool_result", "tool_use_id": "c", "content": SAID}), 100 + RESULT),
    ("claude-code", claude("assistant", {"type": "thinking", "thinking": "", "signature": SEAL}), 500),
    ("claude-code", claude("assistant", {"type": "redacted_thinking", "data": SEAL}), 500),
    ("codex", codex("function_call", name="ls", arguments="{}", call_id="c"), 4 + CALL),
    ("codex", codex("function_call_output", call_id="c", output=SAID), 100 + RESULT),
    ("codex", codex("reasoning", summary=[], encrypted_content=SEAL), 500),
    ("gemini", gemini_call([response(output=SAID)]), 102),
    ("gemini", gemini_call(SAID), 102),
    ("gemini", {**gemini(content=[response(error=SAID)]), "type": "user"}, 100),
    ("opencode", {"info": {"role": "assistant"}, "parts": [OPENCODE_CALL]}, 102 + CALL + RESULT),
    ("gencode", {"role": "assistant", "content": [USE]}, 2 + CALL),
    (
        "gencode",
        {"role": "user", "content": [{"type": "tool_result", "toolUseId": "c", "content": SAID}]},
        100 + RESULT,
    ),
    ("openai-chat", {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}, 2 + CALL),
    ("openai-chat", {"role": "tool", "tool_call_id": "c", "content": SAID}, 100 + RESULT),
]


@pytest.mark.parametrize(("name", "entry", "reads"), [*((*case, 0) for case in NOT_SENT), *SENT])
def test_what_is_sent_again_is_read(name: str, entry: Entry, reads: int) -> None:
    assert read(name, entry).reads == reads


def held(data: bytes, media: str) -> dict[str, str]:
    return {"type": "image", "data": b64encode(data).decode(), "mimeType": media}


GIF = b"GIF89a" + struct.pack("<HH", 900, 450) + bytes(400)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(11) + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 450, 900) + bytes(400)
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 900, 450) + bytes(400)
HUGE = PNG[:16] + struct.pack(">II", 15_680, 4_000) + bytes(400)

PICTURES: list[tuple[str, bytes, str, int]] = [
    ("a GIF", GIF, "image/gif", 540),
    ("a JPEG", JPEG, "image/jpeg", 540),
    ("a PNG, whatever it is called", PNG, "image/webp", 540),
    ("one that is made smaller", HUGE, "image/png", 836),
    ("a small one", PNG[:16] + struct.pack(">II", 48, 48) + bytes(400), "image/png", 258),
    ("one of unknown size", bytes(400), "image/png", 1_600),
    ("one that is cut off", PNG[:14] + b"x", "image/png", 1_600),
    ("one of no size", PNG[:16] + bytes(400), "image/png", 1_600),
    ("pages", b"%PDF-1.4 /Type /Pages /Type /Page\n /Type/Page>>" * 9, "application/pdf", 18 * 1_600),
    ("more pages than anything reads", b"/Type/Page " * 900, "application/pdf", 600 * 1_600),
    ("no page that can be counted", b"%PDF-1.7" + bytes(400), "application/pdf", 1_600),
    ("a text", b"word " * 400, "text/plain", 500),
]


@pytest.mark.parametrize(
    ("data", "media", "tokens"), [case[1:] for case in PICTURES], ids=[case[0] for case in PICTURES]
)
def test_what_is_read_of_pictures_and_documents(data: bytes, media: str, tokens: int) -> None:
    """As Anthropic counts: 750 pixels a token, 1,600 tokens at most, and for a page; 258 at least, as others do."""
    assert picture(held(data, media)) // 4 == tokens


# Times, as agents write them

NO_TIME: list[Any] = [None, "", "yesterday", "2026-13-01", [], {}, -1, 1 << 54, 1.5, "0001-01-01"]


@pytest.mark.parametrize("value", NO_TIME, ids=repr)
def test_what_is_no_time_is_unknown(value: Any) -> None:
    assert moment(value) == 0


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (1_772_445_600_500, 1_772_445_600_500),
        ("2026-03-02T10:00:00.500Z", 1_772_445_600_500),
        ("2026-03-02T11:00:00.500+01:00", 1_772_445_600_500),
    ],
)
def test_a_time_is_in_milliseconds(value: Any, time: int) -> None:
    assert moment(value) == time


# Lines that only their agent reads

LONG = "x" * 60
STAYS: list[tuple[str, str]] = [
    ("nothing", ""),
    ("no string at all", "[1,2,{}]"),
    ("short strings", '{"id":"abcd","n":[1,"",null]}'),
    ("escapes", '{"id":"a\\"b\\\\","n":"\\u00e9\\n"}'),
    ("other scripts", '{"id":"漢字","n":"ñ"}'),
    ("what is no JSON", 'oops "a" \\ b'),
]
CHANGED: list[tuple[str, str, str]] = [
    ("a long string", json.dumps({"a": LONG, "id": "b"}), '{"a": "", "id": "b"}'),
    ("only what is too long", json.dumps(["x" * 38, "x" * 39]), json.dumps(["x" * 38, ""])),
    ("escapes count", json.dumps({"a": '"\\' * 20, "id": "b"}), '{"a": "", "id": "b"}'),
    ("brackets and quotes in it", json.dumps({"a": '"}]{' * 20, "id": "b"}), '{"a": "", "id": "b"}'),
    ("a backslash at its end", json.dumps({"a": LONG + "\\", "id": "b"}), '{"a": "", "id": "b"}'),
    ("a long key", json.dumps({LONG: 1, "id": "b"}), '{"": 1, "id": "b"}'),
    ("two in a row", json.dumps([LONG, LONG + "\\\\", "c"]), '["", "", "c"]'),
]


def left(raw: bytes, size: int) -> bytes | None:
    skeleton = Skeleton()
    for start in range(0, len(raw), size):
        skeleton.add(raw[start : start + size])
    return skeleton.left()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(raw, raw) for _, raw in STAYS] + [case[1:] for case in CHANGED],
    ids=[case[0] for case in STAYS] + [case[0] for case in CHANGED],
)
def test_only_long_strings_are_emptied(monkeypatch: pytest.MonkeyPatch, raw: str, expected: str) -> None:
    monkeypatch.setattr(values, "_LONGEST_STRING", 40)
    for size in range(1, 80):
        assert left(raw.encode(), size) == expected.encode()


def test_too_much_structure_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded for lines of any length."""
    monkeypatch.setattr(values, "_LONGEST_SKELETON", 1000)
    monkeypatch.setattr(values, "_CHUNK", 100)
    assert left(b"[" + b"1," * 400 + b"1]", 50) is not None
    assert left(b"[" + b"1," * 600 + b"1]", 50) is None
