"""Shell commands in the arguments of a call: the files that they change or read, and how a call ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sessioncompress.checkpoints.quote import clean, joined, one_line
from sessioncompress.compressors import preview
from sessioncompress.formats.values import commands, unescaped
from sessioncompress.formats.values import text as text_of

_LOOKED_AT = 6_000
"""Characters of a command that are parsed."""
_OF_RESULT = 8_000
"""Characters of a result that are read."""
_SHELLS = frozenset({"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "powershell", "pwsh"})
_TESTS = re.compile(
    r"\b(?:pytest|jest|vitest|mocha|go (?:test|build|vet)|cargo (?:test|check|build|clippy|nextest)|"
    r"npm (?:run |test)|npx |pnpm|yarn|bun (?:test|run)|make\b|tox|ruff|mypy|tsc|eslint|gradle|mvn|ctest|rspec|dotnet|"
    r"lint|typecheck|biome)"
)
_GIT = re.compile(
    r"\bgit (?:-C \S{1,200} )?(?:commit|push|checkout|switch|merge|rebase|tag|worktree|reset|revert|stash|cherry-pick)|"
    r"\bgh (?:pr|issue|release|run)\b"
)
_PURE = re.compile(
    r"\s{0,8}(?:grep|rg|sed -n|cat|ls|head|tail|find|wc|echo|nl|pwd|tree|awk|fd|stat|file|sleep|"
    r"git (?:-C \S{1,200} )?(?:status|diff|log|show|branch|rev-parse|ls-files|blame|remote|fetch)|"
    r"gh (?:issue|pr|run) (?:view|list|diff|checks)|which|jq|type|command -v)\b"
)
_CD = re.compile(r"\s{0,8}cd\s{1,4}(\"[^\"\n]{1,300}\"|'[^'\n]{1,300}'|[^\s;&|]{1,300})\s{0,8}(?:&&|;|\n)\s{0,8}")
_TOKEN = re.compile(
    r"\"(?:[^\"\\]|\\.)*+\"?|'[^']*+'?|[0-9]?>{1,2}&?|&>|\|\||&&|[;|&\n<()]|[^\s;|&<>()\"']++", re.DOTALL
)
"""An unclosed quote extends to the end."""
_HERE = re.compile(r"<<-?\s{0,4}[\"']?([A-Za-z_]\w{0,40})[\"']?")
_PLACE = re.compile(r"[\w@.~+/:\\-]{1,300}\Z")
_NOWHERE = ("/dev/", "/tmp/", "/var/tmp/", "/proc/")  # noqa: S108 - nothing is written there
REVERTED = "reverted"
"""The change of a file that git restores."""
_WORD = 2
_LEAVES = frozenset({"-b", "-B", "--staged", "-S"})
"""Options with which git creates a branch, or leaves files alone."""
_READERS = frozenset({"cat", "nl", "head", "tail", "sed", "less", "bat"})
_ENDS = frozenset({";", "|", "&", "&&", "||", "\n", "(", ")"})


class Script(NamedTuple):
    """A command: its text, one line of it without a leading `cd`, and whether its exit status is hidden."""

    text: str
    line: str
    hides: bool


_VIEWS = (" 2>&1", " | tail", " | head", " | grep")
"""Each begins a suffix that only selects output."""


def alike(line: str) -> str:
    """Return a command without the suffix that only selects its output."""
    return line[: min((at for view in _VIEWS if (at := line.find(view)) > 0), default=len(line))]


def commands_in(given: Mapping[str, Any], *, is_command: bool) -> list[Script]:
    """Return the commands that a call runs, including those in a program that calls tools."""
    for key in ("command", "cmd", "script"):
        value = given.get(key)
        if isinstance(value, list):
            words = [text_of(each) for each in value[:200]]
            value = words[-1] if len(words) > _WORD and words[0] in _SHELLS else " ".join(words)
        if isinstance(value, str) and value.strip():
            return [_script(value)]
    program = given.get("input")
    if isinstance(program, str) and (is_command or "exec_command" in program):
        return [_script(unescaped(raw), hides=True) for raw in commands(program)]
    return []


def _script(text: str, *, hides: bool = False) -> Script:
    command = without_cd(text[:_LOOKED_AT])
    lines = [line for line in command.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    first = lines[0] if lines else command
    line = one_line(first, 200) + (" [...]" if len(lines) > 1 else "")
    plain = _TOKEN.findall(command)
    return Script(text, line, hides or "|" in plain or "||" in plain)


def without_cd(command: str) -> str:
    """Drop a `cd` before a command, unless nothing else follows."""
    found = _CD.match(command)
    return command[found.end() :] if found and found.end() < len(command) else command


def grade(command: str) -> int:
    """Rank a command: tests, builds and git count more, pure reading is below 0."""
    command = without_cd(command[:_LOOKED_AT])
    worth = 3 * bool(_TESTS.search(command)) + 3 * bool(_GIT.search(command))
    return worth - 6 if _PURE.match(command) and not (worth or ">" in command) else worth


def script(command: str, folder: str = "") -> tuple[list[tuple[str, str]], list[str]]:
    """Return the files that a command changes by redirection or by name, with the kind of change, and those it shows.

    These are only some of them: a program may change files that the command does not name.
    """
    changed: list[tuple[str, str]] = []
    read: list[str] = []
    for words, target in _parts(_without_documents(command[:_LOOKED_AT])):
        if "." in target or "/" in target:
            changed.append((joined(folder, target), "written"))
        if not words:
            continue
        if words[0] == "git" and len(words) > _WORD and words[1] in ("mv", "rm"):
            words = words[1:]  # noqa: PLW2901
        changed += [(joined(folder, each), REVERTED) for each in _put_back(words)]
        name, rest = words[0].rpartition("/")[2], words[1:]
        places = [each for each in rest if not each.startswith("-")]
        if name == "cd" and places:
            folder = joined(folder, places[0])
        elif name == "rm":
            changed += [(joined(folder, each), "deleted") for each in places]
        elif name in ("mv", "cp") and len(places) >= _WORD:
            if name == "mv":
                changed += [(joined(folder, each), "moved") for each in places[:-1]]
            changed.append((joined(folder, places[-1]), "written"))
        elif name == "tee":
            changed += [(joined(folder, each), "written") for each in places]
        elif name == "sed" and any(each.startswith(("-i", "--in-place")) for each in rest):
            changed += [(joined(folder, each), "edited") for each in places if _is_file(each)]
        elif name in _READERS:
            read += [joined(folder, each) for each in places if _is_file(each)]
    return [each for each in changed if _is_place(each[0])], list(filter(_is_place, read))


def _put_back(words: Sequence[str]) -> list[str]:
    """Return the files that a git command names to restore them."""
    by = words[1:_WORD] if words[0] == "git" else []
    stashes = by == ["stash"] and words[_WORD : _WORD + 1] in (["push"], ["--"])
    if not (stashes or by in (["checkout"], ["restore"])) or not _LEAVES.isdisjoint(words):
        return []
    # Without the dashes, a word may name a branch.
    named = words[words.index("--") + 1 :] if "--" in words else [each for each in words if _is_file(each)]
    return [each for each in named if not each.startswith("-")]


def _is_file(word: str) -> bool:
    name = word.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    return (
        bool(dot and suffix.isalnum() and not suffix.isdigit()) and _is_place(word) and (bool(stem) or len(suffix) > 1)
    )


def _is_place(path: str) -> bool:
    return _PLACE.match(path) is not None and not path.startswith(_NOWHERE) and path not in (".", "..", "~", "/")


def _parts(command: str) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each simple command and, separately, the target of each redirection."""
    words: list[str] = []
    redirects = ""
    for token in _TOKEN.findall(command):
        if redirects:
            if not redirects.endswith("&") and token not in _ENDS:
                yield [], _bare(token)
            redirects = ""
        elif ">" in token and token.strip("0123456789>&") == "":
            redirects = token
        elif token in _ENDS:
            yield words, ""
            words = []
        elif token != "<":  # noqa: S105
            words.append(_bare(token))
    yield words, ""


def _bare(token: str) -> str:
    return token[1:-1] if token[:1] in ("'", '"') and token[:1] == token[-1:] else token


def _without_documents(command: str) -> str:
    """Drop here-documents, whose lines are not commands."""
    kept: list[str] = []
    start = 0
    while found := _HERE.search(command, start):
        first = command.find("\n", found.end())
        end = command.find(f"\n{found[1]}", first) if first >= 0 else -1
        if end < 0:
            return "".join([*kept, command[start : first if first >= 0 else None]])
        kept.append(command[start : first + 1])
        start = end + 1 + len(found[1])
    return "".join([*kept, command[start:]])


_REPORTS = re.compile(
    r"\b[0-9]{1,7} (?:passed|failed|errors?|warnings?|tests?|problems?)\b|\bok\b|\bFAIL|PASS|\berror:|[Ee]xit code|"
    r"Success|succeeded|built in|\[[\w/.-]{1,80} [0-9a-f]{7,40}\]|https?://\S{1,200}/(?:pull|issues)/[0-9]"
)
_FAILURE = re.compile(
    r"\b(?:error|exception|failed|failure|fatal|panic|traceback|cannot|denied|not found|no such|undefined|refused)\b|"
    r"Error\b|FAIL|[\u2717\u2718]",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"(?:Output:|\(no output\)|\(?\w{1,20} completed with no output\)?|Exit code [0-9]+|Chunk ID: .*|Wall time: .*|"
    r"Original token count: .*|\[Showing lines .*|(?:Process|Command) running .*|"
    r"Traceback(?: \(most recent call last\))?:?|\(?(?:Command|Process) exited with code -?[0-9]+\)?|"
    r"[<\u2039][^>]{0,40}>|(?:Process Group |Background )?PG?IDs?: [0-9, ]{1,80}|User aborted the command|"
    r"\"?status\"?: .{0,40}|[^\w]*)",
    re.IGNORECASE,
)
_CODE_LINE = re.compile(r".*[;{},]|return\b.*", re.DOTALL)
_BARE_WORD = re.compile(r"[a-z_]{1,24}")
"""A line of code, and a word that tells nothing about a failure."""
HIDDEN = "ended with"
"""The verdict if the exit status does not belong to the command."""


class ShellResult(NamedTuple):
    """A verdict, and head and tail of the result. Most are never shown, so line() searches only when called."""

    verdict: str
    text: str = ""

    @property
    def failed(self) -> bool:
        """True if the agent knew of a failure."""
        return self.verdict == "failed"

    def line(self) -> str:
        """Return the most telling line of the result, or ""."""
        # Some programs frame a line to highlight it.
        lines = [line for each in clean(self.text).split("\n") if (line := each[:400].strip(" =\u2500\u2550"))]
        # An agent's additions to a result tell nothing.
        lines = [line for line in lines if not _NOISE.fullmatch(line.strip())]
        best = next((line for line in reversed(lines) if _REPORTS.search(line)), "")
        lines = [line for line in lines if not _CODE_LINE.fullmatch(line)]
        if self.failed:
            lines = [line for line in lines if not _BARE_WORD.fullmatch(line) or _FAILURE.search(line)]
        if self.failed and not best:
            best = next((line for line in lines if _FAILURE.search(line)), "")
        return one_line(best or (lines[-1] if lines else ""), 150)

    def written(self) -> str:
        """Write the outcome as it follows a call."""
        if line := self.line():
            return f"{self.verdict}: > {line}"
        return f"{self.verdict} nothing" if self.verdict == HIDDEN else self.verdict


def outcome(text: str, failed: bool | None, *, hidden: bool) -> ShellResult:
    """Return how a call ended; with `hidden`, its exit status does not belong to the command, as in a pipe."""
    bad = preview.failed(text, flagged=False) if failed is None else failed
    # The end or the beginning of a result reports how its call ended.
    ends = text if len(text) <= _OF_RESULT else f"{text[:2_000]}\n{text[2_000 - _OF_RESULT :]}"
    return ShellResult("failed" if bad else HIDDEN if hidden else "ok", ends)
