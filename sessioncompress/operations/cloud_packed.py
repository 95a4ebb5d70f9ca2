"""Find what is packed in object stores; it is read, and brought back, as on a disk: of an archive only frames come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from sessioncompress.errors import SessionCompressError, UsageError
from sessioncompress.operations.cloud import Places
from sessioncompress.operations.packed import Packed
from sessioncompress.pipeline.discover import EVERYTHING, Globs
from sessioncompress.store import objects
from sessioncompress.store.layout import ARCHIVE, FOLDER, PACKS
from sessioncompress.store.objects import NOTHING
from sessioncompress.store.pack import INDEX
from sessioncompress.store.packing import Pack, packs_in
from sessioncompress.store.places import Bucket


def meant(urls: Sequence[str]) -> list[Packed | SessionCompressError]:
    """Find the packed sessions that URLs mean: of sessions, prefixes or archives. Raises UsageError without any."""
    found = list(_found(Places(urls), EVERYTHING, None, is_read=False))
    if not found:
        raise UsageError("no packed session matches it", where=urls[0], state=NOTHING)
    return found


def selected(places: Places, globs: Globs, older_than: int | None) -> Iterator[Packed | SessionCompressError]:
    """Yield the packed sessions below URLs that are chosen, and not at their places."""
    for each in _found(places, globs, older_than, is_read=True):
        if not isinstance(each, Packed) or each.pack.holds(each.entry):
            yield each


def _found(
    places: Places, globs: Globs, older_than: int | None, *, is_read: bool
) -> Iterator[Packed | SessionCompressError]:
    """Find the packed sessions that URLs mean, each once, and what is wrong with a pack.

    Where two packs have one, as two runs at once may leave it, the newest counts.
    """
    newest: dict[str, Packed] = {}
    for url in places.urls:
        named = without_slash(url)
        for at in _roots(places, url, is_read=is_read):
            for pack in packs_in(at):
                if not isinstance(pack, Pack):
                    yield pack
                    continue
                for entry in pack.packed():
                    each = Packed(pack, entry)
                    is_all = named in (at.shown(at.root), pack.shown)
                    below = each.shown.removeprefix(f"{named}/") if each.shown.startswith(f"{named}/") else entry.path
                    if not (is_all or each.shown == named or below != entry.path) or not globs.takes(below):
                        continue
                    if older_than is not None and time.time() - entry.members[0].mtime_ns / 1e9 < older_than:
                        continue
                    if each.shown not in newest or newest[each.shown].entry.age < entry.age:
                        newest[each.shown] = each
    yield from newest.values()


def _roots(places: Places, url: str, *, is_read: bool) -> Iterator[Bucket]:
    """Find what was packed below a URL, and what is above it."""
    listing = places.listing(url)
    sizes: Mapping[str, int] | None = None
    listed = ""
    if listing is not None:
        if is_read:
            sizes = {listing.root + key: each.size for key, each in (*listing.present.items(), *listing.packs.items())}
            listed = listing.root + listing.begins
        end = f"/{FOLDER}/{PACKS}"
        packs = (
            f"/{key}".rpartition("/")[0]
            for key, each in listing.packs.items()
            if key.endswith((INDEX, ARCHIVE)) and each.size
        )
        for folder in dict.fromkeys(packs):
            yield Bucket(f"{listing.root.rstrip('/')}{folder.removesuffix(end)}", sizes, listed)
    bucket, above = objects.root_of(url).rstrip("/"), without_slash(url)
    while above != bucket:
        above = above.rpartition("/")[0]
        yield Bucket(above, sizes, listed)


def without_slash(url: str) -> str:
    """Write a URL without a slash at its end."""
    root = objects.root_of(url)
    return (root + url[len(root) :]).rstrip("/")
