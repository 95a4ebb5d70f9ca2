"""The content blocks of a pi message, and JSON text as JSON.stringify writes it."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import random
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

Block = dict[str, Any]

_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789"
_SURROGATE = re.compile("[\ud800-\udfff]")


def stringify(value: Any) -> str:
    """Return the JSON text that JavaScript's JSON.stringify gives for this value."""
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_string(key)}:{stringify(child)}" for key, child in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(stringify(child) for child in value) + "]"
    raise TypeError(f"no JSON for {type(value).__name__}")


def _string(value: str) -> str:
    written = json.dumps(value, ensure_ascii=False)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def number(value: float) -> str:
    """Return a number as JavaScript prints it: 0.000009 in full, 5e-7 with an exponent, 1.0 as 1."""
    if not math.isfinite(value):
        return "null"
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    power = int(exponent)
    if -6 <= power < 0:
        digits = mantissa.replace(".", "").lstrip("-")
        return ("-" if value < 0 else "") + "0." + "0" * (-power - 1) + digits
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power)}"


def dice(*seed: object) -> random.Random:
    """Return a random source that gives the same numbers for the same seed, everywhere."""
    return random.Random("/".join(str(part) for part in seed))


def hexes(length: int, *seed: object) -> str:
    """Return that many hex digits made from the seed."""
    digits = ""
    while len(digits) < length:
        digits += hashlib.sha256(f"{len(digits)}/{seed}".encode()).hexdigest()
    return digits[:length]


def letters(length: int, *seed: object) -> str:
    """Return that many letters and digits made from the seed."""
    rng = dice("letters", *seed)
    return "".join(rng.choice(_ALPHABET) for _ in range(length))


def signature(*seed: object, size: int = 320) -> str:
    """Return base64 text that looks like a model's signature."""
    return "Er" + base64.b64encode(dice("signature", *seed).randbytes(size)).decode()


def text(value: str, **extra: Any) -> Block:
    return {"type": "text", "text": value, **extra}


def thinking(value: str, signed: str | None = None, **extra: Any) -> Block:
    """Return a signed thinking block; the signature is made from the text when none is given."""
    return {"type": "thinking", "thinking": value, "thinkingSignature": signed or signature(value), **extra}


def unsigned(value: str) -> Block:
    """Return a thinking block without a signature."""
    return {"type": "thinking", "thinking": value}


def redacted(data: str | None = None) -> Block:
    """Return a thinking block whose text the provider keeps to itself."""
    return {
        "type": "thinking",
        "thinking": "[Reasoning redacted]",
        "thinkingSignature": data or signature("redacted", size=480),
        "redacted": True,
    }


def sealed_thinking() -> Block:
    """Return what oh-my-pi keeps of thinking whose text the provider keeps to itself."""
    return {"type": "redactedThinking", "data": signature("redacted", size=480)}


def call(call_id: str, tool: str, arguments: Mapping[str, Any], **extra: Any) -> Block:
    return {"type": "toolCall", "id": call_id, "name": tool, "arguments": dict(arguments), **extra}


def image(data: str | None = None, mime: str = "image/png") -> Block:
    """Return an image block; without data, a small valid picture."""
    return {"type": "image", "data": png() if data is None else data, "mimeType": mime}


def png(pixels: int = 16, seed: object = 0) -> str:
    """Return a valid square grey-scale PNG of random pixels as base64 text; 64 pixels are about 5.6 KB."""
    rng = dice("png", seed)
    rows = b"".join(b"\0" + rng.randbytes(pixels) for _ in range(pixels))
    head = pixels.to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    picture = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", _stored(rows)) + _chunk(b"IEND", b"")
    return base64.b64encode(picture).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


def _stored(data: bytes) -> bytes:
    """Return a zlib stream of stored blocks: the same bytes whatever zlib is installed."""
    pieces = [data[start : start + 65535] for start in range(0, len(data), 65535)] or [b""]
    blocks = b""
    for place, piece in enumerate(pieces):
        size = len(piece)
        last = bytes([place == len(pieces) - 1])
        blocks += last + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little") + piece
    return b"\x78\x01" + blocks + zlib.adler32(data).to_bytes(4, "big")
