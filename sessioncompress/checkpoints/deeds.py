"""The agent's actions: the files it changed and read, the commands and how they ended, failures, the todo list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sessioncompress.checkpoints.quote import (
    Paths,
    below,
    by_folder,
    code,
    fitting,
    is_whole,
    more,
    names_of,
    one_line,
    reference,
    remember,
)
from sessioncompress.checkpoints.shell import REVERTED, Script, ShellResult, alike, commands_in, grade, outcome, script
from sessioncompress.core.checkpoint import Utterance
from sessioncompress.core.model import Purpose
from sessioncompress.formats.values import DONE_STATES, OLD_TEXT_KEYS, patched

# A session may have any number of these; only as many are kept as a summary can choose from.
_MOST_FILES = 2_000
_MOST_COMMANDS = 600
_MOST_WAITING = 1_000
_MOST_ITEMS = 600
_MOST_ALIKE = 50
"""Largest number of files with one name that a relative path is compared with."""
_MOST_SAID = 6
"""Maximum lines of a result that shows a line although its call ran no command."""
_PART = 120
"""Characters of a command or an item in its row."""

_PATH_KEYS = ("path", "file_path", "filePath", "notebook_path", "absolute_path", "filename", "file")
"""The arguments that may name a file: more than `FILE_KEYS`, whose values always stay, and none that names a folder."""
_NAME_KEYS = frozenset(map(str.lower, _PATH_KEYS))
_OLD_KEYS = frozenset(map(str.lower, OLD_TEXT_KEYS))
_CHANGING = ("edit", "write", "patch", "replace", "create_file")
_WRITING = frozenset({"write", "write_file", "create", "create_file"})
_READING = frozenset({"read", "view", "open", "cat", "read_file"})
_PLANS = frozenset({"todowrite", "todo", "todo_write", "update_plan", "write_todos", "set_todos"})
_TASK_MADE, _TASK_SET = "taskcreate", "taskupdate"


class FileState(NamedTuple):
    """The state of a file: how and how often it changed, if the last call failed, and a reference to its last content.

    `reverted`: a git command took the changes back.
    """

    how: str
    times: int = 1
    lines: int = 0
    failed: bool = False
    ref: str = ""
    reverted: bool = False


class Wrote(NamedTuple):
    """A text that a call wrote: its file ("" for a command), what it replaced, and whether it is the whole file."""

    where: str
    text: str
    replaced: str = ""
    whole: bool = False


class EndedCommand(NamedTuple):
    """A command and how it ended; `worth` ranks it."""

    command: str
    outcome: ShellResult
    worth: int


class Waiting(NamedTuple):
    """The effects of a call that has no result yet."""

    files: Sequence[str]
    commands: Sequence[Script]
    tool: str
    words: str
    reverts: Sequence[str] = ()
    read: str = ""


class Deeds:
    """The actions of a session, in order."""

    def __init__(self) -> None:
        self.paths = Paths()
        self.changed: dict[str, FileState] = {}
        self.read: dict[str, None] = {}
        self.ran: dict[str, EndedCommand] = {}
        self.todo: list[tuple[str, str]] = []
        self.tasks: dict[str, tuple[str, str]] = {}
        self.last: tuple[str, ShellResult] | None = None
        self._waiting: dict[str, Waiting] = {}

    def call(self, said: Utterance) -> Sequence[Wrote]:
        """Take a call; return the texts that it wrote."""
        tool = said.tool.lower()
        if tool in _PLANS or tool in (_TASK_MADE, _TASK_SET):
            self._plan(tool, said.given)
            return ()
        # A name is not a text, and replaced text was not written.
        written = [text for key, text in said.strings() if key not in _OLD_KEYS and key not in _NAME_KEYS]
        replaced = "\n".join(text for key, text in said.strings() if key in _OLD_KEYS)
        scripts = commands_in(said.given, is_command=said.purpose is Purpose.COMMAND)
        touched, texts = self._patches(written)
        path = _first_text(said.given, _PATH_KEYS)
        if path and not touched:
            if said.purpose is Purpose.WRITE or any(word in tool for word in _CHANGING) or tool == "create":
                whole, newest_text = tool in _WRITING, written[-1] if written else ""
                lines = newest_text.count("\n") + 1 if whole and newest_text else 0
                ref = reference(newest_text) if newest_text else ""
                self.note_change(path, "written" if whole else "edited", ref, lines)
                touched = [self.paths.key(path)]
                texts = [Wrote(touched[0], "\n".join(written), replaced, whole)]
            elif said.purpose is Purpose.READ or tool in _READING:
                self.note_read(path)
        folder = _first_text(said.given, ("workdir", "cwd"))
        shell = [each for script in scripts for each in self._shell(script, folder)]
        touched += [path for path, how in shell if how != REVERTED]
        texts += [Wrote(path, "", whole=True) for path, how in shell if how in ("deleted", REVERTED)]
        texts += [Wrote("", each.text) for each in scripts]
        # A file that the same command writes again afterwards is not reverted.
        reverts = [path for path, how in dict(shell).items() if how == REVERTED]
        words = next((each.line for each in scripts), "") or path
        if not words:
            words = next((one_line(each, _PART) for each in written if each.strip()), "")
        read = next(reversed(self.read), "") if said.purpose is Purpose.READ else ""
        remember(self._waiting, said.call, Waiting(touched, scripts, said.tool, words, reverts, read), _MOST_WAITING)
        for each in scripts:
            self._note(each, ShellResult("no result"))
        self.last = (one_line(f"{said.tool} {words}", _PART), ShellResult("no result"))
        return texts

    def result(self, said: Utterance) -> str:
        """Take a result, and note how its call ended; return the file that the call read, "" if none."""
        waiting = self._waiting.pop(said.call, None)
        if waiting is None:
            return ""
        hidden = any(each.hides for each in waiting.commands)
        ended = outcome(said.text, said.failed, hidden=hidden)
        if not waiting.commands and not ended.failed and said.text.count("\n") > _MOST_SAID:
            # A line of a file tells nothing about how the read ended.
            ended = ShellResult(ended.verdict)
        self.last = (one_line(f"{waiting.tool} {waiting.words}", _PART), ended)
        for each in waiting.commands:
            self._note(each, ended)
        for path in waiting.files:
            if path in self.changed:
                self.changed[path] = self.changed[path]._replace(failed=ended.failed)
        for path in self.changed.keys() & waiting.reverts if not ended.failed else ():
            self.changed[path] = self.changed[path]._replace(failed=False, reverted=True)
        return waiting.read

    def _note(self, ran: Script, ended: ShellResult) -> None:
        worth = grade(ran.text) + 3 * ended.failed
        self.ran.pop(alike(ran.line), None)
        if worth >= 0:
            remember(self.ran, alike(ran.line), EndedCommand(ran.line, ended, worth), _MOST_COMMANDS)

    def _patches(self, written: Iterable[str]) -> tuple[list[str], list[Wrote]]:
        touched: list[str] = []
        texts: list[Wrote] = []
        for text in written:
            ref = ""
            for path, how, part in patched(text):
                # A patch may touch any number of files, and is hashed once.
                ref = ref or reference(text)
                self.note_change(path, how, ref)
                touched.append(self.paths.key(path))
                replaced = "\n".join(line[1:] for line in part.split("\n") if line.startswith("-"))
                texts.append(Wrote(touched[-1], part, replaced, how in ("written", "deleted")))
        return touched, texts

    def _shell(self, ran: Script, folder: str) -> list[tuple[str, str]]:
        changed, read = script(ran.text, folder)
        for path, how in changed:
            if how != REVERTED:
                self.note_change(path, how)
        for path in read:
            self.note_read(path)
        return [(self.paths.key(path), how) for path, how in changed]

    def note_change(self, path: str, how: str, ref: str = "", lines: int = 0, times: int = 1) -> None:
        """Remember that a file was changed, as the newest."""
        key = self.paths.key(path)
        before = self.changed.get(key, FileState(how, 0))
        change = FileState(how, before.times + times, lines or before.lines, ref=ref or before.ref)
        remember(self.changed, key, change, _MOST_FILES)

    def note_read(self, path: str) -> None:
        """Remember that a file was read, as the newest."""
        remember(self.read, self.paths.key(path), None, _MOST_FILES)

    def _plan(self, tool: str, given: Mapping[str, Any]) -> None:
        if tool == _TASK_MADE:
            remember(self.tasks, str(len(self.tasks) + 1), ("pending", _item(given)), _MOST_ITEMS)
        elif tool == _TASK_SET:
            name, status = str(given.get("taskId")), given.get("status")
            if name in self.tasks and isinstance(status, str):
                self.tasks[name] = (status, _item(given) or self.tasks[name][1])
        elif found := list(_items(given)):
            self.todo = found

    def items(self) -> list[tuple[str, str]]:
        """Return the items of the last todo list: their status and words."""
        return self.todo or [each for each in self.tasks.values() if each[0] != "deleted"]


def _first_text(given: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((given[key] for key in keys if isinstance(given.get(key), str)), "")


def _item(item: Mapping[str, Any]) -> str:
    return _first_text(item, ("content", "step", "subject", "title", "text", "description", "task", "name"))


def _items(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the items of a todo list, however deep a tool nests them."""
    waiting: list[Any] = [given]
    looked = 0
    while waiting and looked < 2 * _MOST_ITEMS:
        looked += 1
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value[:_MOST_ITEMS])
        elif isinstance(value, Mapping):
            words, status = _item(value), value.get("status")
            if words and isinstance(status, str):
                yield status, words
            else:
                waiting += reversed([each for each in value.values() if isinstance(each, (list, Mapping))])


def files(deeds: Deeds, root: str, room: int) -> list[str]:
    """Write the changed files, newest last, and what happened to them; if not all fit, older ones by folder."""
    known = merged(deeds, root)
    rows = [_file(path, change) for path, change in known.items()]
    if sum(map(len, rows)) + len(rows) <= room:
        return rows
    # The names of the newest sixty are always shown.
    names = list(known)[-60:]
    gone = [more(len(known) - len(names))] if len(known) > len(names) else []
    rows = rows[-60:]
    for older in range(len(names) + 1):
        shown = [*by_folder(names[:older]), *rows[older:]]
        if sum(map(len, shown)) + len(shown) <= room:
            break
    return [*gone, *shown]


def merged(deeds: Deeds, root: str) -> dict[str, FileState]:
    """Name the changed files by their paths below the root; if one has two names, its newer state counts."""
    found = _whole_paths(deeds)
    known: dict[str, FileState] = {}
    for path, change in deeds.changed.items():
        name = below(found.get(path, path), root)
        before = known.pop(name, change._replace(times=0))
        known[name] = change._replace(
            times=before.times + change.times, lines=change.lines or before.lines, ref=change.ref or before.ref
        )
    return known


def unchanged(deeds: Deeds, root: str) -> list[str]:
    """Name the files that were read and not seen to change, by their paths below the root."""
    found = _whole_paths(deeds)
    changed = {found.get(path, path) for path in deeds.changed}
    read = dict.fromkeys(found.get(path, path) for path in deeds.read)
    return [below(path, root) for path in read if path not in changed]


def _whole_paths(deeds: Deeds) -> dict[str, str]:
    """Map each relative path to the absolute one that ends with it, if there is exactly one."""
    every = [*deeds.changed, *deeds.read]
    named: dict[str, set[str]] = {}
    for path in every:
        if is_whole(path):
            named.setdefault(path.rpartition("/")[2], set()).add(path)
    found: dict[str, str] = {}
    for path in every:
        if not is_whole(path):
            candidates = named.get(path.rpartition("/")[2], ())
            whole = [each for each in candidates if each.endswith(f"/{path}")] if len(candidates) < _MOST_ALIKE else []
            if len(whole) == 1:
                found[path] = whole[0]
    return found


def _file(path: str, change: FileState) -> str:
    parts = change.how + (f" {change.times}x" if change.times > 1 else "")
    if change.lines > 1:
        parts += f", {change.lines} lines"
    if change.reverted:
        parts += ", then reverted"
    if change.failed:
        parts += ", the last call failed"
    return f"- {code(one_line(path, 160))}: {parts}" + (f" [{change.ref}]" if change.ref else "")


def read_files(deeds: Deeds, root: str, room: int) -> list[str]:
    """Write the files that were read and not seen to change, as many of the newest as fit."""
    names = unchanged(deeds, root)
    while names:
        rows = by_folder(names)
        if sum(map(len, rows)) + len(rows) <= room:
            return rows
        names = names[len(names) // 8 + 1 :]
    return []


def commands(deeds: Deeds, root: str, room: int) -> list[str]:
    """Write commands and how they ended: tests, builds, git and failures first, then the newest."""
    ran = list(deeds.ran.values())
    order = sorted(range(len(ran)), key=lambda at: (-ran[at].worth - 3 * at / len(ran), -at))
    return fitting([_command(each, root) for each in ran], order, room)


def _command(ran: EndedCommand, root: str) -> str:
    command = ran.command
    for name in names_of(root):
        command = command.replace(f"{name}/", "")
    return f"- {code(one_line(command, _PART))} {ran.outcome.written()}"


def todo(deeds: Deeds, room: int) -> list[str]:
    """Write the last todo list; if not all of it fits, open items first."""
    items = deeds.items()
    rows = [f"- > [{one_line(status, 20)}] {one_line(words, _PART)}" for status, words in items]
    order = sorted(range(len(items)), key=lambda at: items[at][0] in DONE_STATES)
    shown = fitting(rows, order, room - 24)
    return [*shown, *([more(len(rows) - len(shown))] if shown and len(shown) < len(rows) else [])]
