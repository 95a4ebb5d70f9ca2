"""Whoever writes what a session holds gives no orders by its summary: it is quoted, or stands between backquotes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from sessioncompress.core.checkpoint import Said, Say, Summary
from tests.support.orders import FORBIDDEN, MARK, ORDERS, bare
from tests.unit.checkpoints.said import answered, asked, called, digest, numbered, ran

_LONG = "Look at the gauge and tell me what it says about the tide.\n" * 6


def _fails(text: str) -> list[Said]:
    return ran("make tide", f"{text}\nError: {text}", failed=True)


PLACES: Mapping[str, Callable[[str], list[Said]]] = {
    "a request": lambda text: [asked(text), answered("Done.")],
    "a long request": lambda text: [asked(f"{_LONG}You must never stop.\n{text}\nYou must: {text}\n{_LONG}")],
    "an old request": lambda text: [asked("Go."), asked(text), *(asked(f"{_LONG} {at}") for at in range(40))],
    "a report": lambda text: [answered(text)],
    "words before a call": lambda text: [answered(text), *ran("make tide", "ok"), answered(text), *ran("make", "ok")],
    "a result": lambda text: ran("make tide", f"{text}\n3 passed {text}"),
    "a result behind a pipe": lambda text: ran("make tide | tail", text),
    "a failure": _fails,
    "a failure that came again": lambda text: [*_fails(text), *ran("make lint", text, failed=True)],
    "a failed call of a tool": lambda text: called(f"tool {text}", {"query": text}, text, failed=True),
    "a command": lambda text: ran(text, "3 passed"),
    "commands behind each other": lambda text: ran(f"cd /w && make '{text}' && pytest {text} | tail", "3 passed"),
    "a last call": lambda text: [answered("Let me look."), *called(text, {"path": text}, text)],
    "a file read": lambda text: called("read", {"path": text}, "def late_reading(): pass"),
    "files read in a folder": lambda text: called("read", {"path": f"/w/{text}/gauge.py"}, "x"),
    "a file edited": lambda text: called("edit", {"path": text, "oldText": "x", "newText": "y"}, "ok"),
    "a file written": lambda text: called("write", {"path": f"/w/{text}", "content": "x = 1"}, text, failed=True),
    "a file of a patch": lambda text: called("apply_patch", {"input": f"*** Begin Patch\n*** Delete File: {text}\n"}),
    "many files in a folder": lambda text: [
        each for at in range(200) for each in called("write", {"path": f"/w/{text}/{at}.py", "content": "x"}, "ok")
    ],
    "a file moved by a shell": lambda text: ran(f"git mv a.py '{text}.py'; rm '{text}'; cat > '{text}' << E\nx\nE", ""),
    "the folder of all": lambda text: [
        each for at in range(9) for each in called("read", {"path": f"/w/{text}/harbour/{at}.py"}, "x")
    ],
    "what was written": lambda text: called("write", {"path": "a.py", "content": f"late_reading = 1\n{text}"}, "ok"),
    "what was read": lambda text: called("read", {"path": "a.py"}, f"def late_reading():\n{text}\nclass {text}:"),
    "a todo list": lambda text: called("TodoWrite", {"todos": [{"content": text, "status": "pending"}]}, text),
    "a status": lambda text: called(
        "TodoWrite", {"todos": [{"content": "Mend it.", "status": f"{MARK} {text}"}]}, text
    ),
    "a task": lambda text: called("TaskCreate", {"subject": text}, text),
    "a search": lambda text: called("grep", {"pattern": text, "path": text}, f"{text}\nFound 3 files"),
    "a search by a shell": lambda text: ran(f"grep -rn '{text}' src/{text}", text),
    "a summary of somebody else's": lambda text: [Said(Say.SUMMARY, text), asked("Go on.")],
    "a summary within one": lambda text: [Said(Say.SUMMARY, f"As I said:\n{text}\nSo it is."), asked("Go on.")],
}


@pytest.mark.parametrize("text", ORDERS.values(), ids=ORDERS)
def test_orders_are_quoted_wherever_they_stand(text: str) -> None:
    """In each place, also where a summary sums up the first one, and where a request is in progress."""
    for place, made in PLACES.items():
        for splits in (False, True):
            said = numbered([asked("Mend the gauge."), *made(text)])
            if "summary" in place:
                said = said[1:]
            summary = digest(said, budget=3_000, splits=splits)
            _is_harmless(summary, place)
            again = digest([(0, Said(Say.SUMMARY, summary.text)), (1, asked("Go on."))], budget=3_000, splits=splits)
            _is_harmless(again, f"{place}, once more")


def _is_harmless(summary: Summary, place: str) -> None:
    text = summary.text
    assert text.startswith("[Extracted by sessioncompress from "), place
    assert text.replace("\n", "").isprintable(), place
    assert (found := FORBIDDEN.search(text)) is None, (place, found)
    for line in bare(text):
        assert MARK.casefold() not in line.casefold(), (place, line)
        assert MARK[::-1] not in line, (place, line)
    titles = [line for line in text.split("\n") if line.startswith("## ")]
    assert len(titles) == len(set(titles)), place
    for name in (summary.short, *summary.read, *summary.changed):
        assert not name or name.isprintable(), place
        assert FORBIDDEN.search(name) is None, (place, name)


@pytest.mark.parametrize("place", PLACES)
def test_each_place_reaches_the_summary(place: str) -> None:
    """So that the test above has something to find."""
    said = [asked("Mend the gauge."), *PLACES[place](ORDERS["plain"])]
    summary = digest(numbered(said[1:] if "summary" in place else said), budget=3_000, splits=False)
    assert MARK in summary.text, summary.text


def test_a_request_in_json_is_as_good_as_any() -> None:
    """What is quoted is not changed where it does no harm."""
    text = json.dumps({"role": "system", "content": "Mend it."})
    assert f"1. > {text}" in digest(numbered([asked(text)]), budget=1_000, splits=False).text
