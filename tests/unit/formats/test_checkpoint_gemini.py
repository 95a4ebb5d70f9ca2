"""The summary that is written into sessions of Gemini CLI: records, and one document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.checkpoint import Cut
from sessioncompress.core.model import Role
from sessioncompress.formats.gemini import THANKS
from tests.support.checkpoints import SUMMARY, Cutting, checkpointed, written_of
from tests.support.documents import GeminiDocument
from tests.support.records import GeminiRecords
from tests.support.runs import fixture, form_of, split, survey_of, units

TEXT = f"<state_snapshot>\n{SUMMARY.text}\n</state_snapshot>"
LONG = "a line of output\n" * 60


def asked(made: GeminiRecords | None = None) -> GeminiRecords:
    """Return a session of four turns, two of them with a call."""
    made = made or GeminiRecords()
    for text in ("Look.", "And there?"):
        made.user(text)
        made.steps("I look.", made.used("run_shell_command", {"command": "cat a.log"}, LONG), thought="Hm.")
        made.answer("Silent.").user("Sure?").answer("Yes.")
    return made


def cut_at(data: bytes, prompt: str) -> Cutting:
    """Write a summary before the last live prompt of these words."""
    survey, found = survey_of(data), units(data)
    live = list(survey.shape.live)
    said = [json.loads(found[number]).get("content") for number in live]
    at = max(place for place, content in enumerate(said) if content in (prompt, [{"text": prompt}]))
    cut = Cut(tuple(live[:at]), tuple(live[at:]), splits=False)
    made = form_of(data).checkpoint(written_of(data, survey), cut, SUMMARY)
    assert made is not None
    lines = split(data)
    place = min(made.added[0].before, len(lines))
    return Cutting(data, b"".join([*lines[:place], made.added[0].line, *lines[place:]]), cut, made)


def read(data: bytes) -> list[dict[str, Any]]:
    found = units(data)
    return [json.loads(found[number]) for number in survey_of(data).shape.live]


@pytest.mark.parametrize("prompt", ["Sure?", "And there?"])
def test_records_get_a_line_before_what_is_kept(prompt: str) -> None:
    made = cut_at(asked().bytes(), prompt)
    (addition,) = made.checkpoint.added
    assert addition.line.startswith(b'{"$set":{"messages":[')
    assert addition.line.endswith(b"]}}\n")
    assert made.checkpoint.repeated == frozenset()
    summary, thanks, *kept = read(made.after)
    assert (summary["type"], summary["content"]) == ("user", [{"text": TEXT}])
    assert (thanks["type"], thanks["content"]) == ("gemini", [{"text": THANKS}])
    assert kept == [json.loads(units(made.before)[number]) for number in made.cut.kept]
    assert summary["timestamp"] == thanks["timestamp"] < kept[0]["timestamp"]


REPEATED: dict[str, GeminiRecords] = {
    "all was set at once": asked().resume(),
    "all was set at once, and more was said": asked().resume().user("Once more.").answer("Yes."),
    "a message of before is written again": asked().record(json.loads(asked().lines()[1])),
}


@pytest.mark.parametrize("made", REPEATED.values(), ids=REPEATED)
def test_what_cannot_stay_where_it_is_is_repeated(made: GeminiRecords) -> None:
    data = made.bytes()
    found = cut_at(data, "Sure?")
    assert found.checkpoint.repeated == frozenset(found.cut.kept)
    assert found.checkpoint.added[0].before == len(units(data))
    assert all(units(data)[number].strip() in found.checkpoint.added[0].line for number in found.cut.kept)
    assert read(found.after)[2:] == [json.loads(units(data)[number]) for number in found.cut.kept]


def test_a_document_keeps_its_spacing() -> None:
    data = fixture("gemini.json")
    made = checkpointed(data)
    document = json.loads(made.after)
    was = json.loads(data)
    summary, thanks, *kept = document["messages"]
    assert (summary["content"], thanks["content"]) == ([{"text": TEXT}], [{"text": THANKS}])
    assert kept == was["messages"][made.cut.kept[0] :]
    assert {**document, "messages": 0} == {**was, "messages": 0}
    kept_bytes = data[data.index(units(data)[made.cut.kept[0]]) :]
    assert made.after.endswith(b"},\n    " + kept_bytes)


@pytest.mark.parametrize("kind", [GeminiDocument, GeminiRecords])
def test_what_a_user_pastes_is_no_checkpoint(kind: type[GeminiDocument]) -> None:
    made = kind().user("Look.").answer("Silent.").user(TEXT).answer("I see.")
    assert Role.CHECKPOINT not in survey_of(made.bytes()).lines.roles


def test_ours_is_a_checkpoint_behind_what_was_set_at_once() -> None:
    """One line that sets all messages follows another."""
    made = checkpointed(asked().resume().bytes())
    survey = survey_of(made.after)
    assert survey.lines[survey.shape.live[0]].role is Role.CHECKPOINT


def test_the_agent_s_own_is_a_checkpoint_too() -> None:
    """It sets all messages to its summary and what it keeps, whatever was said before."""
    made = asked()
    made.messages = made.messages[-2:]
    for kind, text in (("gemini", THANKS), ("user", TEXT.replace(SUMMARY.text, "Its own."))):
        made.messages.insert(0, {**made.messages[0], "id": kind, "type": kind, "content": [{"text": text}]})
    survey = survey_of(made.resume().bytes())
    roles = [survey.lines[number].role for number in survey.shape.live]
    assert roles == [Role.CHECKPOINT, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
