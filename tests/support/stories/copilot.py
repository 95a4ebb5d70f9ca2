"""A session of GitHub Copilot CLI: a log of events, with accounts, instructions and a subagent among them."""

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
_MODEL = "claude-sonnet-4.5"


class CopilotSession:
    """A session of Copilot CLI; every method adds events at the end."""

    def __init__(self, seed: str = "copilot") -> None:
        self._rng = blocks.dice(seed)
        self._now = START
        self._seed = seed
        self.agent = ""
        """The subagent whose events follow."""
        self.events: list[dict[str, Any]] = []
        about = {"sessionId": uuid_of(seed, "session"), "version": 1, "producer": "copilot-agent"}
        self.event(
            "session.start", **about, copilotVersion="1.0.102", startTime=self._stamp(), context={"cwd": _FOLDER}
        )

    def bytes(self) -> _Bytes:
        lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in self.events]
        return "".join(f"{line}\n" for line in lines).encode()

    def event(self, kind: str, /, **data: Any) -> Self:
        self._now += timedelta(seconds=self._rng.randint(1, 40))
        whose = {"agentId": self.agent} if self.agent else {}
        name = uuid_of(str(len(self.events)), self._seed)
        parent = self.events[-1]["id"] if self.events else None
        tail = {"id": name, "timestamp": self._stamp(), "parentId": parent}
        self.events.append({"type": kind, "data": data, **whose, **tail})
        return self

    def user(self, text: str, **more: Any) -> Self:
        """Add what the user says, and the instructions that the agent sends with it."""
        sent = f"<current_datetime>{self._stamp()}</current_datetime>\n\n{text}"
        self.event("user.message", content=text, transformedContent=sent, **more)
        return self.event("system.message", role="system", content=f"You are Copilot.\n\n{texts.prose(self._rng, 20)}")

    def answer(self, text: str, *calls: Mapping[str, Any], thought: str = "") -> Self:
        """Add what the model thinks, says and calls, and what it took."""
        counts = {"inputTokens": 9_000, "outputTokens": 210, "cacheReadTokens": 4_000, "cacheWriteTokens": 0}
        limits = {"maxPromptTokens": 168_000, "maxOutputTokens": 32_000}
        self.event("session.usage_record", usage={"model": _MODEL, **counts, **limits})
        signed = blocks.signature(thought)
        block = {"type": "thinking", "thinking": thought, "signature": signed}
        thinking = {
            "reasoningOpaque": signed,
            "reasoningText": thought,
            "reasoningBlocks": {"provider": "anthropic-messages", "blocks": [block]},
        }
        name = uuid_of("message", f"{self._seed}{len(self.events)}")
        said = {"messageId": name, "model": _MODEL, "content": text, "toolRequests": list(calls)}
        return self.event("assistant.message", **said, **(thinking if thought else {}))

    def used(
        self, tool: str, given: Any, output: str, shown: str = "", *, said: str = "", code: int | None = None
    ) -> Self:
        """Add a call with what came back, and what the screen shows of it."""
        name = f"toolu_{blocks.hexes(24, tool, len(self.events))}"
        call = {"toolCallId": name, "name": tool, "arguments": given, "type": "function"}
        self.answer(said, call, thought=texts.prose(self._rng, 4))
        self.event("tool.execution_start", toolCallId=name, toolName=tool, arguments=given)
        ended = {} if code is None else {"shellExecution": {"exitCode": code}}
        result = {"content": output, **({"detailedContent": shown} if shown else {})}
        noted = {"properties": {"command": tool, "options": "x" * 300}, "metrics": {"resultLength": len(output)}}
        return self.event(
            "tool.execution_complete", toolCallId=name, success=True, **ended, result=result, toolTelemetry=noted
        )

    def ran(self, command: str, output: str, code: int = 0) -> Self:
        framed = f"{output}\n<shellId: 0 completed with exit code {code}>"
        return self.used("bash", {"command": command, "description": "Run"}, framed, code=code)

    def shutdown(self) -> Self:
        """End the agent, which counts what the session took so far."""
        usage = {
            "inputTokens": 9_000 * len(self.events),
            "outputTokens": 210,
            "cacheReadTokens": 0,
            "cacheWriteTokens": 0,
        }
        counted = {_MODEL: {"requests": {"count": len(self.events), "cost": 0}, "usage": usage}}
        agents = {"main": {"totalApiDurationMs": 1, "totalNanoAiu": 0.0, "modelMetrics": counted}}
        changed = {"linesAdded": 1, "linesRemoved": 0, "filesModified": [f"{_FOLDER}/page.py"]}
        ended = {"shutdownType": "routine", "totalApiDurationMs": 1, "sessionStartTime": 1_772_442_000_000}
        return self.event("session.shutdown", **ended, codeChanges=changed, modelMetrics=counted, agentMetrics=agents)

    def _stamp(self) -> str:
        return self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def copilot() -> CopilotSession:
    """Return a session that was resumed for each prompt, with commands, a written file, and a subagent."""
    made, rng = CopilotSession(), blocks.dice("copilot-story")
    path = f"{_FOLDER}/page.py"
    for number, (asked, said) in enumerate(tw.TURNS):
        made.user(asked)
        for _ in range((3, 2, 3, 1, 1, 0)[number]):
            made.ran("tail -40 logs/service.log", texts.log_lines(rng, 40), code=int(number == 2))
        if number % 2:
            old, new = texts.python_source(rng, 3), texts.python_source(rng, 4)
            diff = texts.unified_diff(old, new, path)
            made.used("create", {"path": path, "file_text": new}, f"Created {path}.", diff, said="I change it.")
            made.used("view", {"path": path}, new, diff)
        if number == 2:
            made.agent = uuid_of("subagent", "copilot")
            made.ran("grep -c silent logs/service.log", texts.log_lines(rng, 30))
            made.answer("Nothing woke them.")
            made.agent = ""
        made.answer(said, thought=texts.prose(rng, 3))
        made.shutdown()
    return made


STORIES = (Story("copilot.jsonl", copilot, "copilot"),)
