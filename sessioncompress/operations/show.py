"""Find the original of a reference: in the named session, in parent folders, or in the agents' folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from sessioncompress import errors
from sessioncompress.core.checkpoint import Say
from sessioncompress.core.jsonl import holds, parse_any
from sessioncompress.core.marker import references
from sessioncompress.core.model import Kind
from sessioncompress.core.references import FEWEST_DIGITS, content_of, digests_of
from sessioncompress.core.text import listed, quote
from sessioncompress.formats import table
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.discover import is_folder
from sessioncompress.pipeline.relatives import packed_kin, relatives_of
from sessioncompress.pipeline.rewrite import recorded
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.damage import SalvagingReader, judging
from sessioncompress.store.folder import refuse_linked
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
from sessioncompress.store.packing import Pack, Packed
from sessioncompress.store.records import BlockRecord


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
        raise errors.UsageError(f"{ref!r} is not a reference", state="", remedy=_of_packed(ref) or remedy)
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
        remedy = "Name the session that holds the marker, or with --backup-dir (backupDir) the folder of its originals."
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
            family, damaged = relatives_of(session, policy)
            yield [each.store.journal for each in family] + [Path(each.where) for each in damaged if each.where]
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
        raise errors.UsageError("the working folder no longer exists", state="", remedy=remedy) from error


def mentions(ref: str, journal: Path) -> bool:
    """True if a journal's bytes contain a reference; doesn't parse it."""
    with journal.open("rb") as file:
        return holds(file, ref.encode())


def _in_summary(ref: str, journal: Path, loaded: journals.Journal, named: Path | None) -> list[Shown]:
    """Find the content of a summary's reference, in the session that the journal belongs to."""
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
    loaded = journals.load(journal, salvaging=True)
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
    with judging(path, loaded):
        raise first
