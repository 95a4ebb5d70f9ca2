"""References: the shortest prefix, of at least twelve digits, of a content's SHA-256 that is unique in its session."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha1, sha256
from typing import Any, NamedTuple

import orjson
from xxhash import xxh3_64_hexdigest

from sessioncompress.core.model import Kind

FEWEST_DIGITS = 12
DIGITS = 20
"""Of a digest, those that a journal notes."""
_OF_XXH3 = 16
"""The digest was an XXH3-64 in the first stores. A stranger can make contents of any XXH3."""


class References:
    """Gives out the references of one session; those that the journal holds are taken."""

    def __init__(self, taken: Iterable[tuple[str, str]] = ()) -> None:
        self._contents = {int(f"{len(ref):x}{ref}", 16): int(digest, 16) for ref, digest in taken}

    def refer(self, content: bytes) -> str:
        """Give the content its reference: the same one for the same content."""
        return self.named(content)[0]

    def named(self, content: bytes) -> tuple[str, str]:
        """Give the content its reference, and the digest that this begins."""
        name = sha256(content).hexdigest()[:DIGITS]
        digest, digits = int(name, 16), FEWEST_DIGITS
        # The first digits and how many they are, in one number: it takes less memory than a text.
        while self._contents.setdefault(digits << 4 * digits | digest >> 4 * (DIGITS - digits), digest) != digest:
            digits += 1
        return name[:digits], name


def digests_of(content: bytes) -> tuple[str, str]:
    """Compute the digest of a content that a journal notes, and the one that the first stores did."""
    return sha256(content).hexdigest()[:DIGITS], xxh3_64_hexdigest(content)


def is_of_first_stores(digest: str) -> bool:
    """Tell whether the digest of a content is one of the first stores."""
    return len(digest) == _OF_XXH3


def git_blob(content: bytes) -> str:
    """Compute the id that git gives this content (as SHA-1 repositories do)."""
    blob = sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    blob.update(content)
    return blob.hexdigest()


def digest_of(written: bytes) -> bytes:
    """Compute the identity of a content: the first 16 bytes of the SHA-256 of its JSON text."""
    return sha256(written).digest()[:16]


class Attached(NamedTuple):
    """An image or a document: its media type and its title, where they are known, and its data, in base64 or plain."""

    media: str = ""
    data: str = ""
    title: str = ""
    is_plain: bool = False

    @property
    def is_text(self) -> bool:
        """Whether it is a document that can be read as it is."""
        return self.media.startswith("text/") or self.media == "application/json"

    @property
    def content(self) -> bytes:
        """What a reference names: of a text its bytes, of anything else the base64."""
        with suppress(ValueError):
            if self.is_text and not self.is_plain:
                return b64decode(self.data, validate=True)
        return self.data.encode()


def attached(part: Any) -> Attached:
    """Read what a content part, or an object in it, holds; of a data URL what that says."""
    if not isinstance(part, dict):
        return Attached(data=part if isinstance(part, str) else "")
    holders = [*(each for each in part.values() if isinstance(each, dict)), part]
    # However an agent spells them.
    texts = {key.lower(): each for holder in holders for key, each in holder.items() if isinstance(each, str)}
    title = texts.get("title") or texts.get("filename") or texts.get("displayname", "")
    media = texts.get("mimetype") or texts.get("media_type") or ("document" if texts.get("type") == "file" else "")
    if any("data" in holder for holder in holders):
        media = f"audio/{texts['format']}" if "format" in texts else media
        is_plain = any(holder.get("type") == "text" for holder in holders)
        return Attached(media, texts.get("data", ""), title, is_plain)
    address, comma, data = max(texts.values(), key=len, default="").partition(";base64,")
    if comma:
        return Attached(address.removeprefix("data:").partition(";")[0], data, title)
    # What has an address alone is elsewhere.
    return Attached(media, "" if "://" in address[:32] else address, title)


def content_of(value: object, kind: Kind) -> bytes:
    """Find what a reference names: the text of a string, an image's data, the JSON of anything else."""
    if kind is Kind.IMAGE and isinstance(value, dict):
        return attached(value).content
    return value.encode() if isinstance(value, str) else orjson.dumps(value)
