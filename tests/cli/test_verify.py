"""`verify` of a session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sessioncompress.store.layout import store_in
from tests.support.commands import document, flip, one, run
from tests.support.runs import snapshot


def test_verify(compressed: Path) -> None:
    """The line says what was read and compared; contents, inodes and times are as they were."""
    before = snapshot(compressed)
    result = run("verify", "session.jsonl")
    assert snapshot(compressed) == before
    assert result.exit_code == 0
    assert re.fullmatch(
        r"session\.jsonl: pi, 98 lines, (\d+) rewritten, \1 originals checked, all good\n", result.stdout
    ), result.stdout


def test_verify_says_which_lines_have_no_original(session: Path) -> None:
    """That is what was asked for, and no failure."""
    changed = one("compress", "--no-backup", session)["linesChanged"]
    result = run("verify", "session.jsonl")
    assert result.exit_code == 0
    assert result.stdout == (
        f"session.jsonl: pi, 98 lines, {changed} rewritten, 0 originals checked, all good; "
        f"{changed} lines have no original (keepBackup: false) and cannot be restored\n"
    )
    total = run("verify", ".").stdout.splitlines()[-1]
    assert total == f"total: 1 session{result.stdout.strip().removeprefix('session.jsonl: pi').replace(',', ':', 1)}"


def test_verify_as_json(compressed: Path) -> None:
    found = document("verify", "session.jsonl")
    assert found["schema"] == "sessioncompress.verify/1"
    (file,) = found["files"]
    assert (file.pop("path"), file.pop("format"), file["linesWithoutOriginal"]) == ("session.jsonl", "pi", 0)
    assert file["originals"] == file["linesRewritten"] > 0
    assert set(file) == {
        *("lines", "linesNotUnderstood", "linesRewritten", "linesWithoutOriginal", "originals", "blocks"),
        *("unknownMarkers", "linesNotThere", "markersOfRelatives", "openToOthers", "foreignFiles", "notUnderstoodAt"),
        *("changed", "wasChanged", "elsewhere", "madeElsewhere"),
    }


def test_verify_finds_a_flipped_byte(compressed: Path) -> None:
    """In the originals: exit code 5, naming the file."""
    flip(store_in(compressed).originals)
    result = run("verify", "session.jsonl")
    assert result.exit_code == 5
    assert str(store_in(compressed).originals) in result.stderr
    assert "The session was not changed." in result.stderr
    assert run("restore", "session.jsonl").exit_code == 5


@pytest.mark.parametrize("left", [None, b"", b"{"], ids=["missing", "empty", "torn"])
def test_verify_finds_a_lost_journal(compressed: Path, left: bytes | None) -> None:
    """Exit code 5, for every other command that would need it too; nothing is touched but by forget.

    That says that nothing it deleted knew of the markers in the session.
    """
    journal = store_in(compressed).journal
    if left is None:
        journal.unlink()
    else:
        journal.write_bytes(left * 2)
    before = snapshot(compressed)
    compress = ("compress", "--min-size", "0")
    for command in (("verify",), ("restore",), ("stats",), compress, (*compress, "--dry-run"), (*compress, "--check")):
        assert run(*command, "session.jsonl").exit_code == 5
    assert snapshot(compressed) == before
    forgotten = run("forget", "--yes", "session.jsonl")
    assert forgotten.exit_code == 4
    assert "markers that no journal here knew" in forgotten.stdout
    assert not store_in(compressed).originals.exists()
