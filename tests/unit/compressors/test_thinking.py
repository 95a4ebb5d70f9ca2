"""Thinking: removed whole or left byte for byte; never the latest, never the only visible part of a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.build import GeminiSession, PiSession, redacted, sealed_thinking, text, thinking, unsigned
from tests.support.runs import EAGER, after, entries, old, turn

LONG = "Let me think about the tide. " * 40
Scene = Callable[[], bytes]


def session(*parts: Any, made: PiSession | None = None, behind: bool = True) -> bytes:
    """Return an old session with one answer of these parts, and thinking behind it unless told otherwise."""
    made = made or PiSession()
    made.user("Go.")
    made.assistant(*parts)
    if behind:
        made.user("And?")
        made.assistant(made.think(LONG), "The latest.")
    return old(made)


def parts_of(entry: Any) -> list[str]:
    return [part["type"] for part in entry["message"]["content"]]


def dead() -> bytes:
    """Return a session whose latest thinking lies before its checkpoint."""
    made = PiSession()
    made.user("Go.")
    made.assistant(thinking(LONG), "Done.")
    made.compaction("It was done.", made.ids[-1])
    return old(made)


def branched() -> bytes:
    """Return a session whose latest thinking on the live path is old, since newer ones are on another branch."""
    made = PiSession()
    made.user("Go.")
    made.assistant(thinking(LONG), "One.")
    here = made.user("Left.")
    made.assistant(thinking("short"), "Left is done.")
    made.branch(here)
    return old(made)


LEFT_ALONE: list[tuple[str, Scene, int]] = [
    ("the latest", lambda: session(thinking(LONG), "Done.", behind=False), 2),
    ("the only part", lambda: session(thinking(LONG)), 2),
    ("beside a blank text", lambda: session(thinking(LONG), text(" \n")), 2),
    ("the latest, though it is dead", dead, 2),
    ("the latest of the live path", branched, 2),
    ("redacted by oh-my-pi, the latest", lambda: session(sealed_thinking(), "Done.", behind=False), 2),
    ("and the only part", lambda: session(thinking(LONG), sealed_thinking()), 2),
    ("too little to pay", lambda: session(unsigned("Hm."), "Done."), 2),
]


@pytest.mark.parametrize(("scene", "number"), [case[1:] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(scene: Scene, number: int) -> None:
    data = scene()
    assert after(data)[number] == entries(data)[number]


REMOVED: list[tuple[str, Scene, list[str]]] = [
    ("signed", lambda: session(thinking(LONG), "Done."), ["text"]),
    ("unsigned", lambda: session(unsigned(LONG), "Done.", made=GeminiSession()), ["text"]),
    ("redacted", lambda: session(redacted(), "Done."), ["text"]),
    ("several", lambda: session(thinking(LONG), "One.", thinking(LONG), redacted(), "Two."), ["text", "text"]),
    ("redacted by oh-my-pi", lambda: session(sealed_thinking(), "Done."), ["text"]),
    ("both", lambda: session(thinking(LONG), sealed_thinking(), "One.", sealed_thinking(), "Two."), ["text", "text"]),
    ("behind the text", lambda: session("One.", thinking(LONG)), ["text"]),
    ("beside an image that no one knows", lambda: session(thinking(LONG), "One.", {"type": "new"}), ["text", "new"]),
]


@pytest.mark.parametrize(("scene", "left"), [case[1:] for case in REMOVED], ids=[case[0] for case in REMOVED])
def test_thinking_goes_whole(scene: Scene, left: list[str]) -> None:
    data = scene()
    assert parts_of(after(data)[2]) == left
    kept = [part for part in entries(data)[2]["message"]["content"] if "hinking" not in part["type"]]
    assert after(data)[2]["message"]["content"] == kept


def test_strip_thinking_off_keeps_all() -> None:
    data = session(thinking(LONG), "Done.")
    assert after(data, replace(EAGER, strip_thinking=False)) == entries(data)


def test_a_signature_is_whole_or_gone() -> None:
    made = PiSession()
    for number in range(6):
        made.user("Go.")
        made.assistant(thinking(f"{number} {LONG}"), thinking("short"), "Done.")
    before = [part for entry in entries(made.bytes()) for part in entry.get("message", {}).get("content", ())]
    found = [part for entry in after(turn(made)) for part in entry.get("message", {}).get("content", ())]
    assert all(part in before for part in found if part["type"] == "thinking")
