"""A builder of synthetic Claude Code sessions, line by line, as the agent itself would write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from tests.support import blocks
from tests.support.blocks import Block
from tests.support.lines import LineBuilder
from tests.support.turns import THOUGHT

_VERSION = "2.1.217"


def use(call_id: str, tool: str, given: Mapping[str, Any]) -> Block:
    return {"type": "tool_use", "id": call_id, "name": tool, "input": dict(given)}


def thought(value: str) -> Block:
    return {"type": "thinking", "thinking": value, "signature": blocks.signature(value)}


def sealed(seed: str = "sealed") -> Block:
    """Return thinking whose text the provider keeps to itself."""
    return {"type": "redacted_thinking", "data": blocks.signature(seed, size=480)}


def picture(data: str | None = None) -> Block:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": blocks.png() if data is None else data},
    }


def answer(call_id: str, content: Any, *, error: bool = False) -> Block:
    failed = {"is_error": True} if error else {}
    return {"tool_use_id": call_id, "type": "tool_result", "content": content, **failed}


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a tool: the call, what it gives back, and what the screen shows of that."""

    tool: str
    given: Mapping[str, Any]
    result: Any = "(Bash completed with no output)"
    shown: Any = None
    error: bool = False


class ClaudeSession(LineBuilder):
    """A session of Claude Code; every method adds lines at the end."""

    def __init__(self, seed: str = "claude", cwd: str = "/tmp", *, agent: str = "") -> None:
        super().__init__(seed, cwd)
        self.agent = agent
        self.leaf: str | None = None
        self._made = 0
        self.session = self._uuid("session")

    # Lines of any kind

    def note(self, kind: str, /, **fields: Any) -> Self:
        self._put({"type": kind, **fields, "sessionId": self.session})
        return self

    def entry(self, kind: str, /, *, parent: str | None = "leaf", **fields: Any) -> str:
        """Add a line of the tree and return its id; without another parent it hangs on the leaf."""
        self._now += timedelta(milliseconds=self._rng.randint(20, 900))
        name = self._uuid(len(self._lines))
        own = {
            "parentUuid": self.leaf if parent == "leaf" else parent,
            "isSidechain": bool(self.agent),
            **({"agentId": self.agent} if self.agent else {}),
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session,
            "version": _VERSION,
            "gitBranch": "main",
            "type": kind,
        }
        self._put({**own, "uuid": name, "timestamp": self._stamp(), **fields})
        self.leaf = name
        return name

    def branch(self, leaf: str | None) -> Self:
        self.leaf = leaf
        return self

    # The conversation

    def user(self, content: str | Sequence[Block], **extra: Any) -> str:
        self._now += timedelta(seconds=self._rng.randint(8, 90))
        return self.entry("user", message={"role": "user", "content": content}, **extra)

    def respond(self, *parts: Block | str, response: str = "") -> list[str]:
        """Add an answer, each of its parts on a line of its own; return their ids."""
        response = response or self.new_response()
        whole = [blocks.text(part) if isinstance(part, str) else part for part in parts]
        calls = any(part["type"] == "tool_use" for part in whole)
        return [self._part(part, response, calls) for part in whole]

    def _part(self, part: Block, response: str, calls: bool) -> str:
        message = {
            "model": "claude-opus-4-6",
            "id": response,
            "type": "message",
            "role": "assistant",
            "content": [part],
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 3,
                "cache_creation_input_tokens": self._rng.randint(200, 900),
                "cache_read_input_tokens": self._rng.randint(20_000, 60_000),
                "output_tokens": len(str(part)) // 4,
                "service_tier": "standard",
            },
        }
        return self.entry("assistant", message=message, requestId=f"req_{response[4:]}")

    def result(
        self, call_id: str, content: Any, shown: Any = None, *, error: bool = False, parent: str | None = "leaf"
    ) -> str:
        source = self.leaf if parent == "leaf" else parent
        mirror = {} if shown is None else {"toolUseResult": shown}
        message = {"role": "user", "content": [answer(call_id, content, error=error)]}
        return self.entry("user", parent=parent, message=message, **mirror, sourceToolAssistantUUID=source)

    def step(
        self,
        tool: str,
        given: Mapping[str, Any],
        result: Any = "(Bash completed with no output)",
        shown: Any = None,
        *,
        thinking: str | None = None,
        error: bool = False,
    ) -> str:
        """Add an answer with one call, and its result; return the call's id."""
        return self.parallel([Use(tool, given, result, shown, error)], thinking=thinking)[0]

    def parallel(self, uses: Sequence[Use], *, thinking: str | None = None) -> list[str]:
        """Add one answer with several calls; each result hangs on the line of its call, and the last one is the leaf."""
        ids = [self.new_call_id() for _ in uses]
        calls = [use(name, each.tool, each.given) for name, each in zip(ids, uses, strict=True)]
        parts = ([] if thinking is None else [thought(thinking)]) + calls
        places = self.respond(*parts)[-len(uses) :]
        for name, each, place in zip(ids, uses, places, strict=True):
            self.result(name, each.result, each.shown, error=each.error, parent=place)
        return ids

    def attachment(self, kind: str, /, **fields: Any) -> str:
        """Add what the agent itself tells the model."""
        return self.entry("attachment", attachment={"type": kind, **fields})

    def progress(self, call_id: str, **data: Any) -> str:
        """Add what a tool says while it is at work."""
        return self.entry("progress", data=data, toolUseID=f"agent_{call_id}", parentToolUseID=call_id)

    def compact(self, summary: str, keep: str | None = None) -> str:
        """Add a compaction, which keeps the lines from `keep` on, and the summary; return the boundary's id."""
        tail = self.leaf
        kept = {} if keep is None else {"preservedSegment": {"headUuid": keep, "anchorUuid": "", "tailUuid": tail}}
        boundary = self.entry(
            "system",
            parent=None,
            logicalParentUuid=tail,
            subtype="compact_boundary",
            content="Conversation compacted",
            isMeta=False,
            level="info",
            compactMetadata={"trigger": "auto", "preTokens": 150_000, **kept},
        )
        self.user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)
        return boundary

    def turn(self, times: int = 1) -> Self:
        """Add short turns, behind which all before is old."""
        for number in range(times):
            self.user(f"And now part {number}?")
            self.respond(f"Part {number} is done.")
        return self

    # Work as in the session of any agent

    def asks(self, text: str) -> str:
        return self.user(text)

    def runs(self, command: str, output: str) -> str:
        return self.step("Bash", {"command": command}, output, thinking=THOUGHT)

    def writes(self, name: str, content: str) -> str:
        return self.step("Write", {"file_path": f"/tmp/{name}", "content": content}, "Wrote it.")

    def says(self, text: str) -> list[str]:
        return self.respond(text)

    # Names

    def new_call_id(self) -> str:
        self._made += 1
        return "toolu_01" + blocks.letters(22, self.seed, "call", self._made)

    def new_response(self) -> str:
        self._made += 1
        return "msg_01" + blocks.letters(22, self.seed, "response", self._made)

    def _uuid(self, *seed: object) -> str:
        digits = blocks.hexes(32, self.seed, *seed)
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"
