"""Lines are split at LF alone, and a line over the cap comes in pieces that nobody takes for a line."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable

import pytest

from sessioncompress.core import jsonl
from sessioncompress.core.jsonl import (
    DEEPEST,
    LINE_CAP,
    Piece,
    holds_at_most,
    is_deep,
    is_readable,
    loads,
    pieces,
    shallow,
)

CASES: list[tuple[str, bytes, list[Piece]]] = [
    ("an empty file has no line", b"", []),
    ("a line", b"ab\n", [(0, b"ab\n", True)]),
    ("a last line without LF", b"a\nb", [(0, b"a\n", True), (1, b"b", True)]),
    ("blank lines are lines", b"\n\n", [(0, b"\n", True), (1, b"\n", True)]),
    ("CRLF stays", b"a\r\nb\r\n", [(0, b"a\r\n", True), (1, b"b\r\n", True)]),
    ("CR alone ends nothing", b"a\rb\n", [(0, b"a\rb\n", True)]),
    (
        "other line ends are text",
        "a\u2028b\x0b\x0c\x85\n".encode(),
        [(0, b"a\xe2\x80\xa8b\x0b", False), (0, b"\x0c\xc2\x85\n", False)],
    ),
    ("NUL is text", b"\0\0\n", [(0, b"\0\0\n", True)]),
    ("a line of exactly the cap", b"abcde\nx\n", [(0, b"abcde\n", True), (1, b"x\n", True)]),
    ("one byte over the cap", b"abcdef\nx\n", [(0, b"abcdef", False), (0, b"\n", False), (1, b"x\n", True)]),
    (
        "far over the cap",
        b"a" * 14 + b"\nx\n",
        [(0, b"a" * 6, False), (0, b"a" * 6, False), (0, b"aa\n", False), (1, b"x\n", True)],
    ),
    ("over the cap at the end", b"x\n" + b"a" * 8, [(0, b"x\n", True), (1, b"a" * 6, False), (1, b"aa", False)]),
    ("of the cap at the end", b"abcdef", [(0, b"abcdef", True)]),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_lines(data: bytes, expected: list[Piece]) -> None:
    assert list(pieces(io.BytesIO(data), len(data), 6)) == expected


@pytest.mark.parametrize("size", range(12))
def test_what_was_appended_later_is_not_looked_at(size: int) -> None:
    """Only the first bytes are read, as many as the session had when it was opened."""
    data = b"ab\ncd\nefg\n\n"
    assert b"".join(raw for _, raw, _ in pieces(io.BytesIO(data), size)) == data[:size]


def test_a_file_that_became_shorter_ends() -> None:
    assert list(pieces(io.BytesIO(b"a\n"), 100)) == [(0, b"a\n", True)]


def test_the_cap_is_what_the_store_holds() -> None:
    """A longer line could be kept, but not read back."""
    from sessioncompress.store.originals import LONGEST_LINE

    assert LINE_CAP <= LONGEST_LINE


@pytest.mark.parametrize(
    ("raw", "most", "held"),
    [
        (b"", 0, True),
        (b'{"a": "b, c, [d], {e}"}', 1, True),
        (b'{"a": "\\", [", "b": "\\\\"}', 2, True),
        (b'"[1, 2"', 1, False),
        (b'"\\n {1, 2"', 1, False),
        (b'"\\u005b1, 2"', 0, False),
        (b'"\\t1, 2, 3"', 0, True),
        (b"[[],[],[]]", 5, False),
        (b"[[],[],[]]", 6, True),
        (b'["a","b","c"]', 3, True),
        (b'["a","b","c"]', 2, False),
        (b'{"a":1,"b":2}', 1, False),
        (b'["[not closed, ,', 2, False),
    ],
)
def test_how_many_values_json_may_hold(raw: bytes, most: int, held: bool) -> None:
    """Texts count as one, unless they may be JSON themselves."""
    assert holds_at_most(raw, most) is held


def test_which_lines_are_parsed() -> None:
    """One of a few long texts however long, one of many values only where it is short."""
    text = b'{"text": "' + b"a, b, " * (4 << 20) + b'"}'
    assert is_readable(text)
    assert is_readable(b"[" + b"0," * 100_000 + b"0]")
    assert not is_readable(b"[" + b"0," * 200_000 + b"0]")
    assert not is_readable(text + b"," * 2_000)


# Nesting


def nested(depth: int, inner: str = "1") -> bytes:
    opened = "".join('{"a":' if number % 3 else "[" for number in range(depth))
    closed = "".join("}" if number % 3 else "]" for number in reversed(range(depth)))
    return f"{opened}{inner}{closed}".encode()


FLAT = [
    ("nothing", b""),
    ("as deep as may be", nested(DEEPEST)),
    ("many beside each other", b"[" + b"[]," * 9000 + b"{}]"),
    ("brackets in a text", json.dumps("[{" * 9000).encode()),
    ("escapes in a text", json.dumps('"\\[' * 9000).encode()),
    ("a text that does not end", b'"' + b"[" * 9000),
    ("more that close than open", b"]" * 9000 + b"["),
]


@pytest.mark.parametrize("raw", [case[1] for case in FLAT], ids=[case[0] for case in FLAT])
def test_what_is_not_deep_stays(raw: bytes) -> None:
    """Only brackets inside each other count."""
    assert not is_deep(raw)
    assert shallow(raw) is raw


@pytest.mark.parametrize("depth", [DEEPEST + 1, DEEPEST + 2, 254, 255, 1000, 1024, 1025, 90_000])
def test_what_is_deep_is_not_parsed(depth: int) -> None:
    """However deep; what is left is as deep as may be."""
    raw = b'{"id":"a","x":' + nested(depth - 1, '"]"') + b',"y":[1]}'
    assert is_deep(raw)
    with pytest.raises(ValueError):
        loads(raw)
    left = loads(shallow(raw))
    assert (left["id"], left["y"]) == ("a", [1])


def test_a_text_is_parsed_like_bytes() -> None:
    assert loads('{"漢":[]}') == {"漢": []}
    with pytest.raises(ValueError, match="nested more than"):
        loads(nested(DEEPEST + 1).decode())


def test_any_json_is_as_deep_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "DEEPEST", 4)
    dice = random.Random(7)

    def value(depth: int) -> object:
        if depth == 0 or dice.random() < 0.2:
            return dice.choice([1, "[{", '"]\\', None, [], {}])
        inner = [value(depth - 1) for _ in range(dice.randrange(3))]
        return inner if dice.random() < 0.5 else dict(zip(("a", "[", '"'), inner, strict=False))

    def cut(value: object, left: int) -> object:
        if not isinstance(value, (list, dict)):
            return value
        if left == 0:
            return None
        if isinstance(value, list):
            return [cut(each, left - 1) for each in value]
        return {key: cut(each, left - 1) for key, each in value.items()}

    for _ in range(3000):
        made = value(8)
        raw = json.dumps(made).encode()
        assert json.loads(shallow(raw)) == cut(made, 4)
        assert is_deep(raw) == (cut(made, 4) != made)


WORST = [
    ("opened", lambda size: b"[" * size),
    ("opened and closed", lambda size: b"[]" * (size // 2)),
    ("closed", lambda size: b"[" * 300 + b"]" * size),
    ("texts", lambda size: b"[" * 300 + b'"a",' * (size // 4)),
    ("texts that do not end", lambda size: b"[" * 300 + b'"' + b'\\"' * (size // 2)),
    ("backslashes", lambda size: b"[" * 300 + b'"' + b"\\" * size),
]


@pytest.mark.parametrize("worst", [case[1] for case in WORST], ids=[case[0] for case in WORST])
def test_time_is_linear(worst: Callable[[int], bytes]) -> None:
    """Ten times as many bytes take about ten times as long, not a hundred times."""
    assert seconds(worst(500_000)) < 40 * seconds(worst(50_000)) + 0.05


def seconds(raw: bytes) -> float:
    """Return the processor's time for all that is asked of bytes; the best of three."""
    taken = []
    for _ in range(3):
        started = time.process_time()
        is_deep(raw)
        shallow(raw)
        taken.append(time.process_time() - started)
    return min(taken)
