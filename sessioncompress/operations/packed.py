"""Find packed sessions, read them in their packs, and unpack them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from sessioncompress.core.text import OBJECT_STORES, quote
from sessioncompress.errors import NOTHING_DONE, FileFailed, Refused, SessionCompressError, UsageError, failing
from sessioncompress.formats import table
from sessioncompress.operations.batch import Outcome, outcome_of
from sessioncompress.operations.sessions import ListedSession, Selection, Session, printed, project_of, sessions
from sessioncompress.pipeline import reading, rollouts
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, Remote, folders, is_folder
from sessioncompress.store import moves, objects, packing
from sessioncompress.store.layout import ARCHIVE, FOLDER, PACKS, is_archive
from sessioncompress.store.lock import open_session
from sessioncompress.store.pack import INDEX, Entry, PackReader, State
from sessioncompress.store.packing import Pack, Packed, by_tar, in_order
from sessioncompress.store.places import IN_PACK, Bucket, Disk, Place, another, private_folder

if TYPE_CHECKING:
    from sessioncompress.operations.cloud import RemoteSessions

T = TypeVar("T")

AT_PLACE = "unchanged"
"""The status of a session that isn't packed, or was unpacked already."""
_FEWEST = 4
"""Minimum characters of an id or a title to match a session."""
_LIKE_ID = re.compile(r"(?=.*\d)[\da-fA-F]+(-[\da-fA-F]*)*")
"""Looks like the start of an id. It is unlikely to be a word, so it isn't matched against titles."""


class Ambiguous(UsageError):
    """A name matches several packed sessions."""

    def __init__(self, named: str, found: Sequence[Packed]) -> None:
        what = f"{named!r} matches {len(found):,} packed sessions"
        super().__init__(what, state=NOTHING_DONE, remedy="Name one by its id or path:")
        self.found = found


def found_at(at: Place, path: Path, *, named: bool = True) -> Found:
    """Build the Found of a path in a place."""
    return Found(path, named=named, remote=None if isinstance(at, Disk) else Remote(at.shown(path), 0, 0))


def _found(each: Packed, *, named: bool = True) -> Found:
    return found_at(each.pack.at, each.place, named=named)


def failures(among: Iterable[object]) -> Iterator[Outcome[Any]]:
    """Yield the errors in this mixed list of packs or packed sessions."""
    for each in among:
        if isinstance(each, SessionCompressError):
            where = str(each.where or "")
            remote = Remote(where, 0, 0) if where.startswith(OBJECT_STORES) else None
            yield Outcome(Found(Path(where), named=True, remote=remote), error=each)


class UnpackStats(Struct, frozen=True, rename="camel"):
    """One session that was unpacked, would be, or is already in place.

    `made_elsewhere` is set if others may have made its pack.
    """

    path: str
    agent: str
    title: str
    size: int
    status: str
    made_elsewhere: bool = False


def _packed_of(
    places: Iterable[Place], named: Path, globs: Globs = EVERYTHING
) -> Iterator[Packed | SessionCompressError]:
    """Yield the sessions packed in these places whose path is `named` or below it, or that are in the archive `named`.

    Patterns apply to paths below `named`, or for an archive to paths below the packed folder. A damaged pack is yielded
    as its error.
    """
    for pack in chain.from_iterable(map(packing.packs_in, places)):
        if isinstance(pack, Pack):
            for each in pack.packed():
                is_below = named in each.place.parents
                below = str(each.place.relative_to(named)) if is_below else each.entry.path
                if (is_below or named in (each.place, pack.archive)) and globs.takes(below):
                    yield each
        else:
            yield pack


def packed_in(paths: Iterable[Path], globs: Globs = EVERYTHING) -> Iterator[Packed | SessionCompressError]:
    """Yield the sessions that are packed in or below folders, in an archive, or from these paths.

    An unreadable index is yielded as its error.
    """
    for path in paths:
        try:
            where = Path(os.path.realpath(path)) if is_folder(path) else Path(os.path.realpath(path.parent)) / path.name
        except FileNotFoundError:
            # The working folder was deleted, but the argument may still be an id or a title.
            continue
        below = [here for here, _ in folders(where)] if is_folder(where) else []
        for each in _packed_of(map(Disk, (*reversed(where.parents), *below)), where, globs):
            # The user didn't ask about errors in a parent folder, but an archive's own index matters.
            of = None if isinstance(each, Packed) else Path(each.where or "")
            index = f"{where.name.removesuffix(ARCHIVE)}{INDEX}"
            if of is None or of.is_relative_to(where) or (is_archive(where) and of == where.with_name(index)):
                yield each


def packed_at(path: Path) -> Packed | None:
    """Return a session packed from this path or below it, preferably one that this user packed."""
    # Such a name is impossible for a file.
    with suppress(ValueError):
        found = (each for each in packed_in([path]) if isinstance(each, Packed) and each.is_waiting)
        return max(found, key=lambda each: each.pack.is_certain, default=None)
    return None


def way_back(path: Path, *, own: bool = False) -> str:
    """Return where a path's session is packed, and how to unpack it; or empty.

    With `own`, only this user's packs count.
    """
    packed = packed_at(path)
    if packed is None or (own and not packed.pack.is_certain):
        return ""
    where = f"{packed.pack.archive}{'' if packed.pack.is_certain else ', which others may have made'}"
    return f"It is packed, in {where}: 'sessioncompress unpack {quote(str(path))}' brings it back."


def packed_anywhere(globs: Globs = EVERYTHING) -> Iterator[Packed | SessionCompressError]:
    """Yield the sessions packed in the agents' folders, in the working folder and in its parents."""
    above: list[Path] = []
    # The working folder may have been deleted.
    with suppress(FileNotFoundError):
        above = [Path.cwd(), *Path.cwd().parents]
    roots = [*table.agent_roots(), *(each for here in above for each in table.below(here))]
    yield from packed_in(filter(is_folder, roots), globs)
    for number, root in enumerate(above):
        # The user didn't ask about damaged packs above the working folder.
        found = _packed_of([Disk(root)], root, globs)
        yield from (each for each in found if isinstance(each, Packed) or not number)


def meant_by(named: Iterable[str]) -> list[Packed | UnpackStats | SessionCompressError]:
    """Find the packed sessions that ids, titles or paths name, and sessions that are already in place.

    A path means the session from there, all from below it, or all in that archive. For an id or a title, four
    characters are enough if they match one session; text that may start an id isn't matched against titles. Raises
    UsageError if a name matches nothing, Ambiguous if it matches several, and Damaged if only an unreadable index could
    tell. If other packs can tell, its error is among the results.
    """
    found: list[Packed | SessionCompressError] = []
    there: list[UnpackStats] = []
    anywhere: list[Packed] | None = None
    for each in named:
        here = list(packed_in([Path(each)]))
        if here and not any(isinstance(one, Packed) for one in here):
            raise next(one for one in here if isinstance(one, SessionCompressError))
        if not here:
            anywhere = each_once(packed_anywhere()) if anywhere is None else anywhere
            here = [*called(each, anywhere)]
        if not here:
            if not (at_place := list(_at_place(each))):
                what = f"no packed session matches {each!r}"
                remedy = (
                    "An id or a title is looked up in the packs of the agents' folders, of the working folder and of "
                    "those above it. For others give the path of the session, of its folder or of the archive."
                )
                if len(each) < _FEWEST:
                    remedy = f"Type at least {_FEWEST} characters of an id or a title. {remedy}"
                elif _LIKE_ID.fullmatch(each):
                    remedy = f"It looks like the beginning of an id, so titles are not searched. {remedy}"
                raise UsageError(what, state=NOTHING_DONE, remedy=remedy)
            there += at_place
        found += here
    return [*there, *found]


def each_once(among: Iterable[object]) -> list[Packed]:
    """Remove duplicates from packed sessions. For each path, prefer this user's packs over others'.

    Two with the same path may be different sessions, as on two branches, so both are kept.
    """
    by_place: dict[Path, dict[tuple[str, ...], Packed]] = {}
    for each in among:
        if isinstance(each, Packed):
            content = tuple(member.sha256 for member in each.entry.members)
            by_place.setdefault(each.place, {}).setdefault(content, each)
    found: list[Packed] = []
    for there in by_place.values():
        # Only if needed, because this asks git.
        own = [each for each in there.values() if each.pack.is_certain] if len(there) > 1 else []
        found += own or there.values()
    return found


def called(named: str, among: Sequence[Packed] | None = None) -> list[Packed]:
    """Find the packed session matching an id or part of a title, anywhere or `among` some. Raises Ambiguous."""
    among = each_once(packed_anywhere()) if among is None else among
    folded = named.casefold()
    is_title = len(named) >= _FEWEST and not _LIKE_ID.fullmatch(named)
    ways: tuple[Callable[[Entry], bool], ...] = (
        lambda entry: entry.id == named,
        lambda entry: len(named) >= _FEWEST and entry.id.startswith(named),
        lambda entry: is_title and folded in entry.title.casefold(),
    )
    for way in ways:
        found = [each for each in among if way(each.entry)]
        if len(found) == 1:
            return found
        if found:
            raise Ambiguous(named, found)
    return []


def _at_place(named: str) -> Iterator[UnpackStats]:
    """Yield the unpacked sessions that a path or an id names, as results without work."""
    path = Path(named)
    with suppress(OSError, ValueError):
        if path.is_file():
            yield UnpackStats(named, "", "", path.stat().st_size, AT_PLACE)
            return
    for each in called_here(named):
        yield UnpackStats(each.shown, each.agent, each.title, each.size, AT_PLACE)


def called_here(named: str) -> Iterator[Session]:
    """Find unpacked sessions by the start of their id, or part of their title."""
    for each in sessions(Selection()) if len(named) >= _FEWEST and os.sep not in named else ():
        if isinstance(each, Session) and (each.id.startswith(named) or named.casefold() in each.title.casefold()):
            yield each


def unpack_sessions(
    chosen: Iterable[Packed | UnpackStats | SessionCompressError], *, dry_run: bool = False
) -> Iterator[Outcome[UnpackStats]]:
    """Unpack sessions byte for byte. A pack with no packed sessions left is deleted."""
    chosen = list(chosen)
    packed = each_once(chosen)
    # If two have the same path, only one can be unpacked; the other is refused because its path is taken.
    newest = {each.place: each for each in sorted(packed, key=lambda each: each.entry.age)}
    by_root: dict[tuple[bool, Path], list[Packed]] = {}
    for each in packed:
        by_root.setdefault((newest[each.place] is not each, each.pack.root), []).append(each)
    yield from (Outcome(Found(Path(each.path), named=True), each) for each in chosen if isinstance(each, UnpackStats))
    yield from failures(chosen)
    for (is_taken, root), group in sorted(by_root.items(), key=lambda item: item[0]):
        if dry_run and is_taken:
            yield from (Outcome(_found(each), error=another(each.shown)) for each in group)
            continue
        if dry_run:
            yield from (outcome_of(_found(each), lambda: _bring(each, None)) for each in group)  # noqa: B023 - called at once
            continue
        wanted = {each.entry.content for each in group}
        at = group[0].pack.at
        try:
            with moves.alone(at) as packs:
                # Another run may have changed the packs since, so look each session up again.
                for pack in packs:
                    if isinstance(pack, Pack):
                        yield from _brought_back(pack, [each for each in pack.packed() if each.entry.content in wanted])
        except SessionCompressError as error:
            yield Outcome(found_at(at, root), error=error)


def _brought_back(pack: Pack, wanted: Sequence[Packed]) -> Iterator[Outcome[UnpackStats]]:
    if not wanted:
        return
    done: dict[str, State] = {}
    with pack.reader() as reader:
        for each in in_order(wanted):
            outcome = outcome_of(_found(each), lambda: _bring(each, reader))  # noqa: B023 - called at once
            if outcome.error is None:
                done[each.entry.path] = State.UNPACKED
            yield outcome
    with failing(pack.shown, "The sessions are back, and in the pack too."):
        pack.at.flush(pack.root / path for path in done)
        pack.mark(done)


def refuse_strange(root: Path, path: str, where: str, state: str, remedy: str, *, is_certain: bool = True) -> None:
    """Raise Refused for a path where no agent keeps sessions: a pack may be malicious and contain settings files.

    Hidden folders are allowed only below an agent's own folder. So is JSON unless `is_certain`, meaning that this user
    packed it, because tools read settings and commands from such files, for example `package.json`.
    """
    place = root / path
    if not path.endswith((".jsonl", ".json", rollouts.ENDING)):
        raise Refused("no agent names its sessions like that", where=where, state=state, remedy=remedy)
    what = "" if is_certain or not path.endswith(".json") else "others may have packed it, and it may be settings"
    if any(step.startswith(".") for step in path.split("/")):
        what = "no agent keeps sessions in hidden files or folders there"
    if what:
        homes = (*table.agent_roots(), *chain.from_iterable(map(table.below, place.parents)))
        if not any(place.is_relative_to(os.path.realpath(each)) for each in homes):
            raise Refused(what, where=where, state=state, remedy=remedy)


def _bring(each: Packed, reader: PackReader | None) -> UnpackStats:
    """Unpack a session. Without a reader, only refuse what could be refused before reading the archive."""
    pack, entry = each
    # Files that the user already unpacked with tar are recognized by their bytes.
    if missing := moves.missing_of(each):
        remedy = f"If you know who packed it, run '{by_tar(pack.archive, pack.root)}'."
        if not isinstance(pack.at, Disk):
            remedy = "If you know who packed it, unpack a local copy of the pack with 'tar --zstd'."
        refuse_strange(pack.root, entry.path, each.shown, IN_PACK, remedy, is_certain=pack.is_certain)
    if reader is not None:
        moves.bring_back(each, missing, reader, _refuse_unless_session)
        if isinstance(pack.at, Disk):
            reading.mended(each.place)
    status = "would-unpack" if reader is None else "unpacked"
    return UnpackStats(each.shown, entry.agent, entry.title, entry.size, status, not pack.is_certain)


def _refuse_unless_session(path: Path) -> None:
    with open_session(path, writing=False) as session:
        if rollouts.is_zipped(session):
            rollouts.read(session)
        else:
            reading.refuse_unless_session(session)


def each_packed(
    among: Iterable[Packed | SessionCompressError], work: Callable[[Packed, Path], T]
) -> Iterator[Outcome[T]]:
    """Do work on packed sessions, each with a temporary copy of the session and its store."""
    by_pack: dict[Path, list[Packed]] = {}
    for each in among:
        if isinstance(each, SessionCompressError):
            yield from failures([each])
        else:
            by_pack.setdefault(each.pack.archive, []).append(each)
    for archive, group in by_pack.items():
        pack = group[0].pack
        try:
            with pack.reader() as reader:
                for each in in_order(group):
                    # No command reads sessions that Codex itself packed.
                    found = _found(each, named=not each.entry.path.endswith(rollouts.ENDING))
                    yield outcome_of(found, lambda: _on_copy(each, reader, work))  # noqa: B023 - called at once
        except SessionCompressError as error:
            yield Outcome(found_at(pack.at, archive), error=error)


def _on_copy(each: Packed, reader: PackReader, work: Callable[[Packed, Path], T]) -> T:
    with private_folder() as folder:
        try:
            with failing(folder, ""):
                return work(each, moves.copy_out(each.entry, reader, folder))
        except SessionCompressError as error:
            if str(error.where).startswith(str(folder)):
                # The copy is deleted by then. For its place, the disk may be full.
                copy = f"the temporary copy of {each.shown} in {folder.parent}"
                error.where = copy if isinstance(error, FileFailed) else each.shown
            raise


def selected(
    paths: Sequence[Path],
    selection: Selection,
    taken: Callable[[Packed], object] = lambda _: None,
    places: RemoteSessions | None = None,
) -> Iterator[Packed | SessionCompressError]:
    """Yield the selected packed sessions of paths or URLs, or else of all places.

    Sessions whose original path is now taken are passed to `taken` instead.
    """
    project, globs = project_of(selection), selection.globs
    if places:
        found = packed_below(places, globs, is_read=True)
    else:
        found = list(packed_in(paths, globs) if paths else packed_anywhere(globs))
    yield from (each for each in found if isinstance(each, SessionCompressError))
    before = None if selection.older_than is None else time.time_ns() - selection.older_than * 10**9
    for each in each_once(found):
        entry = each.entry
        is_meant = selection.agent in (None, entry.agent) and (before is None or entry.members[0].mtime_ns <= before)
        if is_meant and (project is None or project.has(entry.project)):
            if each.is_waiting:
                yield each
            else:
                taken(each)


def packed_below(
    places: RemoteSessions, globs: Globs = EVERYTHING, *, is_read: bool = False
) -> list[Packed | SessionCompressError]:
    """List the packed sessions that URLs name, and the errors of packs.

    If the sessions will only be read (`is_read`), the listing is enough to tell which paths are taken.
    """
    found: list[Packed | SessionCompressError] = []
    for url in places.urls:
        buckets = _buckets(places, url, is_read=is_read)
        found += _packed_of(buckets, Path(objects.without_slash(url)), globs)
    return found


def _buckets(places: RemoteSessions, url: str, *, is_read: bool) -> Iterator[Bucket]:
    """Yield the places with packs below a URL, and those above it."""
    listing = places.listing(url)
    sizes: dict[str, int] | None = None
    listed = ""
    if listing is not None:
        if is_read:
            here = (*listing.present.items(), *listing.packs.items())
            sizes = {listing.root + key: each.size for key, each in here}
            listed = listing.root + listing.begins
        full = (key for key, each in listing.packs.items() if key.endswith((INDEX, ARCHIVE)) and each.size)
        for folder in dict.fromkeys(f"/{key}".rpartition("/")[0] for key in full):
            root = folder.removesuffix(f"/{FOLDER}/{PACKS}")
            yield Bucket(f"{listing.root.rstrip('/')}{root}", sizes, listed)
    bucket, above = objects.root_of(url).rstrip("/"), objects.without_slash(url)
    while above != bucket:
        above = above.rpartition("/")[0]
        yield Bucket(above, sizes, listed)


def listed_packed(selection: Selection) -> Iterator[Outcome[ListedSession]]:
    """Yield the selected packed sessions as rows of the list."""
    for each in selected((), selection):
        if isinstance(each, SessionCompressError):
            yield from failures([each])
            continue
        session, *store = each.entry.members
        listed = ListedSession(
            path=str(each.place),
            agent=each.entry.agent,
            project=each.entry.project,
            id=each.entry.id,
            size=session.size,
            modified=session.mtime_ns / 1e9,
            compressed=bool(store),
            could_save=0,
            reason=f"packed in {each.pack.archive}",
            packed=True,
            packed_size=each.packed_size,
            title=each.entry.title,
            made_elsewhere=not each.pack.is_certain,
        )
        yield Outcome(_found(each, named=False), listed)


def projects_instead(selection: Selection) -> list[str]:
    """List the projects of an agent's sessions, most recently used first."""
    last: dict[str, float] = {}
    for each in sessions(Selection(selection.agent)):
        if isinstance(each, Session):
            last[printed(each.project)] = max(each.modified, last.get(printed(each.project), 0))
    return sorted(last, key=lambda each: -last[each])
