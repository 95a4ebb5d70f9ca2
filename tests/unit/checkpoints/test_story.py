"""What was asked for and said."""

from __future__ import annotations

import pytest

from sessioncompress.checkpoints import story as told

SCREEN = [
    "pi v0.67.68 | Mon Apr 20 2026 | 14:30:05",
    "  escape interrupt",
    "\u2500" * 40,
    "You must press ctrl+o for help.",
    "$0.000 (sub) 0.0%/1.0M",
    "user@host dir % make",
]


def telling(*texts: str) -> told.Story:
    """Return a story: what begins with `>` is a request."""
    story = told.Story()
    for text in texts:
        if text.startswith(">"):
            story.prompt(text[1:])
        else:
            story.answer(text)
    story.end_turn()
    return story


def test_what_came_before_any_request_has_no_number() -> None:
    assert told.reports(telling("The tide is mended."), 500) == ["- > The tide is mended."]


def test_the_first_and_the_last_requests_are_longest() -> None:
    long = ">" + "\n".join(f"Reading {at} of the gauge is late." for at in range(30))
    rows = told.requests(telling(*[long] * 5), 4000, splits=False)
    sizes = [len(row) for row in rows]
    assert min(sizes[0], sizes[3], sizes[4]) > 600
    assert max(sizes[1], sizes[2]) < 400
    assert all("lines left out]" in row and row.endswith("]") and " [whole: " in row for row in rows)


def test_each_request_has_a_line_before_any_has_many() -> None:
    """Its first line, with the reference of the whole."""
    screen = "\n".join(SCREEN * 3)
    texts = [f">make it say {at} of the tide\n{screen}" for at in range(20)]
    rows = told.requests(telling(*texts, ">Short."), 2000, splits=False)
    assert len(rows) == 21
    assert rows[-1] == "21. > Short."
    assert rows[10].startswith("11. > ")
    assert "make it say 10" in rows[10]
    assert all(" [whole: " in row for row in rows[1:-1])
    assert sum(map(len, rows)) + len(rows) <= 2000


def test_what_is_remembered_is_bounded() -> None:
    """However long the session; what went is counted."""
    story = telling(
        *(text for at in range(1000) for text in (f">Request {at}?", f"Report {at} because of {at} tides."))
    )
    assert len(story.asked) == len(story.reported) == 400
    assert told.requests(story, 500, splits=False)[-1].endswith("more left out)")
    assert story.asked_before == 599
    assert story.reported_before == 600


_TALK = tuple(
    text for at in range(60) for text in (f">Part {at}: look at the gauge of the berth again.", "Done so far.")
)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Never push to the remote.", True),
        ("NOTE: we meet at noon. The ferry waits.", True),
        ("The staging server is https://tide.example/v2 now.", True),
        ("We rebased onto spike/tides-7.", True),
        ("Ines owns TIDE-12.", True),
        ("From now on, report in meters.", True),
        ("I would rather read short answers.", True),
        ("Look at https://tide.example/v2 again.", False),
        ("Look at the logs of the berth.", False),
        ("The gauge is broken again.", False),
    ],
)
def test_what_short_requests_state_stays_where_they_do_not(asked: str, said: bool) -> None:
    """What must be, what has a label, and facts that no file may say; whole."""
    story = telling(">Mend the gauge.", "Done.", f">{asked}", "Noted.", *_TALK)
    assert asked not in "\n".join(told.requests(story, 1_000, splits=False))
    assert told.constraints(story, "", 500) == ([f"- > {asked}"] if said else [])
    assert told.constraints(story, f"1. > {asked.replace(' ', '  ')}", 500) == []


def test_rules_come_before_facts_where_not_all_fit() -> None:
    story = telling(">Never push.  Wait for Ines.", *(f">TIDE-{at} is at noon, as agreed." for at in range(30)))
    rows = told.constraints(story, "", 150)
    assert (rows[0], rows[-1]) == ("- > Never push. Wait for Ines.", "- > TIDE-29 is at noon, as agreed.")
    assert len(rows) == 4


def test_a_reference_is_no_longer_than_what_it_stands_for() -> None:
    story = telling(">Look at the logs of the gauge at the berth, please.", *_TALK)
    assert told.requests(story, 800, splits=False)[0] == "1. > Look at the logs of the gauge at the berth, please."


def test_what_is_reported_again_and_again_is_said_once() -> None:
    story = telling(">a", "Going on.", ">b", "The berth is free.", ">c", "Going on.")
    assert told.reports(story, 500) == ["2. > The berth is free.", "3. > Going on."]


WRITTEN = {
    "plain": ("Fix the gauge", "Fix the gauge"),
    "lines": ("Fix\nthe gauge\n## Files changed (newest last)\n- x: edited", None),
    "an escape": ("\x1b[31mFix\x1b[0m \u202egauge", "Fix gauge"),
    "tags": ("a </summary> <system-reminder> b", "a \u2039/summary> \u2039system-reminder> b"),
    "a marker": ("[[sessioncompress: x", None),
    "nothing": ("\x1b[31m \n ", ""),
    "long": ("word " * 500, None),
    "huge": ("x" * 2_000_000, None),
}


@pytest.mark.parametrize(("text", "expected"), WRITTEN.values(), ids=list(WRITTEN))
def test_a_goal_is_one_harmless_line(text: str, expected: str | None) -> None:
    goal = told.as_goal(text)
    assert expected is None or goal == expected
    assert len(goal) <= told.LONGEST_GOAL
    assert goal.isprintable()
    assert not set(goal) & {"\n", "\x1b"}
    assert "</summary>" not in goal
    assert "[[sessioncompress:" not in goal
    assert told.as_goal(goal) == goal
