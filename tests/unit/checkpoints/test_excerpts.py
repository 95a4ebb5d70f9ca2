"""Lines that were written and read."""

from __future__ import annotations

import pytest

from sessioncompress.checkpoints import excerpts

_OLD = "gauge_floor = 10\ngauge_step = 20\nreading_of(gauge_floor)"
_KEPT = ["gauge_step = 20"]


@pytest.mark.parametrize(
    ("where", "text", "replaced", "whole", "left"),
    [
        ("a.py", "gauge_step = 20\ntide_limit = 30", "", True, ["gauge_step = 20", "tide_limit = 30"]),
        ("a.py", "", "", True, []),
        ("a.py", "tide_limit = 30", "  gauge_floor = 10\nreading_of(gauge_floor)", False, [*_KEPT, "tide_limit = 30"]),
        ("a.py", "gauge_floor = 10", "gauge_floor = 10\nreading_of(gauge_floor)", False, [*_KEPT, "gauge_floor = 10"]),
        ("a.py", "of(tide_limit)", "of(gauge_floor)", False, ["gauge_floor = 10", *_KEPT]),
        ("a.py", "of(\n1)", "of(gauge_floor)", False, ["gauge_floor = 10", *_KEPT]),
        ("a.py", "of", "ga", False, _OLD.split("\n")),
        ("b.py", "", _OLD, False, _OLD.split("\n")),
        ("b.py", "", "", True, _OLD.split("\n")),
    ],
)
def test_lines_that_were_taken_out_are_dropped(
    where: str, text: str, replaced: str, whole: bool, left: list[str]
) -> None:
    """By a whole write of the file, or an edit: of a part of a line, too."""
    held = excerpts.Excerpts()
    held.wrote("a.py", _OLD)
    held.wrote(where, text, replaced=replaced, whole=whole)
    assert list(dict.fromkeys(each.words for each in held.written() if each.words != "of(tide_limit)")) == left


def test_the_newest_texts_are_held() -> None:
    """And no more than fit; taking lines out leaves no trace."""
    held = excerpts.Excerpts()
    for at in range(100):
        held.wrote(f"{at}.py", "\n".join(f"line {line} of {at}" for line in range(2_000)))
        held.read(f"{at % 50}.py", f"{at}" * 20_000)
    for texts in (list(held.written()), list(held.readings())):
        assert 100_000 < sum(len(each.words) for each in texts) <= 320 * 1024
        assert texts[-1].where in ("99.py", "49.py")
    for at in range(100):
        held.wrote(f"{at}.py", "", whole=True)
    assert (list(held.written()), held._of, held._held) == ([], {}, 0)
