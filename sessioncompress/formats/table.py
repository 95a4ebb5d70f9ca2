"""The table of agents: one row says what an agent's sessions begin with, where they lie, and which class reads them.

A format is imported when a session may be its own: to import all takes longer than to compress a small session. This
module itself is imported before anything is known of a file, so it imports nothing that takes time.
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

from sessioncompress.errors import UsageError

if TYPE_CHECKING:
    from sessioncompress.formats.base import Entry, Format, Head

FIRST_BYTES = 4096
"""So much of a file is read to tell what it may be: what names a session stands at its beginning."""


class _Said(Struct, frozen=True):
    """What errors and documents say: whose such sessions are, with which versions CI resumes them, what they are."""

    agents: str
    resumed: str
    kind: str = "JSON lines"
    since: str = ""


class _Row(Struct, frozen=True):
    """One agent: its names, and the class that knows its format, behind its module."""

    name: str
    """What we call the agent everywhere, and what its format is called."""
    also: tuple[str, ...]
    """What people and the agents' own commands and packages call it."""
    made_by: str

    sign: tuple[str, str | None]
    """A key, and its value where that matters, in one of the first entries or around the messages of every session."""

    said: _Said

    keys: tuple[bytes, ...] = ()
    others: tuple[bytes, ...] = ()
    """What stands in the first bytes of a file that is plainly a session, and what does not."""

    compactions: tuple[bytes, ...] = ()
    """Bytes that mark an entry by which the agent replaced earlier ones for the model."""

    is_document: bool = False

    folders: tuple[tuple[str, str, str], ...] = ()
    """Environment variable, folder without it (where that is empty there is none), where below it sessions lie."""

    databases: tuple[tuple[str, str, str], ...] = ()
    """The same for databases in which the agent keeps sessions as rows."""

    is_relative: bool = False
    """Of pi: what is one of these is a session of pi, too, with more in it."""

    is_nameless: bool = False
    """It names no agent: a file of it that is only met in a folder may be anything, test data say."""

    is_indexed: bool = False
    """The agent keeps places in the file elsewhere, see Format.pointers()."""

    sweep: tuple[str, ...] = ()
    """Of an agent that deletes what has not changed for some days: its settings in its folder, and the key for them."""

    frees: tuple[bytes, float] = (b"", 0.45)
    """What lines with a tool's output hold, and the share of these that runs freed, stores counted; see estimate()."""

    def shows(self, head: Head) -> bool:
        """Tell whether a file may be a session of this agent, so that its format is asked."""
        key, value = self.sign
        around = (head.document,) if isinstance(head.document, dict) else ()
        return any(key in each and value in (None, each[key]) for each in (*head.entries, *around))

    def is_plain(self, first: bytes) -> bool:
        """Tell whether a file that begins so is a session of this agent for certain."""
        return (
            bool(self.keys) and all(key in first for key in self.keys) and not any(key in first for key in self.others)
        )


TABLE = (
    _Row(
        "pi",
        ("pi-mono", "pi-coding-agent", "gitclaw"),
        "pi.Pi",
        ("type", "session"),
        _Said("pi, GitClaw", "0.74.2, 0.87.1; 1.5.2 reads them back"),
        # Its relatives begin alike, and so does a harness of DeepSeek's.
        keys=(b'"type":"session"', b'"id"', b'"timestamp"', b'"cwd"'),
        others=(b'"createdAt"', b'"seq"'),
        compactions=(b'"type":"compaction"', b'"type":"reset_boundary"'),
        folders=(("PI_CODING_AGENT_DIR", "~/.pi/agent", "sessions/*"), ("PI_CODING_AGENT_SESSION_DIR", "", "")),
        frees=(b"", 0.59),
    ),
    _Row(
        "oh-my-pi",
        ("omp",),
        "pi.OhMyPi",
        ("type", "session"),
        _Said("oh-my-pi", "18.2.3"),
        # It heeds the variable of pi too, and what it writes there is found there. `agent` is left out under
        # XDG_DATA_HOME.
        folders=(
            ("OMP_CODING_AGENT_DIR", "~/.omp/agent", "sessions/*"),
            ("", "~/.omp", "profiles/*/agent/sessions/*"),
            ("XDG_DATA_HOME", "", "omp/sessions/*"),
            ("XDG_DATA_HOME", "", "omp/profiles/*/sessions/*"),
        ),
        is_relative=True,
        frees=(b'"toolResult"', 0.65),
    ),
    _Row(
        "openclaw",
        ("clawdbot", "moltbot"),
        "pi.OpenClaw",
        ("type", "session"),
        _Said(
            "OpenClaw",
            "2026.9.6, by hand",
            "rows of its database; JSON lines until mid-2026",
        ),
        # It was Clawdbot and Moltbot before.
        folders=(
            ("OPENCLAW_STATE_DIR", "~/.openclaw", "agents/*/sessions"),
            ("CLAWDBOT_STATE_DIR", "~/.clawdbot", "agents/*/sessions"),
            ("", "~/.moltbot", "agents/*/sessions"),
        ),
        databases=(("OPENCLAW_STATE_DIR", "~/.openclaw", "agents/*/agent/openclaw-agent.sqlite"),),
        is_relative=True,
        frees=(b"", 0.26),
    ),
    _Row(
        "claude-code",
        ("claude", "cc"),
        "claude.ClaudeCode",
        ("parentUuid", None),
        _Said("Claude Code", "2.1.100, 2.1.332", "JSON lines; those of its subagents too"),
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
    _Row(
        "codex",
        ("codex-cli",),
        "codex.Codex",
        ("type", "session_meta"),
        _Said("Codex CLI", "0.169.0", "JSON lines: rollouts that begin with `session_meta`"),
        keys=(b'"type":"session_meta"', b'"timestamp"', b'"payload"', b'"cwd"'),
        compactions=(b'"type":"compacted"',),
        folders=(("CODEX_HOME", "~/.codex", "sessions/*/*/*"), ("CODEX_HOME", "~/.codex", "archived_sessions")),
        is_indexed=True,
        frees=(b'_output"', 0.88),
    ),
    _Row(
        "gemini",
        ("gemini-cli",),
        "gemini.Gemini",
        ("projectHash", None),
        _Said("Gemini CLI", "0.61.0", "JSON lines (`.jsonl`); one JSON document (`.json`) in earlier versions"),
        keys=(b'"sessionId"', b'"projectHash"'),
        compactions=(b"<state_snapshot>",),
        is_document=True,
        folders=(("GEMINI_CLI_HOME", "~", ".gemini/tmp/*/chats"),),
        sweep=(".gemini/settings.json", "general", "sessionRetention", "maxAge"),
    ),
    _Row(
        "qwen",
        ("qwen-code",),
        "qwen.Qwen",
        ("parentUuid", None),
        _Said("Qwen Code", "0.24.4"),
        keys=(b'"uuid"', b'"parentUuid"', b'"sessionId"', b'"message":{"role":"user","parts"'),
        compactions=(b'"subtype":"chat_compression"',),
        folders=(("QWEN_RUNTIME_DIR", "", "projects/*/chats"), ("QWEN_HOME", "~/.qwen", "projects/*/chats")),
    ),
    _Row(
        "copilot",
        ("copilot-cli", "github-copilot"),
        "copilot.Copilot",
        ("type", "session.start"),
        _Said("GitHub Copilot CLI", "1.0.102", "JSON lines: `events.jsonl`"),
        keys=(b'"type":"session.start"', b'"sessionId"', b'"copilotVersion"'),
        compactions=(b'"type":"session.compaction_complete"',),
        folders=(("COPILOT_HOME", "~/.copilot", "session-state/*"),),
    ),
    _Row(
        "opencode",
        ("kilo", "kilocode"),
        "opencode.OpenCode",
        ("info", None),
        _Said("OpenCode", "1.18.34", "rows of its database, or Kilo's; or one JSON document, as exported"),
        keys=(b'"info"', b'"projectID"', b'"directory"'),
        compactions=(b'"type": "compaction"',),
        is_document=True,
        databases=(
            ("XDG_DATA_HOME", "~/.local/share", "opencode/opencode*.db"),
            ("XDG_DATA_HOME", "~/.local/share", "kilo/kilo*.db"),
            ("OPENCODE_DB", "", ""),
        ),
    ),
    _Row(
        "gencode",
        ("gen",),
        "chat.GenCode",
        ("metadata", None),
        _Said("gencode", "not: it is on no registry any more", "one JSON document", since="0.4"),
        keys=(b'"metadata"', b'"createdAt"', b'"provider"', b'"cwd"'),
        is_document=True,
        folders=(("", "~/.gen", "sessions"),),
    ),
    # It names no agent: it has no first keys, since a file that is only met may be anything.
    _Row(
        "openai-chat",
        ("openai", "chat"),
        "chat.Chat",
        ("role", None),
        _Said(
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
"""Bytes that mark a compaction by any agent. They do not match quoted text, in which quotes are escaped."""

_AGENTS = [row.said.agents for row in sorted(TABLE, key=lambda row: row.is_nameless)]
AGENTS = f"{', '.join(_AGENTS[:-2])} or {_AGENTS[-2]}, or {_AGENTS[-1]}"
"""Whose sessions these are, for the error that refuses a file."""

_BOM = b"\xef\xbb\xbf"


def may_be_session(first: bytes) -> bool:
    """Tell whether a document that begins so may be a session; whether it is one, its format tells from all of it."""
    return any(row.is_plain(first) for row in TABLE if row.is_document)


def is_plainly_session(first: bytes) -> bool:
    """Tell whether a file that begins so is a session for certain; of any other its format must be asked."""
    return first.startswith(b"{") and any(row.is_plain(first) for row in TABLE)


def indexed(first: bytes) -> str:
    """Name the agent of a session that begins so, where it keeps places in it elsewhere; else nothing."""
    return next((row.name for row in TABLE if row.is_indexed and row.is_plain(first)), "")


def head_of(lines: Iterable[bytes], document: Any = None) -> Head:
    """Parse a file's first lines; those that are no JSON object are passed over.

    Of a document the lines are its messages, and `document` is all else of it.
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
    """Detect the format of the file with this head; None where no format of the table recognizes it, or several do."""
    found = recognizing(head)
    return found[0] if len(found) == 1 else None


def recognizing(head: Head) -> tuple[Format, ...]:
    """Find the formats that recognize this head; of pi and its relatives only the first, since they are pi too."""
    found = [row for row in TABLE if row.shows(head) and _made(row).recognizes(head)]
    if relatives := [row for row in found if row.is_relative]:
        found = [relatives[0], *(row for row in found if row.name != "pi" and not row.is_relative)]
    return tuple(map(_made, found))


def format_named(name: str) -> Format:
    """Look a format up by any name of its agent. Raises UsageError where there is none."""
    known = agent_named(name)
    return _made(next(row for row in TABLE if row.name == known))


def folded(name: str) -> str:
    """Write a name as it is compared: case, blanks and dashes are alike."""
    return name.lower().replace(" ", "").replace("-", "")


def agent_named(name: str, among: Sequence[str] = NAMES) -> str:
    """Look up what we call an agent by any name of it. Raises UsageError with the nearest name of those `among`."""
    named = ((row.name, (row.name, *row.also, row.said.agents)) for row in TABLE if row.name in among)
    names = {each: agent for agent, called in named for each in called}
    if found := {folded(each): agent for each, agent in names.items()}.get(folded(name)):
        return found
    # Imported here: only an error needs it.
    import difflib

    near = difflib.get_close_matches(name.lower(), names, n=1)
    meant = f"; did you mean {names[near[0]]}?" if near else ""
    raise UsageError(f"'{name}' is not one of {', '.join(among)}{meant}", state="Nothing was done.")


@cache
def _made(row: _Row) -> Format:
    module, _, kind = row.made_by.partition(".")
    made: Format = getattr(import_module(f"sessioncompress.formats.{module}"), kind)()
    return made


KEEPER = "pi"
"""Whose sessions an agent writes that keeps its state in a project."""
_STORAGE = ("session", "message", "part")


def agent_folders() -> Iterator[Path]:
    """Find the folders of this user's agents that may hold sessions."""
    yield from _there(_homes())


def databases(agent: str | None = None) -> Iterator[Path]:
    """Find the databases of this user's agents, or of one of them."""
    yield from _there(place for row in TABLE if agent in (None, row.name) for place in _named(row.databases))


def _there(places: Iterable[tuple[Path, str]]) -> Iterator[Path]:
    for home, pattern in places:
        # A home that may not be entered has nothing that this user reads.
        with suppress(OSError):
            yield from sorted(home.glob(pattern)) if pattern else [home]


def databases_in(folder: Path) -> list[Path]:
    """Find the databases in a folder that have the name of an agent's."""
    patterns = [pattern.rpartition("/")[2] for row in TABLE for _, _, pattern in row.databases if pattern]
    return sorted(each for pattern in patterns for each in folder.glob(pattern))


def named_roots(agent: str | None = None) -> Iterator[Path]:
    """List the folders, there or not, below which all of those lie, or those of one agent; nothing is read."""
    homes = _homes(agent)
    roots = (home.joinpath(*takewhile(lambda step: step != "*", pattern.split("/"))) for home, pattern in homes)
    yield from dict.fromkeys(roots)


def agent_roots(agent: str | None = None) -> Iterator[Path]:
    """List these, and what a project's folder in them leads to if it is a link: no walk follows links.

    What may not be read there is not passed over. Both the link and the folder are this user's.
    """
    yield from (folders := list(named_roots(agent)))
    yield from links(folders, own=True)


def links(folders: Iterable[Path], *, own: bool) -> Iterator[Path]:
    """Yield the links to folders that are in some folders: those of this user to own folders, or all others."""
    for folder in folders:
        # What may not be read is told by whoever walks there.
        with suppress(OSError), os.scandir(folder) as found:
            for link in sorted(Path(each.path) for each in found if each.is_symlink() and each.is_dir()):
                owners = {link.lstat().st_uid, link.stat().st_uid}
                if own is (sys.platform == "win32" or owners == {os.geteuid()}):
                    yield link


_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0}
_KEPT = re.compile(r"([0-9]{1,9})(?:\.[0-9]{1,9})?([hdwm]?)")


def sweeps() -> Iterator[tuple[str, str, str, float]]:
    """Yield the agents that delete old sessions: our name and theirs, the key for it, and after how many days.

    What the settings do not say, or not as the agent reads it, is its default.
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
                yield row.name, row.said.agents, ".".join(row.sweep[1:]), days


def projects_near(session: Path) -> list[str]:
    """List folders that an agent knows as projects, where a session names its own only by the digest: Gemini CLI's."""
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
    # Where nobody has such a home, `~` stays as it is, and nothing lies there.
    return Path(os.path.expanduser(named))  # noqa: PTH111


def subagents(session: Path) -> list[Path]:
    """Find the sessions of a session's subagents, which Claude Code keeps in a folder of its name."""
    return sorted(session.with_suffix("").glob("subagents/*.jsonl"))


def below(folder: Path) -> Iterator[Path]:
    """List where an agent that keeps its state in a project has the sessions of a project in that folder."""
    yield from (folder / each for each in (".GITCLAW/state/sessions", "state/sessions"))


def opencode() -> Path | None:
    """Find this user's folder of OpenCode where sessions lie in it, which only OpenCode itself can give out."""
    folder = _expanded(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "opencode"
    return folder if holds_opencode(folder) else None


def holds_opencode(folder: Path) -> bool:
    """Tell whether a folder is one in which OpenCode kept its sessions before it had a database."""
    return any(all(map(os.path.isdir, (top / each for each in _STORAGE))) for top in (folder, folder / "storage"))
