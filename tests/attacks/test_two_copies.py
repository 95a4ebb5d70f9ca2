"""Two copies of a project, a run in each, and the session of one brought back without its store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Refused
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.policy.model import PRESETS, Policy
from sessioncompress.store.layout import store_in
from tests.support.long import FEW, LONG
from tests.support.runs import compress, fixture, split, write

MARKED = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0, turn_threshold_before_compress=0)
UNMARKED = replace(MARKED, tool_call_max_bytes=1 << 30, tool_result_max_bytes=1 << 30, eliminate_redundancy=False)
"""Takes only what leaves no marker: thinking, and copies for the screen."""


@pytest.mark.parametrize("name", ["gemini document", "pi", "codex"])
def test_a_summary_that_came_without_its_store_is_no_part_of_a_new_one(tmp_path: Path, name: str) -> None:
    """A clone has it, say; a run begins another store, and what left for the summary is in no store here."""
    path = write(tmp_path, LONG[name](8))
    assert compact_session(path, FEW).is_compacted
    shutil.rmtree(store_in(path).folder)
    for use in (verify_session, restore_session):
        with pytest.raises(Refused, match="its store is missing"):
            use(path)
    left = path.read_bytes()
    compress(path, MARKED)
    with pytest.raises(Refused, match="its store is missing"):
        verify_session(path)
    assert (
        "it has a summary that compact wrote, which its store does not know: that stays" in restore_session(path).reason
    )
    assert path.read_bytes() == left


@pytest.mark.parametrize("name", ["pi-anthropic.jsonl", "omp.jsonl", "claude-code.jsonl"])
@pytest.mark.parametrize("policy", [MARKED, UNMARKED], ids=["with markers", "without"])
def test_that_another_stores_run_was_here_is_said(tmp_path: Path, name: str, policy: Policy) -> None:
    """Every original that this store knows comes back; that there may be more nobody takes for exact."""
    lines = split(fixture(name))
    for each in ("one", "two"):
        (tmp_path / each).mkdir()
    one = write(tmp_path / "one", b"".join(lines[: len(lines) // 2]))
    compress(one, policy)
    shutil.copytree(tmp_path / "one", tmp_path / "two", dirs_exist_ok=True)
    two = tmp_path / "two" / one.name
    with two.open("ab") as file:
        file.writelines(lines[len(lines) // 2 :])
    compress(two, policy)
    shutil.copyfile(two, one)
    verified = verify_session(one)
    assert verified.was_changed
    restored = restore_session(one)
    assert "changed since" in restored.reason
    shutil.copyfile(one, two)
    assert one.read_bytes() != b"".join(lines)
    back = split(one.read_bytes())
    # But for those that the other run rewrote once it had more.
    assert len([now for now in back[: len(lines) // 2] if now not in lines]) < 4
