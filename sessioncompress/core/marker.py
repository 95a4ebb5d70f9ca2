"""The one grammar of what stands in for left-out text; made and recognized here alone.

    [[sessioncompress: 398 of 404 lines, 18.6 KB, kept on disk: sessioncompress show 7f3a91c2e05b]]

It is ASCII and names the command that prints the original. Inside the arguments of a call it also says that the
tool received all of it and that the line is not to be copied, since models copy what their own old calls hold.

Behind it a preview may end with an index, a line of the names that the text holds and nothing else does:

    in it: fn decode(signature_b64 | src/a.ts b.ts | fooBar bazQux
"""

from __future__ import annotations

import re

PREFIX = "[[sessioncompress: "
PREFIX_BYTES = PREFIX.encode()
HEAD = "[Extracted by sessioncompress from "
"""Begins a summary of ours, or stands near its beginning."""
ARGUMENT_END = "; the tool received all of it; do not copy this line"

INDEX = "in it: "
"""Begins the index."""
INDEX_BYTES = INDEX.encode()
_COPIED = re.compile(rf"^{INDEX}[^\n]+ \| ", re.MULTILINE)

_COUNT = r"[0-9]{1,3}(?:,[0-9]{3}){0,6}"
_AMOUNT = r"(?:[0-9]{1,4} bytes|[0-9]{1,13}\.[0-9] [KM]B)"
_LONGEST = 512
"""Characters between the prefix and the brackets that end a marker; with the longest names we write fewer."""
_PLAIN = r" -Z^-~"
"""The characters that stand in a marker: ASCII without brackets and backslash."""

_FORM = re.compile(
    re.escape(PREFIX)
    + rf"(?=(?:(?P<left>{_COUNT})(?: of (?P<of>{_COUNT}))? lines?,)?)(?P<body>[{_PLAIN}]{{1,{_LONGEST}}}+)\]\]"
)
"""What has the marker's form. Everything here that looks for markers or reads one goes by this pattern alone.

It is linear, since no two of its matches can begin inside each other, and no number in it is too long to be read.
"""
_OUTSIDE = re.compile(rf"[^{_PLAIN}]")
_REFERENCE = re.compile(r"sessioncompress show ([0-9a-f]{12,64})\b")
_SIZE = re.compile(rf"(?:^|, ){_AMOUNT}(?=[,;]|$)")
_CUT = 2
"""Lines at the two ends of a gap may be cut: they are counted as left out, and stand there in part."""
_LONGEST_NAME = 80
_LEFT_OFF = "..."
_KB = 1024


def marker(what: str, ref: str | None, *, in_arguments: bool = False) -> str:
    """Write the marker that says `what` was left out; `ref` None where no original was kept."""
    way_back = f", kept on disk: sessioncompress show {ref}" if ref else ""
    return f"{PREFIX}{what}{way_back}{ARGUMENT_END if in_arguments else ''}]]"


def occurs_in(text: str) -> bool:
    """Tell whether the text holds anything in the marker's form, ours or not."""
    return PREFIX in text and _FORM.search(text) is not None


def copies_index(text: str) -> bool:
    """Tell whether a line of the text looks like an index: where none of ours stands, a model has copied it."""
    return INDEX in text and _COPIED.search(text) is not None


def is_one(text: str) -> bool:
    """Tell whether the text is one marker and nothing else."""
    return text.startswith(PREFIX) and _FORM.fullmatch(text) is not None


def whole_in(text: str) -> list[str]:
    """Find what in the text has the marker's form, ours or not, in its order."""
    return [form.group() for form in _forms(text)]


def around(text: str) -> list[str]:
    """Find what stands before, between and behind the markers in the text."""
    ends = [0, *(end for form in _forms(text) for end in form.span()), len(text)]
    return [text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]


def stands_in(text: str, *, in_arguments: bool) -> bool:
    """Tell whether what is left out of one text is marked in it as we do; a text that quotes one looks the same.

    Where a text is cut in several places, each marker counts the lines of the same text, some of which stand between
    them, and the first names its original; markers of several texts are a quote for certain.
    """
    forms = _forms(text)
    named = references(text)
    if not forms or len(named) > 1 or named != references(forms[0].group()):
        return False
    between = around(text)[1:-1]
    counted = {form["of"] for form in forms}
    alike = len(counted) == 1 and all(map(str.strip, between)) and all(_SIZE.search(form["body"]) for form in forms)
    return alike and (ARGUMENT_END in forms[0]["body"]) == in_arguments


def adds_up(text: str) -> bool:
    """Tell whether around the markers as many lines stand as these say; in a text that quotes one others do too."""
    forms = _forms(text)
    left = sum(_count(form["left"]) for form in forms)
    of_lines = max((_count(form["of"]) for form in forms), default=0)
    standing = text.count("\n") + (not text.endswith("\n")) - len(forms)
    # The index is no line of the text; but the text's own last line may look like one.
    return 0 <= left + standing - (of_lines or left) <= _CUT * len(forms) + has_index(text)


def has_index(text: str) -> bool:
    """Tell whether the last line of a text is an index."""
    return text.startswith(INDEX, text.rfind("\n") + 1)


def references(text: str) -> list[str]:
    """Find the references that markers in the text name, in their order."""
    return [ref for form in _forms(text) for ref in _REFERENCE.findall(form["body"])]


def _forms(text: str) -> list[re.Match[str]]:
    return list(_FORM.finditer(text)) if PREFIX in text else []


def _count(written: str | None) -> int:
    return int(written.replace(",", "")) if written else 0


def left_out(lines: int, of_lines: int, size: int) -> str:
    """Write how much was left out: `398 of 404 lines, 18.6 KB`, without lines where the text has only one."""
    if of_lines <= 1:
        return amount(size)
    counted = f"{lines:,} of {of_lines:,} lines" if lines < of_lines else f"{lines:,} lines"
    return f"{counted}, {amount(size)}"


def amount(size: int) -> str:
    """Write bytes as a reader takes them in: `812 bytes`, `18.6 KB`, `3.4 MB`."""
    if size < _KB:
        return f"{size} bytes"
    if size < _KB * _KB:
        return f"{size / _KB:.1f} KB"
    return f"{size / (_KB * _KB):.1f} MB"


def name(text: str) -> str:
    """Write an outside name (tool, file) so that it cannot leave the marker: ASCII, no brackets, at most 80 long.

    A path is written with slashes, and loses whole folders from its beginning.
    """
    plain = _OUTSIDE.sub("?", text.replace("\\", "/"))
    if len(plain) <= _LONGEST_NAME:
        return plain
    end = plain[len(_LEFT_OFF) - _LONGEST_NAME :]
    folder, slash, rest = end.partition("/")
    return f"{_LEFT_OFF}{slash}{rest}" if slash else _LEFT_OFF + folder
