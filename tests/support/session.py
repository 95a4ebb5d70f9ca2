"""A builder of synthetic pi sessions, line by line, as pi itself would write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from tests.support import blocks
from tests.support.blocks import Block
from tests.support.lines import LineBuilder
from tests.support.turns import THOUGHT

_RATES = {"input": 5.0, "output": 25.0, "cacheRead": 0.5, "cacheWrite": 6.25}
_FIELDS_FIRST = frozenset({"custom", "custom_message"})


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a tool: the call and what it gives back."""

    tool: str
    arguments: Mapping[str, Any]
    result: str | Sequence[Block] = "(no output)"
    details: Any = None
    error: bool = False
    call_id: str | None = None


class PiSession(LineBuilder):
    """A session of pi; every method adds entries at the end and most return the new entry's id."""

    def __init__(
        self,
        version: int = 3,
        cwd: str = "/tmp",
        api: str = "anthropic-messages",
        provider: str = "anthropic",
        model: str = "claude-opus-4-5",
        *,
        seed: str = "session",
        header: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(seed, cwd)
        self.version = version
        self.api, self.provider, self.model = api, provider, model
        self.leaf: str | None = None
        self.ids: list[str] = []
        self._calls = 0
        self._unseen = 6200
        self._cached = 0
        self._open(header or {})

    def _open(self, header: Mapping[str, Any]) -> None:
        digits = blocks.hexes(20, self.seed, "session")
        name = f"019cac38-{digits[:4]}-7{digits[4:7]}-8{digits[7:10]}-{digits[8:20]}"
        opening: dict[str, Any] = {"type": "session"}
        if self.version > 1:
            opening["version"] = self.version
        opening |= {"id": name, "timestamp": self._stamp(), "cwd": self.cwd}
        if self.version == 1:
            opening |= {"provider": self.provider, "modelId": self.model, "thinkingLevel": "off"}
        self._put({**opening, **header})

    # What the builder holds

    @property
    def count(self) -> int:
        """The lines so far, which is the index that a version 1 session gives the next entry."""
        return len(self._lines)

    # Entries of any kind

    def raw(self, line: bytes) -> Self:
        """Put a line in exactly as it is; its LF must be given."""
        self._lines.append(line)
        return self

    def take_last(self) -> bytes:
        """Take the last line out, to put a changed one in with `raw`."""
        return self._lines.pop()

    def branch(self, from_id: str | None) -> Self:
        """Let the next entry follow this one, as when the user goes back in the tree."""
        self.leaf = from_id
        return self

    def wait(self, seconds: float) -> Self:
        self._now += timedelta(seconds=seconds)
        return self

    def entry(self, kind: str, /, **fields: Any) -> str:
        """Add an entry of this type and return its id (version 1 has none: an empty text)."""
        self._now += timedelta(milliseconds=self._rng.randint(2, 40))
        own: dict[str, Any] = {}
        name = ""
        if self.version > 1:
            name = self._new_id()
            own = {"id": name, "parentId": self.leaf}
            self.leaf = name
        own["timestamp"] = self._stamp()
        order = (fields, own) if kind in _FIELDS_FIRST else (own, fields)
        self._put({"type": kind, **order[0], **order[1]})
        return name

    def message(self, role: str, /, **fields: Any) -> str:
        begun = int(self._now.timestamp() * 1000)
        return self.entry("message", message={"role": role, **fields, "timestamp": begun})

    def opening(self, level: str = "high") -> Self:
        """Add the entries that pi writes first: the model and the thinking level."""
        self.entry("model_change", provider=self.provider, modelId=self.model)
        self.entry("thinking_level_change", thinkingLevel=level)
        return self

    def compaction(self, summary: str, keep: str | int, **extra: Any) -> str:
        """Add a checkpoint that keeps the entries from `keep` on: an id, or in version 1 an index."""
        kept = {"firstKeptEntryIndex" if isinstance(keep, int) else "firstKeptEntryId": keep}
        before = self._cached + self._unseen // 4
        self._cached, self._unseen = 0, len(summary) + 9000
        return self.entry("compaction", summary=summary, **kept, tokensBefore=before, **extra)

    # Messages

    def user(self, text: str, images: Sequence[Block] = (), *, plain: bool = False) -> str:
        """Add a prompt; `plain` writes its content as a string instead of blocks."""
        self.wait(self._rng.randint(8, 90))
        self._unseen += len(text)
        return self.message("user", content=text if plain else [blocks.text(text), *images])

    def assistant(self, *parts: Block | str, stop: str | None = None, **extra: Any) -> str:
        """Add an assistant message; a bare string becomes a text block of this session's API."""
        content = [self.say(part) if isinstance(part, str) else part for part in parts]
        calls = any(part.get("type") == "toolCall" for part in content)
        begun = int(self._now.timestamp() * 1000)
        written = len(blocks.stringify(content))
        self.wait(1.5 + written / 400 + self._rng.random())
        message = {
            "role": "assistant",
            "content": content,
            "api": self.api,
            "provider": self.provider,
            "model": self.model,
            "usage": self._usage(written),
            "stopReason": stop or ("toolUse" if calls else "stop"),
            "timestamp": begun,
        }
        return self.entry("message", message={**message, **extra})

    def result(
        self, call_id: str, text: str | Sequence[Block], tool: str = "bash", details: Any = None, error: bool = False
    ) -> str:
        content = [blocks.text(text)] if isinstance(text, str) else list(text)
        self._unseen += sum(len(part.get("text", "")) for part in content)
        mirrors = {} if details is None else {"details": details}
        self.wait(self._rng.random() * 2)
        return self.message("toolResult", toolCallId=call_id, toolName=tool, content=content, **mirrors, isError=error)

    def step(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        result: str | Sequence[Block] = "(no output)",
        *,
        thinking: str | None = None,
        details: Any = None,
        text: str | None = None,
        error: bool = False,
    ) -> str:
        """Add an assistant message with one call, and its result; return the call's id."""
        return self.parallel([Use(tool, arguments, result, details, error)], thinking=thinking, text=text)[0]

    def parallel(self, uses: Sequence[Use], *, thinking: str | None = None, text: str | None = None) -> list[str]:
        """Add one assistant message with several calls, and their results; return the calls' ids."""
        parts = [] if thinking is None else [self.think(thinking)]
        parts += [] if text is None else [self.say(text)]
        made = [self.call(use.tool, use.arguments, call_id=use.call_id) for use in uses]
        self.assistant(*parts, *made)
        for use, part in zip(uses, made, strict=True):
            self.result(part["id"], use.result, use.tool, use.details, use.error)
        return [str(part["id"]) for part in made]

    def bash_execution(self, command: str, output: str, code: int = 0, **extra: Any) -> str:
        return self.message(
            "bashExecution", command=command, output=output, exitCode=code, cancelled=False, truncated=False, **extra
        )

    # Work as in the session of any agent

    def asks(self, text: str) -> str:
        return self.user(text)

    def runs(self, command: str, output: str) -> str:
        return self.step("bash", {"command": command}, output, thinking=THOUGHT)

    def writes(self, name: str, content: str) -> str:
        return self.step("write", {"path": name, "content": content}, "Wrote it.")

    def says(self, text: str) -> str:
        return self.assistant(text)

    # Blocks as this session's API has them

    def new_call_id(self) -> str:
        self._calls += 1
        return "toolu_01" + blocks.letters(22, self.seed, "call", self._calls)

    def call(self, tool: str, arguments: Mapping[str, Any], *, call_id: str | None = None, **extra: Any) -> Block:
        return blocks.call(call_id or self.new_call_id(), tool, arguments, **extra)

    def think(self, value: str) -> Block:
        return blocks.thinking(value)

    def say(self, value: str) -> Block:
        return blocks.text(value)

    # Parts

    def _new_id(self) -> str:
        name = blocks.hexes(8, self.seed, "entry", self.count)
        self.ids.append(name)
        return name

    def _usage(self, written: int) -> dict[str, Any]:
        tokens = {
            "input": self._rng.randint(1, 9),
            "output": max(8, written // 4),
            "cacheRead": self._cached,
            "cacheWrite": max(60, self._unseen // 4),
        }
        self._cached += tokens["cacheWrite"]
        self._unseen = written
        cost = {key: _RATES[key] / 1e6 * count for key, count in tokens.items()}
        total = {} if self.version == 1 else {"totalTokens": sum(tokens.values())}
        return {**tokens, **total, "cost": {**cost, "total": sum(cost.values())}}
