"""What holds of the checkpoint that each format writes, on the fixtures of its stories."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.model import Role
from sessioncompress.formats.base import CannotCheckpoint, Format
from sessioncompress.formats.chat import SUMMARY as OPENING
from sessioncompress.formats.table import NAMES, format_named
from tests.support.chats import ChatSession, GenCodeSession
from tests.support.checkpoints import checkpointed
from tests.support.documents import OpenCodeExport
from tests.support.runs import fixture, survey_of, units
from tests.support.stories import of_format

NONE = {"chat.jsonl", "claude-agent.jsonl", "pi-v1.jsonl"}
"""No summary can be written into these."""

REPEATED = {"codex-paginated.jsonl", "gemini.jsonl"}
"""Here one line says again what is kept."""

SHORT = {"claude-compacted.jsonl", "codex-paginated.jsonl", "omp-gemini.jsonl"}
"""Nothing is left in these that a second summary could stand for."""

WRITTEN = [name for name in NAMES if type(format_named(name)).checkpoint is not Format.checkpoint]
"""The formats that write summaries."""

FIXTURES = [name for name in of_format(*WRITTEN) if name not in NONE]


def live(data: bytes) -> list[int]:
    shape = survey_of(data).shape
    return [number for number in shape.live if number not in shape.dead]


@pytest.mark.parametrize("name", [name for name in FIXTURES if name not in REPEATED])
def test_what_is_old_is_dead_or_gone_and_what_is_kept_is_live(name: str) -> None:
    """To the byte, and in its order; of all that was there before, every line that is not removed is there."""
    data = fixture(name)
    made = checkpointed(data)
    before, after, lines = units(data), units(made.after), survey_of(data).lines
    now = [after[number] for number in live(made.after)]
    before = [made.checkpoint.changed.get(number, raw) for number, raw in enumerate(before)]
    kept = [before[number] for number in made.cut.kept if number not in made.checkpoint.removed]
    assert [raw for raw in now if raw in kept] == kept
    assert {before[number] for number in made.cut.old if lines[number].role is not Role.OTHER}.isdisjoint(now)
    stay = iter(after)
    assert all(raw in stay for number, raw in enumerate(before) if number not in made.checkpoint.removed)


@pytest.mark.parametrize("name", [name for name in FIXTURES if name not in SHORT])
def test_one_is_live_and_another_takes_its_place(name: str) -> None:
    """The same is written again for the same session."""
    data = fixture(name)
    made = checkpointed(data)
    assert checkpointed(data).after == made.after
    for after in (made.after, checkpointed(made.after).after):
        lines = survey_of(after).lines
        assert [lines[number].role for number in live(after)].count(Role.CHECKPOINT) == 1


# Documents

LONG = "a line of output\n" * 60


# OpenCode


def export(turns: int = 3, made: OpenCodeExport | None = None) -> OpenCodeExport:
    """Return a session with so many turns, or add them to one."""
    made = made or OpenCodeExport()
    for _ in range(turns):
        made.user("Look.").assistant().tool("bash", {"command": "cat a.log"}, LONG).finish("tool-calls")
        made.assistant().part("text", text="Silent.").finish("stop")
    return made


def messages(data: bytes) -> list[Any]:
    document = json.loads(data)
    found = document if isinstance(document, list) else document["messages"]
    assert isinstance(found, list)
    return found


def test_opencode_reads_no_compaction_that_is_kept() -> None:
    """One behind the first message that is kept leaves, with what asked for it; any other stays."""
    inside = checkpointed(checkpointed(export(6).bytes(), share=0.6).after, share=0.3)
    count = len(messages(inside.before))
    assert inside.checkpoint.removed == frozenset({count - 2, count - 1})
    assert kinds(inside.after).count("compaction") == 1
    before = checkpointed(export(3, export(3).compaction("Before.")).bytes())
    assert before.checkpoint.removed == frozenset()
    assert kinds(before.after).count("compaction") == 2


def kinds(data: bytes) -> list[str]:
    return [part["type"] for message in messages(data) for part in message["parts"]]


def test_opencode_where_an_answer_hangs_on_a_compaction() -> None:
    """It could not be imported without that."""
    found = json.loads(checkpointed(export(6).bytes(), share=0.6).after)
    *_, answer, asks, _ = found["messages"]
    info = {**answer["info"], "id": "msg_0000000000ff", "parentID": asks["info"]["id"]}
    found["messages"].append({**answer, "info": info})
    with pytest.raises(CannotCheckpoint, match="is linked to the compaction before"):
        checkpointed(json.dumps(found).encode())


@pytest.mark.parametrize("name", ["msg_1", "msg_ffffffffffff" + "0" * 14, "other"])
def test_opencode_where_no_id_can_follow(name: str) -> None:
    made = export()
    made.messages[-1]["info"]["id"] = name
    with pytest.raises(CannotCheckpoint, match="do not increase with time"):
        checkpointed(made.bytes())


# gencode


def asked() -> GenCodeSession:
    made = GenCodeSession().message("system", "You are an agent.")
    for _ in range(3):
        made.message("user", "Look.").step("Bash", {"command": "cat a.log"}, LONG).message("assistant", "Silent.")
    made.outer["metadata"]["completions"] = [{"afterMessageIndex": number} for number in (0, 4, 8, 12)]
    return made


# Chats


def chat() -> ChatSession:
    made = ChatSession().message("system", "You are an agent.").message("developer", "Be brief.")
    for _ in range(3):
        made.message("user", "Look.").step("bash", {"command": "cat a.log"}, LONG).message("assistant", "Silent.")
    return made


@pytest.mark.parametrize("pasted", [OPENING + "So.", "[Earlier conversation - 2 messages summarized]\n\nSo."])
def test_what_is_said_later_is_no_summary(pasted: str) -> None:
    made = chat().message("user", pasted).message("system", pasted)
    assert Role.CHECKPOINT not in survey_of(made.document()).lines.roles
    other = asked().message("user", pasted).message("system", pasted)
    assert Role.CHECKPOINT not in survey_of(other.bytes()).lines.roles
