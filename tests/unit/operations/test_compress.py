"""A session end to end, over and over: run, continued by its agent, run again, restored; and when nothing is to be done."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from msgspec.structs import replace

from sessioncompress.compressors import View, results
from sessioncompress.compressors.base import Ours
from sessioncompress.core import marker
from sessioncompress.core.model import Change, Kind, Treatment
from sessioncompress.operations import wording
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline import plan
from sessioncompress.pipeline.stats import Status
from sessioncompress.pipeline.usage import characters_per_token
from sessioncompress.policy.model import BALANCED, PRESETS, Policy
from sessioncompress.store.journal import load
from sessioncompress.store.layout import store_in
from tests.support import texts
from tests.support.build import (
    GeminiSession,
    OmpSession,
    OpenClawSession,
    PiSession,
    ResponsesSession,
    Use,
    dice,
)
from tests.support.runs import (
    EAGER,
    GREEDY,
    append,
    calls,
    compress,
    compress_again,
    disk,
    entries,
    fixture,
    journal_of,
    restore,
    result_texts,
    snapshot,
    split,
    turn,
    view_of,
    write,
)

Maker = Callable[[], PiSession]
MAKERS: list[Maker] = [PiSession, ResponsesSession, GeminiSession, OpenClawSession, OmpSession, lambda: PiSession(1)]


def work(made: PiSession, seed: int, turns: int = 2) -> PiSession:
    """Add turns with reads, writes, commands and thinking."""
    rng = random.Random(seed)
    for number in range(turns):
        made.user(f"Please do part {seed}.{number}.")
        text = texts.python_source(rng, 20)
        made.step("read", {"path": f"src/{number}.py"}, text, thinking=texts.prose(rng, 3))
        made.step(
            "write", {"path": f"src/{number}.py", "content": text + "# more\n"}, "Successfully wrote it", thinking="Hm."
        )
        uses = [
            Use("bash", {"command": "make"}, texts.log_lines(rng, 60)),
            Use("bash", {"command": "ls"}, texts.listing(rng)),
        ]
        made.parallel(uses, thinking=texts.prose(rng, 4))
        made.assistant(texts.prose(rng, 2))
    return made


def compact(path: Path, made: PiSession) -> None:
    """Continue a session by work and a checkpoint behind it, so that a further run pays."""
    work(made, 77)
    made.compaction("Done so far.", made.ids[-1])
    append(path, turn(made))


def comes_back(path: Path, made: PiSession, policy: Policy = EAGER) -> None:
    """Check that a further run changes nothing, and that every byte comes back."""
    compress_again(path, policy)
    verify_session(path, policy)
    restore(path, policy)
    assert path.read_bytes() == made.bytes()


def replaced(path: Path, upto: int) -> list[str]:
    """Return the texts in results and arguments of a session's first lines that hold a marker."""
    lines = entries(path.read_bytes())[:upto]
    found = result_texts(lines) + [leaf for part in calls(lines) for leaf in _leaves(part["arguments"])]
    return [text for text in found if marker.occurs_in(text)]


@pytest.mark.parametrize("make", MAKERS, ids=["pi", "responses", "gemini", "openclaw", "omp", "v1"])
def test_run_after_run_it_stays_exact(tmp_path: Path, make: Maker) -> None:
    """Compressed, continued, compressed with another preset, compacted, and so on; restored, every byte is back."""
    made = work(make().opening(), 1)
    path = write(tmp_path, made)
    low, high = (replace(PRESETS[name], size_threshold_kb=0, min_saved_kb=0) for name in ("low-cost", "high-quality"))
    for number, policy in enumerate((EAGER, low, high, GREEDY, EAGER, low)):
        before = path.stat().st_size
        stats = compress_session(path, policy)
        assert stats.compressed_size <= before
        compress_again(path, policy)
        verify_session(path, policy)
        work(made, number + 2)
        if number in (2, 4):
            made.compaction("All went well.", made.count - 3 if made.version == 1 else made.ids[-3])
            made.user("And now?")
            made.assistant("Now this.")
        append(path, made)
    restore(path)
    assert path.read_bytes() == made.bytes()


def test_references_stay_those_they_were(tmp_path: Path) -> None:
    """Compressed, compacted, compressed, restored, compressed: a text has one reference in its session."""
    made = work(PiSession(), 1)
    path = write(tmp_path, made)
    compress(path)
    compact(path, made)
    compress(path)
    known = {record["ref"] for record in journal_of(path) if record["type"] == "block"}
    restore(path)
    compress(path)
    assert {record["ref"] for record in journal_of(path) if record["type"] == "block"} == known


def test_a_preview_that_becomes_dead_shrinks_to_its_marker(tmp_path: Path) -> None:
    """The reference stays, no text of it is left, and the original is the tool's text, not the preview."""
    made = PiSession()
    made.user("Go.")
    logs = ["\n".join(texts.prose(random.Random(number + line)) for line in range(90)) for number in (0, 200, 400)]
    logs.append(logs[0] + "\n")
    for text in logs:
        made.step("bash", {"command": "make"}, text, thinking="I look at it.")
    path = write(tmp_path, turn(made))
    compress(path)
    upto = made.count
    shown = replaced(path, upto)
    assert len(shown) == len(logs)
    assert not any(marker.is_one(each) for each in shown)
    compact(path, made)
    compress(path)
    bare = replaced(path, upto)
    assert all(marker.is_one(each) for each in bare)
    assert [marker.references(each) for each in bare] == [marker.references(each) for each in shown]
    for each, expected in zip(bare, logs, strict=True):
        assert f"[[sessioncompress: {len(expected.splitlines())} lines, " in each
        assert [one.content for one in show(marker.references(each)[0], path)] == [expected.encode()]
    comes_back(path, made)


def test_originals_that_were_not_kept_at_first_are_never_made_up(tmp_path: Path) -> None:
    """Run without a backup, then with one: what is kept is what was there, under its own digest."""
    made = work(PiSession(), 1)
    path = write(tmp_path, made)
    compress(path, replace(EAGER, keep_backup=False))
    compact(path, made)
    compress(path)
    verify_session(path)
    done = restore_session(path, dry_run=True)
    assert "without keeping originals" in done.reason
    assert not done.exact
    for entry in entries(path.read_bytes()):
        for ref in marker.references(json.dumps(entry)):
            assert show(ref, path)


def test_a_parent_that_is_missing_is_told(tmp_path: Path) -> None:
    """With the line: the agent reads nothing before it any more."""
    lines = split(work(PiSession(), 2).bytes())
    assert not wording.warnings(compress_session(write(tmp_path, b"".join(lines)), EAGER, dry_run=True))
    at = max(number for number, raw in enumerate(lines) if b'"role":"user"' in raw)
    lines[at] = re.sub(rb'"parentId":"[^"]*"', b'"parentId":"gone"', lines[at])
    path = write(tmp_path, b"".join(lines))
    (told,) = wording.warnings(compress_session(path, EAGER, dry_run=True))
    assert told.startswith(f"{path}: the parent of line {at + 1} is missing, so pi goes on from that line; ")


def without_journal(folder: Path, policy: Policy) -> tuple[Path, PiSession]:
    """Compress a session and go on with it where nothing of what lies beside it is, as in a clone."""
    made = work(PiSession(), 1)
    path = write(folder, made)
    compress(path, policy)
    for each in store_in(path).folder.iterdir():
        each.unlink()
    work(made, 2)
    append(path, made)
    return path, made


@pytest.mark.parametrize("keep", [True, False])
def test_markers_without_a_journal_are_no_imitations(tmp_path: Path, keep: bool) -> None:
    """They may be ours: nobody is accused, now or when there is a journal again, but of what is new."""
    policy = replace(EAGER, keep_backup=keep)
    path, made = without_journal(tmp_path, policy)
    would = compress_session(path, policy, dry_run=True)
    stats = compress(path, policy)
    assert would.markers_without_journal == stats.markers_without_journal > 1
    assert would.imitated_in_calls == stats.imitated_in_calls == 0
    again = compress_again(path, policy)
    assert again.markers_without_journal == again.imitated_in_calls == 0
    shown = next(text for call in calls(entries(path.read_bytes())) if marker.occurs_in(text := json.dumps(call)))
    made.step("write", {"path": "copy", "content": json.loads(shown)["arguments"]["content"]}, "ok")
    append(path, made)
    assert compress_session(path, policy, force=True).imitated_in_calls == 1


def test_a_gain_that_is_too_small_writes_nothing(tmp_path: Path) -> None:
    """It says how much it would be; `force` lifts it."""
    path = write(tmp_path, work(PiSession(), 1))
    before = snapshot(path)
    stats = compress_session(path, replace(EAGER, min_saved_kb=1000))
    assert stats.status is Status.UNCHANGED
    saves = re.search(r"it would save only ([\d,.]+) KB, less than minSavedKB 1,000", stats.reason)
    assert saves
    assert snapshot(path) == before
    # Rounded it would not be less.
    would = compress_session(path, replace(EAGER, min_saved_kb=0), dry_run=True)
    gain = would.original_size - would.compressed_size - would.store_added
    assert float(saves[1]) == gain * 10 // 1024 / 10
    compress(path, replace(EAGER, min_saved_kb=1000, size_threshold_kb=1000), force=True)


@pytest.mark.parametrize(
    "policy", [EAGER, BALANCED, replace(EAGER, keep_backup=False)], ids=["eager", "balanced", "no backup"]
)
def test_a_dry_run_says_what_a_run_does_and_writes_nothing(tmp_path: Path, policy: Policy) -> None:
    """To the byte, of the session and of what lies beside it."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    before = snapshot(path)
    said = compress_session(path, policy, dry_run=True)
    assert snapshot(path) == before
    assert said.status is Status.WOULD_COMPRESS
    assert compress_session(path, policy) == replace(said, status=Status.COMPRESSED, run=ANY)
    assert path.stat().st_size == said.compressed_size
    assert disk(path) - said.compressed_size - said.store_size in (0, 2), "a .gitignore may lie there"


@pytest.mark.parametrize("runs", [1, 2], ids=["in one run", "in two"])
def test_lines_that_would_become_the_same_do_not(tmp_path: Path, runs: int) -> None:
    """Two results of version 1 that differ only in their details: which original would be whose?"""
    policy = replace(EAGER, eliminate_redundancy=False)
    made = PiSession(1)
    made.user("Go.")
    made.step("bash", {"command": "a"}, texts.log_lines(random.Random(1), 80), details={"one": "x" * 900})
    other = made.lines()[-1].replace(b'"one"', b'"two"')
    path = write(tmp_path, turn(made) if runs == 2 else made)
    if runs == 2:
        compress(path, policy)
    made.raw(other)
    made.step("read", {"path": "x"}, texts.log_lines(random.Random(3), 80))
    append(path, turn(made))
    compress(path, policy)
    lines = split(path.read_bytes())
    assert len(set(lines)) == len(set(made.lines()))
    comes_back(path, made, policy)


@pytest.mark.parametrize("other", range(3))
def test_copies_around_a_line_that_would_become_the_same_are_settled_in_one_run(tmp_path: Path, other: int) -> None:
    """Each is compared with the first of them, not with its neighbour."""
    made = PiSession(1)
    made.user("Go.")
    made.step("bash", {"command": "a"}, texts.log_lines(random.Random(1), 80), details={"one": "x" * 900})
    result = made.take_last()
    for number in range(4):
        made.raw(result.replace(b'"one"', b'"two"') if number == other else result)
    made.step("read", {"path": "x"}, texts.log_lines(random.Random(3), 80))
    path = write(tmp_path, turn(made))
    policy = replace(EAGER, eliminate_redundancy=False)
    compress(path, policy)
    comes_back(path, made, policy)


def test_a_copy_of_a_line_that_an_earlier_run_rewrote_is_settled_in_one_run(tmp_path: Path) -> None:
    """Equal originals may share a rewritten line, also where one of them is not what stands there before the run."""
    made = PiSession()
    made.user("Go.")
    for number in range(3):
        made.step("bash", {"command": "x"}, texts.log_lines(random.Random(number), 80), details={"diff": "x" * 9000})
    copied = made.lines()[-1]
    path = write(tmp_path, turn(made))
    compress(path, replace(EAGER, tool_result_max_bytes=1_000_000))
    made.raw(copied)
    append(path, turn(made))
    compress(path)
    lines = split(path.read_bytes())
    # The newer one holds the names, the older one need not say them again.
    rewritten = [lines[number] for number, line in enumerate(made.lines()) if line == copied]
    assert len(rewritten) == 2
    assert copied not in rewritten
    comes_back(path, made)


@pytest.mark.parametrize("size", range(860, 916, 6))
def test_what_is_said_twice_is_settled_in_one_run(tmp_path: Path, size: int) -> None:
    """Also where the marker alone would pay and the marker with what the text repeats would not."""
    made = PiSession()
    made.user("Go.")
    for number in range(60):
        made.step("bash", {"command": "x"}, texts.log_lines(random.Random(number), 12))
    for _ in range(2):
        made.step("mystery", {"command": "x"}, dice(1).randbytes(size).hex()[:size])
    made.compaction("All went well.", made.user("Now?"))
    path = write(tmp_path, turn(made, 3))
    low = replace(PRESETS["low-cost"], size_threshold_kb=0, min_saved_kb=0)
    compress(path, low)
    compress_again(path, low)


def test_nothing_is_planned_a_second_time(tmp_path: Path) -> None:
    """Of several texts in one call each keeps its preview; together they are still over the limit."""
    made = PiSession()
    made.user("Go.")
    for seed in range(20):
        edits = [texts.python_source(random.Random(f"{seed} {side}"), 20) for side in range(4)]
        made.step("edit", {"path": "a.py", "edits": [{"oldText": old, "newText": new} for old, new in pairwise(edits)]})
    path = write(tmp_path, turn(made, 3))
    compress(path, EAGER)
    journal = load(store_in(path).journal)
    assert not plan.plan(replace(view_of(path.read_bytes()), ours=Ours((journal,))), (), ())
    assert plan.plan(view_of(path.read_bytes()), (), ())


def test_a_line_that_would_never_come_to_rest_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def restless(view: View) -> Iterable[Change]:
        first, block = next(iter(view.blocks(Kind.RESULT)))
        yield Change(first, block.path, Treatment.SET, block.size // 2, block, value="x" * (block.size // 2))
        yield from (change for change in results.propose(view) if change.line != first)

    monkeypatch.setattr(plan, "COMPRESSORS", (restless,))
    made = PiSession()
    made.user("Go.")
    for number in range(3):
        made.step("bash", {"command": "x"}, texts.log_lines(random.Random(number), 90))
    path = write(tmp_path, turn(made))
    assert compress(path).lines_changed == 2
    assert all(text[:1] != "x" for text in result_texts(entries(path.read_bytes())))
    restore(path)
    assert path.read_bytes() == made.bytes()


def test_a_call_that_only_its_agent_reads_may_name_any_file(tmp_path: Path) -> None:
    """A lone surrogate is no text that the journal can hold."""
    made = PiSession()
    made.user("Go.")
    for number in range(3):
        made.step("read", {"path": f"a{number}"}, texts.log_lines(random.Random(number), 90))
    data = turn(made, 2).bytes().replace(b'"path":"a1"', rb'"path":"a\ud83d"')
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    compress(path)
    assert [block.get("file") for block in journal_of(path) if block["type"] == "block"] == ["a0", None, "a2"]
    restore(path)
    assert path.read_bytes() == data


def _read_early(made: PiSession) -> int:
    made.user("Go.")
    made.step("read", {"path": "a.py"}, "x = 1\n" * 4000)
    made.user("y" * 4000)
    return 0


def _read_late(made: PiSession) -> int:
    made.user("y" * 4000)
    made.assistant("z" * 4000)
    made.step("read", {"path": "a.py"}, "x = 1\n" * 4000)
    return 2000


def _mirror_alone(made: PiSession) -> int:
    made.user("y" * 4000)
    made.step("edit", {"path": "a.py"}, "Done.", details={"diff": "+ x\n" * 9000})
    return -1


def _off_the_path(made: PiSession) -> int:
    fork = made.user("y" * 4000)
    made.step("read", {"path": "a.py"}, "x = 1\n" * 9000)
    made.leaf = fork
    made.user("Not so. " + "y" * 400)
    return -1


CACHED = {"early": _read_early, "late": _read_late, "a mirror": _mirror_alone, "off the path": _off_the_path}


@pytest.mark.parametrize("name", CACHED)
def test_what_the_cache_loses_begins_with_the_first_message_that_a_model_reads_otherwise(
    tmp_path: Path, name: str
) -> None:
    """What stands before it the cache still holds; of mirrors and other branches no request has anything."""
    made = PiSession()
    kept = CACHED[name](made)
    stats = compress(write(tmp_path, turn(made)))
    assert stats.status is Status.COMPRESSED
    if kept < 0:
        assert stats.tokens_uncached == 0
    else:
        begins = stats.tokens_after - stats.tokens_uncached
        # Its model has fewer characters a token.
        kept = round(kept * 4 / characters_per_token("claude-opus-4-5"))
        assert kept <= begins <= kept + 130


def test_keys_of_digits_and_of_any_length_can_be_restored(tmp_path: Path) -> None:
    """A path is a path, whatever an agent's tools call their arguments."""
    long = texts.log_lines(random.Random(5), 40)
    keys = ["0", "007", "1" * 5000, "a/b~c", "~1", "", "-1", "١٢", "\u2028", "0.5", "1e5"]
    made = PiSession()
    made.user("Go.")
    for key in keys:
        made.step("odd", {key: long + key, "list": [{key: long + "." + key}]}, "ok")
    path = write(tmp_path, turn(made))
    compress(path)
    found = [leaf for part in calls(entries(path.read_bytes())) for leaf in _leaves(part["arguments"])]
    for leaf in found:
        for ref in marker.references(leaf):
            assert show(ref, path)[0].content.startswith(long.encode())
    assert sum(len(marker.references(leaf)) for leaf in found) == 2 * len(keys)
    verify_session(path)
    comes_back(path, made)


@pytest.mark.parametrize("policy", [EAGER, GREEDY], ids=["eager", "greedy"])
def test_hostile_names_break_nothing(tmp_path: Path, policy: Policy) -> None:
    """Names of files and tools stand in markers; quotes take two bytes there."""
    rng = random.Random(9)
    made = PiSession()
    made.user("Go.")
    for name in ('"' * 200, "]]" * 60, "[[sessioncompress: x]]", "\x00\x1b\u202e" * 40, "漢" * 100):
        for _ in range(3):
            made.step("read", {"path": name}, texts.python_source(rng, 12))
        made.step(name, {"path": name, "text": texts.prose(rng, 9)}, texts.python_source(rng, 12))
    path = write(tmp_path, turn(made))
    compress(path, policy)
    comes_back(path, made, policy)


def _leaves(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [leaf for child in children for leaf in _leaves(child)]
