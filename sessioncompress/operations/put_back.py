"""Put originals back where a marker of ours stands: what can be done for a session that cannot be exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from sessioncompress import errors
from sessioncompress.core.jsonl import parse, parse_any, pieces_of
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.model import JsonPath, Kind, Line, OurKey
from sessioncompress.core.references import content_of
from sessioncompress.core.splice import CannotSplice, splice
from sessioncompress.core.text import counted, not_there, strangers, unreadable
from sessioncompress.formats.base import Entry, Format
from sessioncompress.operations.restore import (
    ALREADY,
    ALREADY_BUT,
    NONE_STORED,
    RestoreStats,
    Restoring,
    joined,
    whole_lines,
)
from sessioncompress.operations.show import recorded
from sessioncompress.operations.verify import ChangedLine, Since, since_runs
from sessioncompress.pipeline import reading, relatives
from sessioncompress.pipeline.summary import Status
from sessioncompress.store import damage
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import Store, size_of
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord

_ANSWERED = "\n"  # no entry has it as its id


class _Sources(NamedTuple):
    """What a replacement of ours may stand for: of each content one block record, by the id of its entry.

    Under None are those of all entries, under _ANSWERED those of entries that answer calls. `unknown` are the XXH3-64
    of contents that cannot be read.
    """

    rows: Mapping[str | None, Mapping[bytes, int]]
    unknown: AbstractSet[str]


class PutBack:
    """Restores rewritten lines as a whole where it can, and in others each value whose replacement is one of ours.

    `swaps` are the session's rewritten lines, by the `journal`, which is at `where`; `changed` is how many were changed
    since, None if the journal is another session's. `unreadable` are the numbers of lines whose originals cannot be
    read.
    """

    def __init__(
        self,
        session: OpenSession,
        form: Format,
        journal: journals.Journal,
        originals: OriginalsReader,
        where: Path,
        swaps: Mapping[int, LineRecord],
        changed: int | None,
    ) -> None:
        self._pieces = partial(pieces_of, session.reader, session.size)
        self._form = form
        self._journal = journal
        self._originals = originals
        self._where = where
        self._whole, self.unreadable = whole_lines(self._pieces, form, swaps, originals, where)
        self.is_own = changed is not None
        self._rewritten = swaps if self.is_own else {}
        self._changed = changed or 0
        self._in_part = 0
        self._forms: dict[str, LineRecord | None] = {}
        self._sources: dict[OurKey, _Sources] = {}
        # Many markers may stand for values of one line.
        self._original = lru_cache(maxsize=2)(self._read)
        self.changed = 0
        self._unclear = 0

    def lines(self) -> Iterator[bytes]:
        """Yield every line of the session, with what can be put back."""
        for number, raw, whole in self._pieces():
            record = self._whole.get(number)
            if record and record.place:
                self.changed += 1
                yield self._originals.line(record.place, record.sha256)
                continue
            new = self._line(number, raw) if whole and PREFIX_BYTES in raw else raw
            if new is not raw:
                digest = sha256(new)
                record = self._rewritten.get(number)
                if record and record.place:
                    now = record._replace(rewritten=digest.hexdigest())
                    is_one = self._forms.setdefault(now.rewritten, now) == now
                    self._forms[now.rewritten] = now if is_one else None
                self._in_part += not self._journal.originals(digest.digest())
            yield new

    def forms(self, taken: journals.Journal) -> list[LineRecord]:
        """Return records of the lines that were restored in part, except those that could be taken for another's."""
        known = (record for record in self._forms.values() if record)
        return [record for record in known if taken.rewriting(bytes.fromhex(record.rewritten)) is None]

    def left(self) -> list[str]:
        """Describe what stays: lines with unreadable originals, and markers that may be of several originals."""
        left = [unreadable(self.unreadable)] if self.unreadable else []
        if self._unclear:
            stay = counted(self._unclear, "marker that could stand", "markers that could stand")
            left.append(f"{stay} for more than one original {'stays' if self._unclear == 1 else 'stay'}")
        return left

    def inexact(self) -> str:
        """Describe the rewritten lines that did not come back, or only in part; empty if all did."""
        known = len(self._rewritten) + self._changed
        gone = max(known - self.changed, 0)
        parts = [f"{gone:,} did not come back"] if gone else []
        parts += [f"{self._in_part:,} came back in part"] if self._in_part else []
        if not parts:
            return ""
        never = sum(record.place is None for record in self._rewritten.values())
        why = [f"{never:,} had no original"] if never else []
        if self._in_part or gone > never + len(self.unreadable):
            why.append("thinking and mirrors leave no marker")
        of = f"of {known:,} rewritten lines " if known else ""
        return of + " and ".join(parts) + (f" ({'; '.join(why)})" if why else "") + ": the session is not exact"

    def _line(self, number: int, raw: bytes) -> bytes:
        entry = parse(raw)
        if entry is None:
            return raw
        values: dict[JsonPath, object] = {}
        line = self._form.reader().line(raw, entry)
        for block in line.blocks:
            found = self._originals_of(number, line, (block.digest, block.kind, block.call)) if block.marked else []
            self._unclear += len(found) > 1
            if len(found) == 1:
                ((kind, value),) = found
                # An image's marker is the text of the part that stands in its place: the whole part goes back.
                values[block.path[:-1] if kind is Kind.IMAGE else block.path] = value
        if not values:
            return raw
        try:
            new, _ = splice(raw, entry, values)
        except CannotSplice:
            return raw
        self.changed += 1
        return new

    def _originals_of(self, number: int, of: Line, key: OurKey) -> list[tuple[Kind, object]]:
        """Return the values that a replacement may stand for; none if one of them cannot be read."""
        if (sources := self._sources.get(key)) is None:
            rows = self._journal.replaced(key)
            sources = self._sources_among(rows)
            if len(rows) > 1:
                # As many values may stand replaced by the same text: they do not look for their originals each.
                self._sources[key] = sources
        # A later call of the same id may have printed its marker. Forks and migrations keep the ids of entries;
        # before a migration there may have been none.
        ids: tuple[str | None, ...] = ("", of.facts.copy_of or of.id) if of.id else (None,)
        if any(call.name == key[2] for call in of.calls):
            # Gemini CLI also moves a result from the message that answers a call into the one that makes it.
            ids += (_ANSWERED,)
        rows_of = [row for each in ids for row in sources.rows.get(each, {}).values()]
        values: list[tuple[Kind, object]] = []
        known = set()
        for line, block in map(self._journal.block, rows_of):
            original, _ = self._original(line)
            value = block.kind, recorded(original, block, self._where)
            known.add(block.xxh3)
            values += [value] if value not in values else []
        if sources.unknown <= known:
            return values
        self.unreadable.add(number)
        return []

    def _sources_among(self, rows: Iterable[int]) -> _Sources:
        """Find which of some block records are of different contents, by the ids of the entries that they are of."""
        found: dict[str | None, dict[bytes, int]] = {}
        unknown = set()
        for row in rows:
            line, block = self._journal.block(row)
            if line.place is None:
                continue
            try:
                original, original_ids = self._original(line)
            except errors.Unreadable:
                unknown.add(block.xxh3)
                continue
            if original is None:
                continue
            try:
                content = sha256(content_of(recorded(original, block, self._where), block.kind)).digest()
            except errors.Damaged:
                # It counts where it is asked for.
                content = b""
            for each in (*original_ids, None):
                found.setdefault(each, {}).setdefault(content, row)
        return _Sources(found, unknown)

    def _read(self, line: LineRecord) -> tuple[Entry | None, tuple[str, ...]]:
        assert line.place is not None
        raw = self._originals.line(line.place, line.sha256)
        # An agent copies results to and fro between an entry and the one that it makes of them.
        of = reading.read_line(raw, self._form.reader())
        answers = (_ANSWERED,) if (of.answers or of.facts.several) and not of.calls else ()
        return parse_any(raw), (of.facts.copy_of or of.id, *answers)


class ByMarkers(Restoring):
    """A restore of what can be put back, line by line and value by value, from one store or several."""

    def by_markers(self) -> RestoreStats:
        """Put back what the session's own store holds, then what those of its relatives do.

        A damaged store does not keep the others from giving back.
        """
        session, form = self.session, self.form
        reading.refuse_unless_session(session, form)
        has_own = bool(self.journal.runs)
        failed: list[errors.Damaged] = []
        done: list[RestoreStats] = []
        if has_own:
            with _noting(failed):
                done.append(self.from_store(self.store, self.journal))
        marked = relatives.strangers_of(session, self.journal, form)
        family: list[relatives.Relative] = []
        with _noting(failed):
            family = (
                relatives.relatives_of(session, self.policy, form) if relatives.markers_of(session, form).texts else []
            )
        left = relatives.unknown_to_all(family, marked)
        if not has_own and marked and len(left) == len(marked) and not failed:
            relatives.refuse_if_marked(session, self.store, self.policy, form)
        others: list[RestoreStats] = []
        for relative in family:
            with _noting(failed):
                each = self._now().from_store(relative.store, relative.journal, alone=not has_own)
                lines = counted(each.lines_restored, "line", "lines")
                reason = joined(f"{lines} from the originals of {relative.session}", each.reason)
                others.append(replace(each, reason=reason))
        if failed and not any(each.lines_restored for each in [*done, *others]):
            raise failed[0]
        notes = [f"{each.where}: {each.what}" for each in failed if each.where != str(self.store.originals)]
        if has_own and any(each.lines_restored for each in others):
            # What the own store could not give back may have come from others: only now the rest is known.
            note, exact = self._now().what_is_left()
            done = [replace(each, reason="", exact=exact) for each in done]
            notes.insert(0, note)
        exact = all(each.exact for each in (done if has_own else others))
        done += others
        unknown = joined(*notes, strangers(len(left)))
        restored = [each for each in done if each.lines_restored]
        if restored:
            return replace(
                restored[-1],
                size_before=restored[0].size_before,
                lines_restored=sum(each.lines_restored for each in restored),
                reason=joined(*(each.reason for each in restored), unknown),
                exact=exact,
            )
        if not done:
            return self.stats(Status.UNCHANGED, NONE_STORED)
        reason = done[0].reason.replace(ALREADY, ALREADY_BUT) if unknown else done[0].reason
        return replace(done[0], reason=joined(reason, unknown), exact=exact)

    def what_is_left(self) -> tuple[str, bool]:
        """Describe what of the session is not restored, by its own journal, and tell whether it is exact."""
        since = self._since()
        number = len(since.rewritten) + len(since.changed)
        if not number:
            return not_there(since.gone), True
        damaged: set[int] = set()
        # The journal's damage was reported before; by now other stores have changed the session.
        with suppress(errors.Damaged), damage.SalvagingReader(self.store.originals) as originals:
            form = reading.format_of(self.session, self.form)
            pieces = partial(pieces_of, self.session.reader, self.session.size)
            _, damaged = whole_lines(pieces, form, since.rewritten, originals, self.store.journal)
        lines = counted(number, "rewritten line", "rewritten lines")
        inexact = f"{lines} did not come back, or only in part: the session is not exact"
        return joined(unreadable(damaged), inexact, not_there(since.gone)), False

    def from_store(self, store: Store, journal: journals.Journal, *, alone: bool = True) -> RestoreStats:
        """Put back what one store holds, the session's own or another's, wherever a marker stands.

        Unless `alone`, the caller describes what of the session is not exact.
        """
        form = reading.format_of(self.session, self.form)
        own = store == self.store
        if not journal.kept:
            none = self.stats(Status.UNCHANGED, NONE_STORED)
            return replace(none, exact=not (own and reading.find(self.session, journal)[0]))
        if own and size_of(store.originals) is None:
            raise damage.too_short(store.originals, 0, journal.store_size)
        since = self._since() if own else None
        swaps = since.rewritten if since else reading.find(self.session, journal)[0]
        with damage.SalvagingReader(store.originals) as originals:
            lost = None if since is None else len(since.changed)
            putback = PutBack(self.session, form, journal, originals, store.journal, swaps, lost)
            done = self._write(putback, alone=alone)
        if putback.unreadable and done.status is Status.UNCHANGED:
            remedy = "Put a copy of this file back from a backup."
            if own:
                remedy = f"{damage.put_back(store.originals, journal.store_size)} Without one {damage.FORGET}"
            what = f"nothing can be put back: {unreadable(putback.unreadable)}"
            raise errors.Damaged(what, where=store.originals, state=errors.NOT_CHANGED, remedy=remedy)
        return replace(done, reason=joined(done.reason, not_there(since.gone if since else 0)))

    def _since(self) -> Since:
        with suppress(errors.Unreadable):
            return since_runs(self.session, self.journal, self.store.originals, self.form)
        # Which of them were changed cannot be known.
        rewritten, missing, _ = reading.find(self.session, self.journal)
        return Since(rewritten, tuple(ChangedLine(0, ()) for _ in missing))

    def _write(self, putback: PutBack, *, alone: bool) -> RestoreStats:
        with self.rewriting() as sink:
            for line in putback.lines():
                sink.write(line)
            left = putback.left()
            # Before the commit, after which the session is the restored one.
            inexact = putback.inexact()
            if not putback.changed:
                nothing = "it has nothing that can be put back"
                nothing += ": the session is not exact" if inexact else ""
                is_exact = putback.is_own and not inexact and not left
                none = self.stats(Status.UNCHANGED, "; ".join([ALREADY if is_exact else nothing, *left]))
                return replace(none, exact=not (inexact or left))
            reason = joined(*left, inexact if alone else "")
            done = self.commit(sink, putback.changed, reason, undoes=(), forms=putback.forms(self.journal))
            return replace(done, exact=not (inexact or left))

    def _now(self) -> ByMarkers:
        # Putting back from another store changes the journal.
        journal = journals.load(self.store.journal)
        return ByMarkers(self.session, self.store, journal, self.policy, self.form, command=self.command)


@contextmanager
def _noting(failed: list[errors.Damaged]) -> Iterator[None]:
    try:
        yield
    except errors.Damaged as error:
        failed.append(error)
