"""The newest run of a journal is read from its end, and only where nothing about it is in doubt."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.errors import IsALink
from sessioncompress.store.journal import clash, last_run, load
from sessioncompress.store.layout import LONGEST, Store, has_leftovers, last_line, store_in
from tests.support import texts
from tests.support.build import PiSession, dice
from tests.support.runs import compress, restore, turn, write


def done(folder: Path) -> Store:
    """Compress a session; return what lies beside it."""
    made = PiSession()
    for number in range(6):
        made.user(f"Part {number}.")
        made.step("read", {"path": f"{number}.py"}, texts.python_source(dice("last", number), 25))
    path = write(folder, turn(made))
    compress(path)
    return store_in(path)


def test_it_is_the_last_of_all(tmp_path: Path) -> None:
    """And both files end with it."""
    files = done(tmp_path)
    found, whole = last_run(files), load(files.journal)
    assert found is not None
    assert (found.runs, found.size, found.store_size) == (whole.runs[-1:], whole.size, whole.store_size)


def _torn(store: Store) -> None:
    with store.journal.open("ab") as file:
        file.write(b'{"type":"li')


def _with_a_line_behind(store: Store) -> None:
    with store.journal.open("ab") as file:
        file.write(store.journal.read_bytes().splitlines(keepends=True)[0])


def _with_another_digit(store: Store) -> None:
    data = store.journal.read_bytes()
    at = data.index(b'"sha256":"') + 10
    store.journal.write_bytes(data[:at] + (b"0" if data[at : at + 1] != b"0" else b"1") + data[at + 1 :])


def _put_behind_anothers(store: Store) -> None:
    data = store.journal.read_bytes()
    store.journal.write_bytes(data + data)


def _without_a_prefix(store: Store) -> None:
    lines = store.journal.read_bytes().splitlines(keepends=True)
    record = json.loads(lines[-1])
    del record["prefix"], record["sha256"]
    store.journal.write_bytes(b"".join(lines[:-1]) + json.dumps(record).encode() + b"\n")


def _with_more_originals(store: Store) -> None:
    with store.originals.open("ab") as file:
        file.write(b"x")


NONE: dict[str, Callable[[Store], object]] = {
    "no journal": lambda files: files.journal.unlink(),
    "an empty one": lambda files: files.journal.write_bytes(b""),
    "a torn one": _torn,
    "records of no run": _with_a_line_behind,
    "a flipped digit": _with_another_digit,
    "another's records before it": _put_behind_anothers,
    "a run that noted nothing": _without_a_prefix,
    "no originals": lambda files: files.originals.unlink(),
    "originals that went on": _with_more_originals,
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_in_doubt_is_none(tmp_path: Path, name: str) -> None:
    """Then the whole journal is read, and says what is wrong with it."""
    files = done(tmp_path)
    NONE[name](files)
    assert last_run(files) is None


def test_a_link_is_refused(tmp_path: Path) -> None:
    """As whoever reads the whole journal refuses it."""
    files = done(tmp_path)
    files.journal.rename(files.journal.with_name("other"))
    files.journal.symlink_to("other")
    with pytest.raises(IsALink):
        last_run(files)


def test_a_restore_is_none(tmp_path: Path) -> None:
    """What it left is not finished."""
    files = done(tmp_path)
    restore(tmp_path / "session.jsonl")
    assert last_run(files) is None


LINE = b'{"type":"line","original":{"sha256":"%s"},"rewrittenSha256":"%s"}\n'
BLOCK = b'{"type":"block","ref":"%s","xxh3":"%s"}\n'
HELD = LINE % (b"a" * 64, b"b" * 64) + BLOCK % (b"1" * 12, b"1" * 16)
CLASHES: tuple[tuple[str, bytes, bool], ...] = (
    ("others", LINE % (b"c" * 64, b"d" * 64) + BLOCK % (b"2" * 12, b"2" * 16), False),
    ("the same content", BLOCK % (b"1" * 12, b"1" * 16), False),
    ("another content by that reference", BLOCK % (b"1" * 12, b"1" * 12 + b"2222"), True),
    ("the same rewritten line", LINE % (b"c" * 64, b"b" * 64), True),
    ("the same original", LINE % (b"a" * 64, b"d" * 64), True),
    ("a rewritten line that was an original", LINE % (b"c" * 64, b"a" * 64), True),
)


@pytest.mark.parametrize(("name", "new", "expected"), CLASHES, ids=[each[0] for each in CLASHES])
def test_what_new_records_must_not_name(tmp_path: Path, name: str, new: bytes, expected: bool) -> None:
    """A line that the journal names, or by one reference another content."""
    del name
    files = store_in(tmp_path / "session.jsonl")
    files.folder.mkdir()
    files.journal.write_bytes(HELD)
    assert clash(files, [new]) is expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", b""),
        (b"torn", b""),
        (b"one\ntorn", b""),
        (b"one\n", b"one\n"),
        (b"one\ntwo\n", b"two\n"),
        (b"one\n" + b"x" * 9000 + b"\n", b"x" * 9000 + b"\n"),
        (b"x" * 9000 + b"\n", b"x" * 9000 + b"\n"),
        (b"x" * (2 * LONGEST) + b"\n", b""),
    ],
    ids=["empty", "one torn", "torn", "one", "two", "long", "one long", "too long"],
)
def test_the_last_line(tmp_path: Path, content: bytes, expected: bytes) -> None:
    """However long the rest is."""
    path = tmp_path / "journal"
    path.write_bytes(content)
    assert last_line(path) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("session.jsonl.zst", False),
        ("other.jsonl.temp-0123abcd", False),
        ("session.jsonl.temp-0123abcd", True),
        ("session.jsonl.late-1-2-3-4-5", True),
    ],
)
def test_what_a_run_looks_after_first(tmp_path: Path, name: str, expected: bool) -> None:
    """Its own traces."""
    path = tmp_path / "session.jsonl"
    folder = store_in(path).folder
    assert not has_leftovers(path)
    folder.mkdir()
    (folder / name).touch()
    assert has_leftovers(path) is expected


def test_a_folder_is_listed_again_once_it_changed(tmp_path: Path) -> None:
    """Also where that was so long ago that its time is believed."""
    path = tmp_path / "session.jsonl"
    folder = store_in(path).folder
    folder.mkdir()
    os.utime(folder, (1, 1))
    assert not has_leftovers(path)
    (folder / "session.jsonl.late-1-2-3-4-5").touch()
    assert has_leftovers(path)


def test_a_line_without_end_is_not_held(tmp_path: Path) -> None:
    """Of a journal that others wrote as little is in memory as of our own."""
    files = done(tmp_path)
    with files.journal.open("r+b") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    assert not clash(files, [b'{"xxh3":"0123456789abcdef"}'])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 << 20
