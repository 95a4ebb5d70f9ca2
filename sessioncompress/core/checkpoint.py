"""The parts of a checkpoint: the words of a session, the cut, the summary, and the lines to write.

No I/O, and nothing agent-specific: formats read the words, and write checkpoints in their own form.
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
"""The author of a summary built from the session's own words, without a model."""


class Say(StrEnum):
    """The kind of one utterance. A summary is the text of an earlier checkpoint, by any author.

    A summary that is known not to be ours is `foreign`, even if it looks like ours. `carried` is a prompt that a
    checkpoint repeats from before itself.
    """

    PROMPT = "prompt"
    ANSWER = "answer"
    CALL = "call"
    RESULT = "result"
    SUMMARY = "summary"
    CARRIED = "carried"
    FOREIGN = "foreign"


class Utterance(NamedTuple):
    """One utterance: its text, or a call's tool and arguments.

    `call` links a call and its result. `failed` is what the agent recorded about a result, or what the exit status
    implies; None if neither exists.
    """

    say: Say
    text: str = ""
    tool: str = ""
    call: str = ""
    purpose: Purpose = Purpose.OTHER
    given: Mapping[str, Any] = _NOTHING
    failed: bool | None = None

    def contents(self) -> Iterator[str]:
        """Yield what references in a summary may name: the text, and each string in a call's arguments."""
        if self.text:
            yield self.text
        yield from (text for _, text in self.strings())

    def strings(self) -> Iterator[tuple[str, str]]:
        """Yield each string in a call's arguments with its key in lower case (in a list: the list's key)."""
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
    """The cut of a session: the lines that the summary replaces, and the lines that stay, in the model's order.

    Neither is empty. An earlier checkpoint of the live path is the first of `old`. `kept` begins with a message, or
    with silent entries just before one. `splits` is True if it begins inside a turn.
    """

    old: Sequence[int]
    kept: Sequence[int]
    splits: bool


class Summary(NamedTuple):
    """A summary: its text, a one-line version, and the files that were read and those that were changed.

    No file is in both. `refs` are the references in the text. `tokens_before` and `tokens_after` count what the model
    reads without and with the checkpoint. `by` is the author: "extractive" if the summary is built from the session's
    own words, or a command, an endpoint with its `model`, or the `beforeCommand`. `preserved` is the JSON object that a
    `beforeCommand` asks to keep.
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
    """A session as a format needs it to write a checkpoint: its lines, and its entries, parsed on demand.

    `newest` returns the last entry whose line contains these bytes and that the function accepts. `raw` returns the
    bytes of a line with its LF; a document's message, and one that was set along with others, has no LF. `outer` holds
    the values around a document's messages.
    """

    lines: Lines
    entry: Callable[[int], Mapping[str, Any]]
    newest: Callable[[bytes, Callable[[Mapping[str, Any]], bool]], Mapping[str, Any] | None]
    raw: Callable[[int], bytes]
    outer: Any = None


class NewSession(NamedTuple):
    """A session that continues another one: its file name and content."""

    name: str
    content: bytes


class Addition(NamedTuple):
    """A line to add `before` the line with this number, or at the end: bytes with the LF, or a document's message."""

    before: int
    line: bytes


class Checkpoint(NamedTuple):
    """The changes that write a checkpoint: lines to add and remove, and a document's values around its messages.

    All line numbers are from before the write. Lines added before the same number keep their order here. `removed`
    includes the last message only if a message is added after it. `outer` maps paths from the document's root to new
    values; a new key is a splice.Added. `repeated` are kept lines that an added line repeats byte for byte: they are
    live there and dead in their old place. `stays` are old lines that the model continues to read, such as the system
    prompt. `changed` has the new bytes of lines that stay.
    """

    added: tuple[Addition, ...]
    removed: frozenset[int] = frozenset()
    outer: Mapping[JsonPath, Any] = MappingProxyType({})
    repeated: frozenset[int] = frozenset()
    stays: frozenset[int] = frozenset()
    changed: Mapping[int, bytes] = MappingProxyType({})
