"""What the agent did."""

from __future__ import annotations

from typing import Any

import pytest

from sessioncompress.checkpoints import deeds as done
from sessioncompress.core.checkpoint import Say, Utterance
from tests.unit.checkpoints.said import called, ran


def noted(*said: Utterance) -> done.Deeds:
    deeds = done.Deeds()
    for each in said:
        if each.say is Say.CALL:
            deeds.call(each)
        else:
            deeds.result(each)
    return deeds


_ITEM = {"status": "pending"}


@pytest.mark.parametrize(
    ("calls", "items"),
    [
        ([("TodoWrite", {"todos": [{"content": "a", **_ITEM}]})], [("pending", "a")]),
        ([("update_plan", {"plan": [{"step": "a", **_ITEM}], "explanation": "x"})], [("pending", "a")]),
        ([("write_todos", {"todos": [{"description": "a", **_ITEM}]})], [("pending", "a")]),
        ([("todo", {"ops": [{"op": "set", "phases": [{"tasks": [{"content": "a", **_ITEM}]}]}]})], [("pending", "a")]),
        ([("TaskCreate", {"subject": "a"}), ("TaskUpdate", {"taskId": "1", "status": "done"})], [("done", "a")]),
        ([("TaskCreate", {"subject": "a"}), ("TaskUpdate", {"taskId": 1, "status": "deleted"})], []),
        ([("TodoWrite", {"todos": [{"content": "a", **_ITEM}]}), ("TodoWrite", {"todos": 7})], [("pending", "a")]),
        ([("TaskUpdate", {"taskId": "9", "status": "done"})], []),
    ],
)
def test_the_last_todo_list_is_found(calls: list[tuple[str, dict[str, Any]]], items: list[tuple[str, str]]) -> None:
    assert noted(*(each for tool, given in calls for each in called(tool, given))).items() == items


@pytest.mark.parametrize("state", ["completed", "done", "cancelled", "canceled", "deleted"])
def test_an_item_that_is_no_longer_open_goes_before_an_open_one(state: str) -> None:
    items = [{"content": "Read the gauge", "status": state}, {"content": "Mend the pump", **_ITEM}]
    made = noted(*called("TodoWrite", {"todos": items}))
    assert done.todo(made, 60) == ["- > [pending] Mend the pump", "(1 more left out)"]


def test_a_file_whose_last_call_failed_says_so() -> None:
    edit = {"path": "a.py", "newText": "y"}
    failed = noted(*called("edit", edit), *called("edit", edit, "no match", failed=True))
    assert "edited 2x, the last call failed [" in done.files(failed, "", 500)[0]
    mended = noted(*called("edit", edit, "no match", failed=True), *called("edit", edit))
    assert "failed" not in done.files(mended, "", 500)[0]


def test_a_file_named_in_two_ways_is_one() -> None:
    write, edit = {"path": "/w/src/a.py", "content": "x"}, {"path": "src/a.py", "newText": "y"}
    assert list(done.merged(noted(*called("write", write), *called("edit", edit)), "")) == ["/w/src/a.py"]
    other = called("write", {"path": "/v/src/a.py", "content": "x"})
    assert len(done.merged(noted(*called("write", write), *other, *called("edit", edit)), "")) == 3


def test_what_is_remembered_is_bounded() -> None:
    deeds = done.Deeds()
    for at in range(3000):
        for each in (
            *called("write", {"path": f"{at}.py", "content": "x"}, None),
            *ran(f"make {at}", "x", failed=True),
        ):
            if each.say is Say.CALL:
                deeds.call(each._replace(call=f"{each.tool}{at}"))
            else:
                deeds.result(each._replace(call=f"bash{at}"))
        deeds.note_read(f"{at}.md")
        deeds.call(*called("TaskCreate", {"subject": "x"}, None))
    sizes = [len(deeds.changed), len(deeds.read), len(deeds.ran), len(deeds.tasks)]
    assert max(sizes) <= 2000


def test_what_was_read_last_is_no_report() -> None:
    """A line out of a file says nothing of how reading it ended; a few lines may, and a failure does."""
    for lines, failed, said in ((40, False, "ok"), (3, False, "ok: > line 2"), (40, True, "failed: > Error: 40")):
        text = "\n".join(f"line {at}" for at in range(lines)) + (f"\nError: {lines}" if failed else "")
        last = noted(*called("read", {"path": "a.py"}, text, failed)).last
        assert last is not None
        assert last[1].written() == said


def test_a_patch_of_many_files_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be of any number of files, and it is as long."""
    hashed: list[str] = []

    def refer(text: str) -> str:
        hashed.append(text)
        return "0123456789ab"

    monkeypatch.setattr(done, "reference", refer)
    files = "".join(f"*** Update File: {each}.py\n@@\n-a\n+b\n" for each in range(40))
    deeds = noted(*called("apply_patch", {"input": f"*** Begin Patch\n{files}*** End Patch"}))
    assert len(deeds.changed) == 40
    assert len(hashed) == 1
