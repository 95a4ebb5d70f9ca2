"""Whose session a file is: by what it holds, never by its name, and nobody's where that is not plain."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from sessioncompress.errors import UsageError
from sessioncompress.formats.base import HEAD_LINES, Format, Head
from sessioncompress.formats.pi import FamilyFormat
from sessioncompress.formats.table import (
    FIRST_BYTES,
    NAMELESS,
    NAMES,
    TABLE,
    agent_named,
    detect,
    folded,
    format_named,
    head_of,
    may_be_session,
)
from tests.support.build import (
    ClaudeSession,
    OmpAnthropicSession,
    OmpGeminiSession,
    OmpSession,
    OpenClawSession,
    PiSession,
)
from tests.support.chats import GenCodeSession
from tests.support.documents import OpenCodeExport
from tests.support.records import GeminiRecords
from tests.support.rollout import Rollout
from tests.support.runs import FIXTURES, head_of_file
from tests.support.stories import STORIES

CODEX = {"timestamp": "2026", "type": "session_meta", "payload": {"id": "x", "cwd": "/tmp"}}
HEADER = {"type": "session", "version": 3, "id": "x", "timestamp": "2026-03-02T09:00:00.000Z", "cwd": "/tmp"}

GEMINI = {"sessionId": "x", "projectHash": "y", "startTime": "2026", "lastUpdated": "2026", "kind": "main"}
PROMPT = {"id": "1", "timestamp": "2026", "type": "user", "content": [{"text": "hello"}]}
ASKED = {"role": "user", "content": "hello"}
SAID = {"role": "assistant", "content": "Good morning."}
CALL = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}

TREE = {"parentUuid": None, "isSidechain": False, "uuid": "x", "sessionId": "y"}

ALL = sorted(STORIES)


def every() -> list[Format]:
    return [format_named(row.name) for row in TABLE]


def lines(*entries: Any) -> list[bytes]:
    return [json.dumps(entry).encode() + b"\n" for entry in entries]


def without(key: str, **more: Any) -> dict[str, Any]:
    return {name: value for name, value in HEADER.items() if name != key} | more


NOBODY: list[tuple[str, list[bytes]]] = [
    ("nothing", []),
    ("no JSON", [b"hello\n", b"world\n"]),
    ("a list", lines([HEADER])),
    ("an empty object", lines({})),
    ("no id", lines(without("id"))),
    ("no time", lines(without("timestamp"))),
    ("no folder", lines(without("cwd"))),
    ("an id that is a number", lines({**HEADER, "id": 7})),
    ("a time that is null", lines({**HEADER, "timestamp": None})),
    ("a header behind other entries", lines({"type": "message"}, HEADER)),
    ("a header behind two titles", lines({"type": "title"}, {"type": "title"}, HEADER)),
    ("a harness that dates its header otherwise", lines({**HEADER, "createdAt": "2026"})),
    ("a harness that numbers its lines", lines(HEADER, {"type": "user/message", "seq": 1})),
    ("a line that hangs on none and names no session", lines({"type": "user", "uuid": "x", "parentUuid": None})),
    ("a session id alone", lines({"type": "user", "sessionId": "y"})),
    ("a note without its session", lines({"type": "summary", "summary": "x"})),
    ("notes beside no tree", lines({"type": "progress", "sessionId": "y", "data": {"log": "x"}})),
    ("a summary of no tree", lines({"type": "summary", "leafUuid": "x"})),
    ("a type of tomorrow beside a session id", lines({"type": "new", "sessionId": "y"})),
    ("a list of prompts", lines([{"sessionId": "x", "messageId": 0, "type": "user", "message": "hello"}])),
    (
        "a harness that hangs its lines together as Claude Code does",
        lines({**TREE, "type": "user", "message": {"role": "user", "parts": [{"text": "hello"}]}}),
    ),
    ("lines of Claude Code behind another's header", lines({"type": "session_meta"}, {**TREE, "type": "user"})),
    ("Codex without an id", lines({**CODEX, "payload": {"cwd": "/tmp"}})),
    ("Codex without a folder", lines({**CODEX, "payload": {"id": "x"}})),
    ("Codex without a time", lines({key: value for key, value in CODEX.items() if key != "timestamp"})),
    ("a payload that is a list", lines({**CODEX, "payload": ["id", "cwd"]})),
    ("Codex's header behind other lines", lines({"timestamp": "2026", "type": "event_msg", "payload": {}}, CODEX)),
    ("Codex's items without their header", lines({"type": "message", "role": "user", "content": []})),
    ("Codex of mid-2025", lines({"id": "x", "timestamp": "2025", "instructions": None}, {"record_type": "state"})),
    ("Gemini CLI without a project", lines({**GEMINI, "projectHash": None})),
    ("Gemini CLI, a header that holds the messages", lines({**GEMINI, "messages": []}, PROMPT)),
    ("Gemini CLI's header behind its messages", lines(PROMPT, GEMINI)),
    ("Gemini CLI's header before lines of another", lines(GEMINI, {"type": "user", "uuid": "x"})),
    ("Gemini CLI's header before messages of unknown types", lines(GEMINI, {**PROMPT, "type": ["user"]})),
    ("an update with something beside it", lines(GEMINI, {"$set": {}, "id": "x"})),
    ("a conversation a line", lines({"messages": [ASKED, SAID]}, {"messages": [ASKED, SAID]})),
    ("prompts alone", lines(ASKED, ASKED)),
    ("a chat behind a header", lines({"working_dir": "/tmp"}, ASKED, SAID)),
    ("a chat with another line in it", lines(ASKED, SAID, {"event": "x"})),
    ("a chat with a role of its own", lines(ASKED, SAID, {"role": "model", "content": "x"})),
    ("a long chat with a role of its own", lines(*[ASKED, SAID] * 20, {"role": "_usage", "token_count": 7})),
    ("a long chat behind a header", lines({"working_dir": "/tmp"}, *[ASKED, SAID] * 20)),
    ("a chat with a role that is none", lines(ASKED, SAID, {"role": ["user"], "content": "x"})),
    ("a chat with keys of its own", lines(ASKED, {**SAID, "parts": []})),
    (
        "a chat with Anthropic's calls",
        lines(ASKED, {**SAID, "content": [{"type": "tool_use", "id": "x", "input": {}}]}),
    ),
    ("a chat whose content is an object", lines(ASKED, {**SAID, "content": {}})),
    ("a chat whose arguments are objects", lines(ASKED, {**SAID, "tool_calls": [{"function": {"arguments": {}}}]})),
    ("a chat whose user calls tools", lines({**ASKED, "tool_calls": [CALL]}, SAID)),
    ("a chat whose results name no call", lines(ASKED, {"role": "tool", "content": "x"})),
]


def _with(foreign: Any, *, at: int, of: int, name: str) -> list[bytes]:
    """Return the first `of` lines of a fixture, with others put in at a place, or at several."""
    raw = (FIXTURES / name).read_bytes().splitlines(keepends=True)[:of]
    return [*raw[:at], *lines(*foreign), *raw[at:]]


OTHERS = [{"a": 1}], [{"type": "custom", "customType": "x"}], [{"event": "x"}, {"event": "y"}]
BY_LINES = {"gemini.jsonl": "gemini", "qwen.jsonl": "qwen", "copilot.jsonl": "copilot", "chat.jsonl": "openai-chat"}


@pytest.mark.parametrize("name", BY_LINES)
@pytest.mark.parametrize("others", OTHERS)
def test_a_line_that_somebody_else_put_in_hides_no_session(name: str, others: list[Any]) -> None:
    """Unless it stands first, where a header of another program stands, or there are many."""
    for at in (1, 20, 40):
        assert (form := detect(head_of(_with(others, at=at, of=40, name=name)))) is not None
        assert form.name == BY_LINES[name]
    assert detect(head_of(_with(others, at=0, of=40, name=name))) is None
    assert detect(head_of(_with(others * 3, at=20, of=40, name=name))) is None
    assert detect(head_of(_with(others, at=5, of=10, name=name))) is None


LOOK_ALIKES: list[tuple[str, bytes]] = [
    ("Gemini CLI's list of prompts", b'[{"sessionId":"x","messageId":0,"type":"user","message":"hello"}]'),
    ("Gemini CLI's saved chat", b'{"history":[{"role":"user","parts":[{"text":"hello"}]}]}'),
    (
        "Gemini CLI's snapshot of files",
        b'{"history":[],"clientHistory":[],"toolCall":{"name":"replace"},"commitHash":"x"}',
    ),
    ("a list of conversations", json.dumps([{"messages": [ASKED, SAID]}]).encode()),
    ("gencode without metadata", json.dumps({"messages": [{**SAID, "content": [{"type": "tool_use"}]}]}).encode()),
    ("gencode of a model unnamed", json.dumps({"metadata": {"id": "x"}, "messages": [ASKED]}).encode()),
    ("a document of prompts", json.dumps({"messages": [ASKED]}).encode()),
    ("a document without messages in it", b'{"messages":[]}'),
    ("an empty list", b"[]"),
]
"""Files of agents that are no sessions of theirs, and documents that are nobody's."""

SOMEBODY: list[tuple[str, list[bytes], str]] = [
    ("pi", PiSession().opening().lines(), "pi"),
    ("pi without a version", PiSession(1).lines(), "pi"),
    ("pi, an unknown version", lines({**HEADER, "version": 99}), "pi"),
    ("pi with a byte order mark", [b"\xef\xbb\xbf" + PiSession().lines()[0]], "pi"),
    ("pi with entries of odd types", lines(HEADER, {"type": []}, {"type": {}}, {"type": None, "customType": []}), "pi"),
    ("pi with CRLF", [line[:-1] + b"\r\n" for line in PiSession().lines()], "pi"),
    ("pi behind a line that is no JSON", [b"{torn\n", *PiSession().lines()], "pi"),
    ("pi behind a blank line", [b"\n", *PiSession().lines()], "pi"),
    ("oh-my-pi", OmpSession().lines(), "oh-my-pi"),
    ("oh-my-pi, other APIs", OmpGeminiSession().lines(), "oh-my-pi"),
    ("oh-my-pi without a title slot", OmpAnthropicSession().opening().lines()[1:], "oh-my-pi"),
    ("OpenClaw", OpenClawSession().opening().lines(), "openclaw"),
    ("Claude Code", ClaudeSession().turn().lines(), "claude-code"),
    ("Claude Code by a line of its tree", lines({**TREE, "type": "user"}), "claude-code"),
    (
        "Claude Code behind a note",
        lines({"type": "queue-operation", "sessionId": "y"}, {**TREE, "type": "user"}),
        "claude-code",
    ),
    ("Claude Code behind lines of unknown types", lines({"type": []}, {}, {**TREE, "type": "system"}), "claude-code"),
    ("a subagent of Claude Code", ClaudeSession(agent="a1").turn().lines(), "claude-code"),
    ("Codex", Rollout().lines(), "codex"),
    ("Codex with ordinals", Rollout(ordinals=True).lines(), "codex"),
    ("Codex, a header of a few keys", lines(CODEX), "codex"),
    ("Gemini CLI", GeminiRecords().user("hello").lines(), "gemini"),
    ("Gemini CLI with nothing said yet", GeminiRecords().lines(), "gemini"),
    ("Gemini CLI, resumed and gone back", GeminiRecords().user("hello").resume().back(0).lines(), "gemini"),
    ("a chat", lines(ASKED, SAID), "openai-chat"),
    ("a chat with calls", lines(ASKED, {**SAID, "content": None, "tool_calls": [CALL]}), "openai-chat"),
    ("a chat without a prompt", lines({"role": "tool", "tool_call_id": "x", "content": "x"}), "openai-chat"),
    ("a chat in parts", lines(ASKED, {**SAID, "content": [{"type": "text", "text": "x"}]}), "openai-chat"),
    ("OpenClaw by a later entry", lines(HEADER, {"type": "custom", "customType": "openclaw.cache-ttl"}), "openclaw"),
]


@pytest.mark.parametrize("raw", [case[1] for case in NOBODY], ids=[case[0] for case in NOBODY])
def test_nobodys(raw: list[bytes]) -> None:
    assert detect(head_of(raw)) is None


@pytest.mark.parametrize(("raw", "name"), [case[1:] for case in SOMEBODY], ids=[case[0] for case in SOMEBODY])
def test_somebodys(raw: list[bytes], name: str) -> None:
    """By the header and by entries that only one agent writes."""
    form = detect(head_of(raw))
    assert form is not None
    assert form.name == name


def of_file(data: bytes) -> str | None:
    form = detect(head_of_file(data))
    return form.name if form else None


@pytest.mark.parametrize("data", [case[1] for case in LOOK_ALIKES], ids=[case[0] for case in LOOK_ALIKES])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_look_alikes(data: bytes, end: bytes) -> None:
    """They are refused, in one line or in many."""
    assert of_file(data + end) is None
    assert of_file(json.dumps(json.loads(data), indent=2).encode() + end) is None


def test_documents() -> None:
    """A chat may be a list, or stand in an object."""
    chat = {"model": "x", "messages": [ASKED, SAID]}
    for each in (chat, chat["messages"], {"messages": chat["messages"]}):
        assert of_file(json.dumps(each).encode()) == "openai-chat"
        assert of_file(json.dumps(each, indent=1).encode()) == "openai-chat"
    assert of_file(GenCodeSession().message("user", "hello").bytes()) == "gencode"


OF_GENCODE = GenCodeSession().outer
OF_OPENCODE = OpenCodeExport().outer
EXPORTED = OpenCodeExport().user("hello").messages
OF_GEMINI = {**GEMINI, "messages": []}
DOCUMENTS: list[tuple[str, Any, list[Any], str | None]] = [
    ("gencode in lines", None, [ASKED], None),
    ("gencode without a model", {"metadata": {**OF_GENCODE["metadata"], "model": 7}}, [ASKED], None),
    ("metadata that is a list", {"metadata": []}, [ASKED], None),
    ("other roles", OF_GENCODE, [{"role": "tool", "content": "x"}], None),
    ("a role that is none", OF_GENCODE, [{"role": [], "content": "x"}], None),
    ("a placeholder, not content", OF_GENCODE, [{"role": "user"}], None),
    ("OpenCode in lines", None, EXPORTED, None),
    ("OpenCode without a project", {"info": {"id": "x", "directory": "/tmp"}}, EXPORTED, None),
    ("OpenCode with other messages", OF_OPENCODE, [ASKED], None),
    ("Gemini CLI in lines", None, [PROMPT], None),
    ("another document with Gemini CLI's messages", {"info": {}, "messages": []}, [PROMPT], None),
    ("Gemini CLI with other messages", OF_GEMINI, [ASKED], None),
    ("a list of OpenCode's messages", [], EXPORTED, None),
    ("a list of Gemini CLI's messages", [], [PROMPT], None),
    ("gencode", OF_GENCODE, [ASKED, SAID], "gencode"),
    ("gencode without messages", OF_GENCODE, [], "gencode"),
    ("OpenCode", OF_OPENCODE, EXPORTED, "opencode"),
    ("OpenCode without messages", OF_OPENCODE, [], "opencode"),
    ("Gemini CLI", OF_GEMINI, [PROMPT], "gemini"),
    ("Gemini CLI without messages", OF_GEMINI, [], "gemini"),
]


@pytest.mark.parametrize(
    ("outer", "messages", "name"), [case[1:] for case in DOCUMENTS], ids=[case[0] for case in DOCUMENTS]
)
def test_documents_by_what_they_hold(outer: Any, messages: list[Any], name: str | None) -> None:
    form = detect(head_of(lines(*messages), outer))
    assert (form and form.name) == name


@pytest.mark.parametrize("name", ALL)
def test_fixtures(name: str) -> None:
    assert of_file((FIXTURES / name).read_bytes()) == STORIES[name].form


def test_only_the_first_lines_are_looked_at() -> None:
    """A session of 10 GB is told as fast as a small one."""
    read = 0

    def endless() -> Any:
        nonlocal read
        while True:
            read += 1
            yield PiSession().lines()[0]

    assert detect(head_of(endless())) is not None
    assert read <= HEAD_LINES + 1


NAMED = [
    *(("claude", "claude-code"), ("Claude Code", "claude-code"), ("cc", "claude-code"), ("Codex CLI", "codex")),
    *(
        ("Gemini-CLI", "gemini"),
        ("omp", "oh-my-pi"),
        ("oh my pi", "oh-my-pi"),
        ("OhMyPi", "oh-my-pi"),
        ("pi-mono", "pi"),
        ("gitclaw", "pi"),
    ),
    *(("clawdbot", "openclaw"), ("Open Code", "opencode"), ("openai", "openai-chat"), ("gen", "gencode")),
    *(("GitHub Copilot CLI", "copilot"), ("Qwen Code", "qwen")),
]
MISNAMED = [("cluade", "claude-code"), ("codx", "codex"), ("geminy", "gemini"), ("oh_my_pi", "oh-my-pi")]


@pytest.mark.parametrize(("name", "agent"), NAMED)
def test_an_agent_has_usual_names_too(name: str, agent: str) -> None:
    assert agent_named(name) == agent
    assert format_named(name).name == agent


@pytest.mark.parametrize(("name", "agent"), MISNAMED)
def test_an_agent_that_is_misspelled(name: str, agent: str) -> None:
    """The error has the name that was meant, if it is one of those that may be named."""
    with pytest.raises(UsageError, match=f"did you mean {agent}"):
        agent_named(name)
    with pytest.raises(UsageError, match=f"'{name}' is not one of pi, openclaw. Nothing was done."):
        agent_named(name, ("pi", "openclaw"))
    assert agent_named(agent) == agent


def test_no_name_is_that_of_two_agents() -> None:
    """However it is typed; and all are in lower case."""
    names = [name for row in TABLE for name in (row.name, *row.also)]
    assert len(set(map(folded, names))) == len(names)
    assert [name.lower() for name in names] == names


@pytest.mark.parametrize("name", [name for name in ALL if name.endswith(".json") and "/" not in name])
def test_documents_are_met_in_folders(name: str) -> None:
    """A walk looks at their beginnings only: what tells them stands there, also where a message is long.

    Of a chat nothing tells whose it is: it must be named.
    """
    data = (FIXTURES / name).read_bytes()
    assert may_be_session(data[:FIRST_BYTES]) is (of_file(data) not in NAMELESS)


@pytest.mark.parametrize(
    "first", [b"", b"{}", b'{"name": "x", "info": {}}', b'{"sessionId": "x"}', b'{"projectID": 1, "directory": 2}']
)
def test_other_documents_are_not(first: bytes) -> None:
    """One key of a session is found in many files."""
    assert not may_be_session(first)


def test_tools_are_in_lower_case() -> None:
    assert all(tool == tool.lower() for form in every() for tool in form.tools)


@pytest.mark.parametrize("name", [row.name for row in TABLE])
def test_a_format_recognizes_nothing_without_its_sign(name: str) -> None:
    row, form = next(row for row in TABLE if row.name == name), format_named(name)
    heads = [head_of_file((FIXTURES / each).read_bytes()) for each in ALL]
    for header in (CODEX, HEADER, GEMINI, TREE, ASKED, SAID):
        for behind in ((), (PROMPT,), (ASKED, SAID), (TREE,), (HEADER,)):
            heads.append(Head((header, *behind)))
            heads.append(Head(behind, {"messages": [], "info": header, "metadata": header, **header}))
    recognized = [head for head in heads if form.recognizes(head)]
    assert recognized
    assert all(map(row.shows, recognized))
    assert not row.shows(Head(()))


def test_the_table_says_what_the_formats_say() -> None:
    """Names are asked for before any format is imported."""
    assert [row.name for row in TABLE] == [form.name for form in every()]
    assert {"pi", *(row.name for row in TABLE if row.is_relative)} == {
        form.name for form in every() if isinstance(form, FamilyFormat)
    }
    assert frozenset(NAMES) >= NAMELESS


def test_only_the_format_of_a_session_is_imported() -> None:
    """To import all takes longer than a small session."""
    program = (
        "import sys\nfrom sessioncompress.formats.table import detect, head_of\n"
        "assert detect(head_of(open(sys.argv[1], 'rb'))).name == 'codex'\n"
        "print(*sorted(name for name in sys.modules if name.startswith('sessioncompress.formats.')))"
    )
    command = [sys.executable, "-c", program, str(FIXTURES / "codex.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert "codex" in modules
    assert modules.isdisjoint({"claude", "pi", "gemini", "opencode", "chat"})
