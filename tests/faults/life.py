"""What an agent does to a session in the state machine, and the one text that the session would be if we had never run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.faults.scenes import NAME
from tests.support import texts
from tests.support.blocks import call, dice, stringify, text, thinking
from tests.support.strategies import ARGUMENTS, ENTRY, OTHER, TEXT, TOOLS, WRITERS

_HEADER: dict[str, Any] = {"type": "session", "id": "x", "timestamp": "2026-03-02T09:00:00.000Z", "cwd": "/tmp"}
_MEMORY = Path("/dev/shm")
"""A kill loses nothing that was written, so no disk is needed to see what it does; without one it takes a third."""


@st.composite
def _any(draw: st.DrawFn, number: int) -> Any:
    """Draw from one of the large strategies, whose text would fill the report of a failure."""
    return draw((TEXT, TOOLS, ARGUMENTS, ENTRY, OTHER)[number])


_TEXT, _TOOL, _ARGUMENTS, _ENTRY, _OTHER = (_any(number) for number in range(5))
_WRITER = st.integers(0, len(WRITERS) - 1).map(WRITERS.__getitem__)


class Agent(RuleBasedStateMachine):
    """An agent and its session. `original` is what would be there if no one had ever compressed it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None))
        self.path = self.folder / "here" / NAME
        self.path.parent.mkdir()
        self.original = b""
        self.rest = b""
        self.ids: list[str] = []
        self.leaf: str | None = None

    def teardown(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.folder)

    @initialize(tree=st.sampled_from([True, True, True, False]))
    def begins(self, tree: bool) -> None:
        """The agent writes its header."""
        self.tree = tree
        self._append(stringify({**_HEADER, **({"version": 3} if tree else {})}).encode() + b"\n")
        self.asks("Go.")

    @rule(prompt=st.sampled_from(["Go on.", "And now?", "漢字 é 👩‍👧"]))
    @precondition(lambda self: not self.rest)
    def asks(self, prompt: str) -> None:
        """The user begins a turn."""
        self._message(role="user", content=[text(prompt)])
        self._message(role="assistant", content=[text("So be it.")], api="anthropic-messages")

    @rule(
        tools=st.lists(st.tuples(_TOOL, _ARGUMENTS, _TEXT), min_size=1, max_size=3),
        turned=st.booleans(),
        ends=st.booleans(),
        think=_TEXT,
    )
    @precondition(lambda self: not self.rest)
    def works(self, tools: list[tuple[Any, Any, Any]], turned: bool, ends: bool, think: str) -> None:
        """The model thinks and makes calls, one or several at once; their results come in either order."""
        made = [f"call_{len(self.ids)}_{number}|fc_{number}" for number in range(len(tools))]
        calls = [
            {**call(name, tool, {}), "arguments": given} for name, (tool, given, _) in zip(made, tools, strict=True)
        ]
        self._message(role="assistant", content=[thinking(think or "?"), *calls], api="openai-responses")
        results = list(zip(made, tools, strict=True))
        for name, (tool, _, out) in reversed(results) if turned else results:
            self._message(**_result(name, tool, out))
        if ends:
            self.asks("Go on.")

    @rule()
    @precondition(lambda self: not self.rest)
    def works_much(self) -> None:
        """The model reads a file and writes another, and the next turn makes both old: the next run finds work."""
        tools = [
            ("read", {"path": f"{len(self.ids)}.py"}, texts.python_source(dice("read", len(self.ids)), 12)),
            ("write", {"path": "b.py", "content": texts.python_source(dice("write", len(self.ids)), 12)}, "ok"),
        ]
        self.works(tools, turned=False, ends=True, think="First I look, then I write. " * 30)
        self.asks("Go on.")

    @rule(entries=st.lists(st.tuples(_ENTRY, _WRITER), min_size=1, max_size=4))
    @precondition(lambda self: not self.rest)
    def writes_oddly(self, entries: list[tuple[dict[str, Any], Callable[[str], bytes]]]) -> None:
        """Something is written that no agent should write: any type in any field, in any spelling."""
        for entry, writer in entries:
            self._entry(entry, writer)

    @rule(back=st.integers(1, 12))
    @precondition(lambda self: not self.rest and self.tree)
    def goes_back(self, back: int) -> None:
        """The user goes back in the tree and asks anew."""
        self.leaf = self.ids[-back] if back <= len(self.ids) else None
        self.asks("Or else?")

    @rule(keep=st.integers(0, 9), entry=_OTHER)
    @precondition(lambda self: not self.rest)
    def compacts(self, keep: int, entry: dict[str, Any]) -> None:
        """The agent makes a checkpoint, and maybe another entry of its own."""
        kept = (
            {"firstKeptEntryId": self.ids[-min(keep + 1, len(self.ids))]}
            if self.tree
            else {"firstKeptEntryIndex": keep}
        )
        self._entry({"type": "compaction", "summary": "What was done.", **kept})
        self._entry(entry)

    @rule(out=_TEXT, share=st.integers(1, 99))
    @precondition(lambda self: not self.rest)
    def is_cut_short(self, out: str, share: int) -> None:
        """The agent has written a part of a line."""
        line = self._made({"type": "message", "message": _result("none", "bash", out)}, str.encode)
        cut = max(1, len(line) * share // 100)
        self._append(line[:cut])
        self.rest = line[cut:]

    @rule()
    @precondition(lambda self: self.rest)
    def writes_the_rest(self) -> None:
        """The rest of the line comes."""
        self._append(self.rest)
        self.rest = b""

    @contextmanager
    def copied(self) -> Iterator[Path]:
        """Copy all that lies there, two names of one file as two names of one file; return the session's copy."""
        copy = self.folder / "copy"
        names: dict[int, Path] = {}
        for each in sorted(self.path.parent.rglob("*")):
            there = copy / each.relative_to(self.path.parent)
            there.parent.mkdir(parents=True, exist_ok=True)
            if each.is_dir():
                there.mkdir(exist_ok=True)
            elif each.stat().st_ino in names:
                os.link(names[each.stat().st_ino], there)
            else:
                names[each.stat().st_ino] = there
                shutil.copy2(each, there)
        try:
            yield copy / NAME
        finally:
            shutil.rmtree(copy)

    def _append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)
        self.original += data

    def _message(self, **fields: Any) -> None:
        self._entry({"type": "message", "message": fields})

    def _entry(self, entry: dict[str, Any], writer: Callable[[str], bytes] = str.encode) -> None:
        self._append(self._made(entry, writer))

    def _made(self, entry: dict[str, Any], writer: Callable[[str], bytes]) -> bytes:
        own = {}
        self.ids.append(f"{len(self.ids):08x}")
        if self.tree:
            own = {"id": self.ids[-1], "parentId": self.leaf}
            self.leaf = self.ids[-1]
        return writer(stringify({**entry, **own})) + b"\n"


def _result(name: str, tool: str, out: str) -> dict[str, Any]:
    content = [text(out)]
    return {"role": "toolResult", "toolCallId": name, "toolName": tool, "content": content, "isError": False}
