"""Builders for pi's other APIs and for the agents that grew out of pi."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support import blocks
from tests.support.blocks import Block
from tests.support.session import PiSession, Use

_SLOT = 256


class ResponsesSession(PiSession):
    """A pi session over OpenAI Responses: item ids behind the calls' ids, reasoning items as signatures."""

    def __init__(self, **options: Any) -> None:
        chosen = {"api": "openai-responses", "provider": "openai", "model": "gpt-5.2-codex", **options}
        self._items = 0
        super().__init__(**chosen)

    def item_id(self, prefix: str) -> str:
        """Return a new item id: `rs_...`, `fc_...`, `msg_...`, `resp_...`."""
        self._items += 1
        return f"{prefix}_" + blocks.hexes(48, self.seed, prefix, self._items)

    def new_call_id(self) -> str:
        self._calls += 1
        return "call_" + blocks.letters(24, self.seed, "call", self._calls) + "|" + self.item_id("fc")

    def think(self, value: str) -> Block:
        """Return a thinking block signed with its reasoning item; an empty text has no summary."""
        return blocks.thinking(value, blocks.stringify(self.reasoning(value)))

    def reasoning(self, value: str) -> dict[str, Any]:
        name = self.item_id("rs")
        summary = [{"type": "summary_text", "text": value}] if value else []
        sealed = "gAAAAAB" + blocks.signature(name, size=520).replace("+", "-").replace("/", "_")
        return {"id": name, "type": "reasoning", "encrypted_content": sealed, "summary": summary}

    def say(self, value: str, phase: str = "final_answer") -> Block:
        """Return a text block signed with its message item and its phase."""
        return blocks.text(value, textSignature=signed(self.item_id("msg"), phase))

    def assistant(self, *parts: Block | str, stop: str | None = None, **extra: Any) -> str:
        """Add an assistant message with the id of its response."""
        return super().assistant(*parts, stop=stop, **{"responseId": self.item_id("resp"), **extra})


class GeminiSession(PiSession):
    """A pi session over Gemini: unsigned thinking, thought signatures on the calls."""

    def __init__(self, **options: Any) -> None:
        chosen = {"api": "google-generative-ai", "provider": "google", "model": "gemini-3-pro-preview", **options}
        super().__init__(**chosen)

    def new_call_id(self) -> str:
        self._calls += 1
        return f"call_{int(blocks.hexes(5, self.seed, self._calls), 16):06d}_{self._calls}"

    def call(self, tool: str, arguments: Mapping[str, Any], *, call_id: str | None = None, **extra: Any) -> Block:
        """Return a tool call; the first of a message is signed, as Gemini does it."""
        made = super().call(tool, arguments, call_id=call_id, **extra)
        return {**made, "thoughtSignature": blocks.signature(made["id"], size=240)}

    def think(self, value: str) -> Block:
        return blocks.unsigned(value)


class OpenClawSession(PiSession):
    """An OpenClaw session: pi version 3 with the tools exec and process and entries of its own."""

    def opening(self, level: str = "high") -> OpenClawSession:
        """Add the entries that OpenClaw writes first."""
        super().opening(level)
        self._own("model-snapshot", modelApi=self.api)
        return self

    def run(self, command: str, output: str, code: int = 0, *, thinking: str | None = None) -> str:
        """Add one use of exec, whose details hold the output once more; return the call's id."""
        state = {"status": "failed" if code else "completed", "exitCode": code, "durationMs": 20 + len(output) % 900}
        details = {**state, "aggregated": output, "cwd": self.cwd}
        shown = output + (f"\n\n(Command exited with code {code})" if code else "")
        return self.step("exec", {"command": command}, shown, details=details, thinking=thinking)

    def poll(self, name: str, command: str, output: str = "") -> str:
        """Add one look at a command that runs in the background."""
        details = {"status": "running", "sessionId": name, "aggregated": output, "name": command, "retryInMs": 5000}
        shown = f"{output or '(no new output)'}\n\nProcess still running."
        return self.step("process", {"action": "poll", "sessionId": name}, shown, details=details)

    def end_turn(self, value: str) -> str:
        """Add the answer and the entry that OpenClaw writes behind it."""
        self.assistant(value)
        return self._own("openclaw.cache-ttl")

    def _own(self, kind: str, **facts: str) -> str:
        begun = int(self._now.timestamp() * 1000)
        data = {"timestamp": begun, "provider": self.provider, **facts, "modelId": self.model}
        return self.entry("custom", customType=kind, data=data)


class _OmpMixin(PiSession):
    """What all oh-my-pi sessions have, whatever their API."""

    def _open(self, header: Mapping[str, Any]) -> None:
        self.raw(title_slot("", self._stamp()))
        super()._open(header)

    def opening(self, level: str = "medium", prompt: str = "You are a coding agent.") -> _OmpMixin:
        """Add the entries that oh-my-pi writes first, among them the whole system prompt."""
        self.entry("model_change", model=f"{self.provider}/{self.model}", resolvedModelIsFallback=False)
        self.entry("thinking_level_change", thinkingLevel=level, configured=None)
        tools = ["read", "bash", "edit", "write", "grep", "glob"]
        self.entry("session_init", systemPrompt=prompt, task="", tools=tools, agent="main", readOnly=False)
        return self

    def developer(self, text: str) -> str:
        return self.message("developer", content=[blocks.text(text)], attribution="agent")

    def reset(self) -> str:
        """Add the boundary that the model's context starts behind."""
        return self.entry("reset_boundary", reason="user")

    def parallel(self, uses: Sequence[Use], *, thinking: str | None = None, text: str | None = None) -> list[str]:
        """Add the starts of the calls, the assistant message, and the results."""
        named = [Use(u.tool, u.arguments, u.result, u.details, u.error, u.call_id or self.new_call_id()) for u in uses]
        for use in named:
            data = {"toolCallId": use.call_id, "toolName": use.tool, "startedAt": self._stamp(), "args": use.arguments}
            self.entry("custom", customType="tool_execution_start", data=data)
        return super().parallel(named, thinking=thinking, text=text)

    def call(self, tool: str, arguments: Mapping[str, Any], *, call_id: str | None = None, **extra: Any) -> Block:
        return super().call(tool, arguments, call_id=call_id, intent=f"Using {tool}", **extra)


class OmpSession(_OmpMixin, ResponsesSession):
    """An oh-my-pi session over Responses, whose messages carry the history that is sent again."""

    def assistant(self, *parts: Block | str, stop: str | None = None, **extra: Any) -> str:
        """Add an assistant message with its Responses history."""
        content = [self.say(part) if isinstance(part, str) else part for part in parts]
        items = [item for part in content if (item := _item(part)) is not None]
        payload = {"type": "openaiResponsesHistory", "provider": self.provider, "dt": True, "items": items}
        return super().assistant(*content, stop=stop, **{"providerPayload": payload, **extra})


class OmpGeminiSession(_OmpMixin, GeminiSession):
    """An oh-my-pi session over Gemini: signed calls, no history payload."""


class OmpAnthropicSession(_OmpMixin):
    """An oh-my-pi session over Anthropic: signed thinking, no history payload."""


def signed(item: str, phase: str) -> str:
    """Return the signature of a text over OpenAI Responses, as pi and oh-my-pi write it."""
    return blocks.stringify({"v": 1, "id": item, "phase": phase})


def title_slot(title: str, updated: str) -> bytes:
    """Return oh-my-pi's first line: exactly 256 bytes, so that a title can be written over it in place."""
    slot = {"type": "title", "v": 1, "title": title, "updatedAt": updated, "pad": ""}
    room = _SLOT - 1 - len(blocks.stringify(slot).encode())
    return blocks.stringify({**slot, "pad": " " * room}).encode() + b"\n"


def shown(text: str, path: str, start: int = 1) -> dict[str, Any]:
    """Return the details of an oh-my-pi read: the text once more as the screen shows it."""
    return {
        "displayContent": {"text": text, "startLine": start},
        "fileSize": len(text.encode()),
        "totalLines": text.count("\n") + 1,
        "meta": {"source": {"type": "path", "value": path}},
    }


def blob(seed: object) -> str:
    """Return a reference to a blob that oh-my-pi keeps elsewhere."""
    return "blob:sha256:" + blocks.hexes(64, "blob", seed)


def _item(part: Block) -> dict[str, Any] | None:
    if part["type"] == "thinking":
        return dict(json.loads(part["thinkingSignature"]))
    if part["type"] == "text":
        named = json.loads(part["textSignature"])
        content = [{"type": "output_text", "text": part["text"], "annotations": []}]
        made = {"id": named["id"], "type": "message", "role": "assistant", "status": "completed", "content": content}
        return {**made, "phase": named["phase"]}
    if part["type"] == "toolCall":
        call, _, item = part["id"].partition("|")
        arguments = blocks.stringify(part["arguments"])
        made = {"id": item, "type": "function_call", "status": "completed", "name": part["name"]}
        return {**made, "call_id": call, "arguments": arguments}
    return None
