"""What the tests of packs share: a folder of sessions to pack, and what it was before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from sessioncompress.operations.batch import Outcome
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.pack import PackStats, pack_sessions
from sessioncompress.operations.packed import UnpackStats, meant_by, unpack_sessions
from sessioncompress.pipeline.discover import discover
from sessioncompress.policy.model import BALANCED
from sessioncompress.store import disk, packing
from sessioncompress.store.pack import Entry, FileToPack, Index, Member, PackWriter, State
from sessioncompress.store.packing import Pack
from sessioncompress.store.places import Disk, packs_of
from tests.support.runs import EAGER, MTIME, turn, write
from tests.support.session import PiSession


class Was(NamedTuple):
    """A file as it was: its bytes, mode and time."""

    content: bytes
    mode: int
    mtime: int


def session(words: str, *, steps: int = 2) -> PiSession:
    """Build a session that begins with these words."""
    made = PiSession()
    made.user(words)
    for step in range(steps):
        made.step("bash", {"command": f"cat {step}.log"}, f"{words} {step}\n" * 200)
    turn(made, 2)
    return made


def sessions_in(folder: Path) -> dict[str, Was]:
    """Write three sessions, one of them with a store and one in a folder of its own; return what there is."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(("one.jsonl", "two.jsonl")):
        path = write(folder, session(f"Look at part {number}."), name)
        path.chmod(0o640)
    compress_session(folder / "one.jsonl", EAGER)
    below = folder / "below"
    below.mkdir(exist_ok=True)
    write(below, session("Look at part 2."), "three.jsonl").chmod(0o600)
    for number, path in enumerate(sorted(folder.rglob("*.jsonl"))):
        os.utime(path, ns=(MTIME + number, MTIME + number))
    return state(folder)


def state(folder: Path) -> dict[str, Was]:
    """Return all files of a folder but those of its packs, by their paths."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and "/packs/" not in f"/{name}":
            status = path.stat()
            found[name] = Was(path.read_bytes(), status.st_mode & 0o777, status.st_mtime_ns)
    return found


def pack(folder: Path) -> list[Outcome[PackStats]]:
    return list(pack_sessions(discover([folder]), [folder], lambda _: BALANCED))


def unpack(folder: Path) -> list[Outcome[UnpackStats]]:
    """Bring back all that was packed in a folder."""
    return list(unpack_sessions(meant_by([str(folder)])))


def packs_in(folder: Path) -> list[Pack]:
    return [each for each in packing.packs_in(Disk(folder)) if isinstance(each, Pack)]


def in_packs(folder: Path) -> list[str]:
    """Name the sessions that are in a pack and not at their places, each read from it, as often as it is in one."""
    found = []
    for each in packs_in(folder):
        for _, entry in each.waiting():
            with each.reader() as reader:
                reader.check(entry)
            found.append(entry.path)
    return sorted(found)


def without_tail(archive: Path) -> None:
    """Make an archive one of the first version, which did not end with its index, and whose index is lost."""
    data = archive.read_bytes()
    archive.write_bytes(data[: -24 - int.from_bytes(data[-16:-8], "little")])
    archive.with_name(archive.name.replace(".tar.zst", ".index")).unlink()


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def planted(root: Path, name: str, pieces: Iterable[bytes], size: int, *, mode: int = 0o755, says: int = 0) -> Pack:
    """Put a pack of one file beside sessions, whose index may say another size than the file has."""
    folder = packs_of(root)
    folder.mkdir(parents=True)
    archive = folder / "p-1.tar.zst"
    with disk.closing(disk.create(archive)) as fd:
        writer = PackWriter(fd, size)
        added = writer.add([FileToPack(name, pieces, size, mode, 0, (0, 0))], "")
        writer.finish()
    assert added is not None
    frame, members = added
    members = tuple(replace(each, size=says or each.size) for each in members)
    entry = Entry(State.PACKED, "id", "pi", "/x", "Do it.", "", "", 1, frame, members)
    index = Index(writer.size, (entry,))
    (folder / "p-1.index").write_bytes(index.written())
    return Pack(Disk(root), packs_of(root), "p-1", index)


DIGEST = "0" * 64


def entry(**given: Any) -> Entry:
    texts: dict[str, Any] = dict.fromkeys(("id", "agent", "project", "title", "begun", "modified"), "")
    return Entry(**(texts | {"state": State.PACKED, "turns": 1, "frame": 0, "members": ()} | given))


def member(path: str) -> Member:
    return Member(path, 1, DIGEST, 0o600, 0, 0)
