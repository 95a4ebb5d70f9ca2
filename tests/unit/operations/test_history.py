"""The runs over several sessions, in an order that each journal agrees with."""

from __future__ import annotations

import pytest

from sessioncompress.operations.history import SessionRun, State, history

ORDERS = [
    ("by their times", {"a": "13", "b": "2"}, "321"),
    ("one whose clock was ahead", {"a": "193"}, "391"),
    ("and another session", {"a": "193", "b": "2"}, "3921"),
    ("in both sessions", {"a": "192", "b": "93"}, "3291"),
    ("a command that wrote twice", {"a": "121"}, "12"),
    ("journals that contradict each other", {"a": "12", "b": "21"}, "21"),
    ("none", {}, ""),
]


@pytest.mark.parametrize(("sessions", "order"), [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS])
def test_the_newest_comes_first(sessions: dict[str, str], order: str) -> None:
    """Each digit is a run, with its time in its name."""
    found = [
        SessionRun(path, run, f"2026-01-0{run}T00:00:00Z", "compress", State.IN_PLACE, 1, 1)
        for path, runs in sessions.items()
        for run in runs
    ]
    assert "".join(each.run for each in history(found)) == order
