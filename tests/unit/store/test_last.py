"""What is told of a store without reading it: the last line of its journal, and what a run left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessioncompress.store.layout import LONGEST, has_leftovers, last_line, store_in


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
    path = tmp_path / "session.jsonl"
    folder = store_in(path).work
    assert not has_leftovers(path)
    folder.mkdir()
    (folder / name).touch()
    assert has_leftovers(path) is expected


def test_a_folder_is_listed_again_once_it_changed(tmp_path: Path) -> None:
    """Also where that was so long ago that its time is believed."""
    path = tmp_path / "session.jsonl"
    folder = store_in(path).work
    folder.mkdir()
    os.utime(folder, (1, 1))
    assert not has_leftovers(path)
    (folder / "session.jsonl.late-1-2-3-4-5").touch()
    assert has_leftovers(path)
