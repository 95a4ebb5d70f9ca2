"""Objects of a store: listed, fetched, and put only if nobody else wrote meanwhile; nothing is ever deleted.

The condition of each write, that the object is still the one that was read, takes the place of a lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sessioncompress.core.text import KB
from sessioncompress.errors import NOT_CHANGED, FileFailed, InUse, SessionCompressError, UsageError
from sessioncompress.store import disk
from sessioncompress.store.layout import status_of

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore

MB = KB * KB
NOTHING = "Nothing was done."
STATE = "The session is either as before or completely rewritten."
_CHUNK = 8 * MB


class Object:
    """An object and the file that it was fetched into, as both were then; `found` is None where there was none."""

    def __init__(self, url: str, path: Path, found: GetResult | None = None) -> None:
        self.url, self.path, self.found = url, path, found
        self._mode: Any = "create" if found is None else _update(found.meta)
        self._was = _signature(path)

    @property
    def size(self) -> int:
        """Its bytes, as it was fetched or met; 0 where there was none."""
        return self.found.meta["size"] if self.found else 0

    def pieces(self) -> Iterator[bytes]:
        """Read what it held as it was met. Raises FileFailed."""
        with failing(self.url, NOT_CHANGED):
            if self.found is not None:
                yield from map(bytes, self.found.stream(_CHUNK))

    @property
    def is_changed(self) -> bool:
        """Whether the work wrote the file. One that it removed held nothing that a journal tells of."""
        return _signature(self.path) not in (None, self._was)

    def put(self, content: bytes | None = None, *, state: str = STATE) -> None:
        """Put the file, or some bytes, if the object is still what was fetched. Raises InUse, FileFailed."""
        from obstore import exceptions, put

        store, key = place(self.url)
        attributes = self.found.attributes if self.found else None
        version: Mapping[str, Any] | None
        with failing(self.url, state), self.path.open("rb") if content is None else BytesIO(content) as data:
            try:
                version = put(store, key, data, mode=self._mode, attributes=attributes, use_multipart=False)
            except (exceptions.PreconditionError, exceptions.AlreadyExistsError) as error:
                # The library may have tried again what had come through the first time.
                data.seek(0)
                version = _holding(self.url, data)
                if version is None:
                    what = "somebody else wrote it in the meantime"
                    state = "It was left alone, and the session was not changed."
                    raise InUse(what, where=self.url, state=state, remedy="Run again.") from error
            self._mode = _update(version)

    def is_overwritten(self) -> bool:
        """Tell whether it is another version now than the one that was fetched or put last. Raises FileFailed."""
        there = looked_up(self.url)
        return there is None or _update(there) != self._mode


def _update(version: Mapping[str, Any]) -> Any:
    """Make the condition that an object is still of this version."""
    return {part: version[part] for part in ("e_tag", "version") if version[part] is not None}


def _signature(path: Path) -> tuple[int, int, int] | None:
    status = status_of(path)
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _holding(url: str, data: BinaryIO) -> ObjectMeta | None:
    """Look up the object if it holds what is to be put."""
    from obstore import get

    try:
        found = get(*place(url))
        same = all(bytes(chunk) == data.read(len(chunk)) for chunk in found.stream(_CHUNK))
    except FileNotFoundError:
        return None
    return found.meta if same and not data.read(1) else None


def holds(url: str, path: Path, state: str) -> bool:
    """Read an object back, and compare it with a file. Raises FileFailed."""
    with failing(url, state), path.open("rb") as data:
        return _holding(url, data) is not None


def put_new(url: str, path: Path, state: str) -> None:
    """Put a file under a name that nobody else has, a part at a time. Raises FileFailed."""
    from obstore import put

    with failing(url, state), path.open("rb") as data:
        # Without a condition, which there is for an object in one piece only, and that would be in memory.
        put(*place(url), data, chunk_size=_CHUNK, max_concurrency=2)


def fetched(url: str, path: Path) -> Object:
    """Fetch an object into a file, which gets its time of change; none is no error. Raises FileFailed."""
    there = met(url, path)
    if there.found is None:
        return there
    disk.make_folder(path.parent)
    with disk.closing(disk.create(path)) as fd:
        for chunk in there.pieces():
            disk.write_all(fd, chunk)
        disk.set_time(fd, changed_ns(there.found.meta))
    return Object(url, path, there.found)


def met(url: str, path: Path) -> Object:
    """Look up an object, which a file at a path is to be put over, if at all; none is no error. Raises FileFailed."""
    from obstore import get

    with failing(url, NOT_CHANGED):
        try:
            return Object(url, path, get(*place(url)))
        except FileNotFoundError:
            return Object(url, path)


def ranged(url: str, start: int, end: int, state: str = NOT_CHANGED) -> Iterator[bytes]:
    """Read a part of an object, as far as there is one. Raises FileFailed."""
    from obstore import get_range

    with failing(url, state):
        store, key = place(url)
        for begin in range(start, end, _CHUNK):
            length = min(_CHUNK, end - begin)
            piece = bytes(get_range(store, key, start=begin, length=length))
            yield piece
            if len(piece) < length:
                return


def listed(url: str) -> Iterator[ObjectMeta]:
    """List the objects below a prefix. Raises UsageError, FileFailed."""
    library()
    from obstore import list as listing

    store, prefix = place(url)
    with failing(url, NOTHING):
        for chunk in listing(store, prefix=prefix or None):
            yield from chunk


def looked_up(url: str) -> ObjectMeta | None:
    """Look up an object; None where there is none. Raises UsageError, FileFailed."""
    from obstore import head

    store, key = place(url)
    with failing(url, NOTHING):
        try:
            return head(store, key) if key else None
        except FileNotFoundError:
            return None


def changed_ns(meta: ObjectMeta) -> int:
    """Return when an object was put, in nanoseconds."""
    return int(meta["last_modified"].timestamp()) * 1_000_000_000


def root_of(url: str) -> str:
    """What all URLs of a bucket begin with."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"


def without_slash(url: str) -> str:
    """Write a URL without a slash at its end."""
    root = root_of(url)
    return (root + url[len(root) :]).rstrip("/")


def place(url: str) -> tuple[ObjectStore, str]:
    """Split a URL into its bucket, for which a client is made once in a process, and its key. Raises UsageError."""
    root = root_of(url)
    key = url[len(root) :].rstrip("/")
    if key.startswith("/"):
        what, remedy = "the library would drop the second slash", "Name it without one, or rename that object."
        raise UsageError(what, where=url, state=NOTHING, remedy=remedy)
    return _client(root), key


@lru_cache(maxsize=8)
def _client(bucket: str) -> ObjectStore:
    from obstore.store import from_url

    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT"):
        if (given := os.environ.get(name)) and not given.startswith(("http://", "https://")):
            # The library would not end there, but break off.
            what, remedy = f"{name} is not a URL: {given!r}", "Set it as in http://localhost:9000."
            raise UsageError(what, where=bucket, state=NOTHING, remedy=remedy)
    retries: Any = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}
    with failing(bucket, NOTHING):
        return from_url(bucket, retry_config=retries)


def library() -> None:
    """Raise UsageError where the library is not installed."""
    try:
        import obstore  # noqa: F401
    except ImportError as error:
        what, remedy = "object stores need obstore", "Install it with the extra [cloud], as the README says."
        raise UsageError(what, state=NOTHING, remedy=remedy) from error


@contextmanager
def failing(url: str, state: str) -> Iterator[None]:
    """Turn the library's errors into a FileFailed with the first line of what it says, which names no secret."""
    from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (BaseError, FileNotFoundError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        # Without the answer's body, which may name the access key.
        said = lines[0].partition("<")[0][:300].rstrip(".: ")
        remedy = "Check the bucket, the network, and the credentials and the region in the environment."
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            remedy = "Check the permissions of the credentials in the environment: list, get and put are needed."
        if isinstance(error, InvalidPathError) or "invalid path" in said or "Could not parse path" in said:
            remedy = "The library cannot read a key like that: rename the object, or name prefixes without it."
        raise FileFailed(said, where=url, state=state, remedy=remedy) from None


@contextmanager
def told_of(url: str, folder: Path) -> Iterator[None]:
    """Name what errors say of a temporary folder by the URL of what is fetched into it."""
    try:
        yield
    except SessionCompressError as error:
        tell(error, url, folder)
        raise
    except OSError as error:
        if isinstance(error.filename, str | os.PathLike):
            error.filename = str(error.filename).replace(str(folder), f"the temporary copy of {url}")
        raise


def tell(error: SessionCompressError, url: str, folder: Path) -> None:
    """Name what an error says of a temporary folder by the URL of what is fetched into it."""
    here = str(folder)
    error.what, error.remedy = error.what.replace(here, url), error.remedy.replace(here, url)
    error.where = error.where and error.where.replace(here, url)
    error.state = error.state.replace(here, url)
