"""Compacting: the summary in the agent's form, what is kept as it was, the second run, and the way back."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Summary, Written
from sessioncompress.errors import Damaged, Refused
from sessioncompress.formats.base import Format
from sessioncompress.formats.codex import Codex
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import PRESETS, CutRule
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_in
from tests.support import texts
from tests.support.documents import OpenCodeExport
from tests.support.long import FEW, LINES, LONG, NUMBERED, SMALL, pi, rounds_come_to_rest
from tests.support.records import GeminiRecords
from tests.support.runs import compress, fixture, form_of, journal_of, snapshot, split, survey_of, write
from tests.support.session import PiSession

EACH = pytest.mark.parametrize("name", LONG)
EITHER = pytest.mark.parametrize(
    ("name", "drop"), [(name, drop) for name in LONG for drop in (False, True) if not (drop and name == NUMBERED)]
)
"""With the old lines left in the session, and dropped."""
EACH_OF_LINES = pytest.mark.parametrize("name", LINES)


def compacted(folder: Path, name: str, *, drop: bool = False) -> Path:
    path = write(folder, LONG[name](8))
    stats = compact_session(path, FEW, drop_dead=drop)
    assert stats.status is Status.COMPACTED, stats.reason
    assert stats.lines_dropped or not drop
    return path


# What is written


@EACH_OF_LINES
def test_every_line_stays_and_the_model_reads_the_summary_and_what_is_kept(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, LONG[name](8))
    stats = compact_session(path, FEW)
    before, after = split(LONG[name](8)), split(path.read_bytes())
    assert [line for line in after if line in before] == before
    (record,) = [each for each in journal_of(path) if each["type"] == "checkpoint"]
    assert len(after) - len(before) == len(record["lines"])
    assert stats.tokens_after < stats.tokens_before / 2
    assert (stats.size_before, stats.size_after) == (len(LONG[name](8)), path.stat().st_size)
    assert 0 < stats.messages_kept < stats.messages_before
    read = survey_of(path.read_bytes())
    live = [after[number] for number in read.shape.live if number not in read.shape.dead]
    assert any(b"Extracted by sessioncompress" in line for line in live)
    assert not any(b"service-0.log" in line and b"Extracted" not in line for line in live)
    assert before[-1] in live


def test_what_is_kept_must_stand_in_the_line_that_repeats_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, LONG[NUMBERED](8))
    before, whole = path.read_bytes(), Codex.checkpoint

    def cut_short(self: Codex, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        made = whole(self, session, cut, summary)
        entry = json.loads(made.added[0].line)
        del entry["payload"]["replacement_history"][2:]
        return made._replace(
            added=(Addition(made.added[0].before, json.dumps(entry).encode() + b"\n"), *made.added[1:])
        )

    monkeypatch.setattr(Codex, "checkpoint", cut_short)
    with pytest.raises(Damaged, match="the summary would not be read"):
        compact_session(path, FEW)
    assert path.read_bytes() == before


def test_what_was_taken_out_of_the_context_is_in_no_summary(tmp_path: Path) -> None:
    """Nor what other words took the place of; an edit that a later one takes back says nothing."""
    lines = split(pi(8))
    prompts = [entry["id"] for entry in map(json.loads, lines) if (entry.get("message") or {}).get("role") == "user"]
    edits = [(0, None), (1, {"content": "Other words."}), (2, None), (2, {"content": "Part 2, again."})]
    leaf = json.loads(lines[-1])["id"]
    for number, (at, instead) in enumerate(edits):
        own = {"id": f"edit{number:04d}", "parentId": leaf, "timestamp": "2026-03-02T10:00:00.000Z"}
        entry = {"type": "context_edit", **own, "targetId": prompts[at], "replacement": instead}
        lines.append(json.dumps(entry).encode() + b"\n")
        leaf = own["id"]
    made = PiSession()
    made.branch(leaf)
    made.user("Go on.")
    made.step("bash", {"command": "cat all.log"}, texts.log_lines(random.Random(9), 300))
    path = write(tmp_path, b"".join(lines + made.lines()[1:]))
    text = compact_session(path, FEW).summary
    assert [part for part in ("Part 0:", "Part 1:", "Part 2:") if part in text] == []
    assert all(part in text for part in ("Other words.", "Part 2, again.", "Part 3:"))


# What is left alone


def test_what_the_policy_switches_off_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path, pi())
    assert compact_session(path, replace(FEW, enabled=False)).status is Status.SKIPPED


def test_an_agent_without_a_form_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = type(form_of(pi()))
    monkeypatch.setattr(form, "checkpoint", lambda *_: None)
    path = write(tmp_path, pi())
    with pytest.raises(Refused, match="can't write a summary for pi"):
        compact_session(path, FEW)
    assert path.read_bytes() == pi()


@pytest.mark.parametrize("fault", ["no checkpoint", "an old line is read", "a kept line is not read"])
def test_a_form_that_its_own_reader_does_not_see_is_not_written(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check before the commit goes by what the next run will read."""
    form = type(form_of(pi()))
    real = form.checkpoint

    def wrong(self: Format, *given: object) -> object:
        made = real(self, *given)  # type: ignore[arg-type]
        assert made is not None
        (one,) = made.added
        entry = json.loads(one.line)
        ids = [json.loads(line).get("id") for line in split(pi())]
        entry |= {
            "no checkpoint": {"type": "custom"},
            "an old line is read": {"firstKeptEntryId": ids[4]},
            "a kept line is not read": {"firstKeptEntryId": ids[-1]},
        }[fault]
        return made._replace(added=(one._replace(line=json.dumps(entry).encode() + b"\n"),))

    monkeypatch.setattr(form, "checkpoint", wrong)
    path = write(tmp_path, pi())
    with pytest.raises(Damaged, match="the rewritten session failed its check"):
        compact_session(path, FEW)
    assert path.read_bytes() == pi()
    assert not store_in(path).journal.exists()


# Lines without their end


def test_behind_a_whole_line_without_its_end_one_is_added_and_taken_out(tmp_path: Path) -> None:
    data = pi().removesuffix(b"\n")
    path = write(tmp_path, data)
    assert compact_session(path, FEW).status is Status.COMPACTED
    assert path.read_bytes().startswith(data + b"\n{")
    assert path.read_bytes().endswith(b"\n")
    restore_session(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("more", [b"\n", b"\n\n", b'\n{"type":"custom"}'], ids=["an end", "two", "a line behind one"])
@pytest.mark.parametrize(("name", "drop"), [("pi", False), ("pi", True), ("codex", False), ("codex", True)])
def test_an_end_that_another_program_adds_behind_it_is_the_only_one(
    tmp_path: Path, name: str, drop: bool, more: bytes
) -> None:
    data = LINES[name](8).removesuffix(b"\n")
    path = write(tmp_path, data)
    assert compact_session(path, FEW, drop_dead=drop).status is Status.COMPACTED
    path.write_bytes(path.read_bytes() + more)
    restore_session(path)
    assert path.read_bytes() == data + more


def test_what_an_agent_adds_behind_it_keeps_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, pi().removesuffix(b"\n"))
    compact_session(path, FEW)
    last = json.loads(split(path.read_bytes())[-1])
    more = {"type": "custom", "id": "feedbeef", "parentId": last["id"]}
    with path.open("ab") as file:
        file.write(json.dumps(more).encode() + b"\n")
    restore_session(path)
    *before, added = split(path.read_bytes())
    assert b"".join(before) == pi()
    assert json.loads(added) == more | {"parentId": last["parentId"]}


@pytest.mark.parametrize("value", [rb'"\ud83d"', b"1e400", b"[" * 300 + b"]" * 300])
def test_what_hangs_on_it_and_only_the_agent_reads_is_hung_where_it_belongs(value: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, pi())
    compact_session(path, FEW)
    ours, last = (json.loads(split(data)[-1])["id"].encode() for data in (path.read_bytes(), pi()))
    more = b'{"type":"custom","id":"feedbeef","parentId":"%s","data":' + value + b"}\n"
    path.write_bytes(path.read_bytes() + more % ours)
    restore_session(path)
    assert path.read_bytes() == pi() + more % last


def test_a_parent_that_is_no_name_is_none_of_ours(tmp_path: Path) -> None:
    path = write(tmp_path, pi())
    compact_session(path, FEW)
    more = (
        b'{"type":"custom","id":"feedbeef","parentId":["%s"]}\n'
        % json.loads(split(path.read_bytes())[-1])["id"].encode()
    )
    path.write_bytes(path.read_bytes() + more)
    restore_session(path)
    assert path.read_bytes() == pi() + more


def test_half_a_line_at_the_end_is_refused(tmp_path: Path) -> None:
    data = pi() + b'{"type":"message","id":"0123'
    path = write(tmp_path, data)
    with pytest.raises(Refused, match="its last line is cut off"):
        compact_session(path, FEW)
    assert path.read_bytes() == data


# The way back


@EITHER
def test_restore_takes_it_out(name: str, drop: bool, tmp_path: Path) -> None:
    path = compacted(tmp_path, name, drop=drop)
    verify_session(path)
    stats = restore_session(path)
    assert (stats.status, stats.checkpoints_removed, stats.reason) == (Status.RESTORED, 1, "")
    assert path.read_bytes() == LONG[name](8)
    assert restore_session(path).status is Status.UNCHANGED
    verify_session(path)
    assert compact_session(path, FEW, drop_dead=drop).status is Status.COMPACTED
    restore_session(path)
    assert path.read_bytes() == LONG[name](8)


@EITHER
@pytest.mark.parametrize("order", ["ps", "sp", "sps"])
def test_restore_undoes_both_commands_in_either_order(name: str, drop: bool, order: str, tmp_path: Path) -> None:
    path = write(tmp_path, LONG[name](8))
    for command in order:
        compact_session(path, SMALL, drop_dead=drop) if command == "p" else compress_session(path, SMALL)
        verify_session(path)
    records = {each["type"] for each in journal_of(path)} - {"dropped"}
    # Where the old part goes, as that of a document does, there may be nothing left to compress.
    assert records == {"edit", "block", "checkpoint", "run"} or (
        "checkpoint" in records and (drop or name not in LINES)
    )
    stats = restore_session(path)
    assert (stats.checkpoints_removed, stats.reason) == (1, "")
    assert path.read_bytes() == LONG[name](8)


@EITHER
def test_five_rounds_of_both_come_to_rest(name: str, drop: bool, tmp_path: Path) -> None:
    rounds_come_to_rest(tmp_path, name, lambda path: compact_session(path, SMALL, drop_dead=drop))


def test_a_checkpoint_that_was_altered_stays_and_is_told_of(tmp_path: Path) -> None:
    path = compacted(tmp_path, "pi")
    altered = path.read_bytes().replace(b"The user's requests", b"The person's requests")
    path.write_bytes(altered)
    stats = restore_session(path)
    assert (stats.status, path.read_bytes()) == (Status.UNCHANGED, altered)
    assert "1 summary is no longer as we wrote it" in stats.reason


@EACH
@pytest.mark.parametrize("command", [restore_session, verify_session])
def test_without_its_store_it_is_refused(name: str, command: Callable[[Path], object], tmp_path: Path) -> None:
    path = compacted(tmp_path, name)
    there = path.read_bytes()
    shutil.rmtree(store_in(path).folder)
    with pytest.raises(Refused, match="it has a summary that compact wrote, but its store is missing"):
        command(path)
    assert path.read_bytes() == there


@EACH_OF_LINES
def test_lines_that_were_rewritten_before_and_behind_a_checkpoint_count_once(name: str, tmp_path: Path) -> None:
    """A checkpoint moves the lines behind it: their numbers change, and they are the same lines."""
    path = write(tmp_path, LONG[name](8))
    compress(path, SMALL)
    restore_session(path)
    compact_session(path, FEW)
    compress(path, SMALL)
    assert verify_session(path).lines_not_there == 0
    assert restore_session(path).reason == ""
    assert path.read_bytes() == LONG[name](8)


@pytest.mark.parametrize("name", [name for name in LONG if name not in (*LINES, NUMBERED) and "opencode" not in name])
def test_the_summary_stays_in_a_document_that_was_written_anew(name: str, tmp_path: Path) -> None:
    """What left it cannot be put back where nothing stands as it was written."""
    path = compacted(tmp_path, name)
    path.write_bytes(json.dumps(json.loads(path.read_bytes()), indent=7).encode())
    there = path.read_bytes()
    for _ in range(2):
        done = restore_session(path)
        assert (done.status, done.exact, done.checkpoints_removed) == (Status.UNCHANGED, False, 0)
        assert "1 summary is no longer as we wrote it; what is left of it stays; 'zstd -dc" in done.reason
    with pytest.raises(Damaged, match="1 summary is no longer as we wrote it"):
        verify_session(path)
    assert path.read_bytes() == there
    assert restore_session(path, keep_checkpoints=True).checkpoints_removed == 0


def opencode_between_summaries(turns: int = 12) -> bytes:
    """Return an export with a summary of the agent's own among what it still reads, in messages that begin alike."""
    made = OpenCodeExport()
    for turn in range(turns):
        made.user(f"Part {turn}: look at the logs.", diff=f"-a{turn}\n+b\n" * 90)
        made.assistant().tool("bash", {"command": f"cat {turn}.log"}, f"Gauge {turn} failed.\n" * 150)
        made.assistant(finish="stop").part("text", text=f"Gauge {turn} failed at noon.").finish("stop")
        if turn == 8:
            made.compaction("The first gauges failed.")
            made.messages[-2]["parts"][0]["tail_start_id"] = made.messages[3]["info"]["id"]
    return made.bytes(indent=4)


@pytest.mark.parametrize("name", ["", *(name for name in LONG if name.endswith("document"))])
def test_a_document_comes_back_after_what_is_beside_its_checkpoint_was_rewritten(name: str, tmp_path: Path) -> None:
    whole = LONG[name](16) if name else opencode_between_summaries()
    path = write(tmp_path, whole)
    assert compact_session(path, FEW).is_compacted
    archive = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0, turn_threshold_before_compress=0)
    stats = compress_session(path, archive)
    assert stats.lines_changed
    verify_session(path)
    done = restore_session(path)
    assert (done.exact, done.checkpoints_removed, done.lines_restored) == (True, 1, stats.lines_changed)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("name", [name for name in LONG if name.endswith("document")])
@pytest.mark.parametrize("share", [0, 3])
def test_a_journal_without_its_run_costs_no_original_of_a_document(name: str, share: int, tmp_path: Path) -> None:
    """Though all that stood there before stands there still: what was written does, too."""
    path = write(tmp_path, LONG[name](8))
    if not compact_session(path, FEW).is_compacted:
        pytest.skip("its agent has no such summary")
    store = store_in(path)
    kept, journal = store.originals.read_bytes(), store.journal.read_bytes()
    store.journal.write_bytes(journal[: len(journal) * share // 4])
    for use in (verify_session, restore_session, partial(restore_session, from_markers=True)):
        with pytest.raises(Damaged):
            use(path)
        assert store.originals.read_bytes() == kept
    store.journal.write_bytes(journal)
    restore_session(path)
    assert path.read_bytes() == LONG[name](8)


def test_a_count_that_the_agent_changed_stays_when_the_summary_goes(tmp_path: Path) -> None:
    """A longer number begins with the one that was written, and is not cut."""
    path = compacted(tmp_path, "gencode document")
    counted = re.search(rb'"messageCount": (\d+)', path.read_bytes())
    assert counted is not None
    path.write_bytes(path.read_bytes().replace(counted[0], counted[0] + b"7", 1))
    restore_session(path)
    assert path.read_bytes() == re.sub(rb'"messageCount": \d+', counted[0] + b"7", LONG["gencode document"](8))


# References


@EACH
def test_every_reference_of_a_summary_is_answered(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, LONG[name](8))
    stats = compact_session(path, replace(FEW, compact=replace(FEW.compact, keep=CutRule.TURNS, keep_turns=1)))
    (record,) = [each for each in journal_of(path) if each["type"] == "checkpoint"]
    for ref in record["refs"]:
        assert ref in stats.summary
        assert show(ref, path)[0].content
    compress_session(path, SMALL)
    for ref in record["refs"]:
        assert show(ref, path)[0].content


def resumed() -> bytes:
    """Return a session of Gemini CLI in which all messages were set at once: a checkpoint repeats those it keeps."""
    made = GeminiRecords()
    for turn in range(8):
        logs = texts.log_lines(random.Random(turn), 60)
        made.user(f"Part {turn}: look at the logs.")
        made.answer("", made.used("run_shell_command", {"command": f"cat {turn}.log"}, logs))
        made.answer(f"Gauge {turn} failed at noon.")
    return made.resume().bytes()


LESS = replace(SMALL, tool_result_max_bytes=2_000, compact=replace(SMALL.compact, keep_tokens=2_200))
MORE = replace(SMALL, turn_threshold_before_compress=0, tool_result_max_bytes=0, tool_call_max_bytes=0)
"""Makes shorter again what LESS left."""


@pytest.mark.parametrize("drop", [False, True], ids=["", "lines dropped"])
@pytest.mark.parametrize("before", [False, True], ids=["", "rewritten before"])
def test_what_repeats_messages_comes_out_though_they_were_rewritten_in_it(
    before: bool, drop: bool, tmp_path: Path
) -> None:
    """Also those that were rewritten when it repeated them, and again since; then nothing of it is missed."""
    path = write(tmp_path, resumed())
    if before:
        compress(path, LESS)
    assert compact_session(path, LESS if before else FEW, drop_dead=drop).status is Status.COMPACTED
    assert bool(journals.load(store_in(path).journal).checkpoints[0].originals) == before
    compress(path, MORE)
    verify_session(path)
    said = restore_session(path, dry_run=True)
    stats = restore_session(path)
    assert (stats.checkpoints_removed, stats.reason) == (1, "")
    assert (said.size_after, said.lines_restored, said.checkpoints_removed, said.reason) == (
        stats.size_after,
        stats.lines_restored,
        stats.checkpoints_removed,
        stats.reason,
    )
    assert path.read_bytes() == resumed()
    assert verify_session(path).lines_not_there == 0
    assert restore_session(path).reason == "no line in it is rewritten"


def test_what_repeats_messages_comes_out_after_it_was_kept(tmp_path: Path) -> None:
    """The messages in it are no longer as they were when it repeated them."""
    path = write(tmp_path, resumed())
    compress(path, LESS)
    assert compact_session(path, LESS).status is Status.COMPACTED
    assert restore_session(path, keep_checkpoints=True).lines_restored
    assert restore_session(path).checkpoints_removed == 1
    assert path.read_bytes() == resumed()


@pytest.mark.parametrize("drop", [False, True], ids=["", "lines dropped"])
@pytest.mark.parametrize("more", [b"", b'{"$set":{"summary":"Gauges"}}\n'], ids=["", "the agent went on"])
def test_an_older_state_is_not_asked_for_what_repeated_its_messages(more: bytes, drop: bool, tmp_path: Path) -> None:
    """They were rewritten in a checkpoint, which it does not have, and stand there as the agent wrote them."""
    older = fixture("gemini.jsonl")
    path = write(tmp_path, older)
    share = replace(SMALL, compact=replace(SMALL.compact, keep=CutRule.SHARE))
    assert compact_session(path, share, drop_dead=drop).status is Status.COMPACTED
    compress(path, MORE)
    assert verify_session(path).originals == forget_session(path, dry_run=True).originals
    path.write_bytes(older + more)
    verify_session(path)
    assert restore_session(path).status is Status.UNCHANGED
    compress(path, MORE)
    restore_session(path)
    assert path.read_bytes() == older + more


def test_a_message_that_was_altered_where_it_is_repeated_is_no_older_state(tmp_path: Path) -> None:
    """The checkpoint stands there, and the line that it repeats, too."""
    path = write(tmp_path, fixture("gemini.jsonl"))
    share = replace(SMALL, compact=replace(SMALL.compact, keep=CutRule.SHARE))
    assert compact_session(path, share).status is Status.COMPACTED
    compress(path, MORE)
    lines = split(path.read_bytes())
    (at,) = (number for number, raw in enumerate(lines) if b"Extracted by" in raw)
    before, marker, after = lines[at].rpartition(b"[[sessioncompress: ")
    lines[at] = before + marker + b"9" + after
    path.write_bytes(b"".join(lines))
    done = restore_session(path)
    assert "1 summary is no longer as we wrote it" in done.reason
    assert not done.exact


@EACH
@pytest.mark.parametrize("rule", CutRule)
def test_a_second_run_by_any_rule_writes_nothing(name: str, rule: CutRule, tmp_path: Path) -> None:
    """A share of what a checkpoint left is always smaller again, but nothing came since."""
    policy = replace(SMALL, compact=replace(SMALL.compact, keep=rule, keep_turns=1))
    path = write(tmp_path, LONG[name](8))
    if compact_session(path, policy).status is Status.COMPACTED:
        before = snapshot(path)
        assert compact_session(path, policy).status is Status.UNCHANGED
        assert snapshot(path) == before


@EACH
def test_a_compressed_session_gets_the_summary_of_its_originals(name: str, tmp_path: Path) -> None:
    """As long, too: a summary has its room by what it stands for."""
    policy = replace(SMALL, compact=replace(SMALL.compact, keep=CutRule.TURNS, keep_turns=2, summary_tokens=1_500))
    path = write(tmp_path, LONG[name](24))
    whole = compact_session(path, policy, dry_run=True)
    compress(path, SMALL)
    shortened = compact_session(path, policy, dry_run=True)
    assert shortened.tokens_before < whole.tokens_before / 2
    assert shortened.messages_kept == whole.messages_kept
    assert shortened.summary == whole.summary
