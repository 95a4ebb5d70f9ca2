"""Objects of a store in a bucket: list, fetch, and put them. Nothing is ever deleted.

Each write is conditional: it succeeds only if the object is still the version that was read. This replaces a lock.
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

from sessioncompress.core.text import MB
from sessioncompress.errors import (
    NOT_CHANGED,
    NOTHING_DONE,
    OLD_OR_NEW,
    FileFailed,
    InUse,
    SessionCompressError,
    UsageError,
)
from sessioncompress.store import disk
from sessioncompress.store.layout import status_of

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore

_CHUNK = 8 * MB


class Object:
    """An object and its local file, both as of the construction; `found` is None if the object did not exist."""

    def __init__(self, url: str, path: Path, found: GetResult | None = None) -> None:
        self.url, self.path, self.found = url, path, found
        self._mode: Any = "create" if found is None else _update(found.meta)
        self._was = _signature(path)

    @property
    def size(self) -> int:
        """Bytes of the object when it was looked up, or 0 if it did not exist."""
        return self.found.meta["size"] if self.found else 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the content of the version that was looked up. Raises FileFailed."""
        with failing(self.url, NOT_CHANGED):
            if self.found is not None:
                yield from map(bytes, self.found.stream(_CHUNK))

    @property
    def is_changed(self) -> bool:
        """True if the work wrote the file. A removed file held nothing that a journal refers to."""
        return _signature(self.path) not in (None, self._was)

    def put(self, content: bytes | None = None, *, state: str = OLD_OR_NEW) -> None:
        """Put the file, or `content`, if the object is still the version fetched. Raises InUse, FileFailed."""
        from obstore import exceptions, put

        store, key = place(self.url)
        attributes = self.found.attributes if self.found else None
        version: Mapping[str, Any] | None
        with failing(self.url, state), self.path.open("rb") if content is None else BytesIO(content) as data:
            try:
                version = put(store, key, data, mode=self._mode, attributes=attributes, use_multipart=False)
            except (exceptions.PreconditionError, exceptions.AlreadyExistsError) as error:
                # The library may have retried a put that had succeeded: check if the object already has our content.
                data.seek(0)
                version = _holding(self.url, data)
                if version is None:
                    what = "somebody else wrote it in the meantime"
                    state = "It was left alone, and the session was not changed."
                    raise InUse(what, where=self.url, state=state, remedy="Run again.") from error
            self._mode = _update(version)

    def is_overwritten(self) -> bool:
        """True if the object is no longer the version that was last fetched or put. Raises FileFailed."""
        there = looked_up(self.url)
        return there is None or _update(there) != self._mode


def _update(version: Mapping[str, Any]) -> Any:
    """Return the condition that an object is still this version."""
    return {part: version[part] for part in ("e_tag", "version") if version[part] is not None}


def _signature(path: Path) -> tuple[int, int, int] | None:
    status = status_of(path)
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _holding(url: str, data: BinaryIO) -> ObjectMeta | None:
    """Return the object's metadata if it holds exactly `data`, else None."""
    from obstore import get

    try:
        found = get(*place(url))
        same = all(bytes(chunk) == data.read(len(chunk)) for chunk in found.stream(_CHUNK))
    except FileNotFoundError:
        return None
    return found.meta if same and not data.read(1) else None


def holds(url: str, path: Path, state: str) -> bool:
    """True if an object has the content of a file; reads both. Raises FileFailed."""
    with failing(url, state), path.open("rb") as data:
        return _holding(url, data) is not None


def put_new(url: str, path: Path, state: str) -> None:
    """Upload a file in parts, under a name that no one else uses. Raises FileFailed."""
    from obstore import put

    with failing(url, state), path.open("rb") as data:
        # Unconditional: conditions need an upload in one piece, which would be in memory.
        put(*place(url), data, chunk_size=_CHUNK, max_concurrency=2)


def fetched(url: str, path: Path) -> Object:
    """Fetch an object into a file with the object's time; a missing object is no error. Raises FileFailed."""
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
    """Look up an object that put() may replace with the file at `path`; missing is no error. Raises FileFailed."""
    from obstore import get

    with failing(url, NOT_CHANGED):
        try:
            return Object(url, path, get(*place(url)))
        except FileNotFoundError:
            return Object(url, path)


def ranged(url: str, start: int, end: int, state: str = NOT_CHANGED) -> Iterator[bytes]:
    """Yield the bytes of an object from `start` to `end`, or to its end if it is shorter. Raises FileFailed."""
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
    with failing(url, NOTHING_DONE):
        for chunk in listing(store, prefix=prefix or None):
            yield from chunk


def looked_up(url: str) -> ObjectMeta | None:
    """Return an object's metadata, or None if it does not exist. Raises UsageError, FileFailed."""
    from obstore import head

    store, key = place(url)
    with failing(url, NOTHING_DONE):
        try:
            return head(store, key) if key else None
        except FileNotFoundError:
            return None


def changed_ns(meta: ObjectMeta) -> int:
    """Return when an object was put, in nanoseconds."""
    return int(meta["last_modified"].timestamp()) * 1_000_000_000


def root_of(url: str) -> str:
    """Return the prefix that all URLs of a bucket share, with the slash."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"


def without_slash(url: str) -> str:
    """Return a URL without trailing slashes."""
    root = root_of(url)
    return (root + url[len(root) :]).rstrip("/")


def place(url: str) -> tuple[ObjectStore, str]:
    """Return a URL's bucket, as a client that is cached for the process, and its key. Raises UsageError."""
    root = root_of(url)
    key = url[len(root) :].rstrip("/")
    if key.startswith("/"):
        what, remedy = "the library would drop the second slash", "Name it without one, or rename that object."
        raise UsageError(what, where=url, state=NOTHING_DONE, remedy=remedy)
    return _client(root), key


@lru_cache(maxsize=8)
def _client(bucket: str) -> ObjectStore:
    from obstore.store import from_url

    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT"):
        if (given := os.environ.get(name)) and not given.startswith(("http://", "https://")):
            # The library would crash instead of raising an error.
            what, remedy = f"{name} is not a URL: {given!r}", "Set it as in http://localhost:9000."
            raise UsageError(what, where=bucket, state=NOTHING_DONE, remedy=remedy)
    retries: Any = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}
    with failing(bucket, NOTHING_DONE):
        return from_url(bucket, retry_config=retries)


def library() -> None:
    """Raise UsageError if the library is not installed."""
    try:
        import obstore  # noqa: F401
    except ImportError as error:
        what, remedy = "object stores need obstore", "Install it with the extra [cloud], as the README says."
        raise UsageError(what, state=NOTHING_DONE, remedy=remedy) from error


@contextmanager
def failing(url: str, state: str) -> Iterator[None]:
    """Turn the library's errors into a FileFailed with the first line of the message, which contains no secret."""
    from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (BaseError, FileNotFoundError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        # Drop the body of the response: it may contain the access key.
        said = lines[0].partition("<")[0][:300].rstrip(".: ")
        remedy = "Check the bucket, the network, and the credentials and the region in the environment."
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            remedy = "Check the permissions of the credentials in the environment: list, get and put are needed."
        if isinstance(error, InvalidPathError) or "invalid path" in said or "Could not parse path" in said:
            remedy = "The library cannot read a key like that: rename the object, or name prefixes without it."
        raise FileFailed(said, where=url, state=state, remedy=remedy) from None


@contextmanager
def told_of(url: str, folder: Path) -> Iterator[None]:
    """Replace the path of a temporary folder in errors with the URL of the object that it is for."""
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
    """Replace the path of a temporary folder in an error with the URL of the object that it is for."""
    here = str(folder)
    error.what, error.remedy = error.what.replace(here, url), error.remedy.replace(here, url)
    error.where = error.where and error.where.replace(here, url)
    error.state = error.state.replace(here, url)
