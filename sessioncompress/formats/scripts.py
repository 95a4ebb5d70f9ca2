"""What programs and patches in calls name: the commands that they run, and the files that they change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

_LOOKED_AT = 24_000
"""Characters of a program in which commands are looked for."""
_MOST = 20
_STRING = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`(?:[^`\\]|\\.)*+`"
_WORDS = re.compile(_STRING, re.DOTALL)
_RUN = re.compile(
    rf"\b(?:cmd|command)[\"']?\s{{0,8}}[:=]\s{{0,8}}(\[(?:\s{{0,8}}(?:{_STRING})\s{{0,8}},?)*+|{_STRING})", re.DOTALL
)
_SHELL, _FLAG = re.compile(r".(?:[\w/]{1,40}/)?\w{0,10}sh."), re.compile(r".-\w{1,8}.")
"""The first two words of a list, in their quotes, where the third one is what a shell runs."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"n": "\n", "t": "\t", "r": "\r"}
_PATCH = "*** Begin Patch"
_HEADER = re.compile(
    r"^(?:[ \t]{0,16}[\"'`])?\*\*\* (?:(Add|Update|Delete) File|Move to): ([^\n]{1,400}?)(?:[\"'`],?)?$", re.MULTILINE
)
"""A heading in a patch, or in a literal that is a line of one."""
_HOW = {"Add": "written", "Update": "edited", "Delete": "deleted"}


def commands(program: str, *, templates: bool = False) -> list[str]:
    """Find the commands in a program that calls tools, as its literals write them; those of a list of words as one.

    With `templates`, also those of which parts are put in when it runs.
    """
    found: list[str] = []
    for each in islice(_RUN.finditer(program[:_LOOKED_AT]), _MOST):
        words = _WORDS.findall(each[1])
        match words:
            case [shell, flag, *rest] if rest and _SHELL.fullmatch(shell) and _FLAG.fullmatch(flag):
                words = rest
        if templates or not any(word.startswith("`") and "$" in word for word in words):
            found.append(" ".join(word[1:-1] for word in words))
    return [command for command in found if command]


def unescaped(literal: str) -> str:
    """Read what a string literal of a program says."""
    return _ESCAPED.sub(lambda each: _MEANT.get(each[1], each[1]), literal)


def patched(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the files of a patch, what becomes of each, and its part of the patch."""
    if _PATCH not in text:
        return
    # In a literal of a program line ends are escaped.
    text = "".join(unescaped(each) if each.startswith("\\n") else each for each in text.split(_PATCH)[1:])
    headers = list(_HEADER.finditer(text))
    for at, header in enumerate(headers):
        end = headers[at + 1].start() if at + 1 < len(headers) else len(text)
        yield header[2].strip(), _HOW.get(header[1], "moved here"), text[header.end() : end]
