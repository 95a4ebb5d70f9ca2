"""A builder of synthetic Codex rollouts, line by line, as Codex itself would write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Self

from sessioncompress.core import marker
from tests.support import blocks, texts
from tests.support.blocks import Block
from tests.support.lines import LineBuilder


class Rollout(LineBuilder):
    """A rollout; every method adds lines at the end. With `ids` items carry those of the API, as newer versions do."""

    def __init__(self, *, seed: str = "rollout", cwd: str = "/tmp", ids: bool = True, ordinals: bool = False) -> None:
        super().__init__(seed, cwd)
        self.ids, self.ordinals = ids, ordinals
        self._calls = 0
        self._turn = ""
        self._said: list[Block] = []
        meta = {
            "id": self._uuid("thread"),
            "timestamp": self._stamp(),
            "cwd": cwd,
            "originator": "codex-tui",
            "cli_version": "0.140.0",
            "source": "cli",
            "model_provider": "openai",
            "base_instructions": {"text": "You are a coding agent.\n\n" + texts.markdown(self._rng, 3)},
        }
        self.line("session_meta", **meta, **self._mode())

    def _mode(self) -> Mapping[str, Any]:
        """Return what the header says of the form of the lines."""
        return {}

    # Lines of any kind

    def line(self, kind: str, /, **payload: Any) -> Self:
        self._now += timedelta(milliseconds=self._rng.randint(2, 900))
        ordinal = {"ordinal": len(self._lines)} if self.ordinals else {}
        self._put({"timestamp": self._stamp(), **ordinal, "type": kind, "payload": payload, **self._besides(kind)})
        return self

    def _besides(self, kind: str) -> Mapping[str, Any]:
        """Return what stands in a line besides its payload."""
        return {}

    def item(self, kind: str, /, **fields: Any) -> Self:
        return self.line("response_item", type=kind, **fields)

    def event(self, kind: str, /, **fields: Any) -> Self:
        return self.line("event_msg", type=kind, **fields)

    # Turns

    def user(self, text: str, images: Sequence[str] = ()) -> Self:
        """Begin a turn: what Codex writes before a prompt, and the prompt as an item and as an event."""
        self._turn = self._uuid("turn", len(self._lines))
        self.event("task_started", turn_id=self._turn, model_context_window=258400)
        if not self._said:
            self._context()
        self.line("turn_context", turn_id=self._turn, cwd=self.cwd, approval_policy="never", model="gpt-5.5")
        parts = [{"type": "input_text", "text": text}, *map(picture, images)]
        self.message("user", parts)
        return self.event("user_message", message=text, images=list(images), local_images=[], text_elements=[])

    def _context(self) -> None:
        """Add what Codex tells the model before the first prompt."""
        rules = "<permissions instructions>\n" + texts.markdown(self._rng, 2)
        self.message("developer", [{"type": "input_text", "text": rules}])
        self.message("user", [{"type": "input_text", "text": f"<environment_context>\n  <cwd>{self.cwd}</cwd>\n"}])

    def say(self, text: str, phase: str = "commentary") -> Self:
        """Add what the model says, as an event and as an item."""
        self.event("agent_message", message=text, phase=phase)
        return self.message("assistant", [{"type": "output_text", "text": text}], phase=phase)

    def end(self, text: str) -> Self:
        """Let the model give its answer, and end the turn."""
        self.think()
        self.say(text, "final_answer")
        self.tokens()
        return self.event("task_complete", turn_id=self._turn, last_agent_message=text, duration_ms=30916)

    def message(self, role: str, content: list[Block], **more: Any) -> Self:
        """Add a message; what is not the model's own is kept by a compaction."""
        if role != "assistant":
            self._said.append({"type": "message", "role": role, "content": content})
        return self.item("message", **self._id("msg"), role=role, content=content, **more)

    def think(self) -> Self:
        """Add a reasoning item: its text is sealed."""
        sealed = "gAAAA" + blocks.letters(self._rng.randint(380, 900), self.seed, "sealed", len(self._lines))
        return self.item("reasoning", **self._id("rs"), summary=[], encrypted_content=sealed)

    def tokens(self) -> Self:
        used = {"input_tokens": 24098 + 100 * len(self._lines), "output_tokens": 389, "total_tokens": 24487}
        info = {"total_token_usage": used, "last_token_usage": used, "model_context_window": 258400}
        return self.event("token_count", info=info, rate_limits=None)

    # Calls and their results

    def function(self, name: str, arguments: Mapping[str, Any] | str, output: Any = "", *, think: bool = True) -> str:
        """Add a call of a function and its output; return the call's id."""
        if think:
            self.think()
        call = self._call_id()
        written = arguments if isinstance(arguments, str) else blocks.stringify(arguments)
        self.item("function_call", **self._id("fc"), name=name, arguments=written, call_id=call)
        self._ran(call, name, arguments, output)
        self.item("function_call_output", call_id=call, output=output)
        self.tokens()
        return call

    def _ran(self, call: str, name: str, given: Mapping[str, Any] | str, output: Any) -> None:
        """Add what a call shows on the screen before its output is told to the model."""

    def run(self, command: str, output: str, code: int = 0, **more: Any) -> str:
        above = (
            f"Chunk ID: {blocks.hexes(6, self.seed, 'chunk', len(self._lines))}\n"
            f"Wall time: {self._rng.randint(0, 90000) / 10000:.4f} seconds\n"
            f"Process exited with code {code}\nOriginal token count: {len(output) // 4}\nOutput:\n"
        )
        arguments = {"cmd": command, "workdir": self.cwd, "yield_time_ms": 1000, "max_output_tokens": 12000}
        return self.function("exec_command", arguments, above + output, **more)

    def shell(self, command: str, output: str, code: int = 0) -> str:
        """Run a command, as older versions did: the output in an object, written as a string."""
        written = {"output": output, "metadata": {"exit_code": code, "duration_seconds": 0.1}}
        arguments = {"command": ["bash", "-lc", command], "workdir": self.cwd}
        call = self.function("shell", arguments, blocks.stringify(written))
        self.event(
            "exec_command_end",
            call_id=call,
            turn_id=self._turn,
            command=["bash", "-lc", command],
            cwd=self.cwd,
            stdout=output,
            stderr="",
            aggregated_output=output,
            exit_code=code,
            duration={"secs": 0, "nanos": 98000000},
            formatted_output=output,
        )
        return call

    def local(self, command: str, output: str) -> str:
        """Run a command by the shell tool that the API has itself."""
        call = self._call_id()
        action = {"type": "exec", "command": ["bash", "-lc", command], "timeout_ms": 10000, "working_directory": None}
        self.item("local_shell_call", **self._id("lsh"), call_id=call, status="completed", action=action)
        self.item("function_call_output", call_id=call, output=output)
        return call

    def custom(self, name: str, source: str, output: Any) -> str:
        """Add a call whose input is a text, and its output."""
        self.think()
        call = self._call_id()
        self.item("custom_tool_call", **self._id("ctc"), status="completed", call_id=call, name=name, input=source)
        self.item("custom_tool_call_output", call_id=call, output=output)
        return call

    def patch(self, path: str, old: str | None, new: str) -> str:
        """Apply a patch; the event shows it once more."""
        if old is None:
            body = f"*** Add File: {path}\n" + "".join(f"+{line}\n" for line in new.split("\n"))
            change: Block = {"type": "add", "content": new}
        else:
            diff = texts.unified_diff(old, new, path).split("\n", 3)[3] + "\n"
            body = f"*** Update File: {path}\n{diff}"
            change = {"type": "update", "unified_diff": diff, "move_path": None}
        said = f"Success. Updated the following files:\n{'A' if old is None else 'M'} {path}\n"
        source = f"*** Begin Patch\n{body}*** End Patch"
        call = self.custom("apply_patch", source, f"Exit code: 0\nWall time: 0 seconds\nOutput:\n{said}")
        changes = {f"{self.cwd}/{path}": change}
        self.event(
            "patch_apply_end", call_id=call, stdout=said, stderr="", success=True, changes=changes, status="completed"
        )
        return call

    def mcp(self, server: str, tool: str, arguments: Mapping[str, Any], text: str, structured: Any = None) -> str:
        """Call a tool of an MCP server; the event has arguments and result once more."""
        call = self.function(tool, arguments, text)
        result = {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False}
        self.event(
            "mcp_tool_call_end",
            call_id=call,
            invocation={"server": server, "tool": tool, "arguments": arguments},
            duration={"secs": 1, "nanos": 5},
            result={"Ok": result},
        )
        return call

    def look(self, path: str, pixels: int = 64) -> str:
        parts = [picture(address(pixels, path))]
        return self.function("view_image", {"path": path}, parts)

    # Work as in the session of any agent

    def asks(self, text: str) -> Self:
        return self.user(text)

    def runs(self, command: str, output: str) -> str:
        return self.run(command, output)

    def writes(self, name: str, content: str) -> str:
        return self.patch(name, None, content)

    def says(self, text: str) -> Self:
        return self.end(text)

    # Compactions and turns taken back

    def compact(self) -> Self:
        """Add a checkpoint that keeps what people said and told the model, and a sealed summary."""
        sealed = {"type": "compaction", "encrypted_content": "gAAAA" + blocks.letters(600, self.seed, "compaction")}
        self.line("compacted", message="", replacement_history=[*self._said, sealed])
        return self.event("context_compacted")

    def back(self, turns: int) -> Self:
        return self.event("thread_rolled_back", num_turns=turns)

    # Parts

    def _call_id(self) -> str:
        self._calls += 1
        return "call_" + blocks.letters(24, self.seed, "call", self._calls)

    def _id(self, kind: str) -> dict[str, str]:
        name = f"{kind}_{blocks.hexes(48, self.seed, kind, len(self._lines))}"
        return {"id": name} if self.ids else {}

    def _uuid(self, *seed: object) -> str:
        digits = blocks.hexes(20, self.seed, *seed)
        return f"019cac38-{digits[:4]}-7{digits[4:7]}-8{digits[7:10]}-{digits[8:20]}"


class Paginated(Rollout):
    """A rollout of version 0.169: all lines are numbered, and the screen's copies are whole items of their own."""

    def __init__(self, *, seed: str = "paginated", cwd: str = "/tmp") -> None:
        self._sequence = 0
        super().__init__(seed=seed, cwd=cwd, ordinals=True)

    def _mode(self) -> Mapping[str, Any]:
        window = {"window_id": self._uuid("window")}
        return {"session_id": self._uuid("thread"), "history_mode": "paginated", "context_window": window}

    def _besides(self, kind: str) -> Mapping[str, Any]:
        if kind != "response_item":
            return {}
        self._sequence += 1
        return {"metadata": {"history_sequence": self._sequence, "client_authored": False}}

    def item(self, kind: str, /, **fields: Any) -> Self:
        """Add an item that the model reads, with the turn that it belongs to."""
        if kind.endswith("_output"):
            fields = {**self._id("fco"), **fields}
        return super().item(kind, **fields, internal_chat_message_metadata_passthrough={"turn_id": self._turn})

    def event(self, kind: str, /, **fields: Any) -> Self:
        """Add an event for the screen; of what was said and done, the whole item."""
        if kind == "user_message":
            text = {"type": "text", "text": fields["message"], "text_elements": []}
            return self.shown("UserMessage", content=[text])
        if kind == "agent_message":
            return self.shown("AgentMessage", content=[{"type": "Text", "text": fields["message"]}])
        if kind == "patch_apply_end":
            kept = {key: fields[key] for key in ("changes", "status", "stdout", "stderr")}
            return self.shown("FileChange", id=fields["call_id"], **kept)
        return super().event(kind, **fields)

    def shown(self, kind: str, /, **fields: Any) -> Self:
        item = {"type": kind, "id": self._uuid("item", len(self._lines)), **fields}
        at = int(self._now.timestamp() * 1000)
        when = {"started_at_ms": at, "completed_at_ms": at}
        thread = self._uuid("thread")
        return super().event("item_completed", thread_id=thread, turn_id=self._turn, item=item, **when)

    def think(self) -> Self:
        """Add a reasoning item with a summary of it."""
        thought = f"**{texts.heading(self._rng)}**"
        self.shown("Reasoning", summary_text=[thought], raw_content=[])
        sealed = "gAAAA" + blocks.letters(self._rng.randint(380, 900), self.seed, "sealed", len(self._lines))
        summary = [{"type": "summary_text", "text": thought}]
        return self.item("reasoning", **self._id("rs"), summary=summary, content=None, encrypted_content=sealed)

    def tokens(self) -> Self:
        """Add what was used, as a record and as an event."""
        used = self._usage(24098 + 100 * len(self._lines), 389)
        self.line("token_usage_record", thread_id=self._uuid("thread"), turn_id=self._turn, usage=used)
        return self._counted(used)

    def _usage(self, sent: int, made: int, total: int = 0) -> Block:
        none = dict.fromkeys(("cached_input_tokens", "cache_write_input_tokens", "reasoning_output_tokens"), 0)
        return {"input_tokens": sent, **none, "output_tokens": made, "total_tokens": total or sent + made}

    def _counted(self, last: Block) -> Self:
        info = {"total_token_usage": self._usage(100 * len(self._lines), 389), "last_token_usage": last}
        return self.event("token_count", info={**info, "model_context_window": 258400}, rate_limits=None)

    def _context(self) -> None:
        super()._context()
        self._state()

    def _state(self) -> None:
        """Add what Codex compares with, to tell the model only of what changed."""
        self.line("world_state", full=True, state={"model": "gpt-5.5", "environments": {"timezone": "Etc/UTC"}})

    def _ran(self, call: str, name: str, given: Mapping[str, Any] | str, output: Any) -> None:
        if name != "exec_command" or isinstance(given, str):
            return
        command = ["/bin/bash", "-lc", given["cmd"]]
        above, _, shown = output.partition("Output:\n")
        code = int(above.partition("exited with code ")[2].partition("\n")[0] or 0)
        self.shown(
            "CommandExecution",
            id=call,
            process_id="19150",
            command=command,
            cwd=f"file://{self.cwd}",
            parsed_cmd=[{"type": "unknown", "cmd": given["cmd"]}],
            source="unified_exec_startup",
            status="failed" if code else "completed",
            aggregated_output=shown,
            exit_code=code,
            duration={"secs": 0, "nanos": 4679},
        )

    def compact(self, text: str = "The pumps read the smoothed level.") -> Self:
        """Add a checkpoint with a summary, as Codex writes it for models that are not its own."""
        summary = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PREFIX + text}]}
        window = self._uuid("window")
        self.line(
            "compacted",
            message=PREFIX + text,
            replacement_history=[*self._said, summary],
            guardian_history=[*self._said, summary],
            window_number=1,
            first_window_id=window,
            previous_window_id=window,
            window_id=self._uuid("window", len(self._lines)),
        )
        self._state()
        self._counted(self._usage(0, 0, 6934))
        return self.shown("ContextCompaction")


PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking process. You also "
    "have access to the state of the tools that were used by that language model. Use this to build on the work that "
    "has already been done and avoid duplicating work. Here is the summary produced by the other language model, use "
    "the information in this summary to assist with your own analysis:\n"
)
"""What Codex puts before a summary."""


STATES = frozenset({"token_count", "thread_settings_applied", "token_usage_record"})
"""What may become an event that says nothing."""


def skeleton(entry: Block, outline: Callable[[Any], Any]) -> Block:
    """Return what of an entry no run may change: all but outputs, long arguments, images, copies and old states.

    Reasoning may go with the ids of its response: that nothing of it is parted, `parted` checks.
    """
    kind = entry["payload"].get("type")
    if kind == "reasoning" or lost_its_seal(entry):
        payload = {key: value for key, value in entry["payload"].items() if key not in ("type", "encrypted_content")}
        return {**entry, "type": "", "payload": payload}
    if not STATES.isdisjoint((entry["type"], kind)):
        return {**entry, "type": "", "payload": ""}
    return {**entry, "payload": _skeleton(entry["type"], entry["payload"], outline)}


def lost_its_seal(entry: Block) -> bool:
    """Say whether an entry was reasoning: an item that Codex leaves out, or before it knew ordinals an empty event."""
    kind = entry["payload"].get("type")
    return kind == "other" or (kind == "token_count" and "summary" in entry["payload"])


def _skeleton(kind: str, payload: Any, outline: Callable[[Any], Any]) -> Any:
    if kind == "event_msg" and payload["type"].endswith("_end"):
        return kinds(payload)
    if kind == "compacted":
        return [{**item, "content": kinds(item.get("content"))} for item in payload["replacement_history"]]
    changed: Block = {"last_agent_message": str} if "last_agent_message" in payload else {}
    if payload.get("type") == "item_completed":
        copies = ("aggregated_output", "command", "parsed_cmd", "summary_text", "raw_content", "stdout", "stderr")
        item = payload["item"]
        changed["item"] = {key: type(value) if key in copies else kinds(value) for key, value in item.items()}
    if kind == "response_item":
        payload = {key: value for key, value in payload.items() if key != "id" or payload.get("role") == "user"}
    if "images" in payload:
        changed["images"] = list
    if payload.get("type") == "message":
        changed["content"] = ["image" if is_image(part) else part for part in payload["content"]]
    for key in {"arguments", "input", "action", "output"} & payload.keys():
        inside = unpacked(payload[key])
        is_output = key == "output" and not (isinstance(inside, dict) and "metadata" in inside)
        changed[key] = kinds(payload[key]) if is_output else outline(inside)
    return {**payload, **changed}


def parted(before: Sequence[Any], after: Sequence[Any]) -> list[int]:
    """Return the responses, by their first lines, that lost reasoning or ids, and not all of both."""
    gone: dict[int, list[bool]] = {}
    thinks: set[int] = set()
    first = -1
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        item, now = old["payload"], new["payload"]
        if old["type"] != "response_item":
            continue
        if item.get("role", "assistant") != "assistant" or item["type"].endswith("_output"):
            first = -1
            continue
        first = number if first < 0 else first
        if item["type"] == "reasoning":
            thinks.add(first)
            gone.setdefault(first, []).append(now["type"] != "reasoning")
            assert lost_its_seal(new) or now == item
        elif "id" in item:
            gone.setdefault(first, []).append("id" not in now)
    return [number for number, each in gone.items() if any(each) and not (all(each) and number in thinks)]


def is_image(part: Block) -> bool:
    """Say whether a part is an image, or what stands in its place."""
    return part["type"] == "input_image" or marker.is_one(part["text"])


def unpacked(value: Any) -> Any:
    """Return what a string of JSON holds, any other value as it is."""
    try:
        return json.loads(value)
    except (ValueError, TypeError):
        return value


def kinds(value: Any) -> Any:
    """Return a value with its short texts; of a long one, of an image and of what may be emptied only the type."""
    if isinstance(value, dict):
        if value.get("type") in ("input_image", "input_text"):
            return "part"
        return {key: kinds(child) for key, child in value.items() if key not in ("arguments", "structuredContent")}
    if isinstance(value, list):
        return [kinds(child) for child in value if not (isinstance(child, dict) and child.get("type") == "text")]
    return str if isinstance(value, str) and (not value or len(value) > 200 or marker.occurs_in(value)) else value


def address(pixels: int = 16, seed: object = 0) -> str:
    return "data:image/png;base64," + blocks.png(pixels, seed)


def picture(url: str) -> Block:
    return {"type": "input_image", "image_url": url, "detail": "high"}
