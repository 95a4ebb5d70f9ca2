"""Errors say what, where, in which state and what to do, and nothing in them reaches the terminal as a command."""

from __future__ import annotations

import os

import pytest

from sessioncompress.core.text import printable
from sessioncompress.errors import (
    FileFailed,
    UsageError,
)


def test_rendering() -> None:
    error = FileFailed("disk full", where="a/s.jsonl", line=7, remedy="Free some.")
    assert str(error) == "a/s.jsonl:7: disk full. The session was not changed. Free some."
    assert str(UsageError("no such key", state="")) == "no such key."
    assert (
        str(UsageError("no such key; is it x?", state="Nothing is done.")) == "no such key; is it x? Nothing is done."
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢", "plain é 漢"),
        ("\x1b[31m\r\n\x07", "\\x1b[31m\\x0d\\x0a\\x07"),
        ("\x9b1m", "\\x9b1m"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        (os.fsdecode(b"caf\xe9.jsonl"), "caf\\xe9.jsonl"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    """What does not simply print is escaped, and nothing else."""
    assert printable(text) == shown
    assert str(FileFailed("failed", where=text, state="")) == f"{shown}: failed."
