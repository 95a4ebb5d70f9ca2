"""The table of agents: each row has the beginning of an agent's sessions, their folders, and the class for them.

A format is imported only if a session may be its own: importing all of them takes longer than compressing a small
session. This module is imported before anything is known about a file, so it must import fast.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sessioncompress.errors import NOTHING_DONE, UsageError

if TYPE_CHECKING:
    from sessioncompress.formats.base import Entry, Format, Head

FIRST_BYTES = 4096
"""Bytes of a file that are read to detect what it may be: the signs of a session are at its beginning."""


class _AgentWords(Struct, frozen=True):
    """Words for errors and documents: whose sessions these are, the versions with which CI resumes them, their kind."""

    agents: str
    resumed: str
    kind: str = "JSON lines"
    since: str = ""


class _AgentRow(Struct, frozen=True):
    """One agent: its names, and the module and class of its format."""

    name: str
    """Our name for the agent and its format."""
    also: tuple[str, ...]
    """Names that people and the agent's own commands and packages use."""
    made_by: str

    sign: tuple[str, str | None]
    """A key (and its value, if that matters) of one of the first entries, or outside the messages, of every session."""

    said: _AgentWords

    keys: tuple[bytes, ...] = ()
    others: tuple[bytes, ...] = ()
    """Bytes that the beginning of a certain session contains, and bytes that it must not contain."""

    compactions: tuple[bytes, ...] = ()
    """Bytes that mark an entry with which the agent replaced earlier ones for the model."""

    is_document: bool = False

    folders: tuple[tuple[str, str, str], ...] = ()
    """Environment variable, default folder ("" for none), and the pattern of the session folders in it."""

    databases: tuple[tuple[str, str, str], ...] = ()
    """The same for databases in which the agent keeps sessions as rows."""

    is_relative: bool = False
    """A fork of pi: its sessions are also valid sessions of pi, with extra entries."""

    is_nameless: bool = False
    """Names no agent: such a file, found by chance in a folder, may be anything, such as test data."""

    is_indexed: bool = False
    """The agent keeps offsets into the file elsewhere; see Format.pointers()."""

    sweep: tuple[str, ...] = ()
    """For an agent that deletes sessions after some days: its settings file in its folder, and the path of the key."""

    frees: tuple[bytes, float] = (b"", 0.45)
    """Bytes in lines with tool output, and the share of these that runs freed, stores included; see estimate()."""

    def shows(self, head: Head) -> bool:
        """True if a file may be a session of this agent, so that its format must be asked."""
        key, value = self.sign
        around = (head.document,) if isinstance(head.document, dict) else ()
        return any(key in each and value in (None, each[key]) for each in (*head.entries, *around))

    def is_plain(self, first: bytes) -> bool:
        """True if a file with these first bytes is certainly a session of this agent."""
        return (
            bool(self.keys) and all(key in first for key in self.keys) and not any(key in first for key in self.others)
        )


TABLE = (
    _AgentRow(
        "pi",
        ("pi-mono", "pi-coding-agent", "gitclaw"),
        "pi.Pi",
        ("type", "session"),
        _AgentWords("pi, GitClaw", "0.74.2, 0.87.1; 1.5.2 reads them back"),
        # Its forks begin alike, and so does a harness of DeepSeek's.
        keys=(b'"type":"session"', b'"id"', b'"timestamp"', b'"cwd"'),
        others=(b'"createdAt"', b'"seq"'),
        compactions=(b'"type":"compaction"', b'"type":"reset_boundary"'),
        folders=(("PI_CODING_AGENT_DIR", "~/.pi/agent", "sessions/*"), ("PI_CODING_AGENT_SESSION_DIR", "", "")),
        frees=(b"", 0.59),
    ),
    _AgentRow(
        "oh-my-pi",
        ("omp",),
        "pi.OhMyPi",
        ("type", "session"),
        _AgentWords("oh-my-pi", "18.2.3"),
        # It also obeys pi's variable; the sessions that it writes there are found there. XDG_DATA_HOME has no `agent`.
        folders=(
            ("OMP_CODING_AGENT_DIR", "~/.omp/agent", "sessions/*"),
            ("", "~/.omp", "profiles/*/agent/sessions/*"),
            ("XDG_DATA_HOME", "", "omp/sessions/*"),
            ("XDG_DATA_HOME", "", "omp/profiles/*/sessions/*"),
        ),
        is_relative=True,
        frees=(b'"toolResult"', 0.65),
    ),
    _AgentRow(
        "openclaw",
        ("clawdbot", "moltbot"),
        "pi.OpenClaw",
        ("type", "session"),
        _AgentWords(
            "OpenClaw",
            "2026.9.6, by hand",
            "rows of its database; JSON lines until mid-2026",
        ),
        # Its former names are Clawdbot and Moltbot.
        folders=(
            ("OPENCLAW_STATE_DIR", "~/.openclaw", "agents/*/sessions"),
            ("CLAWDBOT_STATE_DIR", "~/.clawdbot", "agents/*/sessions"),
            ("", "~/.moltbot", "agents/*/sessions"),
        ),
        databases=(("OPENCLAW_STATE_DIR", "~/.openclaw", "agents/*/agent/openclaw-agent.sqlite"),),
        is_relative=True,
        frees=(b"", 0.26),
    ),
    _AgentRow(
        "claude-code",
        ("claude", "cc"),
        "claude.ClaudeCode",
        ("parentUuid", None),
        _AgentWords("Claude Code", "2.1.100, 2.1.332", "JSON lines; those of its subagents too"),
        keys=(b'"parentUuid"', b'"sessionId"', b'"type"'),
        others=(b'"parts"',),
        compactions=(b'"subtype":"compact_boundary"',),
        folders=(
            ("CLAUDE_CONFIG_DIR", "~/.claude", "projects/*"),
            ("CLAUDE_CONFIG_DIR", "~/.claude", "projects/*/*/subagents"),
        ),
        sweep=("settings.json", "cleanupPeriodDays"),
        frees=(b'"tool_result"', 0.8),
    ),
    _AgentRow(
        "codex",
        ("codex-cli",),
        "codex.Codex",
        ("type", "session_meta"),
        _AgentWords("Codex CLI", "0.169.0", "JSON lines: rollouts that begin with `session_meta`"),
        keys=(b'"type":"session_meta"', b'"timestamp"', b'"payload"', b'"cwd"'),
        compactions=(b'"type":"compacted"',),
        folders=(("CODEX_HOME", "~/.codex", "sessions/*/*/*"), ("CODEX_HOME", "~/.codex", "archived_sessions")),
        is_indexed=True,
        frees=(b'_output"', 0.88),
    ),
    _AgentRow(
        "gemini",
        ("gemini-cli",),
        "gemini.Gemini",
        ("projectHash", None),
        _AgentWords("Gemini CLI", "0.61.0", "JSON lines (`.jsonl`); one JSON document (`.json`) in earlier versions"),
        keys=(b'"sessionId"', b'"projectHash"'),
        compactions=(b"<state_snapshot>",),
        is_document=True,
        folders=(("GEMINI_CLI_HOME", "~", ".gemini/tmp/*/chats"),),
        sweep=(".gemini/settings.json", "general", "sessionRetention", "maxAge"),
    ),
    _AgentRow(
        "qwen",
        ("qwen-code",),
        "qwen.Qwen",
        ("parentUuid", None),
        _AgentWords("Qwen Code", "0.24.4"),
        keys=(b'"uuid"', b'"parentUuid"', b'"sessionId"', b'"message":{"role":"user","parts"'),
        compactions=(b'"subtype":"chat_compression"',),
        folders=(("QWEN_RUNTIME_DIR", "", "projects/*/chats"), ("QWEN_HOME", "~/.qwen", "projects/*/chats")),
    ),
    _AgentRow(
        "copilot",
        ("copilot-cli", "github-copilot"),
        "copilot.Copilot",
        ("type", "session.start"),
        _AgentWords("GitHub Copilot CLI", "1.0.102", "JSON lines: `events.jsonl`"),
        keys=(b'"type":"session.start"', b'"sessionId"', b'"copilotVersion"'),
        compactions=(b'"type":"session.compaction_complete"',),
        folders=(("COPILOT_HOME", "~/.copilot", "session-state/*"),),
    ),
    _AgentRow(
        "opencode",
        ("kilo", "kilocode"),
        "opencode.OpenCode",
        ("info", None),
        _AgentWords(
            "OpenCode", "1.18.34; Kilo 7.7.9", "rows of its database, or Kilo's; or one JSON document, as exported"
        ),
        keys=(b'"info"', b'"projectID"', b'"directory"'),
        compactions=(b'"type": "compaction"',),
        is_document=True,
        databases=(
            ("XDG_DATA_HOME", "~/.local/share", "opencode/opencode*.db"),
            ("XDG_DATA_HOME", "~/.local/share", "kilo/kilo*.db"),
            ("OPENCODE_DB", "", ""),
            ("KILO_DB", "", ""),
        ),
    ),
    _AgentRow(
        "gencode",
        ("gen",),
        "chat.GenCode",
        ("metadata", None),
        _AgentWords("gencode", "not: it is on no registry any more", "one JSON document", since="0.4"),
        keys=(b'"metadata"', b'"createdAt"', b'"provider"', b'"cwd"'),
        is_document=True,
        folders=(("", "~/.gen", "sessions"),),
    ),
    # It names no agent, so it has no first keys: a file found by chance may be anything.
    _AgentRow(
        "openai-chat",
        ("openai", "chat"),
        "chat.Chat",
        ("role", None),
        _AgentWords(
            "a chat in OpenAI's form",
            "not: they name no agent",
            "JSON lines, one message each; or one JSON document: a list, or an object with `messages`",
        ),
        is_nameless=True,
    ),
)

NAMES = tuple(sorted(row.name for row in TABLE))
NAMELESS = frozenset(row.name for row in TABLE if row.is_nameless)
FREES = {row.name: row.frees for row in TABLE}
COMPACTIONS = frozenset(mark for row in TABLE for mark in row.compactions)
"""Bytes that mark any agent's compaction. They do not match quoted text, where quotes are escaped."""

_AGENTS = [row.said.agents for row in sorted(TABLE, key=lambda row: row.is_nameless)]
AGENTS = f"{', '.join(_AGENTS[:-2])} or {_AGENTS[-2]}, or {_AGENTS[-1]}"
"""The owners of these sessions, for the error that refuses a file."""

_BOM = b"\xef\xbb\xbf"


def may_be_session(first: bytes) -> bool:
    """True if a document with these first bytes may be a session; its format decides after reading all of it."""
    return any(row.is_plain(first) for row in TABLE if row.is_document)


def is_plainly_session(first: bytes) -> bool:
    """True if a file with these first bytes is certainly a session; for any other file its format must be asked."""
    return first.startswith(b"{") and any(row.is_plain(first) for row in TABLE)


def indexed(first: bytes) -> str:
    """Return the agent of a session with these first bytes if it keeps offsets into it elsewhere, else ""."""
    return next((row.name for row in TABLE if row.is_indexed and row.is_plain(first)), "")


def head_of(lines: Iterable[bytes], document: Any = None) -> Head:
    """Parse a file's first lines, skipping lines that are not JSON objects.

    For a document, the lines are its messages, and `document` is everything else in it.
    """
    from sessioncompress.core.jsonl import is_readable, loads
    from sessioncompress.formats.base import HEAD_LINES, Head

    entries: list[Entry] = []
    parsed: dict[bytes, Entry] = {}
    for raw in islice(lines, HEAD_LINES):
        try:
            entry = loads(raw.removeprefix(_BOM)) if is_readable(raw) else None
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
            if not raw.startswith(_BOM):
                parsed[raw] = entry
    return Head(tuple(entries), document, parsed)


def detect(head: Head) -> Format | None:
    """Return the format of the file with this head, or None if no format, or more than one, recognizes it."""
    found = recognizing(head)
    return found[0] if len(found) == 1 else None


def recognizing(head: Head) -> tuple[Format, ...]:
    """Return the formats that recognize this head. A pi fork excludes pi itself and other forks."""
    found = [row for row in TABLE if row.shows(head) and _made(row).recognizes(head)]
    if relatives := [row for row in found if row.is_relative]:
        found = [relatives[0], *(row for row in found if row.name != "pi" and not row.is_relative)]
    return tuple(map(_made, found))


def format_named(name: str) -> Format:
    """Return the format with any name of its agent. Raises UsageError if there is none."""
    known = agent_named(name)
    return _made(next(row for row in TABLE if row.name == known))


def folded(name: str) -> str:
    """Normalize a name for comparison: ignore case, blanks and dashes."""
    return name.lower().replace(" ", "").replace("-", "")


def agent_named(name: str, among: Sequence[str] = NAMES) -> str:
    """Return our name for an agent, by any of its names. Raises UsageError that suggests the nearest of `among`."""
    named = ((row.name, (row.name, *row.also, row.said.agents)) for row in TABLE if row.name in among)
    names = {each: agent for agent, called in named for each in called}
    if found := {folded(each): agent for each, agent in names.items()}.get(folded(name)):
        return found
    import difflib

    near = difflib.get_close_matches(name.lower(), names, n=1)
    meant = f"; did you mean {names[near[0]]}?" if near else ""
    raise UsageError(f"'{name}' is not one of {', '.join(among)}{meant}", state=NOTHING_DONE)


@cache
def _made(row: _AgentRow) -> Format:
    module, _, kind = row.made_by.partition(".")
    made: Format = getattr(import_module(f"sessioncompress.formats.{module}"), kind)()
    return made


KEEPER = "pi"
"""The format of an agent that keeps its state, and its sessions, in a project."""
_STORAGE = ("session", "message", "part")


def agent_folders() -> Iterator[Path]:
    """Yield the folders of this user's agents that may hold sessions."""
    yield from _there(_homes())


def databases(agent: str | None = None, near: str = "") -> Iterator[Path]:
    """Yield the databases of this user's agents, or of one of them.

    With `near`, also missing ones if a folder of this name next to them has something of their name.
    """
    places = [place for row in TABLE if agent in (None, row.name) for place in _named(row.databases)]
    yield from _there(places)
    split = ((home, pattern.rpartition("/")) for home, pattern in places if near and pattern)
    for found in _there((home, f"{above}/{near}/{name}") for home, (above, _, name) in split):
        yield found.parent.with_name(found.name)


def _there(places: Iterable[tuple[Path, str]]) -> Iterator[Path]:
    for home, pattern in places:
        # This user can read nothing in a home that can't be entered.
        with suppress(OSError):
            yield from sorted(home.glob(pattern)) if pattern else [home]


def databases_in(folder: Path) -> list[Path]:
    """Return the databases in a folder that have an agent's database name."""
    patterns = [pattern.rpartition("/")[2] for row in TABLE for _, _, pattern in row.databases if pattern]
    return sorted(each for pattern in patterns for each in folder.glob(pattern))


def named_roots(agent: str | None = None) -> Iterator[Path]:
    """Yield the top folders (existing or not) of all agents, or of one; reads nothing."""
    homes = _homes(agent)
    roots = (home.joinpath(*takewhile(lambda step: step != "*", pattern.split("/"))) for home, pattern in homes)
    yield from dict.fromkeys(roots)


def agent_roots(agent: str | None = None) -> Iterator[Path]:
    """Yield named_roots(), and the targets of links in them: no walk follows links.

    Link and folder must be this user's. A folder that can't be read is not skipped.
    """
    yield from (folders := list(named_roots(agent)))
    yield from links(folders, own=True)


def links(folders: Iterable[Path], *, own: bool) -> Iterator[Path]:
    """Yield the links to folders in these folders: this user's links to own folders if `own`, else all others."""
    for folder in folders:
        # The later walk reports what can't be read.
        with suppress(OSError), os.scandir(folder) as found:
            for link in sorted(Path(each.path) for each in found if each.is_symlink() and each.is_dir()):
                owners = {link.lstat().st_uid, link.stat().st_uid}
                if own is (sys.platform == "win32" or owners == {os.geteuid()}):
                    yield link


_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0}
_KEPT = re.compile(r"([0-9]{1,9})(?:\.[0-9]{1,9})?([hdwm]?)")


def sweeps() -> Iterator[tuple[str, str, Path, str, float]]:
    """Yield the agents that delete old sessions: our name, theirs, the settings file, its key, and the number of days.

    A missing or invalid setting counts as the default of 30 days.
    """
    from sessioncompress.core.jsonl import loads
    from sessioncompress.formats import values

    for row in TABLE:
        if row.sweep:
            name, *path, key = row.sweep
            variable, usual, _ = row.folders[0]
            file, days, settings = _expanded(os.environ.get(variable) or usual) / name, 30.0, None
            with suppress(OSError, ValueError):
                if file.is_file() and file.stat().st_size <= 1 << 20:
                    settings = loads(file.read_bytes())
            around = values.fields(values.at(settings, tuple(path)))
            if found := _KEPT.fullmatch(str(around.get(key))):
                days = int(found[1]) * _DAYS.get(found[2], 1.0) or days
            if around.get("enabled") is not False:
                yield row.name, row.said.agents, file, ".".join(row.sweep[1:]), days


def projects_near(session: Path) -> list[str]:
    """Return folders that an agent lists as projects, for sessions that name theirs only by digest (Gemini CLI)."""
    from sessioncompress.core.jsonl import loads
    from sessioncompress.formats import values

    known = list[str]()
    for above, name in zip(session.parents[1:4:2], (".project_root", "projects.json"), strict=False):
        with suppress(OSError, ValueError):
            if (file := above / name).is_file() and file.stat().st_size <= 1 << 20:
                text = file.read_bytes()
                is_list = name.endswith(".json")
                known += values.fields(values.fields(loads(text)).get("projects")) if is_list else [text.decode()]
    return known


def _homes(agent: str | None = None) -> Iterator[tuple[Path, str]]:
    for row in TABLE if agent is None else [row for row in TABLE if row.name == agent]:
        yield from _named(row.folders)


def _named(places: Iterable[tuple[str, str, str]]) -> Iterator[tuple[Path, str]]:
    for variable, usual, pattern in places:
        if named := os.environ.get(variable) or usual:
            yield _expanded(named), pattern


def _expanded(named: str) -> Path:
    # If no user has such a home, `~` stays unexpanded, and no such folder exists.
    return Path(os.path.expanduser(named))  # noqa: PTH111


def subagents(session: Path) -> list[Path]:
    """Return the sessions of a session's subagents, which Claude Code keeps in a folder of the same name."""
    return sorted(session.with_suffix("").glob("subagents/*.jsonl"))


def below(folder: Path) -> Iterator[Path]:
    """Yield where an agent with its state in a project would keep sessions, for a project in that folder."""
    yield from (folder / each for each in (".GITCLAW/state/sessions", "state/sessions"))


def opencode() -> Path | None:
    """Return this user's OpenCode folder if it holds sessions as files, which only OpenCode itself can export."""
    folder = _expanded(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "opencode"
    return folder if holds_opencode(folder) else None


def holds_opencode(folder: Path) -> bool:
    """True if OpenCode kept its sessions in this folder before it had a database."""
    return any(all(map(os.path.isdir, (top / each for each in _STORAGE))) for top in (folder, folder / "storage"))
