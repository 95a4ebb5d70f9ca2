"""Builders of chats in OpenAI's form, and of the documents of gencode 0.4."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

from tests.support import blocks
from tests.support.lines import START

_Bytes = bytes  # the builders have a method of that name


class ChatSession:
    """A chat in OpenAI's form; every method adds messages at the end."""

    def __init__(self, seed: str = "chat") -> None:
        self._seed = seed
        self.messages: list[dict[str, Any]] = []

    def lines(self) -> list[_Bytes]:
        return [json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in self.messages]

    def bytes(self) -> _Bytes:
        return b"".join(self.lines())

    def document(self, indent: int | None = 2, **outer: Any) -> _Bytes:
        """Return the file that is one document: a list, or with anything around it an object."""
        whole = {**outer, "messages": self.messages} if outer else self.messages
        return json.dumps(whole, indent=indent, ensure_ascii=False).encode() + b"\n"

    def message(self, role: str, content: Any, **more: Any) -> Self:
        self.messages.append({"role": role, "content": content, **more})
        return self

    def step(self, tool: str, given: Mapping[str, Any], output: Any, **more: Any) -> Self:
        name = f"call_{blocks.hexes(24, self._seed, len(self.messages))}"
        function = {"name": tool, "arguments": json.dumps(given, ensure_ascii=False)}
        self.message("assistant", None, tool_calls=[{"id": name, "type": "function", "function": function}], **more)
        return self.message("tool", output, tool_call_id=name)

    # Work as in the session of any agent

    def asks(self, text: str) -> Self:
        return self.message("user", text)

    def runs(self, command: str, output: str) -> Self:
        return self.step("bash", {"command": command}, output)

    def writes(self, name: str, content: str) -> Self:
        return self.step("write", {"path": f"/tmp/{name}", "content": content}, "Wrote it.")

    def says(self, text: str) -> Self:
        return self.message("assistant", text)


class GenCodeSession:
    """A session of gencode; every method adds messages at the end."""

    def __init__(self, seed: str = "gencode") -> None:
        self._seed = seed
        self._now = START
        self.messages: list[dict[str, Any]] = []
        self.outer: dict[str, Any] = {
            "metadata": {
                "id": f"mm8x2c00-{blocks.hexes(8, seed)}",
                "title": "Silent gauges",
                "createdAt": self._stamp(),
                "updatedAt": self._stamp(),
                "provider": "anthropic",
                "model": "claude-sonnet-4-5",
                "cwd": "/tmp",
            }
        }

    def bytes(self, indent: int | None = 2) -> _Bytes:
        self.outer["metadata"]["messageCount"] = len(self.messages)
        document = {"metadata": self.outer["metadata"], "messages": self.messages, **self.outer}
        return json.dumps(document, indent=indent, ensure_ascii=False).encode()

    def message(self, role: str, content: Any) -> Self:
        self._now += timedelta(seconds=20)
        self.messages.append({"role": role, "content": content})
        return self

    def step(self, tool: str, given: Mapping[str, Any], output: str, text: str = "", **more: Any) -> Self:
        """Add a call, and its result in a message of the user; `more` stands at the call."""
        name = f"toolu_{blocks.hexes(24, self._seed, len(self.messages))}"
        said = [{"type": "text", "text": text}] if text else []
        self.message("assistant", [*said, {"type": "tool_use", "id": name, "name": tool, "input": dict(given), **more}])
        return self.message("user", [{"type": "tool_result", "toolUseId": name, "content": output, "isError": False}])

    # Work as in the session of any agent

    def asks(self, text: str) -> Self:
        return self.message("user", text)

    def runs(self, command: str, output: str) -> Self:
        return self.step("Bash", {"command": command}, output)

    def writes(self, name: str, content: str) -> Self:
        return self.step("Write", {"file_path": f"/tmp/{name}", "content": content}, "Wrote it.")

    def says(self, text: str) -> Self:
        return self.message("assistant", [{"type": "text", "text": text}])

    def _stamp(self) -> str:
        return self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
