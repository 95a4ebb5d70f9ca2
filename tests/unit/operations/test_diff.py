"""What a session lost: every replaced value once, with its original and what stands in its place."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.core.model import Kind
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.diff import Diff, Lessened, Loss, diff_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.policy.model import Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_in
from tests.support.runs import EAGER, FIXTURES, GREEDY, snapshot

SMALLER = sorted(
    path.name
    for path in FIXTURES.iterdir()
    if path.suffix in (".json", ".jsonl") and not path.name.startswith("look-alike")
)


def compressed(folder: Path, name: str, *policies: Policy) -> Path:
    """Copy a fixture and compress it, with one policy after the other."""
    path = folder / name
    shutil.copy(FIXTURES / name, path)
    for policy in policies:
        compress_session(path, policy)
    return path


def lost(path: Path, policy: Policy = EAGER) -> tuple[Diff, list[Lessened], list[Loss]]:
    """Return what a session lost; nothing of it or beside it changes."""
    before = snapshot(path)
    with diff_session(path, policy) as found:
        messages = list(found.messages)
    assert snapshot(path) == before
    return found, messages, [loss for each in messages for loss in each.losses]


@pytest.mark.parametrize("name", SMALLER)
def test_every_record_of_a_run_is_one_loss(name: str, tmp_path: Path) -> None:
    """Its original has the recorded size, and what stands there is found wherever a text does."""
    path = compressed(tmp_path, name, GREEDY)
    journal = journals.load(store_in(path).journal)
    found, messages, losses = lost(path)
    losses = [loss for loss in losses if loss.block.ref]
    assert len(losses) == journal.counts[1]
    assert found.has_store is bool(journal.runs)
    text = path.read_bytes()
    for loss in losses:
        assert loss.original is not None
        assert loss.now is not None or not loss.block.replacement
        assert loss.block.kind is not Kind.RESULT or len(loss.original.encode()) == loss.block.bytes
        assert loss.now is None or loss.block.ref.encode() in text
    assert [each.line for each in messages] == sorted({each.line for each in messages})


@pytest.mark.parametrize("name", SMALLER)
def test_it_counts_as_the_run_did(name: str, tmp_path: Path) -> None:
    """Also thinking without a record; of a call all arguments are one."""
    path = tmp_path / name
    shutil.copy(FIXTURES / name, path)
    stats = compress_session(path, GREEDY)
    _, messages, _ = lost(path)
    losses = [(each.line, loss.block) for each in messages for loss in each.losses]
    calls = {(line, block.call) for line, block in losses if block.kind is Kind.ARGUMENT}
    kinds = Counter(block.kind for _, block in losses)
    said = (stats.tool_calls_compressed, stats.tool_results_compressed, stats.thinking_blocks_removed)
    assert said == (len(calls), kinds[Kind.RESULT], kinds[Kind.THINKING])
    assert (stats.images_replaced, stats.mirrors_replaced) == (kinds[Kind.IMAGE], kinds[Kind.MIRROR])


def test_what_an_earlier_run_took_and_a_later_one_left_is_no_loss(tmp_path: Path) -> None:
    """The journal keeps the records of both."""
    path = compressed(tmp_path, "claude-code.jsonl", GREEDY)
    assert any(loss.block.kind is Kind.RESULT for loss in lost(path)[2])
    restore_session(path)
    compress_session(path, replace(GREEDY, tool_result_max_bytes=1 << 20, eliminate_redundancy=False))
    _, _, losses = lost(path)
    assert any(loss.block.kind is Kind.MIRROR for loss in losses)
    assert not any(loss.block.kind is Kind.RESULT for loss in losses)
