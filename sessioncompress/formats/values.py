"""Helpers for formats: read parsed values and texts of calls, and make blocks from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from shlex import join
from typing import Any, NoReturn

import orjson

from sessioncompress.core import marker
from sessioncompress.core.jsonl import is_deep, is_readable, shallow
from sessioncompress.core.model import Block, Call, JsonPath, Kind, make_block
from sessioncompress.core.references import attached, digest_of
from sessioncompress.core.splice import within

SMALLEST_BLOCK = 256
"""Bytes. Smaller values are never replaced, so they are ignored."""

CALL = 150
RESULT = 50
PICTURE = 6400
"""Estimated characters of a call's frame (with name and id), a result's frame, and a large image or page.

The first two were measured on recorded usage: together 45 to 75 tokens with every vendor. The third is Anthropic's
number, 1,600 tokens.
"""

_PAGE = re.compile(rb"/Type ?/Page\b")

FILE_KEYS = ("path", "file_path", "filePath", "absolute_path", "dir_path")
PART_KEYS = ("offset", "limit", "range", "startLine", "endLine", "view_range")
"""The arguments that name a call's file, and the part of it."""

OLD_TEXT_KEYS = ("oldText", "old_string", "old_str", "oldString")
"""The arguments that hold the text that an edit removes."""

DONE_STATES = frozenset({"completed", "done", "cancelled", "canceled", "deleted"})
"""States of a todo item that is no longer open."""

PLACE_KEYS = frozenset({*FILE_KEYS, "paths", "cwd", "workdir"})
"""The arguments that name a file or a folder: they stay, however long."""

STOPS = ("error", "aborted")
"""Stop reasons of incomplete messages in pi and its forks: the next request omits them."""

ADDED: Mapping[str, tuple[Any, ...]] = {
    "type": ("text", "input_text", "event_msg", "token_count", "other"),
    "text": (),
    "info": (),
    "rate_limits": (),
    "synthetic": (True,),
    "pruned": (True,),
    "prunedAt": (),
    "compacted": (),
}
"""Keys that runs add, with their possible values other than texts and null."""
ADDED_TIMES = ("prunedAt", "compacted")
CLEARED = re.compile(
    r"\[(?:Tool: [^\n]+ returned \d+ chars(?:, exit code -?\d+)?|Old tool result content cleared"
    r"|Output truncated - \d+ tokens)\]"
)
"""Texts that agents write in place of a cleared result."""

_NAMES = (b'"id":', b'"uuid":', b'"timestamp":')


def is_named(raw: bytes) -> bool:
    """True if a line has an id or a time, so that an equal line is a copy of it. In strings quotes are escaped."""
    return any(name in raw for name in _NAMES)


def given(written: str) -> Any:
    """Parse call arguments from JSON text; text that is not JSON is returned as is.

    Arguments that are nested too deep become an empty object.
    """
    if written.lstrip()[:1] in {"{", "["} and is_deep(written.encode(errors="replace")):
        return {}
    value = within(written)
    return written if value is None else value


def literal(value: Any) -> bytes:
    """Return the value's JSON text, or b"" if it is nested too deep to be written."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return b""


def text(value: Any) -> str:
    """Return a string as is, and "" for anything else."""
    return value if isinstance(value, str) else ""


def items(value: Any) -> Sequence[Any]:
    """Return a list as is, and an empty sequence for anything else."""
    return value if isinstance(value, list) else ()


def fields(value: Any) -> Mapping[str, Any]:
    """Return an object as is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def at(value: Any, path: JsonPath) -> Any:
    """Return the value at a path, or None if there is none."""
    with suppress(KeyError, IndexError, TypeError):
        for step in path:
            value = value[step]
        return value
    return None


def part_text(part: Any) -> str:
    """Return the text of a content part; all agents use the same key."""
    return text(fields(part).get("text"))


def type_of(part: Any) -> str:
    """Return the type of a content part, or of any other object that has one."""
    return text(fields(part).get("type"))


@cache
def part_path(index: int, *inner: str) -> JsonPath:
    """Return the path of a content part in a line's message, or of a value in it."""
    return ("message", "content", index, *inner)


def parts(content: Any) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the parts of a message's content that are objects, with their indexes."""
    return [(index, part) for index, part in enumerate(items(content)) if isinstance(part, dict)]


def large(path: JsonPath, content: Any) -> list[tuple[JsonPath, Any]]:
    """Return the parts of a content at this path whose image or similar data is large enough to be replaced."""
    return [((*path, at), part) for at, part in parts(content) if len(attached(part).data) >= SMALLEST_BLOCK]


def words(content: Any) -> str:
    """Return the text of a message's content: a string, or the texts of its parts joined by line breaks."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(part_text, items(content))))


def characters(content: Any) -> int:
    """Count the characters in a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return len(content)
    return sum(len(part_text(part)) for part in items(content))


def thought(written: Any, seal: Any) -> int:
    """Estimate the characters of thinking that is sent again: a seal is about twice as long as its text."""
    return max(len(text(written)), len(text(seal)) // 2)


def pictures(blocks: Iterable[Block]) -> int:
    """Sum up the characters that a model reads for the images and documents among blocks; see picture()."""
    return sum([block.bulk for block in blocks if block.kind is Kind.IMAGE and not block.marked])


def picture(part: Any) -> int:
    """Estimate what a model reads of an image or a document, in characters: all of a text, an image by its pixels."""
    import struct
    from base64 import b64decode
    from io import BytesIO

    import imagesize  # type: ignore[import-untyped] # it brings no types

    found = attached(part)
    if found.is_text:
        return len(found.content)
    with suppress(ValueError, TypeError, struct.error):
        if found.media == "application/pdf":
            # No vendor reads more than 600 pages of one document. They are counted in its first 12 MB.
            return PICTURE * min(max(len(_PAGE.findall(b64decode(found.data[: 1 << 24]))), 1), 600)
        # The size of an image is in its first bytes, after metadata of at most 64 KB.
        head = b64decode(found.data[:88_000])
        # PNG, JPEG, GIF, WebP
        if head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")):
            width, height = imagesize.get(BytesIO(head))
            # Images are scaled down to 1,568 pixels on the longer side; 187.5 pixels count as one character.
            shrunk = min(1, 1568 / max(width, height, 1))
            if min(width, height) > 0:
                # Gemini and most OpenAI models charge at least 258 tokens an image.
                return min(max(int(width * height * shrunk**2 / 187.5), 4 * 258), PICTURE)
    return PICTURE


def whole(kind: Kind, path: JsonPath, value: Any, tool: str, call: str, *, unseen: bool = False) -> list[Block]:
    """Make the block of a value that is replaced as a whole, or [] if it is small."""
    size = len(literal(value))
    if size < SMALLEST_BLOCK:
        return []
    return [Block(kind, path, size, picture(value) if kind is Kind.IMAGE else size, tool, call, unseen=unseen)]


def thinking(path: JsonPath, value: Any) -> list[Block]:
    """Make the block of a thought."""
    size = len(literal(value))
    return [Block(Kind.THINKING, path, size, size)]


def long_text(
    kind: Kind, path: JsonPath, value: str, tool: str, call: str, beside: Iterable[tuple[JsonPath, Any]] = ()
) -> list[Block]:
    """Make the block of a text that is long (including its extra parts) or contains the form of a marker."""
    holds_one = marker.occurs_in(value)
    more = literal([part for _, part in beside]) if beside else b""
    if len(value) + len(more) < SMALLEST_BLOCK and not holds_one:
        return []
    written = literal(value) + more
    bulk = len(value.encode(errors="replace")) + len(more)
    return [make_block((kind, path, len(written), bulk, tool, call, digest_of(written), holds_one, False))]


def arguments(path: JsonPath, given: Any, made: Call, blocks: list[Block], *, signed: bool = False) -> int:
    """Add the blocks of one call; return the size of its arguments. Signed arguments have no bulk."""
    written = literal(given)
    if isinstance(given, dict) and len(written) >= SMALLEST_BLOCK:
        bulk = 0 if signed else bulk_of(given)
        blocks.append(make_block((Kind.ARGUMENT, path, len(written), bulk, made.tool, made.name, b"", False, False)))
    if may_copy(written):
        blocks += marked_leaves(Kind.ARGUMENT, path, given, made.tool, made.name)
    return len(written)


def may_copy(written: bytes) -> bool:
    """Check fast, for most arguments, that they contain neither a marker nor an index."""
    return marker.PREFIX_BYTES in written or marker.INDEX_BYTES in written


def marked_leaves(kind: Kind, path: JsonPath, value: Any, tool: str, call: str) -> list[Block]:
    """Make the blocks of the strings, at any depth, that contain the form of a marker, or in arguments an index."""
    if isinstance(value, str):
        if not marker.occurs_in(value) and not (kind is Kind.ARGUMENT and marker.copies_index(value)):
            return []
        written = literal(value)
        return [Block(kind, path, len(written), 0, tool, call, digest_of(written), marked=True)]
    children = value.items() if isinstance(value, dict) else enumerate(items(value))
    return [block for step, child in children for block in marked_leaves(kind, (*path, step), child, tool, call)]


def marked_images(path: JsonPath, content: Any, tool: str = "", call: str = "") -> list[Block]:
    """Return the parts that may have replaced an image or a document: markers and previews."""
    found: list[Block] = []
    for index, part in parts(content):
        said = text(part.get("text"))
        if marker.stands_in(said, in_arguments=False) and marker.adds_up(said):
            found += marked_leaves(Kind.IMAGE, (*path, index, "text"), said, tool, call)
    return found


def bulk_of(value: Any) -> int:
    """Count the characters of all strings of at least SMALLEST_BLOCK characters, at any depth."""
    if isinstance(value, str):
        return len(value) if len(value) >= SMALLEST_BLOCK else 0
    return sum(map(bulk_of, value.values() if isinstance(value, dict) else items(value)))


_LITERAL = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`(?:[^`\\]|\\.)*+`"
_WORDS = re.compile(_LITERAL + r"|[\"'`].*", re.DOTALL)
_RUN = re.compile(
    rf"\b(?:cmd|command)[\"']?\s{{0,8}}[:=]\s{{0,8}}(\[(?:\s{{0,8}}(?:{_LITERAL})\s{{0,8}},?)*+|{_LITERAL})", re.DOTALL
)
_SHELL, _FLAG = re.compile(r"(?:[\w/]{1,40}/)?(?:ba|z|da|k|fi)?sh"), re.compile(r"-\w{0,3}c")
"""Matches the first two words of a list whose third word is a shell script."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BEGINS = re.compile(r"(?:^[ \t]{0,16}|[\"'`]|\\n)\*\*\* Begin Patch", re.MULTILINE)
_HEADER = re.compile(
    r"^(?:[ \t]{0,16}[\"'`])?\*\*\* (?:(Add|Update|Delete) File|Move to): ([^\n]{1,400}?)(?:[\"'`],?)?$", re.MULTILINE
)
"""A heading in a patch, or in a literal that is a line of one."""


def commands(program: str, *, templates: bool = False) -> list[str]:
    """Return the commands in a program that calls tools, as its literals write them; a list of words gives one command.

    With `templates`, include commands with parts that are inserted at run time.
    """
    found: list[str] = []
    # A model writes shorter programs in one call; an attacker's may have any length.
    for each in islice(_RUN.finditer(program[:24_000]), 20):
        literals = _WORDS.findall(each[1])
        if not templates and any(word.startswith("`") and "$" in word for word in literals):
            continue
        words = [word[1:-1] for word in literals]
        is_script = len(words) > 2 and _SHELL.fullmatch(words[0]) and _FLAG.fullmatch(words[1])  # noqa: PLR2004
        found.append(words[2] if is_script else join(words) if len(words) > 1 else "".join(words))
    return [command for command in found if command]


def unescaped(literal: str) -> str:
    """Return the value of a program's string literal."""
    meant = {"n": "\n", "t": "\t", "r": "\r"}
    return _ESCAPED.sub(lambda each: meant.get(each[1], each[1]), literal)


def patched(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the files of a patch: name, what happens to the file, and its part of the patch."""
    end, becomes = 0, {"Add": "written", "Update": "edited", "Delete": "deleted"}
    while begins := _BEGINS.search(text, end):
        # Line breaks are escaped inside a program's literal.
        start, line_end = begins.end(), "\\n" if text.startswith("\\n", begins.end()) else "\n"
        end = text.find(f"{line_end}*** End Patch", start)
        end = len(text) if end < 0 else end
        patch = unescaped(text[start:end]) if line_end != "\n" else text[start:end]
        headers = list(_HEADER.finditer(patch))
        ends = [*(header.start() for header in headers[1:]), len(patch)]
        for header, part_end in zip(headers, ends, strict=False):
            yield header[2].strip(), becomes.get(header[1], "moved here"), patch[header.end() : part_end]


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?)', re.DOTALL)
_LONGEST_STRING = 4096
"""Bytes. No id is this long."""

_LONGEST_SKELETON = 16 * 1024 * 1024
_CHUNK = 1024 * 1024


class Skeleton:
    """A line that is too long to be parsed, with its long strings emptied: the rest is nearly always small.

    Reading only its first bytes is not enough: an entry's id may follow its content, and the ids of calls are inside
    it.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self._open = b""
        self._long = False

    def add(self, piece: bytes) -> None:
        """Add the next bytes of the line."""
        for start in range(0, len(piece), _CHUNK):
            if len(self._kept) <= _LONGEST_SKELETON:
                chunk, self._open = self._open + piece[start : start + _CHUNK], b""
                self._kept += _STRING.sub(self._shortened, chunk)

    def left(self) -> bytes | None:
        """Return the skeleton of the bytes so far, or None if even that is too long."""
        return None if len(self._kept) > _LONGEST_SKELETON else bytes(self._kept + self._open)

    def _shortened(self, string: re.Match[bytes]) -> bytes:
        """Shorten a string. An incomplete one waits for the next bytes."""
        long = self._long or len(string.group()) > _LONGEST_STRING
        ends = string.group(1) == b'"'
        self._long = long and not ends
        if not ends:
            self._open = b'"' + string.group(1) if long else string.group()
            return b""
        return b'""' if long else string.group()


@cache
def member(key: str) -> re.Pattern[bytes]:
    """Return a pattern for a member with this key whose value is a string without escapes."""
    return re.compile(rf'"{re.escape(key)}"\s*:\s*"([^"\\]*)"'.encode())


def entry_of(raw: bytes, linking: Iterable[str]) -> dict[str, Any] | None:
    """Parse the object that an agent reads, without values that are too large or too deep; None if it is not one.

    From a line that is too large to be parsed, only the strings that link lines are extracted; see Reader.linking.
    """
    if not is_readable(raw):
        if not raw.lstrip().startswith(b"{"):
            return None
        entry: dict[str, Any] = {}
        for path in linking:
            outer, _, key = path.rpartition(".")
            if match := member(key).search(raw):
                holder = entry.setdefault(outer, {}) if outer else entry
                holder[key] = match.group(1).decode(errors="replace")
        return entry
    try:
        value = json.loads(
            shallow(raw).decode(errors="replace"),
            parse_int=lambda written: int(written) if len(written) <= 15 else 0,  # noqa: PLR2004
            parse_float=lambda _: 0,
            parse_constant=_refuse,
        )
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
