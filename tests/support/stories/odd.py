"""Files that must be left alone or survive what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.support import texts
from tests.support.blocks import dice, stringify
from tests.support.session import PiSession
from tests.support.story import Story

Twist = Callable[[bytes], bytes]


def bom() -> bytes:
    """Return a small pi session behind a byte order mark."""
    made = PiSession(seed="bom").opening()
    made.user("Is the tide table for March complete?")
    made.step("bash", {"command": "cat data/march.csv"}, texts.csv_rows(dice("bom"), 90))
    made.assistant("Yes, all 31 days are there.")
    return b"\xef\xbb\xbf" + made.bytes()


def deepseek() -> bytes:
    """Return a session of another harness, whose first line looks like pi's."""
    head = {"type": "session", "version": 1, "id": "9f1c22d0-6c1e-4c55-9a57-0d2a6a3b7e11", "cwd": "/tmp"}
    rng = dice("deepseek")
    bodies: list[dict[str, Any]] = [
        {"type": "user/message", "content": "Which gauges are silent?"},
        {"type": "assistant/tool_call", "name": "read_file", "arguments": {"path": "src/report.py"}},
        {"type": "tool/result", "content": texts.python_source(rng, 6)},
        {"type": "assistant/message", "content": "Brinmouth and Dunrock."},
    ]
    entries: list[dict[str, Any]] = [{**head, "createdAt": "2026-03-02T09:00:00.000Z"}]
    entries += [{"seq": number, "ts": 1772442000000 + number * 900, **body} for number, body in enumerate(bodies, 1)]
    return b"".join(stringify(entry).encode() + b"\n" for entry in entries)


def hostile() -> bytes:
    """Return a pi session in which every kind of odd bytes stands in a line that would be worth rewriting."""
    made = PiSession(seed="hostile").opening()
    made.user("Please go through everything in odd/ and tell me what each file holds.")
    rng = dice("hostile")
    for number, twist in enumerate(_TWISTS):
        text = f"oddity {number} @@\n{texts.python_source(rng, 5)}\nend of {number}: 🌊 é"
        made.step("read", {"path": f"odd/{number}.txt"}, text, details={"lines": text.count("\n"), "mark": "@@"})
        made.raw(twist(made.take_last()))
    for number in range(5):
        made.assistant(f"Part {number + 1} is done.")
        made.user(("Go on.", "And?", "What else?", "More.", "That is all.")[number])
    made.step("bash", {"command": "wc -c odd/*"}, texts.find_output(rng, 30))
    torn = b'{"type":"message","id":"0badcafe","parentId":"' + str(made.leaf).encode() + b'","message":{"role":"assis'
    return made.bytes() + torn


def _swap(old: bytes, new: bytes, times: int = 1) -> Twist:
    def twist(line: bytes) -> bytes:
        if old not in line:
            raise ValueError(f"{old!r} is not in the line")
        return line.replace(old, new, times)

    return twist


def _fact(literal: bytes) -> Twist:
    return _swap(b'"mark":"@@"', b'"mark":' + literal)


def _escaped(line: bytes) -> bytes:
    """Write a slash and an accent as escapes, as other writers do."""
    return line.replace(b"/", b"\\/").replace("é".encode(), b"\\u00e9").replace("🌊".encode(), b"\\ud83c\\udf0a")


_TWISTS: Sequence[Twist] = (
    lambda line: line[:-1] + b"\r\n",
    lambda line: line + b"\n\r\n   \n",
    _swap(b"@@", b"\xff\xfe\xc3("),
    _swap(b"@@", b"\\ud83d"),
    _swap(b"@@", b"\xed\xa0\xbd"),
    _fact(b"NaN"),
    _fact(b"-Infinity"),
    _fact(b"1e400"),
    _fact(b"[" * 1100 + b"]" * 1100),
    _fact(b"[" * 600 + b"]" * 600),
    _fact(b'1,"mark":2,"mark":{"again":1,"again":2}'),
    _fact(b"[18446744073709551616,-9223372036854775809," + b"7" * 40 + b"]"),
    _fact(b'0.000009,"small":[5e-7,1E5,1.50,-0,3.0e0,1e16]'),
    _escaped,
    _swap(b"@@", b"\\u0000\\u001f\\u007f"),
    _swap(b"@@", b"\x00\x1b"),
    _swap(b"@@", "\u2028\u2029\u0085\u200f".encode()),
    _swap(b'{"type":"message",', b'  { "type" : "message" ,\t'),
    lambda line: line[:-1] + b" trailing words\n",
    _swap(b'"isError":false', b'"isError":false,"content":[{"type":"text","text":"second content"}]'),
    lambda line: b"[1,2,3]\n" + line + b'"only a text"\n{}\n',
)
"""One way each in which a line can be odd. Each is applied to the line of a tool result."""


STORIES = (
    Story("look-alike-deepseek.jsonl", deepseek, None, is_odd=True),
    Story("hostile.jsonl", hostile, "pi", is_odd=True),
    Story("bom.jsonl", bom, "pi", is_odd=True, stays=True),
)
