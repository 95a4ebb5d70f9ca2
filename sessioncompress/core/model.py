"""The immutable values that pass between the stages: lines, blocks, changes, replacements. No I/O, no format logic.

A run creates hundreds of thousands of them. They are named tuples because those take a third of the time to create that
frozen dataclasses take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

_MOST = 1_000_000_000
"""Tokens. No real request is near it: a larger number is a mistake or an attack."""


class Usage(NamedTuple):
    """The tokens of one request, each counted once. `reasoning` is part of `output`; `input` excludes cached tokens."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def prompt(self) -> int:
        """All tokens sent."""
        return self.input + self.cache_read + self.cache_write

    @property
    def context(self) -> int:
        """All tokens sent and received: the next request contains them and whatever follows."""
        return self.prompt + self.output


class Answer(NamedTuple):
    """One request as a line records it: its model, and its usage, or the text of the error with which it failed.

    `usage` is None if none is recorded, or it is impossible (all zero, for example). An answer without usage and error
    that is outside the messages names the model and the window of the messages after it. `window` is the model's
    context window in tokens as the agent recorded it, `at` a time in milliseconds; 0 means unknown. `line` is -1 until
    the reader of the lines sets it. `cut_short` is True if the answer hit the output limit or the end of the context.
    """

    line: int = -1
    model: str = ""
    usage: Usage | None = None
    error: str = ""
    window: int = 0
    at: int = 0
    cut_short: bool = False


def beside(*counts: Any) -> Usage | None:
    """Return the usage of a vendor that counts cached tokens apart from `input`; the arguments are Usage's fields.

    A missing value counts as 0. None if nothing was sent, or a value is not a number of tokens.
    """
    known = [each for each in map(tokens, counts) if each is not None]
    usage = Usage(*known) if len(known) == len(counts) else None
    return usage if usage and usage.prompt else None


def within(*counts: Any) -> Usage | None:
    """Return the usage of a vendor that counts cached tokens as part of `input`.

    A missing value counts as 0. None if nothing was sent, a value is not a number of tokens, or the cached tokens
    exceed the input.
    """
    usage = beside(*counts)
    if usage is None or usage.input < usage.cache_read + usage.cache_write:
        return None
    return usage._replace(input=usage.input - usage.cache_read - usage.cache_write)


def tokens(value: Any) -> int | None:
    """Return a number of tokens, 0 if it is missing, or None if the value can't be one."""
    if value is None:
        return 0
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if good else None


JsonPath = tuple[str | int, ...]
"""The place of a value in a line's JSON document: object keys and array indexes from the root."""


class Kind(StrEnum):
    """The kind of a block; it selects thresholds and compressors.

    An attachment is text that the agent itself inserts. It is removed only if the live path repeats it, or it is dead.
    """

    ARGUMENT = "argument"
    RESULT = "result"
    THINKING = "thinking"
    IMAGE = "image"
    MIRROR = "mirror"
    ATTACHMENT = "attachment"

    @property
    def shown(self) -> str:
        """The word for it on screens."""
        return "screen copy" if self is Kind.MIRROR else self.value


class Protection(StrEnum):
    """The status of a line: it stays whole, may be previewed, or will never be seen by a model again."""

    PROTECTED = "protected"
    OLD = "old"
    DEAD = "dead"


class Role(StrEnum):
    """The role of a line in the plan, in every format."""

    HEADER = "header"
    USER = "user"
    ASSISTANT = "assistant"
    RESULT = "result"
    CHECKPOINT = "checkpoint"
    OTHER = "other"
    BLANK = "blank"
    OPAQUE = "opaque"


class Purpose(StrEnum):
    """The purpose of a tool, in the detail that compressors need."""

    READ = "read"
    WRITE = "write"
    COMMAND = "command"
    AGENT = "agent"
    OTHER = "other"


class Treatment(StrEnum):
    """The change to a value: shorten, reduce to a reference, clear as its agent does, remove, or set to a text."""

    PREVIEW = "preview"
    REFERENCE = "reference"
    CLEAR = "clear"
    REMOVE = "remove"
    SET = "set"


class Block(NamedTuple):
    """One replaceable value of a line.

    `tool` and `call` name its tool and its call. `size` is the length in bytes of its JSON text. `bulk` is the part of
    that in strings long enough to be replaced; for a text it is the text's length, for an image the characters that a
    model reads for it. A block without bulk stays. `digest` (first 16 bytes of the SHA-256 of its JSON text) is set if
    contents are compared: for results, and for text that contains anything in the form of a marker (`marked`). `unseen`
    is a mirror that no screen shows again.
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
"""Creates a block from its fields in order, in a third of the time that the class itself takes."""


class Tie(NamedTuple):
    """A value that must change together with its message's thinking: set to `value`, or removed if that is None."""

    path: JsonPath
    value: str | None
    size: int


SKILL_FILE = "SKILL.md"
"""The name of every skill's main file."""


class Call(NamedTuple):
    """A tool call: its id, the stable part of the id (`name`), its tool, and the file (and part) that it concerns."""

    id: str
    name: str
    tool: str
    purpose: Purpose
    file: str = ""
    part: str = ""

    @property
    def reads_skill(self) -> bool:
        """True if the call reads a skill; its result stays."""
        return self.purpose is Purpose.READ and self.file.endswith(SKILL_FILE)


class Facts(NamedTuple):
    """Rare facts about a line, kept apart so that other lines use no memory for them.

    - `sealed`: the line has data that binds its calls to bytes that we must not touch.
    - `bound`: calls in the line may change only together with the ties.
    - `repeats`: digests of results and attachments that the line's text repeats.
    - `keeps`: a checkpoint's first kept entry.
    - `listed`: a header whose entries follow each other, whatever their ids.
    - `foreign`: the agent reads the line but our parser doesn't; it is counted and never changed.
    - `several`: the calls whose results the line holds, if there is more than one.
    - `prompt`: the line begins the turn of the user line after it.
    - `task`: the line begins work that may include several user lines.
    - `back`: the number of turns that are taken back.
    - `first`: the first of several messages that were set at once.
    - `copy_of`: the id of the entry from which the agent copied this one's results.
    - `conflict`: not an entry; git wrote it around a merge conflict.
    - `reports`: the call during which the line was written; a screen may show the line until the call has a result.
    - `edits`: the id of an earlier entry that this one replaces.
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


class Line(NamedTuple):
    """The plan's view of one line. Sizes are bytes; `io` and `reads` are characters.

    `io` counts the line's tool calls and results, `reads` everything that a model reads of it. `digest` is the XXH3 of
    the bytes; it shows that two passes read the same line. `answers` is the call whose result the line is. `response`
    is the assistant message that the line is part of, if the agent writes one in several lines. `time` is when the line
    was written, in milliseconds, if the newest line decides how lines are linked.
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


class Shape(NamedTuple):
    """The structure of a session: the line numbers of the live path in order, and the dead ones."""

    live: Sequence[int]
    dead: frozenset[int]


class Change(NamedTuple):
    """The plan's decision on one value of one line; changes of one `group` (not 0) happen together or not at all.

    `saves` is the estimated saving in bytes, before anything is rendered. `note` is the reference's
    text about what is repeated. `failures` keeps the lines that report a failure.
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
    """The original of a replaced value in the journal: reference, digest, path in its line, size in bytes and lines."""

    ref: str
    digest: str
    path: JsonPath
    bytes: int
    lines: int


OurKey = tuple[bytes, Kind, str]
"""Digest, kind and call id of a replacement: a text is ours only if all three match."""


class Replacement(NamedTuple):
    """One value of a line as it will be written, replacing JSON text of `was` bytes.

    `written` is the new value's JSON text, empty if the old one is removed. `content` is what the reference names, or
    None if there is no reference. `origin` is set if our own preview shrinks.
    """

    path: JsonPath
    value: Any
    change: Change
    was: int
    written: bytes
    content: bytes | None = None
    origin: Origin | None = None
