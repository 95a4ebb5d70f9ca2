"""The form of a pack: what other programs read, where frames begin, and what an index may not say."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessioncompress.errors import Damaged, Refused, Unreadable
from sessioncompress.store import disk
from sessioncompress.store import pack as packs
from sessioncompress.store.pack import Entry, Index, PackReader, PackWriter, read_index, source_of
from tests.faults.tools import need
from tests.support.packs import entry, member


def packed(folder: Path, files: dict[str, bytes], families: dict[str, str] | None = None) -> tuple[Path, list[Entry]]:
    """Pack files, each as a session of its own; return the archive and the entries."""
    archive = folder / "made.tar.zst"
    entries = []
    with disk.closing(disk.create(archive)) as fd:
        writer = PackWriter(fd, sum(map(len, files.values())))
        for name, content in files.items():
            (folder / "in").mkdir(exist_ok=True)
            path = folder / "in" / name
            path.write_bytes(content)
            with path.open("rb") as file:
                added = writer.add([source_of(name, file.fileno(), len(content))], (families or {}).get(name, name))
            assert added is not None
            entries.append(entry(frame=added[0], members=added[1]))
        writer.finish()
    return archive, entries


@contextmanager
def reader(archive: Path, *entries: Entry) -> Iterator[PackReader]:
    with packs.opened(archive) as span:
        yield PackReader(span, Index(archive.stat().st_size, entries))


@pytest.mark.parametrize(
    ("name", "mtime"),
    [
        ("s.jsonl", 1_700_000_000_123_456_789),
        ("é " + "long name " * 20 + ".jsonl", 1),
        ("before 1970.jsonl", -1_500_000_000),
    ],
)
def test_tar_extracts_it(tmp_path: Path, name: str, mtime: int) -> None:
    tar = need("tar")
    need("zstd")
    source = tmp_path / "s"
    source.write_bytes(b"{}\n" * 1000)
    source.chmod(0o640)
    os.utime(source, ns=(mtime, mtime))
    with disk.closing(disk.create(tmp_path / "made.tar.zst")) as fd, source.open("rb") as file:
        writer = PackWriter(fd, 3000)
        writer.add([source_of(name, file.fileno(), 3000)], "")
        writer.finish()
    subprocess.run([tar, "--zstd", "-xf", "made.tar.zst"], cwd=tmp_path, check=True)
    found = (tmp_path / name).stat()
    assert (tmp_path / name).read_bytes() == source.read_bytes()
    assert (found.st_mode & 0o777, found.st_mtime_ns) == (0o640, mtime)


def test_a_file_that_became_shorter_is_none(tmp_path: Path) -> None:
    """And those behind it in the archive are read all the same."""
    (tmp_path / "short").write_bytes(b"12")
    (tmp_path / "next").write_bytes(b"next")
    archive = tmp_path / "made.tar.zst"
    with (
        disk.closing(disk.create(archive)) as fd,
        (tmp_path / "short").open() as short,
        (tmp_path / "next").open() as after,
    ):
        writer = PackWriter(fd, 10)
        assert writer.add([source_of("short", short.fileno(), 1 << 20)], "") is None
        added = writer.add([source_of("next", after.fileno(), 4)], "")
        writer.finish()
    assert added is not None
    following = entry(frame=added[0], members=added[1])
    with reader(archive, following) as opened:
        opened.check(following)


def test_where_frames_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind so many bytes, but not inside a family before there are far more; to read one session, one is read."""
    monkeypatch.setattr(packs, "_FRAME", 20_000)
    monkeypatch.setattr(packs, "_LONGEST_FRAME", 300_000)
    noise = {f"{number}.jsonl": random.Random(number).randbytes(200_000) for number in range(6)}
    archive, entries = packed(tmp_path, noise, {name: "a" if name < "4" else name for name in noise})
    assert [each.frame for each in entries].count(0) == 2
    assert len({each.frame for each in entries}) == 4
    with reader(archive, *entries) as opened:
        opened.check(entries[4])
        assert opened.bytes_read < archive.stat().st_size * 0.6
    with reader(archive, *entries) as opened:
        for each in (entries[5], entries[0], entries[1], entries[0]):
            assert b"".join(opened.read(each, each.members[0])) == noise[each.path]


def forks(folder: Path, size: int, children: int) -> float:
    """Pack a session that repeats itself, and others that go on with it behind another first line.

    Return the size of that archive, by the size of one of the session alone.
    """
    chosen = random.Random(1)
    words = [f"{chosen.randrange(1 << 40):x}" for _ in range(3_000)]
    once = [" ".join(chosen.choices(words, k=60)) for _ in range(size // 2_000)]
    text = "\n".join(["", *chosen.choices(once, k=size // 600), ""]).encode()
    source, sizes = folder / "s", []
    for count in (0, children):
        archive = folder / f"{count}.tar.zst"
        with disk.closing(disk.create(archive)) as fd:
            writer = PackWriter(fd, (count + 1) * len(text))
            for number in range(count + 1):
                source.write_bytes(b"x" * chosen.randrange(100, 400) + text + chosen.randbytes(200))
                with source.open("rb") as file:
                    writer.add([source_of(f"{number}.jsonl", file.fileno())], "one")
            writer.finish()
        sizes.append(archive.stat().st_size)
    return sizes[1] / sizes[0]


def test_forks_farther_back_than_the_window_take_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds the one before it, where the first is out of reach."""
    monkeypatch.setattr(packs, "_LARGEST_WINDOW", 23)
    assert forks(tmp_path, 2 << 20, 20) <= 1.2


@pytest.mark.slow
def test_forks_of_a_large_session_take_little(tmp_path: Path) -> None:
    """Fifty of one of 20 MB: more than a gigabyte."""
    assert forks(tmp_path, 20 << 20, 50) <= 1.2


@pytest.mark.slow
def test_one_session_is_read_without_the_others(tmp_path: Path) -> None:
    """Of a large pack at most a twentieth, and of one of a gigabyte far less: frames do not grow with it."""
    archive, entries = packed(
        tmp_path, {f"{number}.jsonl": random.Random(number).randbytes(1 << 20) for number in range(120)}
    )
    for each in entries:
        with reader(archive, *entries) as opened:
            opened.check(each)
            assert opened.bytes_read <= archive.stat().st_size / 20


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.9])
def test_a_damaged_archive_is_noticed(tmp_path: Path, at: float) -> None:
    """Wherever a bit is wrong, and where the end is missing."""
    archive, (only,) = packed(tmp_path, {"s.jsonl": random.Random(1).randbytes(100_000)})
    whole = archive.read_bytes()
    place = int(len(whole) * at)
    for broken in (whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :], whole[:place]):
        archive.write_bytes(broken)
        with reader(archive, only) as opened, pytest.raises(Unreadable, match=r"s\.jsonl in it cannot be read"):
            opened.check(only)


def rows_of(*members: tuple[str, ...]) -> list[bytes]:
    index = Index(5, tuple(entry(title="é", members=tuple(map(member, names))) for names in members))
    return index.written().splitlines(keepends=True)


def told(names: str | Sequence[str]) -> bytes:
    return b"".join(rows_of((names,) if isinstance(names, str) else tuple(names)))


def numbered(key: str, value: int) -> bytes:
    """Write an index with a number that no system takes: it would raise where it is used."""
    head, row = rows_of(("s.jsonl",))
    read = json.loads(row)
    read["members"][0][key] = value
    return head + json.dumps(read).encode() + b"\n"


HEAD, A, B = rows_of(("a.jsonl",), ("b.jsonl",))
PLAIN = b'{"type":"pack","version":1,"size":5}\n'
WHOLE = ("a/s.jsonl", "a/.sessioncompress/s.jsonl.zst")
INDEXES = [
    ("whole", told(WHOLE), ""),
    ("without a digest, as older versions wrote it", PLAIN + rows_of(WHOLE)[1], ""),
    # An archive would go with the others by an index that does not name all that is in it.
    ("its last row is lost", HEAD + A, "lines are missing"),
    ("all rows are lost", HEAD, "lines are missing"),
    ("a row within is lost", HEAD + B, "lines are missing"),
    ("one row twice for another", HEAD + A + A, "as another line"),
    ("in another order", HEAD + B + A, "lines are missing"),
    # Of two, both would be noted as back where one is.
    ("a session twice", PLAIN + A + A, "names the same session as another line"),
    # Whoever wrote it, it names nothing elsewhere, no file that is not of its session, and none twice.
    *(
        (f"the path {bad!r}", told(bad), "names a file that no pack can hold")
        for bad in (
            *("/etc/passwd", "../s.jsonl", "a/../../s.jsonl", "a//s.jsonl", "", ".", "a/./s.jsonl", "s\0.jsonl"),
            *(".git/hooks/post-commit", ".GIT/config", "a/.sessioncompress/s.jsonl"),
            *(("s.jsonl", each) for each in ("other.jsonl", "s.jsonl", ".sessioncompress/.gitignore")),
            ("s.jsonl", ".sessioncompress/other.jsonl.zst"),
            ("s.jsonl", ".sessioncompress/s.refs.jsonl", ".sessioncompress/s.refs.jsonl"),
        )
    ),
    *(
        (f"{key} {value}", numbered(key, value), "not belong in the index")
        for key, value in (("mtimeNs", 1 << 63), ("mtimeNs", -(1 << 70)), ("size", 1 << 63), ("start", -1))
    ),
    ("nothing", b"", "it is empty"),
    ("an empty line", b"\n", "not belong in the index"),
    ("another object", b"{}", "not belong in the index"),
    ("deep", b"[" * 100_000, "not belong in the index"),
    ("version 0", b'{"type":"pack","version":0,"size":1}\n', "not belong in the index"),
    ("a negative size", b'{"type":"pack","version":1,"size":-1}\n', "not belong in the index"),
    ("a row without parts", PLAIN + b'{"type":"session"}\n', "not belong in the index"),
    ("no UTF-8", PLAIN + b"\xff\n", "not belong in the index"),
    ("an unknown state", PLAIN + b'{"type":"session","state":"gone"}\n', "not belong in the index"),
    ("too large", b" " * (packs.LONGEST_INDEX + 1), "larger than"),
]


@pytest.mark.parametrize(("content", "wrong"), [case[1:] for case in INDEXES], ids=[case[0] for case in INDEXES])
def test_an_index(tmp_path: Path, content: bytes, wrong: str) -> None:
    """It reads back as it was written; anything else is told as damage."""
    path = tmp_path / "p.index"
    path.write_bytes(content)
    if not wrong:
        assert read_index(path) == Index(5, (entry(title="é", members=tuple(map(member, WHOLE))),))
        return
    with pytest.raises(Damaged, match=wrong):
        read_index(path)


def test_an_index_of_a_later_version_is_refused(tmp_path: Path) -> None:
    """Whatever else it says: no backup of it would help. And a pipe is not read."""
    path = tmp_path / "p.index"
    path.write_bytes(b'{"type":"pack","version":2,"bytes":[1]}\n{}\n')
    with pytest.raises(Refused, match="of version 2, and this program reads version 1"):
        read_index(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Damaged, match="not a regular file"):
        read_index(path)
