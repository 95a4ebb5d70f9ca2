"""The one grammar of the markers that replace left-out text; only this module writes and recognizes them.

    [[sessioncompress: 398 of 404 lines, 18.6 KB, kept on disk: sessioncompress show 7f3a91c2e05b]]

A marker is ASCII and names the command that prints the original. In the arguments of a call it also tells the model
that the tool received everything and that the line must not be copied, because models copy from their own old calls.

After the last marker a preview may end with an index, a line of names that occur only in the left-out text:

    in it: fn decode(signature_b64 | src/a.ts b.ts | fooBar bazQux
"""

from __future__ import annotations

import re

PREFIX = "[[sessioncompress: "
PREFIX_BYTES = PREFIX.encode()
HEAD = "[Extracted by sessioncompress from "
"""Begins our summaries, or is near their beginning."""
ARGUMENT_END = "; the tool received all of it; do not copy this line"

INDEX = "in it: "
INDEX_BYTES = INDEX.encode()
_COPIED = re.compile(rf"^{INDEX}[^\n]+ \| ", re.MULTILINE)

_COUNT = r"[0-9]{1,3}(?:,[0-9]{3}){0,6}"
_AMOUNT = r"(?:[0-9]{1,4} bytes|[0-9]{1,13}\.[0-9] [KM]B)"
_LONGEST = 512
"""Maximum characters between the prefix and the closing brackets. Even the longest names stay below."""
_PLAIN = r" -Z^-~"
"""The characters allowed in a marker: ASCII without brackets and backslash."""

_FORM = re.compile(
    re.escape(PREFIX)
    + rf"(?=(?:(?P<left>{_COUNT})(?: of (?P<of>{_COUNT}))? lines?,)?)(?P<body>[{_PLAIN}]{{1,{_LONGEST}}}+)\]\]"
)
"""Anything in the form of a marker. This is the only pattern that finds and reads markers.

It is linear because no two matches can begin inside each other, and its numbers are bounded.
"""
_OUTSIDE = re.compile(rf"[^{_PLAIN}]")
_WAY_BACK = ", kept on disk: sessioncompress show "
_REFERENCE = re.compile(r"sessioncompress show ([0-9a-f]{12,64})\b")
_SIZE = re.compile(rf"(?:^|, ){_AMOUNT}(?=[,;]|$)")
_CUT = 2
"""Lines at both ends of a gap may be cut: they count as left out, but part of each is still there."""
_LONGEST_NAME = 80
_LEFT_OFF = "..."
_KB = 1024


def marker(what: str, ref: str | None, *, in_arguments: bool = False) -> str:
    """Return the marker for a gap; `what` describes the gap, and `ref` is None if no original was kept."""
    way_back = f"{_WAY_BACK}{ref}" if ref else ""
    return f"{PREFIX}{what}{way_back}{ARGUMENT_END if in_arguments else ''}]]"


def occurs_in(text: str) -> bool:
    """True if the text contains anything in the form of a marker, ours or not."""
    return PREFIX in text and _FORM.search(text) is not None


def copies_index(text: str) -> bool:
    """True if a line of the text looks like an index. In text without our index, a model has copied it."""
    return INDEX in text and _COPIED.search(text) is not None


def is_one(text: str) -> bool:
    """True if the text is one marker and nothing else."""
    return text.startswith(PREFIX) and _FORM.fullmatch(text) is not None


def whole_in(text: str) -> list[str]:
    """Return everything in the text that has the form of a marker, ours or not, in order."""
    return [form.group() for form in _forms(text)]


def around(text: str) -> list[str]:
    """Return the text before, between and after the markers."""
    ends = [0, *(end for form in _forms(text) for end in form.span()), len(text)]
    return [text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]


def stands_in(text: str, *, in_arguments: bool) -> bool:
    """True if markers account for what is left out of one text, as ours do. A text that quotes one text looks the same.

    A text cut in several places has several markers: each counts lines of the same text, some of those lines are
    between them, and only the first names the original. Markers of different texts are certainly quotes.
    """
    forms = _forms(text)
    named = references(text)
    if not forms or len(named) > 1 or named != references(forms[0].group()):
        return False
    between = around(text)[1:-1]
    counted = {form["of"] for form in forms}
    alike = len(counted) == 1 and all(map(str.strip, between)) and all(_SIZE.search(form["body"]) for form in forms)
    return alike and (ARGUMENT_END in forms[0]["body"]) == in_arguments


def is_unedited(text: str, *, in_arguments: bool) -> bool:
    """True if the markers in one text have the words that marker() writes; numbers are not checked."""
    return stands_in(text, in_arguments=in_arguments) and all(_WAY_BACK + ref in text for ref in references(text))


def adds_up(text: str) -> bool:
    """True if the lines around the markers match the markers' counts; a quoting text usually has other lines too."""
    forms = _forms(text)
    left = sum(_count(form["left"]) for form in forms)
    of_lines = max((_count(form["of"]) for form in forms), default=0)
    standing = text.count("\n") + (not text.endswith("\n")) - len(forms)
    # The index is not a line of the text, but the text's own last line may look like one.
    return 0 <= left + standing - (of_lines or left) <= _CUT * len(forms) + has_index(text)


def has_index(text: str) -> bool:
    """True if the last line of a text is an index."""
    return text.startswith(INDEX, text.rfind("\n") + 1)


def references(text: str) -> list[str]:
    """Return the references that markers in the text name, in order."""
    return [ref for form in _forms(text) for ref in _REFERENCE.findall(form["body"])]


def _forms(text: str) -> list[re.Match[str]]:
    return list(_FORM.finditer(text)) if PREFIX in text else []


def _count(written: str | None) -> int:
    return int(written.replace(",", "")) if written else 0


def left_out(lines: int, of_lines: int, size: int) -> str:
    """Write how much was left out: `398 of 404 lines, 18.6 KB`, or only the size if the text has one line."""
    if of_lines <= 1:
        return amount(size)
    counted = f"{lines:,} of {of_lines:,} lines" if lines < of_lines else f"{lines:,} lines"
    return f"{counted}, {amount(size)}"


def amount(size: int) -> str:
    """Write bytes in a readable unit: `812 bytes`, `18.6 KB`, `3.4 MB`."""
    if size < _KB:
        return f"{size} bytes"
    if size < _KB * _KB:
        return f"{size / _KB:.1f} KB"
    return f"{size / (_KB * _KB):.1f} MB"


def name(text: str) -> str:
    """Write an external name (tool, file) so that it can't break the marker: ASCII, no brackets, at most 80 characters.

    Paths get forward slashes; a long one loses whole folders from its beginning.
    """
    plain = _OUTSIDE.sub("?", text.replace("\\", "/"))
    if len(plain) <= _LONGEST_NAME:
        return plain
    end = plain[len(_LEFT_OFF) - _LONGEST_NAME :]
    folder, slash, rest = end.partition("/")
    return f"{_LEFT_OFF}{slash}{rest}" if slash else _LEFT_OFF + folder
