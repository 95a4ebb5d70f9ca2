"""What was said in a session of Gemini CLI, and how the agent writes a summary: as two messages before what is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Said, Say, Summary, Written
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Role
from sessioncompress.core.text import utf8
from sessioncompress.formats import base, values

_NOT_SAID = ("/", "?", "<session_context>", "<hook_context>", "System: Potential loop detected")

SNAPSHOT, SNAPSHOT_END = "<state_snapshot>", "</state_snapshot>"
"""The agent's own tags around a summary, which the model reads as a message of the user."""

THANKS = "Got it. Thanks for the additional context!"
"""What the agent itself has the model answer to a summary."""

ENDED = re.compile(
    r"^Exit Code: -?\d{1,5}$(?=\n(?:Signal|Background PIDs|Process Group PGID): |\s{0,8}\Z)", re.MULTILINE
)
"""The line of a command's result that tells its exit status, within the last 200 characters."""

_SUMMARY = "summary"
_UPDATE = b'{"$set":{"messages":['
_UPDATE_END = b"]}}\n"
"""A line that sets all messages of the session anew, as the agent writes it."""


def said(entry: Mapping[str, Any], call: Callable[[Any, Any, Any], Said]) -> Iterator[Said]:
    """Read what was said in a message; `call` reads a call.

    Results may come twice: with their calls, and in the message in which the model got them.
    """
    content = entry.get("content")
    if entry.get("type") == "gemini":
        yield from _answered(entry, values.items(content) if isinstance(content, list) else [content], call)
    elif entry.get("type") == "user":
        for _, part in values.parts(content):
            yield from _given_back(part)
        text = text_of(content)
        if snapshot := snapshot_in(text):
            yield Said(Say.SUMMARY, snapshot)
        elif asks(text):
            yield Said(Say.PROMPT, text)


def _answered(entry: Mapping[str, Any], parts: Sequence[Any], call: Callable[[Any, Any, Any], Said]) -> Iterator[Said]:
    calls = [made for _, made in values.parts(entry.get("toolCalls"))]
    names = [made.get("id") for made in calls]
    for part in parts:
        text = part if isinstance(part, str) else values.part_text(part)
        thought = bool(values.fields(part).get("thought"))
        if text and not thought and text != THANKS:
            yield Said(Say.ANSWER, text)
        asks = values.fields(values.fields(part).get("functionCall"))
        if asks and asks.get("id") not in names:
            yield call(asks.get("id"), asks.get("name"), asks.get("args"))
    for made in calls:
        yield call(made.get("id"), made.get("name"), made.get("args"))
        name, result = values.text(made.get("id")), made.get("result")
        if isinstance(result, str):
            yield Said(Say.RESULT, result, call=name, failed=_failed(made.get("status"), result))
        found = [each for _, part in values.parts(result) for each in _given_back(part)]
        # After a resume each of several calls holds the results of all.
        for each in found if len(found) == 1 else [one for one in found if one.call == name]:
            yield each._replace(call=name, failed=_failed(made.get("status"), each.text))


def _given_back(part: Mapping[str, Any]) -> Iterator[Said]:
    """Read the result in a part, if it holds one."""
    answer = values.fields(part.get("functionResponse"))
    if answer:
        response = values.fields(answer.get("response"))
        text = next((each for key in ("output", "error") if (each := values.text(response.get(key)))), "")
        failed = True if "error" in response else _failed(None, text)
        yield Said(Say.RESULT, text, call=values.text(answer.get("id")), failed=failed)


def _failed(status: Any, text: str) -> bool | None:
    """Tell whether a call failed, by what is recorded of it and by the exit status in its result."""
    if status in ("error", "cancelled"):
        return True
    codes = ENDED.findall(text[-200:])
    return not codes[-1].endswith(" 0") if codes else False if status == "success" else None


def asks(text: str) -> bool:
    """True if these are words of the user: no command, and nothing that the agent puts there itself."""
    said = text.strip()
    return said not in ("", "Please continue.", "System: Please continue.") and not said.startswith(_NOT_SAID)


def snapshot_in(text: str) -> str:
    """Read the summary that a message is, without its tags; empty where it is none."""
    start, end = text.find(SNAPSHOT), text.rfind(SNAPSHOT_END)
    # A model may think aloud first.
    if start < 0 or end < start or not text.lstrip().startswith((SNAPSHOT, "<scratchpad>")):
        return ""
    return text[start + len(SNAPSHOT) : end].strip()


def text_of(content: Any) -> str:
    """Read the text of a message's content."""
    if isinstance(content, str):
        return content
    texts = (part if isinstance(part, str) else values.fields(part).get("text") for part in values.items(content))
    return "".join(map(values.text, texts))


class LivePath:
    """The messages that a resume reads, line by line: `live` has the last line of each, in the order of their first.

    `begun` is that first line.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.live: dict[str, int] = {}
        self.begun: dict[str, int] = {}

    def add(self, number: int) -> bool:
        """Read the next line, and tell whether it holds a message, or all of them."""
        lines, name = self._lines, self._lines.ids[number]
        # A line that sets all messages, and was not cut into them.
        whole = lines.roles[number] is Role.CHECKPOINT and not name
        if whole or lines.facts[number].first:
            self.live.clear()
        if back := lines.parents[number]:
            # The message and all behind it go; where it is not there, everything, as the agent does.
            if back not in self.live:
                self.live.clear()
            while self.live and self.live.popitem()[0] != back:
                pass
            return False
        if not whole and not name:
            return False
        if name not in self.live:
            self.begun[name] = number
        self.live[name] = number
        return True


def records(session: Written, cut: Cut, summary: Summary) -> Checkpoint:
    """Write the line that sets the messages to the summary, before the first line of what is kept.

    Where that is no line of its own, since all messages were set at once, or where lines behind it belong to messages
    of before, the line stands at the end and repeats what is kept.
    """
    lines, kept = session.lines, list(cut.kept)
    path = LivePath(lines)
    numbers = base.entries(lines)
    for number in numbers:
        path.add(number)
    begin = path.begun[lines.ids[kept[0]]]
    after = LivePath(lines)
    for number in numbers:
        if number >= begin:
            after.add(number)
    messages = _messages(session, cut, summary)
    if list(after.live.values()) == kept and session.raw(begin).endswith(b"\n"):
        return Checkpoint((Addition(begin, _UPDATE + b",".join(messages) + _UPDATE_END),))
    messages += [session.raw(number).strip() for number in kept]
    addition = Addition(len(lines), _UPDATE + b",".join(messages) + _UPDATE_END)
    return Checkpoint((addition,), repeated=frozenset(kept))


def document(session: Written, cut: Cut, summary: Summary) -> Checkpoint:
    """Put the summary in the place of the messages for which it stands."""
    first = cut.kept[0]
    added = (Addition(first, message) for message in _messages(session, cut, summary))
    return Checkpoint(tuple(added), removed=frozenset(range(first)))


def _messages(session: Written, cut: Cut, summary: Summary) -> list[bytes]:
    """Write the summary, and the answer to it."""
    # A line may be slow to find: so only the last few are asked when they were written.
    time = base.newest_time(session, islice(reversed(cut.old), 8))
    text = f"{SNAPSHOT}\n{utf8(summary.text)}\n{SNAPSHOT_END}"
    name = base.uuid_of(_SUMMARY, text)
    asked = {"id": name, "timestamp": time, "type": "user", "content": [{"text": text}]}
    thanks = {"id": base.uuid_of("answer", name), "timestamp": time, "type": "gemini", "content": [{"text": THANKS}]}
    return [values.literal(asked), values.literal(thanks)]


def is_ours(name: str, text: str) -> bool:
    """Tell whether a message is a summary that we wrote, wherever it stands."""
    return name == base.uuid_of(_SUMMARY, text)
