"""What each agent records of its requests: a row an agent, what is no usage first."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from sessioncompress.core.model import Answer, Usage
from sessioncompress.formats.table import format_named
from tests.unit.core.test_usage import NONSENSE

Entry = dict[str, Any]

AT = "2026-03-02T10:00:00.500Z"
WHEN = 1_772_445_600_500

PI: Entry = {
    "type": "message",
    "id": "a1",
    "timestamp": AT,
    "message": {
        "role": "assistant",
        "model": "claude-opus-5",
        "stopReason": "toolUse",
        "usage": {"input": 3, "output": 50, "cacheRead": 900, "cacheWrite": 100, "totalTokens": 1053, "reasoning": 20},
    },
}
OMP: Entry = deepcopy(PI)
OMP["message"]["usage"]["reasoningTokens"] = OMP["message"]["usage"].pop("reasoning")
CLAUDE: Entry = {
    "type": "assistant",
    "timestamp": AT,
    "message": {
        "id": "msg_1",
        "role": "assistant",
        "model": "claude-opus-5",
        "usage": {
            "input_tokens": 3,
            "output_tokens": 50,
            "cache_read_input_tokens": 900,
            "cache_creation_input_tokens": 100,
            "output_tokens_details": {"thinking_tokens": 20},
        },
    },
}
COUNTS = {
    "input_tokens": 1003,
    "cached_input_tokens": 900,
    "cache_write_input_tokens": 100,
    "output_tokens": 50,
    "reasoning_output_tokens": 20,
    "total_tokens": 1053,
}
CODEX: Entry = {
    "type": "event_msg",
    "timestamp": AT,
    "payload": {"type": "token_count", "info": {"last_token_usage": COUNTS, "model_context_window": 258_400}},
}
GEMINI: Entry = {
    "id": "g1",
    "type": "gemini",
    "timestamp": AT,
    "model": "gemini-3-flash",
    "tokens": {"input": 1000, "output": 30, "cached": 900, "thoughts": 20, "tool": 3, "total": 1053},
}
OPENCODE: Entry = {
    "info": {
        "role": "assistant",
        "modelID": "gpt-5.4",
        "time": {"created": WHEN},
        "tokens": {"input": 3, "output": 30, "reasoning": 20, "cache": {"read": 900, "write": 100}},
    },
    "parts": [],
}
CHAT: Entry = {
    "role": "assistant",
    "content": "Yes.",
    "model": "kimi-k3",
    "timestamp": AT,
    "usage": {
        "prompt_tokens": 1003,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 900},
        "completion_tokens_details": {"reasoning_tokens": 20},
    },
}

RECORDED: list[tuple[str, Entry, Answer]] = [
    ("pi", PI, Answer(model="claude-opus-5", usage=Usage(3, 50, 900, 100, 20), at=WHEN)),
    ("oh-my-pi", OMP, Answer(model="claude-opus-5", usage=Usage(3, 50, 900, 100, 20), at=WHEN)),
    ("openclaw", PI, Answer(model="claude-opus-5", usage=Usage(3, 50, 900, 100, 20), at=WHEN)),
    ("claude-code", CLAUDE, Answer(model="claude-opus-5", usage=Usage(3, 50, 900, 100, 20), at=WHEN)),
    ("codex", CODEX, Answer(usage=Usage(3, 50, 900, 100, 20), window=258_400, at=WHEN)),
    ("gemini", GEMINI, Answer(model="gemini-3-flash", usage=Usage(103, 50, 900, 0, 20), at=WHEN)),
    ("opencode", OPENCODE, Answer(model="gpt-5.4", usage=Usage(3, 50, 900, 100, 20), at=WHEN)),
    ("openai-chat", CHAT, Answer(model="kimi-k3", usage=Usage(103, 50, 900, 0, 20), at=WHEN)),
]

Path = tuple[str, ...]
USAGE: Mapping[str, Path] = {
    "pi": ("message", "usage"),
    "oh-my-pi": ("message", "usage"),
    "openclaw": ("message", "usage"),
    "claude-code": ("message", "usage"),
    "codex": ("payload", "info", "last_token_usage"),
    "gemini": ("tokens",),
    "opencode": ("info", "tokens"),
    "openai-chat": ("usage",),
}


def changed(entry: Entry, path: Path, value: Any) -> Entry:
    """Return a copy of an entry with another value at a path."""
    made = deepcopy(entry)
    place: Any = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return made


NO_REQUEST: list[tuple[str, Entry]] = [
    ("pi", {}),
    ("pi", {"type": "message", "message": {"role": "user", "usage": {"input": 9}}}),
    ("pi", {"type": "usage", "model": "claude-opus-5", "usage": PI["message"]["usage"]}),
    ("pi", {"type": "compaction", "summary": "", "usage": PI["message"]["usage"]}),
    ("oh-my-pi", {"type": "model_usage", "model": "tiny", "usage": PI["message"]["usage"], "stopReason": "stop"}),
    ("oh-my-pi", {"type": "model_change", "model": "anthropic/claude-opus-5"}),
    ("claude-code", {"type": "progress", "data": {"message": CLAUDE}}),
    ("claude-code", {"type": "user", "toolUseResult": {"usage": CLAUDE["message"]["usage"]}}),
    ("claude-code", changed(CLAUDE, ("message", "model"), "<synthetic>")),
    ("codex", {"type": "response_item", "payload": CODEX["payload"]}),
    ("codex", {"type": "event_msg", "payload": {"type": "agent_message", "info": CODEX["payload"]["info"]}}),
    ("gemini", {"type": "user", "tokens": GEMINI["tokens"]}),
    ("gemini", {"type": "info", "content": "Update available."}),
    ("opencode", {"info": {"role": "user", "tokens": OPENCODE["info"]["tokens"]}, "parts": []}),
    ("openai-chat", {"role": "tool", "tool_call_id": "c", "content": "", "usage": CHAT["usage"]}),
    ("gencode", {"role": "assistant", "content": "", "usage": {"inputTokens": 10, "outputTokens": 1}}),
]

FAILED: list[tuple[str, Entry, str]] = [
    ("pi", changed(PI, ("message", "stopReason"), "aborted"), "aborted"),
    ("pi", changed(changed(PI, ("message", "stopReason"), "error"), ("message", "errorMessage"), "429"), "429"),
    ("oh-my-pi", changed(OMP, ("message", "stopReason"), "error"), "error"),
    (
        "claude-code",
        changed(
            changed(CLAUDE, ("isApiErrorMessage",), True),
            ("message", "content"),
            [{"type": "text", "text": "Prompt is too long"}],
        ),
        "Prompt is too long",
    ),
    ("claude-code", changed(CLAUDE, ("isApiErrorMessage",), True), "the request failed"),
    ("codex", {"type": "event_msg", "payload": {"type": "error", "message": "context window"}}, "context window"),
    ("gemini", {"id": "e", "type": "error", "content": "[API Error: quota]"}, "[API Error: quota]"),
    ("opencode", changed(OPENCODE, ("info", "error"), {"name": "Aborted"}), "Aborted"),
    ("opencode", changed(OPENCODE, ("info", "error"), {"name": "E", "data": {"message": "Too long"}}), "Too long"),
]


@pytest.mark.parametrize(("name", "entry"), NO_REQUEST)
def test_what_is_no_request_of_the_session_is_no_answer(name: str, entry: Entry) -> None:
    """The usage of a title, of a summary or of a subagent says nothing of what this session sends."""
    assert format_named(name).answer(entry) is None


@pytest.mark.parametrize(("name", "entry", "error"), FAILED)
def test_an_answer_that_failed_has_an_error_and_no_usage(name: str, entry: Entry, error: str) -> None:
    answer = format_named(name).answer(entry)
    assert answer
    assert (answer.error, answer.usage) == (error, None)


@pytest.mark.parametrize(("name", "entry", "answer"), RECORDED)
def test_zeros_and_nonsense_are_no_usage(name: str, entry: Entry, answer: Answer) -> None:
    """The request is known all the same, with its model."""
    recorded: Any = entry
    for step in USAGE[name]:
        recorded = recorded[step]
    rest = answer._replace(usage=None)
    nothing: list[Any] = [None, {}, [], "", 7, dict.fromkeys(recorded, 0), dict.fromkeys(recorded)]
    for value in nothing:
        assert format_named(name).answer(changed(entry, USAGE[name], value)) == rest
    for key in ("input", "input_tokens", "prompt_tokens"):
        if key in recorded:
            for bad in NONSENSE:
                assert format_named(name).answer(changed(entry, (*USAGE[name], key), bad)) == rest


@pytest.mark.parametrize(("name", "entry", "answer"), RECORDED)
def test_an_answer_has_its_usage(name: str, entry: Entry, answer: Answer) -> None:
    assert format_named(name).answer(entry) == answer


NOTES: list[tuple[Any, dict[int, Usage | None]]] = [
    (None, {}),
    ([], {}),
    ({"metadata": []}, {}),
    ({"metadata": {"completions": {}}}, {}),
    ({"metadata": {"completions": [None, 1, {}, {"afterMessageIndex": -1}, {"afterMessageIndex": "2"}]}}, {}),
    ({"metadata": {"completions": [{"afterMessageIndex": 2, "usage": {"inputTokens": True}}]}}, {2: None}),
    (
        {"metadata": {"completions": [{"afterMessageIndex": 2, "usage": {"inputTokens": 10, "outputTokens": 5}}]}},
        {2: Usage(10, 5)},
    ),
]


@pytest.mark.parametrize(("document", "found"), NOTES)
def test_gencode_notes_answers_in_the_documents_head(document: Any, found: dict[int, Usage | None]) -> None:
    noted = format_named("gencode").noted(document)
    assert {number: answer.usage for number, answer in noted.items()} == found
