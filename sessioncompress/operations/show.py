"""Find the original of a reference: in the named session, in parent folders, or in the agents' folders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from sessioncompress import errors
from sessioncompress.compressors.preview import said
from sessioncompress.core import marker
from sessioncompress.core.checkpoint import Say
from sessioncompress.core.jsonl import holds, parse_any
from sessioncompress.core.marker import INDEX, PREFIX, references
from sessioncompress.core.model import Kind
from sessioncompress.core.references import FEWEST_DIGITS, content_of, digests_of
from sessioncompress.core.splice import within
from sessioncompress.core.text import listed, quote
from sessioncompress.formats import table, values
from sessioncompress.formats.base import Entry
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.discover import is_folder
from sessioncompress.pipeline.relatives import packed_kin, relatives_of
from sessioncompress.pipeline.rewrite import recorded
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.damage import SalvagingReader, any_readable, put_back
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import (
    all_stores,
    backup_folder,
    backups_of,
    is_own,
    journals_in,
    originals_of,
    rows_of,
    session_of,
    store_at,
    store_of,
)
from sessioncompress.store.lock import open_session
from sessioncompress.store.machine import folder_name
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.packing import Pack, Packed
from sessioncompress.store.records import BlockRecord, LineRecord

_CUT = re.compile(r"\A(?:[^|\s]+(?=\|)|data:[^,\s]*,)")
"""The part that may remain of an id or a data URL."""
_IN_INDEX = frozenset(f"{INDEX}| ... and more deleted moved here".split())
_SEARCHED = 1 << 34
"""Maximum characters to search when checking a line against its original; an untrusted line may show anything."""
_LONG_ENOUGH = 64
"""Bytes. A prefix of this length includes an id or a time, not only the type."""


def original_of(raw: bytes, record: LineRecord, originals: OriginalsReader, journal: Journal, where: Path) -> bytes:
    """Read the original of a rewritten line, with an LF if the line has one. Raises Damaged on a mix-up."""
    assert record.place is not None
    original = originals.line(record.place, record.sha256)
    # The part before the first object, with an id or a time, identifies most lines without parsing.
    start = raw.find(b"{", 1)
    are_alike = start >= _LONG_ENOUGH and raw[:start] == original[:start]
    if not are_alike and identity(parse_any(raw)) != identity(parse_any(original)):
        raise of_another(where)
    if not journal.is_ours:
        _refuse_others(raw, record, original, originals, journal, where)
    # The message was on a line of its own then, and is one of several now.
    return original if raw.endswith(b"\n") else original.removesuffix(b"\n")


def _refuse_others(
    raw: bytes, record: LineRecord, original: bytes, originals: OriginalsReader, journal: Journal, where: Path
) -> None:
    """Raise Damaged if a rewritten line, or a marker in it, has content that its original lacks."""
    if lacks(original, raw):
        raise of_another(where)
    refs = [ref for ref in references(raw.decode(errors="replace")) if ref.encode() not in original]
    row = journal.rewriting(bytes.fromhex(record.rewritten)) if refs else None
    if row is None:
        return
    first = journal.placed(row)
    if first.sha256 != record.sha256 and first.place is not None:
        # The block is in what an earlier run left of it.
        original = originals.line(first.place, first.sha256)
    entry = parse_any(original)
    for ref in refs:
        block = journal.named(ref, bytes.fromhex(first.sha256))
        if block is None:
            raise of_another(where)
        recorded(entry, block, where)


def lacks(original: bytes, raw: bytes, *, but: str = "") -> bool:
    """True if a line has content that its original lacks, so no run produced it from that. Ignores the key `but`.

    A run removes values, or replaces one with nothing, with the first part of an id, or with a marker and a preview
    made of the value's lines. Its additions carry no content. Everything else is in the original, under the same keys.
    """
    stood = list(_values(parse_any(original)))
    keys, known, texts = {path for path, _, _ in stood}, set[tuple[int, type, Any]](), list[str]()
    for path, _, value in stood:
        known.add((path, type(value), value))
        if isinstance(value, str):
            texts.append(value)
            known |= {(path, str, each) for each in _CUT.findall(value)}
    # A preview shows text without colors and, for JSON, without escapes, also after other lines.
    text = "\n".join(each for value in texts for each in (value, said(f'"{value}'))).replace("\\", "")
    lines = set(map(str.strip, text.split("\n")))
    left = iter(range(_SEARCHED // (len(text) + 1)))

    def holds_part(part: str) -> bool:
        return next(left, None) is not None and part in text

    def stands(line: str) -> bool:
        if line in lines or holds_part(line):
            return True
        if line.startswith(INDEX):
            return all(word in _IN_INDEX or word.isdigit() or holds_part(word) for word in line.split())
        # A preview's heading tells how commands ended, or a document's title.
        return all(map(holds_part, line.split(", "))) or line in map(marker.name, texts)

    def may_be_made(path: int, key: Any, value: Any) -> bool:
        is_new = path not in keys
        if is_new and key not in values.ADDED:
            return False
        if value in (None, "", *values.ADDED.get(key, ())) or (is_new and key in values.ADDED_TIMES):
            return True
        if not isinstance(value, str):
            return False
        if values.CLEARED.fullmatch(value) or within(value) is not None:
            # The values of a JSON text are checked one by one.
            return True
        parts = marker.around(value.replace("\\", ""))
        return PREFIX in value and all(stands(line.strip()) for part in parts for line in part.split("\n"))

    entry, rest = parse_any(raw), iter(stood)
    for path, key, value in _values(entry):
        if key != but and (path, type(value), value) not in known and not may_be_made(path, key, value):
            return True
        # Texts must be in the original's order.
        is_text = isinstance(value, str) and value not in ("", *values.ADDED.get(key, ()))
        if is_text and key != but and (path, str, value) in known and not _comes(rest, path, value):
            return True
    return entry is None


def _comes(rest: Iterator[tuple[int, Any, Any]], path: int, text: str) -> bool:
    """True if a text, or one that it starts, is among the remaining values; consumes the values up to it."""
    those = (value for at, _, value in rest if at == path and isinstance(value, str))
    return any(text == value or text in _CUT.findall(value) for value in those)


def has_words(raw: bytes, *, but: str) -> bool:
    """True if a line has a text of several words other than `but`, or one that may be several words without spaces."""
    texts = (value for _, _, value in _values(parse_any(raw)) if isinstance(value, str) and value != but)
    return any(len(each) >= 64 or not each.isascii() or len(each.split(maxsplit=1)) > 1 for each in texts)  # noqa: PLR2004


def _values(entry: Any) -> Iterator[tuple[int, Any, Any]]:
    """Yield a line's values, each with a hash of its path and its last key. A container's value is None."""
    waiting = [(0, "", entry)]
    while waiting:
        path, key, value = waiting.pop()
        inner = within(value) if isinstance(value, str) else value
        if isinstance(inner, dict):
            waiting += ((hash((path, step)), step, each) for step, each in inner.items())
        elif isinstance(inner, list):
            waiting += ((hash((path, None)), key, each) for each in inner)
        yield path, key, None if isinstance(value, (dict, list)) else value


def identity(entry: Entry | None) -> int:
    """Hash the parts of an entry that no run rewrites: all values but objects, arrays, and long or replaced texts.

    Its type is left out, because a run may change it to one without content.
    """
    kept = []
    for key, value in (entry or {}).items():
        if key == "type":
            continue
        if isinstance(value, str):
            may_change = (
                len(value) >= values.SMALLEST_BLOCK or PREFIX in value or values.CLEARED.fullmatch(value) is not None
            )
        else:
            may_change = isinstance(value, (dict, list))
        if not may_change:
            kept.append((key, value))
    return hash(tuple(kept))


def of_another(journal: Path) -> errors.Damaged:
    """Build the error for a journal that mixes up two lines."""
    return errors.Damaged(
        "it names the original of another entry for a line of the session",
        where=journal,
        state=errors.NOT_CHANGED,
        remedy="Put the journal back from a backup. If others made this store, move its two files away.",
    )


class Shown(NamedTuple):
    """One original: its record, journal, content in bytes, and the pack with the journal, if any.

    `is_ours` is true if all runs in the journal, and the pack, are this user's on this machine.
    """

    record: BlockRecord
    journal: Path
    content: bytes
    is_ours: bool
    pack: Pack | None = None


def show(ref: str, path: Path | str | None = None, policy: Policy = BALANCED) -> tuple[Shown, ...]:
    """Return the originals that a reference or a marker names: one, or all candidates if it is ambiguous.

    If no session is named, stores that this user made on this machine take precedence. Equal contents count once, and a
    damaged file is read as far as possible. Raises UsageError if the reference is invalid or unknown; Refused if the
    session's store is elsewhere, or if a link or pipe is in the way; NotASession; FileFailed if a file that may hold it
    can't be read; Damaged if the original can't be read back.
    """
    path = None if path is None else Path(path)
    # The user may paste the whole marker.
    ref = next(iter(references(ref)), ref)
    if len(ref) < FEWEST_DIGITS or not set(ref) <= set("0123456789abcdef"):
        remedy = "A reference is the 12 or more digits (0-9, a-f) in a marker."
        raise errors.UsageError(f"{ref!r} is not a reference", remedy=_of_packed(ref) or remedy)
    unreadable: list[errors.SessionCompressError] = []
    searched: list[Path] = []
    for journals_there in _places(path, policy):
        found: dict[bytes, Shown] = {}
        for journal in journals_there:
            searched.append(journal)
            try:
                shown_there = _in_journal(ref, journal, path)
            except (errors.FileFailed, errors.Refused, errors.Damaged) as error:
                unreadable.append(error)
                continue
            for shown in shown_there if path is not None or is_own(journal) else ():
                found.setdefault(shown.content, shown)
        if found:
            return tuple(found.values())
    if unreadable:
        raise unreadable[0]
    if in_packs := _in_packs(ref, path):
        return in_packs
    if path is not None and path.is_file():
        # No journal knows the references of a handoff; the session itself has the content.
        own = store_of(path.absolute(), policy).journal
        with suppress(errors.NotASession):
            if found_there := _in_summary(ref, own, journals.load(own), path):
                return tuple(found_there)
    remedy, state = "Name the session: show REF SESSION.", ""
    if path is not None:
        remedy = "Name the session that holds the marker, or with --backup-dir the folder of its originals."
        if is_folder(path):
            names = listed([session_of(each).name for each in searched])
            state = f"It has the stores of {names}." if names else "It has no session's store."
        else:
            store_of(path.absolute(), policy)
            if path.is_file():
                with open_session(path, writing=False) as session:
                    reading.refuse_unless_session(session)
    raise errors.UsageError(f"no original with the reference {ref} found", where=path, state=state, remedy=remedy)


def _of_packed(named: str) -> str:
    """If a name is a packed session rather than a reference, return how to use it."""
    # Imported here, as below.
    from sessioncompress.operations import packed

    with suppress(packed.Ambiguous):
        for each in packed.called(named):
            path = quote(str(each.place))
            return (
                f"It is packed: 'sessioncompress unpack {quote(named)}' brings it back, and "
                f"'sessioncompress show REF {path}' prints an original of it."
            )
    return ""


def _in_packs(ref: str, path: Path | None) -> tuple[Shown, ...]:
    """Find a reference's content in the stores of packed sessions."""
    # Imported here because few references get this far, and that module imports this one.
    from sessioncompress.operations import packed

    among = list(packed.packed_anywhere() if path is None else packed.packed_in([path]))
    if path is not None and not is_folder(path):
        with suppress(errors.Refused, errors.FileFailed), open_session(path, writing=False) as session:
            among += packed_kin(session)
    with_stores = [each for each in among if isinstance(each, Packed) and len(each.entry.members) > 1]

    def search(one: Packed, copy: Path) -> list[Shown]:
        found = _in_journal(ref, store_at(copy, BALANCED).journal, copy)
        found = [each._replace(pack=one.pack, is_ours=each.is_ours and one.pack.is_certain) for each in found]
        return [each._replace(journal=one.place.parent / each.journal.relative_to(copy.parent)) for each in found]

    # As with stores, prefer this user's own.
    with_stores.sort(key=lambda each: not each.pack.is_certain)
    found = next((each.result for each in packed.each_packed(with_stores, search) if each.result), [])
    return tuple({each.content: each for each in found}.values())


def _places(path: Path | None, policy: Policy) -> Iterator[list[Path]]:
    if path is not None and not is_folder(path):
        whole = path.absolute()
        stores = dict.fromkeys((store_at(whole, policy), *all_stores(whole, backups_of(whole, policy))))
        yield from ([each.journal] for each in sorted(stores, key=lambda each: not each.is_ours))
        with suppress(errors.Refused, errors.FileFailed), open_session(path, writing=False) as session:
            yield [each.store.journal for each in relatives_of(session, policy)]
        return
    others: list[list[Path]] = []
    for folder in [path] if path is not None else around(policy):
        found: dict[bool, list[Path]] = {True: [], False: []}
        for journal in journals_in(folder):
            found[journal.parent.name == folder_name()].append(journal)
        yield found[True]
        others.append(found[False])
    # A branch, a clone or another machine may have brought these.
    yield from others


def around(policy: Policy = BALANCED) -> Iterator[Path]:
    """Yield the folders to search for the session of a reference if none is named."""
    here = working_folder()
    if policy.backup_dir:
        yield here / backup_folder(policy.backup_dir, here)
    for folder in (here, *here.parents):
        yield folder
        yield from table.below(folder)
    yield from table.agent_folders()
    yield from map(rows_of, table.databases())


def working_folder() -> Path:
    """Return the working folder. Raises UsageError if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        remedy = "Change to another one, or name the session: show REF SESSION."
        raise errors.UsageError("the working folder no longer exists", remedy=remedy) from error


def mentions(ref: str, journal: Path) -> bool:
    """True if a journal's bytes contain a reference; doesn't parse it."""
    with journal.open("rb") as file:
        return holds(file, ref.encode())


def _in_summary(ref: str, journal: Path, loaded: journals.Journal, named: Path | None) -> list[Shown]:
    """Find the content of a summary's reference, in the session that the journal belongs to."""
    # Imported here because few references are in summaries.
    from sessioncompress.operations.checkpoints import said_first

    beside = session_of(journal)
    path = beside if named is None or is_folder(named) else named
    found: dict[str, Shown] = {}
    with open_session(path, writing=False) as session:
        for number, said in said_first(session, loaded, originals_of(journal)):
            for text in said.contents():
                content = text.encode(errors="surrogatepass")
                name = next((each for each in digests_of(content) if each.startswith(ref)), "")
                if name and name not in found:
                    kind = Kind.RESULT if said.say is Say.RESULT else Kind.ARGUMENT
                    lines = content.count(b"\n") + 1
                    record = BlockRecord(ref, number, (), kind, said.tool, said.call, len(content), lines, name)
                    found[name] = Shown(record, journal, content, loaded.is_ours)
    return list(found.values())


def _in_journal(ref: str, journal: Path, named: Path | None) -> list[Shown]:
    path = originals_of(journal)
    with errors.failing(journal, state=""):
        refuse_linked(journal)
        if not journal.is_file() or not mentions(ref, journal):
            return []
        refuse_linked(path)
    loaded = journals.load(journal)
    if any(each.startswith(ref) or ref.startswith(each) for one in loaded.checkpoints for each in one.refs):
        return _in_summary(ref, journal, loaded, named)
    exact = [row for row, (each, _) in enumerate(loaded.references) if each == ref]
    rows = exact or [row for row, (_, digest) in enumerate(loaded.references) if digest.startswith(ref)]
    kept = [(line, block) for line, block in map(loaded.block, rows) if line.place is not None]
    if not kept:
        return []
    shown: dict[bytes, Shown] = {}
    lost: list[tuple[str, errors.Unreadable]] = []
    with SalvagingReader(path) as originals:
        # One line may have many equal values, and so may many lines. Read each line once, and keep each value once.
        for line, of_line in groupby(kept, lambda each: each[0]):
            assert line.place is not None
            blocks = [block for _, block in of_line]
            try:
                entry = parse_any(originals.line(line.place, line.sha256))
            except errors.Unreadable as error:
                lost += [(block.digest, error) for block in blocks]
                continue
            for block in blocks:
                content = content_of(recorded(entry, block, journal), block.kind)
                shown.setdefault(content, Shown(block, journal, content, loaded.is_ours))
    read = {each.record.digest for each in shown.values()}
    first = next((error for digest, error in lost if digest not in read), None)
    if first is None:
        return list(shown.values())
    if originals.way or any_readable(path, loaded):
        raise first
    # No other original can be read either, so a restore would restore nothing.
    raise errors.Unreadable(first.what, where=first.where, state=first.state, remedy=put_back(path, loaded.store_size))
