"""What a format gives the other stages: recognize, read a line, hang the lines together, say what may change."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
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
from sessioncompress.core.checkpoint import Checkpoint, Cut, NewSession, Said, Say, Summary, Written
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import PLAIN, Answer, Block, Call, Facts, JsonPath, Line, Purpose, Role, Shape
from sessioncompress.core.pointers import Pointers
from sessioncompress.core.splice import REMOVED, CannotSplice, splice
from sessioncompress.core.text import json_safe
from sessioncompress.formats import values

Entry = dict[str, Any]
"""One line's parsed JSON object."""

HEAD_LINES = 64
"""So many of a session's first lines are looked at to tell its format."""


class Head(NamedTuple):
    """The first parsed lines of a file, or messages of a document: then `document` is all of it but its messages."""

    entries: tuple[Entry, ...]
    document: Any = None
    parsed: Mapping[bytes, Entry] = MappingProxyType({})
    """The same entries by their bytes: what reads all of the file need not parse them again."""


class Name(NamedTuple):
    """What a session's header says of whose it is: its own id, and what names the session that it was forked from.

    `project` is the folder that it was begun in; where the agent notes only that, the SHA-256 of its path in hex.
    """

    id: str = ""
    parents: tuple[str, ...] = ()
    project: str = ""


def name_of(own: Any, project: Any = "", *parents: Any) -> Name:
    """Make a name of what a header holds, where each value may be anything."""
    named = tuple(filter(None, map(values.text, parents)))
    return Name(values.text(own), named, values.text(project))


class Cleared(NamedTuple):
    """What an agent leaves of a result that it clears: a text, and members that it adds, by their paths.

    The text is None where the agent keeps the result, and says its own words to the model in its place.
    """

    text: str | None
    flags: Mapping[JsonPath, Any]


class CannotCheckpoint(Exception):
    """Why a session can have no checkpoint, and what to do: two sentences' worth of words, as an error says them."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class Reader(ABC):
    """Reads the lines of one file in their order; may keep what the lines before said."""

    purposes: Mapping[str, Purpose] = {"read": Purpose.READ, "write": Purpose.WRITE, "bash": Purpose.COMMAND}
    """What the agent's tools are for, by their names in lower case; of any other nothing is supposed."""

    part_keys: Sequence[str] = values.PART_KEYS
    """The arguments that name the part of a file that a read is about, where the agent's reads can have one."""

    reads_as = ""
    """Set where what a read returns is never, or not surely, the file itself: its lines come with their numbers."""

    linking: Sequence[str] = ()
    """The keys, with a dot behind what they stand in, of the strings that hang lines together: what is picked from a
    line that is too large to be parsed."""

    def __init__(self) -> None:
        self.asked: dict[str, Call] = {}
        """The calls that wait for their results, so that a result's names are those of its call, held once."""

    @abstractmethod
    def line(self, raw: bytes, entry: Entry) -> Line:
        """Read what the plan must know of this line."""

    def said(self, entry: Entry) -> Iterable[Said]:
        """Read what was said in an entry of the live path, in its order; of what the agent puts in itself nothing.

        It never raises, whatever the entry holds, and counts on no entry before.
        """
        return ()

    def may_prompt(self, raw: bytes) -> bool:
        """Tell by a line's bytes whether it may hold a prompt: who only counts prompts parses no other line."""
        return b'"user"' in raw

    def said_call(self, name: Any, tool: Any, given: Any) -> Said:
        """Read what a call says: its tool, and what that was given."""
        tool = values.text(tool)
        purpose = self.purposes.get(tool.lower(), Purpose.OTHER)
        return Said(Say.CALL, tool=tool, call=values.text(name), purpose=purpose, given=values.fields(given))

    def call(self, name: Any, tool: Any, given: Any, stays: str | None = None) -> Call:
        """Read a call, which then waits for its result; `stays` is the part of its name that no change cuts."""
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
        """Find the call that a result answers, which waits no longer; one without a tool where nobody made it."""
        name = values.text(name)
        return self.asked.pop(name, None) or Call(name, name, "", Purpose.OTHER)


class Format(ABC):
    """One agent's way to write sessions. An agent's class says what differs from the defaults here."""

    name: str
    """The name in reports and in `--json`."""

    reader: type[Reader]
    """What reads the lines; made anew for each file."""

    other_tools: str = ""
    """The agent's own tools besides those of which its reader tells the purpose, in lower case, parted by blanks."""

    kept_tools: frozenset[str] = frozenset()
    """The tools whose calls and results stay, in lower case: they hold the user's words, or a resume reads them."""

    listings: frozenset[str] = frozenset()
    """The attachments that list what the agent has (skills, agents, tools), by the name that their blocks bear."""

    links: re.Pattern[str] | None = None
    """What in a result's text names a file of the agent, and must stay there: it deletes what no session names."""

    preamble: re.Pattern[str] | None = None
    """What the agent writes above a result's own text, maybe nothing: a preview shows only what `ended` finds in it."""

    ended: re.Pattern[str] | None = None
    """How a command ended, as such lines say it, or a result in JSON."""

    longest_state = 0
    """Bytes. What is so long at most, beside the result of a tool that we do not know, may be an extension's state."""

    of_tasks: frozenset[str] = frozenset()
    """Tools whose newest mirror in each task stays, because a fork may start right after it."""

    thanks: str = ""
    """The text that the agent answers its own summary with, and so a checkpoint writes after ours."""

    bare: Mapping[JsonPath, Any] = MappingProxyType({})
    """The values, by path, that replace an entry that is entirely a mirror; one path is the mirror's own."""

    answer_marks: tuple[bytes, ...] = ()
    """Bytes of which one stands in every entry that answer() says something of."""

    titles: Sequence[JsonPath] = ()
    """Where an entry, or what stands around a document's messages, has the session's title; the strongest first."""

    @cached_property
    def tools(self) -> frozenset[str]:
        """The agent's own tools, in lower case."""
        return frozenset({*self.reader.purposes, *self.other_tools.split()})

    @abstractmethod
    def recognizes(self, head: Head) -> bool:
        """Tell from the content, never from the file's name, whether the file is this agent's."""

    @abstractmethod
    def named(self, head: Head) -> Name:
        """Read the session's id, what it was forked from, and where it was begun; empty where the header names none."""

    def shape(self, lines: Lines) -> Shape:
        """Find the live path and the dead history; here all entries follow each other, whatever their ids.

        Where entries name their parents, tree_shape() finds it.
        """
        live = entries(lines)
        return Shape(array("I", live), frozenset(dead(lines, live)))

    @abstractmethod
    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        """Tell whether the value at a path of an entry may become that one (or be REMOVED).

        It is asked for every single change, whoever proposed it: what it does not name stays as it is.
        """

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        """Give what takes a mirror's place: REMOVED, or a value that the agent accepts there.

        Of a text it may be Treatment.REFERENCE, which asks for its reference.
        """
        return REMOVED

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        """Give what the agent itself leaves of a result of this entry that it clears `now`, in ms since 1970.

        None where it has no words of its own for that.
        """
        return None

    def text_part(self, text: str, part: Mapping[str, Any]) -> Any:
        """Make a content part of a text, for the place of an image's part."""
        return {"type": "text", "text": text}

    def images_of(self, path: JsonPath) -> JsonPath:
        """Tell where the images stand that go with a result's text at this path, since no text can take their places.

        Nowhere, where all stand among texts.
        """
        return ()

    def answer(self, entry: Entry) -> Answer | None:
        """Read what an entry says of the request that it answers, or of those behind it; None where it says nothing.

        It never raises, whatever the entry holds.
        """
        return None

    parent_key = ""
    """The key that names an entry's parent, where what the agent writes next hangs on a checkpoint's line."""

    splits_turns = True
    """Whether a checkpoint may keep a turn from its middle on; else the first line that it keeps is a prompt."""

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint | None:
        """Write a checkpoint as the agent itself does; None where no checkpoint can be written for it.

        The same session, cut and summary give the same bytes. Raises CannotCheckpoint where this session can have none.
        """
        return None

    def dropping(self, session: Written, cut: Cut, made: Checkpoint) -> Checkpoint:
        """Have a checkpoint also take out the lines for which it stands.

        Raises CannotCheckpoint where the agent is not known to go on without them.
        """
        what = f"compact can't drop old lines from {self.name} sessions"
        raise CannotCheckpoint(what, "Run without --drop-dead; the lines stay, and compress makes them small.")

    def leaves(self, lines: Lines) -> Sequence[int]:
        """Find the entries with which branches end, in their order; one at least.

        Raises CannotCheckpoint where the agent sums up no branches, or this session has none.
        """
        what = f"branch-summary does not support {self.name} sessions"
        raise CannotCheckpoint(what, "Run 'sessioncompress compact' instead, which summarizes the old part.")

    def branch_summary(self, session: Written, left: Sequence[int], target: int, summary: Summary) -> Checkpoint:
        """Write the summary of the lines that are left, behind an entry, as the agent does; only where leaves() are."""
        raise NotImplementedError

    def is_subagent(self, session: Written) -> bool:
        """Tell whether the session is one that another session of the agent began for a task."""
        return False

    def written_at(self, entry: Mapping[str, Any]) -> int:
        """Read when an entry was written, in ms since 1970; 0 where it does not say."""
        return moment(entry.get("timestamp"))

    def handoff(self, session: Written, path: str, text: str, seed: str) -> NewSession:
        """Make a session that begins with the handoff of this one, which lies at that path.

        Its name and ids come of the `seed`, since a model's text is not known before it is asked. Raises
        CannotCheckpoint where none is made for the agent.
        """
        what = f"handoff --new can't start a {self.name} session"
        raise CannotCheckpoint(what, "Use -o FILE, and give the agent that file in the first prompt of a new session.")

    def pointers(self, session: str) -> Pointers:
        """Find what else of the agent's points into the session at a path by the byte: here nothing."""
        return Pointers()

    def noted(self, document: Any) -> Mapping[int, Answer]:
        """Read the answers that stand around a document's messages, by the number of the message."""
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
    """Make the line that these bytes are."""
    digest = xxh3_64_intdigest(raw)
    return model.make_line(
        (role, len(raw), digest, id, parent, tuple(blocks), tuple(calls), answers, io, reads, facts, response, time)
    )


def uuid_of(what: str, seed: str) -> str:
    """Make an id that is always the same for what is written."""
    made = sha256(f"{what}\n{seed}".encode(errors="surrogatepass")).digest()
    return str(UUID(bytes=made[:16], version=4))


def entries(lines: Lines) -> list[int]:
    """Find the lines that the agent reads as entries, also where we do not (those are sealed)."""
    others = (Role.BLANK, Role.OPAQUE)
    return [number for number, role in enumerate(lines.roles) if role not in others or lines.facts[number].sealed]


def tree_shape(lines: Lines, leaf: int | None = None) -> Shape:
    """Walk from the leaf, or else the last entry with an id, to the root.

    A parent that is missing (or walked before) ends the walk.
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
            # Of two edits the later one counts, and none of an entry that is dead or not there.
            gone.update((number if at in was else at, newest.get(target, at)))
            newest[target] = number
    return Shape(array("I", path), frozenset(gone))


def json_of(entry: Mapping[str, Any], end: bytes = b"\n") -> bytes:
    """Write an entry of a checkpoint, by default as a line; half characters in it are escaped."""
    return values.literal(json_safe(entry)) + end


def relinked(session: Written, number: int, key: str, parent: str | None, remedy: str) -> bytes:
    """Write an entry with another parent. Raises CannotCheckpoint where it cannot be spliced."""
    try:
        return splice(session.raw(number), session.entry(number), {(key,): parent})[0]
    except CannotSplice as error:
        what = f"an entry that stays cannot be linked to another one before it ({error})"
        raise CannotCheckpoint(what, remedy) from error


def newest_time(session: Written, numbers: Iterable[int]) -> str:
    """Read the time of the first of these entries that has one, the newest say; without any, the beginning of 1970."""
    times = (session.entry(number).get("timestamp") for number in numbers)
    return next((time for time in times if isinstance(time, str) and moment(time)), "1970-01-01T00:00:00.000Z")


def dead(lines: Lines, live: Sequence[int]) -> set[int]:
    """Find the lines before the first entry that the last checkpoint kept, and the checkpoints before it.

    Without a kept entry all lines before it are dead.
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
    """Write a time in milliseconds since 1970 as JavaScript does."""
    written = (_EPOCH + timedelta(milliseconds=moment)).isoformat(timespec="milliseconds")
    return written.replace("+00:00", "Z")


def moment(value: Any) -> int:
    """Read a time in milliseconds, from such a number or from a text that names it; 0 where it is neither."""
    if isinstance(value, int):
        # JavaScript counts exactly up to there.
        return int(value) if 0 <= value <= 1 << 53 else 0
    try:
        found = datetime.fromisoformat(values.text(value)).astimezone(UTC) - _EPOCH
    except (ValueError, OverflowError):
        return 0
    return max(0, found // timedelta(milliseconds=1))
