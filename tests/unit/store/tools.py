"""What the tests of the store share: a session to rewrite, a small journal, and a disk that fails on demand."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store import disk as real_disk
from sessioncompress.store.commit import Rewrite
from sessioncompress.store.late_links import NO_DRAFT, LateLink, prefix_of
from sessioncompress.store.layout import Lengths, Store, store_in
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.machine import make_key
from sessioncompress.store.originals import InFrame, OriginalsReader
from sessioncompress.store.records import LineRecord, RunKind, RunRecord
from sessioncompress.store.recover import recover

OLD = b"".join(b'{"id":"%d","text":"%s"}\n' % (number, b"much text " * 40) for number in range(6))
MTIME = 1_600_000_000_123_456_789
APPENDED = b'{"id":"new"}\n'
names_of_descriptors = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="file names of descriptors are known on Linux only"
)


def make_session(folder: Path, content: bytes = OLD, name: str = "session.jsonl") -> Path:
    """Write a session with a mode and a time of its own; no run on it is the first of this user, which makes a key."""
    make_key()
    path = folder / name
    path.write_bytes(content)
    path.chmod(0o640)
    os.utime(path, ns=(MTIME, MTIME))
    return path


def shorter(line: bytes) -> bytes:
    """Return what stands for a line after a rewrite; lines with little text stay."""
    return line.replace(b"much text " * 40, b"[%s]" % sha256(line).hexdigest()[:12].encode())


def shortened(content: bytes) -> bytes:
    return b"".join(map(shorter, content.splitlines(keepends=True)))


def compress(
    path: Path, *, before_commit: Callable[[], None] = lambda: None, backup_dir: Path | None = None
) -> int | None:
    """Run the whole of what a compressing run does to the disk; None if there was nothing to do."""
    with open_session(path, writing=True) as session:
        files = store_in(session.path, backup_dir)
        lengths = read_lengths(files)
        recover(session, files, lengths)
        return _compress(session, files, lengths, before_commit)


def _compress(session: OpenSession, store: Store, lengths: Lengths, before_commit: Callable[[], None]) -> int | None:
    with session.reader() as file:
        lines = list(file)
    if all(shorter(line) == line for line in lines):
        return None
    with Rewrite(session, store, lengths) as rewrite:
        kept = []
        for line in lines:
            new = shorter(line)
            rewrite.write(new)
            if new != line:
                kept.append((line, new, rewrite.keep(line)))
        finished = rewrite.finish()
        records = [
            _record("line", new=digest(new), old=digest(line), place=[place.frame, place.offset, place.bytes])
            for line, new, place in kept
        ]
        before_commit()
        return rewrite.commit([*records, _record("run", originals=finished.originals_size)])


def restore(path: Path) -> int:
    """Put the original of every known line back."""
    with open_session(path, writing=True) as session:
        files = store_in(session.path)
        lengths = read_lengths(files)
        recover(session, files, lengths)
        with session.reader() as file, Rewrite(session, files, lengths) as rewrite:
            for line in originals_of(path, list(file)):
                rewrite.write(line)
            rewrite.finish()
            return rewrite.commit([_record("run", originals=lengths.originals)])


def originals_of(path: Path, lines: list[bytes]) -> list[bytes]:
    """Return the lines with every one that the journal knows as its original."""
    files = store_in(path)
    records = committed_records(files)
    known = {record["new"]: record for record in records if record["type"] == "line"}
    if not known:
        return lines
    with OriginalsReader(files.originals) as reader:
        return [
            reader.line(InFrame(*known[digest(line)]["place"]), known[digest(line)]["old"])
            if digest(line) in known
            else line
            for line in lines
        ]


def late_state(
    path: Path, drained: int, base: int, successor: int, *, since: int = 1, draft: str = NO_DRAFT
) -> LateLink:
    """Return the state of a file as a late link."""
    with path.open("rb") as file:
        return LateLink(path.stat().st_ino, since, drained, base, successor, draft, prefix_of(file.fileno(), drained))


def late_link(session: Path, content: bytes, *, carried: int, successor: int | None = None) -> Path:
    """Put a file where a killed run left one that it had replaced; so many bytes of it the session has."""
    work = store_in(session).work
    work.mkdir(mode=0o700, exist_ok=True)
    file = work / "replaced"
    file.write_bytes(content)
    there = path_inode(session) if successor is None else successor
    size = session.stat().st_size if session.exists() else carried
    return file.rename(late_state(file, carried, size, there).path(session))


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder as it would be had all of it happened there: two names of a file are, late links name the copies."""
    copies: dict[int, Path] = {}

    def copy(one: str, other: str) -> None:
        first = copies.setdefault(path_inode(Path(one)), Path(other))
        os.link(first, other) if first != Path(other) else shutil.copy2(one, other)

    shutil.copytree(source, target, copy_function=copy)
    inodes = {inode: path_inode(path) for inode, path in copies.items()}
    for link in list(target.rglob("*.late-*")):
        name, _, fields = link.name.partition(".late-")
        inode, since, drained, base, successor, draft, prefix, _ = fields.split("-")
        known = (inodes[int(inode)], int(since), int(drained), int(base), inodes.get(int(successor), 0))
        link.rename(LateLink(*known, draft, prefix).path(link.parent.parent / name))


def path_inode(path: Path) -> int:
    """Return a file's inode number; 0 where there is none."""
    return path.stat().st_ino if path.exists() else 0


def without_exchange(one: object, other: object) -> None:
    """Stand in for the exchange of two files where there is none."""
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def swap() -> str:
    """Return the call that puts a new file in a session's place."""
    return "replace" if real_disk.System.exchange is without_exchange else "exchange"


@contextmanager
def steps_of(
    what: tuple[str, ...], failing: Callable[[int, str, tuple[Any, ...]], None] | None = None
) -> Iterator[list[str]]:
    """Give the names of the calls that are made, each with the kind of file that it is made for."""
    steps: list[str] = []

    def record(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name in what:
            target = arguments[0]
            known = (Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else target).name
            kinds = [
                part
                for part in (".temp-", ".late-", ".zst", ".refs", ".history", ".missing", "local-", "session.jsonl")
                if part in known
            ]
            steps.append(f"{name} {[*kinds, known][0]}")
        if failing:
            failing(number, name, arguments)

    with disk(record):
        yield steps


def read_lengths(store: Store) -> Lengths:
    """Return the lengths in the last run record."""
    records = committed_records(store)
    size = sum(len(json.dumps(record)) + 1 for record in records)
    return Lengths(records[-1]["originals"], size) if records else Lengths()


def committed_records(store: Store) -> list[dict[str, Any]]:
    """Return the journal's records up to the last run record."""
    if not store.journal.exists():
        return []
    lines = store.journal.read_bytes().splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.endswith(b"}\n")]
    last = max((number for number, record in enumerate(records) if record["type"] == "run"), default=-1)
    return records[: last + 1]


def _record(kind: str, **values: object) -> bytes:
    return json.dumps({"type": kind, **values}).encode() + b"\n"


def digest(line: bytes) -> str:
    return sha256(line).hexdigest()


def in_a_child(work: Callable[[], object]) -> int:
    """Do something in a child process; return its exit status as waitpid gives it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def everything(folder: Path) -> dict[str, bytes | None]:
    """Return the names under a folder, with the content of files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None
        for path in sorted(folder.rglob("*"))
    }


def left_over(folder: Path) -> list[str]:
    """Return the names of temp files and late links under a folder."""
    return [path.name for path in folder.rglob("*") if ".temp-" in path.name or ".late-" in path.name]


CALLS = [name for name, value in vars(real_disk.System).items() if isinstance(value, staticmethod)]


@dataclass
class Seam(real_disk.System):
    """A disk that calls `before(number, name, arguments)` before each change and records the names."""

    before: Callable[[int, str, tuple[Any, ...]], None] = lambda number, name, arguments: None
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in CALLS:
            setattr(self, name, self._watched(name, getattr(real_disk.System, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self.calls.append(name)
            self.before(len(self.calls) - 1, name, arguments)
            return call(*arguments, **options)

        return watched


@contextmanager
def disk(before: Callable[[int, str, tuple[Any, ...]], None] | None = None) -> Iterator[Seam]:
    """Put a watched disk under the package for a block."""
    seam = Seam(before) if before else Seam()
    system, real_disk.system = real_disk.system, seam
    try:
        yield seam
    finally:
        real_disk.system = system


def failing_at(number: int, code: int, *, ever_after: bool = False) -> Callable[[int, str, tuple[Any, ...]], None]:
    """Make a `before` that raises at one call, or at that and all later ones."""

    def fail(found: int, name: str, arguments: tuple[Any, ...]) -> None:
        if found == number or (ever_after and found > number):
            raise OSError(code, os.strerror(code))

    return fail


ERRNOS = (errno.ENOSPC, errno.EIO, errno.EACCES)


SHA = "ab" * 32
LINE = LineRecord(SHA, InFrame(0, 7, 99), "cd" * 32)
RUN = RunRecord(
    at="2026-03-02T09:00:00Z",
    version="0.1",
    policy={"protectTokens": 7},
    original_size=100,
    compressed_size=50,
    store_size=20,
    boundary=3,
    stats={"turns": 2},
    id="20260302-090000-0001",
    command=RunKind.COMPRESS,
)
