"""Builders of synthetic sessions that are one JSON document: Gemini CLI's, and what OpenCode exports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

from tests.support import blocks
from tests.support.lines import START

_Bytes = bytes  # the builders have a method of that name
_FOLDER = "/tmp"
_CACHE = {"write": 0, "read": 1_800}


class GeminiDocument:
    """A session of Gemini CLI; every method adds a message at the end."""

    def __init__(self, seed: str = "gemini") -> None:
        self._rng = blocks.dice(seed)
        self._now = START
        self._calls = 0
        self.outer: dict[str, Any] = {
            "sessionId": _uuid(seed, "session"),
            "projectHash": hashlib.sha256(_FOLDER.encode()).hexdigest(),
            "startTime": self._stamp(),
        }
        self.messages: list[dict[str, Any]] = []

    def bytes(self, indent: int | None = 2) -> _Bytes:
        document = {**self.outer, "lastUpdated": self._stamp(), "messages": self.messages}
        return json.dumps(document, indent=indent, ensure_ascii=False).encode()

    def message(self, kind: str, content: Any, **more: Any) -> Self:
        self._now += timedelta(seconds=self._rng.randint(1, 40))
        name = _uuid(self.outer["sessionId"], len(self.messages))
        self.messages.append({"id": name, "timestamp": self._stamp(), "type": kind, "content": content, **more})
        return self

    def user(self, text: str) -> Self:
        return self.message("user", text)

    def answer(self, text: str, *calls: Mapping[str, Any], thought: str = "") -> Self:
        """Add what the model says, thinks and calls, with what came back."""
        thoughts = [{"subject": "Next", "description": thought, "timestamp": self._stamp()}] if thought else []
        made = {"toolCalls": list(calls)} if calls else {}
        tokens = {"input": 9_000, "output": 210, "cached": 0, "thoughts": 90, "tool": 0, "total": 9_300}
        return self.message("gemini", text, **made, thoughts=thoughts, tokens=tokens, model="gemini-2.5-pro")

    def used(self, tool: str, arguments: Mapping[str, Any], output: str, shown: Any = None) -> dict[str, Any]:
        """Return a call with what came back, and what the screen shows of it."""
        self._calls += 1
        name = f"{tool}-{1_772_442_000_000 + self._calls}-{blocks.hexes(14, tool, self._calls)}"
        response = {"functionResponse": {"id": name, "name": tool, "response": {"output": output}}}
        display = {} if shown is None else {"resultDisplay": shown}
        made = {"id": name, "name": tool, "args": dict(arguments), "result": [response], "status": "success"}
        return {**made, "timestamp": self._stamp(), **display, "displayName": tool, "description": f"Runs {tool}."}

    # Work as in the session of any agent

    def asks(self, text: str) -> Self:
        return self.user(text)

    def runs(self, command: str, output: str) -> Self:
        return self.answer("", self.used("run_shell_command", {"command": command}, output))

    def writes(self, name: str, content: str) -> Self:
        given = {"file_path": f"/tmp/{name}", "content": content}
        return self.answer("", self.used("write_file", given, "Wrote it."))

    def says(self, text: str) -> Self:
        return self.answer(text)

    def _stamp(self) -> str:
        return self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class OpenCodeExport:
    """A session of OpenCode as `opencode export` writes it; every method adds a message, or parts to the last one.

    It has every field without which OpenCode imports no message.
    """

    model: Mapping[str, str] = {"providerID": "opencode", "modelID": "glm-5"}
    tokens: Mapping[str, Any] = {"total": 9_100, "input": 7_000, "output": 270, "reasoning": 0, "cache": _CACHE}

    def __init__(self, seed: str = "opencode") -> None:
        self._rng = blocks.dice(seed)
        self._milliseconds = int(START.timestamp() * 1000)
        self._made = 0
        self.session = self._id("ses")
        self.messages: list[dict[str, Any]] = []
        self.outer: dict[str, Any] = {
            "info": {
                "id": self.session,
                "slug": "calm-quay",
                "projectID": blocks.hexes(40, seed, "project"),
                "directory": _FOLDER,
                "title": "Silent gauges",
                "version": "1.18.16",
                "time": {"created": self._milliseconds, "updated": self._milliseconds},
            }
        }

    def bytes(self, indent: int | None = 2) -> _Bytes:
        document = {**self.outer, "messages": self.messages}
        return json.dumps(document, indent=indent, ensure_ascii=False).encode() + b"\n"

    def user(self, text: str, diff: str = "") -> Self:
        """Add what the user says; the agent adds the diffs that came of it."""
        diffs = [{"file": "a.py", "patch": diff, "additions": 2, "deletions": 1}] if diff else []
        return self._asks(summary={"diffs": diffs}).part("text", text=text)

    def compaction(self, summary: str) -> Self:
        """Add a compaction: a message that asks for it, and the summary."""
        self._asks().part("compaction", auto=True)
        self.assistant(summary=True, finish="stop")
        return self.part("text", text=summary)

    def assistant(self, **more: Any) -> Self:
        asked = next(each["info"]["id"] for each in reversed(self.messages) if each["info"]["role"] == "user")
        info = {"parentID": asked, "role": "assistant", "mode": "build", "agent": "build", **self.model, "cost": 0.004}
        where = {"path": {"cwd": _FOLDER, "root": "/"}}
        return self._message({**info, **where, "tokens": self.tokens, "finish": "tool-calls", **more})

    def finish(self, reason: str) -> Self:
        return self.part("step-finish", reason=reason, cost=0.004, tokens=self.tokens)

    def part(self, kind: str, /, **more: Any) -> Self:
        info = self.messages[-1]["info"]
        ids = {"id": self._id("prt"), "sessionID": self.session, "messageID": info["id"]}
        self.messages[-1]["parts"].append({"type": kind, **more, **ids})
        return self

    def tool(self, tool: str, given: Mapping[str, Any], output: str, shown: Mapping[str, Any] | None = None) -> Self:
        """Add a call with what came back, and what the screen shows of it."""
        at = self._milliseconds
        state = {
            "status": "completed",
            "input": dict(given),
            "output": output,
            "metadata": {"truncated": False, **(shown or {})},
            "title": tool,
            "time": {"start": at, "end": at + 8},
        }
        return self.part("tool", tool=tool, callID=f"call_{blocks.hexes(24, self.session, self._made)}", state=state)

    # Work as in the session of any agent

    def asks(self, text: str) -> Self:
        return self.user(text)

    def runs(self, command: str, output: str) -> Self:
        return self.assistant().tool("bash", {"command": command}, output).finish("tool-calls")

    def writes(self, name: str, content: str) -> Self:
        given = {"filePath": f"/tmp/{name}", "content": content}
        return self.assistant().tool("write", given, "Wrote it.").finish("tool-calls")

    def says(self, text: str) -> Self:
        return self.assistant(finish="stop").part("text", text=text).finish("stop")

    def prune(self, first: int, last: int) -> Self:
        """Mark what the calls of these messages gave back as the agent does when it no longer sends it."""
        for part in (part for message in self.messages[first:last] for part in message["parts"]):
            if part["type"] == "tool":
                part["state"]["time"]["compacted"] = self._milliseconds
        return self

    def _asks(self, **more: Any) -> Self:
        return self._message({"role": "user", "agent": "build", "model": self.model, **more})

    def _message(self, info: dict[str, Any]) -> Self:
        self._milliseconds += self._rng.randint(1_000, 40_000)
        whose = {"id": self._id("msg"), "sessionID": self.session, "time": {"created": self._milliseconds}}
        self.messages.append({"info": {**info, **whose}, "parts": []})
        return self

    def _id(self, kind: str) -> str:
        """Return an id; they rise, since the agent sorts by them."""
        self._made += 1
        return f"{kind}_{self._made:012x}{blocks.hexes(14, kind, self._made)}"


def _uuid(*seed: object) -> str:
    digits = blocks.hexes(32, *seed)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
