"""Qwen Code: records that name their parents as in Claude Code, around messages as in Gemini CLI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sessioncompress.core import model
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Say, Summary, Utterance, Written
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Answer, Block, JsonPath, Kind, Line, Purpose, Role, Shape
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import base, gemini, values
from sessioncompress.formats.base import Entry, Head, Name, line_of

_KINDS = ("user", "assistant", "tool_result", "system")
_PARTS = ("message", "parts")
_DISPLAY = ("toolCallResult", "resultDisplay")
_EVENT = ("systemPayload", "uiEvent")
_REPEATED = ("function_args", "response_text", "prompt")
"""Keys in which an event repeats the session. A resume counts the events, but does not read these."""
_STATES = {"attribution_snapshot": ("systemPayload", "snapshot")}
"""States, by the subtypes of their records; a resume reads only the newest."""

_COMPRESSION = "chat_compression"
_WORDS = (None, "mid_turn_user_message")
"""Subtypes of a `user` record that a person wrote; the second one was written while the model worked."""

_GO_ON = (
    "Resume the prior task using the summary above. Continue from the last in-flight step; do not acknowledge the "
    "summary, do not re-introduce, do not greet the user again."
)
"""The text that the agent adds to a summary."""

_OF_SESSION = ("cwd", "version", "gitBranch")


class QwenReader(gemini.GeminiReader):
    """Reads the records of one session: messages and notes."""

    purposes: Mapping[str, Purpose] = {**gemini.GeminiReader.purposes, "agent": Purpose.AGENT}
    linking = ("type", "subtype", "uuid", "parentUuid", "timestamp", "message.role")

    def line(self, raw: bytes, entry: Entry) -> Line:
        kind, names = entry.get("type"), (values.text(entry.get("uuid")), values.text(entry.get("parentUuid")))
        line = line_of(raw, Role.OTHER, (), *names)
        if kind in ("assistant", "tool_result"):
            read = super().line(raw, {"type": "gemini" if kind == "assistant" else "user", **_message(entry)})
            failed = values.fields(entry.get("toolCallResult")).get("status") in ("error", "cancelled")
            line = read._replace(
                role=read.role if kind == "assistant" or read.role is Role.RESULT else Role.OTHER,
                id=names[0],
                parent=names[1],
                blocks=tuple(block._replace(path=(*_PARTS, *block.path[1:])) for block in read.blocks),
                facts=read.facts._replace(failed=True) if failed else read.facts,
            )
        elif kind == "user":
            parts = _message(entry)["content"]
            blocks = [each for at, part in values.parts(parts) for each in gemini.picture((*_PARTS, at), part)]
            blocks += values.marked_images(_PARTS, parts)
            is_turn = entry.get("subtype") is None and (gemini.text_of(parts).strip() != "" or bool(blocks))
            reads = len(gemini.text_of(parts)) + values.pictures(blocks)
            line = line._replace(role=Role.USER if is_turn else Role.OTHER, blocks=tuple(blocks), reads=reads)
        elif history := _compressed(entry):
            line = line._replace(role=Role.CHECKPOINT, reads=sum(len(gemini.text_of(each)) for each in history))
        return line._replace(blocks=line.blocks + tuple(_copies(entry, line)))

    def said(self, entry: Entry) -> Iterator[Utterance]:
        """Yield the utterances in a record, without what the agent itself added to its summary, such as files."""
        kind, content = entry.get("type"), _message(entry)["content"]
        if kind == "assistant":
            yield from super().said({"type": "gemini", "content": content})
        elif kind == "tool_result":
            failed = values.fields(entry.get("toolCallResult")).get("status") in ("error", "cancelled")
            for said in super().said({"type": "user", "content": content}):
                if said.say is Say.RESULT:
                    yield said._replace(failed=failed or said.failed)
        elif kind == "user" and entry.get("subtype") in _WORDS and (text := gemini.text_of(content)).strip():
            yield Utterance(Say.PROMPT, text)
        elif history := _compressed(entry):
            text = gemini.text_of(history[0]).removesuffix(_GO_ON).strip()
            if text:
                yield Utterance(Say.SUMMARY, text)


def _message(entry: Entry) -> Entry:
    """Convert a record's message to Gemini CLI's form."""
    return {"id": "", "content": list(values.items(values.fields(entry.get("message")).get("parts")))}


def _compressed(entry: Entry) -> Sequence[Any]:
    """Return the parts of the messages that a compaction set, or () for any other record."""
    if entry.get("type") != "system" or entry.get("subtype") != _COMPRESSION:
        return ()
    history = values.fields(entry.get("systemPayload")).get("compressedHistory")
    return [values.fields(each).get("parts") for each in values.items(history)]


def _copies(entry: Entry, line: Line) -> Iterator[Block]:
    """Yield the screen copies in a record, and values that repeat others."""
    called = line.answers or next(iter(line.facts.several), "")
    tool = next((block.tool for block in line.blocks), "")
    shown = values.at(entry, _DISPLAY)
    if isinstance(shown, (str, dict)):
        named = values.fields(values.at(entry, (*_PARTS, 0, "functionResponse"))).get("name")
        yield from values.whole(Kind.MIRROR, _DISPLAY, shown, tool or values.text(named), called)
    event = values.fields(values.at(entry, _EVENT))
    for key in _REPEATED if entry.get("type") == "system" else ():
        whose = values.text(event.get("function_name")), values.text(event.get("call_id")) or "event"
        yield from values.whole(Kind.MIRROR, (*_EVENT, key), event.get(key), *whose, unseen=True)
    for path in filter(None, [_STATES.get(str(entry.get("subtype")))]):
        yield from values.whole(Kind.MIRROR, path, values.at(entry, path), str(entry["subtype"]), "")


class Qwen(gemini.Gemini):
    """Sessions of Qwen Code."""

    name = "qwen"
    reader = QwenReader
    other_tools = (
        "exec edit grep_search glob todo_write save_memory skill exit_plan_mode enter_plan_mode web_fetch web_search "
        "list_directory lsp ask_user_question cron_create cron_list task_stop task_create task_update task_list "
        "send_message monitor notebook_edit tool_search workflow report_findings get_goal update_goal"
    )
    # The user's answers, the plan, and the list and the goal that a resume shows.
    kept_tools = frozenset({"ask_user_question", "exit_plan_mode", "todo_write", "update_goal"})
    answer_marks = (b'"assistant"', b'qwen-code.api_error"')
    titles = (("systemPayload", "customTitle"),)
    parent_key = "parentUuid"

    def recognizes(self, head: Head) -> bool:
        """True if lines are linked as Claude Code writes them, and have messages in parts."""
        own = [each for each in head.entries if "parentUuid" in each]
        if head.document is not None or not base.almost_all(head.entries, lambda each: "parentUuid" in each):
            return False
        texts = ("sessionId", "cwd", "version")
        known = all(each.get("type") in _KINDS and all(isinstance(each.get(key), str) for key in texts) for each in own)
        return known and any(isinstance(values.at(each, _PARTS), list) for each in own)

    def named(self, head: Head) -> Name:
        first = next((each for each in head.entries if values.text(each.get("sessionId"))), {})
        return base.name_of(first.get("sessionId"), first.get("cwd"), values.at(first, ("forkedFrom", "sessionId")))

    def shape(self, lines: Lines) -> Shape:
        return base.tree_shape(lines)

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        if path[:2] == _PARTS:
            return super().may_change(_message(entry), ("content", *path[2:]), value)
        if path[:2] == _EVENT:
            return value is REMOVED and path[2:] in {(key,) for key in _REPEATED}
        return value is REMOVED and path in (_DISPLAY, *_STATES.values())

    def answer(self, entry: Entry) -> Answer | None:
        """Read the record of an answer, or an event about a failed request."""
        at, event = base.moment(entry.get("timestamp")), values.fields(values.at(entry, _EVENT))
        if event.get("event.name") == "qwen-code.api_error":
            return Answer(error=values.text(event.get("error_message")) or "error", at=at)
        if entry.get("type") != "assistant":
            return None
        counted = values.fields(entry.get("usageMetadata"))
        sent, cached, thoughts = map(counted.get, ("promptTokenCount", "cachedContentTokenCount", "thoughtsTokenCount"))
        # Some vendors count thoughts apart from the answer; the total includes them in any case.
        whole, alone = model.tokens(counted.get("totalTokenCount")), model.tokens(sent)
        made = whole - alone if whole and alone and whole >= alone else counted.get("candidatesTokenCount")
        usage, window = model.within(sent, made, cached, None, thoughts), model.tokens(entry.get("contextWindowSize"))
        return Answer(model=values.text(entry.get("model")), usage=usage, window=window or 0, at=at)

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        """Write a compaction record as the parent of the kept part, and at the end a record of the new size.

        Judging by the last answer's recorded usage, the agent would compact again at once.
        """
        lines, first = session.lines, cut.kept[0]
        parent, last = lines.parents[first], self.shape(lines).live[-1]
        of_session = next((entry for entry in map(session.entry, reversed(cut.old)) if "sessionId" in entry), {})
        time = base.newest_time(session, reversed(cut.old[-8:]))
        text = f"{summary.text}\n\n{_GO_ON}"
        info = {
            "originalTokenCount": summary.tokens_before,
            "newTokenCount": summary.tokens_after,
            "originalTokenCountIsEstimated": True,
            "newTokenCountIsEstimated": True,
            "compressionStatus": 1,
            "triggerReason": "manual",
        }
        history = [
            {"role": "user", "parts": [{"text": text}]},
            {"role": "model", "parts": [{"text": self.thanks}]},
        ]

        def record(above: str, payload: Mapping[str, Any]) -> dict[str, Any]:
            made: dict[str, Any] = {
                "uuid": base.uuid_of(_COMPRESSION, f"{above}\n{text}"),
                "parentUuid": above or None,
                "sessionId": of_session.get("sessionId", ""),
                "timestamp": time,
                "type": "system",
                "provenance": "system",
                **{key: of_session[key] for key in _OF_SESSION if isinstance(of_session.get(key), str)},
                "subtype": _COMPRESSION,
                "systemPayload": payload,
            }
            return made

        boundary = record(parent, {"info": info, "compressedHistory": history})
        counts = record(lines.ids[last], {"info": info})
        remedy = "Keep more: use a larger number with --keep-tokens (compact.keepTokens)."
        hung = base.relinked(session, first, self.parent_key, boundary["uuid"], remedy)
        ends = {first: boundary, len(lines): counts}
        added = tuple(Addition(before, base.json_of(made)) for before, made in ends.items())
        return Checkpoint(added, changed={first: hung})

    dropping = base.Format.dropping
