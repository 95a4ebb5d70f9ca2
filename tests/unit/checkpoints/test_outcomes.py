"""How a call ended."""

from __future__ import annotations

import pytest

from sessioncompress.checkpoints.outcomes import Outcome, outcome


@pytest.mark.parametrize(
    ("text", "failed", "hidden", "written"),
    [
        ("3 passed in 1s", False, False, "ok: > 3 passed in 1s"),
        ("1 failed, 3 passed", True, False, "failed: > 1 failed, 3 passed"),
        ("exit code 1", False, False, "ok"),
        ("no such berth\n\nCommand exited with code 2", None, False, "failed: > no such berth"),
        ("all clean", None, False, "ok: > all clean"),
        ("2 failed", False, True, "ended with: > 2 failed"),
        ("2 failed", True, True, "failed: > 2 failed"),
        ("", False, False, "ok"),
        ("", None, True, "ended with nothing"),
        ("", True, False, "failed"),
        ("(Bash completed with no output)", False, True, "ended with nothing"),
        ("Chunk ID: a\nWall time: 1\nOutput:\n", False, False, "ok"),
        ("Traceback\nValueError: bad tide\nlast line", True, False, "failed: > ValueError: bad tide"),
        ("====== 3 passed in 1s ======", False, False, "ok: > 3 passed in 1s"),
        ("-1", False, False, "ok: > -1"),
        (
            "readings\n[Showing lines 7-56 of 56 (50.0KB limit). Full output: /tmp/x.log]",
            False,
            False,
            "ok: > readings",
        ),
        ("Process running with session ID 7", None, False, "ok"),
        ("12 tests run\nbye", False, False, "ok: > 12 tests run"),
        ("built it\nProcess Group PGID: 75548", False, False, "ok: > built it"),
        ("usage: fetch URL\nurl", True, False, "failed: > usage: fetch URL"),
        ('  "status": "error",\n}', True, False, "failed"),
        ("two berths\n  return value;", False, False, "ok: > two berths"),
        ("first\nlast", False, False, "ok: > last"),
        ("\x1b[32mgreen\x1b[0m", False, False, "ok: > green"),
        ("head\n" * 2000 + "7 passed\n" + "tail\n" * 100, False, False, "ok: > 7 passed"),
    ],
)
def test_a_result_says_how_its_call_ended(text: str, failed: bool | None, hidden: bool, written: str) -> None:
    """By what the agent recorded, else by its exit status; with the line that reports most."""
    assert outcome(text, failed, hidden=hidden).written() == written


def test_its_line_is_never_long() -> None:
    """Whatever the result holds."""
    assert len(outcome("x" * 10_000_000, None, hidden=False).written()) < 200
    assert Outcome("ok").line() == ""
