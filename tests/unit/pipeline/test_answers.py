"""The answers of a session: in the order of its live path, each request once, with what its lines add."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core.jsonl import document_of, pieces_of
from sessioncompress.core.model import Answer, Usage
from sessioncompress.core.text import estimate
from sessioncompress.formats.base import Entry
from sessioncompress.formats.pi import Pi
from sessioncompress.formats.table import format_named
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.reading import survey
from sessioncompress.pipeline.usage import Answers, answers, characters_per_token
from sessioncompress.store.journal import load
from sessioncompress.store.layout import store_in
from sessioncompress.store.lock import open_session
from tests.support.chats import GenCodeSession
from tests.support.claude import ClaudeSession, thought, use
from tests.support.documents import GeminiDocument, OpenCodeExport
from tests.support.records import GeminiRecords
from tests.support.rollout import Rollout
from tests.support.session import PiSession
from tests.support.variants import OmpSession

SAID = "The gauges are silent. " * 20


def read(data: bytes, name: str) -> Answers:
    form = format_named(name)
    return answers(survey(pieces(data), form, document=document_of(lambda: io.BytesIO(data), len(data))))


def pieces(data: bytes) -> Any:
    return pieces_of(lambda: io.BytesIO(data), len(data))


def used(sent: int) -> dict[str, Any]:
    """Return pi's usage of a request that sent so much."""
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


def test_a_session_without_answers_has_none() -> None:
    for data in (b"", PiSession().bytes(), pi()):
        assert read(data, "pi") == Answers((), None)


def test_the_usage_of_other_requests_is_none_of_the_session() -> None:
    """A title, or a summary: another model may have written it."""
    made = OmpSession()
    made.user("Go.")
    made.assistant("One.", usage=used(100))
    made.entry("model_usage", purpose="title", model="tiny", usage=used(9), stopReason="stop")
    assert len(read(made.bytes(), "oh-my-pi").answers) == 1


def test_nothing_is_counted_behind_a_compaction() -> None:
    made = PiSession()
    made.user("Go.")
    made.assistant("One.", usage=used(900))
    made.compaction("So far.", made.user("Kept."))
    assert read(made.bytes(), "pi").behind is None


def test_nothing_is_counted_behind_a_summary_that_is_an_answer_itself() -> None:
    """As in OpenCode: what was sent for it is not what the next request holds."""
    made = OpenCodeExport()
    made.user("Go.")
    made.assistant(tokens={"input": 900, "output": 10}).part("text", text="Yes.")
    assert read(made.bytes(), "opencode").behind == 0
    made.compaction("So far.")
    made.messages[-1]["info"] |= {"tokens": {"input": 950, "output": 10}}
    found = read(made.bytes(), "opencode")
    assert [bool(each.usage) for each in found.answers] == [True, True]
    assert found.behind is None


def test_answers_stand_in_order_with_their_lines() -> None:
    found = read(pi(100, 300), "pi")
    assert [each.line for each in found.answers] == [2, 4]
    assert [each.usage for each in found.answers] == [Usage(100, 10), Usage(300, 10)]
    assert found.behind == 0


def test_what_stands_behind_the_last_answer_with_a_usage_is_counted() -> None:
    """Also behind one that failed; the answer itself is in its usage."""
    made = PiSession()
    made.user("Go.")
    made.assistant("Yes.", usage=used(100), model="gpt-5")
    made.user(SAID)
    made.assistant("Half an ans", usage=used(0), stop="error", errorMessage="429", model="gpt-5")
    found = read(made.bytes(), "pi")
    assert found.behind == estimate(len(SAID))
    assert [each.error for each in found.answers] == ["", "429"]


def test_estimates_go_by_the_models_own_tokens() -> None:
    made = PiSession()
    made.user("Go.")
    for sent in (100, 400):
        made.assistant("Yes.", usage=used(sent), model="claude-opus-5")
        made.user(SAID)
    found = read(made.bytes(), "pi")
    each = characters_per_token("claude-opus-5")
    assert each < 4
    assert found.behind == estimate(len(SAID), each)


def test_the_parts_of_a_response_are_one_answer() -> None:
    """Claude Code writes each in a line of its own, and results between them; of the last the usage is whole."""
    made = ClaudeSession()
    made.user("Go.")
    for part in (thought("Hm."), use("call_1", "LS", {}), use("call_2", "LS", {})):
        made.respond(part, response="msg_1")
    lines = [json.loads(raw) for raw in made.bytes().splitlines()]
    assistants = [line for line in lines if line["type"] == "assistant"]
    for number, line in enumerate(assistants):
        line["message"]["usage"] = {"input_tokens": 100, "output_tokens": (2, 2, 60)[number]}
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    found = read(data, "claude-code")
    assert [each.usage for each in found.answers] == [Usage(100, 60)]
    assert found.behind == 0


def test_a_subagents_lines_are_no_requests_of_the_session() -> None:
    made = ClaudeSession()
    made.user("Go.")
    own = made.respond("Yes.")[0]
    mine = len(read(made.bytes(), "claude-code").answers)
    made.branch(None)
    made.user("You are a subagent.", isSidechain=True)
    lines = [json.loads(raw) for raw in made.bytes().splitlines()]
    side = dict(next(line for line in lines if line.get("uuid") == own))
    side |= {"uuid": "side", "parentUuid": lines[-1]["uuid"], "isSidechain": True}
    data = b"".join(json.dumps(line).encode() + b"\n" for line in [*lines, side])
    assert mine == len(read(data, "claude-code").answers) == 1


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


def test_codex_counts_behind_the_results_and_may_do_so_again() -> None:
    """What a count is of is the response before it; the next one begins where its first item does."""
    found = read(rollout(count(100), None, None, count(200), None).bytes(), "codex")
    assert [each.usage.prompt for each in found.answers if each.usage] == [100, 200]
    assert all(each.model and each.window == 258_400 for each in found.answers)
    behind = read(rollout(count(100)).bytes(), "codex").behind
    assert behind == estimate(1 + 50)


def test_codex_may_count_nothing() -> None:
    """Behind a compaction there is an estimate, in the total alone; at the start there is none at all."""
    estimated = {**count(0), "output_tokens": 0, "total_tokens": 23_658}
    made = rollout(count(100))
    made.compact()
    made.event("token_count", info={"last_token_usage": estimated}, rate_limits=None)
    made.event("token_count", info=None, rate_limits=None)
    found = read(made.bytes(), "codex")
    assert [each.usage for each in found.answers] == [Usage(100, 10)]
    assert found.behind is None


def test_an_error_of_codex_takes_no_answers_place() -> None:
    made = rollout(count(100))
    made.event("error", message="context window")
    found = read(made.bytes(), "codex")
    assert [(each.error, bool(each.usage)) for each in found.answers] == [("", True), ("context window", False)]
    assert found.behind is not None


def test_of_a_record_that_is_written_again_the_last_counts() -> None:
    made = GeminiRecords()
    made.message("user", [{"text": "Go."}])
    made.message("gemini", [{"text": "Yes."}], model="gemini-3-flash", tokens={"input": 100, "output": 1})
    made.again(tokens={"input": 100, "output": 7})
    assert [each.usage for each in read(made.bytes(), "gemini").answers] == [Usage(100, 7)]


def test_a_document_is_read_too() -> None:
    made = GeminiDocument()
    made.user("Go.").answer("Yes.").user(SAID)
    found = read(made.bytes(), "gemini")
    assert [each.line for each in found.answers] == [1]
    assert found.behind == estimate(len(SAID), characters_per_token("gemini-2.5-pro"))


def test_gencodes_notes_belong_to_their_messages() -> None:
    """One that names a message that is not there belongs to none."""
    made = GenCodeSession()
    made.message("user", "Go.").message("assistant", "One.").message("user", SAID).message("assistant", "Two.")
    made.outer["metadata"]["completions"] = [
        {"afterMessageIndex": 1, "usage": {"inputTokens": 100, "outputTokens": 10}},
        {"afterMessageIndex": 3, "usage": {"inputTokens": 300, "outputTokens": 10}},
        {"afterMessageIndex": 99, "usage": {"inputTokens": 900, "outputTokens": 10}},
    ]
    found = read(made.bytes(), "gencode")
    assert [(each.line, each.usage) for each in found.answers] == [(1, Usage(100, 10)), (3, Usage(300, 10))]


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


def test_a_branch_that_was_left_has_no_answers() -> None:
    made = PiSession()
    made.user("Go.")
    kept = made.assistant("One.", usage=used(100))
    made.assistant("Two.", usage=used(200))
    made.branch(kept)
    made.assistant("Three.", usage=used(300))
    assert [each.usage.prompt for each in read(made.bytes(), "pi").answers if each.usage] == [100, 300]


@pytest.mark.parametrize(
    ("name", "data"), [("pi", pi(100, 300)), ("gemini", GeminiDocument().user("Go.").answer("Yes.").bytes())]
)
def test_the_answers_of_an_open_session(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    with open_session(path, writing=False) as session:
        known = reading.read_session(session, load(store_in(path).journal))
        assert answers(known.survey) == read(data, name)
        assert answers(known.survey).answers
