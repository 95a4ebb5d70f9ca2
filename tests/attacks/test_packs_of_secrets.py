"""What a pack has can hold a secret: no copy of it stays that nobody names."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import FileFailed
from sessioncompress.operations.packed import each_packed, packed_in
from tests.support.packs import in_packs, pack, sessions_in, state, unpack
from tests.unit.store.tools import disk, in_a_child


@pytest.mark.parametrize("name", ["one.jsonl.originals.zst", "one.jsonl.packed"])
def test_what_cannot_be_deleted_beside_a_packed_session(tmp_path: Path, name: str) -> None:
    """Nobody is told that the session was not changed, and no other session is held up by it."""
    was = sessions_in(tmp_path)

    def refuse(number: int, call: str, arguments: tuple[Any, ...]) -> None:
        if call == "unlink" and Path(arguments[0]).name == name:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), arguments[0])

    with disk(refuse):
        (wrong,) = (each.error for each in pack(tmp_path) if each.error)
        assert isinstance(wrong, FileFailed)
        assert "It is packed" in str(wrong)
        assert in_packs(tmp_path) == ["below/three.jsonl", "one.jsonl", "two.jsonl"]
        assert [each.error for each in unpack(tmp_path)] == [None] * 3
    assert {name: now for name, now in state(tmp_path).items() if name in was} == was


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """As a packed session is read: what it was copied to lay in TMPDIR for good."""
    sessions_in(tmp_path / "s")
    pack(tmp_path / "s")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def end(place: Path, copy: Path) -> None:
        assert copy.read_bytes()
        (tmp_path / "seen").touch()
        os.kill(os.getpid(), number)

    assert in_a_child(lambda: list(each_packed(packed_in([tmp_path / "s"]), end))) == number
    assert (tmp_path / "seen").exists()
    assert list((tmp_path / "temporary").iterdir()) == []
