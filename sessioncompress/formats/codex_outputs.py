"""What Codex's calls gave back: texts and images, as the model reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sessioncompress.core import marker
from sessioncompress.core.marker import digest_of
from sessioncompress.core.model import Block, Kind, Path
from sessioncompress.core.splice import within
from sessioncompress.formats import values

TEXT_PARTS = frozenset({"input_text", "output_text"})
PREAMBLE = re.compile(
    r"(?:(?:Chunk ID|Wall time|Process|Exit code|Original token count)\b[^\n]{0,80}\n){1,8}Output:\n"
    r"(?:Warning: truncated output[^\n]{0,80}\n)?(?:Total output lines: \d+\n)?\n?"
)
"""What stands above the output of a command."""

_PASSING = re.compile(r"^(?:Chunk ID|Wall time|Original token count)\b.*\n", re.MULTILINE)
"""What says of two equal outputs only when they came."""


def output_texts(output: Any) -> Iterator[tuple[Path, str]]:
    """Yield the texts of a call's output, and where they stand in it: it is a text, or a list of parts."""
    if isinstance(output, str):
        inner = wrapped(output)
        yield ((), output) if inner is None else (("output",), inner)
    for index, part in enumerate(values.items(output)):
        if values.text(values.fields(part).get("type")) in TEXT_PARTS and isinstance(part.get("text"), str):
            yield (index, "text"), part["text"]


def wrapped(output: str) -> str | None:
    """Return the text of an output that older versions wrote, as a string, in an object with its metadata."""
    found = values.fields(within(output)) if '"metadata"' in output else {}
    text = found.get("output")
    return text if isinstance(text, str) and isinstance(found.get("metadata"), dict) else None


def result_text(path: Path, text: str, tool: str, call: str) -> list[Block]:
    """Return the block of a text that the model reads, where it is long enough or holds something like a marker."""
    marked = marker.occurs_in(text)
    if len(text) < values.SMALLEST_BLOCK and not marked:
        return []
    compared = written = values.literal(text)
    if not marked and (above := PREAMBLE.match(text)) is not None:
        # Outputs are compared without when, and in how much time, they came. JSON escapes each character by itself.
        rest = written[len(values.literal(above.group())) - 1 :]
        compared = values.literal(_PASSING.sub("", above.group()))[:-1] + rest
    size = len(written)
    return [Block(Kind.RESULT, path, size, size, tool, call, digest_of(compared), marked)]


def images_in(path: Path, parts: Any, tool: str = "", call: str = "") -> list[Block]:
    """Return the blocks of the images among content parts; one that only names an address stays."""
    found: list[Block] = []
    for index, part in enumerate(values.items(parts)):
        if values.fields(part).get("type") == "input_image" and values.text(part.get("image_url")).startswith("data:"):
            found += values.whole(Kind.IMAGE, (*path, index), part, tool, call)
    return found
