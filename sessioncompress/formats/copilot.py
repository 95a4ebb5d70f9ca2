"""GitHub Copilot CLI: a log of events in order, including events of subagents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sessioncompress.core import model
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Say, Summary, Utterance, Written
from sessioncompress.core.model import PLAIN, Answer, Block, Facts, JsonPath, Kind, Line, Purpose, Role, Treatment
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import base, values
from sessioncompress.formats.base import Entry, Head, Name, line_of

_DATA = "data"
_THOUGHTS = ("reasoningBlocks", "reasoningOpaque", "reasoningText")
_SEALED = ("encryptedContent", "serverTools", "citations")
"""Keys that bind an answer to its thinking, or to results of the vendor's own tools."""

_COPIES: Sequence[JsonPath] = tuple(
    (_DATA, "result", key) for key in ("detailedContent", "contents", "structuredContent")
)
"""The screen copies in the event of a tool result."""

_UNREAD: Mapping[str, tuple[JsonPath, ...]] = {
    "tool.execution_complete": ((_DATA, "toolTelemetry"),),
    "system.message": ((_DATA, "content"), (_DATA, "contentBlocks")),
    "model.messages_snapshot": ((_DATA, "messages"),),
}
"""By event type, values that neither a resume nor a screen reads. The agent sends its instructions again."""

_STATES: Mapping[str, tuple[JsonPath, ...]] = {
    "session.shutdown": tuple((_DATA, key) for key in ("accountingSnapshot", "providerModelMetrics", "agentMetrics")),
}
"""Accounts: a resume continues from the newest."""

_REQUIRED = ((_DATA, "content"), (_DATA, "messages"))
"""The agent rejects an event without these copies, so they become empty."""

_COMPACTED = "session.compaction_complete"


class CopilotReader(base.Reader):
    """Reads the events of one session. The model reads no events of subagents."""

    purposes: Mapping[str, Purpose] = {
        "view": Purpose.READ,
        "create": Purpose.WRITE,
        **dict.fromkeys(("bash", "powershell", "read_bash", "read_powershell"), Purpose.COMMAND),
        "task": Purpose.AGENT,
    }
    linking = ("type", "id", "timestamp", "agentId")

    def line(self, raw: bytes, entry: Entry) -> Line:
        kind, data = entry.get("type"), values.fields(entry.get(_DATA))
        line = line_of(raw, Role.OTHER, (), values.text(entry.get("id")))
        if kind == "session.start":
            line = line._replace(role=Role.HEADER)
        elif kind == "assistant.message":
            line = self._answer(line, data)
        elif kind == "tool.execution_complete":
            line = self._result(line, entry, data)
        elif kind == "user.message":
            sent = values.text(data.get("transformedContent")) or values.text(data.get("content"))
            line = line._replace(role=Role.USER if _asks(entry, data) else Role.OTHER, reads=len(sent))
        elif summary := _summary(entry):
            line = line._replace(role=Role.CHECKPOINT, reads=len(summary))
        if entry.get("agentId"):
            line = line._replace(io=0, reads=0, role=Role.OTHER if line.role is Role.CHECKPOINT else line.role)
        return line._replace(blocks=line.blocks + tuple(self._copies(entry, data)))

    def may_prompt(self, raw: bytes) -> bool:
        return b'"user.message"' in raw

    def said(self, entry: Entry) -> Iterator[Utterance]:
        """Yield the utterances in an event, ignoring subagents."""
        kind, data = entry.get("type"), values.fields(entry.get(_DATA))
        if entry.get("agentId"):
            return
        text = values.text(data.get("content"))
        if kind == "user.message" and _asks(entry, data) and text.strip():
            yield Utterance(Say.PROMPT, text)
        elif kind == "assistant.message":
            if text.strip():
                yield Utterance(Say.ANSWER, text)
            for _, made in values.parts(data.get("toolRequests")):
                yield self.said_call(made.get("toolCallId"), made.get("name"), _given(made.get("arguments")))
        elif kind == "tool.execution_complete":
            text = values.text(values.at(data, ("result", "content"))) or values.text(
                values.at(data, ("error", "message"))
            )
            yield Utterance(Say.RESULT, text, call=values.text(data.get("toolCallId")), failed=_failed(data))
        elif summary := _summary(entry):
            yield Utterance(Say.SUMMARY, summary)

    def _answer(self, line: Line, data: Mapping[str, Any]) -> Line:
        blocks: list[Block] = []
        calls: list[model.Call] = []
        text, io = values.text(data.get("content")), 0
        for index, made in values.parts(data.get("toolRequests")):
            given, path = made.get("arguments"), (_DATA, "toolRequests", index, "arguments")
            calls.append(call := self.call(made.get("toolCallId"), made.get("name"), _given(given)))
            if isinstance(given, str):
                blocks += values.long_text(Kind.ARGUMENT, path, given, call.tool, call.name)
                io += len(given)
            else:
                io += values.arguments(path, given, call, blocks)
        thinks = any(data.get(key) for key in (*_THOUGHTS, *_SEALED))
        if (text.strip() or calls) and not any(data.get(key) for key in _SEALED):
            for key in _THOUGHTS:
                if data.get(key):
                    blocks += values.thinking((_DATA, key), data[key])
        thought = values.thought(data.get("reasoningText"), data.get("reasoningOpaque"))
        return line._replace(
            role=Role.ASSISTANT,
            blocks=tuple(blocks),
            calls=tuple(calls),
            io=io,
            reads=len(text) + thought + io + values.CALL * len(calls),
            facts=Facts(thinks=True) if thinks else PLAIN,
            response=values.text(data.get("apiCallId")) if data.get("chunkCount") else "",
        )

    def _result(self, line: Line, entry: Entry, data: Mapping[str, Any]) -> Line:
        call, blocks, io = self.answered(data.get("toolCallId")), list[Block](), 0
        for inner in (("result", "content"), ("error", "message")):
            if text := values.text(values.at(data, inner)):
                io += len(text)
                blocks += values.long_text(Kind.RESULT, (_DATA, *inner), text, call.tool, call.name)
        for path in _COPIES:
            # For a read without such a copy, the screen shows the result that the model got.
            unseen = call.purpose is Purpose.READ
            blocks += values.whole(Kind.MIRROR, path, values.at(entry, path), call.tool, call.name, unseen=unseen)
        facts = Facts(failed=True) if _failed(data) else PLAIN
        reads = io + values.RESULT
        return line._replace(role=Role.RESULT, blocks=tuple(blocks), answers=call.name, io=io, reads=reads, facts=facts)

    def _copies(self, entry: Entry, data: Mapping[str, Any]) -> Iterator[Block]:
        """Yield the screen copies in an event, and values that repeat others."""
        kind, name = values.text(entry.get("type")), values.text(data.get("toolCallId"))
        tool = values.text(data.get("toolName"))
        if kind == "tool.execution_start":
            given = data.get("arguments")
            strings = values.fields(given).items() if isinstance(given, dict) else [("", given)]
            for key, value in strings:
                if isinstance(value, str) and key not in values.PLACE_KEYS:
                    place = (_DATA, "arguments", *filter(None, [key]))
                    yield from values.whole(Kind.MIRROR, place, value, tool, name)
        for path in _UNREAD.get(kind, ()):
            yield from values.whole(Kind.MIRROR, path, values.at(entry, path), "", name or kind, unseen=True)
        for path in _STATES.get(kind, ()):
            yield from values.whole(Kind.MIRROR, path, values.at(entry, path), kind, "", unseen=True)


def _asks(entry: Entry, data: Mapping[str, Any]) -> bool:
    """True if a person asked the model something."""
    source = values.text(data.get("source"))
    return not entry.get("agentId") and data.get("isAutopilotContinuation") is not True and source in ("", "user")


def _given(arguments: Any) -> Any:
    return {"input": arguments} if isinstance(arguments, str) else arguments


def _failed(data: Mapping[str, Any]) -> bool:
    code = values.fields(data.get("shellExecution")).get("exitCode")
    return data.get("success") is False or (isinstance(code, int) and code != 0)


def _summary(entry: Entry) -> str:
    """Return the summary of a successful compaction, or "" for any other event."""
    data = values.fields(entry.get(_DATA))
    done = entry.get("type") == _COMPACTED and data.get("success") is True
    return values.text(data.get("summaryContent")) if done else ""


class Copilot(base.Format):
    """Sessions of GitHub Copilot CLI."""

    name = "copilot"
    reader = CopilotReader
    other_tools = (
        "edit grep rg glob apply_patch web_fetch web_search stop_bash write_bash list_bash sql report_intent "
        "update_todo ask_user skill store_memory exit_plan_mode list_agents read_agent write_agent "
        "fetch_copilot_cli_documentation"
    )
    # The user's answers, the plan, and the list.
    kept_tools = frozenset({"ask_user", "exit_plan_mode", "update_todo"})
    answer_marks = (b'"session.usage_record"', b'"session.error"')
    ended = re.compile(r"^<shellId: [^\n>]{1,40} completed with exit code -?\d{1,5}>$", re.MULTILINE)

    def recognizes(self, head: Head) -> bool:
        if head.document is not None or not head.entries or not self.named(head).id:
            return False
        return base.almost_all(
            head.entries, lambda each: isinstance(each.get(_DATA), dict) and isinstance(each.get("type"), str)
        )

    def named(self, head: Head) -> Name:
        first = head.entries[0] if head.entries else {}
        data = values.fields(first.get(_DATA))
        if first.get("type") != "session.start" or not values.text(data.get("copilotVersion")):
            return Name()
        return base.name_of(data.get("sessionId"), values.at(data, ("context", "cwd")))

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        kind, old = values.text(entry.get("type")), values.at(entry, path)
        if path in (*_COPIES, *_UNREAD.get(kind, ()), *_STATES.get(kind, ())):
            return value == type(old)() if path in _REQUIRED else value is REMOVED
        texts = isinstance(old, str) and isinstance(value, str)
        match kind, path:
            case "assistant.message", (_, key) if key in _THOUGHTS:
                return value is REMOVED and not any(entry[_DATA].get(each) for each in _SEALED)
            case ("assistant.message", (_, "toolRequests", int(), "arguments", *inner)) | (
                "tool.execution_start",
                (_, "arguments", *inner),
            ):
                return texts and (not inner or inner[-1] not in values.PLACE_KEYS)
            case "tool.execution_complete", (_, "result", "content") | (_, "error", "message"):
                return texts
        return False

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        if path in _REQUIRED:
            return type(value)()
        return Treatment.REFERENCE if path[1] == "arguments" else REMOVED

    def answer(self, entry: Entry) -> Answer | None:
        """Read an event's record of a request, or of a failed one; subagents' requests don't count."""
        kind, data = entry.get("type"), values.fields(entry.get(_DATA))
        at = base.moment(entry.get("timestamp"))
        if kind == "session.error":
            return Answer(error=values.text(data.get("message")) or "error", at=at)
        if kind != "session.usage_record" or entry.get("agentId"):
            return None
        counted = values.fields(data.get("usage"))
        usage = model.within(*map(counted.get, ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")))
        limits = [model.tokens(counted.get(key)) for key in ("maxPromptTokens", "maxOutputTokens")]
        window = sum(filter(None, limits)) if all(limits) else 0
        return Answer(model=values.text(counted.get("model")), usage=usage, window=window, at=at)

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        """Write the compaction event before the kept lines: a resume processes all events in order.

        The agent itself puts the user's earlier words above the summary.
        """
        first = min(cut.kept)
        parent = next((name for name in reversed(session.lines.ids[:first]) if name), None)
        event = {
            "type": _COMPACTED,
            _DATA: {
                "success": True,
                "outcome": "applied",
                "preCompactionTokens": summary.tokens_before,
                "postCompactionTokens": summary.tokens_after,
                "summaryContent": summary.text,
                "trigger": "manual",
            },
            "id": base.uuid_of(_COMPACTED, f"{parent}\n{summary.text}"),
            "timestamp": base.newest_time(session, islice(reversed(cut.old), 8)),
            "parentId": parent,
        }
        return Checkpoint((Addition(first, base.json_of(event)),))
