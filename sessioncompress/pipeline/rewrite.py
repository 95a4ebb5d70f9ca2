"""Apply the changes of a plan: choose the names that previews keep, rewrite lines, and record the replacements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh3_64_intdigest

from sessioncompress.compressors import KINDS, Context, View
from sessioncompress.compressors.base import Ours
from sessioncompress.compressors.names import MOST_HELD, NOTHING, PreviewNames, Visible
from sessioncompress.core.jsonl import Piece, parse_any
from sessioncompress.core.lines import Lines
from sessioncompress.core.marker import PREFIX
from sessioncompress.core.model import (
    Change,
    JsonPath,
    Kind,
    Line,
    Origin,
    OurKey,
    Protection,
    Purpose,
    Replacement,
    Role,
    Treatment,
    make_line,
)
from sessioncompress.core.references import References, content_of, digest_of, digests_of, git_blob
from sessioncompress.core.splice import REMOVED, CannotSplice, literal, splice, within
from sessioncompress.errors import Damaged, InUse, Unreadable
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry
from sessioncompress.pipeline.plan import Plan, broken, record_of
from sessioncompress.store.originals import Committed, InBlob, InFrame, OriginalsReader
from sessioncompress.store.records import LONGEST_RECORD, BlockRecord, LineRecord

if TYPE_CHECKING:
    from sessioncompress.pipeline.reading import Known
    from sessioncompress.store.commit import Sink


_KEPT = 2_048
"""Bytes of an unchanged line that are searched for names. The part that a model reads is at the start."""


def names_of_results(known: Known, view: View, plan: Plan) -> Mapping[tuple[int, JsonPath], Visible]:
    """Choose the names to keep for each result to be previewed, keyed by line and path.

    Looks first at content that a model can still read, then at these results, newest first. Among equal texts only one
    gets an index, even if an earlier run replaced it.
    """

    def is_previewed(change: Change) -> bool:
        block = change.block
        if block is None or block.kind is not Kind.RESULT or block.marked or change.treatment is not Treatment.PREVIEW:
            return False
        return not view.is_report(change.line, block)

    places = {
        number: found
        for number in sorted(plan, reverse=True)
        if (found := [change.path for change in plan[number] if is_previewed(change)])
    }
    if not places:
        return {}

    def takes_nothing(change: Change) -> bool:
        # No model reads a mirror.
        return change.block is not None and change.block.kind is Kind.MIRROR

    names, preamble = PreviewNames(view.policy), view.form.preamble
    lines, dead = view.lines, view.survey.shape.dead
    newest = reversed(range(len(lines)))
    stay = (
        number
        for number in newest
        if lines[number].reads and number not in dead and all(takes_nothing(change) for change in plan.get(number, ()))
    )
    kept, size = list[bytes](), 0
    for number, raw in known.lines(stay, _KEPT):
        # Some agents write ids and times before a `content` key. Without that key, types and ids are mixed in.
        start = max(raw.find(b'"content":'), 0)
        kept.append(raw[start : start + lines[number].reads * 6 // 5 + 200])
        size += len(kept[-1])
        # Indexing many words at once takes half the time of line by line.
        if len(kept) == 64 or size >= MOST_HELD:  # noqa: PLR2004
            names.keep(b"\n".join(kept))
            kept.clear()
        if size >= MOST_HELD:
            break
    names.keep(b"\n".join(kept))
    results: list[tuple[int, JsonPath]] = []
    repeats: dict[tuple[int, JsonPath], Visible] = {}
    marked = ((block.digest, block.kind, block.call) for _, block in view.blocks(Kind.RESULT) if block.marked)
    replaced = {origin.digest for key in marked if (origin := view.ours.origin(key)) is not None}
    for number, raw in known.lines(places):
        if names.is_full:
            # Older results are previewed as if without names.
            break
        entry = parse_any(raw) or {}
        for path in places[number]:
            # A missing value is handled when the line is rewritten.
            with suppress(CannotSplice):
                if not isinstance(text := value_at(entry, path), str):
                    continue
                digests = digests_of(text.encode())
                if not replaced.isdisjoint(digests):
                    # Otherwise a later run could choose other names and change a line that this run had to leave.
                    repeats[number, path] = NOTHING
                    continue
                replaced.update(digests)
                above = preamble.match(text) if preamble else None
                names.add(text[above.end() :] if above else text)
                results.append((number, path))
    return {**repeats, **dict(zip(results, names.choose(), strict=True))}


class Rewritten(NamedTuple):
    """A line's new bytes, its parsed entry, and the replacements in it."""

    raw: bytes
    entry: Entry
    replacements: tuple[Replacement, ...]


_LONG_ENOUGH = 64
"""Bytes. A prefix of this length includes an id or a time, not only the type."""


class MustStay(ValueError):
    """A change would touch a value that its format protects. This is a bug in this program."""


def rewrite(
    raw: bytes,
    entry: Entry,
    changes: Sequence[Change],
    view: View,
    refer: Callable[[bytes], str | None],
    origin: Callable[[OurKey], Origin | None] = lambda _: None,
) -> Rewritten | None:
    """Apply the changes to a line; return None if it does not shrink.

    `entry` is the parsed line and is changed in place. `refer` and `origin` are passed to the Context. Raises
    CannotSplice if a change can't be made, MustStay if it is not allowed.
    """
    if not all(map(view.allows, changes)):
        raise MustStay("a change would touch protected bytes")
    context = Context(view, refer, entry, origin)
    made: list[Replacement] = []
    for change in changes:
        value = value_at(entry, change.path)
        if change.treatment is Treatment.SET:
            made.append(Replacement(change.path, change.value, change, change.saves, literal(change.value)))
        elif change.block is None:
            made.append(Replacement(change.path, REMOVED, change, change.saves, b""))
        else:
            # Additions to a cleared result have no block. They are proposed only if something else shrinks by more.
            rendered = KINDS[change.block.kind].render(change, value, context)
            made += [each for each in rendered if each.change.block is None or len(each.written) < each.was]
    if not made:
        return None
    new_values: dict[JsonPath, Any] = {}
    texts: dict[JsonPath, bytes] = {}
    for path, value, _, _, written, *_ in made:
        if not view.form.may_change(entry, path, value):
            raise MustStay(f"the value at {path} must not change")
        new_values[path] = value
        texts[path] = written
    new, parsed = splice(raw, entry, new_values, texts)
    if len(new) >= len(raw):
        return None
    if not is_of_one(new, raw):
        raise CannotSplice("a restore would take it for another entry")
    return Rewritten(new, parsed, tuple(made))


def is_of_one(raw: bytes, original: bytes) -> bool:
    """True if a rewritten line and an original are of the same entry, by what no run rewrites."""
    # The part before the first object, with an id or a time, identifies most lines without parsing.
    start = raw.find(b"{", 1)
    are_alike = start >= _LONG_ENOUGH and raw[:start] == original[:start]
    return are_alike or identity(parse_any(raw)) == identity(parse_any(original))


def identity(entry: Entry | None) -> int:
    """Hash what no run rewrites in an entry: all values but objects, arrays, and long, replaced or empty texts.

    Its type is left out, because a run may change it to one without content.
    """
    kept = []
    for key, value in (entry or {}).items():
        if key == "type":
            continue
        if isinstance(value, str):
            is_long = len(value) >= values.SMALLEST_BLOCK
            may_change = not value or is_long or PREFIX in value or values.CLEARED.fullmatch(value) is not None
        else:
            may_change = isinstance(value, (dict, list))
        if not may_change:
            kept.append((key, value))
    return hash(tuple(kept))


def value_at(entry: Entry, path: JsonPath) -> Any:
    """Return the value at a path of a parsed line. A path may lead into a string's JSON. Raises CannotSplice."""
    value: Any = entry
    try:
        for step in path:
            value = _opened(value) if isinstance(value, str) else value
            # A path from the journal may hold an integer where the entry has a string key.
            value = value[str(step) if isinstance(step, int) and isinstance(value, dict) else step]
    except (KeyError, IndexError, TypeError) as error:
        raise CannotSplice("a value to replace is not there") from error
    return value


def recorded(original: Entry | None, block: BlockRecord, journal: Path) -> Any:
    """Return a block's original value. Raises Damaged if its type, size or digest differs from the record."""
    # A value nested too deep to serialize raises TypeError.
    with suppress(CannotSplice, TypeError):
        value = value_at(original or {}, block.path)
        if isinstance(value, KINDS[block.kind].original):
            content = content_of(value, block.kind)
            if len(content) == block.bytes and block.digest in digests_of(content):
                return value
    raise Damaged(
        f"the original of reference {block.ref} does not match the journal",
        where=journal,
        remedy="Put the journal and the originals back from a backup.",
    )


@lru_cache(maxsize=2)
def _opened(text: str) -> Any:
    """Parse a string that holds JSON. Cached, because many values of a line and its original may be in one string."""
    return within(text)


def places_in(original: Entry) -> Callable[[JsonPath, bytes, Kind], JsonPath]:
    """Return a function that maps values of a rewritten line to their paths in its original.

    Removed parts shift indexes. Call it in path order. Raises CannotSplice if the original doesn't hold the content.
    """
    taken_out = 0

    def place(path: JsonPath, content: bytes, kind: Kind) -> JsonPath:
        nonlocal taken_out
        at = next((position for position, step in enumerate(path) if isinstance(step, int)), None)
        if at is None:
            return path
        siblings, first = value_at(original, path[:at]), path[at]
        if isinstance(siblings, list) and isinstance(first, int):
            # At least as many parts were removed before this one as before the previous value; try that offset first.
            likely = first + taken_out
            for index in chain(range(likely, len(siblings)), range(first, min(likely, len(siblings)))):
                candidate = (*path[:at], index, *path[at + 1 :])
                try:
                    holds = content_of(value_at(original, candidate), kind) == content
                except (CannotSplice, TypeError):
                    # A value nested too deep to serialize raises TypeError.
                    holds = False
                if holds:
                    taken_out = index - first
                    return candidate
        raise CannotSplice("the line's original does not hold what would be replaced")

    return place


class Applied:
    """Applies a plan's changes during the second read of a session, and collects the result.

    `left_alone` are the lines that accept no change. If `again` is set, make a new plan without them. `counts` and
    `redundancies` count replaced blocks (a call once, not per argument), `cleared` the pruned results, and `removed`
    the removed bytes.
    """

    def __init__(
        self,
        view: View,
        plan: Plan,
        known: Known,
        sink: Sink,
        originals: OriginalsReader,
        committed: Committed | None = None,
    ) -> None:
        self._view = view
        self._plan = plan
        self._known = known.rewritten
        self._references = References(known.journal.references)
        self._journal = known.journal
        self._sink = sink
        self._where = str(known.session.path)
        self._keeps = view.policy.keep_backup
        self._refer = self._references.refer if self._keeps else lambda _: None
        self._kept = originals
        self._committed = committed
        self._originals: dict[int, bytes] = {}
        """The SHA-256 of each changed line's original, by line number."""
        self.lines = Lines(view.lines)
        self.ours = Ours(view.ours.recorded)
        self.changed: dict[int, list[bytes]] = {}
        """The line record and block records of each changed line, by line number; empty if `claimed`."""
        self.claimed: list[tuple[int, int]] = []
        """Line records of undone runs that match this run's: (first row, number of rows)."""
        self.left_alone: set[int] = set()
        self.again = False
        self.counts = dict.fromkeys(Kind, 0)
        self.redundancies = self.cleared = 0
        self.removed = 0
        self.waiting = 0
        """Number of lines left until a commit holds them."""

    def encoded(self) -> Iterator[bytes]:
        """Yield the encoded records of the changed lines."""
        return chain.from_iterable(self.changed.values())

    def run(self, stream: Iterable[Piece]) -> None:
        """Write every line, changed or not, to the sink. Raises InUse if the session differs from what was surveyed.

        Two different originals must not become the same rewritten line, and a rewritten line must not equal an
        unchanged line: restore could not tell them apart. Equal originals may, even if an earlier run rewrote only one
        of them, because both get the same bytes back.
        """
        planned = self._plan.get
        for number, raw, whole in stream:
            changes = planned(number) if whole else None
            self._sink.write(raw if changes is None else self._changed(number, raw, changes))

        doubles = set()
        first: dict[int, int] = {}
        for number in self.changed:
            kept = first.setdefault(self.lines[number].digest, number)
            if kept != number and self._originals[kept] != self._originals[number]:
                doubles.add(number)
        for number, (was, now) in enumerate(zip(self._view.lines, self.lines, strict=True)):
            if was.digest in first and now.digest == was.digest and number not in self._known:
                doubles.add(first[was.digest])
        self.left_alone |= doubles
        self.again |= bool(doubles)

    def _changed(self, number: int, raw: bytes, changes: tuple[Change, ...]) -> bytes:
        entry = parse_any(raw)
        if entry is None or xxh3_64_intdigest(raw) != self._view.lines[number].digest:
            raise InUse("it changed while it was being read", where=self._where, remedy="Run again.")
        try:
            new = rewrite(raw, entry, changes, self._view, self._refer, partial(self._origin, number))
            if new is not None:
                self._record(number, raw, new)
                return new.raw
        except MustStay as error:
            raise broken(str(error), self._where, number) from error
        except CannotSplice:
            pass
        self.left_alone.add(number)
        self.again |= any(change.group for change in changes)
        return raw

    def _record(self, number: int, raw: bytes, new: Rewritten) -> None:
        """Record a rewritten line: its blocks, its original unless an earlier run kept it, and its new bytes."""
        was, rewritten = sha256(raw).digest(), sha256(new.raw).digest()
        known = self._known.get(number)
        if known and known.rewritten != was.hex():
            # The message was on a line of its own when a run rewrote it.
            raw += b"\n"
            was = bytes.fromhex(known.rewritten)
        original = bytes.fromhex(known.sha256) if known else was
        row = self._journal.rewriting(rewritten)
        if row is not None and self._journal.original_of(row) != original:
            self.left_alone.add(number)
            self.again = True
            return
        first = None
        if known and known.place:
            try:
                first = parse_any(self._kept.line(known.place, known.sha256))
            except Unreadable as error:
                if isinstance(known.place, InFrame):
                    raise
                # In a shallow clone the line stays unchanged.
                raise CannotSplice("the commit that has its original is not here") from error
        blocks = self._blocks(number, new, first)
        records = [block.encode() for block in blocks]
        if any(len(record) > LONGEST_RECORD for record in records):
            raise CannotSplice("a name in it is too long for the journal")
        place = self._journal.place(original, was)
        if place is not None:
            # The journal or the originals may not be ours. Keep the original again if it is not readable.
            try:
                self._kept.line(place, was.hex())
            except Unreadable:
                place = None
        if self._keeps and not isinstance(place, InFrame):
            # The commit that holds it may no longer be an ancestor of HEAD.
            place = self._place(raw, was)
        for block in blocks:
            for key in block.identities():
                self.ours.add(key)
        # Without block records, only the number tells which of several identical lines it was.
        edit = LineRecord(was.hex(), place, rewritten.hex(), edit=True, line=-1 if records else number)
        self.changed[number] = [edit.encode(), *records]
        if known is None and row is not None and not self._journal.stands(row):
            # A redo reuses equal records of an undone run. Its own record has room for a limited number of ranges.
            is_equal = (self._journal.line(row), *self._journal.blocks_of(row)) == (edit, *blocks)
            if is_equal and len(self.claimed) < 1_000:  # noqa: PLR2004
                follows = self.claimed and sum(self.claimed[-1]) == row
                start, rows = self.claimed.pop() if follows else (row, 0)
                self.claimed.append((start, rows + 1))
                self.changed[number] = []
        self._originals[number] = original
        self.lines[number] = self._line(number, new)
        self._count(new.replacements)

    def _origin(self, number: int, key: OurKey) -> Origin | None:
        """Find the original of a replacement, if this line's original holds it.

        Another line may hold the same replacement at another path, for example if Gemini CLI writes a result twice. A
        replacement that the agent itself copied has no original: it is what the agent wrote.
        """
        if (known := self._known.get(number)) is None:
            return None
        found = map(self._journal.block, self._journal.replaced(key))
        return next((block.origin for line, block in found if line.sha256 == known.sha256), None)

    def _place(self, raw: bytes, was: bytes) -> InFrame | InBlob:
        """Find a line in the commits, or store it. Raises CannotSplice if it must wait for a commit."""
        if self._committed is None or (lines := self._committed.lines) is None:
            return self._sink.keep(raw)
        if was in lines:
            return lines[was]
        if self._committed.waits:
            self.waiting += 1
            raise CannotSplice("no commit has it yet")
        return self._sink.keep(raw)

    def _line(self, number: int, rewritten: Rewritten) -> Line:
        """Read a rewritten line again, keeping what only earlier lines provide, such as tool names and the response.

        Unchanged parts share the old objects.
        """
        was = self._view.lines[number]
        now = self._view.form.reader().line(rewritten.raw, rewritten.entry)
        blocks, facts = now.blocks, now.facts
        if not all(block.tool for block in blocks):
            tools = {block.call: block.tool for block in was.blocks}
            blocks = tuple(block if block.tool else block._replace(tool=tools.get(block.call, "")) for block in blocks)
        if was.role is Role.CHECKPOINT:
            # Only a reader of the earlier lines knows which of their content a checkpoint repeats.
            known = {block.path for block in blocks}.union(each.path for each in rewritten.replacements)
            blocks += tuple(block for block in was.blocks if block.path not in known)
        if was.facts.first:
            # This fact describes the bytes before a message, not the message itself.
            facts = facts._replace(first=True)
        now = now._replace(blocks=blocks, facts=facts, response=was.response)
        if was.role is Role.RESULT and not (was.io or was.reads):
            # The model reads this result where it is stored with its call.
            now = now._replace(io=0, reads=0)
        return make_line([old if old == new else new for old, new in zip(was, now, strict=True)])

    def _blocks(self, number: int, new: Rewritten, original: Entry | None) -> list[BlockRecord]:
        """Build the records of a line's blocks. If `original` is given, paths refer to it."""
        place = None if original is None else places_in(original)
        records = []
        for each in new.replacements:
            block, content, origin = each.change.block, each.content, each.origin
            if block is None or not record_of(block):
                continue
            kind, file = block.kind, ""
            if origin is None:
                if content is None:
                    continue
                path = each.path if place is None else place(each.path, content, kind)
                ref, digest = self._references.named(content)
                lines = content.count(b"\n") + (not content.endswith(b"\n"))
                origin = Origin(ref, digest, path, len(content), lines)
                call = self._view.asking(number, block.call)
                # If the content is the whole file that the call names, git may hold it too.
                if call is not None and (
                    (kind is Kind.ARGUMENT and call.purpose is Purpose.WRITE and path[-1] == "content")
                    or (kind is Kind.RESULT and call.purpose is Purpose.READ and not call.part)
                ):
                    file = _writable(call.file)
            replacement = b""
            if each.value is not REMOVED and (kind is not Kind.MIRROR or (each.value and isinstance(each.value, str))):
                # The text that replaces an image is inside a content part.
                text = literal(values.part_text(each.value)) if kind is Kind.IMAGE else each.written
                replacement = digest_of(text)
            records.append(
                BlockRecord(
                    ref=origin.ref,
                    line=number,
                    path=origin.path,
                    kind=kind,
                    tool=_writable(block.tool),
                    call=block.call,
                    bytes=origin.bytes,
                    lines=origin.lines,
                    digest=origin.digest,
                    replacement=replacement,
                    file=file,
                    git_blob=git_blob(content) if file and content is not None else "",
                )
            )
        return records

    def _count(self, replacements: Iterable[Replacement]) -> None:
        calls = set()
        for each in replacements:
            block = each.change.block
            if block is None:
                continue
            if block.kind is Kind.ARGUMENT:
                calls.add(block.call)
            else:
                self.counts[block.kind] += 1
            pruned = block.kind is Kind.RESULT and each.change.treatment is not Treatment.PREVIEW
            is_old = self._view.standing[each.change.line] is Protection.OLD
            self.cleared += pruned and is_old and self._view.policy.prune.enabled
            self.redundancies += bool(each.change.note)
            if each.origin is None and each.content is not None and KINDS[block.kind].counts(block, self._view.policy):
                self.removed += each.was - len(each.written)
        self.counts[Kind.ARGUMENT] += len(calls)


def _writable(name: str) -> str:
    """Return a name if the journal can hold it, else empty. A call that only its agent can parse may hold bad UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return ""
    return name
