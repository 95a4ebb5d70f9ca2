"""Patterns: which files of a folder they mean."""

from __future__ import annotations

import pytest

from sessioncompress.pipeline.discover import EVERYTHING, Globs

CASES: list[tuple[Globs, str, bool]] = [
    (EVERYTHING, "a/b.jsonl", True),
    (Globs(("*.jsonl",)), "a/b.jsonl", True),
    (Globs(("*.jsonl",)), "a/b.json", False),
    (Globs(("b*",)), "a/b.jsonl", True),
    (Globs(("a",)), "a/b.jsonl", True),
    (Globs(("a",)), "x/a/b.jsonl", True),
    (Globs(("a",)), "ab/b.jsonl", False),
    (Globs(("x/*",)), "x/a/b.jsonl", True),
    (Globs(("x/*",)), "y/x/b.jsonl", False),
    (Globs(("A",)), "a/b.jsonl", False),
    (Globs(("x", "a")), "a/b.jsonl", True),
    (Globs((), ("a",)), "a/b.jsonl", False),
    (Globs((), ("*.jsonl",)), "a/b.jsonl", False),
    (Globs((), ("x",)), "a/b.jsonl", True),
    (Globs(("*.jsonl",), ("agent-*",)), "a/agent-1.jsonl", False),
    (Globs(("*.jsonl",), ("agent-*",)), "a/1.jsonl", True),
]


@pytest.mark.parametrize(("globs", "path", "taken"), CASES)
def test_what_is_taken(globs: Globs, path: str, taken: bool) -> None:
    """By the whole path or by a name in it; what is excluded is not included again."""
    assert globs.takes(path) is taken
