"""References: the shortest prefix, of at least twelve digits, of a content's XXH3 that is unique in its session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha1, sha256
from typing import Any

import orjson
from xxhash import xxh3_64_intdigest

from sessioncompress.core.model import Kind

FEWEST_DIGITS = 12
_DIGITS = 16


class References:
    """Gives out the references of one session; those that the journal holds are taken."""

    def __init__(self, taken: Iterable[tuple[str, str]] = ()) -> None:
        self._contents = {int(f"{len(ref):x}{ref}", 16): int(xxh3, 16) for ref, xxh3 in taken}

    def refer(self, content: bytes) -> str:
        """Give the content its reference: the same one for the same content."""
        return self.named(content)[0]

    def named(self, content: bytes) -> tuple[str, str]:
        """Give the content its reference, and its XXH3-64 in hex."""
        digest = xxh3_64_intdigest(content)
        digits = FEWEST_DIGITS
        # The first digits and how many they are, in one number: it takes less memory than a text.
        while self._contents.setdefault(digits << 4 * digits | digest >> 4 * (_DIGITS - digits), digest) != digest:
            digits += 1
        name = f"{digest:0{_DIGITS}x}"
        return name[:digits], name


def git_blob(content: bytes) -> str:
    """Compute the id that git gives this content (as SHA-1 repositories do)."""
    blob = sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    blob.update(content)
    return blob.hexdigest()


def digest_of(written: bytes) -> bytes:
    """Compute the identity of a content: the first 16 bytes of the SHA-256 of its JSON text."""
    return sha256(written).digest()[:16]


def image_data(part: Mapping[str, Any]) -> tuple[str, str]:
    """Read the base64 of an image's content part, or of an object in it, and what stands before it in a data URL."""
    holders = [part, *(each for each in part.values() if isinstance(each, dict))]
    if (holder := next((each for each in holders if "data" in each), None)) is not None:
        return "", str(holder["data"])
    texts = [each for holder in holders for each in holder.values() if isinstance(each, str)]
    longest = max(texts, key=len, default="")
    address, comma, data = longest.partition(";base64,")
    return (address, data) if comma else ("", address)


def content_of(value: object, kind: Kind) -> bytes:
    """Find what a reference names: the text of a string, an image's data, the JSON of anything else."""
    if kind is Kind.IMAGE and isinstance(value, dict):
        return image_data(value)[1].encode()
    return value.encode() if isinstance(value, str) else orjson.dumps(value)
