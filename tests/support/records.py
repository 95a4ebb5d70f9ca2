"""A builder of Gemini CLI's sessions of records, as the agent appends them: messages again and again, updates, ways back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from tests.support.documents import GeminiDocument

_Bytes = bytes  # the builder has a method of that name


class GeminiRecords(GeminiDocument):
    """A session of records; every method appends what the agent would."""

    def __init__(self, seed: str = "gemini-records") -> None:
        super().__init__(seed)
        self.records: list[_Bytes] = []
        self.record({**self.outer, "lastUpdated": self.outer["startTime"], "kind": "main"})

    def record(self, record: Mapping[str, Any]) -> Self:
        self.records.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        return self

    def lines(self) -> list[_Bytes]:
        return list(self.records)

    def bytes(self, indent: int | None = None) -> _Bytes:
        del indent
        return b"".join(self.records)

    def message(self, kind: str, content: Any, **more: Any) -> Self:
        """Append a message of this type, and when that was."""
        super().message(kind, content, **more)
        return self.record(self.messages[-1]).record({"$set": {"lastUpdated": self._stamp()}})

    def again(self, **more: Any) -> Self:
        """Append the last message once more, with more in it."""
        self.messages[-1] = {**self.messages[-1], **more}
        return self.record(self.messages[-1])

    def steps(self, text: str, *calls: dict[str, Any], thought: str = "") -> Self:
        """Append an answer that calls tools: first without them, then with them, then what the model gets of them."""
        self.answer(text, thought=thought)
        self.again(toolCalls=[{**call, "result": None, "status": "executing"} for call in calls])
        self.again(toolCalls=list(calls))
        return self.message("user", [part for call in calls for part in call["result"]])

    def back(self, number: int) -> Self:
        name = self.messages[number]["id"]
        del self.messages[number:]
        return self.record({"$rewindTo": name})

    def resume(self, **more: Any) -> Self:
        """Set all messages anew, with the parts that are sent, as each resume does."""
        self.record({"$set": {"sessionId": self.outer["sessionId"]}})
        self.messages = [_sent(message) for message in self.messages if message["type"] in ("user", "gemini")]
        return self.record({"$set": {"messages": self.messages, "lastUpdated": self._stamp(), **more}})


def _sent(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its content as the parts that the agent sends."""
    content = message["content"]
    if isinstance(content, list):
        return message
    thoughts = [{"text": each["description"], "thought": True} for each in message.get("thoughts", ())]
    calls = [
        {"functionCall": {key: call[key] for key in ("id", "name", "args")}} for call in message.get("toolCalls", ())
    ]
    return {**message, "content": [*thoughts, *([{"text": content}] if content else []), *calls]}
