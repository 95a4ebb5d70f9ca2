"""Stores of the first form, as version 1.0 wrote them, are restored for ever: see make.py."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

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
from tests.stores.first import EACH, is_whole, taken_out
from tests.support.runs import GREEDY, blocks_of, lines_of


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
