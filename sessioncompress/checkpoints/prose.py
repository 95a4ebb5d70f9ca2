"""Prose by a model or a command: the prompt for it, and the checks of the answer.

A model gets the newest part of the conversation, as data between tags that nothing in it can close.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import NamedTuple

from sessioncompress.checkpoints.notes import NOTHING, Besides
from sessioncompress.checkpoints.quote import HERE, below, clean, clip, excerpt, lines_left_out, one_line, quoted
from sessioncompress.core import marker
from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, counted

_RESULT = 800
"""Characters of a result that are sent, half of them from its tail."""
_FOR_BEFORE = 0.25
"""The largest share of the room for a previous summary."""
_NAMES = {Say.PROMPT: "user", Say.ANSWER: "agent", Say.RESULT: "result"}


class Prompt(NamedTuple):
    """The input of a model: its instructions, and the data."""

    system: str
    data: str

    @property
    def whole(self) -> str:
        """Both in one text, for a program that accepts only one."""
        return f"{self.system}\n\n{self.data}"


class Conversation:
    """The newest part of the conversation that fits into `tokens`; `redact` removes what must not be sent."""

    def __init__(self, tokens: int, redact: Callable[[str], str]) -> None:
        self._room = tokens * CHARACTERS_PER_TOKEN
        self._redact = redact
        self._said: deque[str] = deque()
        self._size = 0
        self._gone = 0
        self._before = ""

    def take(self, said: Utterance) -> None:
        """Add the next utterance. An earlier summary covers everything before it, or a branch."""
        if said.say in (Say.SUMMARY, Say.FOREIGN):
            before = self._shortened(said.text, int(self._room * _FOR_BEFORE))
            self._before = f"{self._before}\n\n{before}"[-int(self._room * _FOR_BEFORE) :].lstrip()
            return
        if said.say is Say.CALL:
            # A call shows only the first strings of its arguments, on one line.
            given = map(self._harmless, islice(said.contents(), 8))
            text = f"[call] {one_line(said.tool, 60)}: {one_line(' | '.join(given), 400)}"
        elif said.say is Say.RESULT:
            failed = ", failed" if said.failed else ""
            text = f"[result{failed}] {self._ends(said.text)}"
        else:
            text = f"[{_NAMES[said.say]}] {self._shortened(said.text, self._room // 2)}"
        self._said.append(text)
        self._size += len(text) + 2
        self._trim(self._room)

    def _trim(self, room: int) -> None:
        """Drop the oldest parts until the others fit; the newest always stays."""
        while self._size > room and len(self._said) > 1:
            self._size -= len(self._said.popleft()) + 2
            self._gone += 1

    @property
    def has_before(self) -> bool:
        """True if it has an earlier summary."""
        return bool(self._before)

    def data(self, budget: int, besides: Besides = NOTHING, *, system: str = "") -> str:
        """Write the data for a summary of `budget` tokens; the `system` prompt uses part of the same room."""
        # The facts take 40 % of the summary, and a word takes six characters.
        words = int(budget * 0.6 * CHARACTERS_PER_TOKEN) // 6
        wanted = f"Sum this up in at most {words:,} words."
        # Additions by a user or a policy must not displace the conversation.
        most = int(self._room * 0.05)
        given = (besides.goal, besides.instructions, "\n\n".join(besides.context))
        goal, instructions, context = (self._shortened(each, most) for each in given)
        fixed = len(self._before) + len(goal) + len(instructions) + len(context) + len(system) + 400
        self._trim(self._room - fixed)
        said = [f"[{counted(self._gone, 'entry', 'entries')} before this left out]"] if self._gone else []
        parts = [_tagged("previous-summary", self._before)] if self._before else []
        parts.append(_tagged("conversation", "\n\n".join([*said, *self._said])))
        if context:
            parts.append(_tagged("added_context", context))
        if goal:
            parts.append(_tagged("current_goal", goal))
        parts.append(_tagged("instructions", f"{instructions}\n{wanted}".strip()))
        return "\n\n".join(parts) + "\n"

    def _harmless(self, text: str) -> str:
        """Redact a text, then again without invisible characters, which may hide a secret."""
        return self._redact(clean(self._redact(text)))

    def _ends(self, text: str) -> str:
        text = self._harmless(text)
        if len(text) <= _RESULT:
            return text
        head, tail = text[: _RESULT // 2], text[-_RESULT // 2 :]
        between = text.count("\n") - head.count("\n") - tail.count("\n")
        return f"{head}\n{lines_left_out(max(between, 1))}\n{tail}"

    def _shortened(self, text: str, most: int) -> str:
        """Return a text, or whole lines from its head and tail if it is too long."""
        text = self._harmless(text)
        if len(text) <= most:
            return text
        if len(text) > 4 * most:
            text = f"{text[: 2 * most]}\n{text[-2 * most :]}"
        return "\n".join(clip([one_line(line, most) for line in text.split("\n")], most))[:most]


def _tagged(name: str, text: str) -> str:
    return f"<{name}>\n{text}\n</{name}>"


_CLOSES = re.compile(
    r"</\s{0,3}(?:summary|previous-summary|conversation|state_snapshot|current_goal|added_context|instructions|"
    r"read-files|modified-files|system-reminder)\b",
    re.IGNORECASE,
)
"""A closing tag of an element that encloses a summary or a prompt."""
_CALLS = re.compile(
    r"</?\s{0,3}(?:antml:|tool_call|tool_use|tool_result|function_call|function=|function_results|invoke\b|parameter\b)|"
    r"\[/?TOOL_(?:CALLS?|RESULTS?)\]|<\|[A-Za-z_]|"
    r"\"type\"\s{0,8}:\s{0,8}\"(?:tool|function)_(?:use|call)\"|\"function_call\"\s{0,8}:|\bto=functions\.|"
    r"\{\s{0,8}\"(?:name|tool|function)\"\s{0,8}:\s{0,8}[\"{][^\n]{0,80}\"(?:arguments|parameters|input)\"\s{0,8}:",
    re.IGNORECASE,
)
"""The syntax in which models call tools, and providers end turns."""
_TAG_LINE = re.compile(r"^[>\s*-]{0,8}</?[A-Za-z][\w:.-]{0,60}(?:\s[^<>\n]{0,300})?/?>[ \t]{0,8}$", re.MULTILINE)
_EXTENSIONS = (
    "bash|bat|c|cc|cfg|conf|cpp|cs|css|csv|cjs|dart|db|env|ex|exs|gif|go|gradle|h|hpp|hs|htm|html|ini|ipynb|java|jpg|"
    "js|json|jsonl|jsx|kt|lock|log|lua|m|md|mdx|mjs|ml|mod|patch|pdf|php|pl|png|properties|proto|ps1|py|pyi|r|rb|rs|"
    "rst|sass|scala|scss|sh|sql|sum|svelte|svg|swift|tf|toml|ts|tsx|txt|vue|xml|yaml|yml|zig|zsh"
)
_WORD = re.compile(
    r"[^\s`'\"<>()\[\]{},;|*\u2018-\u201f\u2013\u2014\u2026\xab\xbb\u3001\u3002\uff0c\uff08\uff09]{2,400}"
)
_FILE = re.compile(rf"[\w@+.~$%#-]{{1,200}}\.(?:{_EXTENSIONS})", re.IGNORECASE)
_PLACE = re.compile(r"(?::[0-9]{1,9}(?:[-:][0-9]{1,9})?|#L[0-9]{1,9}(?:-L?[0-9]{1,9})?)\Z")
"""Line numbers after a path."""
_DEEP = 3
"""Minimum number of parts that make a path if only slashes indicate one: `and/or` is not a path."""
STRUCK = "(a path that the session does not have)"


def why_not(text: str, most: int) -> str:
    """Return why a text can't be in a summary with room for `most` characters of it, or "" if it can."""
    if not text.strip():
        return "the answer is empty"
    if len(text) > most:
        return f"the answer has {len(text):,} characters, and at most {most:,} fit"
    if marker.PREFIX.rstrip() in text or marker.HEAD in text:
        return "the answer has what only sessioncompress writes"
    if _CLOSES.search(text):
        return "the answer has a closing tag of what it is to stand in"
    if _CALLS.search(text):
        return "the answer contains a tool call"
    if _TAG_LINE.search(text):
        return "the answer has a line that is a tag"
    if not clean(text).strip():
        return "the answer is empty"
    written = sum(map(len, rows(text)))
    return f"the answer takes {written:,} characters, and at most {most:,} fit" if written > most else ""


def paths_in(text: str) -> list[str]:
    """Return the paths, file names and addresses in a text."""
    return list(dict.fromkeys(filter(_is_path, map(_bare, _WORD.findall(text)))))


def _bare(word: str) -> str:
    return _PLACE.sub("", word.rstrip(".:!?"))


def _is_path(word: str) -> bool:
    steps = word.replace("\\", "/").split("/")
    if len(steps) == 1:
        return _FILE.fullmatch(word) is not None
    if not any(step.strip(".~") for step in steps) or not any(map(str.isalpha, word)):
        return False
    begins = word.startswith(("/", "~/", "./", "../")) or word[1:3] in (":\\", ":/") or "://" in word
    return begins or len(steps) >= _DEEP or _FILE.fullmatch(steps[-1]) is not None


def missing(paths: Iterable[str], texts: Iterable[str], root: str = "") -> set[str]:
    """Return the paths that occur in none of the texts, neither in full nor relative to the root."""
    left = {path: {_plain(path), _plain(below(path, root))} for path in paths}
    for text in texts:
        if not left:
            break
        left = {path: names for path, names in left.items() if not any(name in text for name in names)}
    return set(left)


def _plain(path: str) -> str:
    return path.removeprefix(HERE).rstrip("/\\") or path


def strike(text: str, paths: Collection[str]) -> str:
    """Replace these paths in a text with STRUCK."""
    if not paths:
        return text
    return _WORD.sub(lambda found: _struck(found[0], paths), text)


def _struck(word: str, paths: Collection[str]) -> str:
    bare = _bare(word)
    return word.replace(bare, STRUCK, 1) if bare in paths else word


def rows(text: str) -> list[str]:
    """Write a text as a row of a summary, with each line quoted."""
    return [quoted("-", excerpt(text, len(text) + 1))]
