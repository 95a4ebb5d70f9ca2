"""What the tests of the core share: surveys, plans and rewritings of built sessions, and runs over files."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner, Result
from msgspec.structs import replace

from sessioncompress.cli.main import main
from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.core.jsonl import document_of, parse, pieces_of
from sessioncompress.core.lines import Survey
from sessioncompress.core.model import Facts, JsonPath, Line, Origin, OurKey
from sessioncompress.core.references import References
from sessioncompress.core.splice import CannotSplice
from sessioncompress.formats.base import Format, Head
from sessioncompress.formats.table import TABLE, detect, head_of
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import RestoreStats, restore_session
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.plan import Plan, plan
from sessioncompress.pipeline.reading import survey
from sessioncompress.pipeline.rewrite import Rewritten, rewrite
from sessioncompress.pipeline.stats import CompressionStats, Status
from sessioncompress.policy.model import BALANCED, Placeholder, Policy, Prune
from sessioncompress.store import machine
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import store_in
from sessioncompress.store.records import BlockRecord, LineRecord
from tests.support.session import PiSession
from tests.support.turns import B

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
EAGER = replace(BALANCED, size_threshold_kb=0, min_saved_kb=0, turn_threshold_before_compress=1)
"""Takes everything before the last turn, however little it saves."""

GREEDY = replace(EAGER, turn_threshold_before_compress=0, tool_call_max_bytes=0, tool_result_max_bytes=0)
"""Protects nothing and has the lowest limits there are."""

PRUNING = replace(
    EAGER,
    prune=Prune(enabled=True, prune_minimum=0, prune_protect=0, protect_tools=(), preserve_recent_messages=0),
)
"""Takes all old results of tools whole."""

NATIVE = replace(PRUNING, prune=replace(PRUNING.prune, placeholder=Placeholder.NATIVE))

HOMES = tuple(dict.fromkeys(variable for row in TABLE for variable, _, _ in row.folders if variable))
"""By these variables the agents' folders are found: no session of whoever runs the tests counts."""

MTIME = 1_700_000_000_123_456_789


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def data_of(session: PiSession | bytes) -> bytes:
    return session if isinstance(session, bytes) else session.bytes()


def split(data: bytes) -> list[bytes]:
    return list(io.BytesIO(data))


def units(data: bytes) -> list[bytes]:
    """Return the lines, or the messages of a document."""
    return [raw for _, raw, whole in pieces_of(lambda: io.BytesIO(data), len(data)) if whole]


def head_of_file(data: bytes) -> Head:
    document = document_of(lambda: io.BytesIO(data), len(data))
    return head_of(units(data), None if document is None else document.outer)


def entries(data: bytes) -> list[Any]:
    """Return the parsed lines; None for what is none."""
    return [_loaded(line) for line in split(data)]


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def paths(value: Any, path: JsonPath = ()) -> list[JsonPath]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for step, child in children for found in paths(child, (*path, step)))]


def form_of(data: bytes) -> Format:
    document = document_of(lambda: io.BytesIO(data), len(data))
    form = detect(head_of(units(data), None if document is None else document.outer))
    assert form is not None
    return form


@dataclass(frozen=True)
class Held:
    origins: Mapping[OurKey, Origin]

    def __contains__(self, key: OurKey) -> bool:
        return key in self.origins

    def origin(self, key: OurKey) -> Origin | None:
        return self.origins.get(key)


def survey_of(session: PiSession | bytes) -> Survey:
    data = data_of(session)
    return survey(pieces_of(lambda: io.BytesIO(data), len(data)), form_of(data))


def view_of(session: PiSession | bytes, policy: Policy = EAGER, ours: Mapping[OurKey, Origin] | None = None) -> View:
    """Return a session as the compressors see it."""
    data = data_of(session)
    return View(survey_of(data), policy, form_of(data), Ours((Held(ours or {}),)))


def plan_of(session: PiSession | bytes, policy: Policy = EAGER) -> Plan:
    return plan(view_of(session, policy), (), ())


def rewritten(
    session: PiSession | bytes, policy: Policy = EAGER, refer: Callable[[bytes], str | None] | None = None
) -> dict[int, Rewritten]:
    """Return the lines that a first run rewrites, without any file."""
    view = view_of(session, policy)
    lines = split(data_of(session))
    refer = refer or References().refer
    done: dict[int, Rewritten] = {}
    for number, changes in plan(view, (), ()).items():
        entry = parse(lines[number])
        assert entry is not None
        try:
            new = rewrite(lines[number], entry, changes, view, refer)
        except CannotSplice:
            continue
        if new is not None:
            done[number] = new
    return done


def after(session: PiSession | bytes, policy: Policy = EAGER) -> list[Any]:
    """Return a session's entries as a first run leaves them, without any file."""
    done = rewritten(session, policy)
    return [done[number].entry if number in done else entry for number, entry in enumerate(entries(data_of(session)))]


def result_texts(lines: Iterable[Any]) -> list[str]:
    """Return the texts of all results among the entries."""
    return [
        part.get("text", "")
        for entry in lines
        if isinstance(entry, dict) and (entry.get("message") or {}).get("role") == "toolResult"
        for part in entry["message"]["content"]
    ]


def calls(lines: Iterable[Any]) -> list[Any]:
    return [
        part
        for entry in lines
        if isinstance(entry, dict) and (entry.get("message") or {}).get("role") == "assistant"
        for part in entry["message"]["content"]
        if part["type"] == "toolCall"
    ]


def turn(session: B, times: int = 1) -> B:
    """Add short turns, behind which all before is old."""
    for number in range(times):
        session.asks(f"And now part {number}?")
        session.says(f"Part {number} is done.")
    return session


def old(session: PiSession) -> bytes:
    """Return the session with one more short turn, so that all of it is old to the eager policy."""
    return turn(session).bytes()


def write(folder: Path, session: PiSession | bytes, name: str = "session.jsonl") -> Path:
    """Write a session with a mode and a time of its own."""
    path = folder / name
    path.write_bytes(data_of(session))
    path.chmod(0o640)
    os.utime(path, ns=(MTIME, MTIME))
    return path


def append(path: Path, session: PiSession) -> None:
    """Append the lines of a continued session that the file does not hold yet, as an agent does."""
    count = len(split(path.read_bytes()))
    with path.open("ab") as file:
        file.write(b"".join(session.lines()[count:]))


def compress(path: Path, policy: Policy = EAGER, **options: Any) -> CompressionStats:
    """Run once, however little came; it must write."""
    with reading_again():
        stats = compress_session(path, policy, **options)
    assert stats.status is Status.COMPRESSED, stats.reason
    return stats


@contextmanager
def days_ago(days: int) -> Iterator[None]:
    now = time.time
    with mock.patch.object(time, "time", side_effect=lambda: now() - days * 24 * 3600):
        yield


def compress_again(path: Path, policy: Policy = EAGER) -> CompressionStats:
    """Run once more; nothing may be written, beside the session either."""
    before = snapshot(path)
    stats = runs_again(path, policy)
    assert stats.status is Status.UNCHANGED, stats
    assert snapshot(path) == before
    return stats


def runs_again(path: Path, policy: Policy) -> CompressionStats:
    """Run once more, by the end of the journal alone and with a look at the session: both must come to the same."""
    by_journal = compress_session(path, policy)
    with reading_again():
        again = compress_session(path, policy)
    assert by_journal.status is again.status, (by_journal, again)
    return again


@contextmanager
def reading_again() -> Iterator[None]:
    """Let a run read a session however little came since the last one."""
    with mock.patch.object(triage, "why_settled", return_value=""):
        yield


def restore(path: Path, policy: Policy = EAGER) -> RestoreStats:
    stats = restore_session(path, policy)
    assert stats.status is Status.RESTORED, stats.reason
    return stats


def invoke(*args: object, answer: str | None = None) -> Result:
    """Run the command, with what is typed as an answer."""
    return CliRunner().invoke(main, list(map(str, args)), input=answer)


def as_user(environment: Mapping[str, str], folder: Path, *args: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder with this environment alone, as a process of its own would be run that had it."""
    with mock.patch.dict(os.environ, environment, clear=True), mock.patch.object(machine, "_found", []), chdir(folder):
        done = invoke(*args)
    return subprocess.CompletedProcess([*map(str, args)], done.exit_code, done.stdout, done.stderr)


def told(command: str, *args: object) -> tuple[int, str]:
    """Run the command, with its name and options in one text; return its exit code and all it printed."""
    done = CliRunner().invoke(main, [*command.split(), *map(str, args)], catch_exceptions=False)
    return done.exit_code, done.output


def run(*args: object) -> Result:
    result = invoke(*args)
    assert result.exit_code == 0, (args, result.output[-900:], result.exception)
    return result


_WAY_BACK = re.compile(
    r"^(undo with: sessioncompress restore --run [0-9a-f-]{20}|The next 'compress' of |The stores? .*still take|  sessioncompress forget --unneeded ).*\n",
    re.MULTILINE,
)


def but_undo(said: str | bytes) -> str:
    """Return what a command said on stderr, without how to take its run back and what the store takes."""
    return _WAY_BACK.sub("", said if isinstance(said, str) else said.decode())


def noted(ours: subprocess.Popen[str]) -> str:
    """Wait until a first interrupt was noted, return what was said until then: one that comes before is one with it."""
    assert ours.stderr is not None
    said = ""
    for each in ours.stderr:
        said += each
        if "Press Ctrl-C again" in each:
            return said
    raise AssertionError(said)


def snapshot(path: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return all that lies in a session's folder: contents, inodes and times."""
    return {
        str(each.relative_to(path.parent)): (each.read_bytes(), each.stat().st_ino, each.stat().st_mtime_ns)
        for each in sorted(path.parent.rglob("*"))
        if each.is_file()
    }


def disk(path: Path) -> int:
    """Return the bytes of a session and all that lies beside it."""
    return sum(each.stat().st_size for each in path.parent.rglob("*") if each.is_file())


def journal_of(path: Path) -> list[Any]:
    """Return the records of a session's journal."""
    return [json.loads(line) for line in split(store_in(path).journal.read_bytes())]


def lines_of(journal: Journal) -> list[LineRecord]:
    return [journal.line(row) for row in range(journal.counts[0])]


def blocks_of(journal: Journal) -> list[tuple[LineRecord, BlockRecord]]:
    """Return the block records of a journal, each with that of its line."""
    return [journal.block(row) for row in range(journal.counts[1])]


def line(role: Any, **facts: Any) -> Line:
    """Return a line for tests that need no bytes."""
    rare = {name: facts.pop(name) for name in Facts._fields if name in facts}
    return Line(role, facts.pop("size", 100), facts.pop("digest", 0), facts=Facts(**rare), **facts)
