"""Sessions in databases: work on each as a temporary file of lines next to its store, then write its changed rows.

Our folder next to a database has a folder with the database's name. It holds the stores, like those next to any
session. Its folder of hidden stores also holds the rows that runs took from the table of events. A session's lines
exist only while a command works on them. The order of writes is the same as for any session: originals and journal are
on disk before a row changes. A crash leaves the old rows, or the new ones with their originals.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from sessioncompress.core import marker
from sessioncompress.core.jsonl import parse
from sessioncompress.core.model import Kind
from sessioncompress.core.references import FEWEST_DIGITS
from sessioncompress.core.text import listed, quote
from sessioncompress.errors import NOTHING_DONE, Damaged, SessionCompressError, UsageError, failing
from sessioncompress.formats import table
from sessioncompress.operations.sessions import Selection, Session, project_of
from sessioncompress.pipeline.discover import Found, Remote, SessionGone, is_database, is_missing, is_sqlite, walked
from sessioncompress.pipeline.relatives import Stranger, believed, unnamed_in
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk
from sessioncompress.store import journal as journals
from sessioncompress.store.damage import readable_lines
from sessioncompress.store.folder import make_ours, refuse_linked_folder
from sessioncompress.store.layout import (
    FOLDER,
    Lengths,
    Store,
    all_stores,
    lines_of,
    locals_in,
    rows_of,
    stores_in,
)
from sessioncompress.store.lock import open_file
from sessioncompress.store.machine import folder_name, make_key
from sessioncompress.store.originals import zstd
from sessioncompress.store.recover import cut_back
from sessioncompress.store.rows import Database, EventTotal, Listed, shrink, vacuum
from sessioncompress.store.tables import is_session_id

T = TypeVar("T")

_EVENTS = re.compile(r"(.+)\.(?:events|rows)-([1-9][0-9]{0,8})\.zst")
"""The name of a file with a session's events, or with rows before their change: the session's id and a number."""
_OUTPUTS = "tool-output"
"""The folder of the files that OpenCode and Kilo write too long outputs to, next to their database."""
_OUTPUT = re.compile(r"\btool_[0-9A-Za-z]{1,64}+\b")
_PIECE = 1000
"""Bytes at both ends of such a file. The output in the session is one of its ends, with a note."""
_DUE = "to-be-written-anew"
_OPTIONS = {
    int(zstd.CompressionParameter.compression_level): 6,
    int(zstd.CompressionParameter.checksum_flag): 1,
    int(zstd.CompressionParameter.enable_long_distance_matching): 1,
    int(zstd.CompressionParameter.window_log): 24,
}
"""Tuned for events that each repeat the whole one before and add a little."""


class DatabaseStats(Struct, frozen=True, rename="camel"):
    """Results for one database: its bytes on disk, and the number and bytes of the events that were moved.

    `reason` is what could not be done; `free_bytes`, only set when listing, are free bytes inside the database.
    """

    path: str
    size_before: int = 0
    size_after: int = 0
    events: int = 0
    event_bytes: int = 0
    free_bytes: int = 0
    reason: str = ""


def found_in(path: Path, selection: Selection, *, stores: bool = False) -> Iterator[Found]:
    """Find the sessions that a path names, and with `stores` missing ones that have a store. Yield errors as Found."""
    database, only = (path.parent, path.name) if is_database(path.parent) else (path, "")
    agent, rows = "", list[Listed]()
    try:
        is_gone = is_missing(database)
        if not is_gone:
            # SQLite would wait for a pipe.
            with failing(database), disk.closing(open_file(database.resolve())):
                pass
            with Database(database, writes=False) as opened:
                agent, rows = opened.tables.agent, opened.sessions()
    except SessionCompressError as error:
        yield Found(path, named=True, error=error)
        return
    project, present = project_of(selection), {each.id for each in rows}
    kept = set[str]()
    if stores:
        with suppress(OSError):
            kept.update(session.stem for session, _ in stores_in(rows_of(database)))
            kept.update(*map(_event_files, _event_folders(database)))

    def is_chosen(name: str) -> bool:
        return name == only if only else selection.globs.takes(name)

    for each in rows:
        if selection.older_than is not None and time.time() - each.changed_ns / 1e9 < selection.older_than:
            continue
        if is_chosen(each.id) and (not project or project.has(each.project)):
            yield _session(database, each, agent, named=bool(only))
    if only and only not in present | kept:
        what = "the database has no session of this id"
        yield Found(path, named=True, error=UsageError(what, where=path, state=NOTHING_DONE))
    for name in sorted(kept - present):
        if is_chosen(name) and not project:
            what, where = "the session is not in the database any more", database / name
            back, forgets = "", quote(str(where))
            if is_gone:
                what = "its database is missing"
                back, forgets = f"Put it back. {moving([database])} ", f"--gone {quote(str(database))}"
            remedy = f"{back}If you no longer need its originals, 'sessioncompress forget {forgets}' deletes them."
            what, state = f"{what}, but its store is still there", "Nothing was changed."
            gone = SessionGone(what, where=where, state=state, remedy=remedy)
            yield Found(where, named=True, error=gone)


def moving(databases: Iterable[Path]) -> str:
    """Format what to do with the stores of missing databases."""
    stores = listed([str(rows_of(each)) for each in databases])
    return f"If the database was moved or renamed, move {stores} to {FOLDER}/NEW_NAME beside it."


def _session(database: Path, row: Listed, agent: str, *, named: bool) -> Session:
    path = database / row.id
    return Session(
        path,
        named=named,
        remote=Remote(str(path), row.size, row.changed_ns, is_row=True),
        agent=agent,
        id=row.id,
        project=row.project,
        size=row.size,
        modified=row.changed_ns / 1e9,
        title=row.title,
    )


def selected(selection: Selection, *, stores: bool = False) -> Iterator[Found]:
    """Find the selected sessions in this user's databases."""
    for path in dict.fromkeys(table.databases(selection.agent, FOLDER if stores else "")):
        if is_database(path):
            yield from found_in(path, selection, stores=stores)


def work_on(
    remote: Remote, work: Callable[[Path], T], *, writes: bool, keeps: bool, gone_too: bool = False, adds: bool = False
) -> T:
    """Write a session's lines to a file next to its store, run `work` on it, and write the changed rows back.

    If `work` `keeps` originals, also keep the other columns of those rows. `adds` means that it may add lines. With
    `gone_too`, run it even if the session no longer exists, without lines. Raises the errors of `work`, and InUse,
    Refused, FileFailed.
    """
    database, session = Path(remote.url).parent, Path(remote.url).name
    path = lines_of(Path(remote.url))
    if gone_too and is_missing(database):
        with _alone(database):
            return work(path)
    with Database(database, writes=writes) as opened, _alone(database):
        try:
            if gone_too and not opened.has(session):
                return work(path)
            before, changed_ns = opened.lines(session, adds=adds)
            with failing(path):
                fd = disk.create(path, exclusive=False)
                with disk.closing(fd):
                    disk.cut(fd, 0)
                    for line in before:
                        disk.write_all(fd, line)
                    disk.set_time(fd, changed_ns)
            stores = _committed(path) if writes else {}
            result = work(path)
            if writes:
                kept = None
                try:
                    with failing(path), os.fdopen(open_file(path), "rb") as after:
                        statements, rows = opened.changes(session, before, after)
                    kept = _keep(database, session, iter(rows), "rows") if keeps else None
                    opened.change(session, statements)
                except SessionCompressError:
                    _cut_back(path, stores)
                    if kept is not None:
                        disk.remove(kept)
                    raise
        except SessionCompressError as error:
            if error.where == os.path.realpath(path):
                error.where = remote.url
            raise
        finally:
            disk.remove(path)
        return result


def take_events(path: Path, sessions: Iterable[Found], policy: Policy, *, dry_run: bool) -> DatabaseStats:
    """Move the events of sessions out of a database, and return its free bytes. Raises SessionCompressError.

    With `dry_run`, only count them.
    """
    before, all_of = _size(path), EventTotal()
    with Database(path, writes=not dry_run) as opened, _alone(path):
        for name in (each.path.name for each in sessions):
            events = opened.events(name)
            if events.rows and not dry_run:
                lines = opened.event_rows(name)
                if policy.keep_backup:
                    file = _keep(path, name, lines)
                    lines = _read(file) if file else iter(())
                events = events._replace(rows=opened.take_events(name, lines))
            all_of = EventTotal(all_of.rows + events.rows, all_of.size + events.size)
    # Also if nothing moved: an agent that has the database open now may be closed at the next run.
    reason = "" if dry_run else _inside(shrink(path))
    return DatabaseStats(str(path), before, _size(path), *all_of, reason=reason)


def put_events(path: Path, sessions: Iterable[Found], *, dry_run: bool) -> DatabaseStats:
    """Put the events of sessions back into their database; `reason` names those left out. Raises SessionCompressError.

    If one session's events can't be read, continue with the others and raise at the end.
    """
    before, rows, size = _size(path), 0, 0
    wrong: list[SessionCompressError] = []
    left = list[str]()
    with Database(path, writes=not dry_run) as opened, _alone(path):
        files = _own_events(path)
        for name in (each.path.name for each in sessions):
            # If an event was kept twice, the newest one counts.
            for _, kept in sorted(files[name].items(), reverse=True):
                try:
                    sizes = _sizes(kept)
                    size += sum(sizes)
                    put = len(sizes) if dry_run else opened.put_events(name, _read(kept))
                    rows += put if sizes else 0
                    if not dry_run and opened.holds_events(name, _read(kept)):
                        disk.remove(kept)
                    elif not dry_run:
                        left.append(name)
                except Damaged as error:
                    error.where = error.where or str(kept)
                    wrong.append(error)
    if wrong:
        raise wrong[0]
    names = ", ".join(sorted(set(left))[:3])
    reason = f"some of {names} stay out: the agent has others in their places, or numbers anew" if left else ""
    return DatabaseStats(str(path), before, _size(path), rows, size, reason=reason or _elsewhere(path))


def _elsewhere(database: Path) -> str:
    """Return a note if events are kept in the folder of another user or machine, or of a lost key; otherwise ""."""
    folder = rows_of(database) / FOLDER
    others = (folder / name for name in locals_in(folder) if name != folder_name())
    found = [each for other in others if other.is_dir() for each in os.listdir(other) if _EVENTS.fullmatch(each)]
    return f"{len(found)} files with events were kept under another key, in {folder}" if found else ""


def check_events(path: Path, sessions: Iterable[Found]) -> DatabaseStats:
    """Read the kept events of sessions completely. Raises Damaged."""
    files = _own_events(path)
    sizes = [size for each in sessions for kept in files[each.path.name].values() for size in _sizes(kept)]
    return DatabaseStats(str(path), _size(path), _size(path), len(sizes), sum(sizes), reason=_elsewhere(path))


def measured(path: Path, sessions: Iterable[Found]) -> DatabaseStats:
    """Measure a database: how many bytes are events, and how many are free inside."""
    size = sum(each.remote.size for each in sessions if each.remote is not None)
    with Database(path, writes=False) as opened:
        _, free, _ = opened.pages()
        return DatabaseStats(str(path), _size(path), _size(path), event_bytes=opened.event_bytes(size), free_bytes=free)


def rewritten(path: Path) -> DatabaseStats:
    """Rewrite a database, so that nothing is left of deleted or replaced rows. Raises SessionCompressError."""
    before = _size(path)
    reason = "" if is_missing(path) else _inside(vacuum(path))
    if reason:
        again = "run again" if is_due(path) else f"then: {shlex.join(['sqlite3', str(path), 'VACUUM'])}"
        reason += f"; so what runs replaced may still be among them. Close it, and {again}"
    elif is_due(path):
        with failing(path):
            disk.remove(rows_of(path) / _DUE)
    return DatabaseStats(str(path), before, _size(path), reason=reason)


def _inside(reason: str) -> str:
    return reason and f"free bytes stay inside: {reason}"


def is_due(path: Path) -> bool:
    """Return True if originals were deleted and the database has not been rewritten since."""
    return os.path.lexists(rows_of(path) / _DUE)


def will_forget(remote: Remote) -> None:
    """Record that originals are about to be deleted: the database must then be rewritten, even after a kill."""
    due = rows_of(Path(remote.url).parent) / _DUE
    with failing(due):
        disk.put(due, b"")


def named_in(database: Path, named: Iterable[Path]) -> Mapping[str, set[str]]:
    """Read which sessions of a database name an original in a marker, by its first digits, or a file of _OUTPUTS.

    If it is missing, read the readable ones of where it may have been moved; see moved().
    """
    found = defaultdict[str, set[str]](set)
    is_gone = is_missing(database)
    for path in _databases_around([database.parent], named) if is_gone else [database]:
        with suppress(*(SessionCompressError,) if is_gone else ()), Database(path, writes=False) as opened:
            for name, text in opened.holding(marker.PREFIX):
                for each in marker.references(text):
                    found[each[:FEWEST_DIGITS]].add(name)
            for name, text in opened.holding(_OUTPUTS):
                for each in _OUTPUT.findall(text):
                    found[each].add(name)
    return found


def moved(rows: Collection[Path], named: Iterable[Path]) -> dict[Path, str]:
    """Find which sessions that their databases lack may be in others, and where.

    Those are next to their own, in the paths that the user `named`, or an agent's.
    """
    found = dict[Path, str]()
    for path in _databases_around((each.parent.parent for each in rows), named):
        try:
            with Database(path, writes=False) as opened:
                found |= {each: f"{path} has its id" for each in rows if each.parent != path and opened.has(each.name)}
        except SessionCompressError as error:
            # Other databases are less likely to have it.
            found |= {each: f"{path} may have it: {error.what}" for each in rows if each.parent.parent == path.parent}
    return found


def _databases_around(beside: Iterable[Path], named: Iterable[Path]) -> list[Path]:
    """List the databases in some folders, in and below what the user `named`, and the agents', whatever their names.

    Raises FileFailed.
    """

    def failed(error: OSError) -> None:
        # It may have one.
        raise error

    found = list[Path]()
    for path in dict.fromkeys(beside):
        with failing(path):
            found += sorted(path.iterdir())
    for path in named:
        found.append(path)
        with failing(path):
            for here, _, names in walked(path, failed) if path.is_dir() else ():
                found += sorted(map(Path(here).joinpath, names))
    return list(filter(is_sqlite, dict.fromkeys([*found, *table.databases()])))


def forget_outputs(remote: Remote, among: Mapping[str, set[str]], *, dry_run: bool) -> tuple[int, int]:
    """Delete the agent's files with all of an output that the session now has a preview of; return bytes and number.

    The session only names them. So each must be this user's, in the agent's folder next to the database, begin or end
    with a piece of the original, and be named by no other session in `among`.
    """
    row, found, lines = Path(remote.url), dict[str, str](), list[bytes]()
    folder = rows_of(row.parent).parent.parent / _OUTPUTS
    there = {each for each in _names_in(folder) if _OUTPUT.fullmatch(each) and among.get(each, set()) <= {row.name}}
    if there:
        # Only OpenCode and Kilo write such files.
        form = table.format_named("opencode")
        if not is_missing(row.parent):
            with Database(row.parent, writes=False) as opened:
                lines = opened.lines(row.name, adds=False)[0] if opened.has(row.name) else []
        now = {name: text for line in lines for name, text, _ in form.outputs(parse(line) or {})}
        stored = chain.from_iterable(readable_lines(each.originals, 0) for each in all_stores(lines_of(row)))
        was = chain.from_iterable(form.outputs(parse(line) or {}) for line in stored)
        found = {Path(file).name: text for name, text, file in was if now.get(name) != text}
    size = number = 0
    for path in (folder / each for each in sorted(there & found.keys()) if _is_all_of(folder / each, found[each])):
        size, number = size + path.stat().st_size, number + 1
        if not dry_run:
            with failing(path):
                disk.remove(path)
    return size, number


def _is_all_of(path: Path, text: str) -> bool:
    """Return True if a file of this user begins or ends with a piece of a text."""
    with suppress(OSError, SessionCompressError), os.fdopen(open_file(path), "rb") as file:
        status, content = os.fstat(file.fileno()), text.encode(errors="surrogatepass")
        ends = [file.read(_PIECE)]
        file.seek(max(0, status.st_size - _PIECE))
        ends += [file.read(_PIECE)]
        return status.st_uid == os.geteuid() and all(ends) and any(each in content for each in ends)
    return False


def forks_of(remote: Remote, among: Mapping[str, set[str]]) -> list[tuple[str, list[Stranger]]]:
    """Find the other sessions with markers for a session's originals that their own stores lack.

    These are its forks, or what was copied from it: no row tells of which session a fork is.
    """
    row, found = Path(remote.url), defaultdict[str, list[Stranger]](list)
    for _, digest in chain.from_iterable(journal.references for journal in _journals(row)):
        for name in among.get(digest[:FEWEST_DIGITS], set()) - {row.name}:
            found[name].append(Stranger(digest, (b"", Kind.RESULT, "")))
    for name in found:
        for journal in map(believed, _journals(row.parent / name)):
            found[name] = unnamed_in(journal, found[name])
    return list(found.items())


def _journals(row: Path) -> list[journals.Journal]:
    """Load the readable journals of a session in a database."""
    loaded = list[journals.Journal]()
    for store in all_stores(lines_of(row)):
        with suppress(SessionCompressError):
            loaded.append(journals.load(store.journal))
    return loaded


def forget_events(remote: Remote, *, unneeded: bool, dry_run: bool) -> tuple[int, int]:
    """Delete a session's kept events; return their bytes on disk, and their number.

    With `unneeded`, delete only files whose events are all in the database.
    """
    row = Path(remote.url)
    size = number = 0
    folders = _event_folders(row.parent)
    for kept in (each for folder in folders for each in _event_files(folder)[row.name].values()):
        if unneeded:
            with Database(row.parent, writes=False) as opened:
                if not opened.holds_events(row.name, _read(kept)):
                    continue
        size += kept.stat().st_size
        with suppress(Damaged):
            number += sum(1 for _ in _read(kept))
        if not dry_run:
            with failing(kept):
                disk.remove(kept)
    return size, number


@contextmanager
def _alone(database: Path) -> Iterator[None]:
    """Create the folder of a database's stores, and lock it."""
    folder = rows_of(database)
    with failing(folder):
        # The names of stores are made with the key.
        make_key()
        make_ours(folder.parent)
        for each in (folder, folder / FOLDER):
            refuse_linked_folder(each)
        disk.make_folder(folder)
        with disk.locked(folder):
            for left in folder.glob("*.jsonl"):
                # A run was killed while it worked on it.
                if is_session_id(left.stem) and (left.is_symlink() or not left.is_dir()):
                    disk.remove(left)
            yield


def _events_in(database: Path) -> Path:
    """Return the folder of the events that runs moved, which no branch and no archive can contain."""
    return rows_of(database) / FOLDER / folder_name()


def _own_events(database: Path) -> defaultdict[str, dict[int, Path]]:
    return _event_files(_events_in(database)) if folder_name() else defaultdict(dict)


def _event_folders(database: Path) -> list[Path]:
    """List the folders of all events, also kept under a lost key: they may hold a secret to delete."""
    folder = rows_of(database) / FOLDER
    return [folder / name for name in locals_in(folder)]


def _event_files(folder: Path) -> defaultdict[str, dict[int, Path]]:
    """List the files with events in a folder, by session and number: the higher the number, the newer the file."""
    files = defaultdict[str, dict[int, Path]](dict)
    for found in filter(None, map(_EVENTS.fullmatch, _names_in(folder))):
        files[found[1]][int(found[2])] = folder / found[0]
    return files


def _names_in(folder: Path) -> list[str]:
    """List a folder, but nothing through a link."""
    with failing(folder):
        return os.listdir(folder) if folder.is_dir() and not folder.is_symlink() else []


def _keep(database: Path, session: str, lines: Iterator[bytes], what: str = "events") -> Path | None:
    """Write lines to a new file, and flush it. Return its path, or None if there are no lines."""
    if (first := next(lines, None)) is None:
        return None
    lines = chain([first], lines)
    packed = BytesIO()
    with zstd.ZstdFile(packed, "wb", options=_OPTIONS) as file:
        for line in lines:
            file.write(line)
    number = max(_own_events(database)[session], default=0) + 1
    path = _events_in(database) / f"{session}.{what}-{number}.zst"
    with failing(path):
        make_ours(path.parent)
        disk.put_new(path, packed.getvalue())
    return path


def _committed(lines: Path) -> dict[Store, Lengths | None]:
    """Return the committed lengths of each store of a session; None if they can't be read."""
    found = dict[Store, Lengths | None]()
    for store in all_stores(lines):
        found[store] = None
        with suppress(SessionCompressError):
            if os.path.lexists(store.journal):
                found[store] = journals.load(store.journal).lengths
    return found


def _cut_back(lines: Path, before: Mapping[Store, Lengths | None]) -> None:
    """Cut stores back to their lengths before a run whose rows could not be written. A store that it moved stays there.

    Cut the journal before the originals, so that it never names missing ones.
    """
    moved = [known for store, known in before.items() if known and not os.path.lexists(store.journal)]
    for store, now in _committed(lines).items():
        was = before.get(store, moved[0] if moved else Lengths())
        if was is None or was == now:
            continue
        for path, size in ((store.journal, was.journal), (store.originals, was.originals)):
            with failing(path):
                cut_back(path, size)


def _read(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file. Raises Damaged."""
    try:
        with failing(path), os.fdopen(open_file(path), "rb") as raw, zstd.ZstdFile(raw) as file:
            yield from file
    except (zstd.ZstdError, EOFError) as error:
        what, remedy = "the events in it cannot be read", "Put it back from a backup."
        raise Damaged(what, where=path, state="The database was not changed.", remedy=remedy) from error


def _sizes(kept: Path) -> list[int]:
    """Return the sizes of the events in a file. Read a file of rows too, but return none for it. Raises Damaged."""
    sizes = [len(line) for line in _read(kept)]
    return [] if ".rows-" in kept.name else sizes


def _size(database: Path) -> int:
    """Return the bytes of a database on disk, including its write-ahead log."""
    log = database.with_name(f"{database.name}-wal")
    return sum(each.stat().st_size for each in (database, log) if each.exists())
