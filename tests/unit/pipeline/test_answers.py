"""The answers of a session: in the order of its live path, each request once, with what its lines add."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from sessioncompress.core.jsonl import document_of, pieces_of
from sessioncompress.core.model import Answer
from sessioncompress.formats.base import Entry
from sessioncompress.formats.pi import Pi
from sessioncompress.formats.table import format_named
from sessioncompress.pipeline.reading import survey
from sessioncompress.pipeline.usage import Answers, answers
from tests.support.rollout import Rollout
from tests.support.session import PiSession

SAID = "The gauges are silent. " * 20


def read(data: bytes, name: str) -> Answers:
    form = format_named(name)
    return answers(survey(pieces(data), form, document=document_of(lambda: io.BytesIO(data), len(data))))


def pieces(data: bytes) -> Any:
    return pieces_of(lambda: io.BytesIO(data), len(data))


def used(sent: int) -> dict[str, Any]:
    return {"input": sent, "output": 10, "cacheRead": 0, "cacheWrite": 0, "totalTokens": sent + 10}


def pi(*sent: int, between: Callable[[PiSession], object] = lambda made: made.user(SAID)) -> bytes:
    """Return a session of pi with answers of that usage, and something between each two."""
    made = PiSession()
    made.user("Go.")
    for number, each in enumerate(sent):
        if number:
            between(made)
        made.assistant("Yes.", usage=used(each), model="gpt-5")
    return made.bytes()


def rollout(*lasts: dict[str, Any] | None) -> Rollout:
    """Return a rollout with a call and its count for each; None writes the count before once more."""
    made = Rollout()
    made.user("Go.")
    info: dict[str, Any] = {}
    for last in lasts:
        if last is not None:
            made.function("ls", {}, "a")
            info = {"last_token_usage": last, "total_token_usage": last, "model_context_window": 258_400}
        made.event("token_count", info=info, rate_limits=None)
    return made


def count(sent: int) -> dict[str, int]:
    return {"input_tokens": sent, "cached_input_tokens": 0, "output_tokens": 10, "total_tokens": sent + 10}


def test_an_error_of_codex_takes_no_answers_place() -> None:
    made = rollout(count(100))
    made.event("error", message="context window")
    found = read(made.bytes(), "codex")
    assert [(each.error, bool(each.usage)) for each in found.answers] == [("", True), ("context window", False)]
    assert found.behind is not None


class Counting(Pi):
    """A format that counts how often it is asked for an answer."""

    asked = 0

    def answer(self, entry: Entry) -> Answer | None:
        self.asked += 1
        return super().answer(entry)


def test_only_lines_that_may_hold_an_answer_are_asked_for_one() -> None:
    data = pi(100, 300, 500)
    form = Counting()
    survey(pieces(data), form)
    assert form.asked == 3
