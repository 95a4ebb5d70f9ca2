"""Codex: how to recognize a rollout, its live path, what may change in it, and the usage that it records."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from typing import Any

from sessioncompress.core.lines import GrowingPath, Lines
from sessioncompress.core.model import Answer, JsonPath, Shape, tokens, within
from sessioncompress.formats import base, tree, values
from sessioncompress.formats.base import Entry, Head, Name, Reader
from sessioncompress.formats.codex.reader import (
    CALLS,
    FRAME,
    PAYLOAD,
    PREAMBLE,
    RESULTS,
    SKILLS,
    TEXT_PARTS,
    RolloutReader,
    arguments_of,
    event_may_become,
    reasoning_may_become,
    wrapped,
)

_WINDOW = "model_context_window"
_USAGE = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "reasoning_output_tokens",
)


_FILE_KEYS = frozenset({"path", "file_path", "workdir", "cwd"})
_TOOLS = (
    "exec_command exec shell shell_command local_shell write_stdin apply_patch update_plan view_image patch_apply "
    "mcp_tool_call"
)


class Codex(base.Format):
    """Rollouts of Codex CLI, from the form that begins with `session_meta` on."""

    name = "codex"
    tools = frozenset(_TOOLS.split())
    listings = frozenset({SKILLS})
    preamble = PREAMBLE
    frame: re.Pattern[str] | None = FRAME
    answer_marks = (b'"token_count"', b'"turn_context"', b'"task_started"', b'"error"')

    def recognizes(self, head: Head) -> bool:
        if not head.entries or head.entries[0].get("type") != "session_meta":
            return False
        header = head.entries[0]
        meta = values.fields(header.get(PAYLOAD))
        return all(isinstance(each, str) for each in (header.get("timestamp"), meta.get("id"), meta.get("cwd")))

    def named(self, head: Head) -> Name:
        header = head.entries[0] if head.entries else {}
        meta = values.fields(header.get(PAYLOAD)) if header.get("type") == "session_meta" else {}
        parent = values.text(meta.get("forked_from_id"))
        return Name(values.text(meta.get("id")), (parent,) if parent else (), values.text(meta.get("cwd")))

    def reader(self) -> Reader:
        return RolloutReader()

    def shape(self, lines: Lines) -> Shape:
        """Take the lines in their order, without the turns that were taken back; dead is all before a checkpoint.

        Versions of Codex differ in whether each user message of a task is a turn of its own. Whole tasks are taken off
        the path: a line too many is old, but with one too few a checkpoint that is gone could make what is read dead.
        """
        live = GrowingPath(lines)
        for number in tree.entries(lines):
            if back := lines.facts[number].back:
                live.take_back(back)
            live.add(number)
        return Shape(array("I", live.path), frozenset(tree.dead(lines, live.path)))

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        payload, inner = values.fields(entry.get(PAYLOAD)), path[1:]
        if path[:1] != (PAYLOAD,):
            return False
        match entry.get("type"), inner:
            case "response_item", _:
                return reasoning_may_become(payload, inner, value) or _may_change_item(payload, inner, value)
            case "event_msg", _:
                return event_may_become(payload, inner, value)
            case "compacted", ("replacement_history", int(index), "content", *part):
                return _may_change_part(payload["replacement_history"][index]["content"], tuple(part), value)
        return False

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        """Give an empty one of its type, since Codex reads such a value there."""
        del path
        return type(value)()

    def text_part(self, text: str) -> Any:
        return {"type": "input_text", "text": text}

    def answer(self, entry: Entry) -> Answer | None:
        """Read what an event says of the request before it, or which model those behind it go to."""
        payload = values.fields(entry.get(PAYLOAD))
        match entry.get("type"), payload.get("type"):
            case "turn_context", _:
                found = Answer(model=values.text(payload.get("model")))
            case "event_msg", "task_started":
                found = Answer(window=tokens(payload.get(_WINDOW)) or 0)
            case "event_msg", "error":
                found = Answer(error=values.text(payload.get("message")) or "error")
            case "event_msg", "token_count":
                # It stands behind the results of the calls of its response, and may be written again. Behind a
                # compaction it is no count but an estimate, in its total alone: that is no usage.
                info = values.fields(payload.get("info"))
                last = values.fields(info.get("last_token_usage"))
                found = Answer(usage=within(*map(last.get, _USAGE)), window=tokens(info.get(_WINDOW)) or 0)
            case _:
                return None
        return found._replace(at=base.moment(entry.get("timestamp")))


def _may_change_item(item: Mapping[str, Any], path: JsonPath, value: Any) -> bool:
    kind = values.text(item.get("type"))
    if kind in CALLS:
        return isinstance(value, str) and _may_change_argument(item, CALLS[kind], path)
    match path:
        case ("output",):
            output = item.get("output")
            return kind in RESULTS and isinstance(value, str) and isinstance(output, str) and wrapped(output) is None
        case ("output", "output"):
            return kind in RESULTS and isinstance(value, str) and wrapped(values.text(item.get("output"))) is not None
        case ("output", *part):
            return kind in RESULTS and _may_change_part(item.get("output"), tuple(part), value)
        case ("content", *part):
            return kind == "message" and _may_change_content(item, tuple(part), value)
    return False


def _may_change_argument(item: Mapping[str, Any], arguments: JsonPath, path: JsonPath) -> bool:
    """Tell whether the text at a path may become another; a string that holds JSON only changes inside."""
    if path == arguments:
        now = arguments_of(item, arguments)
        return isinstance(now, str) and values.given(now) is now
    return path[: len(arguments)] == arguments and path[-1] not in _FILE_KEYS


def _may_change_content(item: Mapping[str, Any], path: JsonPath, value: Any) -> bool:
    """Tell whether an image of a message may become that text, or a list of skills that one, in its tags."""
    content = values.items(item.get("content"))
    match path:
        case (int(index), "text"):
            if item.get("role") != "developer" or not FRAME.fullmatch(values.part_text(content[index])):
                return False
            return isinstance(value, str) and FRAME.fullmatch(value) is not None
    return _may_change_part(content, path, value)


def _may_change_part(parts: Any, path: JsonPath, value: Any) -> bool:
    """Tell whether a text of a content part may become that text, or an image that part."""
    match path:
        case (int(index), "text"):
            return isinstance(value, str) and _type_of(values.items(parts)[index]) in TEXT_PARTS
        case (int(index),):
            return isinstance(value, dict) and _type_of(values.items(parts)[index]) == "input_image"
    return False


def _type_of(part: Any) -> str:
    return values.text(values.fields(part).get("type"))
