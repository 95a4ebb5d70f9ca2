"""Find what is packed, read it where it is, and bring it back to its place."""

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
from sessioncompress.errors import FileFailed, Refused, SessionCompressError, UsageError, failing
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
    from sessioncompress.operations.cloud import Places

T = TypeVar("T")

AT_PLACE = "unchanged"
"""The status of a session that is not packed, or not any more."""
_FEWEST = 4
"""Characters of an id or a title that name a session."""
_LIKE_ID = re.compile(r"(?=.*\d)[\da-fA-F]+(-[\da-fA-F]*)*")
"""The beginning of an id: hardly a word, and who types it means none."""


class Ambiguous(UsageError):
    """A name means several packed sessions."""

    def __init__(self, named: str, found: Sequence[Packed]) -> None:
        what = f"{named!r} matches {len(found):,} packed sessions"
        super().__init__(what, state="Nothing was done.", remedy="Name one by its id or path:")
        self.found = found


def found_at(at: Place, path: Path, *, named: bool = True) -> Found:
    """Make what stands for a path of a place."""
    return Found(path, named=named, remote=None if isinstance(at, Disk) else Remote(at.shown(path), 0, 0))


def _found(each: Packed, *, named: bool = True) -> Found:
    return found_at(each.pack.at, each.place, named=named)


def failures(among: Iterable[object]) -> Iterator[Outcome[Any]]:
    """Yield what is wrong with packs, among these or what is packed in them."""
    for each in among:
        if isinstance(each, SessionCompressError):
            where = str(each.where or "")
            remote = Remote(where, 0, 0) if where.startswith(OBJECT_STORES) else None
            yield Outcome(Found(Path(where), named=True, remote=remote), error=each)


class UnpackStats(Struct, frozen=True, rename="camel"):
    """One session that came back, or would, or is at its place already.

    `made_elsewhere`: others may have made its pack.
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
    """Yield what is packed there and was at a path or below it, or is in the archive at that path.

    Patterns are of paths below that path, and of an archive below the packed folder. What is wrong with a pack is
    yielded as its error.
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
    """Yield the sessions that are packed in and below folders, or in an archive, or were at these paths.

    An index that cannot be read is yielded as its error.
    """
    for path in paths:
        try:
            where = Path(os.path.realpath(path)) if is_folder(path) else Path(os.path.realpath(path.parent)) / path.name
        except FileNotFoundError:
            # The working folder was deleted; what was typed may still be an id or a title.
            continue
        below = [here for here, _ in folders(where)] if is_folder(where) else []
        for each in _packed_of(map(Disk, (*reversed(where.parents), *below)), where, globs):
            # What is wrong in a folder above is not what was asked for; of an archive its index is.
            of = None if isinstance(each, Packed) else Path(each.where or "")
            index = f"{where.name.removesuffix(ARCHIVE)}{INDEX}"
            if of is None or of.is_relative_to(where) or (is_archive(where) and of == where.with_name(index)):
                yield each


def packed_at(path: Path) -> Packed | None:
    """Find a packed session that was at a path, or below it: one that this user packed, if there is one."""
    # A name that no file can have is none of a session's.
    with suppress(ValueError):
        found = (each for each in packed_in([path]) if isinstance(each, Packed) and each.is_waiting)
        return max(found, key=lambda each: each.pack.is_certain, default=None)
    return None


def way_back(path: Path, *, own: bool = False) -> str:
    """Say where what was at a path is packed, in this user's `own` packs or in any, and what brings it back."""
    packed = packed_at(path)
    if packed is None or (own and not packed.pack.is_certain):
        return ""
    where = f"{packed.pack.archive}{'' if packed.pack.is_certain else ', which others may have made'}"
    return f"It is packed, in {where}: 'sessioncompress unpack {quote(str(path))}' brings it back."


def packed_anywhere(globs: Globs = EVERYTHING) -> Iterator[Packed | SessionCompressError]:
    """Yield the sessions that are packed in the agents' folders, and from the working folder upward."""
    above: list[Path] = []
    # The working folder may have been deleted.
    with suppress(FileNotFoundError):
        above = [Path.cwd(), *Path.cwd().parents]
    roots = [*table.agent_roots(), *(each for here in above for each in table.below(here))]
    yield from packed_in(filter(is_folder, roots), globs)
    for number, root in enumerate(above):
        # What is wrong with a pack above the working folder is not what was asked for.
        found = _packed_of([Disk(root)], root, globs)
        yield from (each for each in found if isinstance(each, Packed) or not number)


def meant_by(named: Iterable[str]) -> list[Packed | UnpackStats | SessionCompressError]:
    """Find the packed sessions that are meant by ids, titles or paths, and what is at its place already.

    A path means the session that was there, all that were below it, or all in an archive. Of an id or a title four
    characters are enough, where they mean one session; what may begin an id means no title. Raises UsageError where
    one means none, Ambiguous where it means many, and Damaged where only an index that cannot be read may tell. Where
    others tell, what is wrong with it comes with them.
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
                raise UsageError(what, state="Nothing was done.", remedy=remedy)
            there += at_place
        found += here
    return [*there, *found]


def each_once(among: Iterable[object]) -> list[Packed]:
    """List packed sessions, equal ones once, and of one place none that others may have packed beside one's own.

    Two of one place can be two sessions, as of two branches: none of them stands for the other.
    """
    by_place: dict[Path, dict[tuple[str, ...], Packed]] = {}
    for each in among:
        if isinstance(each, Packed):
            content = tuple(member.sha256 for member in each.entry.members)
            by_place.setdefault(each.place, {}).setdefault(content, each)
    found: list[Packed] = []
    for there in by_place.values():
        # Git is asked whose they are.
        own = [each for each in there.values() if each.pack.is_certain] if len(there) > 1 else []
        found += own or there.values()
    return found


def called(named: str, among: Sequence[Packed] | None = None) -> list[Packed]:
    """Find the packed session that an id or a part of a title means, anywhere or `among` some. Raises Ambiguous."""
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
    """Yield the sessions at their places that a path or an id means, as if they had just come back."""
    path = Path(named)
    with suppress(OSError, ValueError):
        if path.is_file():
            yield UnpackStats(named, "", "", path.stat().st_size, AT_PLACE)
            return
    for each in called_here(named):
        yield UnpackStats(each.shown, each.agent, each.title, each.size, AT_PLACE)


def called_here(named: str) -> Iterator[Session]:
    """Find the sessions at their places by the beginning of their ids, or a part of their titles."""
    for each in sessions(Selection()) if len(named) >= _FEWEST and os.sep not in named else ():
        if isinstance(each, Session) and (each.id.startswith(named) or named.casefold() in each.title.casefold()):
            yield each


def unpack_sessions(
    chosen: Iterable[Packed | UnpackStats | SessionCompressError], *, dry_run: bool = False
) -> Iterator[Outcome[UnpackStats]]:
    """Bring packed sessions back to their places, byte for byte; a pack that holds no more is deleted."""
    chosen = list(chosen)
    packed = each_once(chosen)
    # Of two of one place only one can come back; then the other is refused, as its place is taken.
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
                # Another run may have been at work since they were read: each is in the pack that has it now.
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
    """Raise Refused for a place where no agent keeps sessions: a pack may be a stranger's, and settings look like one.

    Hidden folders are below an agent's own folder alone, and so is JSON unless it `is_certain` that this user packed
    it: tools read their settings and what they are to run from such files, as from `package.json`.
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
    """Bring a session back; without a reader only refuse what that would refuse before it reads the archive."""
    pack, entry = each
    # What somebody brought back with tar is known by its bytes.
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
        if rollouts.is_packed(session):
            rollouts.read(session)
        else:
            reading.refuse_unless_session(session)


def each_packed(
    among: Iterable[Packed | SessionCompressError], work: Callable[[Packed, Path], T]
) -> Iterator[Outcome[T]]:
    """Do some work on packed sessions: on each, and a copy with its store that goes again."""
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
                    # What Codex itself has packed no command reads.
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
                # The copy is gone when this is read; where it was, there may be no room.
                copy = f"the temporary copy of {each.shown} in {folder.parent}"
                error.where = copy if isinstance(error, FileFailed) else each.shown
            raise


def selected(
    paths: Sequence[Path],
    selection: Selection,
    taken: Callable[[Packed], object] = lambda _: None,
    places: Places | None = None,
) -> Iterator[Packed | SessionCompressError]:
    """Yield the packed sessions of paths or URLs, or else of anywhere, that a selection takes.

    `taken` is told of those in whose places there are files.
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
    places: Places, globs: Globs = EVERYTHING, *, is_read: bool = False
) -> list[Packed | SessionCompressError]:
    """List the packed sessions that URLs mean, and what is wrong with a pack.

    Where they are only read, the listing tells what is at their places.
    """
    found: list[Packed | SessionCompressError] = []
    for url in places.urls:
        buckets = _buckets(places, url, is_read=is_read)
        found += _packed_of(buckets, Path(objects.without_slash(url)), globs)
    return found


def _buckets(places: Places, url: str, *, is_read: bool) -> Iterator[Bucket]:
    """Find what was packed below a URL, and what is above it."""
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
    """Yield the packed sessions that are selected, for the list."""
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
            packed_size=round(each.share),
            title=each.entry.title,
            made_elsewhere=not each.pack.is_certain,
        )
        yield Outcome(_found(each, named=False), listed)


def projects_instead(selection: Selection) -> list[str]:
    """List the projects in which an agent's sessions are, those last worked in first."""
    last: dict[str, float] = {}
    for each in sessions(Selection(selection.agent)):
        if isinstance(each, Session):
            last[printed(each.project)] = max(each.modified, last.get(printed(each.project), 0))
    return sorted(last, key=lambda each: -last[each])
