"""A session of Qwen Code: records that name their parents, with events and states between the messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

from sessioncompress.formats.base import uuid_of
from tests.support import blocks, texts
from tests.support.lines import START
from tests.support.stories import tidewatch as tw
from tests.support.story import Story

_Bytes = bytes  # the builder has a method of that name
_FOLDER = "/tmp"


class QwenSession:
    """A session of Qwen Code; every method adds records at the end."""

    def __init__(self, seed: str = "qwen") -> None:
        self._rng = blocks.dice(seed)
        self._now = START
        self.session = uuid_of(seed, "session")
        self.records: list[dict[str, Any]] = []

    def bytes(self) -> _Bytes:
        lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in self.records]
        return "".join(f"{line}\n" for line in lines).encode()

    def record(self, kind: str, provenance: str, **more: Any) -> Self:
        self._now += timedelta(seconds=self._rng.randint(1, 40))
        head = {
            "uuid": uuid_of(str(len(self.records)), self.session),
            "parentUuid": self.records[-1]["uuid"] if self.records else None,
            "sessionId": self.session,
            "timestamp": self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        agent = {"cwd": _FOLDER, "version": "0.24.4"}
        self.records.append({**head, "type": kind, "provenance": provenance, **agent, **more})
        return self

    def note(self, subtype: str, **payload: Any) -> Self:
        return self.record("system", "system", subtype=subtype, systemPayload=payload)

    def event(self, name: str, **more: Any) -> Self:
        return self.note("ui_telemetry", uiEvent={"event.name": f"qwen-code.{name}", **more})

    def user(self, text: str) -> Self:
        """Add what the user says, and which files the agent wrote so far."""
        self.record("user", "real_user", message={"role": "user", "parts": [{"text": text}]})
        files = {
            f"{_FOLDER}/page{n}.py": {"aiContribution": 900 + n, "contentHash": blocks.hexes(64, n)} for n in range(6)
        }
        state = {"type": "attribution-snapshot", "fileStates": files, "promptCount": len(self.records)}
        return self.note("attribution_snapshot", snapshot=state)

    def answer(self, text: str, *calls: Mapping[str, Any], thought: str = "") -> Self:
        """Add what the model thinks, says and calls."""
        parts: list[dict[str, Any]] = [{"text": thought, "thought": True}] if thought else []
        parts += [{"text": text}] if text else []
        parts += [{"functionCall": dict(call)} for call in calls]
        self.event("api_response", model="qwen3-coder-plus", response_text=text)
        counts = {"promptTokenCount": 9_000, "candidatesTokenCount": 210, "thoughtsTokenCount": 90}
        usage = {**counts, "totalTokenCount": 9_210, "cachedContentTokenCount": 4_000}
        more = {"model": "qwen3-coder-plus", "message": {"role": "model", "parts": parts}, "usageMetadata": usage}
        return self.record("assistant", "assistant_output", **more, contextWindowSize=1_000_000)

    def used(
        self, tool: str, given: Mapping[str, Any], output: str, shown: Any = "", *, said: str = "", **ended: Any
    ) -> Self:
        """Add a call, its event, and what came back of it, which the screen shows in its own way."""
        call = {"id": f"call_{blocks.hexes(24, tool, len(self.records))}", "name": tool, "args": dict(given)}
        self.answer(said, call, thought=texts.prose(self._rng, 4))
        self.event("tool_call", call_id=call["id"], function_name=tool, function_args=dict(given), success=not ended)
        response = {"functionResponse": {"id": call["id"], "name": tool, "response": {"output": output}}}
        result = {"callId": call["id"], "status": "success", "resultDisplay": shown, **ended}
        return self.record(
            "tool_result", "tool_result", message={"role": "user", "parts": [response]}, toolCallResult=result
        )

    def ran(self, command: str, output: str, code: int = 0) -> Self:
        """Add a command with its output, as the agent frames it."""
        framed = (
            f"Command: {command}\nDirectory: (root)\nOutput: {output}\nError: (none)\nExit Code: {code}\nSignal: (none)"
        )
        shown = {"type": "shell_result", "exitCode": code, "output": output, "text": output}
        return self.used("run_shell_command", {"command": command, "is_background": False}, framed, shown)


def qwen() -> QwenSession:
    """Return a session with commands, a written file that is edited and read, and a title."""
    made, rng = QwenSession(), blocks.dice("qwen-story")
    path = f"{_FOLDER}/page.py"
    for number, (asked, said) in enumerate(tw.TURNS):
        made.user(asked)
        for _ in range((3, 2, 3, 1, 1, 0)[number]):
            made.ran("tail -40 logs/service.log", texts.log_lines(rng, 40), code=int(number == 2))
        if number % 2:
            old, new = texts.python_source(rng, 3), texts.python_source(rng, 4)
            diff = {"fileDiff": texts.unified_diff(old, new, path), "originalContent": old, "newContent": new}
            made.used("write_file", {"file_path": path, "content": new}, f"Wrote {path}.", diff, said="I change it.")
            made.used("read_file", {"file_path": path}, new)
        made.answer(said, thought=texts.prose(rng, 3))
        if number == 2:
            made.note("custom_title", customTitle="Silent gauges", titleSource="auto")
    return made


STORIES = (Story("qwen.jsonl", qwen, "qwen"),)
