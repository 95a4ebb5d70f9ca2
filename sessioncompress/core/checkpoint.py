"""The parts of a checkpoint: what was said in a session, the cut, the summary, and what is written.

No I/O, and nothing that differs between agents: formats read what was said, and write checkpoints in their form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import JsonPath, Purpose

_NOTHING: Mapping[str, Any] = MappingProxyType({})

EXTRACTIVE = "extractive"
"""Who wrote a summary that was made from the session's own words, without a model."""


class Say(StrEnum):
    """The kind of one thing that was said. A summary is that of an earlier checkpoint, whoever wrote it.

    A summary that is known not to be ours is `foreign`, whatever it looks like. A prompt that a checkpoint repeats from
    before it is `carried`.
    """

    PROMPT = "prompt"
    ANSWER = "answer"
    CALL = "call"
    RESULT = "result"
    SUMMARY = "summary"
    CARRIED = "carried"
    FOREIGN = "foreign"


class Said(NamedTuple):
    """One thing that was said: the words, or of a call its tool and what it was given.

    `call` joins a call with its result. `failed` is what the agent recorded of a result, or what its exit status says;
    None if neither is there.
    """

    say: Say
    text: str = ""
    tool: str = ""
    call: str = ""
    purpose: Purpose = Purpose.OTHER
    given: Mapping[str, Any] = _NOTHING
    failed: bool | None = None

    def contents(self) -> Iterator[str]:
        """Yield what a reference in a summary may name: the words, and each string that a call was given."""
        if self.text:
            yield self.text
        yield from (text for _, text in self.strings())

    def strings(self) -> Iterator[tuple[str, str]]:
        """Yield each string that a call was given, with its key in lower case; one in a list has the list's key."""
        waiting: list[tuple[str, Any]] = [("", self.given)]
        while waiting:
            key, value = waiting.pop()
            if isinstance(value, str):
                if value:
                    yield key.lower(), value
            elif isinstance(value, Mapping):
                waiting += reversed([(str(name), each) for name, each in value.items()])
            elif isinstance(value, list):
                waiting += [(key, each) for each in reversed(value)]


class Cut(NamedTuple):
    """Where a session is cut: the lines that the summary replaces, and those that stay, in the model's order.

    Neither is empty. An earlier checkpoint of the live path is the first of `old`. `kept` begins with a message or with
    silent entries just before one. `splits`: it begins inside a turn.
    """

    old: Sequence[int]
    kept: Sequence[int]
    splits: bool


class Summary(NamedTuple):
    """A summary: its text, one short line of it, and files: those that were read, and those that were changed.

    No file is in both. `refs` are the references in it. The tokens are those of what the model reads, without and with
    the checkpoint. `by` is who wrote it: "extractive" if it is taken from the session's own words, or a command, an
    endpoint with its `model`, or the `beforeCommand`; `preserved` is the JSON object that the latter asks to keep.
    """

    text: str
    short: str = ""
    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    by: str = EXTRACTIVE
    model: str = ""
    preserved: str = ""


class Written(NamedTuple):
    """A session as a format needs it to write a checkpoint: its lines, and entries of it, parsed when asked for.

    `newest` finds the last entry whose line has these bytes and that the function accepts. `raw` returns the bytes of
    a line, with its LF; a document's message, and one that was set with others, has none. `outer` has the values
    around a document's messages.
    """

    lines: Lines
    entry: Callable[[int], Mapping[str, Any]]
    newest: Callable[[bytes, Callable[[Mapping[str, Any]], bool]], Mapping[str, Any] | None]
    raw: Callable[[int], bytes]
    outer: Any = None


class NewSession(NamedTuple):
    """A session that continues another one: the name of its file, and its content."""

    name: str
    content: bytes


class Addition(NamedTuple):
    """A line to add `before` the line of that number, or at the end: its bytes with the LF, or a document's message."""

    before: int
    line: bytes


class Checkpoint(NamedTuple):
    """What a checkpoint writes: lines to add, lines to remove, and in a document also values around its messages.

    All numbers are those before anything is written; lines added before the same number keep their order here.
    `removed` has the last message only if one is added after it. `outer` has the values around the messages by their
    paths from the document's root; a new key is splice.Added. `repeated` are kept lines that an added line repeats byte
    for byte: they are live there and dead in their old place. `stays` are old lines that the model continues to read,
    such as the system's. `changed` has the new bytes of lines that stay.
    """

    added: tuple[Addition, ...]
    removed: frozenset[int] = frozenset()
    outer: Mapping[JsonPath, Any] = MappingProxyType({})
    repeated: frozenset[int] = frozenset()
    stays: frozenset[int] = frozenset()
    changed: Mapping[int, bytes] = MappingProxyType({})
