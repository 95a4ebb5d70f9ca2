"""What a pack has can hold a secret: no copy of it stays that nobody names."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import FileFailed, Unreadable
from sessioncompress.operations import forget
from sessioncompress.operations.forget import ForgetStats, forget_session
from sessioncompress.operations.packed import each_packed, meant_by, packed_in, unpack_sessions
from sessioncompress.operations.restore import restore_session
from sessioncompress.store import packing
from sessioncompress.store.layout import FOLDER, PACKS
from sessioncompress.store.packing import Pack, Packed
from sessioncompress.store.places import Disk
from tests.faults.tools import need
from tests.support.packs import in_packs, pack, packs_in, sessions_in, state, unpack
from tests.support.runs import invoke, run
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

    def end(each: Packed, copy: Path) -> None:
        assert copy.read_bytes()
        (tmp_path / "seen").touch()
        os.kill(os.getpid(), number)

    assert in_a_child(lambda: list(each_packed(packed_in([tmp_path / "s"]), end))) == number
    assert (tmp_path / "seen").exists()
    assert list((tmp_path / "temporary").iterdir()) == []


def content(archive: Path) -> bytes:
    return subprocess.run(["zstd", "-dcq", archive], capture_output=True, check=True).stdout


@pytest.mark.parametrize("is_gone", [False, True], ids=["is there", "was deleted since"])
def test_forget_leaves_nothing_in_a_pack(tmp_path: Path, is_gone: bool) -> None:
    """Of a session that came back, while others are packed there: nobody reads it there, but `tar` does."""
    need("zstd")
    was = sessions_in(tmp_path)
    pack(tmp_path)
    (before,) = packs_in(tmp_path)
    secret = was["one.jsonl"].content.splitlines()[1]
    assert secret in content(before.archive)
    list(unpack_sessions(meant_by([str(tmp_path / "one.jsonl")])))
    if is_gone:
        (tmp_path / "one.jsonl").unlink()
    would = forget_session(tmp_path / "one.jsonl", dry_run=True)
    assert packs_in(tmp_path)[0].index.size == before.index.size
    assert would.packs == 1
    assert forget_session(tmp_path / "one.jsonl") == would
    (after,) = packs_in(tmp_path)
    assert secret not in content(after.archive)
    assert "one" not in after.archive.with_name(f"{after.name}.index").read_text()
    assert [each.name for each in after.folder.iterdir() if before.name in each.name] == []
    assert [each.error for each in unpack(tmp_path)] == [None] * 2
    assert state(tmp_path) == {
        name: file for name, file in was.items() if "one" not in name or (name == "one.jsonl" and not is_gone)
    }


def of_others(made: Pack) -> None:
    made.folder.rename(made.root / FOLDER / PACKS)


def with_a_cut_index(made: Pack) -> None:
    index = made.archive.with_name(f"{made.name}.index")
    index.write_bytes(index.read_bytes()[:-20])


def without_an_index(made: Pack) -> None:
    """Lose what says that the session came back."""
    made.archive.with_name(f"{made.name}.index").unlink()


def behind_a_link(made: Pack) -> None:
    made.folder.rename(made.root.parent / "packs")
    made.folder.symlink_to(made.root.parent / "packs")


@pytest.mark.parametrize("does", [of_others, with_a_cut_index, without_an_index, behind_a_link])
def test_a_pack_that_may_still_have_it_is_told(tmp_path: Path, does: Callable[[Pack], None]) -> None:
    """It stays: what others packed does not become this user's own, nor is what cannot be read taken for empty."""
    sessions_in(tmp_path / "s")
    pack(tmp_path / "s")
    (made,) = packs_in(tmp_path / "s")
    path = tmp_path / "s/one.jsonl"
    list(unpack_sessions(meant_by([str(path)])))
    restore_session(path)
    run("compress", "--force", "--keep-turns", "0", path)
    does(made)
    before = {each: each.read_bytes() for each in tmp_path.rglob("*-1.*")}
    assert invoke("forget", "--unneeded", "--yes", path).exit_code == 0
    said = invoke("forget", "--yes", path)
    assert said.exit_code == 4
    assert "1 pack may still hold what was to go: " in said.stderr
    assert {each: each.read_bytes() for each in tmp_path.rglob("*-1.*")} == before
    assert list(tmp_path.rglob("*-2.*")) == []
    # The same again: it is no change that is told.
    assert invoke("forget", "--yes", path).stderr == said.stderr


def test_two_forget_at_once_what_a_pack_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second works on the pack that the first one wrote: else an index would stay without an archive."""
    sessions_in(tmp_path)
    pack(tmp_path)
    names = [str(tmp_path / name) for name in ("one.jsonl", "two.jsonl")]
    list(unpack_sessions(meant_by(names)))
    was = forget._forget_store

    def meanwhile(*given: Any, **more: Any) -> ForgetStats:
        monkeypatch.setattr(forget, "_forget_store", was)
        assert forget_session(names[1]).packs == 1
        return was(*given, **more)

    monkeypatch.setattr(forget, "_forget_store", meanwhile)
    assert forget_session(names[0]).packs == 1
    (left,) = packing.packs_in(Disk(tmp_path))
    assert isinstance(left, Pack)
    assert [each.entry.path for each in left.sessions()] == ["below/three.jsonl"]


def test_forget_of_a_pack_that_cannot_be_read(tmp_path: Path) -> None:
    """It stays, since others are in it, and nobody is told that the secret is gone."""
    sessions_in(tmp_path)
    pack(tmp_path)
    (made,) = packs_in(tmp_path)
    list(unpack_sessions(meant_by([str(tmp_path / "one.jsonl")])))
    data = made.archive.read_bytes()[:100]
    made.archive.write_bytes(data)
    with pytest.raises(Unreadable):
        forget_session(tmp_path / "one.jsonl")
    assert made.archive.read_bytes() == data
    assert [each.name for each in packs_in(tmp_path)] == [made.name]
