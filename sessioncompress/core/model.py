"""The frozen values that pass between the stages: lines, blocks, changes, references. No I/O, no logic of a format.

A run makes those of a line by the hundred thousand. They are named tuples, which take a third of the time to make that
a frozen dataclass takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

_MOST = 1_000_000_000
"""Tokens. No request comes near: a larger number is a mistake, or meant to be one."""


class Usage(NamedTuple):
    """The tokens of one request, each counted once: `input` was sent beside what a cache held or took.

    `reasoning` is a part of `output`.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def prompt(self) -> int:
        """All tokens that were sent."""
        return self.input + self.cache_read + self.cache_write

    @property
    def context(self) -> int:
        """The tokens that were sent and came back: the next request holds them, and what comes behind them."""
        return self.prompt + self.output


class Answer(NamedTuple):
    """What a line says of one request: its model, and its usage, or the text of the error with which it failed.

    `usage` is None where none is recorded, or none that can be: all zero, say. An answer with neither usage nor error
    that stands beside the messages names the model and the window of those behind it. `window` is the model's context
    window in tokens as the agent recorded it, `at` a time in milliseconds; 0: unknown. `line` is -1 until whoever reads
    the lines knows it. `cut_short`: the answer ends where the model's longest, or its context, ended.
    """

    line: int = -1
    model: str = ""
    usage: Usage | None = None
    error: str = ""
    window: int = 0
    at: int = 0
    cut_short: bool = False


def beside(*counts: Any) -> Usage | None:
    """Read the usage of a vendor that counts what caches held or took beside what was sent: the fields of a usage.

    None where nothing was sent, or a value is no number of tokens; one that is missing is 0.
    """
    known = [each for each in map(tokens, counts) if each is not None]
    usage = Usage(*known) if len(known) == len(counts) else None
    return usage if usage and usage.prompt else None


def within(*counts: Any) -> Usage | None:
    """Read the usage of a vendor that counts what caches held or took as parts of what was sent; see beside()."""
    usage = beside(*counts)
    if usage is None or usage.input < usage.cache_read + usage.cache_write:
        return None
    return usage._replace(input=usage.input - usage.cache_read - usage.cache_write)


def tokens(value: Any) -> int | None:
    """Read a number of tokens, 0 where there is none, and None for what cannot be one."""
    if value is None:
        return 0
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if good else None


JsonPath = tuple[str | int, ...]
"""Where a value stands in a line's JSON document: object keys and array indexes from the root."""


class Kind(StrEnum):
    """What a block is; thresholds and compressors go by it.

    An attachment is text that the agent itself puts in: it goes only where the live path says it again, or is dead.
    """

    ARGUMENT = "argument"
    RESULT = "result"
    THINKING = "thinking"
    IMAGE = "image"
    MIRROR = "mirror"
    ATTACHMENT = "attachment"

    @property
    def shown(self) -> str:
        """Its word on screens."""
        return "screen copy" if self is Kind.MIRROR else self.value


class Standing(StrEnum):
    """Where a line stands: whole, free to be previewed, or never seen by a model again."""

    PROTECTED = "protected"
    OLD = "old"
    DEAD = "dead"


class Role(StrEnum):
    """What a line is to the plan, in every format."""

    HEADER = "header"
    USER = "user"
    ASSISTANT = "assistant"
    RESULT = "result"
    CHECKPOINT = "checkpoint"
    OTHER = "other"
    BLANK = "blank"
    OPAQUE = "opaque"


class Purpose(StrEnum):
    """What a tool is for, as far as a compressor must know."""

    READ = "read"
    WRITE = "write"
    COMMAND = "command"
    AGENT = "agent"
    OTHER = "other"


class Treatment(StrEnum):
    """What happens to a value: shortened, named only, cleared as its agent does, taken out, or set to a given text."""

    PREVIEW = "preview"
    REFERENCE = "reference"
    CLEAR = "clear"
    REMOVE = "remove"
    SET = "set"


class Block(NamedTuple):
    """One replaceable value of a line.

    `call` is the name of its call. `size` is the length in bytes of its JSON text, `bulk` the part of it in strings
    long enough to be replaced, of a text its own length, and of an image the characters that a model reads for it: a
    block without bulk stays.
    `digest` (first 16 bytes of the SHA-256 of its JSON text) is set where contents are compared: results, and text that
    holds something in the marker's form (`marked`). `unseen` is a mirror that no screen shows again either.
    """

    kind: Kind
    path: JsonPath
    size: int
    bulk: int
    tool: str = ""
    call: str = ""
    digest: bytes = b""
    marked: bool = False
    unseen: bool = False


make_block: Callable[[Iterable[Any]], Block] = partial(tuple.__new__, Block)
"""Makes a block of its fields in their order, in a third of the time that calling its class takes."""


class Tie(NamedTuple):
    """A value that must change together with the thinking of its message: set to `value`, or taken out (None)."""

    path: JsonPath
    value: str | None
    size: int


SKILL_FILE = "SKILL.md"
"""The name of a file that is a skill."""


class Call(NamedTuple):
    """A tool call: its id, the part of the id that no change cuts, its tool, and what file, or part, it is about."""

    id: str
    name: str
    tool: str
    purpose: Purpose
    file: str = ""
    part: str = ""

    @property
    def reads_skill(self) -> bool:
        """Whether the call reads a skill: what it gave back stays."""
        return self.purpose is Purpose.READ and self.file.endswith(SKILL_FILE)


class Facts(NamedTuple):
    """What only some lines have, apart so that the others take no memory for it.

    `sealed` lines carry data that binds their calls to bytes we must not touch; in `bound` lines calls may change
    only together with the ties. `repeats` holds the digests of results and attachments that the line's text repeats.
    `keeps` is a checkpoint's first kept entry. `listed`: a header says that its entries follow each other, whatever
    their ids. `foreign` lines are read as their agent reads them and not by our parser: they are counted, and never
    changed. `several` are the calls whose results a line holds where they are more than one. `prompt` lines are what
    the turn of the user line behind them begins with. `task` lines begin work in the course of which several user lines
    may come. `back`: so many turns are taken back. `first`: the first of messages that were set all at once.
    `copy_of` is the id of the entry from which the agent copied the results in this one. `conflict` lines are no
    entries: git put them around what it could not merge. `reports` is the call at whose work the line was written:
    until its result is there, a screen may show that. `edits` is the id of an earlier entry whose place this one takes.
    """

    ties: tuple[Tie, ...] = ()
    failed: bool = False
    thinks: bool = False
    sealed: bool = False
    bound: bool = False
    repeats: tuple[bytes, ...] = ()
    keeps: str | int = ""
    listed: bool = False
    foreign: bool = False
    several: tuple[str, ...] = ()
    prompt: bool = False
    task: bool = False
    back: int = 0
    first: bool = False
    copy_of: str = ""
    conflict: bool = False
    reports: str = ""
    edits: str = ""


PLAIN = Facts()
"""Most lines have nothing of it."""


class Line(NamedTuple):
    """What the plan knows of one line. Sizes are bytes, `io` and `reads` are characters.

    `io` counts the line's tool calls and results; `reads` all that a model reads of it. `digest` is the XXH3 of
    the bytes, to see that two passes read the same line. `answers` is the call whose result the line is. `response` is
    the assistant message that the line is a part of, where an agent writes one in several lines; `time` when a line
    was written, in milliseconds, where the newest one tells how the lines hang together.
    """

    role: Role
    size: int
    digest: int
    id: str = ""
    parent: str = ""
    blocks: tuple[Block, ...] = ()
    calls: tuple[Call, ...] = ()
    answers: str = ""
    io: int = 0
    reads: int = 0
    facts: Facts = PLAIN
    response: str = ""
    time: int = 0


make_line: Callable[[Iterable[Any]], Line] = partial(tuple.__new__, Line)
"""Makes a line of its fields in their order, in a third of the time that calling its class takes."""


class Shape(NamedTuple):
    """How a session's lines hang together: line numbers of the live path in order, and which of them are dead."""

    live: Sequence[int]
    dead: frozenset[int]


class Change(NamedTuple):
    """What the plan decided for one value of one line; those of one `group` (not 0) happen together or not at all.

    `saves` is the bytes it should save, estimated before anything is rendered; `note` is what a reference says
    the text repeats; `failures` keeps the lines that report a failure.
    """

    line: int
    path: JsonPath
    treatment: Treatment
    saves: int
    block: Block | None = None
    value: str | None = None
    note: str = ""
    group: int = 0
    failures: bool = False


class Origin(NamedTuple):
    """The original of a replaced value, as the journal keeps it: reference, digest, place in its line, and size."""

    ref: str
    digest: str
    path: JsonPath
    bytes: int
    lines: int


OurKey = tuple[bytes, Kind, str]
"""Digest, kind and call id of a replacement: only a text that agrees in all three is ours."""


class Replacement(NamedTuple):
    """One value of a line as it is to be written, in the place of JSON text of `was` bytes.

    `written` is the new value's JSON text, empty where the old one is taken out. `content` is what the reference
    names; None: there is none. `origin` is set where our own preview shrinks.
    """

    path: JsonPath
    value: Any
    change: Change
    was: int
    written: bytes
    content: bytes | None = None
    origin: Origin | None = None
