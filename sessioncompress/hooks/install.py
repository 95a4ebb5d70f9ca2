"""Install our hooks in an agent's settings and remove them: plan the change, then write it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from difflib import unified_diff
from hashlib import sha256
from importlib import import_module
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode
from msgspec.structs import asdict

from sessioncompress.errors import FileFailed, IsALink, Refused, failing
from sessioncompress.hooks import AGENTS
from sessioncompress.hooks.base import COMPRESSED, AgentHooks, Ending, ending_in, log_file
from sessioncompress.store import disk, machine


class Record(Struct, frozen=True):
    """The inserted texts, last first, and the folders that were created, outermost first."""

    pieces: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def _place(file: Path) -> Path:
    return machine.state_folder() / f"hooks-{sha256(os.fsencode(file)).hexdigest()[:16]}.json"


def load(file: Path) -> Record:
    """Load the record of a file; empty if there is none, or if it can't be read."""
    with suppress(OSError, FileFailed, ValueError):
        return decode(_place(file).read_bytes(), type=Record)
    return Record()


def keep(file: Path, record: Record) -> None:
    """Write the record of a file, or delete it if empty. Raises OSError and FileFailed."""
    if record == Record():
        disk.remove(_place(file))
        return
    disk.make_folder(_place(file).parent)
    disk.put(_place(file), json.dumps({"file": str(file)} | asdict(record), indent=2).encode() + b"\n")


_NOT_CHANGED = "It was not changed."
_OTHER = ", but not as this version does it: another version did, or somebody edited them; install them again"


class FileChange(Struct, frozen=True):
    """An agent's file before and after, as text or None for no file. `file` is never a link."""

    file: Path
    before: str | None
    after: str | None
    record: Record

    @property
    def lines(self) -> list[str]:
        """Diff lines without context, because settings may hold secrets."""
        before, after = ((text or "").splitlines() for text in (self.before, self.after))
        return list(unified_diff(before, after, lineterm="", n=0))[2:]


def agent_named(name: str) -> AgentHooks:
    """Import and create the hooks of an agent in the table."""
    module, _, of = AGENTS[name].partition(".")
    found: AgentHooks = getattr(import_module(f"{__package__}.{module}"), of)()
    return found


def to_install(agent: AgentHooks, ending: Ending = COMPRESSED) -> FileChange:
    """Plan to install this version's hooks, replacing all our existing ones."""
    file, text = read(agent)
    if text is not None and agent.is_current(text, ending):
        return FileChange(file, text, text, load(file))
    base, folders = _without(agent, file, text), load(file).folders
    pieces = sorted(agent.added(base, ending), reverse=True)
    after = base or ""
    for at, new in pieces:
        after = after[:at] + new + after[at:]
    parents = (file.parent, *file.parent.parents)
    missing = tuple(str(each) for each in reversed(parents) if not each.exists())
    return FileChange(file, text, after, Record(tuple(new for _, new in pieces), folders or missing))


def to_uninstall(agent: AgentHooks) -> FileChange:
    """Plan to remove our hooks. If they are unchanged, the file gets its exact former bytes."""
    file, text = read(agent)
    return FileChange(file, text, _without(agent, file, text), Record(folders=load(file).folders))


def read(agent: AgentHooks) -> tuple[Path, str | None]:
    """Read an agent's file, and return its path with links resolved. Raises Refused and FileFailed."""
    file = Path(os.path.realpath(agent.file()))
    with failing(file, _NOT_CHANGED):
        try:
            found = file.lstat()
        except FileNotFoundError:
            return file, None
        if not stat.S_ISREG(found.st_mode):
            raise Refused("it is not a regular file", where=file, state=_NOT_CHANGED, remedy="See what is there.")
        if found.st_nlink > 1:
            remedy = "Put a copy in its place: cp -p FILE COPY && mv COPY FILE."
            raise IsALink("it has other hard links", where=file, state=_NOT_CHANGED, remedy=remedy)
        raw = file.read_bytes()
    try:
        return file, raw.decode()
    except UnicodeDecodeError as error:
        raise Refused("it is not UTF-8", where=file, state=_NOT_CHANGED, remedy="Correct it.") from error


def _without(agent: AgentHooks, file: Path, text: str | None) -> str | None:
    if text is None or not agent.commands(text):
        return text
    exact, pieces = text, load(file).pieces
    for piece in pieces:
        if exact.count(piece) != 1:
            # The user changed the text.
            return agent.taken_out(text)
        exact = exact.replace(piece, "")
    with suppress(Refused):
        # The text may hold hooks that this record doesn't list.
        if pieces and (not exact or not agent.commands(exact)):
            return exact or None
    return agent.taken_out(text)


def write(change: FileChange) -> None:
    """Write a change atomically, keeping the file's mode, owner and attributes. Raises FileFailed."""
    with failing(change.file, _NOT_CHANGED):
        now = change.file.read_bytes().decode(errors="replace") if change.before is not None else None
        if now != change.before or (now is None and os.path.lexists(change.file)):
            raise FileFailed("it changed in the meantime", where=change.file, state=_NOT_CHANGED, remedy="Run again.")
        if change.after is not None:
            # Write the record first, so that the hooks can be removed whatever happens next.
            keep(change.file, change.record)
            disk.make_folder(change.file.parent)
            disk.put(change.file, change.after.encode())
        else:
            disk.remove(change.file)
            disk.flush_folder(change.file.parent)
        if change.record.pieces:
            return
        for folder in reversed(change.record.folders):
            disk.remove_folder(Path(folder))
        keep(change.file, Record())


def status(agent: AgentHooks) -> Iterator[str]:
    """Describe our hooks in an agent's file. Raises Refused and FileFailed."""
    file, text = read(agent)
    commands = agent.commands(text) if text is not None else []
    if text is None or not commands:
        yield f"{agent.title}: not installed ({file})"
        return
    ending = ending_in(commands)
    yield f"{agent.title}: installed in {file}" + ("" if agent.is_current(text, ending) else _OTHER)
    if ending.compact:
        yield "a session that ended is compacted before it is compressed"
    if ending.preset:
        yield f"a session that ended is compressed with the preset {ending.preset}"
    if not agent.compresses:
        yield "no session is compressed, since the agent keeps none in files; only the guard runs"
    for program in dict.fromkeys(words[0] for words in commands):
        there = os.access(program, os.X_OK)
        yield f"they run {program} ({'found' if there else 'not found: install them again'})"
    if off := agent.switched_off(text):
        yield f"the agent does not call them: {off}"
    yield f"log: {log_file()}"
