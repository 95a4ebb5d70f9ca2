"""What was looked for."""

from __future__ import annotations

from typing import Any

import pytest

from sessioncompress.checkpoints import searches as sought
from sessioncompress.checkpoints.digest import digest
from sessioncompress.checkpoints.shell import commands_in
from sessioncompress.core.checkpoint import Said, Say
from tests.unit.checkpoints.said import answered, asked, called, numbered, ran
from tests.unit.checkpoints.test_digest import section

_TITLE = "Searches"


def looked(*said: Said) -> sought.Searches:
    """Return the searches among calls and results."""
    searches = sought.Searches()
    for each in said:
        if each.say is Say.CALL:
            searches.call(each, commands_in(each.given, is_command=True))
        else:
            searches.result(each)
    return searches


@pytest.mark.parametrize(
    ("tool", "given", "result", "row"),
    [
        ("grep", {"pattern": "tide|ebb", "path": "/w/src"}, "a.py:1\nb.py:2\n", "- `grep tide|ebb in src` 2 lines"),
        ("Glob", {"pattern": "**/*tide*"}, "No files found", "- `Glob **/*tide*` nothing"),
        ("grep", {"pattern": "tide"}, "Found 7 matches\n/w/a.py:", "- `grep tide` 7 found"),
        ("glob", {"path": "src/*.py; docs/*.md"}, "a.py", "- `glob in ./src/*.py and 1 more` 1 line"),
        ("multi_grep", {"patterns": ["tide", "ebb"]}, "", "- `multi_grep tide ebb` nothing"),
        ("bash", {"command": "cd /w && rg -n tide /w/src | head"}, "a\nb", "- `rg -n tide src | head` 2 lines"),
        ("bash", {"command": "find . -name a"}, "Exit code 1", "- `find . -name a` nothing"),
        ("grep", {"pattern": "x", "path": "/v/" + "deep/" * 20 + "a.py"}, "x", None),
        ("bash", {"command": "make find"}, "x", ""),
        ("grep", {"pattern": 7, "path": None}, "x", ""),
        ("read", {"path": "a.py"}, "x", ""),
    ],
)
def test_searches_are_listed(tool: str, given: dict[str, Any], result: str, row: str | None) -> None:
    """With what was looked for, where, and how much was found; others are none."""
    rows = sought.rows(looked(*called(tool, given, result)), "/w", 500)
    if row is None:
        assert len(rows[0]) < 120
        assert rows[0].endswith("/deep/a.py` 1 line")
    else:
        assert list(rows) == ([row] if row else [])


def test_the_newest_of_each_is_listed_and_no_more_than_fit() -> None:
    """In their order."""
    calls = [each for at in (1, 2, 3, 1) for each in called("grep", {"pattern": f"tide {at}"}, f"{at}\n" * at)]
    assert list(sought.rows(looked(*calls), "", 500)) == [
        "- `grep tide 2` 2 lines",
        "- `grep tide 3` 3 lines",
        "- `grep tide 1` 1 line",
    ]
    assert list(sought.rows(looked(*calls), "", 60)) == ["- `grep tide 1` 1 line", "(2 more left out)"]


def test_what_is_remembered_is_bounded() -> None:
    """Also of calls without results."""
    searches = looked(*(each for at in range(1000) for each in called("grep", {"pattern": f"{at}"}, "x")))
    assert (len(searches.found), searches.before) == (400, 600)
    for at in range(3000):
        searches.call(called("grep", {"pattern": "x"}, None)[0]._replace(call=f"{at}"), ())
    assert len(searches._waiting) == 1000


def test_they_stand_in_the_summary_of_a_session_that_wrote_little() -> None:
    """Also after two rounds."""
    said = [asked("Map it."), *called("grep", {"pattern": "tide"}, "a"), *called("glob", {"pattern": "*.py"}, "b")]
    said += [*called("write", {"path": "a.py", "content": "x"}), answered("Mapped.")]
    text = digest(numbered(said), budget=2000, splits=False).text
    rows = "- `grep tide` 1 line\n- `glob *.py` 1 line"
    assert section(text, _TITLE) == rows
    again = digest(numbered([Said(Say.SUMMARY, text), *ran("rg ebb", "c")]), budget=2000, splits=False).text
    assert section(again, _TITLE) == f"{rows}\n- `rg ebb` 1 line"
    wrote = [each for at in range(3) for each in called("write", {"path": "a.py", "content": f"{at}"})]
    assert section(digest(numbered([*said, *wrote]), budget=2000, splits=False).text, _TITLE) == ""
