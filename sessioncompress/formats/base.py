"""The interface of a format: recognize a session, read a line, link the lines, and list what may change."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from itertools import takewhile
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from xxhash import xxh3_64_intdigest

from sessioncompress.core import model
from sessioncompress.core.checkpoint import Checkpoint, Cut, NewSession, Say, Summary, Utterance, Written
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import PLAIN, Answer, Block, Call, Facts, JsonPath, Line, Purpose, Role, Shape
from sessioncompress.core.pointers import Pointers
from sessioncompress.core.splice import REMOVED, CannotSplice, splice
from sessioncompress.core.text import json_safe
from sessioncompress.formats import values

Entry = dict[str, Any]
"""The parsed JSON object of one line."""

HEAD_LINES = 64
"""Number of a session's first lines that are used to detect its format."""
_OWN_FOR_EACH_OTHER = 16
"""Lines of an agent for each line of another program among them."""


class Head(NamedTuple):
    """A file's first parsed lines, or a document's first messages; `document` then holds everything else."""

    entries: tuple[Entry, ...]
    document: Any = None
    parsed: Mapping[bytes, Entry] = MappingProxyType({})
    """The same entries by their bytes, so that a reader of the whole file need not parse them again."""


class Name(NamedTuple):
    """A session's identity according to its header: its id, and the names of the sessions that it was forked from.

    `project` is the folder in which it was started, or the SHA-256 of that path in hex if the agent records only that.
    """

    id: str = ""
    parents: tuple[str, ...] = ()
    project: str = ""


def name_of(own: Any, project: Any = "", *parents: Any) -> Name:
    """Make a Name of a header's values, which may be of any type."""
    named = tuple(filter(None, map(values.text, parents)))
    return Name(values.text(own), named, values.text(project))


def almost_all(entries: Sequence[Entry], is_own: Callable[[Entry], bool]) -> bool:
    """True if at most one entry in 16 is not the agent's own, and the first is.

    A line that another program put in must not hide a session. That program's files begin differently, or have more.
    """
    others = sum(not is_own(each) for each in entries)
    return bool(entries) and is_own(entries[0]) and others * _OWN_FOR_EACH_OTHER <= len(entries)


class Cleared(NamedTuple):
    """The text that an agent leaves when it clears a result, and the members that it adds, by their paths.

    The text is None if the agent keeps the result, and only shows the model other words.
    """

    text: str | None
    flags: Mapping[JsonPath, Any]


class CannotCheckpoint(Exception):
    """A session can't have a checkpoint: `what` is the reason and `remedy` the advice, both worded for an error."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class Reader(ABC):
    """Reads the lines of one file in order; it may keep state from earlier lines."""

    purposes: Mapping[str, Purpose] = {"read": Purpose.READ, "write": Purpose.WRITE, "bash": Purpose.COMMAND}
    """The purposes of the agent's tools, by lower-case name; other tools are Purpose.OTHER."""

    part_keys: Sequence[str] = values.PART_KEYS
    """The arguments that select a part of a file, if the agent's reads support that."""

    reads_as = ""
    """Set if a read's result is not, or may not be, the file itself: its lines are numbered, for example."""

    linking: Sequence[str] = ()
    """The keys (`outer.key` if nested) of strings that link lines, extracted from lines too large to be parsed."""

    def __init__(self) -> None:
        self.asked: dict[str, Call] = {}
        """The calls that wait for their results. A result then shares its call's strings instead of holding copies."""

    @abstractmethod
    def line(self, raw: bytes, entry: Entry) -> Line:
        """Return what the plan must know about this line."""

    def said(self, entry: Entry) -> Iterable[Utterance]:
        """Yield the utterances in an entry of the live path, in order, without the agent's own insertions.

        It accepts any entry without raising, and depends on no earlier entry.
        """
        return ()

    def may_prompt(self, raw: bytes) -> bool:
        """True if a line, by its bytes, may hold a prompt; code that only counts prompts parses no other line."""
        return b'"user"' in raw

    def said_call(self, name: Any, tool: Any, given: Any) -> Utterance:
        """Read a call as Said: its tool and arguments."""
        tool = values.text(tool)
        purpose = self.purposes.get(tool.lower(), Purpose.OTHER)
        return Utterance(Say.CALL, tool=tool, call=values.text(name), purpose=purpose, given=values.fields(given))

    def call(self, name: Any, tool: Any, given: Any, stays: str | None = None) -> Call:
        """Read a call, which then waits for its result; `stays` is the part of its name that no change removes."""
        name, tool, given = values.text(name), intern(values.text(tool)), values.fields(given)
        purpose = self.purposes.get(tool.lower(), Purpose.OTHER)
        parts = [self.reads_as] if self.reads_as and purpose is Purpose.READ else []
        file = ""
        for key in values.FILE_KEYS:
            if key in given:
                file = intern(values.text(given[key]))
                break
        for key in self.part_keys if file else ():
            if key in given:
                at = given[key]
                parts.append(f"{key}={at if isinstance(at, str) else values.literal(at).decode()}")
        made = Call(name, name if stays is None else stays, tool, purpose, file, ",".join(parts))
        self.asked[name] = made
        return made

    def answered(self, name: Any) -> Call:
        """Return the call that a result answers, which then stops waiting; without a tool if it is unknown."""
        name = values.text(name)
        return self.asked.pop(name, None) or Call(name, name, "", Purpose.OTHER)


class Format(ABC):
    """One agent's session format. An agent's class overrides only the defaults that differ."""

    name: str
    """The name in reports and in `--json`."""

    reader: type[Reader]
    """The class that reads the lines; each file gets a new instance."""

    other_tools: str = ""
    """The agent's other tools (the reader lists those with a purpose), in lower case, separated by blanks."""

    kept_tools: frozenset[str] = frozenset()
    """Tools whose calls and results stay, in lower case: they hold the user's words, or a resume reads them."""

    listings: frozenset[str] = frozenset()
    """Attachments that list the agent's skills, agents or tools, by the name in their blocks."""

    links: re.Pattern[str] | None = None
    """Text in a result that names an agent's file and must stay: the agent deletes files that no session names."""

    preamble: re.Pattern[str] | None = None
    """The agent's lines above a result's own text, possibly none; a preview shows only `ended` of them."""

    ended: re.Pattern[str] | None = None
    """The line (or JSON member in a result) that reports how a command ended."""

    longest_state = 0
    """Bytes. Details of an unknown tool's result up to this size may be an extension's state."""

    of_tasks: frozenset[str] = frozenset()
    """Tools whose newest mirror in each task stays, because a fork may start right after it."""

    renews_ids = False
    """True if the agent's forks give each entry a new id; calls keep theirs."""

    thanks: str = ""
    """The reply that the agent writes to its own summary; a checkpoint writes it after ours."""

    bare: Mapping[JsonPath, Any] = MappingProxyType({})
    """The values, by path, that replace an entry that is entirely a mirror; one path is the mirror's own."""

    answer_marks: tuple[bytes, ...] = ()
    """Each entry for which answer() returns something contains one of these."""

    titles: Sequence[JsonPath] = ()
    """Paths of the session's title in an entry, or outside a document's messages; the first one wins."""

    @cached_property
    def tools(self) -> frozenset[str]:
        """The agent's own tools, in lower case."""
        return frozenset({*self.reader.purposes, *self.other_tools.split()})

    def outputs(self, entry: Entry) -> Iterator[tuple[str, str, str]]:
        """Yield for each result, if the agent writes long ones to files: its id, its text, and the file or "".

        The file is what the session names, so it may be anything.
        """
        yield from ()

    @abstractmethod
    def recognizes(self, head: Head) -> bool:
        """True if the file is this agent's, judged by its content and never by its name."""

    @abstractmethod
    def named(self, head: Head) -> Name:
        """Read the session's id, its fork sources and its folder; empty if the header has none."""

    def shape(self, lines: Lines) -> Shape:
        """Return the live path and the dead history; here all entries follow each other, whatever their ids.

        Formats whose entries name their parents use tree_shape() instead.
        """
        live = entries(lines)
        return Shape(array("I", live), frozenset(dead(lines, live)))

    @abstractmethod
    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        """True if the value at a path of an entry may become `value` (or be REMOVED).

        Every single change is checked here, whatever proposed it; a value without permission stays.
        """

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        """Return a mirror's replacement: REMOVED, or a value that the agent accepts there.

        For a text it may be Treatment.REFERENCE, which asks for its reference.
        """
        return REMOVED

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        """Return what the agent itself leaves when it clears a result of this entry `now` (ms since 1970).

        None if the agent has no form of its own for that.
        """
        return None

    def text_part(self, text: str, part: Mapping[str, Any]) -> Any:
        """Return a content part that holds a text, to replace an image's part."""
        return {"type": "text", "text": text}

    def images_of(self, path: JsonPath) -> JsonPath:
        """Return the path of the images next to a result's text at this path, which no text can replace.

        Empty if all images are among the texts.
        """
        return ()

    def answer(self, entry: Entry) -> Answer | None:
        """Return what an entry records about its own request, or about the following ones; None if nothing.

        It accepts any entry without raising.
        """
        return None

    parent_key = ""
    """The key that names an entry's parent, for agents whose next entry is linked to a checkpoint's line."""

    splits_turns = True
    """True if a checkpoint may begin inside a turn; if False, the first kept line is a prompt."""

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint | None:
        """Write a checkpoint as the agent itself does; return None if the format has none.

        The same session, cut and summary give the same bytes. Raises CannotCheckpoint if this session can't have one.
        """
        return None

    def dropping(self, session: Written, cut: Cut, made: Checkpoint) -> Checkpoint:
        """Extend a checkpoint so that it also removes the lines that it replaces.

        Raises CannotCheckpoint unless the agent is known to continue without them.
        """
        what = f"compact can't drop old lines from {self.name} sessions"
        raise CannotCheckpoint(
            what, "Run without --drop-dead (drop_dead); the lines stay, and compress makes them small."
        )

    def leaves(self, lines: Lines) -> Sequence[int]:
        """Return the entries that end branches, in order; at least one.

        Raises CannotCheckpoint if the agent doesn't summarize branches, or this session has none.
        """
        what = f"branch-summary does not support {self.name} sessions"
        raise CannotCheckpoint(what, "Run 'sessioncompress compact' instead, which summarizes the old part.")

    def branch_summary(self, session: Written, left: Sequence[int], target: int, summary: Summary) -> Checkpoint:
        """Write the summary of the lines `left` as the agent does, linked to `target`; requires leaves()."""
        raise NotImplementedError

    def is_subagent(self, session: Written) -> bool:
        """True if another session of the agent started this one for a task."""
        return False

    def written_at(self, entry: Mapping[str, Any]) -> int:
        """Return when an entry was written, in ms since 1970, or 0 if it doesn't record that."""
        return moment(entry.get("timestamp"))

    def handoff(self, session: Written, path: str, text: str, seed: str) -> NewSession:
        """Return a session that begins with this one's handoff, which is stored at that path.

        Its name and ids are derived from the `seed`, because a model's text isn't known before the request. Raises
        CannotCheckpoint if the agent supports none.
        """
        what = f"a handoff can't start a new {self.name} session"
        raise CannotCheckpoint(what, "Use -o FILE, and give the agent that file in the first prompt of a new session.")

    def pointers(self, session: str) -> Pointers:
        """Return the agent's byte offsets into the session at this path; here there are none."""
        return Pointers()

    def noted(self, document: Any) -> Mapping[int, Answer]:
        """Return the answers recorded outside a document's messages, by message number."""
        return {}


def line_of(
    raw: bytes,
    role: Role,
    blocks: Iterable[Block] = (),
    id: str = "",  # noqa: A002
    parent: str = "",
    *,
    calls: Iterable[Call] = (),
    answers: str = "",
    io: int = 0,
    reads: int = 0,
    facts: Facts = PLAIN,
    response: str = "",
    time: int = 0,
) -> Line:
    """Make a Line of these bytes."""
    digest = xxh3_64_intdigest(raw)
    return model.make_line(
        (role, len(raw), digest, id, parent, tuple(blocks), tuple(calls), answers, io, reads, facts, response, time)
    )


def uuid_of(what: str, seed: str) -> str:
    """Return an id that depends only on these values."""
    made = sha256(f"{what}\n{seed}".encode(errors="surrogatepass")).digest()
    return str(UUID(bytes=made[:16], version=4))


def entries(lines: Lines) -> list[int]:
    """Return the lines that the agent reads as entries, including sealed ones that our parser doesn't read."""
    others = (Role.BLANK, Role.OPAQUE)
    return [number for number, role in enumerate(lines.roles) if role not in others or lines.facts[number].sealed]


def tree_shape(lines: Lines, leaf: int | None = None) -> Shape:
    """Walk from the leaf (by default the last entry with an id) to the root.

    A parent that is missing, or was already visited, ends the walk.
    """
    numbers = {name: number for number, name in enumerate(lines.ids) if name}
    step = max(numbers.values(), default=None) if leaf is None else leaf
    path: list[int] = []
    seen = bytearray(len(lines))
    while step is not None and not seen[step]:
        seen[step] = True
        path.append(step)
        step = numbers.get(lines.parents[step])
    path.reverse()
    was, newest = dead(lines, path), dict[str, int]()
    gone = set(was)
    for number in path:
        target = lines.facts[number].edits
        at = numbers.get(target, number)
        if target and seen[at] and lines.roles[at] is not Role.CHECKPOINT:
            # Of two edits the later one counts. Edits of dead or missing entries have no effect.
            gone.update((number if at in was else at, newest.get(target, at)))
            newest[target] = number
    return Shape(array("I", path), frozenset(gone))


def json_of(entry: Mapping[str, Any], end: bytes = b"\n") -> bytes:
    """Write an entry of a checkpoint, by default as a line; lone surrogates are escaped."""
    return values.literal(json_safe(entry)) + end


def relinked(session: Written, number: int, key: str, parent: str | None, remedy: str) -> bytes:
    """Write an entry with another parent. Raises CannotCheckpoint if it can't be spliced."""
    try:
        return splice(session.raw(number), session.entry(number), {(key,): parent})[0]
    except CannotSplice as error:
        what = f"an entry that stays cannot be linked to another one before it ({error})"
        raise CannotCheckpoint(what, remedy) from error


def newest_time(session: Written, numbers: Iterable[int]) -> str:
    """Return the first timestamp among these entries (newest first), or the beginning of 1970 if none has one."""
    times = (session.entry(number).get("timestamp") for number in numbers)
    return next((time for time in times if isinstance(time, str) and moment(time)), "1970-01-01T00:00:00.000Z")


def dead(lines: Lines, live: Sequence[int]) -> set[int]:
    """Return the lines before the first entry that the last checkpoint kept, and all earlier checkpoints.

    If it kept no entry, all lines before it are dead.
    """
    last = next((at for at in range(len(live) - 1, -1, -1) if lines.roles[live[at]] is Role.CHECKPOINT), None)
    if last is None:
        return set()
    earlier, keeps = live[:last], lines.facts[live[last]].keeps
    gone = {number for number in earlier if lines.roles[number] is Role.CHECKPOINT}
    if isinstance(keeps, int):
        every = entries(lines)
        return gone.union(number for number in earlier if 0 <= keeps < len(every) and number < every[keeps])
    return gone.union(takewhile(lambda number: not keeps or lines.ids[number] != keeps, earlier))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(moment: int) -> str:
    """Format milliseconds since 1970 like JavaScript's toISOString()."""
    written = (_EPOCH + timedelta(milliseconds=moment)).isoformat(timespec="milliseconds")
    return written.replace("+00:00", "Z")


def moment(value: Any) -> int:
    """Return a time in milliseconds, given as a number or as ISO text; 0 if it is neither."""
    if isinstance(value, int):
        # JavaScript's largest exact integer.
        return int(value) if 0 <= value <= 1 << 53 else 0
    try:
        found = datetime.fromisoformat(values.text(value)).astimezone(UTC) - _EPOCH
    except (ValueError, OverflowError):
        return 0
    return max(0, found // timedelta(milliseconds=1))
