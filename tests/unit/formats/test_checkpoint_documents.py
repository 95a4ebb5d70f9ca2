"""The summaries that are written into exports of OpenCode, into gencode's sessions and into chats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.model import Role
from sessioncompress.formats.base import CannotCheckpoint
from sessioncompress.formats.chat import SUMMARY as OPENING
from tests.support.chats import ChatSession, GenCodeSession
from tests.support.checkpoints import SUMMARY, checkpointed
from tests.support.documents import OpenCodeExport
from tests.support.runs import survey_of

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


def test_opencode_gets_a_request_and_its_answer() -> None:
    data = export().bytes()
    made = checkpointed(data)
    *was, asks, answers = messages(made.after)
    assert was == messages(data)
    last = was[-1]["info"]
    assert asks["info"]["role"] == "user"
    assert asks["parts"][0]["tail_start_id"] == was[made.cut.kept[0]]["info"]["id"]
    assert answers["info"]["parentID"] == asks["info"]["id"]
    assert (answers["info"]["summary"], answers["info"]["finish"]) == (True, "stop")
    assert answers["parts"][0]["text"] == SUMMARY.text
    ids = [last["id"], asks["info"]["id"], answers["info"]["id"]]
    times = [each[: len("msg_") + 12] for each in ids]
    assert times == sorted(set(times))
    assert all(len(each) == len("msg_") + 26 for each in ids)
    times = [each["time"]["created"] for each in (last, asks["info"], answers["info"])]
    assert times == sorted(set(times))
    for message in (asks, answers):
        assert {part["messageID"] for part in message["parts"]} == {message["info"]["id"]}


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


def test_gencode_counts_anew() -> None:
    data = asked().bytes()
    made = checkpointed(data)
    first = made.cut.kept[0]
    gone = first - 1
    document, was = json.loads(made.after), json.loads(data)
    assert document["messages"] == [
        was["messages"][0],
        {"role": "system", "content": f"[Earlier conversation - {gone} messages summarized]\n\n{SUMMARY.text}"},
        *was["messages"][first:],
    ]
    metadata = document["metadata"]
    assert metadata["messageCount"] == len(document["messages"])
    assert [note["afterMessageIndex"] for note in metadata["completions"]] == [0, -1, -1, 12 - gone + 1]
    assert document["fullMessageCount"] == len(was["messages"])
    (record,) = document["summaries"]
    assert record.pop("id").startswith("sum-1772442000000-")
    assert record == {
        "type": "compaction",
        "coveringMessages": [1, first - 1],
        "content": SUMMARY.text,
        "keyDecisions": [],
        "filesModified": list(SUMMARY.changed),
        "toolsUsed": [{"tool": "Bash", "count": 2 + (first > 10), "notableUses": ["cat a.log"]}],
        "generatedAt": "2026-03-02T09:00:00.000Z",
        "estimatedTokens": 13,
    }


@pytest.mark.parametrize(
    ("outer", "kept"),
    [
        (
            {"summaries": [{"id": "a", "content": 1.50}]},
            lambda found: found["summaries"][0] == {"id": "a", "content": 1.5},
        ),
        ({"summaries": "none"}, lambda found: found["summaries"] == "none"),
        ({"fullMessageCount": 70}, lambda found: found["fullMessageCount"] == 70),
    ],
)
def test_gencode_keeps_what_stands_there(outer: dict[str, Any], kept: Any) -> None:
    made = asked()
    made.outer |= outer
    assert kept(json.loads(checkpointed(made.bytes()).after))


@pytest.mark.parametrize("completions", [None, "x", [None, 7, {"afterMessageIndex": "x"}, {}]])
def test_gencode_takes_odd_notes(completions: Any) -> None:
    made = asked()
    made.outer["metadata"]["completions"] = completions
    assert json.loads(checkpointed(made.bytes()).after)["metadata"]["completions"] == completions


def test_of_several_summaries_of_gencode_the_last_one_goes() -> None:
    made = GenCodeSession()
    for text in ("First.", "Second."):
        made.message("system", f"[Earlier conversation - 9 messages summarized]\n\n{text}")
    made.messages += asked().messages[1:]
    said = [message["content"] for message in messages(checkpointed(made.bytes()).after)[:3]]
    assert "First." in said[0]
    assert SUMMARY.text in said[1]


# Chats


def chat() -> ChatSession:
    made = ChatSession().message("system", "You are an agent.").message("developer", "Be brief.")
    for _ in range(3):
        made.message("user", "Look.").step("bash", {"command": "cat a.log"}, LONG).message("assistant", "Silent.")
    return made


def test_a_chat_gets_a_message_of_the_user() -> None:
    data = chat().document()
    made = checkpointed(data)
    was = messages(data)
    summary = {"role": "user", "content": OPENING + SUMMARY.text}
    assert messages(made.after) == [*was[:2], summary, *was[made.cut.kept[0] :]]
    assert made.checkpoint.stays == frozenset({0, 1})


@pytest.mark.parametrize("pasted", [OPENING + "So.", "[Earlier conversation - 2 messages summarized]\n\nSo."])
def test_what_is_said_later_is_no_summary(pasted: str) -> None:
    made = chat().message("user", pasted).message("system", pasted)
    assert Role.CHECKPOINT not in survey_of(made.document()).lines.roles
    other = asked().message("user", pasted).message("system", pasted)
    assert Role.CHECKPOINT not in survey_of(other.bytes()).lines.roles
