"""Codex's rollouts: what stays, what becomes of calls, outputs, events and checkpoints, and what no change may touch."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.core.model import JsonPath, Line, Protection, Role
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats.codex import Codex, wrapped
from sessioncompress.formats.table import head_of
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.reading import read_line
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Policy
from tests.support import texts
from tests.support.blocks import stringify
from tests.support.rollout import STATES, Rollout, address, picture, skeleton
from tests.support.runs import EAGER, GREEDY, compress, entries, fixture, rewritten, split, survey_of, view_of, write

LONG = texts.log_lines(random.Random(1), 60)
OTHER = texts.log_lines(random.Random(2), 60)
Change = Callable[[Rollout], object]


def old(change: Change, made: Rollout | None = None) -> bytes:
    """Return a rollout with this in its first turn, and a short last one."""
    made = made or Rollout()
    made.user("Go.")
    change(made)
    made.end("Done.")
    made.user("Thanks.")
    return made.end("You're welcome.").bytes()


def after(data: bytes, policy: Policy = EAGER) -> bytes:
    done = rewritten(data, policy)
    return b"".join(done[number].raw if number in done else raw for number, raw in enumerate(split(data)))


def payloads(data: bytes, *kinds: str) -> list[Any]:
    return [entry["payload"] for entry in entries(data) if entry["payload"].get("type") in kinds]


def only(data: bytes, kind: str, policy: Policy = EAGER) -> Any:
    (found,) = payloads(after(data, policy), kind)
    return found


LEFT_ALONE: list[tuple[str, Change]] = [
    ("what was asked", lambda made: made.user(LONG)),
    ("what the model says, twice", lambda made: made.say(LONG)),
    ("reasoning", lambda made: made.think()),
    ("a response with a call", lambda made: made.run("ls", "a\nb\n")),
    ("a header in the middle, as forks have it", lambda made: made.line("session_meta", id="x", cwd="/", more=LONG)),
    ("the context of a turn", lambda made: made.line("turn_context", cwd="/tmp", user_instructions=LONG)),
    ("the state of the world", lambda made: made.line("world_state", state={"skills": LONG}, full=True)),
    ("a type of tomorrow", lambda made: made.line("tomorrow", output=LONG)),
    ("an item of tomorrow", lambda made: made.item("tomorrow", output=LONG, arguments=LONG)),
    ("an event of tomorrow", lambda made: made.event("tomorrow", stdout=LONG)),
    ("what a turn came to, short", lambda made: made.event("task_complete", last_agent_message="Done.")),
    ("the newest settings", lambda made: made.event("thread_settings_applied", thread_settings={"x": LONG})),
    ("the newest record of usage", lambda made: made.line("token_usage_record", usage={"x": LONG})),
    ("the only header", lambda made: made.line("session_meta", id="x", cwd="/", base_instructions={"text": LONG})),
    ("a plan that an item shows", lambda made: made.event("item_completed", item={"type": "Plan", "text": LONG})),
    ("what an item says", lambda made: made.event("item_completed", item={"type": "AgentMessage", "content": [LONG]})),
    ("what the user sent", lambda made: made.event("item_completed", item={"type": "UserMessage", "content": [LONG]})),
    ("a list of skills", lambda made: made.message("developer", [part(f"<skills_instructions>{LONG}")])),
    ("the tools that a search loaded", lambda made: made.item("tool_search_output", call_id="c", tools=[{"d": LONG}])),
    ("what developers and users said", lambda made: made.item("message", role="developer", content=[part(LONG)])),
    ("what another agent said", lambda made: made.item("agent_message", author="/root", content=[part(LONG)])),
    ("a short output", lambda made: made.run("ls", "a\n" * 100)),
    ("an output that is an object", lambda made: made.function("Read", {"path": "a"}, {"text": LONG})),
    ("an output that is null", lambda made: made.function("Read", {"path": "a"}, None)),
    ("parts of tomorrow in an output", lambda made: made.function("f", {}, [{"type": "new", "text": LONG}])),
    ("arguments that are an object", lambda made: made.item("function_call", name="f", arguments={"x": LONG})),
    ("input that is a list", lambda made: made.item("custom_tool_call", name="f", input=[LONG])),
    ("a long path in arguments", lambda made: made.function("view_image", {"path": "x" * 4000})),
    ("arguments with a key twice", lambda made: made.function("f", f'{{"a":"{"x" * 900}","a":"{"x" * 900}"}}')),
    (
        "arguments that are nested deep",
        lambda made: made.function("f", '{"a":' * 400 + '"' + "x" * 900 + '"' + "}" * 400),
    ),
    ("an image that is an address", lambda made: made.function("f", {}, [picture("https://example.org/" + "x" * 900)])),
    ("a skill that was read", lambda made: made.run("cat .codex/skills/x/SKILL.md", LONG)),
    ("a part of a skill", lambda made: made.run("ls && sed -n '1,240p' '/a b/SKILL.md'", LONG)),
    ("a skill in a script", lambda made: made.custom("exec", 'tools.exec_command({"cmd":"cat x/SKILL.md"})', LONG)),
    ("a checkpoint that is the context", lambda made: made.message("user", [part(LONG)]).compact()),
]


def part(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


@pytest.mark.parametrize("change", [case[1] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
@pytest.mark.parametrize("policy", [EAGER, GREEDY], ids=["eager", "greedy"])
def test_left_alone(change: Change, policy: Policy) -> None:
    """The rollout comes out as it went in, byte for byte."""
    data = old(change)
    few = replace(policy, tool_result_max_bytes=1000, strip_thinking=False)
    assert after(data, few) == data


def test_the_last_turn_stays_from_its_prompt_on() -> None:
    """The prompt's item stands before the event that counts the turn: its image stays as well."""
    made = Rollout().user("Before.").end("Yes.")
    made.user("Look.", [address(40)])
    made.run("ls", LONG)
    made.end("Done.")
    assert after(made.bytes(), replace(EAGER, strip_thinking=False)) == made.bytes()


# Calls


def test_arguments_stay_a_string_that_holds_json() -> None:
    """The texts inside become shorter; keys, their order, numbers and spaces stay as they were."""
    written = '{ "n":1.50, "cmd" : ' + json.dumps(f"cat > a <<'EOF'\n{LONG}\nEOF") + ', "workdir":"/tmp","big":1E400}'
    call = only(old(lambda made: made.function("exec_command", written.replace("1E400", "1E40"))), "function_call")
    assert isinstance(call["arguments"], str)
    assert call["arguments"].startswith('{ "n":1.50, "cmd" : "cat > a')
    assert call["arguments"].endswith(', "workdir":"/tmp","big":1E40}')
    inside = json.loads(call["arguments"])
    assert list(inside) == ["n", "cmd", "workdir", "big"]
    assert inside["cmd"].startswith("cat > a <<'EOF'\n")
    assert inside["cmd"].endswith("\nEOF")
    assert marker.ARGUMENT_END in inside["cmd"]


# Outputs


ENDED: list[tuple[str, str, list[str]]] = [
    ("above the output", f"Wall time: 1 seconds\nProcess exited with code 2\nOutput:\n{LONG}", ["exited with code 2"]),
    ("of older versions", f"Exit code: 0\nWall time: 1 seconds\nOutput:\n{LONG}", ["Exit code: 0"]),
    ("still running", f"Process running with session ID 41\nOutput:\n{LONG}", ["session ID 41"]),
    ("in JSON", stringify({"exit_code": 101, "output": LONG}), ['"exit_code":101']),
    ("behind the output", stringify({"output": LONG, "exit_code": 1}), ['"exit_code":1']),
    (
        "of several",
        stringify([{"output": LONG, "exit_code": 0}, {"output": LONG, "exit_code": 3}]),
        ['"exit_code":0', '"exit_code":3'],
    ),
    ("of an output that was cut", f"Exit code: 2\nTotal output lines: 9\nOutput:\n{LONG}", ["Exit code: 2"]),
    (
        "below a warning",
        "Warning: truncated output (original token count: 9)\nTotal output lines: 1\n\n"
        + stringify({"output": LONG, "exit_code": 1}),
        ['"exit_code":1'],
    ),
]


@pytest.mark.parametrize(("output", "expected"), [case[1:] for case in ENDED], ids=[case[0] for case in ENDED])
def test_how_commands_ended_stays(output: str, expected: list[str]) -> None:
    new = old(lambda made: made.custom("exec", "text(r)", [part("Script completed\nOutput:\n"), part(output)]))
    now = payloads(after(new, EAGER), "custom_tool_call_output")[0]["output"][1]["text"]
    assert marker.occurs_in(now)
    assert [each for each in expected if each in now] == expected


def test_what_says_how_a_command_ended_is_read_as_its_output() -> None:
    """Whatever tool waited for it: the lines that report the failure stay."""
    steps = [f"   Compiling gauge-{each} v1\n" for each in range(90)]
    run = "".join([*steps[:60], "error: trailing semicolon\n", *steps[60:], "error: could not compile\n"])
    data = old(lambda made: made.custom("wait", "{}", [part(stringify({"exit_code": 101, "output": run}))]))
    now = payloads(after(data, EAGER), "custom_tool_call_output")[0]["output"][0]["text"]
    assert "\nerror: trailing semicolon\n" in now


def test_an_output_in_an_object_stays_in_it() -> None:
    """The string holds valid JSON, with the metadata as they were."""
    data = old(lambda made: made.shell("tail x", LONG, 1))
    before, new = (payloads(each, "function_call_output")[0]["output"] for each in (data, after(data, EAGER)))
    assert json.loads(new)["metadata"] == {"exit_code": 1, "duration_seconds": 0.1}
    assert new.endswith(before[before.index(',"metadata"') :])
    assert marker.occurs_in(json.loads(new)["output"])


@pytest.mark.parametrize(
    "output", ['{"output":"x"}', '{"output":5,"metadata":{}}', '["metadata"]', '{"metadata":{}}', "x"]
)
def test_other_json_is_no_wrapped_output(output: str) -> None:
    assert wrapped(output) is None


def test_equal_outputs_are_compared_without_their_times() -> None:
    """The older one names the later one; one that failed where the other did not is another."""

    def twice(code: int) -> bytes:
        made = Rollout()
        made.user("Go.")
        made.run("make", LONG, code)
        made.run("make", LONG)
        made.end("Done.")
        return made.user("Thanks.").end("You're welcome.").bytes()

    first, _ = payloads(after(twice(0), EAGER), "function_call_output")
    assert "same text as a later exec_command result" in first["output"]
    first, _ = payloads(after(twice(1), EAGER), "function_call_output")
    assert "same text" not in first["output"]


SIZES = range(300, 1500, 60)

# Events


def test_the_events_of_tools_are_emptied() -> None:
    """Texts become empty texts, lists and objects empty ones; what says how it went stays."""
    data = old(
        lambda made: (
            made.shell("ls", LONG),
            made.patch("a.py", OTHER, LONG),
            made.patch("b.py", None, LONG),
            made.mcp("docs", "read", {"q": "x" * 700}, LONG, {"rows": [LONG]}),
        )
    )
    before, new = (
        payloads(each, "exec_command_end", "patch_apply_end", "mcp_tool_call_end")
        for each in (data, after(data, replace(EAGER, eliminate_redundancy=False)))
    )
    assert [new[0][key] for key in ("stdout", "stderr", "aggregated_output", "formatted_output")] == [""] * 4
    assert {**new[0], **dict.fromkeys(("stdout", "aggregated_output", "formatted_output"), LONG)} == before[0]
    assert new[0]["command"] == before[0]["command"]
    assert new[1]["changes"] == {"/tmp/a.py": {"type": "update", "unified_diff": "", "move_path": None}}
    assert new[2]["changes"] == {"/tmp/b.py": {"type": "add", "content": ""}}
    assert (new[1]["success"], new[1]["stdout"]) == (True, before[1]["stdout"])
    assert new[3]["invocation"] == {"server": "docs", "tool": "read", "arguments": {}}
    assert new[3]["result"] == {"Ok": {"content": [], "structuredContent": {}, "isError": False}}


@pytest.mark.parametrize("ordinals", [False, True], ids=["plain", "ordinals"])
def test_the_copies_of_what_goes_go_with_it(ordinals: bool) -> None:
    """However little they are: `forget` would leave them. Those of what stays are not worth their line."""
    made = Rollout(ordinals=ordinals).user("Go.")
    commands = {size: "echo " + " ".join(f"{size}_{each}" for each in range(size // 6)) for size in SIZES}
    for size, command in commands.items():
        call = f"call_{size}"
        made.item("function_call", name="exec_command", arguments=stringify({"cmd": command}), call_id=call)
        made.item("function_call_output", call_id=call, output=command[::-1])
        shown = {"command": ["bash", "-lc", command], "aggregated_output": command[::-1]}
        if ordinals:
            made.event("item_completed", item={"type": "CommandExecution", "id": call, **shown})
        else:
            made.event("exec_command_end", call_id=call, **shown)
    made.end("Done.")
    for _ in range(5):
        made.user("And?").end("So.")
    new = after(made.bytes()).decode()
    events = [line for line in new.splitlines() if "event_msg" in line]
    items = [line for line in new.splitlines() if "response_item" in line]
    texts = [each for command in commands.values() for each in (command, command[::-1])]
    gone = [each for each in texts if not any(each in line for line in items)]
    assert 0 < len(gone) < len(texts)
    assert [each for each in gone if any(each in line for line in events)] == []


ITEMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "CommandExecution", "command": ["bash", LONG], "parsed_cmd": [LONG], "aggregated_output": LONG},
        {"command": [], "parsed_cmd": [], "aggregated_output": ""},
    ),
    (
        {"type": "FileChange", "changes": {"/a": {"type": "add", "content": LONG}}, "stdout": LONG, "stderr": "x"},
        {"changes": {"/a": {"type": "add", "content": ""}}, "stdout": ""},
    ),
    ({"type": "Reasoning", "summary_text": [LONG], "raw_content": []}, {"summary_text": []}),
    (
        {"type": "McpToolCall", "arguments": {"x": LONG}, "result": {"content": [LONG], "isError": False}},
        {"arguments": {}, "result": {"content": [], "isError": False}},
    ),
    ({"type": "ImageGeneration", "status": "completed", "result": LONG}, {"result": ""}),
]


@pytest.mark.parametrize(("item", "emptied"), ITEMS, ids=[item["type"] for item, _ in ITEMS])
def test_the_items_that_codex_shows_from_its_index_are_emptied(item: dict[str, Any], emptied: dict[str, Any]) -> None:
    """The old ones; of a recent one a rebuilt index would want all."""
    made = Rollout(ordinals=True).user("Go.").event("item_completed", item=item).end("Done.")
    data = made.user("And?").event("item_completed", item=item).end("So.").bytes()
    first, last = (payload["item"] for payload in payloads(after(data), "item_completed"))
    assert first == item | emptied
    assert last == item


def states(made: Rollout, number: int) -> Rollout:
    """Add what Codex notes around a request, too long to stay where it need not."""
    made.line("token_usage_record", thread_id=str(number), usage={"x": LONG})
    made.event("thread_settings_applied", thread_settings={"number": number, "x": LONG})
    return made.event("token_count", info={"number": number, "x": LONG}, rate_limits=None)


def noted(data: bytes) -> list[tuple[str, Any]]:
    """Return what is left of such notes, each with its number; an empty event is one without."""
    found: list[tuple[str, Any]] = []
    for entry in entries(data):
        payload, kind = entry["payload"], entry["type"]
        kind = payload["type"] if kind == "event_msg" else kind
        if kind in STATES:
            inside = payload.get("info") or payload.get("thread_settings") or {"number": payload.get("thread_id")}
            found.append((kind, inside.get("number")))
    return found


@pytest.mark.parametrize("ordinals", [False, True], ids=["plain", "ordinals"])
def test_only_the_newest_state_stays(ordinals: bool) -> None:
    """Of what was used the newest of each turn, behind which a fork may begin; from recent turns the others go too."""
    made = Rollout(ordinals=ordinals)
    for turn in range(2):
        made.user("Go.")
        states(states(made, 2 * turn), 2 * turn + 1).item("message", role="assistant", content=[part("Done.")])
    data = made.bytes()
    new = after(data)
    empty = ("token_count", None)
    left = [("token_usage_record", "3"), ("thread_settings_applied", 3), ("token_count", 3)]
    assert noted(new) == [*[empty] * 5, ("token_count", 1), *[empty] * 3, *left]
    for before, now in zip(entries(data), entries(new), strict=True):
        assert skeleton(before, str) == skeleton(now, str)
        if now != before:
            assert list(now) == list(before)
            assert now["payload"] == {"type": "token_count", "info": None, "rate_limits": None}
    assert after(new) == new


def test_what_was_the_newest_state_goes_when_it_is_not(tmp_path: Path) -> None:
    """At a later run, and comes back with the rest."""
    made = Rollout(ordinals=True).user("Go.")
    states(states(made, 0), 1).end("Done.")
    path = write(tmp_path, made.bytes())
    compress(path)
    size = len(made.bytes())
    made.user("And?")
    states(made, 2).end("So.")
    with path.open("ab") as file:
        file.write(made.bytes()[size:])
    compress(path)
    assert [number for kind, number in noted(path.read_bytes()) if kind == "thread_settings_applied"] == [2]
    restore_session(path)
    assert path.read_bytes() == made.bytes()


def test_a_count_without_numbers_is_no_newest_state() -> None:
    """Codex goes back to the one before it."""
    made = Rollout().user("Go.")
    made.event("token_count", info={"number": 1, "x": LONG}).event("token_count", info=None, rate_limits={"x": LONG})
    new = after(made.item("message", role="assistant", content=[part("Done.")]).bytes())
    assert [payload.get("info") for payload in payloads(new, "token_count")] == [{"number": 1, "x": LONG}, None]


def test_what_later_headers_repeat_goes() -> None:
    """What differs from the first stays, and all else that a header says: Codex goes by its newest."""
    meta = {"id": "x", "cwd": "/", "base_instructions": {"text": LONG}, "dynamic_tools": [{"name": LONG}]}
    head = json.dumps(line("session_meta", meta)).encode() + b"\n"
    other = json.dumps(line("session_meta", {**meta, "memory_mode": "off", "base_instructions": {"text": OTHER}}))
    made = Rollout().user("Go.").item("message", role="assistant", content=[part("Done.")])
    new = after(head + b"".join(made.lines()[1:]) + head + other.encode() + b"\n")
    first, second, third = (entry["payload"] for entry in entries(new) if entry["type"] == "session_meta")
    assert first == meta
    assert second == {**meta, "base_instructions": {"text": ""}, "dynamic_tools": []}
    assert third == {**meta, "memory_mode": "off", "base_instructions": {"text": OTHER}, "dynamic_tools": []}


def test_a_picture_that_the_model_made(tmp_path: Path) -> None:
    """The item stays with its id, and with it the reasoning; a recent one is whole."""
    made = Rollout().user("Go.")
    for _ in range(2):
        made.think().item("image_generation_call", id="ig_1", status="completed", result=LONG)
        made.event("image_generation_end", call_id="ig_1", status="completed", result=LONG).end("Done.").user("And?")
    data = made.bytes()
    new = after(data, replace(EAGER, protect_tokens=None, turn_threshold_before_compress=2))
    assert [payload["result"] for payload in payloads(new, "image_generation_call")] == ["", LONG]
    assert [payload["result"] for payload in payloads(new, "image_generation_end")] == ["", LONG]
    assert payloads(new, "reasoning") == payloads(data, "reasoning")
    path = write(tmp_path, data)
    compress(path)
    assert verify_session(path).blocks


def test_what_a_compaction_repeats_for_the_guardian_goes(tmp_path: Path) -> None:
    """Though the rest of the newest one is the context, to the byte."""
    made = Rollout().message("user", [part(LONG)]).compact()
    data = made.bytes().replace(
        b'"replacement_history"', b'"guardian_history":' + json.dumps([LONG]).encode() + b',"replacement_history"'
    )
    path = write(tmp_path, data)
    compress(path)
    (now,) = (entry["payload"] for entry in entries(path.read_bytes()) if entry["type"] == "compacted")
    (before,) = (entry["payload"] for entry in entries(data) if entry["type"] == "compacted")
    assert now == {**before, "guardian_history": []}
    restore_session(path)
    assert path.read_bytes() == data


# The live path


def test_what_a_checkpoint_replaced_is_dead() -> None:
    """Outputs and arguments before it become the reference alone, and so do long texts of the checkpoint before it."""
    made = Rollout().user("Go.")
    made.run("tail x", LONG)
    made.message("user", [part(OTHER)])
    made.end("Done.").compact()
    made.user("On.").end("Yes.").compact()
    made.user("Thanks.").end("You're welcome.")
    new = after(made.bytes(), EAGER)
    assert marker.is_one(payloads(new, "function_call_output")[0]["output"])
    first, second = (entry["payload"]["replacement_history"] for entry in entries(new) if entry["type"] == "compacted")
    named = [item["content"][0]["text"] for item in first[:-1] if marker.is_one(item["content"][0]["text"])]
    assert named
    assert all("same text as in a later message" in each for each in named)
    assert OTHER in [item["content"][0]["text"] for item in second[:-1]]
    assert [item["type"] for item in first] == ["message"] * (len(first) - 1) + ["compaction"]
    assert any(item.get("content") == [part(OTHER)] for item in payloads(new, "message"))


def test_turns_that_were_taken_back_are_old_and_end_nothing() -> None:
    """A checkpoint in them is none of the live path."""
    made = Rollout().user("One.").end("1")
    made.user("Two.")
    made.run("tail x", LONG)
    made.end("2").compact()
    made.back(1)
    made.user("Three.").end("3")
    found = survey_of(made.bytes())
    view = view_of(made.bytes(), replace(EAGER, turn_threshold_before_compress=1))
    assert found.shape.dead == frozenset()
    number = next(number for number, role in enumerate(found.lines.roles) if role is Role.RESULT)
    assert number not in found.shape.live
    assert view.standing[number] is Protection.OLD


@pytest.mark.parametrize("name", ["codex.jsonl", "codex-older.jsonl"])
def test_markers_alone_bring_back_all_but_the_copies(tmp_path: Path, name: str) -> None:
    """Also inside the strings of JSON, where the lines around have changed."""
    path = write(tmp_path, fixture(name))
    compress(path, replace(EAGER, strip_thinking=False))
    path.write_bytes(path.read_bytes().replace(b'"timestamp":"2026', b'"timestamp":"2027'))
    assert restore_session(path, from_markers=True).status is Status.RESTORED
    as_it_was = split(fixture(name).replace(b'"timestamp":"2026', b'"timestamp":"2027'))
    differing = [old for old, new in zip(as_it_was, split(path.read_bytes()), strict=True) if old != new]
    assert differing
    assert all(b'"type":"event_msg"' in old for old in differing)


# Reading


CALL = {
    "type": "function_call",
    "id": "fc_1",
    "name": "exec_command",
    "call_id": "c",
    "arguments": json.dumps({"cmd": LONG}),
}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": [part(LONG), picture(address())]}


def line(kind: str, payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-03-02T09:00:00.000Z", "type": kind, "payload": payload}


def read(entry: Any) -> Line:
    return read_line(json.dumps(entry).encode() + b"\n", Codex().reader())


ROLES: list[tuple[str, dict[str, Any], Role]] = [
    ("a header", line("session_meta", {"id": "x", "cwd": LONG}), Role.HEADER),
    ("a prompt's event", line("event_msg", {"type": "user_message", "message": LONG}), Role.USER),
    ("a prompt's item", line("event_msg", {"type": "item_completed", "item": {"type": "UserMessage"}}), Role.USER),
    ("another item", line("event_msg", {"type": "item_completed", "item": {"type": "Reasoning"}}), Role.OTHER),
    (
        "a prompt's item",
        line("response_item", {"type": "message", "role": "user", "content": [part(LONG)]}),
        Role.OTHER,
    ),
    (
        "an answer",
        line("response_item", {"type": "message", "role": "assistant", "content": [part(LONG)]}),
        Role.ASSISTANT,
    ),
    ("reasoning", line("response_item", {"type": "reasoning", "summary": [part(LONG)]}), Role.ASSISTANT),
    ("reasoning without its seal", line("response_item", {"type": "other", "summary": []}), Role.ASSISTANT),
    ("a checkpoint", line("compacted", {"message": LONG, "replacement_history": []}), Role.CHECKPOINT),
    ("a checkpoint without a history", line("compacted", {"message": LONG, "replacement_history": None}), Role.OTHER),
    ("a checkpoint without a summary", line("compacted", {"replacement_history": []}), Role.OTHER),
    ("a checkpoint of no items", line("compacted", {"message": "", "replacement_history": [1]}), Role.OTHER),
    ("turns taken back", line("event_msg", {"type": "thread_rolled_back", "num_turns": 1}), Role.OTHER),
    ("no payload", {"type": "response_item"}, Role.OTHER),
    ("a payload that is a text", line("response_item", LONG), Role.OTHER),
    ("no type", {"payload": OUTPUT}, Role.OTHER),
]


@pytest.mark.parametrize(("entry", "role"), [case[1:] for case in ROLES], ids=[case[0] for case in ROLES])
def test_other_lines_have_a_role_and_no_blocks(entry: dict[str, Any], role: Role) -> None:
    """Text that people and models wrote is never replaced."""
    found = read(entry)
    assert (found.role, found.blocks) == (role, ())


EVENT = line(
    "event_msg", {"type": "patch_apply_end", "call_id": "c", "stdout": LONG, "changes": {"a": {"content": LONG}}}
)
ASKED = line("response_item", {"type": "message", "id": "msg_1", "role": "user", "content": [part(LONG), picture("x")]})
WRAPPED = line("response_item", {**OUTPUT, "output": json.dumps({"output": LONG, "metadata": {"exit_code": 0}})})
PLAIN_OUTPUT = line("response_item", {**OUTPUT, "output": LONG})
CUSTOM = line("response_item", {"type": "custom_tool_call", "name": "apply_patch", "input": LONG})
LOCAL = line("response_item", {"type": "local_shell_call", "action": {"type": "exec", "command": ["bash", LONG]}})
KEPT = line("compacted", {"replacement_history": [{"type": "message", "content": [part(LONG)]}]})
COUNT = line("event_msg", {"type": "token_count", "info": {"x": LONG}})
USED = line("token_usage_record", {"usage": {"x": LONG}})
MADE = line("response_item", {"type": "image_generation_call", "id": "ig_1", "result": LONG})
NOTHING = {"type": "token_count", "info": None, "rate_limits": None}

MAY: list[tuple[str, dict[str, Any], JsonPath, Any]] = [
    ("a text in arguments", line("response_item", CALL), ("payload", "arguments", "cmd"), "x"),
    ("arguments that are no JSON", line("response_item", {**CALL, "arguments": LONG}), ("payload", "arguments"), "x"),
    ("the input of a custom tool", CUSTOM, ("payload", "input"), "x"),
    ("a word of a command", LOCAL, ("payload", "action", "command", 1), "x"),
    ("an output", PLAIN_OUTPUT, ("payload", "output"), "x"),
    ("a text of an output", line("response_item", OUTPUT), ("payload", "output", 0, "text"), "x"),
    ("an image of an output", line("response_item", OUTPUT), ("payload", "output", 1), part("x")),
    ("an output in an object", WRAPPED, ("payload", "output", "output"), "x"),
    ("the image of a prompt", ASKED, ("payload", "content", 1), part("x")),
    ("an event's text, emptied", EVENT, ("payload", "stdout"), ""),
    ("an event's change, emptied", EVENT, ("payload", "changes", "a", "content"), ""),
    ("a text of a checkpoint", KEPT, ("payload", "replacement_history", 0, "content", 0, "text"), "x"),
]
MAY += [
    ("what was used", COUNT, ("payload",), NOTHING),
    ("what was recorded of it", USED, ("payload",), NOTHING),
    ("the type of such a record", USED, ("type",), "event_msg"),
    ("a picture that the model made", MADE, ("payload", "result"), ""),
    ("what a header repeats", line("session_meta", {}), ("payload", "base_instructions", "text"), ""),
    ("what a checkpoint keeps for the guardian", KEPT, ("payload", "guardian_history"), []),
]
MAY_NOT: list[tuple[str, dict[str, Any], JsonPath, Any]] = [
    ("a time", PLAIN_OUTPUT, ("timestamp",), "x"),
    ("a line's type", PLAIN_OUTPUT, ("type",), "x"),
    ("an item's type", PLAIN_OUTPUT, ("payload", "type"), "x"),
    ("a whole payload", PLAIN_OUTPUT, ("payload",), {}),
    ("a payload gone", PLAIN_OUTPUT, ("payload",), REMOVED),
    ("another field of that name", PLAIN_OUTPUT, ("other", "output"), "x"),
    ("a call's id", PLAIN_OUTPUT, ("payload", "call_id"), "x"),
    ("an item's id by another", line("response_item", CALL), ("payload", "id"), "x"),
    ("a tool's name", line("response_item", CALL), ("payload", "name"), "x"),
    ("arguments as an object", line("response_item", CALL), ("payload", "arguments"), {}),
    ("arguments as a text that is no JSON", line("response_item", CALL), ("payload", "arguments"), "x"),
    ("an argument gone", line("response_item", CALL), ("payload", "arguments", "cmd"), REMOVED),
    ("an argument of another type", line("response_item", CALL), ("payload", "arguments", "cmd"), 7),
    ("a folder in arguments", line("response_item", CALL), ("payload", "arguments", "workdir"), "x"),
    ("a whole command", LOCAL, ("payload", "action", "command"), "x"),
    ("the type of an action", LOCAL, ("payload", "action", "type"), "x"),
    ("an output as an object", PLAIN_OUTPUT, ("payload", "output"), {}),
    ("an output gone", PLAIN_OUTPUT, ("payload", "output"), REMOVED),
    ("an output in an object, without the object", WRAPPED, ("payload", "output"), "x"),
    ("the metadata of an output", WRAPPED, ("payload", "output", "metadata"), "x"),
    ("a list of parts as a text", line("response_item", OUTPUT), ("payload", "output"), "x"),
    ("a part gone", line("response_item", OUTPUT), ("payload", "output", 1), REMOVED),
    ("a text part by another", line("response_item", OUTPUT), ("payload", "output", 0), part("x")),
    ("what was asked", ASKED, ("payload", "content", 0, "text"), "x"),
    ("what was asked, as a part", ASKED, ("payload", "content", 0), part("x")),
    ("an event's text, shortened", EVENT, ("payload", "stdout"), "x"),
    ("an event's text gone", EVENT, ("payload", "stdout"), REMOVED),
    ("an event's text as a list", EVENT, ("payload", "stdout"), []),
    ("an event's changes", EVENT, ("payload", "changes"), {}),
    ("an event's call", EVENT, ("payload", "call_id"), ""),
    ("a checkpoint's history", KEPT, ("payload", "replacement_history"), []),
    ("an item of a checkpoint", KEPT, ("payload", "replacement_history", 0), {}),
    ("what was used, by another event", COUNT, ("payload",), {"type": "error"}),
    ("what was used, gone", COUNT, ("payload",), REMOVED),
    ("what was used, in part", COUNT, ("payload", "info"), None),
    ("the type of a record of use", USED, ("type",), "response_item"),
    ("the state of the world", line("world_state", {}), ("payload",), NOTHING),
    ("another event", EVENT, ("payload",), NOTHING),
    ("a picture that the model made, by a word", MADE, ("payload", "result"), "x"),
    ("the id of such a picture", MADE, ("payload", "id"), REMOVED),
    ("who a header is of", line("session_meta", {"id": "x"}), ("payload", "id"), ""),
    ("a header", line("session_meta", {"base_instructions": {"text": LONG}}), ("payload", "base_instructions"), {}),
]


@pytest.mark.parametrize("case", [*MAY, *MAY_NOT], ids=lambda case: case[0])
def test_what_may_change(case: Any) -> None:
    assert Codex().may_change(*case[1:]) is (case in MAY)


def test_whose_a_rollout_is() -> None:
    """By the thread's id; a fork names the thread that it came from."""
    made = Rollout().lines()
    head = entries(made[0])[0]["payload"]
    form = Codex()
    assert form.named(head_of(made)).id == head["id"]
    fork = json.dumps(line("session_meta", {**head, "forked_from_id": "other"})).encode() + b"\n"
    assert form.named(head_of([fork])).parents == ("other",)
    assert form.named(head_of(made[1:])).id == ""
