"""Sessions in object stores: list them, work on a temporary copy, and upload it unless the objects have changed.

Uploads follow the order of writes on a disk: originals, journal, session. A crash leaves the old session or the new
one, with the originals of both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from sessioncompress.core.text import MB, counted, quote
from sessioncompress.errors import (
    NOTHING_DONE,
    OLD_OR_NEW,
    FileFailed,
    InUse,
    Refused,
    UsageError,
    failed,
)
from sessioncompress.formats.table import FIRST_BYTES, may_be_session
from sessioncompress.operations.batch import Sized
from sessioncompress.pipeline.discover import Found, Globs, Remote
from sessioncompress.pipeline.stats import CompressionStats, Status
from sessioncompress.pipeline.triage import too_small
from sessioncompress.policy.model import Policy
from sessioncompress.policy.sources import Policies
from sessioncompress.store import disk, objects
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import FOLDER, JOURNAL, NEVER, PACKS, Store, originals_of, owners, plain_in
from sessioncompress.store.objects import Object
from sessioncompress.store.places import LARGEST, private_folder, refuse_unless_file

T = TypeVar("T")

_COMMIT_SECONDS = 1200
LEASE_SECONDS = 3600
"""Seconds to keep originals that no journal lists: their run may be about to upload its journal.

That run starts no upload after _COMMIT_SECONDS; an upload with its retries ends minutes later; and S3 rejects clocks
that are off by more than 15 minutes.
"""


def policy_for(remote: Remote, policies: Policies) -> Policy:
    """Return the policy of a session in an object store. Raises UsageError for settings that need local paths."""
    policy = policies.apart
    asked = {
        "--backup-dir (backupDir)": policy.backup_dir,
        "--originals-in (commitOriginals)": policy.commit_originals,
        "--log (logFile)": policy.log_file,
    }
    if given := [name for name, value in asked.items() if value]:
        what = f"{given[0]} can't be used with sessions in object stores"
        raise UsageError(what, where=remote.url, state=NOTHING_DONE, remedy="Leave it out, or work on a local copy.")
    # Use the name of a committed store, because every machine must find it.
    return replace(policy, commit_originals=True)


def skip(found: Found, policy: Policy, *, force: bool) -> CompressionStats | None:
    """Return the statistics of an unnamed session that is too small. Most are, and need not be fetched."""
    if found.remote is None or found.named or policy.every_turns is not None:
        return None
    size = found.remote.size
    if not (reason := too_small(size, policy, force=force)):
        return None
    return CompressionStats(found.shown, status=Status.SKIPPED, reason=reason, original_size=size, compressed_size=size)


class Copy(NamedTuple):
    """A temporary copy of a session and its store. Objects that don't exist have `found` None."""

    session: Object
    originals: Object
    journal: Object

    @property
    def store(self) -> list[Object]:
        """The existing parts of its store."""
        return [each for each in (self.originals, self.journal) if each.size]


def copied(remote: Remote, folder: Path, *, writes: bool, is_gone: bool = False) -> Copy:
    """Fetch a session and its store, or only the store of a missing session. Raises SessionCompressError."""
    where, _, name = remote.url.rpartition("/")
    refuse_unless_file(remote.url, name)
    if writes and remote.size > LARGEST:
        what = f"it has more than {LARGEST // MB:,} MB, the most we change in an object store"
        raise Refused(what, where=remote.url, remedy="Compress a local copy of it.")
    store = plain_in(folder / name)
    session = Object(remote.url, folder / name) if is_gone else objects.fetched(remote.url, folder / name)
    if session.found is None and not is_gone:
        remedy = (
            "Run again. If that does not help, its key begins or ends with a slash, which cannot be read: rename it."
        )
        raise FileFailed("it is gone", where=remote.url, state="", remedy=remedy)
    # Fetch the journal first, so that originals written since then show up as extra, whatever the timing.
    journal, originals = (
        objects.fetched(url, path) if remote.stored is None or path.name in remote.stored else Object(url, path)
        for path in (store.journal, store.originals)
        for url in (f"{where}/{FOLDER}/{path.name}",)
    )
    copy = Copy(session, originals, journal)
    if is_gone:
        return copy
    if any(each.found and not each.size for each in (journal, originals)) and session.is_overwritten():
        # Packing empties objects, the session first. Without its store, this session would look damaged.
        raise InUse("somebody else just packed or wrote it", where=remote.url, remedy="Run again.")
    if writes:
        _refuse_if_leased(originals, store)
    return copy


@contextmanager
def temporary(url: str) -> Iterator[Path]:
    """Create a folder for objects below a URL; errors inside it name the URL instead.

    Raises FileFailed if it can't be written.
    """
    try:
        with private_folder() as made:
            # Packs lock their own folder, so use a different one.
            folder = made / "at"
            disk.make_folder(folder)
            with objects.told_of(url, folder):
                yield folder
    except OSError as error:
        raise failed(error, f"the temporary copy of {url}", OLD_OR_NEW) from error


def work_on(remote: Remote, work: Callable[[Path], T], *, writes: bool) -> T:
    """Fetch a session and its store, do the work, and upload changes if `writes` is set.

    Raises what the work raises, InUse if the objects have changed meanwhile, and FileFailed.
    """
    with temporary(remote.url.rpartition("/")[0]) as folder:
        copy = copied(remote, folder, writes=writes)
        result = work(copy.session.path)
        if writes:
            _put_back(*copy)
        return result


def on_journal(remote: Remote, work: Callable[[Path], T]) -> T:
    """Do work that needs only a session's journal; fetch nothing else. Raises as work_on() does."""
    where, _, name = remote.url.rpartition("/")
    with temporary(where) as folder:
        refuse_unless_file(remote.url, name)
        journal = plain_in(folder / name).journal
        if remote.stored is None or journal.name in remote.stored:
            objects.fetched(f"{where}/{FOLDER}/{journal.name}", journal)
        return work(folder / name)


def _put_back(session: Object, originals: Object, journal: Object) -> None:
    """Upload what changed. Raises InUse, FileFailed."""
    begun = time.monotonic()
    if journal.found is None and originals.is_changed:
        # As on a disk: without a journal, these originals would look as if their journal was lost.
        journal.put(b"")
    for each in (originals, journal, session):
        if each.is_changed:
            if time.monotonic() - begun > _COMMIT_SECONDS:
                what = "uploading its originals took so long that another run may have started"
                raise FileFailed(what, where=each.url, remedy="Run again in an hour.")
            each.put()


def _refuse_if_leased(originals: Object, store: Store) -> None:
    """Raise InUse if there are originals that the journal doesn't list: a run may be about to upload its journal.

    If we cut them off, as after a killed run, its journal would list missing originals.
    """
    if originals.found is None:
        return
    meta = originals.found.meta
    left = LEASE_SECONDS - (time.time() - meta["last_modified"].timestamp())
    if left > 0 and meta["size"] > journals.load(store.journal).lengths.originals:
        what = "another run has uploaded its originals, but not its journal yet"
        remedy = f"If it was killed, run again in {counted(round(left / 60) + 1, 'minute', 'minutes')}."
        raise InUse(what, where=originals.url, remedy=remedy)


class Listing(NamedTuple):
    """The objects below a prefix by key: names in our folders, grouped by parent folder, and all others."""

    root: str
    begins: str
    present: dict[str, Sized]
    stores: dict[str, dict[str, Sized]]
    packs: dict[str, Sized]


class RemoteSessions:
    """Resolves URLs of objects and prefixes. Each prefix is listed once, on first use."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = urls
        self._listings: dict[str, Listing | None] = {}

    def find(self, globs: Globs, older_than: int | None, *, stores: bool) -> Iterator[Found]:
        """Yield the sessions, each once.

        With `stores`, also yield everything that has a store, whatever its name; with an error if the session is
        missing. Raises UsageError if nothing exists, FileFailed.
        """
        seen: set[str] = set()
        for url in self.urls:
            listing = self.listing(url)
            for each in [_one(url)] if listing is None else _sessions(listing, globs, stores=stores):
                assert each.remote is not None
                young = older_than is not None and time.time() - each.remote.changed_ns / 1e9 < older_than
                if each.remote.url not in seen and not (young and each.error is None):
                    seen.add(each.remote.url)
                    yield each

    def listing(self, url: str) -> Listing | None:
        """List the objects below a prefix, or return None if there are none. Raises UsageError, FileFailed."""
        if url not in self._listings:
            self._listings[url] = _below(url)
        return self._listings[url]


def _below(url: str) -> Listing | None:
    root = objects.root_of(url)
    prefix = url[len(root) :].rstrip("/")
    found = Listing(root, f"{prefix}/" if prefix else "", {}, {}, {})
    is_there = False
    for meta in objects.listed(url):
        is_there = True
        each = Sized(meta["size"], objects.changed_ns(meta))
        folder, _, name = meta["path"].rpartition("/")
        above, _, last = folder.rpartition("/")
        if last == FOLDER:
            found.stores.setdefault(above, {})[name] = each
        elif last == PACKS and above.rpartition("/")[2] == FOLDER:
            found.packs[meta["path"]] = each
        elif NEVER.isdisjoint(folder.split("/")):
            found.present[meta["path"]] = each
    return found if is_there else None


def _sessions(listing: Listing, globs: Globs, *, stores: bool) -> Iterable[Found]:
    """Find the sessions in a listing. Raises FileFailed."""
    root, begins, present, stored, _ = listing
    found: dict[str, Found] = {}
    for key, each in present.items():
        names = stored.get(key.rpartition("/")[0], {})
        if globs.takes(key.removeprefix(begins)) and _may_be_session(root, key, each.size, names, present):
            found[key] = _meant(root + key, each, names, named=False)
    for folder, names in stored.items() if stores else ():
        # Empty objects were packed.
        full = [name for name, each in names.items() if each.size]
        for session in sorted({owner for _, owner in owners(plain_in(Path(folder, "session.jsonl")), full)}):
            key = f"{folder}/{session}".lstrip("/")
            if globs.takes(key.removeprefix(begins)):
                there, url = present.get(key), root + key
                found[key] = _meant(url, there, names, named=True) if there and there.size else _gone(url)
    return found.values()


def _may_be_session(root: str, key: str, size: int, stored: Container[str], present: Container[str]) -> bool:
    """Judge an object by its name, and a `.json` also by its first bytes, as discover() judges files.

    An empty object was packed; its content is in a pack.
    """
    name = key.rpartition("/")[2]
    if not size:
        return False
    if name.endswith(".jsonl"):
        return not (name.endswith(JOURNAL) and originals_of(Path(key)).as_posix() in present)
    if not name.endswith(".json"):
        return False
    return name + JOURNAL in stored or may_be_session(
        next(objects.ranged(root + key, 0, min(size, FIRST_BYTES), NOTHING_DONE), b"")
    )


def _meant(url: str, listed: Sized, stored: Iterable[str] | None, *, named: bool) -> Found:
    """Build the Found of a session. Limit `stored` to the names of existing objects of its store."""
    if stored is not None:
        files = plain_in(Path(url))
        stored = frozenset({files.journal.name, files.originals.name}.intersection(stored))
    return Found(Path(url), named=named, remote=Remote(url, listed.size, listed.changed, stored))


def _gone(url: str) -> Found:
    what = "the session is missing, but its store is still there"
    remedy = (
        f"If it was packed, 'sessioncompress unpack {quote(url)}' brings it back. If not, put it back, or, if you no "
        f"longer need it, delete its objects in {FOLDER}/ there."
    )
    error = Refused(what, where=url, state="Nothing was changed.", remedy=remedy)
    return Found(Path(url), named=True, error=error, remote=Remote(url, 0, 0))


def _one(url: str) -> Found:
    """Look up an object that the user named. Raises UsageError if it doesn't exist or is empty; FileFailed."""
    found = objects.looked_up(url)
    if found is None:
        raise UsageError("there is no object with this name or prefix", where=url, state=NOTHING_DONE)
    if not found["size"]:
        remedy = "If it was packed, 'sessioncompress unpack' with this URL brings it back."
        raise UsageError("the object is empty", where=url, state=NOTHING_DONE, remedy=remedy)
    return _meant(url, Sized(found["size"], objects.changed_ns(found)), None, named=True)
