"""Claude Code's lines: what is a block, a turn, the live path, and what no change may touch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.compressors import View, thinking
from sessioncompress.compressors.base import Ours, standings
from sessioncompress.core import marker
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.model import JsonPath, Kind, Line, Protection, Role, Shape
from sessioncompress.core.references import References
from sessioncompress.core.splice import REMOVED, CannotSplice
from sessioncompress.formats.claude import ClaudeCode
from sessioncompress.pipeline.plan import plan
from sessioncompress.pipeline.reading import read_line
from sessioncompress.pipeline.rewrite import rewrite
from tests.support.blocks import text
from tests.support.claude import ClaudeSession, Use, answer, picture, sealed, thought, use
from tests.support.runs import (
    EAGER,
    GREEDY,
    after,
    compress,
    compress_again,
    entries,
    restore,
    survey_of,
    view_of,
    write,
)

LONG = "a line of output\n" * 80
OTHER = "another line of it\n" * 80
Scene = Callable[[], ClaudeSession]
ODD: list[Any] = [None, True, 0, 1.5, "", "text", LONG, [], [1], [None], [[LONG]], {}, {"a": 1}, {"type": 7}]


def read(entry: Any) -> Line:
    return read_line(json.dumps(entry).encode() + b"\n", ClaudeCode().reader())


def line(kind: str, content: Any = None, **more: Any) -> dict[str, Any]:
    known = {"parentUuid": "p", "isSidechain": False, "type": kind, "uuid": "u", "sessionId": "s"}
    message = {} if content is None else {"message": {"role": kind, "id": "msg_1", "content": content}}
    return {**known, **message, "timestamp": "2026-03-02T09:00:00.123Z", **more}


def begun() -> ClaudeSession:
    made = ClaudeSession()
    made.user("Go.")
    return made


RESULT = line("user", [answer("c1", LONG)], toolUseResult={"stdout": LONG, "stderr": ""})

BLOB = {"type": "api-request-blob", "hash": "h", "message": {"role": "user", "content": [text(LONG)]}}

BLOCKS: list[tuple[str, dict[str, Any], list[tuple[Kind, JsonPath]]]] = [
    ("a prompt", line("user", LONG), []),
    ("a prompt in parts", line("user", [text(LONG)]), []),
    ("an image in a prompt", line("user", [text("x"), picture()]), [(Kind.IMAGE, (1,))]),
    ("an answer", line("assistant", [text(LONG)]), []),
    ("thinking", line("assistant", [thought(LONG)]), [(Kind.THINKING, (0,))]),
    ("thinking that the provider keeps", line("assistant", [sealed()]), [(Kind.THINKING, (0,))]),
    ("a call", line("assistant", [use("c1", "Write", {"content": LONG})]), [(Kind.ARGUMENT, (0, "input"))]),
    ("a short call", line("assistant", [use("c1", "Bash", {"command": "ls"})]), []),
    ("a result", line("user", [answer("c1", LONG)]), [(Kind.RESULT, (0, "content"))]),
    ("a short result", line("user", [answer("c1", "done")]), []),
    (
        "a result in parts",
        line("user", [answer("c1", [text(LONG), picture(), {"type": "tool_reference", "tool_name": LONG}])]),
        [(Kind.RESULT, (0, "content", 0, "text")), (Kind.IMAGE, (0, "content", 1))],
    ),
    ("what the user said instead", line("user", [answer("c1", f"The user doesn't want to proceed: {LONG}")]), []),
    ("what was sent", BLOB, [(Kind.MIRROR, ())]),
    ("what was sent, as a text", BLOB | {"message": {"content": LONG}}, [(Kind.MIRROR, ())]),
    ("a tool of the provider", line("assistant", [{"type": "server_tool_use", "id": "s", "input": {"q": LONG}}]), []),
]


@pytest.mark.parametrize(("entry", "expected"), [case[1:] for case in BLOCKS], ids=[case[0] for case in BLOCKS])
def test_the_blocks_of_messages(entry: dict[str, Any], expected: list[tuple[Kind, JsonPath]]) -> None:
    """By their kind and place in the message's content."""
    assert [(block.kind, block.path[2:]) for block in read(entry).blocks] == expected


def attached(kind: str, **fields: Any) -> dict[str, Any]:
    return line("attachment", attachment={"type": kind, **fields})


def shown(copy: Any, **more: Any) -> dict[str, Any]:
    return RESULT | {"toolUseResult": copy} | more


FILE = {"type": "text", "file": {"filePath": "a" * 300, "content": LONG}}
SHAPE = {"system": [text(LONG)], "tools": [{"name": LONG}]}
FROM_SERVER = {"structuredContent": {"items": [LONG]}, "_meta": {"a": "b"}}
AT_WORK = {"message": {"message": {"content": [thought(LONG)]}}, "prompt": LONG}
AGENT_WORDS = attached("prompt_snapshot", systemPrompt=[LONG], tools=[{"description": LONG}], cliPrefix=LONG)
HOOK = attached("hook_success", stdout=LONG, content=OTHER)
SENT = [{"content": LONG}]
"""What of an attachment is sent."""

BESIDE: list[tuple[str, dict[str, Any], dict[JsonPath, Kind]]] = [
    ("short copies", shown({"stdout": "", "files": ["a", "b"]}), {}),
    ("data of another line", line("system", data={"prompt": LONG}), {}),
    ("a prompt that came in between", attached("queued_command", prompt=LONG), {}),
    ("a prompt that came in between, as it is sent", attached("queued_command") | {"rendered": SENT}, {}),
    ("the last prompt", {"type": "last-prompt", "lastPrompt": LONG}, {}),
    ("a summary", {"type": "summary", "summary": LONG, "leafUuid": "u"}, {}),
    ("a type of tomorrow", line("new", content=LONG), {}),
    ("a copy's output", RESULT, {("toolUseResult", "stdout"): Kind.MIRROR}),
    ("a copy that is a text", shown(LONG), {("toolUseResult",): Kind.MIRROR}),
    ("a copy in parts", shown({"content": [text(LONG)]}), {("toolUseResult", "content", 0, "text"): Kind.MIRROR}),
    (
        "a patch",
        shown({"structuredPatch": [{"lines": ["+ x"] * 90}], "filePath": "a" * 300}),
        {("toolUseResult", "structuredPatch"): Kind.MIRROR},
    ),
    (
        "what a subagent said",
        line("progress", data=AT_WORK),
        dict.fromkeys([("data", "message", "message", "content"), ("data", "prompt")], Kind.MIRROR),
    ),
    ("a list of skills", attached("skill_listing", content=LONG), {("attachment", "content"): Kind.ATTACHMENT}),
    ("a file that changed", attached("edited_text_file", snippet=LONG), {("attachment", "snippet"): Kind.RESULT}),
    (
        "a file that the user named",
        attached("file", content=FILE),
        {("attachment", "content", "file", "content"): Kind.RESULT},
    ),
    (
        "a file as it is sent",
        attached("file", content={"file": {"content": "x"}}) | {"rendered": [*SENT, {"content": [picture()]}]},
        {("rendered", 1, "content", 0): Kind.IMAGE, ("rendered", 0, "content"): Kind.RESULT},
    ),
    (
        "a list as it is sent",
        attached("skill_listing") | {"rendered": SENT},
        {("rendered", 0, "content"): Kind.ATTACHMENT},
    ),
    (
        "what a hook printed, and what of it the model reads",
        HOOK,
        {("attachment", "content"): Kind.ATTACHMENT, ("attachment", "stdout"): Kind.MIRROR},
    ),
    (
        "a picture in such a prompt",
        attached("queued_command", prompt=[text(LONG), picture()]),
        {("attachment", "prompt", 1): Kind.IMAGE},
    ),
    (
        "with which tools something was sent",
        {"type": "api-request-shape", "shapeHash": "h", "shape": SHAPE},
        dict.fromkeys([("shape", "system"), ("shape", "tools")], Kind.MIRROR),
    ),
    (
        "of which messages",
        {"type": "api-request", "shapeHash": "h", "tail": [LONG], "cacheControl": [LONG], "params": {"model": "m"}},
        dict.fromkeys([("tail",), ("cacheControl",)], Kind.MIRROR),
    ),
    (
        "with which words of the agent",
        AGENT_WORDS,
        dict.fromkeys([("attachment", "systemPrompt"), ("attachment", "tools")], Kind.MIRROR),
    ),
    (
        "what a server gave back beside the text",
        shown("short", mcpMeta=FROM_SERVER),
        {("mcpMeta", "structuredContent"): Kind.MIRROR},
    ),
    ("a prompt that waited", {"type": "queue-operation", "content": LONG}, {("content",): Kind.ATTACHMENT}),
    (
        "what is sent for a result",
        {"type": "content-replacement", "replacements": [{"toolUseId": "x", "replacement": LONG}]},
        {("replacements",): Kind.MIRROR},
    ),
]


@pytest.mark.parametrize(("entry", "expected"), [case[1:] for case in BESIDE], ids=[case[0] for case in BESIDE])
def test_the_blocks_beside_messages(entry: dict[str, Any], expected: dict[JsonPath, Kind]) -> None:
    """Copies for the screen, and what the agent itself puts in; the result that a copy repeats stands before it."""
    found = [(block.path, block.kind) for block in read(entry).blocks if block.path[0] != "message"]
    assert found == list(expected.items())


@pytest.mark.parametrize(
    ("metadata", "first"),
    [
        ({"preservedSegment": {"headUuid": "a", "tailUuid": "b"}}, "a"),
        ({"preservedMessages": {"anchorUuid": "s", "uuids": ["a", "b"]}}, "a"),
        ({"preservedMessages": {"anchorUuid": "s", "uuids": []}}, ""),
        ({"trigger": "auto"}, ""),
    ],
)
def test_a_boundary_names_the_first_message_that_it_keeps(metadata: dict[str, Any], first: str) -> None:
    entry = line("system", subtype="compact_boundary", parentUuid=None, compactMetadata=metadata)
    assert read(entry).facts.keeps == first


NO_TURN: list[tuple[str, Any, dict[str, Any]]] = [
    ("a note of the agent", "x", {"isMeta": True}),
    ("a summary", "x", {"isCompactSummary": True}),
    ("a subagent's prompt", "x", {"isSidechain": True}),
    ("a notification", f"<task-notification>\n{LONG}", {"origin": {"kind": "task-notification"}}),
    ("an older notification", "<task-notification>\n<task-id>b</task-id>", {}),
    ("what a plugin asks", "x", {"origin": {"kind": "plugin"}}),
    ("what the system asks", "x", {"promptSource": "system"}),
    ("what a schedule asks", "x", {"turnOrigin": "scheduled"}),
    ("a command's output", "<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>", {}),
    ("an interruption", [text("[Request interrupted by user for tool use]")], {}),
    ("what a command says", "<local-command-stdout>Compacted</local-command-stdout>", {}),
    ("a reminder", "<system-reminder>x</system-reminder>", {}),
    ("a teammate's message", "<teammate-message id=1>x</teammate-message>", {}),
    ("that of another session", f"Another Claude session sent a message:\n<teammate-message>{LONG}", {}),
    ("a command in the shell", "<bash-input>git push</bash-input>", {}),
    ("a command that only prints", "<command-name>/cost</command-name>\n<command-args></command-args>", {}),
    ("a command as it was typed", "/compact keep the plan", {}),
    ("a result that says that nothing changed", [answer("c1", "File unchanged since last read.")], {}),
    ("a newer one", [answer("c1", "Wasted call \u2014 file unchanged since your last Read. Refer to it.")], {}),
]
COMMAND = "<command-message>review</command-message>\n<command-name>/review</command-name>"
TURN: list[tuple[str, Any, dict[str, Any]]] = [
    ("a prompt", "x", {}),
    ("a prompt with an image", [picture()], {}),
    ("a command that asks the model", COMMAND, {}),
    ("a path", "/etc/hosts is wrong", {}),
    ("a prompt below a reminder", "<system-reminder>x</system-reminder>\nGo on.", {}),
    ("one that says who asks", "x", {"origin": {"kind": "human"}, "turnOrigin": "sdk", "promptSource": "typed"}),
]
ROLES: list[tuple[str, dict[str, Any], Role]] = [
    *((name, line("user", said, **more), Role.OTHER) for name, said, more in NO_TURN),
    *((name, line("user", said, **more), Role.USER) for name, said, more in TURN),
    ("a result", line("user", [answer("c1", "x")]), Role.RESULT),
    ("an answer", line("assistant", [text("x")]), Role.ASSISTANT),
    ("a compaction", line("system", subtype="compact_boundary"), Role.CHECKPOINT),
    ("another note", line("system", subtype="turn_duration"), Role.OTHER),
    ("a user line without a message", line("user"), Role.OTHER),
]


@pytest.mark.parametrize(("entry", "role"), [case[1:] for case in ROLES], ids=[case[0] for case in ROLES])
def test_roles(entry: dict[str, Any], role: Role) -> None:
    assert read(entry).role is role


@pytest.mark.parametrize("said", ["", " ", "\n\n\n"])
@pytest.mark.parametrize("apart", [False, True], ids=["in one line", "in two lines"])
def test_white_space_is_nothing_said(said: str, apart: bool) -> None:
    """Without its thinking the agent would put words of its own into the message."""
    made = begun()
    response = made.new_response()
    if apart:
        made.respond(thought(LONG), said or " ", response=response)
    else:
        made.entry("assistant", message={"role": "assistant", "id": response, "content": [thought(LONG), text(said)]})
    made.user("Go on.")
    made.respond(thought(OTHER), "Done.")
    view = view_of(made.bytes(), GREEDY)
    assert response not in view.speaking
    assert not [change for change in thinking.propose(view) if change.line < 3]


def test_what_was_sent_goes_with_the_newest_words_kept() -> None:
    """A rewind to a recent prompt finds the files that it had; a prompt that was given up needs none."""
    made = ClaudeSession()

    def ask(said: str) -> str | None:
        name = made.user(said)
        files = {f"src/{number}.py": {"backupFileName": f"{said}@v{number}"} for number in range(20)}
        made.note("file-history-snapshot", messageId=name, snapshot={"messageId": name, "trackedFileBackups": files})
        made.attachment("prompt_snapshot", systemPrompt=[LONG, said])
        made.note("api-request-blob", hash=said, message={"role": "user", "content": [text(LONG)]})
        made.respond("Yes.")
        return made.leaf

    first = ask("one")
    ask("given up")
    made.branch(first)
    for said in ("two", "three", "four", "five"):
        ask(said)
    found = after(made.bytes(), replace(EAGER, turn_threshold_before_compress=2))
    sent = [entry["message"]["content"] for entry in found if entry["type"] == "api-request-blob"]
    assert sent == [[]] * 6
    words = [entry["attachment"]["systemPrompt"] for entry in found if entry["type"] == "attachment"]
    # The branch that was given up may be gone on with.
    assert [each[1:] for each in words] == [[], ["given up"], [], [], [], ["five"]]
    files = [len(e["snapshot"]["trackedFileBackups"]) for e in found if e["type"] == "file-history-snapshot"]
    assert files == [0, 0, 0, 0, 20, 20]
    names = [e["snapshot"]["messageId"] for e in found if e["type"] == "file-history-snapshot"]
    assert list(map(bool, names)) == list(map(bool, files))


def test_a_line_that_is_there_twice_stands_where_it_stood_first() -> None:
    """A resume may append the whole history again. The agent may read either copy, so both are recent or neither is."""
    made = linear()
    again = made.bytes() + b"".join(made.lines()[:4])
    survey = survey_of(again)
    assert list(survey.shape.live) == list(range(len(made.lines())))
    found = standings(survey.lines, survey.shape, replace(EAGER, turn_threshold_before_compress=2))
    assert [found[number] for number in range(4)] == list(found[len(made.lines()) :])
    assert Protection.PROTECTED in found[:4]


# The live path


def linear() -> ClaudeSession:
    made = begun()
    made.step("Bash", {"command": "ls"}, "a.py", thinking="What is there?")
    return made.turn()


def at_once() -> ClaudeSession:
    """Return a session in which two calls were made at once, so that a result stands beside the path."""
    made = begun()
    made.parallel([Use("Bash", {"command": "ls"}, "a"), Use("Bash", {"command": "pwd"}, "b")], thinking="Both.")
    return made.turn()


def gone_back() -> ClaudeSession:
    """Return a session whose second turn was given up for another."""
    made = begun()
    (here,) = made.respond("Where to?")
    made.user("Left.")
    made.respond("It is a dead end.")
    made.branch(here)
    return made.turn()


def old_agent() -> ClaudeSession:
    """Return a session whose subagent wrote into it, and whose progress lines have children."""
    made = begun()
    made.progress("c1", type="hook_progress")
    (here,) = made.respond("I ask.")
    made.entry("user", parent=None, isSidechain=True, message={"role": "user", "content": "Look."})
    made.entry("assistant", isSidechain=True, message={"role": "assistant", "id": "m", "content": [text("Yes.")]})
    return made.branch(here)


def torn() -> ClaudeSession:
    made = begun()
    made.respond("Yes.")
    return made.branch("gone").turn()


def torn_before_an_older_line() -> ClaudeSession:
    """Return a session in which a parent is missing, and its line is newer than the one that follows it."""
    made = begun()
    made.respond("Yes.")
    made.branch("gone").user("Caveat", isMeta=True, timestamp="2027-01-01T00:00:00.557Z")
    made.user("<command-name>/exit</command-name>", timestamp="2027-01-01T00:00:00.556Z")
    return made


def noted() -> ClaudeSession:
    """Return a session with lines that hang on its last message, and one that hangs nowhere."""
    made = linear()
    made.entry("system", subtype="turn_duration")
    made.attachment("date_change", newDate="2026-03-03")
    return made.note("mode", mode="normal")


PATHS: list[tuple[str, Scene, list[int]]] = [
    ("one line behind the other", linear, [0, 1, 2, 3, 4, 5]),
    ("calls made at once", at_once, [0, 1, 2, 3, 5, 4, 6, 7]),
    ("a turn that was given up", gone_back, [0, 1, 4, 5]),
    ("progress with children, a subagent inside", old_agent, [0, 1, 2]),
    ("a missing parent", torn, [0, 1, 2, 3]),
    ("a missing parent of a line that is newer than its child", torn_before_an_older_line, [0, 1, 2, 3]),
    ("what hangs on the last message", noted, [0, 1, 2, 3, 4, 5, 6, 7]),
    ("a subagent's own file", lambda: ClaudeSession(agent="a1").turn(), [0, 1]),
]


@pytest.mark.parametrize(("scene", "expected"), [case[1:] for case in PATHS], ids=[case[0] for case in PATHS])
def test_the_live_path(scene: Scene, expected: list[int]) -> None:
    """From the newest message to the root, with the rest of each response and its results."""
    shape = survey_of(scene().bytes()).shape
    assert (sorted(shape.live), len(set(shape.live))) == (sorted(expected), len(expected))
    assert not shape.dead


def test_a_loop_of_parents_ends() -> None:
    made = ClaudeSession()
    made.user("Go.", uuid="a", parentUuid="b")
    made.respond("Yes.")
    made.entry("user", uuid="b", message={"role": "user", "content": "Go on."})
    assert sorted(survey_of(made.bytes()).shape.live) == [0, 1, 2]


def compacted(*, keep: bool, through: bool = False) -> ClaudeSession:
    """Return a session with a compaction, which may keep the last step; the next prompt hangs on what was kept."""
    made = linear()
    (kept,) = made.respond("I go on with it.")
    made.compact("It was about this.", kept if keep else None)
    if through:
        made.branch(kept)
    made.user("Go on.")
    made.respond("Yes.")
    return made


def nameless() -> ClaudeSession:
    """Return one that went back to before a compaction, and whose newest line has no id."""
    made = compacted(keep=False, through=True)
    made.user("Once more.")
    made._lines[-1] = re.sub(rb'"uuid": ?"[^"]*"', b'"uuid":""', made._lines[-1])
    return made


DEAD: list[tuple[str, Scene, list[int]]] = [
    ("all before it", lambda: compacted(keep=False), [0, 1, 2, 3, 4, 5, 6]),
    ("all before what it kept", lambda: compacted(keep=True), [0, 1, 2, 3, 4, 5]),
    ("where the path leads past it", lambda: compacted(keep=True, through=True), [0, 1, 2, 3, 4, 5]),
    ("gone back to before it", lambda: compacted(keep=False, through=True), []),
    ("gone back to before it, and the newest line has no id", nameless, []),
]


@pytest.mark.parametrize(("scene", "expected"), [case[1:] for case in DEAD], ids=[case[0] for case in DEAD])
def test_what_no_model_sees_again(scene: Scene, expected: list[int]) -> None:
    assert sorted(survey_of(scene().bytes()).shape.dead) == expected


# What stays


def old(made: ClaudeSession) -> bytes:
    """Return the session with one more short turn, so that all of it is old to the eager policy."""
    return made.turn().bytes()


def stepped(*arguments: Any, **options: Any) -> Scene:
    """Return how to make a session with one step."""

    def scene() -> ClaudeSession:
        made = ClaudeSession()
        made.user("Go.")
        made.step(*arguments, **options)
        made.respond(thought("The newest thinking stays."), "Done.")
        return made

    return scene


def thinking_alone() -> ClaudeSession:
    """Return a session with an answer that only thinks."""
    made = begun()
    made.respond(thought(LONG))
    made.respond(thought(OTHER), "Done.")
    return made


def newest_thinking() -> ClaudeSession:
    made = begun()
    made.respond(thought(LONG), "Well,", thought(OTHER), "no.")
    return made


def asked() -> ClaudeSession:
    given = {"questions": [{"question": LONG}]}
    return stepped("AskUserQuestion", given, LONG, {"questions": [{"question": LONG}], "answers": {"x": OTHER}})()


def listed_once() -> ClaudeSession:
    """Return a session with one list of skills, and a prompt that waited and was never asked."""
    made = ClaudeSession()
    made.note("queue-operation", operation="enqueue", content=OTHER)
    made.user("Go.")
    made.attachment("skill_listing", content=LONG)
    return made


def listed_on_another_path() -> ClaudeSession:
    """Return a session whose list of skills stands again where the user no longer is."""
    made = begun()
    here = made.attachment("skill_listing", content=LONG)
    made.user("Left.")
    made.attachment("skill_listing", content=LONG)
    return made.branch(here)


LEFT_ALONE: list[tuple[str, Scene]] = [
    ("short", stepped("Bash", {"command": "ls"}, "a.py", {"stdout": "a.py"})),
    ("an answer that only thinks", thinking_alone),
    ("the newest answer that thinks, all of it", newest_thinking),
    ("what the user chose", asked),
    ("the plan", stepped("ExitPlanMode", {"plan": LONG}, "approved", {"plan": LONG})),
    ("the list", stepped("TodoWrite", {"todos": [{"content": LONG}]}, "done", {"newTodos": [{"content": LONG}]})),
    ("the tool Skill", stepped("Skill", {"skill": "x", "args": LONG}, LONG, {"commandName": LONG})),
    ("lists and prompts that stand nowhere else", listed_once),
    ("a list that stands again on another path", listed_on_another_path),
    ("a result's place on the screen", stepped("Bash", {"command": "ls"}, "x", {"persistedOutputPath": "a" * 900})),
]


@pytest.mark.parametrize("scene", [case[1] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(scene: Scene) -> None:
    data = old(scene())
    assert after(data) == entries(data)


# What is replaced


def found(scene: Scene, number: int) -> Any:
    return after(old(scene()))[number]


def marked(value: Any) -> bool:
    return isinstance(value, str) and marker.is_one(value)


COPIES: list[tuple[str, Any, Callable[[Any], bool]]] = [
    ("a text", LONG, marked),
    (
        "the file before",
        {"originalFile": LONG, "filePath": "a"},
        lambda now: now == {"originalFile": None, "filePath": "a"},
    ),
    ("a patch", {"structuredPatch": [{"lines": [LONG]}]}, lambda now: now == {"structuredPatch": []}),
    (
        "a file that was read",
        {"file": {"content": LONG, "numLines": 80}},
        lambda now: now["file"] == {"content": "", "numLines": 80},
    ),
    ("a new file", {"type": "create", "content": LONG}, lambda now: marked(now["content"])),
    (
        "a file that was there before",
        {"type": "update", "content": LONG},
        lambda now: now == {"type": "update", "content": ""},
    ),
    ("what an agent reported", {"content": [text(LONG)]}, lambda now: marked(now["content"][0]["text"])),
    ("a list of parts", [text(LONG)], lambda now: marked(now[0]["text"])),
    ("a picture", {"type": "image", "file": {"base64": LONG}}, lambda now: now["file"] == {"base64": ""}),
]


@pytest.mark.parametrize(("shown", "good"), [case[1:] for case in COPIES], ids=[case[0] for case in COPIES])
def test_a_copy_for_the_screen_keeps_its_type(shown: Any, good: Callable[[Any], bool]) -> None:
    """And is never empty: a line without one would count as a prompt."""
    now = found(stepped("Edit", {"file_path": "a"}, "done", shown), 2)["toolUseResult"]
    assert good(now), now
    assert type(now) is type(shown)


RECENT: list[tuple[str, Any, Any]] = [
    ("what a command printed", {"stdout": LONG * 9}, None),
    ("a difference", {"structuredPatch": [{"lines": [LONG * 9]}]}, None),
    ("a new file", {"type": "create", "content": LONG * 9}, None),
    ("what an agent reported", {"content": [text(LONG * 9)]}, None),
    ("the file before", {"originalFile": LONG * 9, "newString": LONG}, {"originalFile": None, "newString": LONG}),
    ("a file that was there before", {"type": "update", "content": LONG * 9}, {"type": "update", "content": ""}),
    ("a file that was read", {"file": {"content": LONG * 9, "numLines": 7}}, {"file": {"content": "", "numLines": 7}}),
]


@pytest.mark.parametrize(("shown", "left"), [case[1:] for case in RECENT], ids=[case[0] for case in RECENT])
def test_what_no_screen_shows_again_leaves_the_recent_context(shown: Any, left: Any, tmp_path: Path) -> None:
    """What one shows stays as it is; so does all that a model reads. It comes back, and a second run writes nothing."""
    made = begun()
    made.step("Edit", {"file_path": "a", "old_string": LONG}, LONG, shown)
    made.respond("Done.")
    data = made.bytes()
    path = write(tmp_path, data)
    (compress_again if left is None else compress)(path, ALL_RECENT)
    before, now = entries(data), entries(path.read_bytes())
    now[2]["toolUseResult"], result = before[2]["toolUseResult"], now[2]["toolUseResult"]
    assert now == before
    assert result == (shown if left is None else left)
    compress_again(path, ALL_RECENT)
    if left is not None:
        restore(path, ALL_RECENT)
    assert path.read_bytes() == data


@pytest.mark.parametrize("done", [False, True], ids=["at work", "done"])
def test_what_a_subagent_says_stays_until_it_is_done(done: bool) -> None:
    """A screen may show what it does; its result says that it did it."""
    made = begun()
    made.respond(use("c1", "Task", {"prompt": "Look."}))
    said = {"type": "assistant", "message": {"role": "assistant", "content": [text(LONG * 9)]}, "uuid": "x"}
    made.progress("c1", type="agent_progress", message=said, normalizedMessages=[])
    if done:
        made.result("c1", "Seen.")
    line = after(made.bytes(), ALL_RECENT)[2]
    assert (line["data"]["message"]["message"]["content"] == []) is done


ALL_RECENT = GREEDY.__class__(size_threshold_kb=0, min_saved_kb=0)


def test_a_step_in_several_lines_is_protected_whole() -> None:
    """Its thinking, its text, its calls and their results."""
    made = begun()
    made.step("Bash", {"command": "ls"}, LONG * 80, thinking=LONG)
    made.parallel(
        [Use("Bash", {"command": "ls"}, LONG * 80), Use("Bash", {"command": "pwd"}, LONG * 80)], thinking=LONG
    )
    data = made.bytes()
    before, now = entries(data), after(data, GREEDY_TOKENS)
    assert [number for number, (was, is_) in enumerate(zip(before, now, strict=True)) if was != is_] == [1, 3]


GREEDY_TOKENS = GREEDY.__class__(size_threshold_kb=0, min_saved_kb=0, protect_tokens=0)


# What no change may touch


def test_odd_types_are_no_error() -> None:
    """Whatever stands in a field, the line is read, planned and rewritten, or left."""
    kinds = [line("user", "x"), line("assistant", [text("x")]), RESULT, line("progress"), attached("file"), BOUNDARY]
    for entry in kinds:
        for key in (*entry, "attachment", "data", "toolUseResult", "compactMetadata"):
            for value in ODD:
                _runs(entry | {key: value})
        for value in ODD:
            _runs(entry | {"message": {"role": "user", "content": value}})
            _runs(entry | {"message": {"role": "user", "content": [value]}})
            for kind in ("tool_use", "tool_result", "thinking", "image", "text"):
                part = {"type": kind, "id": value, "name": value, "input": value, "content": value, "source": value}
                _runs(entry | {"message": {"id": value, "content": [{**part, "text": value, "tool_use_id": value}]}})


BOUNDARY = line("system", subtype="compact_boundary", compactMetadata={"preservedSegment": {"headUuid": "x"}})


def _runs(entry: dict[str, Any]) -> None:
    """Read a line, and rewrite it by a policy that takes all."""
    raw = json.dumps(entry).encode() + b"\n"
    form = ClaudeCode()
    lines = Lines([read_line(raw, form.reader())])
    form.shape(lines)
    view = View(Survey(lines, Shape((), frozenset()), len(raw)), GREEDY, form, Ours())
    for changes in plan(view, (), ()).values():
        try:
            rewrite(raw, json.loads(raw), changes, view, References().refer)
        except CannotSplice:
            continue


CALL = line("assistant", [thought(LONG), use("c1", "Write", {"file_path": "a", "content": LONG}), text("x")])
PLAN = line("assistant", [use("c1", "ExitPlanMode", {"plan": LONG})])
PARTS = line(
    "user", [answer("c1", [text(LONG), picture()]), text("said")], toolUseResult={"originalFile": LONG, "path": LONG}
)
PATCH = RESULT | {"toolUseResult": {"structuredPatch": [1], "content": [1]}}
QUEUED = {"type": "queue-operation", "content": LONG, "operation": "enqueue"}
IN_BETWEEN = attached("queued_command", prompt=[text(LONG), picture()])
SNAPSHOT = {
    "type": "file-history-snapshot",
    "messageId": "u",
    "snapshot": {"messageId": "u", "trackedFileBackups": {"a.py": {"backupFileName": "f"}}, "timestamp": "t"},
}
RENDERED = attached("skill_listing") | {"rendered": [{"content": LONG}]}
PROMPTED = attached("prompt_snapshot", systemPrompt=[LONG], tools=[{"description": LONG}], cliPrefix="c")
_C = ("message", "content")

MAY: list[tuple[str, dict[str, Any], JsonPath, Any]] = [
    ("thinking goes", CALL, (*_C, 0), REMOVED),
    ("a long argument", CALL, (*_C, 1, "input", "content"), "short"),
    ("a result", RESULT, (*_C, 0, "content"), "short"),
    ("a part of a result", PARTS, (*_C, 0, "content", 0, "text"), "short"),
    ("an image", PARTS, (*_C, 0, "content", 1), {"type": "text", "text": "x"}),
    ("a copy", RESULT, ("toolUseResult", "stdout"), "short"),
    ("the file before an edit", PARTS, ("toolUseResult", "originalFile"), None),
    ("a patch", PATCH, ("toolUseResult", "structuredPatch"), []),
    ("a list of skills", attached("skill_listing", content=LONG), ("attachment", "content"), "short"),
    ("a prompt that waited", QUEUED, ("content",), "short"),
    ("a picture in a prompt that waited", IN_BETWEEN, ("attachment", "prompt", 1), {"type": "text", "text": "x"}),
    ("what was sent", BLOB, ("message", "content"), []),
    ("a list as it is sent", RENDERED, ("rendered", 0, "content"), "short"),
    ("the files at a prompt", SNAPSHOT, ("snapshot",), {"messageId": "", "trackedFileBackups": {}, "timestamp": "t"}),
    ("the agent's words", PROMPTED, ("attachment", "systemPrompt"), []),
    ("what a server gave back", RESULT | {"mcpMeta": {"a": {"b": LONG}}}, ("mcpMeta", "a"), {}),
]
MAY_NOT: list[tuple[str, dict[str, Any], JsonPath, Any]] = [
    ("shortened thinking", CALL, (*_C, 0, "thinking"), "short"),
    ("an empty signature", CALL, (*_C, 0, "signature"), ""),
    ("a call", CALL, (*_C, 1), REMOVED),
    ("a call's id", CALL, (*_C, 1, "id"), "c2"),
    ("a call's file", CALL, (*_C, 1, "input", "file_path"), "b"),
    ("a call's arguments as a whole", CALL, (*_C, 1, "input"), {}),
    ("an argument of another type", CALL, (*_C, 1, "input", "content"), None),
    ("a plan", PLAN, (*_C, 0, "input", "plan"), "short"),
    ("an answer's text", CALL, (*_C, 2, "text"), "short"),
    ("an answer's part", CALL, (*_C, 2), REMOVED),
    ("a user's text", PARTS, (*_C, 1, "text"), "short"),
    ("a result's part", PARTS, (*_C, 0, "content", 1), REMOVED),
    ("a result's id", RESULT, (*_C, 0, "tool_use_id"), "c2"),
    ("a result of another type", RESULT, (*_C, 0, "content"), []),
    ("no copy", RESULT, ("toolUseResult",), REMOVED),
    ("a copy that is nothing", RESULT | {"toolUseResult": LONG}, ("toolUseResult",), ""),
    ("a copy's file", PARTS, ("toolUseResult", "path"), "short"),
    ("a copy of another type", RESULT, ("toolUseResult", "stdout"), None),
    ("a list that its screen walks", PATCH, ("toolUseResult", "content"), []),
    ("an id", RESULT, ("uuid",), "v"),
    ("a parent", RESULT, ("parentUuid",), "v"),
    ("a type", RESULT, ("type",), "short"),
    ("what hangs on an attachment's kind", attached("skill_listing", content=LONG), ("attachment", "type"), REMOVED),
    ("the user's words", attached("queued_command", prompt=LONG), ("attachment", "prompt"), "short"),
    ("the user's words beside a picture", IN_BETWEEN, ("attachment", "prompt", 0), {"type": "text", "text": "x"}),
    ("a picture there that is gone", IN_BETWEEN, ("attachment", "prompt", 1), REMOVED),
    (
        "the user's words as they are sent",
        RENDERED | {"attachment": {"type": "queued_command"}},
        ("rendered", 0, "content"),
        "short",
    ),
    ("the hash of what was sent", BLOB, ("hash",), ""),
    ("a part of what was sent", BLOB, ("message", "content"), [text("x")]),
    ("the files at a prompt that is still known", SNAPSHOT, ("snapshot", "trackedFileBackups"), {}),
    ("what a prompt was sent with", PROMPTED, ("attachment", "cliPrefix"), ""),
    ("what a queue does", QUEUED, ("operation",), "short"),
    ("the last prompt", {"type": "last-prompt", "lastPrompt": LONG}, ("lastPrompt",), "short"),
]


@pytest.mark.parametrize("case", [*MAY, *MAY_NOT], ids=lambda case: case[0])
def test_what_may_change(case: Any) -> None:
    assert ClaudeCode().may_change(*case[1:]) is (case in MAY)


def test_what_stands_before_a_head_is_looked_at_once() -> None:
    """Any number of boundaries may keep one message, and any number of lines stand before it."""
    many = 80
    boundary = {"subtype": "compact_boundary", "logicalParentUuid": "u0"}
    kept = {"compactMetadata": {"preservedSegment": {"headUuid": "head"}}}
    chain = [f"u{number}" for number in range(many + 1)]
    notes = [
        line("attachment", uuid=name, parentUuid=parent) for parent, name in zip(["first", *chain], chain, strict=False)
    ]
    entries = [
        line("user", "go", uuid="first", parentUuid=None),
        *(line("system", uuid=f"b{number}", parentUuid=None, **boundary, **kept) for number in range(many)),
        *notes,
        line("user", "and now?", uuid="head", parentUuid=chain[-1]),
    ]
    lines = Lines(map(read, entries))
    asked: list[int] = []

    class Roles(list[Role]):
        def __getitem__(self, number: Any) -> Any:
            asked.append(number)
            return super().__getitem__(number)

    lines.__dict__["roles"] = Roles(lines.roles)
    live = list(ClaudeCode().shape(lines).live)
    # As the agent loads them: the boundaries, in their order, before all that is not loaded.
    assert live == list(range(len(lines)))
    assert len(asked) < 6 * len(lines)
