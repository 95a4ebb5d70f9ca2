"""What comes from outside never reaches a terminal raw, and a JSON document stays what it is."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sessioncompress.core.text import printable, printable_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\u202e\u2066\x7f\x9b\u2028\U000e0001\n\\"))


@given(TEXTS)
def test_text(text: str) -> None:
    """Only what simply prints."""
    assert printable(text).isprintable()


@given(TEXTS)
def test_json(text: str) -> None:
    """The same, line by line, and it parses to the same text."""
    document = printable_json(json.dumps({"path": text}, ensure_ascii=False, indent=2))
    assert all(line.isprintable() for line in document.split("\n"))
    assert json.loads(document) == {"path": text}


def test_json_escapes() -> None:
    """As JSON writes them, also behind the first plane; what prints stays readable."""
    assert printable_json('"é漢 \u202e\U000e0001"') == '"é漢 \\u202e\\udb40\\udc01"'
