"""What programs and patches in calls name: the commands that they run, and the files that they change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from shlex import join

_LOOKED_AT = 24_000
"""Characters of a program in which commands are looked for."""
_MOST = 20
_STRING = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`(?:[^`\\]|\\.)*+`"
_WORDS = re.compile(_STRING + r"|[\"'`].*", re.DOTALL)
_RUN = re.compile(
    rf"\b(?:cmd|command)[\"']?\s{{0,8}}[:=]\s{{0,8}}(\[(?:\s{{0,8}}(?:{_STRING})\s{{0,8}},?)*+|{_STRING})", re.DOTALL
)
_SHELL, _FLAG = re.compile(r"(?:[\w/]{1,40}/)?(?:ba|z|da|k|fi)?sh"), re.compile(r"-\w{0,3}c")
"""The first two words of a list where the third one is what a shell runs."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"n": "\n", "t": "\t", "r": "\r"}
_BEGINS = re.compile(r"(?:^[ \t]{0,16}|[\"'`]|\\n)\*\*\* Begin Patch", re.MULTILINE)
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
        literals = _WORDS.findall(each[1])
        if not templates and any(word.startswith("`") and "$" in word for word in literals):
            continue
        words = [word[1:-1] for word in literals]
        is_script = len(words) > 2 and _SHELL.fullmatch(words[0]) and _FLAG.fullmatch(words[1])  # noqa: PLR2004
        found.append(words[2] if is_script else join(words) if len(words) > 1 else "".join(words))
    return [command for command in found if command]


def unescaped(literal: str) -> str:
    """Read what a string literal of a program says."""
    return _ESCAPED.sub(lambda each: _MEANT.get(each[1], each[1]), literal)


def patched(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the files of a patch, what becomes of each, and its part of the patch."""
    end = 0
    while begins := _BEGINS.search(text, end):
        # In a literal of a program line ends are escaped.
        start, line_end = begins.end(), "\\n" if text.startswith("\\n", begins.end()) else "\n"
        end = text.find(f"{line_end}*** End Patch", start)
        end = len(text) if end < 0 else end
        patch = unescaped(text[start:end]) if line_end != "\n" else text[start:end]
        headers = list(_HEADER.finditer(patch))
        ends = [*(header.start() for header in headers[1:]), len(patch)]
        for header, part_end in zip(headers, ends, strict=False):
            yield header[2].strip(), _HOW.get(header[1], "moved here"), patch[header.end() : part_end]
