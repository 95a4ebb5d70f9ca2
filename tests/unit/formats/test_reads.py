"""How much a model reads of each agent's lines, as it was measured on recorded usage: what it is not sent comes first.

What is compressed and protected never depends on it: a line's calls and results are counted apart.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import pytest

from sessioncompress.core.model import Line
from sessioncompress.formats.table import format_named
from sessioncompress.formats.values import CALL, PICTURE, RESULT, picture
from sessioncompress.pipeline.reading import read_line

Entry = dict[str, Any]

SAID = "x" * 100
SEAL = "A" * 1000
SHOT = "A" * 20_000
SMALL = "A" * 600


def read(name: str, *entries: Entry) -> Line:
    """Return the last of an agent's lines."""
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
NOT_SENT: list[tuple[str, str, Entry]] = [
    ("an answer that failed", "pi", pi("assistant", content=[TEXT], stopReason="error")),
    ("an answer that was aborted", "oh-my-pi", pi("assistant", content=[TEXT], stopReason="aborted")),
    ("thoughts beside the parts", "gemini", gemini(thoughts=[{"subject": "Next", "description": SAID}])),
    ("reasoning without its seal", "codex", codex("reasoning", summary=[{"type": "summary_text", "text": SAID}])),
]

SENT: list[tuple[str, str, Entry, int]] = [
    (
        "pi's call",
        "pi",
        pi("assistant", content=[{"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}]),
        2 + CALL,
    ),
    ("pi's result", "pi", pi("toolResult", toolCallId="c", content=[TEXT]), 100 + RESULT),
    (
        "pi's sealed thinking",
        "pi",
        pi("assistant", content=[{"type": "thinking", "thinking": "", "thinkingSignature": SEAL}]),
        500,
    ),
    ("pi's open thinking", "pi", pi("assistant", content=[{"type": "thinking", "thinking": SAID}]), 100),
    (
        "a screenshot",
        "pi",
        pi("user", content=[TEXT, {"type": "image", "data": SHOT, "mimeType": "image/png"}]),
        100 + PICTURE,
    ),
    (
        "Claude Code's call",
        "claude-code",
        claude("assistant", {"type": "tool_use", "id": "c", "name": "LS", "input": {}}),
        2 + CALL,
    ),
    (
        "Claude Code's result",
        "claude-code",
        claude("user", {"type": "tool_result", "tool_use_id": "c", "content": SAID}),
        100 + RESULT,
    ),
    (
        "Claude Code's sealed thinking",
        "claude-code",
        claude("assistant", {"type": "thinking", "thinking": "", "signature": SEAL}),
        500,
    ),
    ("redacted thinking", "claude-code", claude("assistant", {"type": "redacted_thinking", "data": SEAL}), 500),
    ("Codex's call", "codex", codex("function_call", name="ls", arguments="{}", call_id="c"), 4 + CALL),
    ("Codex's result", "codex", codex("function_call_output", call_id="c", output=SAID), 100 + RESULT),
    ("Codex's sealed reasoning", "codex", codex("reasoning", summary=[], encrypted_content=SEAL), 500),
    (
        "Gemini's result",
        "gemini",
        gemini(toolCalls=[{"id": "call-1", "name": "ls", "args": {}, "result": [response(output=SAID)]}]),
        102,
    ),
    (
        "Gemini's result as a text",
        "gemini",
        gemini(toolCalls=[{"id": "c", "name": "ls", "args": {}, "result": SAID}]),
        102,
    ),
    ("Gemini's result in parts", "gemini", {**gemini(content=[response(error=SAID)]), "type": "user"}, 100),
    (
        "OpenCode's call",
        "opencode",
        {
            "info": {"role": "assistant"},
            "parts": [{"type": "tool", "tool": "ls", "state": {"input": {}, "output": SAID}}],
        },
        102 + CALL + RESULT,
    ),
    (
        "gencode's call",
        "gencode",
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "LS", "input": {}}]},
        2 + CALL,
    ),
    (
        "gencode's result",
        "gencode",
        {"role": "user", "content": [{"type": "tool_result", "toolUseId": "c", "content": SAID}]},
        100 + RESULT,
    ),
    (
        "a chat's call",
        "openai-chat",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "ls", "arguments": "{}"}}],
        },
        2 + CALL,
    ),
    ("a chat's result", "openai-chat", {"role": "tool", "tool_call_id": "c", "content": SAID}, 100 + RESULT),
]


@pytest.mark.parametrize(("name", "entry"), [case[1:] for case in NOT_SENT], ids=[case[0] for case in NOT_SENT])
def test_what_is_not_sent_again_is_not_read(name: str, entry: Entry) -> None:
    assert read(name, entry).reads == 0


@pytest.mark.parametrize(("name", "entry", "reads"), [case[1:] for case in SENT], ids=[case[0] for case in SENT])
def test_what_is_sent_is_read(name: str, entry: Entry, reads: int) -> None:
    assert read(name, entry).reads == reads


def held(data: bytes, media: str) -> dict[str, str]:
    """Return the part of pi that holds an image or a document."""
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


@pytest.mark.parametrize("data", ["x", "AAAA" * 99 + "!", "\ud83d" * 99], ids=["short", "no base64", "no text"])
def test_odd_data_counts_as_a_picture(data: str) -> None:
    assert picture({"type": "image", "data": data, "mimeType": "application/pdf"}) == PICTURE
    assert picture({"type": "image", "data": data, "mimeType": "image/png"}) == PICTURE


def test_a_blob_is_read_as_a_picture() -> None:
    part = {"type": "image", "data": f"blob:sha256:{'0' * 64}", "mimeType": "image/png"}
    found = read("oh-my-pi", pi("toolResult", toolCallId="c", content=[part]))
    assert (found.io, [block.bulk for block in found.blocks]) == (PICTURE, [0])


def test_frames_and_seals_are_no_calls_and_results() -> None:
    """Protection goes by what the tools were given and gave back."""
    call = {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}
    thinking = {"type": "thinking", "thinking": "", "thinkingSignature": SEAL}
    assert read("pi", pi("assistant", content=[thinking, call])).io == 2
    assert read("pi", pi("assistant", content=[call], stopReason="aborted")).io == 2
    shot = {"type": "image", "data": SHOT, "mimeType": "image/png"}
    assert read("pi", pi("toolResult", toolCallId="c", content=[TEXT, shot])).io == 100 + PICTURE
    results = [response(output=SAID)]
    made = gemini(toolCalls=[{"id": "call-1", "name": "ls", "args": {}, "result": results}])
    assert read("gemini", made).io == 2 + len(SAID)
