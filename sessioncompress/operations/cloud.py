"""Sessions in object stores: listed once, worked on in a temporary folder, put back if nobody else wrote meanwhile.

The condition of each write, that the object is still the one that was read, takes the place of the lock. The order is
that on a disk: originals, journal, session. A crash leaves the old session or the new one, and the originals of either.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from sessioncompress.core.text import KB, counted
from sessioncompress.errors import (
    NOT_CHANGED,
    FileFailed,
    InUse,
    NotASession,
    Refused,
    SessionCompressError,
    UsageError,
)
from sessioncompress.formats.table import FIRST_BYTES, may_be_session
from sessioncompress.pipeline.discover import NEVER, Found, Globs, Remote
from sessioncompress.pipeline.summary import CompressionStats, Status
from sessioncompress.pipeline.triage import too_small
from sessioncompress.policy.model import Policy
from sessioncompress.policy.sources import Policies
from sessioncompress.store import disk
from sessioncompress.store import journal as journals
from sessioncompress.store.journal import last_run
from sessioncompress.store.layout import FOLDER, JOURNAL, Store, originals_of, owners, status_of, store_in

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")

_MB = KB * KB
LARGEST = 1024 * _MB
"""Bytes. A session that is put back is in memory as a whole: no part of it may appear before the rest."""
_CHUNK = 8 * _MB
_RETRIES, _RETRY_SECONDS = 6, 60
_COMMIT_SECONDS = 1200
LEASE_SECONDS = 3600
"""Originals that no journal tells of may be those of a run that is about to put its journal: for so long they stay.

That run begins no write after _COMMIT_SECONDS, a write and its retries end minutes later, and S3 refuses clocks that
differ by a quarter of an hour.
"""
_LONGEST_NAME = 255
_LONGEST_ERROR = 300
_NOTHING = "Nothing was done."
_SAY_SO = "It is left alone, and the session is not changed."
_STATE = "The session is as it was or as it will be, nothing in between."


def policy_for(remote: Remote, policies: Policies) -> Policy:
    """Find the policy of a session: near it no file counts. Raises UsageError for what asks for places on a disk."""
    policy = policies.apart
    asked = {
        "--backup-dir (backupDir)": policy.backup_dir,
        "--commit-originals (commitOriginals)": policy.commit_originals,
        "--log (logFile)": policy.log_file,
    }
    if given := [name for name, value in asked.items() if value]:
        what = f"{given[0]} does not go with sessions in object stores"
        raise UsageError(what, where=remote.url, state=_NOTHING, remedy="Leave it out, or work on a copy.")
    return policy


def skip(found: Found, policy: Policy, *, force: bool) -> CompressionStats | None:
    """Return the statistics of a session that was met and is too small: most of a bucket are, and not fetched."""
    if found.remote is None or found.named or policy.every_turns is not None:
        return None
    size = found.remote.size
    if not (reason := too_small(size, policy, force=force)):
        return None
    return CompressionStats(found.shown, status=Status.SKIPPED, reason=reason, original_size=size, compressed_size=size)


def work_on(remote: Remote, work: Callable[[Path], T], *, writes: bool) -> T:
    """Fetch a session with its store, do the work there, and put back what it changed if it `writes`.

    Raises what the work raises, InUse where somebody else wrote meanwhile, and FileFailed.
    """
    folder_url, _, name = remote.url.rpartition("/")
    with TemporaryDirectory(prefix="sessioncompress-") as made:
        folder = Path(os.path.realpath(made))
        with _told_of(remote.url, folder):
            if len(os.fsencode(name)) > _LONGEST_NAME or "\0" in name or name in (os.curdir, os.pardir):
                raise NotASession("no file can have its name", where=remote.url, state=NOT_CHANGED)
            if writes and remote.size > LARGEST:
                what = f"it has more than {LARGEST // _MB:,} MB, the most that is changed in an object store"
                raise Refused(what, where=remote.url, state=NOT_CHANGED, remedy="Compress a copy of it on a disk.")
            store = store_in(folder / name)
            session = _fetched(remote.url, folder / name)
            if session.found is None:
                raise FileFailed("it is gone", where=remote.url, remedy="Run again.")
            # The journal first: what originals there are more than it tells of is seen, however they were written.
            journal, originals = (
                _fetched(url, path) if remote.stored is None or path.name in remote.stored else _Object(url, path)
                for path in (store.journal, store.originals)
                for url in (f"{folder_url}/{FOLDER}/{path.name}",)
            )
            if writes:
                _refuse_if_leased(originals, store)
            result = work(folder / name)
            if writes:
                _put_back(originals, journal, session)
            return result


class _Object:
    """An object and the file that it was fetched into, as both were then; `found` is None where there was none."""

    def __init__(self, url: str, path: Path, found: GetResult | None = None) -> None:
        self.url, self.path, self.found = url, path, found
        self._mode: Any = "create" if found is None else _update(found.meta)
        self._was = _signature(path)

    @property
    def is_changed(self) -> bool:
        """Whether the work wrote the file. One that it removed held nothing that a journal tells of."""
        return _signature(self.path) not in (None, self._was)

    def put(self, *, empty: bool = False) -> None:
        """Put the file, or nothing, if the object is still what was fetched. Raises InUse, FileFailed."""
        from obstore import exceptions, put

        store, key = _place(self.url)
        attributes = self.found.attributes if self.found else None
        version: Mapping[str, Any] | None
        with _failing(self.url, _STATE), BytesIO() if empty else self.path.open("rb") as data:
            try:
                version = put(store, key, data, mode=self._mode, attributes=attributes, use_multipart=False)
            except (exceptions.PreconditionError, exceptions.AlreadyExistsError) as error:
                # The library may have tried again what had come through the first time.
                data.seek(0)
                version = self._holding(data)
                if version is None:
                    what = "somebody else wrote it meanwhile"
                    raise InUse(what, where=self.url, state=_SAY_SO, remedy="Run again.") from error
            self._mode = _update(version)

    def _holding(self, data: BinaryIO) -> ObjectMeta | None:
        """Look up the object if it holds what is to be put."""
        from obstore import get

        try:
            found = get(*_place(self.url))
            same = all(bytes(chunk) == data.read(len(chunk)) for chunk in found.stream(_CHUNK))
        except FileNotFoundError:
            return None
        return found.meta if same and not data.read(1) else None


def _update(version: Mapping[str, Any]) -> Any:
    """Make the condition that an object is still of this version."""
    return {part: version[part] for part in ("e_tag", "version") if version[part] is not None}


def _signature(path: Path) -> tuple[int, int, int] | None:
    status = status_of(path)
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _fetched(url: str, path: Path) -> _Object:
    """Fetch an object into a file, which gets its time of change; none is no error. Raises FileFailed."""
    from obstore import get

    store, key = _place(url)
    with _failing(url, NOT_CHANGED):
        try:
            found = get(store, key)
        except FileNotFoundError:
            return _Object(url, path)
        disk.make_folder(path.parent)
        with disk.closing(disk.create(path)) as fd:
            for chunk in found.stream(_CHUNK):
                disk.write_all(fd, chunk)
            disk.set_time(fd, _changed_ns(found.meta))
    return _Object(url, path, found)


def _put_back(originals: _Object, journal: _Object, session: _Object) -> None:
    """Put what changed. Raises InUse, FileFailed."""
    begun = time.monotonic()
    if journal.found is None and originals.is_changed:
        # As on a disk: originals beside which there is no journal at all would be of one that was lost.
        journal.put(empty=True)
    for each in (originals, journal, session):
        if each.is_changed:
            if time.monotonic() - begun > _COMMIT_SECONDS:
                what = "to put its originals took so long that another run may have begun"
                raise FileFailed(what, where=each.url, state=NOT_CHANGED, remedy="Run again in an hour.")
            each.put()


def _refuse_if_leased(originals: _Object, store: Store) -> None:
    """Raise InUse where there are more originals than the journal tells of, as a run may be about to put its journal.

    Were they cut off, like those of a run that was killed, its journal would tell of originals that are not there.
    """
    if originals.found is None:
        return
    meta = originals.found.meta
    left = LEASE_SECONDS - (time.time() - meta["last_modified"].timestamp())
    if left > 0 and meta["size"] > (last_run(store) or journals.load(store.journal)).lengths.originals:
        what = "another run has put its originals, but not yet its journal"
        remedy = f"If it was killed, run again in {counted(round(left / 60) + 1, 'minute', 'minutes')}."
        raise InUse(what, where=originals.url, state=NOT_CHANGED, remedy=remedy)


def find(urls: Sequence[str], globs: Globs, older_than: int | None, *, stores: bool) -> Iterator[Found]:
    """Yield the sessions that URLs of objects or prefixes mean, each once; a prefix is listed once.

    With `stores`, for commands that read them, also what has one, whatever its name, and with an error if it is gone.
    Raises UsageError where nothing is there, FileFailed.
    """
    seen: set[str] = set()
    for url in urls:
        found = _below(url, globs, stores=stores)
        for each in [_one(url)] if found is None else found:
            assert each.remote is not None
            young = older_than is not None and time.time() - each.remote.changed_ns / 1e9 < older_than
            if each.remote.url not in seen and not (young and each.error is None):
                seen.add(each.remote.url)
                yield each


def _below(url: str, globs: Globs, *, stores: bool) -> list[Found] | None:
    """List the sessions below a prefix; None where nothing lies there. Raises UsageError, FileFailed."""
    _library()
    from obstore import list as listing

    store, prefix = _place(url)
    root = _root(url)
    present: dict[str, ObjectMeta] = {}
    stored: dict[str, set[str]] = {}
    with _failing(url, _NOTHING):
        for chunk in listing(store, prefix=prefix or None):
            for meta in chunk:
                folder, _, name = meta["path"].rpartition("/")
                above, _, last = folder.rpartition("/")
                if last == FOLDER:
                    stored.setdefault(above, set()).add(name)
                elif NEVER.isdisjoint(folder.split("/")):
                    present[meta["path"]] = meta
    if not (present or stored):
        return None
    begins = f"{prefix}/" if prefix else ""
    found: dict[str, Found] = {}
    for key, meta in present.items():
        folder, _, name = key.rpartition("/")
        if globs.takes(key.removeprefix(begins)) and _may_be_session(
            store, meta, name, stored.get(folder, set()), present
        ):
            found[key] = _meant(root, meta, stored.get(folder, set()), named=False)
    for folder, names in stored.items() if stores else ():
        for session in sorted({owner for _, owner in owners(store_in(Path(folder, "session.jsonl")), names)}):
            key = f"{folder}/{session}".lstrip("/")
            if globs.takes(key.removeprefix(begins)):
                found[key] = _meant(root, present[key], names, named=True) if key in present else _gone(root + key)
    return list(found.values())


def _may_be_session(store: ObjectStore, meta: ObjectMeta, name: str, stored: set[str], present: Container[str]) -> bool:
    """Judge an object by its name, and a `.json` by its first bytes, as discover() judges files."""
    if name.endswith(".jsonl"):
        beside = originals_of(Path(meta["path"])).as_posix()
        return not (name.endswith(JOURNAL) and beside in present)
    if not name.endswith(".json") or not meta["size"]:
        return False
    if name + JOURNAL in stored:
        return True
    from obstore import get_range

    with _failing(meta["path"], _NOTHING):
        first = get_range(store, meta["path"], start=0, end=min(meta["size"], FIRST_BYTES))
    return may_be_session(bytes(first))


def _meant(root: str, meta: ObjectMeta, stored: Iterable[str] | None, *, named: bool) -> Found:
    """Make what stands for a session, of whose store no more is kept than which of its objects are there."""
    url = root + meta["path"]
    if stored is not None:
        files = store_in(Path(meta["path"]))
        stored = frozenset({files.journal.name, files.originals.name}.intersection(stored))
    return Found(Path(url), named=named, remote=Remote(url, meta["size"], _changed_ns(meta), stored))


def _gone(url: str) -> Found:
    what = "the session is not there, but its store is still there"
    remedy = f"Put the session back; if it is not wanted any more, delete its objects in {FOLDER}/ there."
    error = Refused(what, where=url, state="Nothing of that is changed.", remedy=remedy)
    return Found(Path(url), named=True, error=error, remote=Remote(url, 0, 0))


def _one(url: str) -> Found:
    """Look up an object that is named. Raises UsageError where there is none, FileFailed."""
    from obstore import head

    store, key = _place(url)
    with _failing(url, _NOTHING):
        try:
            if key:
                return _meant(_root(url), head(store, key), None, named=True)
        except FileNotFoundError:
            pass
    raise UsageError("there is no object of this name or prefix", where=url, state=_NOTHING)


def _changed_ns(meta: ObjectMeta) -> int:
    return int(meta["last_modified"].timestamp()) * 1_000_000_000


def _root(url: str) -> str:
    """What all URLs of a bucket begin with."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"


def _place(url: str) -> tuple[ObjectStore, str]:
    """Split a URL into its bucket, for which a client is made once in a process, and its key. Raises UsageError."""
    root = _root(url)
    return _client(root), url[len(root) :].rstrip("/")


@lru_cache(maxsize=8)
def _client(bucket: str) -> ObjectStore:
    from obstore.store import from_url

    retries: Any = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
    with _failing(bucket, _NOTHING):
        return from_url(bucket, retry_config=retries)


def _library() -> None:
    """Raise UsageError where the library is not installed."""
    try:
        import obstore  # noqa: F401
    except ImportError as error:
        what = "object stores need the library obstore"
        raise UsageError(what, state=_NOTHING, remedy="Run: pip install 'sessioncompress[cloud]'") from error


@contextmanager
def _failing(url: str, state: str) -> Iterator[None]:
    """Turn the library's errors into a FileFailed with the first line of what it says, which names no secret."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (BaseError, FileNotFoundError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        said = lines[0].partition(": <?xml")[0][:_LONGEST_ERROR].rstrip(". ")
        remedy = "Check the bucket, the network, and the credentials and the region in the environment."
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            remedy = "Check what the credentials in the environment may do: list, get and put are needed."
        raise FileFailed(said, where=url, state=state, remedy=remedy) from None


@contextmanager
def _told_of(url: str, folder: Path) -> Iterator[None]:
    """Name what errors say of the temporary folder by where it comes from."""
    try:
        yield
    except SessionCompressError as error:
        here, there = str(folder), url.rpartition("/")[0]
        error.what, error.remedy = error.what.replace(here, there), error.remedy.replace(here, there)
        error.where = error.where and error.where.replace(here, there)
        error.state = error.state.replace(here, there)
        raise
    except OSError as error:
        if isinstance(error.filename, str):
            error.filename = error.filename.replace(str(folder), "the temporary copy of " + url.rpartition("/")[0])
        raise
