"""Make the changes of a plan: choose the names that previews keep, rewrite lines, and record what was replaced."""

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
from sessioncompress.compressors.names import MOST_HELD, NOTHING, Index, Names
from sessioncompress.core.jsonl import Piece, parse_any
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import (
    Change,
    JsonPath,
    Kind,
    Line,
    Origin,
    OurKey,
    Purpose,
    Replacement,
    Role,
    Standing,
    Treatment,
    make_line,
)
from sessioncompress.core.references import References, content_of, digest_of, digests_of, git_blob
from sessioncompress.core.splice import REMOVED, CannotSplice, literal, splice, within
from sessioncompress.errors import NOT_CHANGED, Damaged, InUse, Unreadable
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry
from sessioncompress.pipeline.plan import Plan, broken, record_of
from sessioncompress.store.originals import Committed, InBlob, OriginalsReader, Place
from sessioncompress.store.records import LONGEST_RECORD, BlockRecord, LineRecord

if TYPE_CHECKING:
    from sessioncompress.pipeline.reading import Known
    from sessioncompress.store.commit import DryRun, Rewrite


_KEPT = 2_048
"""Bytes of a line that stays in which names are looked for: what a model reads of it stands at its beginning."""


def names_of_results(known: Known, view: View, plan: Plan) -> Mapping[tuple[int, JsonPath], Index]:
    """Choose an index for each result that is to be previewed, by its line and place.

    What a model can still read is looked at first, then these results, the newest first. Of equal texts one has an
    index, also where an earlier run replaced it.
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

    names, preamble = Names(view.policy), view.form.preamble
    lines, dead = view.lines, view.survey.shape.dead
    newest = reversed(range(len(lines)))
    stay = (
        number
        for number in newest
        if lines[number].reads and number not in dead and all(takes_nothing(change) for change in plan.get(number, ()))
    )
    kept, size = list[bytes](), 0
    for number, raw in known.lines(stay, _KEPT):
        # Ids and times stand before the content, if the agent has such a key; types and ids stand among it.
        start = max(raw.find(b'"content":'), 0)
        kept.append(raw[start : start + lines[number].reads * 6 // 5 + 200])
        size += len(kept[-1])
        # Many words at once cost half of what they cost line by line.
        if len(kept) == 64 or size >= MOST_HELD:  # noqa: PLR2004
            names.keep(b"\n".join(kept))
            kept.clear()
        if size >= MOST_HELD:
            break
    names.keep(b"\n".join(kept))
    results: list[tuple[int, JsonPath]] = []
    repeats: dict[tuple[int, JsonPath], Index] = {}
    marked = ((block.digest, block.kind, block.call) for _, block in view.blocks(Kind.RESULT) if block.marked)
    replaced = {origin.digest for key in marked if (origin := view.ours.origin(key)) is not None}
    for number, raw in known.lines(places):
        if names.is_full:
            # Older results show what they would without names.
            break
        entry = parse_any(raw) or {}
        for path in places[number]:
            # What is not there any more is found when the line is rewritten.
            with suppress(CannotSplice):
                if not isinstance(text := value_at(entry, path), str):
                    continue
                digests = digests_of(text.encode())
                if not replaced.isdisjoint(digests):
                    # A run to come would give it other names, and what did not bear a change now would bear it then.
                    repeats[number, path] = NOTHING
                    continue
                replaced.update(digests)
                above = preamble.match(text) if preamble else None
                names.add(text[above.end() :] if above else text)
                results.append((number, path))
    return {**repeats, **dict(zip(results, names.choose(), strict=True))}


class Rewritten(NamedTuple):
    """A line as it is to be written, its parsed entry, and the replacements that made it."""

    raw: bytes
    entry: Entry
    replacements: tuple[Replacement, ...]


class MustStay(ValueError):
    """A change would touch what its format does not allow to change: an error in this program."""


def rewrite(
    raw: bytes,
    entry: Entry,
    changes: Sequence[Change],
    view: View,
    refer: Callable[[bytes], str | None],
    origin: Callable[[OurKey], Origin | None] = lambda _: None,
) -> Rewritten | None:
    """Make the changes to a line; None if nothing of it becomes smaller.

    `entry` is the parsed line; it is changed in place. `refer` and `origin` are the context's. Raises CannotSplice
    where a change cannot be made, MustStay where it must not.
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
            # What comes beside a cleared result belongs to no block; none is proposed that does not shrink by more.
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
    return Rewritten(new, parsed, tuple(made)) if len(new) < len(raw) else None


def value_at(entry: Entry, path: JsonPath) -> Any:
    """Look up the value at a path of a parsed line; a path may go on into a string's JSON. Raises CannotSplice."""
    value: Any = entry
    try:
        for step in path:
            value = _opened(value) if isinstance(value, str) else value
            # A journal's path may hold as an index what is a key.
            value = value[str(step) if isinstance(step, int) and isinstance(value, dict) else step]
    except (KeyError, IndexError, TypeError) as error:
        raise CannotSplice("a value to replace is not there") from error
    return value


def recorded(original: Entry | None, block: BlockRecord, journal: Path) -> Any:
    """Find a block's value in its original. Raises Damaged if its type, size or digest is not the recorded one."""
    # A value that is nested too deep to be written is a TypeError.
    with suppress(CannotSplice, TypeError):
        value = value_at(original or {}, block.path)
        if isinstance(value, KINDS[block.kind].original):
            content = content_of(value, block.kind)
            if len(content) == block.bytes and block.digest in digests_of(content):
                return value
    raise Damaged(
        f"the original of reference {block.ref} does not match the journal",
        where=journal,
        state=NOT_CHANGED,
        remedy="Put the journal and the originals back from a backup.",
    )


@lru_cache(maxsize=2)
def _opened(text: str) -> Any:
    """Parse a text that is JSON. Many values of a line, and of its original, may stand in one: it is parsed once."""
    return within(text)


def places_in(original: Entry) -> Callable[[JsonPath, bytes, Kind], JsonPath]:
    """Make what finds the values of a rewritten line in the line's original: parts before them may have been taken out.

    It is asked for them in their order, and raises CannotSplice where the original does not hold that content.
    """
    taken_out = 0

    def place(path: JsonPath, content: bytes, kind: Kind) -> JsonPath:
        nonlocal taken_out
        at = next((position for position, step in enumerate(path) if isinstance(step, int)), None)
        if at is None:
            return path
        siblings, first = value_at(original, path[:at]), path[at]
        if isinstance(siblings, list) and isinstance(first, int):
            # As many parts are gone before it as before the last value, or more.
            likely = first + taken_out
            for index in chain(range(likely, len(siblings)), range(first, min(likely, len(siblings)))):
                candidate = (*path[:at], index, *path[at + 1 :])
                try:
                    holds = content_of(value_at(original, candidate), kind) == content
                except (CannotSplice, TypeError):
                    # A value that is nested too deep to be written is a TypeError.
                    holds = False
                if holds:
                    taken_out = index - first
                    return candidate
        raise CannotSplice("the line's original does not hold what would be replaced")

    return place


class Applied:
    """The changes of a plan, made while a session is read for the second time, and what they come to.

    `left_alone` are the lines that bear no change; with `again` the plan must be made anew without them. `counts` and
    `redundancies` count what was replaced, calls and not their arguments, `cleared` the results that were pruned,
    `removed` its bytes.
    """

    def __init__(
        self,
        view: View,
        plan: Plan,
        known: Known,
        sink: Rewrite | DryRun,
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
        """The SHA-256 of the original of each changed line, by the line's number."""
        self.lines = Lines(view.lines)
        self.ours = Ours(view.ours.recorded)
        self.changed: dict[int, list[bytes]] = {}
        """The record of each changed line's edit and those of its blocks, by the line's number; none if `claimed`."""
        self.claimed: list[tuple[int, int]] = []
        """The line records of undone runs that say what this one does: first rows, and numbers of them."""
        self.left_alone: set[int] = set()
        self.again = False
        self.counts = dict.fromkeys(Kind, 0)
        self.redundancies = self.cleared = 0
        self.removed = 0
        self.waiting = 0
        """Lines that stay until a commit has them."""

    def encoded(self) -> Iterator[bytes]:
        """Yield the records of the changed lines."""
        return chain.from_iterable(self.changed.values())

    def run(self, stream: Iterable[Piece]) -> None:
        """Write every line, changed or not, to the sink. Raises InUse if the session is not what was surveyed.

        Two originals never share one rewritten line, nor is a rewritten line what stands somewhere as it was: restore
        could not tell them apart. Equal originals may, also where an earlier run rewrote only one of the lines: both
        get the same bytes back.
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
            what, state = "it changed while it was being read", "The session was not changed."
            raise InUse(what, where=self._where, state=state, remedy="Run again.")
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
        """Note a rewritten line: its records, what it was unless an earlier run kept that, and what it is now."""
        was, rewritten = sha256(raw).digest(), sha256(new.raw).digest()
        known = self._known.get(number)
        if known and known.rewritten != was.hex():
            # A message that had a line of its own when a run rewrote it.
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
                if isinstance(known.place, Place):
                    raise
                # In a shallow clone the line stays as it is.
                raise CannotSplice("the commit that has its original is not here") from error
        blocks = self._blocks(number, new, first)
        records = [block.encode() for block in blocks]
        if any(len(record) > LONGEST_RECORD for record in records):
            raise CannotSplice("a name in it is too long for the journal")
        place = self._journal.place(original, was)
        if place is not None:
            # Others may have written the journal, or the originals: what is not there is kept again.
            try:
                self._kept.line(place, was.hex())
            except Unreadable:
                place = None
        if self._keeps and not isinstance(place, Place):
            # A commit that has it may be one that HEAD does not come from any more.
            place = self._place(raw, was)
        for block in blocks:
            for key in block.identities():
                self.ours.add(key)
        # Where no value has a record, nothing else tells which of several identical lines it was.
        edit = LineRecord(was.hex(), place, rewritten.hex(), edit=True, line=-1 if records else number)
        self.changed[number] = [edit.encode(), *records]
        if known is None and row is not None and not self._journal.stands(row):
            # A redo takes over equal records of a run that was taken back. Its own has no room for endless ranges.
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
        """Find the original of a replacement in a line, of those that this very line's original holds.

        Another line may hold the same replacement at another place, as where Gemini CLI writes a result twice. One that
        an agent copied has none: what the agent wrote there is the replacement.
        """
        if (known := self._known.get(number)) is None:
            return None
        found = map(self._journal.block, self._journal.replaced(key))
        return next((block.origin for line, block in found if line.sha256 == known.sha256), None)

    def _place(self, raw: bytes, was: bytes) -> Place | InBlob:
        """Find a line in the commits, or store it. Raises CannotSplice where it is to wait until a commit has it."""
        if self._committed is None or (lines := self._committed.lines) is None:
            return self._sink.keep(raw)
        if was in lines:
            return lines[was]
        if self._committed.waits:
            self.waiting += 1
            raise CannotSplice("no commit has it yet")
        return self._sink.keep(raw)

    def _line(self, number: int, rewritten: Rewritten) -> Line:
        """Read a rewritten line, with what those before it say: it may not name its tools or its response itself.

        What did not change is held once.
        """
        was = self._view.lines[number]
        now = self._view.form.reader().line(rewritten.raw, rewritten.entry)
        blocks, facts = now.blocks, now.facts
        if not all(block.tool for block in blocks):
            tools = {block.call: block.tool for block in was.blocks}
            blocks = tuple(block if block.tool else block._replace(tool=tools.get(block.call, "")) for block in blocks)
        if was.role is Role.CHECKPOINT:
            # What it repeats of the lines before it, only who read these knows.
            known = {block.path for block in blocks}.union(each.path for each in rewritten.replacements)
            blocks += tuple(block for block in was.blocks if block.path not in known)
        if was.facts.first:
            # What stands before a message says so, not the message.
            facts = facts._replace(first=True)
        now = now._replace(blocks=blocks, facts=facts, response=was.response)
        if was.role is Role.RESULT and not (was.io or was.reads):
            # A result that stands with its call, too: the model reads it there.
            now = now._replace(io=0, reads=0)
        return make_line([old if old == new else new for old, new in zip(was, now, strict=True)])

    def _blocks(self, number: int, new: Rewritten, original: Entry | None) -> list[BlockRecord]:
        """Make the records of a line's blocks, with their places in its original if that is another line."""
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
                # Where the content is all of the file that the call names, git may hold it too.
                if call is not None and (
                    (kind is Kind.ARGUMENT and call.purpose is Purpose.WRITE and path[-1] == "content")
                    or (kind is Kind.RESULT and call.purpose is Purpose.READ and not call.part)
                ):
                    file = _writable(call.file)
            replacement = b""
            if each.value is not REMOVED and (kind is not Kind.MIRROR or (each.value and isinstance(each.value, str))):
                # An image's text is inside a content part.
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
            is_old = self._view.standing[each.change.line] is Standing.OLD
            self.cleared += pruned and is_old and self._view.policy.prune.enabled
            self.redundancies += bool(each.change.note)
            if each.origin is None and each.content is not None and KINDS[block.kind].counts(block, self._view.policy):
                self.removed += each.was - len(each.written)
        self.counts[Kind.ARGUMENT] += len(calls)


def _writable(name: str) -> str:
    """A name that the journal can hold, or none: a call that only its agent can read may name what is no UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return ""
    return name
