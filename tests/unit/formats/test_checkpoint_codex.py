"""Codex's checkpoints: what was said in a rollout, what is written, and how it is read again."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sessioncompress.checkpoints.cut import for_the_model
from sessioncompress.core.checkpoint import Said, Say
from sessioncompress.core.model import Purpose
from sessioncompress.formats.base import CannotCheckpoint
from sessioncompress.formats.codex import PREFIX, RolloutReader
from sessioncompress.formats.table import format_named
from tests.support import texts
from tests.support.checkpoints import SUMMARY, checkpointed, written_of
from tests.support.rollout import Paginated, Rollout
from tests.support.runs import entries, rewritten, split, survey_of


def words(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


def called(kind: str, *, name: str = "", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": "c1", **({"name": name} if name else {}), **fields}


def calls(tool: str, given: Any, purpose: Purpose = Purpose.OTHER) -> list[Said]:
    return [Said(Say.CALL, tool=tool, call="c1", purpose=purpose, given=given)]


def output(value: Any, kind: str = "function_call_output") -> dict[str, Any]:
    return called(kind, output=value)


def result(text: str, *, failed: bool | None = None) -> list[Said]:
    return [Said(Say.RESULT, text, call="c1", failed=failed)]


RAN = "Chunk ID: bfde4b\nWall time: 0.6971 seconds\nProcess exited with code {}\nOriginal token count: 2\nOutput:\nok\n"
NO_STATUS = "Wall time: 1 seconds\nOutput:\nExit code: 1\n"
WRAPPED = json.dumps({"output": "no", "metadata": {"exit_code": 2, "duration_seconds": 1}})
PARTS = [{"type": "input_text", "text": "a"}, {"type": "input_image"}, {"type": "input_text", "text": "b"}]
SHELL = {"type": "exec", "command": ["ls", "-l"]}
NO_FIT = "apply_patch verification failed: no"

ITEMS: list[tuple[str, dict[str, Any], list[Said]]] = [
    ("rules", words("developer", "Do not."), []),
    ("a guide", words("user", "# AGENTS.md instructions for /a\n", "<environment_context>\n"), []),
    ("an end", words("user", "<turn_aborted>\nThe user interrupted"), []),
    ("a skill", words("user", "<skill>\n<name>a</name>"), []),
    ("reasoning", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}, []),
    ("a prompt", words("user", "Fix it."), [Said(Say.PROMPT, "Fix it.")]),
    ("a prompt in tags", words("user", "<task>Fix it.</task>"), [Said(Say.PROMPT, "<task>Fix it.</task>")]),
    ("a prompt in parts", words("user", "a", "<environment_context>\n", "b"), [Said(Say.PROMPT, "a\nb")]),
    ("an answer", words("assistant", "Done."), [Said(Say.ANSWER, "Done.")]),
    (
        "a call of a function",
        called("function_call", name="exec_command", arguments='{"cmd":"ls"}'),
        calls("exec_command", {"cmd": "ls"}, Purpose.COMMAND),
    ),
    (
        "arguments that are no object",
        called("function_call", name="wait_agent", arguments="[1"),
        calls("wait_agent", {"input": "[1"}, Purpose.AGENT),
    ),
    (
        "a call with plain input",
        called("custom_tool_call", name="apply_patch", input='{"a":1}'),
        calls("apply_patch", {"input": '{"a":1}'}),
    ),
    (
        "a shell",
        called("local_shell_call", action=SHELL),
        calls("local_shell", {"command": ["ls", "-l"]}, Purpose.COMMAND),
    ),
    ("a result", output(RAN.format(0)), result(RAN.format(0), failed=False)),
    ("a failed one", output(RAN.format(-1)), result(RAN.format(-1), failed=True)),
    ("one without a status", output(NO_STATUS), result(NO_STATUS)),
    ("a wrapped one", output(WRAPPED), result("no", failed=True)),
    ("a patch that did not fit", output(NO_FIT, "custom_tool_call_output"), result(NO_FIT, failed=True)),
    ("a result in parts", output(PARTS), result("a\nb")),
]

OURS, WAS = words("user", PREFIX + "So."), Said(Say.SUMMARY, "So.")
PROMPT, CARRIED = words("user", "Fix it."), Said(Say.CARRIED, "Fix it.")
SUMMARIES: list[tuple[str, dict[str, Any], list[Said]]] = [
    ("ours", {"message": PREFIX + "So.", "replacement_history": [OURS]}, [WAS]),
    ("the agent's, with prompts", {"message": PREFIX + "So.", "replacement_history": [PROMPT, OURS]}, [WAS, CARRIED]),
    ("a sealed one", {"message": "", "replacement_history": [PROMPT, {"type": "compaction"}]}, [CARRIED]),
]


def said(kind: str, payload: Any) -> list[Said]:
    return list(RolloutReader().said({"type": kind, "payload": payload}))


@pytest.mark.parametrize(("name", "item", "found"), ITEMS, ids=[name for name, *_ in ITEMS])
def test_what_was_said_is_read(name: str, item: dict[str, Any], found: list[Said]) -> None:
    assert said("response_item", item) == found


@pytest.mark.parametrize(("name", "payload", "found"), SUMMARIES, ids=[name for name, *_ in SUMMARIES])
def test_a_summary_comes_without_its_frame(name: str, payload: dict[str, Any], found: list[Said]) -> None:
    assert said("compacted", payload) == found


def test_events_say_nothing_again() -> None:
    assert said("event_msg", {"type": "user_message", "message": "Fix it."}) == []


LONG = texts.log_lines(random.Random(1), 60)


def rollout(*, ordinals: bool = False) -> Rollout:
    """Return a rollout of two turns, the first of them long."""
    made = Rollout(ordinals=ordinals).user("Go.")
    made.run("make", LONG)
    made.end("Done.")
    made.user("And?")
    made.run("ls", "a\n")
    return made.end("That too.")


def paginated(turns: int = 2) -> Paginated:
    """Return a rollout with numbered lines, of turns of which every other one is long."""
    made = Paginated()
    for turn in range(turns):
        made.user(f"Part {turn}.")
        made.run("make", f"a{turn}\n" if turn % 2 else LONG)
        made.end(f"Done: {turn}.")
    return made


def line_with(data: bytes, text: str) -> int:
    return next(number for number, raw in enumerate(split(data)) if text.encode() in raw)


def begin_of_turn(data: bytes) -> int:
    return max(number for number, raw in enumerate(split(data)) if b'"task_started"' in raw)


def test_the_lines() -> None:
    before = rollout().bytes()
    first, end = begin_of_turn(before), len(split(before))
    done = checkpointed(before, first=first)
    assert [addition.before for addition in done.checkpoint.added] == [first, end, end]
    compacted, usage, event = (json.loads(addition.line) for addition in done.checkpoint.added)
    own = entries(before)
    text = PREFIX + SUMMARY.text
    assert compacted == {
        "timestamp": own[first]["timestamp"],
        "type": "compacted",
        "payload": {"message": text, "replacement_history": [words("user", text)]},
    }
    counted = next(entry for entry in reversed(own) if entry["payload"].get("type") == "token_count")["payload"]
    counted["info"]["last_token_usage"] = {"input_tokens": 0, "output_tokens": 0, "total_tokens": SUMMARY.tokens_after}
    assert usage == {"timestamp": own[-1]["timestamp"], "type": "event_msg", "payload": counted}
    assert event == {"timestamp": own[-1]["timestamp"], "type": "event_msg", "payload": {"type": "context_compacted"}}
    assert said("compacted", compacted["payload"]) == [Said(Say.SUMMARY, SUMMARY.text)]


def test_without_a_count_none_is_written() -> None:
    before = b"".join(line for line in rollout().lines() if b'"token_count"' not in line)
    done = checkpointed(before, first=begin_of_turn(before))
    kinds = [json.loads(addition.line)["payload"].get("type") for addition in done.checkpoint.added]
    assert kinds == [None, "context_compacted"]


# Numbered lines, between which none can be put


def kept_of(data: bytes, first: int) -> list[dict[str, Any]]:
    """Return the items of the lines from the first one on."""
    return [entry["payload"] for entry in entries(data)[first:] if entry["type"] == "response_item"]


def test_behind_numbered_lines_stands_what_is_kept() -> None:
    before = paginated().bytes()
    first, end = begin_of_turn(before), len(split(before))
    done = checkpointed(before, first=first)
    assert [addition.before for addition in done.checkpoint.added] == [end] * 3
    compacted, usage, event = (json.loads(addition.line) for addition in done.checkpoint.added)
    own, text = entries(before), PREFIX + SUMMARY.text
    assert compacted == {
        "timestamp": own[-1]["timestamp"],
        "ordinal": end,
        "type": "compacted",
        "payload": {"message": text, "replacement_history": [words("user", text), *kept_of(before, first)]},
    }
    assert (usage["ordinal"], usage["payload"]["type"]) == (end + 1, "token_count")
    assert usage["payload"]["info"]["last_token_usage"]["total_tokens"] == SUMMARY.tokens_after
    last = own[-1]["payload"]
    shown = next(entry["payload"] for entry in own if entry["payload"].get("type") == "item_completed")
    assert (event["ordinal"], event["payload"]["type"]) == (end + 2, "item_completed")
    assert event["payload"].keys() == shown.keys()
    assert (event["payload"]["thread_id"], event["payload"]["turn_id"]) == (shown["thread_id"], last["turn_id"])
    assert event["payload"]["item"].keys() == {"type", "id"}
    assert event["payload"]["item"]["type"] == "ContextCompaction"


def test_what_codex_passes_over_is_not_repeated() -> None:
    """In a line of its own it sends no item of a type that it does not know, and in a history it does."""
    before = paginated().bytes()
    whole, gone = (checkpointed(data, first=begin_of_turn(data)) for data in (before, without_reasoning(before)))
    old, new = (json.loads(each.checkpoint.added[0].line)["payload"]["replacement_history"] for each in (whole, gone))
    assert new == [item for item in old if item["type"] != "reasoning"]
    assert len(new) < len(old)


def without_reasoning(data: bytes) -> bytes:
    """Return a rollout as it is once its reasoning went."""
    return data.replace(b'"type":"reasoning"', b'"type":"other"')


def test_our_reader_sees_all_in_one_line() -> None:
    """What the model reads of it is as much as it read of the lines that are kept, and the summary."""
    before = paginated().bytes()
    first, end = begin_of_turn(before), len(split(before))
    done = checkpointed(before, first=first)
    found = survey_of(done.after)
    assert for_the_model(found) == [end, end + 1, end + 2]
    assert found.shape.dead == frozenset(range(end))
    kept = sum(found.lines[number].reads for number in range(first, end))
    assert kept > 100
    assert found.lines[end].reads == kept + len(PREFIX + SUMMARY.text)


def test_what_is_kept_is_said_behind_the_summary() -> None:
    before = paginated().bytes()
    first = begin_of_turn(before)
    done = checkpointed(before, first=first)
    reader = RolloutReader()
    kept = [each for entry in entries(before)[first:] for each in reader.said(entry)]
    assert [each.say for each in kept] == [Say.PROMPT, Say.CALL, Say.RESULT, Say.ANSWER]
    (compacted, *_) = (json.loads(addition.line) for addition in done.checkpoint.added)
    assert list(reader.said(compacted)) == [Said(Say.SUMMARY, SUMMARY.text), *kept]


def test_the_results_in_it_go_once_a_later_one_takes_its_place() -> None:
    made = paginated().user("See it.")
    made.run("cat log", LONG)
    before = made.end("Seen.").bytes()
    end = len(split(before))
    once = checkpointed(before, first=begin_of_turn(before)).after
    assert rewritten(once).keys().isdisjoint({end})
    more = paginated(turns=6).lines()[end:]
    grown = once + b"".join(more)
    assert rewritten(grown).keys().isdisjoint({end})
    again = checkpointed(grown, first=begin_of_turn(grown)).after
    old, new = (json.loads(raw)["payload"] for raw in (split(grown)[end], rewritten(again)[end].raw))
    texts = [item.pop("output", "") for item in new["replacement_history"]]
    assert [text for text in texts if "sessioncompress" in text]
    assert all(len(text) < 2_000 for text in texts)
    for item in old["replacement_history"]:
        item.pop("output", None)
    assert new == old


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ((b'"source":"cli"', b'"source":"cli","history_base":{"thread_id":"x"}'), "a branch of another rollout"),
        ((b'"ordinal":', b'"ordinal":-'), "cannot be repeated"),
        ((b'"type":"function_call"', b'"type":"\\ud800","type":"function_call"'), "cannot be repeated"),
    ],
    ids=["a branch", "no numbers", "what we cannot read"],
)
def test_numbered_lines_that_can_have_none(change: tuple[bytes, bytes], what: str) -> None:
    before = paginated().bytes().replace(*change)
    with pytest.raises(CannotCheckpoint, match=what):
        checkpointed(before, first=begin_of_turn(before))


def test_no_numbered_line_leaves() -> None:
    done = checkpointed(paginated().bytes())
    with pytest.raises(CannotCheckpoint, match="numbered its lines"):
        format_named("codex").dropping(written_of(done.before), done.cut, done.checkpoint)


@pytest.mark.parametrize("odd", [None, 3, [], {}, {"info": None}, {"info": {"last_token_usage": []}}, "\ud800"])
def test_odd_counts_do_no_harm(odd: Any) -> None:
    lines = rollout().lines()
    first = begin_of_turn(b"".join(lines))
    fields = odd if isinstance(odd, dict) else {"info": odd}
    strange = {"timestamp": odd, "type": "event_msg", "payload": {"type": "token_count", **fields}}
    lines.append(json.dumps(strange).encode() + b"\n")
    added = checkpointed(b"".join(lines), first=first).checkpoint.added
    # The last count that tells something is repeated.
    assert json.loads(added[1].line)["payload"]["info"]["last_token_usage"]["total_tokens"] == SUMMARY.tokens_after
