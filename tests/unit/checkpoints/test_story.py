"""What was asked for and said."""

from __future__ import annotations

import pytest

from sessioncompress.checkpoints import story as told


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


def test_what_is_remembered_is_bounded() -> None:
    """However long the session; what went is counted."""
    story = telling(
        *(text for at in range(1000) for text in (f">Request {at}?", f"Report {at} because of {at} tides."))
    )
    assert len(story.asked) == len(story.reported) == 400
    assert told.requests(story, 500, splits=False)[-1].endswith("more left out)")
    assert story.asked_before == 599
    assert story.reported_before == 600


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
