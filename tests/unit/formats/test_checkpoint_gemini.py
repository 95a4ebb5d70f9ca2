"""The summary that is written into sessions of Gemini CLI: records, and one document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.checkpoint import Cut
from tests.support.checkpoints import SUMMARY, Cutting, written_of
from tests.support.records import GeminiRecords
from tests.support.runs import form_of, split, survey_of, units

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
