"""Codex's checkpoints: what was said in a rollout, what is written, and how it is read again."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.core.model import Purpose
from sessioncompress.formats.base import CannotCheckpoint
from sessioncompress.formats.codex import PREFIX, RolloutReader
from sessioncompress.formats.table import format_named
from tests.support import texts
from tests.support.checkpoints import checkpointed, written_of
from tests.support.rollout import Paginated, Rollout
from tests.support.runs import rewritten, split


def words(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


def called(kind: str, *, name: str = "", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": "c1", **({"name": name} if name else {}), **fields}


def calls(tool: str, given: Any, purpose: Purpose = Purpose.OTHER) -> list[Utterance]:
    return [Utterance(Say.CALL, tool=tool, call="c1", purpose=purpose, given=given)]


def output(value: Any, kind: str = "function_call_output") -> dict[str, Any]:
    return called(kind, output=value)


def result(text: str, *, failed: bool | None = None) -> list[Utterance]:
    return [Utterance(Say.RESULT, text, call="c1", failed=failed)]


RAN = "Chunk ID: bfde4b\nWall time: 0.6971 seconds\nProcess exited with code {}\nOriginal token count: 2\nOutput:\nok\n"
NO_STATUS = "Wall time: 1 seconds\nOutput:\nExit code: 1\n"
WRAPPED = json.dumps({"output": "no", "metadata": {"exit_code": 2, "duration_seconds": 1}})
PARTS = [{"type": "input_text", "text": "a"}, {"type": "input_image"}, {"type": "input_text", "text": "b"}]
SHELL = {"type": "exec", "command": ["ls", "-l"]}
NO_FIT = "apply_patch verification failed: no"

ITEMS: list[tuple[str, dict[str, Any], list[Utterance]]] = [
    ("rules", words("developer", "Do not."), []),
    ("a guide", words("user", "# AGENTS.md instructions for /a\n", "<environment_context>\n"), []),
    ("an end", words("user", "<turn_aborted>\nThe user interrupted"), []),
    ("a skill", words("user", "<skill>\n<name>a</name>"), []),
    ("reasoning", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}, []),
    ("a prompt", words("user", "Fix it."), [Utterance(Say.PROMPT, "Fix it.")]),
    ("a prompt in tags", words("user", "<task>Fix it.</task>"), [Utterance(Say.PROMPT, "<task>Fix it.</task>")]),
    ("a prompt in parts", words("user", "a", "<environment_context>\n", "b"), [Utterance(Say.PROMPT, "a\nb")]),
    ("an answer", words("assistant", "Done."), [Utterance(Say.ANSWER, "Done.")]),
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

OURS, WAS = words("user", PREFIX + "So."), Utterance(Say.SUMMARY, "So.")
PROMPT, CARRIED = words("user", "Fix it."), Utterance(Say.CARRIED, "Fix it.")
SUMMARIES: list[tuple[str, dict[str, Any], list[Utterance]]] = [
    ("ours", {"message": PREFIX + "So.", "replacement_history": [OURS]}, [WAS]),
    ("the agent's, with prompts", {"message": PREFIX + "So.", "replacement_history": [PROMPT, OURS]}, [WAS, CARRIED]),
    ("a sealed one", {"message": "", "replacement_history": [PROMPT, {"type": "compaction"}]}, [CARRIED]),
]


def said(kind: str, payload: Any) -> list[Utterance]:
    return list(RolloutReader().said({"type": kind, "payload": payload}))


@pytest.mark.parametrize(("name", "item", "found"), ITEMS, ids=[name for name, *_ in ITEMS])
def test_what_was_said_is_read(name: str, item: dict[str, Any], found: list[Utterance]) -> None:
    assert said("response_item", item) == found


@pytest.mark.parametrize(("name", "payload", "found"), SUMMARIES, ids=[name for name, *_ in SUMMARIES])
def test_a_summary_comes_without_its_frame(name: str, payload: dict[str, Any], found: list[Utterance]) -> None:
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


def begin_of_turn(data: bytes) -> int:
    return max(number for number, raw in enumerate(split(data)) if b'"task_started"' in raw)


# Numbered lines, between which none can be put


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
