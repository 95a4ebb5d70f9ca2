"""Read a session: detect its format, split its lines into blocks, and find the lines that an earlier run rewrote."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from xxhash import xxh3_64, xxh3_64_intdigest

from sessioncompress.core import jsonl
from sessioncompress.core.jsonl import GAP, Document, Piece
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.model import PLAIN, Answer, Facts, Line, Role
from sessioncompress.core.pointers import Pointers
from sessioncompress.core.text import quote
from sessioncompress.errors import IsALink, NotASession, Refused, failing
from sessioncompress.formats import values
from sessioncompress.formats.base import HEAD_LINES, Entry, Format, Head, Name, Reader
from sessioncompress.formats.table import (
    AGENTS,
    FIRST_BYTES,
    NAMELESS,
    detect,
    format_named,
    head_of,
    indexed,
    recognizing,
)
from sessioncompress.pipeline.discover import SQLITE
from sessioncompress.pipeline.usage import newest_answer
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk
from sessioncompress.store import journal as journals
from sessioncompress.store.damage import judging
from sessioncompress.store.journal import CR_LF, LF, Journal, convert_back
from sessioncompress.store.layout import Store, begins_with, is_archive, real_place, store_of
from sessioncompress.store.lock import OpenSession, open_file, open_session
from sessioncompress.store.originals import FRAME_MAGIC, OriginalsReader
from sessioncompress.store.records import LineRecord
from sessioncompress.store.recover import brought_home, check, recover

CONFLICT = re.compile(rb"<{7,} ")
"""The first line of a git merge conflict. The other conflict lines are too ambiguous to detect alone."""


_SILENT = frozenset({Role.USER, Role.RESULT, Role.BLANK, Role.OPAQUE})
"""Roles whose lines hold no record of a request."""


def survey(
    pieces: Iterable[Piece], form: Format, parsed: Mapping[bytes, Entry] | None = None, document: Document | None = None
) -> Survey:
    """Read a session's pieces once. A line that can't be parsed is opaque: copied, counted, never changed.

    `parsed` maps raw first lines to their parsed entries. `document` is given if the session is one JSON document.
    """
    reader = form.reader()
    waiting = dict(parsed or {})
    lines: list[Line] = []
    answers: dict[int, Answer] = {}
    size = 0
    ended = True
    first = False
    for number, raw, whole in pieces:
        size += len(raw)
        if number == GAP:
            first = raw.rstrip().endswith(b"[")
            # After a line that sets messages, normal lines follow, which end with LF.
            ended = raw.lstrip().startswith(b"]")
            continue
        if whole:
            entry = (waiting.pop(raw, None) if waiting else None) or _entry(raw)
            line = _line(raw, entry, reader, ended=ended)
            if line.role not in _SILENT and any(mark in raw for mark in form.answer_marks):
                answer = form.answer(entry or values.entry_of(raw, reader.linking) or {})
                if answer is not None:
                    answers[number] = answer
            lines.append(line._replace(facts=line.facts._replace(first=True)) if first else line)
            first = False
            continue
        if number == len(lines):
            long_line = _long_line(reader)
            lines.append(long_line(raw))
        else:
            lines[number] = long_line(raw)
    found = Lines(lines)
    shape = form.shape(found)
    noted = {} if document is None else form.noted(document.outer)
    return Survey(found, shape, size, {**noted, **{each: answers[each] for each in shape.live if each in answers}})


def _long_line(reader: Reader) -> Callable[[bytes], Line]:
    """Return a function that takes the next piece of a line over the cap and returns the Line read so far.

    Such a line is never changed, but it may be part of the live path or of a call-result pair.
    """
    skeleton, digest, size = values.Skeleton(), xxh3_64(), 0

    def add(piece: bytes) -> Line:
        nonlocal size
        skeleton.add(piece)
        digest.update(piece)
        size += len(piece)
        left = skeleton.left()
        line = Line(Role.OPAQUE, 0, 0, facts=Facts(sealed=True)) if left is None else _opaque(left, reader)
        return line._replace(size=size, digest=digest.intdigest())

    return add


def read_line(raw: bytes, reader: Reader, *, ended: bool = True) -> Line:
    """Read one whole line. Without its LF the agent may still be writing it, so it is read but never changed.

    Pass `ended=False` for messages of a document, which have no LF.
    """
    return _line(raw, _entry(raw), reader, ended=ended)


def _entry(raw: bytes) -> Entry | None:
    return None if is_bare_end(raw) else jsonl.parse(raw)


def _line(raw: bytes, entry: Entry | None, reader: Reader, *, ended: bool) -> Line:
    if is_bare_end(raw):
        return _blank(raw)
    if entry is None:
        return _opaque(raw, reader)
    line = reader.line(raw, entry)
    return line if not ended or raw.endswith(b"\n") else unchangeable(line)


def is_bare_end(raw: bytes) -> bool:
    """True if a line is only a line end. A session may have a million; all share one object."""
    return len(raw) <= 2 and raw.isspace()  # noqa: PLR2004


@lru_cache(maxsize=16)
def _blank(raw: bytes) -> Line:
    return Line(Role.BLANK, len(raw), xxh3_64_intdigest(raw))


def _opaque(raw: bytes, reader: Reader) -> Line:
    """Read a line that our parser rejects. Its agent may accept it, and the live path may lead through it."""
    entry = values.entry_of(raw, reader.linking) if raw.strip() else None
    if entry is None:
        facts = Facts(conflict=True) if CONFLICT.match(raw) else PLAIN
        return Line(Role.OPAQUE if raw.strip() else Role.BLANK, len(raw), xxh3_64_intdigest(raw), facts=facts)
    line = unchangeable(reader.line(raw, entry))
    return line._replace(facts=line.facts._replace(foreign=True))


def unchangeable(line: Line) -> Line:
    """Remove everything replaceable from a line."""
    return line._replace(blocks=(), facts=line.facts._replace(ties=(), sealed=True))


def left_by(session: OpenSession, journal: Journal) -> int:
    """Return the newest run whose result the session starts with; -1 if there is none."""
    # If several runs left the same bytes, the newest counts.
    numbers = {(run.compressed_size, run.digest): number for number, run in enumerate(journal.runs) if run.digest}
    with session.reader() as file:
        return max((numbers[state] for state in begins_with(file, numbers)), default=-1)


class RewrittenLines(Mapping[int, LineRecord]):
    """Maps line numbers to the records of rewritten lines. Each record points to an original kept by any run.

    Initially these are the lines in `pieces`; watch() adds more. `session` is given if these are its current lines.

    Thinking leaves no marker. So if lines have no id either, the agent may have written a line that equals a rewritten
    one: of these, only as many count as were rewritten. `agents_own` are the others.
    """

    def __init__(self, journal: Journal, pieces: Iterable[Piece] = (), session: OpenSession | None = None) -> None:
        self._journal, self._session = journal, session
        # Many lines may be identical, so cache their record.
        self._placed = lru_cache(maxsize=1024)(journal.placed)
        self.rows: dict[int, int] = {}
        """The journal row of each line's record."""
        self.agents_own: set[int] = set()
        self._newest: dict[int, int] = {}
        """The newest record with a line's original, for each line that is rewritten or an original."""
        self._unsure: set[int] = set()
        deque(self.watch(pieces), maxlen=0)

    def watch(self, stream: Iterable[Piece]) -> Iterator[Piece]:
        """Pass the pieces of the whole session through and note the lines that the journal knows."""
        for piece in stream:
            number, raw, whole = piece
            if whole and not is_bare_end(raw):
                self.note(number, raw)
            yield piece
        self.settle()

    def note(self, number: int, raw: bytes) -> int | None:
        """Note a line. Return the newest record with its original, or None if the journal does not know it."""
        digest = sha256(raw).digest()
        row = row_of(raw, digest, self._journal)
        newest = original_in(raw, digest, row, self._journal)
        if newest is not None:
            self._newest[number] = newest
        if row is not None:
            self.rows[number] = row
            if PREFIX_BYTES not in raw and not values.is_named(raw):
                self._unsure.add(number)
        return newest

    def settle(self) -> None:
        """Tell rewritten lines from the agent's own, once all lines are noted.

        A line with the number that a run recorded is the rewritten one, whatever its form now. If lines were moved, the
        first ones count.
        """
        forms: dict[int, list[int]] = {self._newest[number]: [] for number in self._unsure}
        for number, newest in self._newest.items() if forms else ():
            if newest in forms:
                forms[newest].append(number)
        # What later runs rewrote is not in an older state.
        last = left_by(self._session, self._journal) if forms and self._session is not None else -1
        for newest, numbers in forms.items():
            rewritten_at = self._journal.numbers_of(newest, last)
            left = len(rewritten_at.difference(numbers))
            for number in filter(self.rows.__contains__, numbers):
                if number not in rewritten_at:
                    left -= 1
                    if left < 0 and number in self._unsure:
                        del self.rows[number]
                        self.agents_own.add(number)

    def __getitem__(self, number: int) -> LineRecord:
        return self._placed(self.rows[number])

    def __contains__(self, number: object) -> bool:
        return number in self.rows

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def row_of(raw: bytes, digest: bytes, journal: Journal) -> int | None:
    """Find the record of a rewritten line by SHA-256, or of a message that used to be on a line of its own.

    An agent that sets all messages again writes them without the LF.
    """
    for each in (digest,) if raw.endswith(b"\n") else (digest, sha256(raw + b"\n").digest()):
        row = journal.rewriting(each)
        # If the line is its own original, there is nothing to restore.
        if row is not None and journal.original_of(row) != each:
            return row
    return None


def original_in(raw: bytes, digest: bytes, row: int | None, journal: Journal) -> int | None:
    """Find the newest record with this line's original: the line is an original, or the rewritten line of `row`."""
    if row is not None:
        return journal.original(journal.original_of(row))
    newest = journal.original(digest)
    if newest is None and not raw.endswith(b"\n"):
        newest = journal.original(sha256(raw + b"\n").digest())
    return newest


def as_written(raw: bytes, record: LineRecord | None, originals: OriginalsReader) -> bytes:
    """Return a line as its agent wrote it: the original, if its record has one, with an LF if the line has one.

    Raises Unreadable.
    """
    if record is None or record.place is None:
        return raw
    original = originals.line(record.place, record.sha256)
    # The message was on a line of its own then, and may be one of several now.
    return original if raw.endswith(b"\n") else original.removesuffix(b"\n")


class Matched(NamedTuple):
    """A session's lines as its journal knows them: the rewritten ones, and originals that no line holds in any form.

    `is_marked` is true if a line that the journal does not know holds a marker.
    """

    rewritten: RewrittenLines
    missing: list[LineRecord]
    is_marked: bool


def find(session: OpenSession, journal: Journal) -> Matched:
    """Find a session's rewritten lines, and one record for each original that is missing from it.

    Raises Refused if the line ends were converted.
    """
    found, there, marked = RewrittenLines(journal, session=session), set[bytes](), False
    for number, raw, whole in jsonl.pieces_of(session.reader, session.size):
        if not whole or is_bare_end(raw):
            continue
        newest = found.note(number, raw)
        if newest is not None:
            there.add(journal.original_of(newest))
        else:
            marked = marked or PREFIX_BYTES in raw
    found.settle()
    if not there:
        _refuse_if_converted(session, journal)
    # A restored run counts again if the user put the rewritten session back.
    missing = journal.missing(there, {journal.run_of(row) for row in found.rows.values()})
    return Matched(found, missing, marked)


class Stored(Struct, frozen=True):
    """An open session with its store, and what its runs noted."""

    session: OpenSession
    store: Store
    journal: Journal


class Known(Stored, frozen=True):
    """An open session after reading: its format, id, lines, and the lines that the journal knows as rewritten.

    `seen` is true if the content looks like that format; the user may have forced another. `newest` is the newest
    answer on the live path, see newest_answer().
    """

    form: Format
    session_id: str
    survey: Survey
    rewritten: RewrittenLines
    seen: bool
    newest: Answer

    def pieces(self) -> Iterator[Piece]:
        """Yield the session's pieces again; see jsonl.pieces_of()."""
        return jsonl.pieces_of(self.session.reader, self.session.size)

    def lines(self, numbers: Iterable[int], most: int = jsonl.LINE_CAP) -> Iterator[tuple[int, bytes]]:
        """Yield the given lines in the given order, each with its number, cut to `most` bytes."""
        places = self.places()
        for number in numbers:
            start, size = places[number]
            yield number, os.pread(self.session.fd, min(size, most), start)

    def places(self) -> Sequence[tuple[int, int]]:
        """Return the start and size of each line, or of each message in a document or in a line that sets several."""
        sizes = [line.size for line in self.survey.lines]
        if sum(sizes) == self.session.size:
            return list(zip(accumulate(sizes, initial=0), sizes, strict=False))
        # The session also holds bytes outside its messages.
        found, position = dict[int, tuple[int, int]](), 0
        for number, raw, _ in self.pieces():
            start, size = found.get(number, (position, 0))
            found[number] = start, size + len(raw)
            position += len(raw)
        return [found[number] for number in range(len(sizes))]


def size_of_names(paths: Iterable[Path]) -> int:
    """Return the bytes freed by deleting these names. A file with another hard link frees nothing."""
    found = [path.lstat() for path in paths]
    return sum(each.st_size for each in found if each.st_nlink == 1)


def format_of(session: OpenSession, head: Head | None = None) -> Format:
    """Detect a session's format from its content, or take the one that the user forced whatever the content.

    `head` is the result of head_in(), if already read. Raises UsageError if no format has that name, NotASession if the
    content matches none, and Refused if it matches several, is too long to tell, or is in a merge.
    """
    head = head_in(session) if head is None else head
    known = format_named(session.forced) if session.forced else detect(head)
    if known is not None and not (session.forced and not head.entries and head.document is None):
        return known
    state = "The file was not changed."
    if found := recognizing(head):
        names = " and of ".join(each.name for each in found)
        remedy = "Say which with --format NAME (form)."
        raise Refused(f"it could be a session of {names}", where=session.path, state=state, remedy=remedy)
    is_document = jsonl.begins_document(session.reader, session.size)
    if is_document and session.size > jsonl.LINE_CAP:
        most = f"documents over {jsonl.LINE_CAP >> 20} MiB are not read"
        what = f"it looks like one JSON document of {session.size:,} bytes, and {most}"
        raise Refused(what, where=session.path, state=state, remedy="It was not changed.")
    with session.reader() as file:
        first = file.read(min(FIRST_BYTES, session.size))
        value = jsonl.value_of(first + file.read()) if is_document else None
    if value is None and (is_document or CONFLICT.match(first)):
        refuse_in_merge(session)
    what = f"this is not a session of any agent we know ({_seen(first, head, value)})"
    remedy = f"Name a session of {AGENTS}."
    if (odd := _odd_one(session, head)) is not None:
        number, known = odd
        what = f"without line {number} this would be a session of {known.name}"
        remedy = f"Take that line out, or say --format {known.name} (form)."
    other = next((said for magic, said in _BY_MAGIC.items() if first.startswith(magic)), None)
    if other is not None:
        what, remedy = f"this is {other[0]}", other[1]
    if is_archive(session.path):
        what = "this is an archive of sessions, as 'sessioncompress pack' writes them"
        remedy = f"'sessioncompress unpack {quote(str(session.path))}' brings them back."
    elif other and session.path.match("rollout-*.jsonl.zst"):
        what = "this is a session that Codex itself packed with zstd, to save space"
        remedy = "Resume it with Codex, which unpacks it, and run again on the unpacked file."
    raise NotASession(what, where=session.path, state=state, remedy=remedy)


def _odd_one(session: OpenSession, head: Head) -> tuple[int, Format] | None:
    """Find the one line without which a file would be a session: its number, from 1, and the format.

    The first one may be another program's header, so don't try without it.
    """
    for at in range(1, len(head.entries) if head.document is None else 0):
        if (known := detect(Head((*head.entries[:at], *head.entries[at + 1 :])))) is not None:
            with session.reader() as file:
                lines = islice(jsonl.pieces(file, session.size), HEAD_LINES)
                numbers = [number + 1 for number, raw, whole in lines if whole and head_of([raw]).entries]
            return numbers[at], known
    return None


_BY_MAGIC = {
    SQLITE: (
        "an SQLite database, in which OpenCode and newer versions of OpenClaw keep sessions, and oh-my-pi its state",
        "For OpenCode, use the file that 'opencode export SESSION > FILE' writes.",
    ),
    FRAME_MAGIC: (
        "packed with zstd, as Codex and OpenClaw pack old sessions",
        "Unpack it with 'zstd -d FILE', or a tar archive with 'tar --zstd -xf FILE', and use the unpacked file.",
    ),
    b"\x1f\x8b": ("packed with gzip", "Unpack it with 'gunzip FILE' and use the unpacked file."),
}
"""Known first bytes of other files: what they are, and the remedy."""


def _seen(first: bytes, head: Head, value: Any) -> str:
    """Describe the start of an unknown file, or the one JSON value that it holds."""
    if not first:
        return "it is empty"
    if isinstance(value, list):
        return "one JSON list"
    if isinstance(value, dict):
        return f"one JSON document with the keys {', '.join(list(value)[:8]) or '(none)'}"
    if head.entries:
        return f"its first object has the keys {', '.join(list(head.entries[0])[:8]) or '(none)'}"
    if first.lstrip()[:1] in (b"{", b"["):
        return "it starts like one JSON document, but is not JSON (cut off, or not UTF-8), or has over a million values"
    return "no JSON object in its first lines"


@contextmanager
def opened(path: Path, *, writing: bool, quiet_seconds: float = 0, form: str | None = None) -> Iterator[OpenSession]:
    """Open a session as open_session() does, to be read as the format `form`, or by default as the detected one.

    For writing, first repair the agent's other files that point into it.
    """
    follows = mended(path) if writing else Pointers()
    with failing(path):
        # Refuse early rather than only after the work.
        follows.refuse_if_loaded()
    with open_session(path, writing=writing, quiet_seconds=quiet_seconds) as session:
        session.pointers, session.forced = follows, form
        yield session


@contextmanager
def with_store(
    session: OpenSession, policy: Policy, *, writing: bool, adds: bool = False, salvaging: bool = False
) -> Iterator[Stored]:
    """Find and check an open session's store, or if `writing` restore it to the last commit: see recover().

    A run that `adds` to the store first moves it to where it belongs: see brought_home(). Unless `salvaging`, an
    original that can't be read is reported with what can still be done: see judging().
    """
    store = brought_home(session, policy, writing=writing) if adds else store_of(session.path, policy)
    journal = journals.load(store.journal, salvaging=salvaging)
    with nullcontext() if salvaging else judging(store.originals, journal):
        (recover if writing else check)(session, store, journal.lengths, salvaging=salvaging)
        yield Stored(session, store, journal)


@contextmanager
def opened_with_store(
    path: Path | str,
    policy: Policy,
    *,
    writing: bool = False,
    adds: bool = False,
    salvaging: bool = False,
    form: str | None = None,
) -> Iterator[Stored]:
    """Open a session with its store: see opened() and with_store(). A run that `adds` waits for `quietSeconds`."""
    quiet = policy.quiet_seconds if adds else 0
    with (
        opened(Path(path), writing=writing, quiet_seconds=quiet, form=form) as session,
        with_store(session, policy, writing=writing, adds=adds, salvaging=salvaging) as stored,
    ):
        yield stored


def mended(path: Path) -> Pointers:
    """Find the agent's other files that point into a session, and repair them. Raises as Pointers.mend() does."""
    found = pointers_of(path)
    with failing(path):
        found.mend()
    return found


def pointers_of(path: Path) -> Pointers:
    """Find the agent's other files that point into the session at a path; empty if there is no session."""
    with suppress(OSError, NotASession, IsALink), disk.closing(open_file(path)) as fd:
        if agent := indexed(os.pread(fd, FIRST_BYTES, 0)):
            return format_named(agent).pointers(str(real_place(path)))
    return Pointers()


def head_in(session: OpenSession) -> Head:
    """Read a session's first lines, or a document's messages and the JSON around them."""
    return _head(session, jsonl.document_of(session.reader, session.size))


def _head(session: OpenSession, document: Document | None) -> Head:
    if document is not None:
        return head_of((document.raw[start:end] for start, end in document.spans), document.outer)
    with session.reader() as file:
        return head_of(raw for _, raw, whole in islice(jsonl.pieces(file, session.size), HEAD_LINES) if whole)


def whose(path: Path) -> tuple[Format, Name]:
    """Detect the format of the session at a path and read its header.

    Raises NotASession, and as open_session() does.
    """
    with open_session(path, writing=False) as session:
        head = head_in(session)
        form = format_of(session, head=head)
        return form, form.named(head)


def refuse_unless_session(session: OpenSession) -> None:
    """Raise NotASession if a file isn't a session. A file that may belong to several agents is one."""
    try:
        format_of(session)
    except NotASession:
        raise
    except Refused:
        refuse_in_merge(session)


def refuse_in_merge(session: OpenSession) -> None:
    """Raise Refused if a session holds git conflict markers: its lines aren't final."""
    number = line_in_merge(session)
    if number is not None:
        raise Refused(
            "git could not merge this session and put its conflict markers into it",
            where=session.path,
            line=number,
            remedy="Finish the merge first: keep the lines of one side, or of both, and remove the markers.",
        )


def line_in_merge(session: OpenSession) -> int | None:
    """Return the first line with a git conflict marker, counted from 1, or None.

    This counts lines of the file: one line of Gemini CLI may hold several messages.
    """
    with session.reader() as file:
        if not jsonl.holds(file, b"<<<<<<< ", size=session.size):
            return None
    with session.reader() as file:
        return next((number + 1 for number, raw, _ in jsonl.pieces(file, session.size) if CONFLICT.match(raw)), None)


def _refuse_if_converted(session: OpenSession, journal: Journal) -> None:
    """Raise Refused if git converted the line ends of a session. Only call it if no line is known.

    git converts all lines of a file if an attribute or the user's configuration asks for it; then no digest in the
    journal matches. JSON text has a CR only at line ends.
    """
    if not journal.runs:
        return
    with session.reader() as file:
        # Do not search for the end of a longer line.
        then, now = (LF, CR_LF) if file.readline(1 << 20).endswith(CR_LF) else (CR_LF, LF)
    ours = {bytes.fromhex(line) for each in journal.checkpoints for line in each.lines}
    for _, raw, _ in jsonl.pieces_of(session.reader, session.size):
        as_it_was = raw.replace(now, then)
        digest = sha256(as_it_was).digest()
        if as_it_was != raw and (digest in ours or row_of(as_it_was, digest, journal) is not None):
            names = {LF: "LF", CR_LF: "CR LF"}
            raise Refused(
                f"its lines end with {names[now]} now, which a run left with {names[then]}: git converts line ends "
                "where an attribute or core.autocrlf says so",
                where=session.path,
                remedy=convert_back(str(session.path), f"*{session.path.suffix}", then),
            )


def refuse_nameless(session: OpenSession, form: Format) -> None:
    """Raise NotASession for a file that the user did not name and whose format names no agent."""
    if form.name in NAMELESS:
        what = f"this looks like a session of the format {form.name}, which names no agent"
        remedy = f"Name the file itself, or use --format {form.name} (form)."
        raise NotASession(what, where=session.path, remedy=remedy)


def read_session(stored: Stored, *, named: bool = True) -> Known:
    """Read a session once, as the format that the user forced or else the detected one; see format_of().

    Also raises NotASession if the user did not name the file (`named`) and its format names no agent, and Refused if
    its line ends were converted.
    """
    session, store, journal = stored.session, stored.store, stored.journal
    document = jsonl.document_of(session.reader, session.size)
    head = _head(session, document)
    known = format_of(session, head)
    if not (session.forced or named):
        refuse_nameless(session, known)
    rewritten = RewrittenLines(journal, session=session)
    stream = jsonl.pieces_of(session.reader, session.size) if document is None else document.pieces()
    found = survey(rewritten.watch(stream) if journal.counts[0] else stream, known, head.parsed, document)
    if not rewritten:
        _refuse_if_converted(session, journal)
    seen = not session.forced or known.recognizes(head)
    return Known(session, store, journal, known, known.named(head).id, found, rewritten, seen, newest_answer(found))
