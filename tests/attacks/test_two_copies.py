"""Two copies of a project, a run in each, and the session of one brought back without its store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.policy.model import PRESETS, Policy
from tests.support.runs import compress, fixture, split, write

MARKED = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0, turn_threshold_before_compress=0)
UNMARKED = replace(MARKED, tool_call_max_bytes=1 << 30, tool_result_max_bytes=1 << 30, eliminate_redundancy=False)
"""Takes only what leaves no marker: thinking, and copies for the screen."""


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
