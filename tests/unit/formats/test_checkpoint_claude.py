"""Claude Code's checkpoints: what was said in a session."""

from __future__ import annotations

from typing import Any

import pytest

from sessioncompress.core.checkpoint import Said, Say
from sessioncompress.core.model import Purpose
from sessioncompress.formats.claude import ClaudeReader

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

PROMPTS: list[tuple[str, str]] = [
    ("Fix it.", "Fix it."),
    ("  two\n\nlines ", "  two\n\nlines "),
    ("<div>why?</div>", "<div>why?</div>"),
    ("<system-reminder>\nnew\n</system-reminder>\nFix it.", "Fix it."),
    ("<ide_opened_file>a</ide_opened_file><ide_selection>b</ide_selection>\nFix it.", "Fix it."),
    ("<command-message>review</command-message>\n<command-name>/review</command-name>", "/review"),
    (
        "<command-message>a:b</command-message>\n<command-name>/a:b</command-name>\n<command-args>this one</command-args>",
        "/a:b this one",
    ),
    ("<command-name>/compact</command-name>\n  <command-args>keep names</command-args>", "/compact keep names"),
]
"""A user's text, and what it says."""

NOT_SAID: list[tuple[str, dict[str, Any]]] = [
    ("an empty prompt", {"type": "user", "message": {"content": " "}}),
    ("a reminder", {"type": "user", "message": {"content": "<system-reminder>\nnew\n</system-reminder>"}}),
    ("a reminder without an end", {"type": "user", "message": {"content": "<system-reminder>\nFix it."}}),
    ("a command of the agent", {"type": "user", "message": {"content": "<command-name>/clear</command-name>"}}),
    ("a command without a name", {"type": "user", "message": {"content": "<command-message>clear</command-message>"}}),
    ("what it prints", {"type": "user", "message": {"content": "<local-command-stdout>Bye!</local-command-stdout>"}}),
    ("an interruption", {"type": "user", "message": {"content": "[Request interrupted by user for tool use]"}}),
    ("a notification", {"type": "user", "message": {"content": "<task-notification>\n</task-notification>\nRead."}}),
    ("another origin", {"type": "user", "message": {"content": "Done."}, "origin": {"kind": "task-notification"}}),
    ("a meta line", {"type": "user", "isMeta": True, "message": {"content": "Base directory for this skill: /"}}),
    ("a subagent's prompt", {"type": "user", "isSidechain": True, "message": {"content": "Look."}}),
    ("a subagent's answer", {"type": "assistant", "isSidechain": True, "message": {"content": "Found."}}),
    ("thinking", {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": "Hm."}]}}),
    ("an error", {"type": "assistant", "isApiErrorMessage": True, "message": {"content": "API Error: 500"}}),
    (
        "the agent's own",
        {"type": "assistant", "message": {"model": "<synthetic>", "content": "No response requested."}},
    ),
    ("a summary of nothing", {"type": "user", "isCompactSummary": True, "message": {"content": CONTINUED}}),
    ("a note", {"type": "system", "subtype": "local_command", "content": "<command-name>/exit</command-name>"}),
    ("a reminder attached", {"type": "attachment", "attachment": {"type": "todo_reminder", "prompt": "Go."}}),
    (
        "a message of an agent",
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "Go.", "origin": {"kind": "peer"}}},
    ),
]

OTHERS: list[tuple[str, dict[str, Any], list[Said]]] = [
    (
        "a prompt with a picture",
        {
            "type": "user",
            "message": {"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]},
        },
        [Said(Say.PROMPT, "a\nb")],
    ),
    (
        "a prompt that waited",
        {
            "type": "attachment",
            "attachment": {"type": "queued_command", "prompt": "And that.", "commandMode": "prompt"},
        },
        [Said(Say.PROMPT, "And that.")],
    ),
    (
        "a command of the user's",
        {"type": "user", "uuid": "u1", "message": {"content": "<bash-input>git push</bash-input>"}},
        [Said(Say.CALL, tool="Bash", call="u1", purpose=Purpose.COMMAND, given={"command": "git push"})],
    ),
    (
        "what it printed",
        {
            "type": "user",
            "parentUuid": "u1",
            "message": {"content": "<bash-stdout></bash-stdout><bash-stderr>done\n</bash-stderr>"},
        },
        [Said(Say.RESULT, "done", call="u1")],
    ),
    (
        "an answer with calls",
        {
            "type": "assistant",
            "message": {
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a"}},
                    {"type": "tool_use", "id": "t2", "name": "TodoWrite", "input": None},
                ]
            },
        },
        [
            Said(Say.ANSWER, "I look."),
            Said(Say.CALL, tool="Read", call="t1", purpose=Purpose.READ, given={"file_path": "/a"}),
            Said(Say.CALL, tool="TodoWrite", call="t2"),
        ],
    ),
    (
        "an answer in one text",
        {"type": "assistant", "message": {"content": "Done."}},
        [Said(Say.ANSWER, "Done.")],
    ),
    (
        "results",
        {
            "type": "user",
            "message": {
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "Exit code 1", "is_error": True},
                    {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "ok"}]},
                    {"type": "text", "text": "[Request interrupted by user for tool use]"},
                ]
            },
        },
        [Said(Say.RESULT, "Exit code 1", call="t1", failed=True), Said(Say.RESULT, "ok", call="t2", failed=False)],
    ),
]

SUMMARIES: list[tuple[str, str]] = [
    (f"{CONTINUED}It was so.\n\nRecent messages are preserved verbatim.", "It was so."),
    (f"{CONTINUED}Summary:\n1. It was so.\n\n{READ_ON}\n{GO_ON}", "1. It was so."),
    (f"{CONTINUED}Analysis:\nLet me see.\n\nSummary:\nIt was so.\n\n{READ_ON}\n{GO_ON_OLDER}", "It was so."),
    (f"{CONTINUED}Analysis:\nIt was so.", "Analysis:\nIt was so."),
    ("It was so.", "It was so."),
    (f"{CONTINUED}It was so.\n> {GO_ON}", f"It was so.\n> {GO_ON}"),
]
"""The text of a line with a summary, and the summary."""


def said(entry: dict[str, Any]) -> list[Said]:
    return list(ClaudeReader().said(entry))


@pytest.mark.parametrize(("text", "words"), PROMPTS)
def test_a_prompt_is_the_users_own_words(text: str, words: str) -> None:
    assert said({"type": "user", "message": {"content": text}}) == [Said(Say.PROMPT, words)]


@pytest.mark.parametrize(("name", "entry"), NOT_SAID, ids=[name for name, _ in NOT_SAID])
def test_what_the_agent_puts_in_itself_is_not_said(name: str, entry: dict[str, Any]) -> None:
    assert said(entry) == []


@pytest.mark.parametrize(("name", "entry", "found"), OTHERS, ids=[name for name, *_ in OTHERS])
def test_what_was_said_is_read(name: str, entry: dict[str, Any], found: list[Said]) -> None:
    assert said(entry) == found


@pytest.mark.parametrize(("text", "summary"), SUMMARIES)
def test_a_summary_comes_without_its_frame(text: str, summary: str) -> None:
    entry = {"type": "user", "isCompactSummary": True, "message": {"content": text}}
    assert said(entry) == [Said(Say.SUMMARY, summary)]


@pytest.mark.parametrize("kind", ["user", "assistant", "attachment", "system", None, 3])
@pytest.mark.parametrize("odd", [None, 3, "", [], {}, [None, 3, [], {"type": []}, {"type": "text", "text": 1}]])
def test_odd_values_say_nothing(kind: Any, odd: Any) -> None:
    for entry in ({"message": odd}, {"message": {"content": odd}}, {"attachment": odd, "origin": odd}):
        assert said({"type": kind, **entry}) == []
    assert said({"type": kind, "message": {"content": [{"type": "tool_result", "content": odd}]}}) in (
        [],
        [Said(Say.RESULT, failed=False)],
    )
