"""Claude Code's checkpoints: what was said in a session, what is written, and how it is read again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from sessioncompress.checkpoints.cut import for_the_model
from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.core.model import Purpose
from sessioncompress.formats.base import CannotCheckpoint
from sessioncompress.formats.claude import ClaudeReader
from tests.support import texts
from tests.support.checkpoints import Cutting, checkpointed
from tests.support.claude import ClaudeSession, Use
from tests.support.runs import entries, split, survey_of

CONTINUED = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The summary below covers the earlier portion of the conversation.\n\n"
)
READ_ON = "If you need specific details from before compaction (like exact code), read the full transcript at: /a.jsonl"
GO_ON = (
    "Continue the conversation from where it left off without asking the user any further questions. Resume directly"
)
GO_ON_OLDER = (
    "Please continue the conversation from where we left it off without asking the user any further questions."
)


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"content": content}, **more}


def assistant(content: Any, model: str = "claude", **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"model": model, "content": content}, **more}


def attached(kind: str, prompt: str, **more: Any) -> dict[str, Any]:
    return {"type": "attachment", "attachment": {"type": kind, "prompt": prompt, **more}}


def summary(text: str) -> dict[str, Any]:
    return user(text, isCompactSummary=True)


def part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def command(name: str, given: str) -> str:
    named = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
    return f"{named}\n<command-args>{given}</command-args>"


PRINTED = "<bash-stdout></bash-stdout><bash-stderr>done\n</bash-stderr>"
RAN = Utterance(Say.CALL, tool="Bash", call="u1", purpose=Purpose.COMMAND, given={"command": "git push"})
READ = Utterance(Say.CALL, tool="Read", call="t1", purpose=Purpose.READ, given={"file_path": "/a"})
CALLS = [
    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a"}},
    {"type": "tool_use", "id": "t2", "name": "TodoWrite", "input": None},
]
RESULTS = [
    {"type": "tool_result", "tool_use_id": "t1", "content": "Exit code 1", "is_error": True},
    {"type": "tool_result", "tool_use_id": "t2", "content": [part("ok")]},
    part("[Request interrupted by user for tool use]"),
]
FAILED = [
    Utterance(Say.RESULT, "Exit code 1", call="t1", failed=True),
    Utterance(Say.RESULT, "ok", call="t2", failed=False),
]
WAS = [Utterance(Say.SUMMARY, "It was so.")]

NOT_SAID: list[tuple[str, dict[str, Any]]] = [
    ("an empty prompt", user(" ")),
    ("a reminder", user("<system-reminder>\nnew\n</system-reminder>")),
    ("a reminder without an end", user("<system-reminder>\nFix it.")),
    ("a command of the agent", user("<command-name>/clear</command-name>")),
    ("a command without a name", user("<command-message>clear</command-message>")),
    ("what it prints", user("<local-command-stdout>Bye!</local-command-stdout>")),
    ("an interruption", user("[Request interrupted by user for tool use]")),
    ("a notification", user("<task-notification>\n</task-notification>\nRead.")),
    ("another origin", user("Done.", origin={"kind": "task-notification"})),
    ("a meta line", user("Base directory for this skill: /", isMeta=True)),
    ("a subagent's prompt", user("Look.", isSidechain=True)),
    ("a subagent's answer", assistant("Found.", isSidechain=True)),
    ("thinking", assistant([{"type": "thinking", "thinking": "Hm."}])),
    ("an error", assistant("API Error: 500", isApiErrorMessage=True)),
    ("the agent's own", assistant("No response requested.", "<synthetic>")),
    ("a summary of nothing", summary(CONTINUED)),
    ("a note", {"type": "system", "subtype": "local_command", "content": "<command-name>/exit</command-name>"}),
    ("a reminder attached", attached("todo_reminder", "Go.")),
    ("a message of an agent", attached("queued_command", "Go.", origin={"kind": "peer"})),
]

PROMPTS: list[tuple[Any, str]] = [
    ("Fix it.", "Fix it."),
    ("  two\n\nlines ", "  two\n\nlines "),
    ("<div>why?</div>", "<div>why?</div>"),
    ("<system-reminder>\nnew\n</system-reminder>\nFix it.", "Fix it."),
    ("<ide_opened_file>a</ide_opened_file><ide_selection>b</ide_selection>\nFix it.", "Fix it."),
    (command("review", ""), "/review"),
    (command("a:b", "this one"), "/a:b this one"),
    ("<command-name>/compact</command-name>\n  <command-args>keep names</command-args>", "/compact keep names"),
    ([part("a"), {"type": "image"}, part("b")], "a\nb"),
]
"""A user's text, and what it says."""

SAID: list[tuple[str, dict[str, Any], list[Utterance]]] = [
    *((name, entry, []) for name, entry in NOT_SAID),
    *((f"prompt {text}", user(text), [Utterance(Say.PROMPT, words)]) for text, words in PROMPTS),
    ("a prompt that waited", attached("queued_command", "And.", commandMode="prompt"), [Utterance(Say.PROMPT, "And.")]),
    ("a command of the user's", user("<bash-input>git push</bash-input>", uuid="u1"), [RAN]),
    ("what it printed", user(PRINTED, parentUuid="u1"), [Utterance(Say.RESULT, "done", call="u1")]),
    (
        "an answer with calls",
        assistant([part("I look."), *CALLS]),
        [Utterance(Say.ANSWER, "I look."), READ, Utterance(Say.CALL, tool="TodoWrite", call="t2")],
    ),
    ("an answer in one text", assistant("Done."), [Utterance(Say.ANSWER, "Done.")]),
    ("results", user(RESULTS), FAILED),
    ("a summary of ours", summary(f"{CONTINUED}It was so.\n\nRecent messages are preserved verbatim."), WAS),
    ("the agent's", summary(f"{CONTINUED}Summary:\nIt was so.\n\n{READ_ON}\n{GO_ON}"), WAS),
    (
        "an older agent's, with its notes",
        summary(f"{CONTINUED}Analysis:\nLet me see.\n\nSummary:\nIt was so.\n\n{READ_ON}\n{GO_ON_OLDER}"),
        WAS,
    ),
    ("notes alone", summary(f"{CONTINUED}Analysis:\nIt was so."), [Utterance(Say.SUMMARY, "Analysis:\nIt was so.")]),
    ("a summary without a frame", summary("It was so."), WAS),
    ("a quoted order", summary(f"{CONTINUED}So.\n> {GO_ON}"), [Utterance(Say.SUMMARY, f"So.\n> {GO_ON}")]),
]


def said(entry: dict[str, Any]) -> list[Utterance]:
    return list(ClaudeReader().said(entry))


@pytest.mark.parametrize(("entry", "found"), [case[1:] for case in SAID], ids=[case[0] for case in SAID])
def test_what_was_said_is_read(entry: dict[str, Any], found: list[Utterance]) -> None:
    """What the agent puts in itself is not said."""
    assert said(entry) == found


LONG = texts.log_lines(random.Random(1), 60)
OTHER = texts.log_lines(random.Random(2), 60)


def session(**kinds: str) -> ClaudeSession:
    """Return a session of two turns, the first of them long."""
    made = ClaudeSession(**kinds)
    made.user("Go.")
    made.step("Bash", {"command": "make"}, LONG)
    made.respond("Done.")
    made.user("And?")
    made.parallel([Use("Read", {"file_path": "/a"}, "a"), Use("Bash", {"command": "ls"}, OTHER)])
    made.respond("That too.")
    return made


def line_with(data: bytes, text: str) -> int:
    return next(number for number, raw in enumerate(split(data)) if text.encode() in raw)


def cut_at(made: ClaudeSession, text: str) -> Cutting:
    return checkpointed(made.bytes(), first=line_with(made.bytes(), text))


def read_as(data: bytes) -> tuple[list[int], frozenset[int]]:
    found = survey_of(data)
    return for_the_model(found), found.shape.dead


def test_a_first_line_whose_parent_is_missing_does_not_hang_on_it() -> None:
    """The agent goes on at the message before it in time; an attachment may be older than the prompt that it is for."""
    made = ClaudeSession()
    made.branch("00000000-0000-4000-8000-000000000000").user("Go.", timestamp="2026-03-02T09:00:00.815Z")
    made.entry("attachment", attachment={"type": "note"}, timestamp="2026-03-02T09:00:00.814Z")
    made.user("And?")
    made.respond("That too.")
    assert read_as(cut_at(made, "And?").after) == ([2, 3, 4, 5], frozenset({0, 1}))


def ended_by_command() -> ClaudeSession:
    """Return a session that /exit ended: what says that no answer is wanted is a millisecond newer than that."""
    made = session()
    made.user("<local-command-caveat>No answer.</local-command-caveat>", isMeta=True)
    made.user("<command-name>/exit</command-name>", timestamp="2026-03-02T09:00:00.000Z")
    return made


def without_parent() -> ClaudeSession:
    made = session()
    made.branch("00000000-0000-4000-8000-000000000000")
    made.user("Still there?")
    return made


def compacted_late() -> ClaudeSession:
    made = session()
    made.compact("It was so.", entries(made.bytes())[0]["uuid"])
    return made


REFUSED: list[tuple[Callable[[], ClaudeSession], str, str]] = [
    (lambda: session(agent="a1"), "And?", "it is the session of a subagent"),
    (without_parent, "And?", "its messages are not all linked up to the first one that would stay"),
    (compacted_late, "And?", "Claude Code compacted it after the first message that would stay"),
    (ended_by_command, "<command-name>", "a message that would go is newer than all that would stay"),
]


@pytest.mark.parametrize(("make", "text", "why"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_can_have_none(make: Callable[[], ClaudeSession], text: str, why: str) -> None:
    with pytest.raises(CannotCheckpoint) as raised:
        cut_at(make(), text)
    assert raised.value.what == why
    assert raised.value.remedy
