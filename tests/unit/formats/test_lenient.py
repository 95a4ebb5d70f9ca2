"""Lines that only their agent reads: what is left of a line that is too long for us."""

from __future__ import annotations

import json

import pytest

from sessioncompress.formats import values
from sessioncompress.formats.values import Skeleton

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
    """Return what is left of a line that comes in pieces of this size."""
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
    """However the line is cut into pieces."""
    monkeypatch.setattr(values, "_LONGEST_STRING", 40)
    for size in range(1, 80):
        assert left(raw.encode(), size) == expected.encode()


def test_too_much_structure_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded for lines of any length."""
    monkeypatch.setattr(values, "_LONGEST_SKELETON", 1000)
    monkeypatch.setattr(values, "_CHUNK", 100)
    assert left(b"[" + b"1," * 400 + b"1]", 50) is not None
    assert left(b"[" + b"1," * 600 + b"1]", 50) is None
