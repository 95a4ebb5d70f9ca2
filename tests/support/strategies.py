"""Strategies of Hypothesis for sessions of every odd shape, and how long it tries."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support import texts
from tests.support.blocks import stringify

settings.register_profile("here", max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, database=None)
settings.register_profile("long", settings.get_profile("here"), max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "here"))

RNG = random.Random("hypothesis")
TEXTS = [
    "short",
    "",
    "\n" * 900,
    texts.log_lines(RNG, 40),
    texts.log_lines(RNG, 40),
    texts.python_source(RNG, 12),
    texts.unicode_text(RNG, 40),
    "x" * 3000,
    '\x00\x1b\u2028"\\' * 300,
    "漢字👩‍👩‍👧" * 200,
    "a\r\n" * 400,
    "error: no\n" * 200 + "Command exited with code 1",
    "[[sessioncompress: 398 of 404 lines, 18.6 KB, kept on disk: sessioncompress show 7f3a91c2e05b]]\n" * 9,
    "[[sessioncompress: 3 lines; the tool received all of it; do not copy this line]]",
    "x" * 256,
    "x" * 399,
]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.just(""),
    st.just([]),
    st.just({}),
    st.just([None, "x" * 400]),
    st.just({"text": "x" * 400}),
    st.just(TEXTS[3]),
)
TEXT = st.sampled_from([*[TEXTS[3]] * 8, *TEXTS])
IDS = st.sampled_from([f"{number:08x}" for number in range(12)])
CALLS = st.sampled_from(
    ["call_1|fc_1", "call_2|fc_2", "call_2|fc_3", "call_3", "call_4|fc_4", "call_5|fc_5", "|", "a|b|c"]
)
TOOLS = st.sampled_from(["read", "write", "bash", "edit", "skill", "todo", "Bash", "x" * 90, '"' * 90])
FILES = st.sampled_from(["a.py", "b.py", "x/SKILL.md", '"' * 90])


def maybe(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 24).flatmap(lambda roll: value if roll else ODD)


def record(
    required: Mapping[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """Return objects of these keys, some odd, some missing."""
    drop = st.sets(st.sampled_from(sorted(required)), max_size=1)
    whole = st.fixed_dictionaries({key: maybe(value) for key, value in required.items()}, optional=optional)
    return st.tuples(whole, drop, st.integers(0, 15)).map(
        lambda made: made[0] if made[2] else {key: value for key, value in made[0].items() if key not in made[1]}
    )


ARGUMENTS = st.one_of(
    st.fixed_dictionaries({"path": FILES, "content": TEXT}),
    st.fixed_dictionaries({"path": FILES}, optional={"offset": st.integers(1, 3)}),
    st.fixed_dictionaries(
        {"path": FILES, "edits": st.lists(st.fixed_dictionaries({"oldText": TEXT, "newText": TEXT}), max_size=2)}
    ),
    st.dictionaries(st.sampled_from(["0", "007", "", "a/b~c", "command"]), TEXT, max_size=3),
    st.recursive(
        TEXT,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        max_leaves=4,
    ),
)
TEXT_PART = record({"type": st.just("text"), "text": TEXT}, textSignature=st.sampled_from(["msg_1", "msg_2"]))
IMAGE = record(
    {
        "type": st.just("image"),
        "data": st.sampled_from(["A" * 900, "B" * 5000, "blob:sha256:" + "0" * 64]),
        "mimeType": st.just("image/png"),
    }
)
THINKING = record(
    {"type": st.just("thinking"), "thinking": TEXT},
    thinkingSignature=st.sampled_from(["sig" * 99, "s"]),
    redacted=st.booleans(),
)
CALL = record(
    {"type": st.just("toolCall"), "id": CALLS, "name": TOOLS, "arguments": ARGUMENTS},
    partialJson=TEXT,
    thoughtSignature=st.just("sig"),
)
ANSWER = record(
    {
        "role": st.just("assistant"),
        "content": st.lists(st.one_of(THINKING, TEXT_PART, CALL, CALL), max_size=4),
        "api": st.sampled_from(["openai-responses", "anthropic-messages"]),
        "usage": st.just({"cost": {"total": 0.000009}}),
    },
    providerPayload=st.sampled_from([{"type": "openaiResponsesHistory", "items": [TEXTS[3]]}, {"type": "new"}]),
)
RESULT = record(
    {
        "role": st.just("toolResult"),
        "toolCallId": CALLS,
        "toolName": TOOLS,
        "content": st.lists(st.one_of(TEXT_PART, TEXT_PART, IMAGE), max_size=2),
        "isError": st.booleans(),
    },
    details=st.one_of(st.fixed_dictionaries({"diff": TEXT}), ODD),
)
PROMPT = record(
    {"role": st.just("user"), "content": st.one_of(TEXT, st.lists(st.one_of(TEXT_PART, IMAGE), max_size=2))}
)
MESSAGE = st.one_of(ANSWER, ANSWER, RESULT, RESULT, RESULT, PROMPT)
OTHER = st.one_of(
    record(
        {"type": st.just("compaction"), "summary": TEXT, "firstKeptEntryId": IDS},
        firstKeptEntryIndex=st.integers(-1, 9),
    ),
    st.just({"type": "reset_boundary"}),
    record(
        {
            "type": st.just("custom"),
            "customType": st.just("tool_execution_start"),
            "data": record({"toolName": TOOLS, "toolCallId": CALLS, "args": ARGUMENTS}),
        }
    ),
    record({"type": st.just("custom_message"), "content": TEXT}),
)
ENTRY = st.one_of(*[MESSAGE.map(lambda message: {"type": "message", "message": message})] * 5, OTHER)


def _escaped(line: str) -> str:
    return line.replace("/", "\\/").replace("é", "\\u00e9").replace("漢", "\\u6f22")


def _twice(line: str) -> str:
    return line.replace('"type":', '"type":"first","type":', 1)


def _twice_inside(line: str) -> str:
    return line.replace('"text":', '"text":"first","text":', 1).replace(
        '"toolCallId":', '"toolCallId":"call_9","toolCallId":', 1
    )


WRITERS: list[Callable[[str], bytes]] = [
    lambda line: line.encode(),
    lambda line: line.encode(),
    lambda line: line.encode(),
    lambda line: json.dumps(json.loads(line)).encode(),
    lambda line: _escaped(line).encode(),
    lambda line: _twice(line).encode(),
    lambda line: _twice_inside(line).encode(),
    lambda line: line.encode() + b"\r",
    lambda line: b"  " + line.encode() + b"\t ",
    lambda line: line.replace("x" * 256, "\\ud83d" + "x" * 256).encode(),
    lambda line: line[: len(line) // 2].encode(),
    lambda line: line.replace('"isError":', '"n":[1E5,-0,18446744073709551616,1.50],"isError":').encode(),
    lambda line: b"",
]


@st.composite
def sessions(draw: st.DrawFn) -> bytes:
    """Return a session: a tree with branches, or a list without ids; each line in one of many spellings."""
    header = {"type": "session", "id": "x", "timestamp": "2026-03-02T09:00:00.000Z", "cwd": "/tmp"}
    tree = draw(st.integers(0, 5)) > 0
    made = [stringify({**header, **({"version": 3} if tree else {})}).encode()]
    parent: str | None = None
    for number, entry in enumerate(draw(st.lists(ENTRY, min_size=3, max_size=18))):
        own: dict[str, Any] = {}
        if tree:
            roll = draw(st.integers(0, 19))
            name = f"{number:08x}" if roll != 1 else draw(IDS)
            if roll in (2, 3):
                parent = draw(st.one_of(IDS, st.none()))
            own = {"id": name, "parentId": parent}
            parent = name
        writer = draw(st.sampled_from(WRITERS))
        made.append(writer(stringify({**entry, **own})))
    return b"\n".join(made) + draw(st.sampled_from([b"\n", b"\n", b"\n", b""]))
