"""Gemini CLI: a list of records, of which the last of an id counts; its older sessions are one JSON document."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from typing import Any

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Answer, Block, Path, Role, Shape, Usage, tokens, within
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import requests, tree, values
from sessioncompress.formats.base import Entry, Head, Name, Reader
from sessioncompress.formats.gemini_parts import FILE_KEYS, PURPOSES, said
from sessioncompress.formats.gemini_reader import HEADER_KEYS, GeminiReader

_TOOLS = frozenset(
    {
        *PURPOSES,
        "replace",
        "list_directory",
        "read_many_files",
        "glob",
        "grep_search",
        "search_file_content",
        "google_web_search",
        "web_fetch",
        "write_todos",
        "save_memory",
        "codebase_investigator",
        "ask_user",
        "activate_skill",
    }
)
_OUTER_KEYS = (*HEADER_KEYS, "startTime")
_MESSAGE_KEYS = frozenset({"id", "timestamp", "type", "content"})


class Gemini(requests.InEntries):
    """Sessions of Gemini CLI."""

    name = "gemini"
    tools = _TOOLS
    kept_tools: frozenset[str] = frozenset()
    listings: frozenset[str] = frozenset()
    links: re.Pattern[str] | None = None
    preamble: re.Pattern[str] | None = None
    frame: re.Pattern[str] | None = None
    answer_marks = (b'"gemini"', b'"error"')

    def recognises(self, head: Head) -> bool:
        """Say whether it names a session and a project first, and goes on with messages of this agent."""
        if head.document is not None:
            return _is_header(values.fields(head.document)) and all(map(_has_message_keys, head.entries))
        if not head.entries or not _is_header(head.entries[0]) or "messages" in head.entries[0]:
            return False
        return all(map(_is_record, head.entries))

    def named(self, head: Head) -> Name:
        """Return the session's id, and the digest of its folder."""
        first = head.entries[0] if head.document is None and head.entries else head.document
        header = values.fields(first)
        if not all(isinstance(header.get(key), str) for key in HEADER_KEYS):
            return Name()
        return Name(values.text(header["sessionId"]), project=values.text(header.get("projectHash")))

    def reader(self) -> Reader:
        """Return a reader for one session."""
        return GeminiReader()

    def shape(self, lines: Lines) -> Shape:
        """Return the messages that a resume reads. All others are dead: nobody can go back to them.

        In a document every message counts; only records have a header among them.
        """
        if Role.HEADER not in lines.roles:
            return Shape(range(len(lines)), frozenset())
        live: dict[str, int] = {}
        read: set[int] = set()
        for number in tree.entries(lines):
            checkpoint = lines.roles[number] is Role.CHECKPOINT
            if checkpoint or lines.facts[number].first:
                live.clear()
            if lines.parents[number]:
                _go_back(live, lines.parents[number])
            elif checkpoint or lines.ids[number]:
                # A message that is written again keeps its place.
                live[lines.ids[number]] = number
                read.add(number)
        path = array("I", live.values())
        return Shape(path, frozenset(read.difference(path)))

    def may_change(self, entry: Entry, path: Path, value: Any) -> bool:
        """Say whether the value at a path of a message may become that one (or be REMOVED)."""
        match path:
            case ("thoughts",):
                return value is REMOVED and entry.get("type") == "gemini"
            case ("toolCalls", int(index), *inner):
                return _may_change_call(values.fields(entry["toolCalls"][index]), tuple(inner), value)
            case ("content", int(index), *inner):
                return _may_change_part(values.fields(entry["content"][index]), tuple(inner), value)
        return False

    def stand_in(self, path: Path, value: Any) -> Any:
        """Return what takes a mirror's place: nothing, as of a call that shows nothing."""
        del path, value
        return REMOVED

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> None:
        """Return nothing: the agent has no words of its own for a result that it cleared."""
        del entry, block, text, now

    def text_part(self, text: str) -> Any:
        """Return a text part."""
        return {"text": text}

    def image(self, part: Any) -> tuple[str, str]:
        """Return an image part's media type and its base64 data."""
        data = values.fields(values.fields(part).get("inlineData"))
        return values.text(data.get("mimeType")), values.text(data.get("data"))

    def answer(self, entry: Entry) -> Answer | None:
        """Return what a message of the model says of its request, or one of the agent of what failed."""
        at = requests.moment(entry.get("timestamp"))
        if entry.get("type") == "error":
            return Answer(error=said(entry.get("content")) or "error", at=at)
        if entry.get("type") != "gemini":
            return None
        return Answer(model=values.text(entry.get("model")), usage=_usage(values.fields(entry.get("tokens"))), at=at)


def _is_header(entry: Mapping[str, Any]) -> bool:
    return "type" not in entry and all(isinstance(entry.get(key), str) for key in _OUTER_KEYS)


def _has_message_keys(entry: Entry) -> bool:
    return entry.keys() >= _MESSAGE_KEYS


def _is_record(entry: Entry) -> bool:
    """Say whether it is a line of this agent: an update, a way back or the like, a message, or the header again."""
    if any(key.startswith("$") for key in entry):
        return len(entry) == 1
    return _is_header(entry) or (_has_message_keys(entry) and isinstance(entry["type"], str))


def _go_back(live: dict[str, int], name: str) -> None:
    """Take a message and all behind it off the path; where it is not there, everything, as the agent does."""
    if name not in live:
        live.clear()
    while live and live.popitem()[0] != name:
        pass


def _may_change_call(call: Mapping[str, Any], path: Path, value: Any) -> bool:
    match path:
        case ("resultDisplay",):
            return value is REMOVED
        case ("args", *_, step):
            return isinstance(value, str) and step not in FILE_KEYS
        case ("result",):
            return isinstance(value, str) and isinstance(call["result"], str)
        case ("result", int(step), *inner):
            return _may_change_part(values.fields(call["result"][step]), tuple(inner), value)
    return False


def _may_change_part(part: Mapping[str, Any], path: Path, value: Any) -> bool:
    """Say whether a part may go, or become a text, or a text in it another one."""
    match path:
        case ():
            gone = value is REMOVED and part.get("thought") is True and "thoughtSignature" not in part
            return gone or (isinstance(value, dict) and "inlineData" in part and "thoughtSignature" not in part)
        case ("functionResponse", "response", "output" | "error"):
            return isinstance(value, str)
        case ("functionCall", "args", *_, step):
            return isinstance(value, str) and step not in FILE_KEYS and "thoughtSignature" not in part
    return False


def _usage(recorded: Mapping[str, Any]) -> Usage | None:
    """Read what was counted: thoughts stand beside the output, and what tools of the vendor put in beside the input."""
    usage = within(
        recorded.get("input"), recorded.get("output"), recorded.get("cached"), None, recorded.get("thoughts")
    )
    put_in = tokens(recorded.get("tool"))
    if usage is None or put_in is None:
        return None
    return usage._replace(input=usage.input + put_in, output=usage.output + usage.reasoning)
