"""What a session lost: every replaced value once, with its original and what stands in its place."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.core.model import Kind
from sessioncompress.errors import Damaged, Refused
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.diff import Diff, Lessened, Loss, diff_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.policy.model import PRESETS, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_in
from tests.support.build import PiSession
from tests.support.long import FEW, LONG
from tests.support.runs import EAGER, FIXTURES, GREEDY, blocks_of, snapshot, write

ARCHIVE = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0)
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


@pytest.mark.parametrize("name", ["pi-anthropic.jsonl", "codex.jsonl"])
def test_what_a_later_run_replaced_again_is_one_loss(name: str, tmp_path: Path) -> None:
    path = compressed(tmp_path, name, replace(EAGER, preview_share=0.5, preview_max_bytes=8_000), ARCHIVE)
    journal = journals.load(store_in(path).journal)
    assert len(journal.runs) == 2
    losses = [loss for loss in lost(path)[2] if loss.block.ref]
    places = {(line.sha256, block.path) for line, block in blocks_of(journal)}
    assert len(losses) == len(places) < journal.counts[1]
    results = [loss.now for loss in losses if loss.block.kind is Kind.RESULT]
    assert any(now and now.startswith("[[sessioncompress: ") and now.endswith("]]") for now in results)


def test_a_message_says_where_it_stands(tmp_path: Path) -> None:
    _, messages, _ = lost(compressed(tmp_path, "pi-anthropic.jsonl", EAGER))
    assert {each.role for each in messages} == {"assistant", "result"}
    assert all(each.turn for each in messages)
    assert [each.turn for each in messages] == sorted(each.turn for each in messages)
    assert all(each.time > 1_700_000_000_000 for each in messages)
    raw = (tmp_path / "pi-anthropic.jsonl").read_bytes().splitlines()
    for each in messages:
        assert each.losses[0].now is None or each.losses[0].block.ref.encode() in raw[each.line - 1]


@pytest.mark.parametrize("name", ["claude-code.jsonl", "codex.jsonl", "gemini.jsonl"])
def test_a_message_says_when_it_was_written(name: str, tmp_path: Path) -> None:
    _, messages, _ = lost(compressed(tmp_path, name, EAGER))
    assert any(each.time > 1_700_000_000_000 for each in messages)


def test_a_value_is_found_behind_many_that_went(tmp_path: Path) -> None:
    """And thinking is told by its words, not by its signature, which may be longer."""
    made = PiSession()
    made.user("a")
    thoughts = [made.think(f"Thought {number}. " * 40) | {"thinkingSignature": "A" * 900} for number in range(40)]
    call = made.call("write", {"path": "a.txt", "content": "line\n" * 2000})
    made.assistant(*thoughts, call)
    made.result(str(call["id"]), "done", "write")
    for number in range(6):
        made.step("bash", {"command": f"{number}"}, "ok", thinking="Now the next one.")
        made.user("b")
    path = write(tmp_path, made.bytes())
    compress_session(path, EAGER)
    _, _, losses = lost(path)
    *thinking, argument = losses[:41]
    assert [loss.original for loss in thinking] == [f"Thought {number}. " * 40 for number in range(40)]
    assert {loss.now for loss in thinking} == {None}
    assert argument.original == "line\n" * 2000
    assert argument.now is not None
    assert argument.block.ref in argument.now


def test_what_an_earlier_run_took_and_a_later_one_left_is_no_loss(tmp_path: Path) -> None:
    """The journal keeps the records of both."""
    path = compressed(tmp_path, "claude-code.jsonl", GREEDY)
    assert any(loss.block.kind is Kind.RESULT for loss in lost(path)[2])
    restore_session(path)
    compress_session(path, replace(GREEDY, tool_result_max_bytes=1 << 20, eliminate_redundancy=False))
    _, _, losses = lost(path)
    assert any(loss.block.kind is Kind.MIRROR for loss in losses)
    assert not any(loss.block.kind is Kind.RESULT for loss in losses)


def test_without_originals_only_numbers_are_told(tmp_path: Path) -> None:
    path = compressed(tmp_path, "pi-anthropic.jsonl", replace(EAGER, keep_backup=False))
    _, _, losses = lost(path)
    assert losses
    assert all(loss.original is None for loss in losses)


def test_a_restored_session_lost_nothing(tmp_path: Path) -> None:
    path = compressed(tmp_path, "pi-anthropic.jsonl", EAGER)
    restore_session(path)
    found, _, losses = lost(path)
    assert (found.has_store, losses) == (True, [])


def test_a_summary_is_told_in_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, LONG["pi"](8))
    stats = compact_session(path, FEW, drop_dead=True)
    found, _, _ = lost(path)
    (summary,) = found.summaries
    assert (summary.by, summary.rule) == ("extractive", FEW.compact.keep)
    # The journal rounds.
    assert abs(summary.tokens_before - stats.tokens_before) < 3
    assert abs(summary.tokens_after - stats.tokens_after) < 3
    assert summary.moved >= stats.lines_dropped > 0
    restore_session(path)
    assert lost(path)[0].summaries == []


def test_equal_lines_are_told_each(tmp_path: Path) -> None:
    made = PiSession()
    made.user("a")
    made.step("bash", {"command": "x"}, "line\n" * 2000)
    made.user("b")
    lines = made.bytes().splitlines(keepends=True)
    path = write(tmp_path, b"".join([*lines[:-1], lines[-2], lines[-1]]))
    compress_session(path, replace(EAGER, turn_threshold_before_compress=0, protect_tokens=0))
    _, messages, losses = lost(path)
    assert len({each.line for each in messages}) == len(messages) == len(losses) >= 1


def test_gone_originals_are_named(tmp_path: Path) -> None:
    path = compressed(tmp_path, "pi-anthropic.jsonl", EAGER)
    store_in(path).originals.unlink()
    with pytest.raises(Damaged, match=re.escape(str(store_in(path).originals))):
        lost(path)


def test_a_session_without_its_store_is_refused_by_name(tmp_path: Path) -> None:
    path = compressed(tmp_path, "pi-anthropic.jsonl", EAGER)
    shutil.rmtree(store_in(path).folder)
    with pytest.raises(Refused, match="its store is missing"):
        lost(path)


def test_a_session_that_was_never_compressed(tmp_path: Path) -> None:
    found, _, losses = lost(compressed(tmp_path, "pi-anthropic.jsonl"))
    assert (found.has_store, losses) == (False, [])
