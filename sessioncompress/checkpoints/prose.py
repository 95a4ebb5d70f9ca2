"""What a model, or a command, wrote of a session: whether it may stand in a summary, and how."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from sessioncompress.checkpoints.paths import HERE, below
from sessioncompress.checkpoints.quote import clean, excerpt, quoted
from sessioncompress.core import marker

_CLOSES = re.compile(
    r"</\s{0,3}(?:summary|previous-summary|conversation|state_snapshot|current_goal|added_context|instructions|"
    r"read-files|modified-files|system-reminder)\b",
    re.IGNORECASE,
)
"""A closing tag of a form that a summary or a prompt stands in."""
_CALLS = re.compile(
    r"</?\s{0,3}(?:antml:|tool_call|tool_use|tool_result|function_call|function=|function_results|invoke\b|parameter\b)|"
    r"\[/?TOOL_(?:CALLS?|RESULTS?)\]|<\|[A-Za-z_]|"
    r"\"type\"\s{0,8}:\s{0,8}\"(?:tool|function)_(?:use|call)\"|\"function_call\"\s{0,8}:|\bto=functions\.|"
    r"\{\s{0,8}\"(?:name|tool|function)\"\s{0,8}:\s{0,8}[\"{][^\n]{0,80}\"(?:arguments|parameters|input)\"\s{0,8}:",
    re.IGNORECASE,
)
"""What a model calls tools with, or a provider ends a turn with."""
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
"""Lines that stand behind a path."""
_DEEP = 3
"""Parts of what is a path by its slashes alone: `and/or` is none."""
STRUCK = "(a path that the session does not have)"


def why_not(text: str, most: int) -> str:
    """Tell why a text may not stand in a summary in which it has at most so many characters; empty where it may."""
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
    """Find the paths, file names and addresses in a text."""
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
    """Find the paths that stand in none of the texts, neither as they are nor as told from the root."""
    left = {path: {_plain(path), _plain(below(path, root))} for path in paths}
    for text in texts:
        if not left:
            break
        left = {path: names for path, names in left.items() if not any(name in text for name in names)}
    return set(left)


def _plain(path: str) -> str:
    return path.removeprefix(HERE).rstrip("/\\") or path


def strike(text: str, paths: Collection[str]) -> str:
    """Take the paths out of a text."""
    if not paths:
        return text
    return _WORD.sub(lambda found: _struck(found[0], paths), text)


def _struck(word: str, paths: Collection[str]) -> str:
    bare = _bare(word)
    return word.replace(bare, STRUCK, 1) if bare in paths else word


def rows(text: str) -> list[str]:
    """Write a text as a row of a summary: each line quoted, so that none can be taken for anything else."""
    return [quoted("-", excerpt(text, len(text) + 1))]
