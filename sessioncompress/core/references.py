"""References: the shortest prefix (at least 12 digits) of a content's SHA-256 that is unique in its session."""

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
"""Digits of a digest that a journal records."""
_OF_XXH3 = 16
"""Digits of the XXH3-64 that stores of 1.0.0 use. An attacker can construct contents with any XXH3."""


class References:
    """Assigns the references of one session; `taken` are the pairs of reference and digest in the journal."""

    def __init__(self, taken: Iterable[tuple[str, str]] = ()) -> None:
        self._contents = {int(f"{len(ref):x}{ref}", 16): int(digest, 16) for ref, digest in taken}

    def refer(self, content: bytes) -> str:
        """Return the content's reference; equal contents get the same one."""
        return self.named(content)[0]

    def named(self, content: bytes) -> tuple[str, str]:
        """Return the content's reference, and the digest that it is a prefix of."""
        name = sha256(content).hexdigest()[:DIGITS]
        digest, digits = int(name, 16), FEWEST_DIGITS
        # One number holds the digits and their count: it takes less memory than a string.
        while self._contents.setdefault(digits << 4 * digits | digest >> 4 * (DIGITS - digits), digest) != digest:
            digits += 1
        return name[:digits], name


def digests_of(content: bytes) -> tuple[str, str]:
    """Return the digest of a content that a journal records, and the digest that stores of 1.0.0 use."""
    return sha256(content).hexdigest()[:DIGITS], xxh3_64_hexdigest(content)


def is_of_first_stores(digest: str) -> bool:
    """True if a content's digest is one that stores of 1.0.0 use."""
    return len(digest) == _OF_XXH3


def git_blob(content: bytes) -> str:
    """Return the id that git gives this content (in SHA-1 repositories)."""
    blob = sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    blob.update(content)
    return blob.hexdigest()


def digest_of(written: bytes) -> bytes:
    """Return the identity of a content: the first 16 bytes of the SHA-256 of its JSON text."""
    return sha256(written).digest()[:16]


class Attached(NamedTuple):
    """An image or a document: its media type and title, if known, and its data in base64 or plain."""

    media: str = ""
    data: str = ""
    title: str = ""
    is_plain: bool = False

    @property
    def is_text(self) -> bool:
        """True if it is a document in plain text."""
        return self.media.startswith("text/") or self.media == "application/json"

    @property
    def content(self) -> bytes:
        """The content that a reference names: the bytes of a text, the base64 of anything else."""
        with suppress(ValueError):
            if self.is_text and not self.is_plain:
                return b64decode(self.data, validate=True)
        return self.data.encode()


def attached(part: Any) -> Attached:
    """Read the attachment in a content part, or in an object inside it; a data URL is split into its parts."""
    if not isinstance(part, dict):
        return Attached(data=part if isinstance(part, str) else "")
    holders = [*(each for each in part.values() if isinstance(each, dict)), part]
    # Agents spell these keys differently.
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
    # An attachment with only an address is stored elsewhere.
    return Attached(media, "" if "://" in address[:32] else address, title)


def content_of(value: object, kind: Kind) -> bytes:
    """Return what a reference names: a string's text, an image's data, or the JSON of anything else."""
    if kind is Kind.IMAGE and isinstance(value, dict):
        return attached(value).content
    return value.encode() if isinstance(value, str) else orjson.dumps(value)
