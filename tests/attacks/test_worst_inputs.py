"""Sessions of repeated pieces, each the worst there is for something that looks through it: time grows as they do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support import blocks
from tests.support.blocks import Block
from tests.support.chats import ChatSession
from tests.support.claude import ClaudeSession, answer, use
from tests.support.documents import GeminiDocument, OpenCodeExport
from tests.support.rollout import Rollout
from tests.support.runs import invoke
from tests.support.session import PiSession

_MB = 1_000_000
_MOST = 8.0
"""So many times as long may a session of four times the size take; where time grows with the square it is sixteen."""
_SOON = 0.3
"""Seconds of processor time that say nothing of growth."""
_DOCUMENT = (b"{\n", b"[\n")
_POLICY = {"session": {"turnThresholdBeforeCompress": 1, "toolCallMaxBytes": 300, "toolResultMaxBytes": 600}}
_LIFE = (
    ("compress", "--force", "--keep-turns", "1"),
    ("compress", "--force", "--config", "compression.json"),
    ("verify",),
    ("stats",),
    ("restore", "--from-markers"),
    ("restore",),
)

pytestmark = pytest.mark.usefixtures("collected")

SHAPES: dict[str, Callable[[int], bytes]] = {}


def shape(build: Callable[[int], bytes]) -> Callable[[int], bytes]:
    SHAPES[build.__name__.replace("_", " ")] = build
    return build


def pieces(size: int, make: Callable[[int], Any]) -> list[Any]:
    return list(_pieces(size, make))


def _pieces(size: int, make: Callable[[int], Any]) -> Iterator[Any]:
    for number in count():
        piece = make(number)
        size -= len(json.dumps(piece))
        yield piece
        if size <= 0:
            return


def pi(*parts: Block, **kind: Any) -> PiSession:
    """Return a session whose first answer has these parts."""
    session = PiSession(**kind).opening()
    session.user("go")
    session.assistant(*parts)
    return session


def closed(session: PiSession) -> bytes:
    """Let a short turn follow, so that what came before it is old."""
    session.user("and now?")
    session.assistant(session.think("Done."), "Nothing.")
    return session.bytes()


def claude(content: str, shown: Any = None) -> bytes:
    """Return a session with a result of this content."""
    session = ClaudeSession()
    session.user("go")
    session.step("Bash", {"command": "make"}, content, shown)
    return session.turn(1).bytes()


def codex(arguments: Any) -> bytes:
    rollout = Rollout().user("go")
    rollout.function("shell", arguments, "x" * 3_000)
    return rollout.user("and now?").end("Nothing.").bytes()


def marked(number: int) -> str:
    return f"[[sessioncompress: {number} lines, 5 bytes, kept on disk: sessioncompress show 7f3a91c2e05b]]"


@shape
def many_long_calls_in_one_message(size: int) -> bytes:
    return closed(pi(*pieces(size, lambda each: blocks.call(f"c{each}", "bash", {"command": f"{each} " + "x" * 600}))))


@shape
def many_short_calls_in_one_message(size: int) -> bytes:
    return closed(pi(*pieces(size, lambda each: blocks.call(f"c{each}", "bash", {"command": f"{each}"}))))


@shape
def many_calls_with_item_ids_and_their_results(size: int) -> bytes:
    calls = pieces(size // 5, lambda each: blocks.call(f"call_{each}|fc_{each}", "bash", {"command": f"{each}"}))
    session = pi(blocks.thinking("plan"), *calls, api="openai-responses", provider="openai")
    for call in calls:
        session.result(call["id"], "done")
    return closed(session)


@shape
def many_calls_that_hold_a_marker(size: int) -> bytes:
    return closed(
        pi(*pieces(size, lambda each: blocks.call(f"c{each}", "bash", {"command": marked(each) + "x" * 600})))
    )


@shape
def thinking_between_texts(size: int) -> bytes:
    pairs = pieces(size, lambda each: [blocks.thinking(f"{each}"), blocks.text("So.")])
    return closed(pi(*(part for pair in pairs for part in pair)))


@shape
def many_results_that_a_long_text_may_repeat(size: int) -> bytes:
    results = pieces(size // 2, lambda each: f"result {each} " + "result " * 40)
    session = pi(*(blocks.call(f"c{each}", "bash", {}) for each in range(len(results))))
    for each, result in enumerate(results):
        session.result(f"c{each}", result)
    session.assistant("result " * (size // 14))
    return closed(session)


@shape
def the_same_result_again_and_again(size: int) -> bytes:
    session = PiSession().opening()
    session.user("go")
    for _ in range(size // 1_800):
        session.step("bash", {"command": "git status"}, "nothing to commit\n" * 60)
    return closed(session)


@shape
def the_same_result_by_the_same_id(size: int) -> bytes:
    session = PiSession().opening()
    session.user("go")
    for _ in range(size // 1_800):
        session.assistant(blocks.call("call_0", "bash", {"command": "git status"}))
        session.result("call_0", "nothing to commit\n" * 60)
    return closed(session)


@shape
def the_same_lines_again_and_again(size: int) -> bytes:
    chat = ChatSession().message("user", "go")
    function = {"name": "bash", "arguments": "{}"}
    for _ in range(size // 1_300):
        chat.message("assistant", None, tool_calls=[{"id": "call_0", "type": "function", "function": function}])
        chat.message("tool", "nothing to commit\n" * 60, tool_call_id="call_0")
    return chat.message("user", "and now?").message("assistant", "Nothing.").bytes()


@shape
def many_parts_in_one_result(size: int) -> bytes:
    session = pi(blocks.call("c", "bash", {}))
    session.result("c", pieces(size, lambda each: blocks.text(f"{each} " + "line\n" * 300)))
    return closed(session)


@shape
def many_edits_in_one_call(size: int) -> bytes:
    edits = pieces(size, lambda each: {"oldText": f"{each} " + "a\n" * 400, "newText": f"{each} " + "b\n" * 400})
    return closed(pi(blocks.call("c", "edit", {"path": "a.py", "edits": edits})))


@shape
def many_markers_in_one_result(size: int) -> bytes:
    session = pi(blocks.call("c", "bash", {}))
    session.result("c", "\n".join(map(marked, range(size // 90))))
    return closed(session)


@shape
def many_results_of_distinct_names(size: int) -> bytes:
    session = PiSession().opening()
    session.user("go")
    for each in range(size // 16_000):
        session.step("bash", {}, "".join(f"value = call(name_{each}_{line});\n" for line in range(500)))
    return closed(session)


@shape
def many_results_of_one_name(size: int) -> bytes:
    session = PiSession().opening()
    session.user("go")
    for each in range(size // 2_000):
        session.step("bash", {}, f"({each});\n" + "call(read_gauge);\n" * 100)
    return closed(session)


@shape
def many_results_of_lines_like_an_index(size: int) -> bytes:
    session = PiSession().opening()
    session.user("go")
    for each in range(size // 2_000):
        session.step("bash", {}, "\n".join(f"in it: a_{each} | b_{line} c.py" for line in range(80)))
    return closed(session)


@shape
def calls_answered_in_the_wrong_order(size: int) -> bytes:
    names = [f"c{each}" for each in range(size // 400)]
    session = pi(*(blocks.call(name, "bash", {}) for name in names))
    for name in reversed(names):
        session.result(name, "done")
    return session.bytes()


@shape
def files_saved_nowhere(size: int) -> bytes:
    return claude("saved to " * (size // 9))


@shape
def files_saved_far_from_where_it_is_said(size: int) -> bytes:
    return claude(("saved to " + "x" * 4_000 + " tool-results ") * (size // 4_023))


@shape
def many_texts_for_the_screen(size: int) -> bytes:
    return claude("done", {"parts": pieces(size, lambda each: f"{each} " + "x" * 600)})


@shape
def many_results_in_one_line(size: int) -> bytes:
    session = ClaudeSession()
    session.user("go")
    results = pieces(size, lambda each: f"{each} " + "line\n" * 300)
    session.respond(*(use(f"c{each}", "Bash", {"command": "make"}) for each in range(len(results))))
    session.user([answer(f"c{each}", result) for each, result in enumerate(results)])
    return session.turn(1).bytes()


@shape
def a_command_that_nearly_prints_a_skill(size: int) -> bytes:
    return codex({"command": ["bash", "-lc", "cat x " * (size // 6) + "|SKILL.mdx"]})


@shape
def a_command_of_skills_that_are_none(size: int) -> bytes:
    return codex({"command": ["bash", "-lc", "cat " + "SKILL.mdx" * (size // 9)]})


@shape
def many_arguments_in_a_string(size: int) -> bytes:
    return codex({f"a{number}": text for number, text in enumerate(pieces(size, lambda each: f"{each}" + "x" * 600))})


@shape
def many_files_in_one_patch(size: int) -> bytes:
    rollout = Rollout().user("go")
    rollout.function("apply_patch", {"input": "*** Begin Patch"}, "done")
    added = pieces(size, lambda each: {"type": "add", "content": f"{each} " + "line\n" * 60})
    changes = {f"f{number}.py": change for number, change in enumerate(added)}
    rollout.event("patch_apply_end", call_id="c", stdout="", stderr="", success=True, changes=changes)
    return rollout.user("and now?").end("Nothing.").bytes()


@shape
def many_turns_taken_back(size: int) -> bytes:
    rollout = Rollout()
    for _ in range(size // 1_800):
        rollout.user("go")
    for number in range(size // 400):
        rollout.event("thread_rolled_back", num_turns=number % 2)
    return rollout.user("and now?").end("Nothing.").bytes()


@shape
def many_prompts_and_nothing_else(size: int) -> bytes:
    rollout = Rollout()
    for _ in range(size // 160):
        rollout.message("user", [{"type": "input_text", "text": "go"}])
    return rollout.bytes()


@shape
def many_calls_in_one_message_of_a_chat(size: int) -> bytes:
    made = pieces(
        size,
        lambda each: {
            "id": f"c{each}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": f"{each} " + "x" * 600})},
        },
    )
    chat = ChatSession().message("user", "go").message("assistant", None, tool_calls=made)
    return chat.message("user", "and now?").message("assistant", "Nothing.").bytes()


@shape
def many_messages_taken_back(size: int) -> bytes:
    header = {"sessionId": "s", "projectHash": "h", "startTime": "2026-03-02T09:00:00.000Z", "kind": "main"}
    at = {"timestamp": "2026-03-02T09:00:00.000Z", "type": "user"}
    messages = [{"id": f"m{each}", **at, "content": [{"text": "go"}]} for each in range(size // 130)]
    back = [{"$rewindTo": each["id"]} for each in reversed(messages[1:])]
    return b"".join(json.dumps(each).encode() + b"\n" for each in (header, *messages, *back))


@shape
def many_calls_in_one_message_of_a_document(size: int) -> bytes:
    document = GeminiDocument().user("go")
    made = pieces(size, lambda each: document.used("run_shell_command", {"command": f"{each}"}, "line\n" * 300))
    return document.answer("So.", *made).user("and now?").answer("Nothing.").bytes()


@shape
def many_calls_in_one_message_of_an_export(size: int) -> bytes:
    export = OpenCodeExport().user("go").assistant()
    for each in range(size // 2_400):
        export.tool("bash", {"command": f"{each} " + "x" * 600}, f"{each} " + "line\n" * 300)
    export.finish("tool-calls").user("and now?").assistant(finish="stop").part("text", text="Nothing.")
    return export.bytes()


def life(session: Path, data: bytes) -> list[float]:
    """Run the commands of a session's life on it; return the seconds of processor time of each."""
    took, small = [], b""
    for command in _LIFE:
        # What one restore puts back, the next one finds as it was before.
        if command[0] == "restore":
            small = small or session.read_bytes()
            session.write_bytes(small)
        begun = time.process_time()
        result = invoke(*command, session.name)
        took.append(time.process_time() - begun)
        assert result.exit_code in (0, 4), result.output
        assert "an error in sessioncompress" not in result.output
        if command[0] == "restore":
            assert session.read_bytes() == data
    return took


@pytest.mark.parametrize("build", SHAPES.values(), ids=SHAPES)
def test_time_grows_as_the_session_does(
    build: Callable[[int], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a session of 1 MB no command takes eight times as long as of a quarter of it; and it comes back as it was."""
    monkeypatch.chdir(tmp_path)
    Path("compression.json").write_text(json.dumps(_POLICY))

    def lived(size: int) -> list[float]:
        data = build(size)
        session = Path(f"{size}.json" if data.startswith(_DOCUMENT) else f"{size}.jsonl")
        session.write_bytes(data)
        return life(session, data)

    lived(_MB // 50)  # what is imported or compiled once
    quarter, whole = lived(_MB // 4), lived(_MB)
    for _ in range(3):  # whatever else the machine did meanwhile
        if not _slow(quarter, whole):
            break
        quarter, whole = (list(map(min, took, lived(size))) for took, size in ((quarter, _MB // 4), (whole, _MB)))
    assert not _slow(quarter, whole)


def _slow(quarter: list[float], whole: list[float]) -> dict[str, tuple[float, float]]:
    took = {" ".join(command): both for command, both in zip(_LIFE, zip(quarter, whole, strict=True), strict=True)}
    return {name: both for name, both in took.items() if both[1] > max(_SOON, _MOST * both[0])}


def test_many_markers_in_a_line_that_its_agent_wrote_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no line that the journal knows: what each marker stands for is looked up by itself."""
    monkeypatch.chdir(tmp_path)

    def put_back(size: int) -> float:
        data = many_results_in_one_line(size)
        session = Path(f"{size}.jsonl")
        session.write_bytes(data)
        invoke(*_LIFE[0], session.name)
        session.write_bytes(session.read_bytes().replace(b'"userType":"external"', b'"userType": "external"'))
        begun = time.process_time()
        invoke("restore", "--from-markers", session.name)
        took = time.process_time() - begun
        assert [json.loads(line) for line in session.read_bytes().splitlines()] == [
            json.loads(line) for line in data.splitlines()
        ]
        return took

    put_back(_MB // 50)
    quarter, whole = put_back(_MB // 4), put_back(_MB)
    assert whole < max(_SOON, _MOST * quarter)
