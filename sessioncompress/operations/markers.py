"""Restore from markers if an exact restore is impossible: whole lines if known, else the values of single markers."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache, lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from sessioncompress import errors
from sessioncompress.core.jsonl import Piece, parse, parse_any, pieces_of
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.model import JsonPath, Kind, Line, OurKey
from sessioncompress.core.references import content_of
from sessioncompress.core.splice import CannotSplice, splice
from sessioncompress.core.text import counted, joined
from sessioncompress.formats.base import Entry, Format
from sessioncompress.operations.matching import lacks, of_another, original_of
from sessioncompress.operations.reasons import unreadable
from sessioncompress.operations.verify import Since
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.relatives import Relative
from sessioncompress.pipeline.rewrite import recorded, value_at
from sessioncompress.store import damage
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import size_of
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord

_ANSWERED, _UNREAD = "\n", "\n\n"  # no entry has these as its id


def whole_lines(
    pieces: Callable[[], Iterable[Piece]],
    form: Format,
    swaps: Mapping[int, LineRecord],
    originals: OriginalsReader,
    journal: Journal,
    where: Path,
) -> tuple[dict[int, LineRecord], set[int]]:
    """Find the rewritten lines that can become their originals, and the lines whose originals can't be read.

    If a call's id was cut in the call and its result, restore it in all lines that name it, or in none. Raises Damaged
    if an original belongs to another entry.
    """

    def ids(raw: bytes) -> list[str]:
        line = reading.read_line(raw, form.reader())
        return [*(call.id for call in line.calls), line.answers]

    kept = {number: record for number, record in swaps.items() if record.place}
    damaged: set[int] = set()
    cut: dict[int, set[str]] = {}
    for number, raw, whole in pieces():
        record = kept.get(number) if whole else None
        if record is None:
            continue
        try:
            original = original_of(raw, record, originals, journal, where)
        except errors.Unreadable:
            damaged.add(number)
            del kept[number]
            continue
        now, then = ids(raw), ids(original)
        if len(now) != len(then):
            raise of_another(where)
        if changed := {one for one, other in zip(now, then, strict=True) if one != other}:
            cut[number] = changed
    named = set[str]().union(*cut.values())
    stuck: set[str] = set()
    for number, raw, whole in pieces() if cut else ():
        if whole and number not in kept:
            stuck.update(named.intersection(ids(raw)))
    while parted := [number for number, changed in cut.items() if changed & stuck]:
        for number in parted:
            stuck |= cut.pop(number)
            del kept[number]
    return kept, damaged


class _OriginalsSource:
    """A store that originals are restored from: for `whole` lines and for markers. `unread` lines should be in it."""

    def __init__(
        self, of: Relative, form: Format, session: Path, stream: Callable[[], Iterable[Piece]], opened: ExitStack
    ) -> None:
        gone = of.journal.store_size and size_of(of.store.originals) is None
        if gone and not damage.any_readable(of.store.originals, of.journal):
            raise damage.too_short(of.store.originals, 0, of.journal.store_size)
        self.of, self.journal, self.where, self._form = of, of.journal, of.store.journal, form
        self.originals = opened.enter_context(damage.SalvagingReader(of.store.originals))
        self._is_of_fork = form.renews_ids and of.session != session
        # A line may have many marked values, and one text may have replaced many values.
        self._original = lru_cache(maxsize=2)(self._read)
        self._replaced = cache(self._by_entry)
        swaps = reading.RewrittenLines(self.journal, stream())
        self.whole, self.unread = whole_lines(stream, form, swaps, self.originals, self.journal, self.where)

    def values(self, row: int, path: JsonPath, entry: Entry | None) -> tuple[dict[JsonPath, Any], str]:
        """Read the original of a block record that is at `path` of an entry now, and its reference. Raises Damaged.

        The result includes the images that the run removed next to it, by their path; the entry may have a few left.
        """
        line, block = self.journal.block(row)
        original = self._original(line)[0]
        place, value = path, recorded(original, block, self.where)
        if block.kind is Kind.IMAGE:
            # An image's marker is the text of a part that replaced the image, so restore the whole part.
            place = path[:-1]
            value = self._with_own(value, value_at(entry or {}, place))
        found = {place: value}
        if self.journal.is_ours:
            found |= self._images(original, block.path, path, entry)
        return found, block.ref

    def _with_own(self, part: Any, now: Any) -> Any:
        """Keep what a text part took over from an image's part, as the entry has it now: a fork has its own ids."""
        if not (isinstance(part, dict) and isinstance(now, dict)):
            return part
        taken = self._form.text_part("", part)
        return {key: now.get(key, each) if taken.get(key) == each else each for key, each in part.items()}

    def _images(self, original: Entry | None, at: JsonPath, path: JsonPath, entry: Entry | None) -> dict[JsonPath, Any]:
        place, was = self._form.images_of(path), self._form.images_of(at)
        with suppress(CannotSplice, TypeError):
            now, then = value_at(entry or {}, place), value_at(original or {}, was)
            if place and len(now) < len(then) and all(each in then for each in now):
                return {place: then}
        return {}

    def candidates(self, line: Line, key: OurKey) -> _Candidates:
        """Find the possible originals of a marker in a line. Raises Damaged."""
        # A later call with the same id may have printed its marker. Most forks and migrations keep the ids of entries;
        # before a migration there may have been none.
        ids = [_UNREAD, *(["", line.facts.copy_of or line.id] if line.id else [None])]
        if any(call.name == key[2] for call in line.calls):
            # Gemini CLI also moves a result from the message that answers a call to the message that makes it.
            ids.append(_ANSWERED)
        found = {content: at for each in ids for content, at in self._replaced(key).get(each, {}).items()}
        return found or (self._replaced(key).get(None, {}) if self._is_of_fork else {})

    def _by_entry(self, key: OurKey) -> Mapping[str | None, _Candidates]:
        """Find what a text replaced, by entry id; under None, in any entry."""
        found = defaultdict[str | None, _Candidates](dict)
        for row in reversed(list(self.journal.replaced(key))):
            line, block = self.journal.block(row)
            if line.place is None:
                continue
            try:
                original, ids = self._original(line)
            except errors.Unreadable:
                found[_UNREAD][block.digest, b""] = self, None
                continue
            content = content_of(recorded(original, block, self.where), block.kind)
            for each in (*ids, None):
                found[each].setdefault((block.digest, sha256(content).digest()), (self, row))
        return found

    def _read(self, record: LineRecord) -> tuple[Entry | None, tuple[str, ...]]:
        assert record.place is not None
        raw = self.originals.line(record.place, record.sha256)
        line = reading.read_line(raw, self._form.reader())
        # An agent copies results back and forth between an entry and the one that it turns it into.
        answers = (_ANSWERED,) if (line.answers or line.facts.several) and not line.calls else ()
        return parse_any(raw), (line.facts.copy_of or line.id, *answers)


_Candidates = dict[tuple[str, bytes], tuple[_OriginalsSource, int | None]]
"""Contents by digest and SHA-256, each with a source and a block's row; the row is None if it can't be read."""


class Restored:
    """A session with originals restored from stores. Each store sees what the stores before it restored."""

    def __init__(self, session: OpenSession, form: Format, journal: Journal) -> None:
        self._pieces, self._form, self._path = partial(pieces_of, session.reader, session.size), form, session.path
        dropped = (each for record in journal.checkpoints for each in record.dropped)
        self._ours = frozenset(ours for each in dropped for _, ours, _ in each.runs)
        """The lines that identify a checkpoint. They must not change, or what it removed can't be put back."""
        self.sources: list[_OriginalsSource] = []
        self.lines: dict[int, bytes] = {}
        """Changed lines by number, with the new SHA-256 if single values were restored, else empty."""
        self.given = Counter[_OriginalsSource]()
        self.lacking = self.unclear = 0
        """Number of markers without an original, and with more than one candidate."""

    def ask(self, stores: Iterable[Relative], opened: ExitStack) -> None:
        """Find out what the stores can restore. Raises Damaged."""
        for each in stores:
            if each.journal.kept:
                self.sources.append(_OriginalsSource(each, self._form, self._path, self._stream, opened))
        deque(self.written(), maxlen=0)

    def _stream(self) -> Iterator[Piece]:
        """Yield the session with whole lines restored."""
        for number, raw, is_whole in self._pieces():
            new = raw
            for source in self.sources:
                if record := source.whole.get(number):
                    new = original_of(new, record, source.originals, source.journal, source.where)
            yield number, new, is_whole

    def written(self) -> Iterator[bytes]:
        """Yield every line in its final form. Raises Damaged."""
        for number, raw, is_whole in self._stream():
            givers = [each for each in self.sources if number in each.whole]
            new, others = raw, set[_OriginalsSource]()
            if is_whole and PREFIX_BYTES in raw and sha256(raw).hexdigest() not in self._ours:
                new, others = self._with_values(number, raw, givers)
            if givers or others:
                self.lines[number] = sha256(new).digest() if others else b""
                self.given.update({*givers, *others})
            yield new

    def _with_values(
        self, number: int, raw: bytes, givers: Sequence[_OriginalsSource]
    ) -> tuple[bytes, set[_OriginalsSource]]:
        """Restore the originals of markers in a line. A marker in what a store gave back is content to that store."""
        later = self.sources[self.sources.index(givers[-1]) + 1 :] if givers else self.sources
        line, entry = reading.read_line(raw, self._form.reader(), ended=False), parse(raw)
        values: dict[JsonPath, Any] = {}
        others = set()
        for block in line.blocks:
            if not block.marked:
                continue
            key = block.digest, block.kind, block.call
            found = {content: at for each in reversed(later) for content, at in each.candidates(line, key).items()}
            known = [(source, row) for source, row in found.values() if row is not None]
            if len(known) == 1 and len({digest for digest, _ in found}) == 1:
                ((source, row),) = known
                restored, ref = source.values(row, block.path, entry)
                # A text that only got the markers of images names these.
                if ref.encode() not in raw and len(restored) == 1:
                    raise of_another(source.where)
                values |= restored
                others.add(source)
                continue
            self.lacking += 1
            self.unclear += len(known) > 1
            for source in {source for source, row in found.values() if row is None}:
                source.unread.add(number)
        try:
            new = splice(raw, entry, values)[0] if values else raw
        except CannotSplice:
            return raw, set()
        for source in others:
            if not source.journal.is_ours and lacks(new, raw):
                raise of_another(source.where)
        return new, others

    @property
    def unreadable(self) -> set[int]:
        """Lines in which nothing was restored because no store can read their originals."""
        return set[int]().union(*(each.unread for each in self.sources)) - self.lines.keys()

    def failed(self, own: Relative) -> Iterator[errors.Damaged]:
        """Build the errors for stores in which nothing can be read."""
        for each in self.sources:
            if each.unread and not self.given[each]:
                remedy = each.originals.way
                if not remedy:
                    remedy = damage.put_back(each.of.store.originals, each.journal.store_size)
                    remedy += f" Without one {damage.FORGET}" if each.of is own else ""
                yield errors.Damaged(
                    f"nothing can be put back: {unreadable(each.unread)}",
                    where=each.of.store.originals,
                    remedy=remedy,
                )

    def stays(self) -> str:
        """Describe the lines and the markers that can't be restored."""
        one, several = "marker that could stand", "markers that could stand"
        stay = f"for more than one original {'stays' if self.unclear == 1 else 'stay'}"
        unclear = f"{counted(self.unclear, one, several)} {stay}" if self.unclear else ""
        return joined(unreadable(self.unreadable), unclear)

    def inexact(self, since: Since) -> str:
        """Describe rewritten lines that were not restored, or only in part; empty if all were."""
        ours = since.rewritten
        known, lines = len(ours) + len(since.changed), {*ours, *(each.line - 1 for each in since.changed)}
        came = self.lines.keys() if -1 in lines else self.lines.keys() & lines
        gone, never = max(known - len(came), 0), sum(record.place is None for record in ours.values())
        values = [digest for digest in self.lines.values() if digest]
        in_part = sum(all(each.journal.original(digest) is None for each in self.sources) for digest in values)
        parts = [f"{gone:,} did not come back"] if gone else []
        parts += [f"{in_part:,} came back in part"] if in_part else []
        why = [f"{never:,} had no original"] if never else []
        if in_part or gone > never + len(self.unreadable):
            why.append("thinking and screen copies leave no marker")
        of = f"of {counted(known, 'rewritten line', 'rewritten lines')} " if known else ""
        told = f"{of}{' and '.join(parts)}{f' ({joined(*why)})' if why else ''}: the session is not exact"
        return told if parts else ""

    def forms(self, ours: Mapping[int, LineRecord], journal: Journal) -> list[LineRecord]:
        """Build records for this session's partly restored lines, unless another line may have the same form."""
        forms = defaultdict[bytes, set[LineRecord]](set)
        for number in self.lines.keys() & ours.keys():
            if (digest := self.lines[number]) and ours[number].place:
                forms[digest].add(ours[number]._replace(rewritten=digest.hex()))
        return [record for digest, (record, *more) in forms.items() if not more and journal.rewriting(digest) is None]
