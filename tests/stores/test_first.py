"""Stores of the first form, as version 1.0 wrote them, are restored for ever: see make.py."""

from __future__ import annotations

import json
import tarfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import Refused
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.diff import diff_session
from sessioncompress.operations.history import session_runs
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_in
from tests.support.runs import GREEDY, blocks_of, lines_of

ARCHIVE = Path(__file__).with_name("first.tar.xz")


def _files() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive)
        return {name: file.read() for name, file in files if file}


FILES = _files()
INDEX: list[dict[str, Any]] = json.loads(FILES["index.json"])
EACH = pytest.mark.parametrize("one", INDEX, ids=[f"{one['agent']}, {one['life']}" for one in INDEX])


def taken_out(one: dict[str, Any], folder: Path) -> Path:
    """Return a session with its store, in a folder of its own."""
    for name, content in FILES.items():
        if name.startswith(f"{one['name']}/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    return folder / str(one["name"]) / "session.jsonl"


def is_whole(path: Path, one: dict[str, Any]) -> bool:
    """Tell whether every byte is there."""
    return sha256(path.read_bytes()).hexdigest() == str(one["sha256"])


@EACH
def test_every_byte_comes_back(one: dict[str, Any], tmp_path: Path) -> None:
    """And every command that reads a store reads this one."""
    path = taken_out(one, tmp_path)
    journal = journals.load(store_in(path).journal)
    assert not any(record.edit for record in lines_of(journal))
    verify_session(path)
    with diff_session(path) as found:
        assert list(found.messages) or found.summaries
    kept = [block.ref for line, block in blocks_of(journal) if line.place]
    for ref in kept[:3]:
        assert show(ref, path)
    lost = "without" in one["life"]
    assert restore_session(path, dry_run=True).exact is not lost
    restore_session(path)
    assert is_whole(path, one) is not lost


@EACH
def test_it_goes_on_in_today_s_form(one: dict[str, Any], tmp_path: Path) -> None:
    """A run adds edits, and is undone to what stood there; one of the first version alone where that is kept."""
    path = taken_out(one, tmp_path)
    before = path.read_bytes()
    done = compress_session(path, GREEDY, force=True)
    verify_session(path)
    if done.status is Status.COMPRESSED:
        restore_session(path, run=done.run)
        assert path.read_bytes() == before
    for run in reversed(session_runs(path)):
        with suppress(Refused):
            restore_session(path, run=run.run)
        verify_session(path)
    restore_session(path)
    assert is_whole(path, one) is ("without" not in one["life"])
