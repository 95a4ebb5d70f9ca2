"""How deep JSON may be nested: what is deeper is not parsed, and what is left of it is JSON."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import pytest

from sessioncompress.core import jsonl
from sessioncompress.core.jsonl import DEEPEST, is_deep, loads, shallow


def nested(depth: int, inner: str = "1") -> bytes:
    """Return a value inside so many lists and objects."""
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
