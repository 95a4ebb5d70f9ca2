"""The summary of a branch and the handoff that are written for sessions of pi and its relatives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.checkpoint import Summary
from sessioncompress.formats.base import CannotCheckpoint, tree_leaves, tree_shape
from tests.support.branched import branched
from tests.support.checkpoints import SUMMARY, written_of
from tests.support.runs import fixture, form_of, split, survey_of
from tests.support.session import PiSession

MADE = branched()


def entry(data: bytes, target: str, summary: Summary = SUMMARY) -> Any:
    """Write the summary of a branch that is left for an entry, and return its entry."""
    written, form = written_of(data), form_of(data)
    number = written.lines.ids.index(target)
    live = survey_of(data).shape.live
    there = set(tree_shape(written.lines, number).live)
    made = form.branch_summary(written, [each for each in live if each not in there], number, summary)
    (one,) = made.added
    assert one.before == len(written.lines)
    return json.loads(one.line)


def test_the_entry() -> None:
    own = entry(MADE.data, MADE.first)
    last = json.loads(split(MADE.data)[-1])
    files = {"readFiles": ["src/tides.py"], "modifiedFiles": ["src/levels.py", "src/report.py"]}
    assert list(own) == ["type", "id", "parentId", "timestamp", "fromId", "summary", "details"]
    assert own["timestamp"] == last["timestamp"]
    assert (own["parentId"], own["fromId"], own["details"]) == (MADE.first, MADE.first, files)
    assert own["summary"] == (
        "The user explored a different conversation branch before returning here.\n"
        "Summary of that exploration:\n\n"
        "The levels were published, and then the forecasts.\n\n"
        "<read-files>\nsrc/tides.py\n</read-files>\n\n"
        "<modified-files>\nsrc/levels.py\nsrc/report.py\n</modified-files>"
    )


@pytest.mark.parametrize("name", ["pi-anthropic", "pi-compacted", "pi-1x", "pi-v2", "openclaw", "omp"])
def test_the_id_is_new_and_the_same_again(name: str) -> None:
    data = fixture(f"{name}.jsonl")
    lines = written_of(data).lines
    target = lines.ids[survey_of(data).shape.live[-4]]
    own = entry(data, target)
    assert len(own["id"]) == 8
    assert own["id"] not in lines.ids
    assert own == entry(data, target)
    assert own["id"] != entry(data, target, SUMMARY._replace(text="Other words."))["id"]


def test_names_of_files_that_could_end_a_list_are_left_out() -> None:
    odd = SUMMARY._replace(read=("</read-files>", "a\nb", "c.py", ""), changed=())
    assert entry(MADE.data, MADE.first, odd)["details"] == {"readFiles": ["c.py"], "modifiedFiles": []}


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_others_have_neither(name: str) -> None:
    data = fixture(f"{name}.jsonl")
    form, written = form_of(data), written_of(data)
    for refused in (
        lambda: form.leaves(written.lines),
        lambda: form.handoff(written, "session.jsonl", "Words.", "Seed"),
    ):
        with pytest.raises(CannotCheckpoint, match=f"{form.name} session"):
            refused()


@pytest.mark.parametrize(
    "header",
    [
        {"id": "x", "timestamp": "", "cwd": "/caf\u00e9"},
        {"version": 9, "id": "", "timestamp": "never", "cwd": ""},
    ],
)
def test_a_handoff_of_an_odd_header(header: dict[str, Any]) -> None:
    """Where no entry says when it was written, the session is dated 1970."""
    message = {"type": "message", "id": "a", "parentId": None, "timestamp": 7, "message": {"role": "user"}}
    data = b"".join(json.dumps(each).encode() + b"\n" for each in ({"type": "session", **header}, message))
    made = form_of(data).handoff(written_of(data), "session.jsonl", "Words.\n", "Seed")
    assert made.name.startswith("1970-01-01T00-00-00-000Z_00000000-0000-7")
    first, second = map(json.loads, split(made.content))
    assert (first["version"], second["parentId"]) == (3, None)
    assert second["content"].startswith("<handoff-context>\nWords.\n</handoff-context>\n\n")


def test_leaves_of_odd_trees() -> None:
    """A parent of nowhere, an entry that is its own parent, and an id twice, of which the last counts."""
    made = PiSession()
    for name, parent in (("a", None), ("b", "a"), ("c", "nowhere"), ("d", "d"), ("b", "c")):
        made.raw(json.dumps({"type": "label", "id": name, "parentId": parent, "timestamp": ""}).encode() + b"\n")
    assert tree_leaves(survey_of(made.bytes()).lines) == [5]
    assert list(tree_shape(survey_of(made.bytes()).lines, 4).live) == [4]
