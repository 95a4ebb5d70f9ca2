"""What programs and patches in calls name: the commands that they run, and the files that they change."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LOOKED_AT = 24_000
"""Characters of a program in which commands are looked for."""
_MOST = 20
_LITERAL = re.compile(
    r"\b(?:cmd|command)[\"']?\s{0,8}[:=]\s{0,8}(?:\[\s{0,8}(?:[\"'][\w/]{1,20}[\"'],\s{0,8}[\"']-\w{1,4}[\"'],\s{0,8})?)?"
    r"(?:\"((?:[^\"\\]|\\.)*+)\"|'((?:[^'\\]|\\.)*+)'|`((?:[^`\\]|\\.)*+)`)",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"n": "\n", "t": "\t", "r": "\r"}
_PATCH = "*** Begin Patch"
_HEADER = re.compile(
    r"^(?:[ \t]{0,16}[\"'`])?\*\*\* (?:(Add|Update|Delete) File|Move to): ([^\n]{1,400}?)(?:[\"'`],?)?$", re.MULTILINE
)
"""A heading in a patch, or in a literal that is a line of one."""
_HOW = {"Add": "written", "Update": "edited", "Delete": "deleted"}


def commands(program: str, *, templates: bool = False) -> list[str]:
    """Find the commands in a program that calls tools, as its literals write them.

    With `templates`, also those of which parts are put in when it runs.
    """
    found = [(each[1] or each[2] or each[3] or "", each[3]) for each in _LITERAL.finditer(program[:_LOOKED_AT])]
    return [raw for raw, template in found[:_MOST] if raw and (templates or not template or "$" not in template)]


def unescaped(literal: str) -> str:
    """Read what a string literal of a program says."""
    return _ESCAPED.sub(lambda each: _MEANT.get(each[1], each[1]), literal)


def patched(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the files of a patch, what becomes of each, and its part of the patch."""
    if _PATCH not in text:
        return
    if f"{_PATCH}\n" not in text:
        # A literal of a program.
        text = unescaped(text)
    headers = list(_HEADER.finditer(text))
    for at, header in enumerate(headers):
        end = headers[at + 1].start() if at + 1 < len(headers) else len(text)
        yield header[2].strip(), _HOW.get(header[1], "moved here"), text[header.end() : end]
