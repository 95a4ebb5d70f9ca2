"""What an earlier run finished is not read again, and nothing that would be judged otherwise counts as finished."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace
from xxhash import xxh3_128

from sessioncompress.compressors.base import standings
from sessioncompress.core import marker
from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.core.model import Standing
from sessioncompress.errors import Damaged, NotASession
from sessioncompress.operations import compress as module
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline import incremental
from sessioncompress.pipeline.incremental import NotFinished, clashing, digest_of_prefix, goes_on
from sessioncompress.pipeline.reading import survey
from sessioncompress.pipeline.summary import CompressionStats, Status
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store.layout import store_in
from tests.support import texts
from tests.support.build import (
    ClaudeSession,
    GeminiSession,
    OmpSession,
    OpenClawSession,
    PiSession,
    ResponsesSession,
    Use,
    image,
)
from tests.support.chats import ChatSession
from tests.support.records import GeminiRecords
from tests.support.rollout import Rollout
from tests.support.runs import (
    EAGER,
    MTIME,
    append,
    calls,
    compress,
    compress_again,
    disk,
    entries,
    fixture,
    form_of,
    journal_of,
    reading_again,
    restore,
    split,
    survey_of,
    turn,
    view_of,
    write,
)

LONG = 12
"""Turns before the first run: so many that what comes later does not make the session twice as large."""


def work(made: PiSession, turns: int, seed: str = "work") -> PiSession:
    """Add turns, each with a read and thinking."""
    rng = random.Random(seed)
    for number in range(turns):
        made.user(f"Please do part {number}.")
        source = texts.python_source(rng, 20)
        made.step("read", {"path": f"src/{seed}/{number}.py"}, source, thinking=texts.prose(rng, 6))
        made.assistant(texts.prose(rng, 2))
    return made


@contextmanager
def counting() -> Iterator[list[bool]]:
    """Note each reading of a session from its first line on."""
    found: list[bool] = []
    whole = module._compress_whole

    def counted(*args: Any, **kwargs: Any) -> CompressionStats:
        found.append(True)
        return whole(*args, **kwargs)

    with mock.patch.object(module, "_compress_whole", counted):
        yield found


def begun(folder: Path, made: PiSession) -> Path:
    """Write a session and compress it."""
    path = write(folder, work(made, LONG))
    compress(path)
    return path


MAKERS: dict[str, Callable[[], PiSession]] = {
    "pi": PiSession,
    "responses": ResponsesSession,
    "gemini": GeminiSession,
    "openclaw": OpenClawSession,
    "omp": OmpSession,
    "version 2": lambda: PiSession(2),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_run_after_more_turns_reads_what_came(tmp_path: Path, name: str) -> None:
    """It says what a run over the whole says, and every byte comes back."""
    made = MAKERS[name]()
    path = begun(tmp_path, made)
    for number in range(3):
        append(path, work(made, 2, f"later {number}"))
        other = tmp_path / "other"
        other.mkdir(exist_ok=True)
        copy = write(other, path.read_bytes())
        whole = compress_session(copy, EAGER)
        with counting() as read:
            stats = compress(path)
        assert not read
        same = ("lines", "turns", "tokens_before", "original_size", "lines_not_understood")
        assert [getattr(stats, each) for each in same] == [getattr(whole, each) for each in same]
        assert stats.lines_changed == whole.lines_changed
        verify_session(path, EAGER)
        restored = write(other, path.read_bytes(), "restored.jsonl")
        for beside_it, to in (("journal", "journal"), ("originals", "originals")):
            source, target = getattr(store_in(path), beside_it), getattr(store_in(restored), to)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(source.read_bytes())
        restore(restored)
        assert restored.read_bytes() == made.bytes()
        for each in other.rglob("*"):
            if each.is_file():
                each.unlink()


def test_what_it_adds_is_what_a_run_over_the_whole_would_add(tmp_path: Path) -> None:
    """The same lines come out, but for references that name a line by its number: that is the session's."""
    made = PiSession()
    path = begun(tmp_path, made)
    append(path, work(made, 3, "later"))
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        (folder / ".sessioncompress").mkdir(parents=True)
        (folder / path.name).write_bytes(path.read_bytes())
        for each in (store_in(path).journal, store_in(path).originals):
            (folder / ".sessioncompress" / each.name).write_bytes(each.read_bytes())
    compress(one / path.name)
    with reading_again(whole=True):
        compress(other / path.name)
    assert (one / path.name).read_bytes() == (other / path.name).read_bytes()
    blocks = [
        [record for record in journal_of(folder / path.name) if record["type"] == "block"] for folder in (one, other)
    ]
    assert blocks[0] == blocks[1]


def _compacts(made: PiSession, path: Path) -> None:
    made.compaction("All that.", made.ids[-2])
    append(path, work(made, 2, "later"))


def _goes_back(made: PiSession, path: Path) -> None:
    made.branch(made.ids[4])
    append(path, work(made, 2, "later"))


def _answers_an_old_call(made: PiSession, path: Path) -> None:
    made.result(_first_call(made), "late", "read")
    append(path, work(made, 2, "later"))


def _first_call(made: PiSession) -> str:
    entries = [json.loads(line) for line in made.lines()]
    parts = [part for entry in entries for part in entry.get("message", {}).get("content", []) if "arguments" in part]
    return str(parts[0]["id"])


def _quotes_a_marker(made: PiSession, path: Path) -> None:
    made.user(f"What is {marker.PREFIX} 3 of 4 lines]]?")
    append(path, work(made, 2, "later"))


def _changes_what_is_finished(made: PiSession, path: Path) -> None:
    append(path, work(made, 2, "later"))
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"Please do part 1.", b"Please do part 7.", 1))


def _grows(made: PiSession, path: Path) -> None:
    append(path, work(made, 4 * LONG, "later"))


def _loses_the_end_of_its_journal(made: PiSession, path: Path) -> None:
    append(path, work(made, 2, "later"))
    with store_in(path).journal.open("ab") as file:
        file.write(b'{"type":"line"')


def _is_by_another_version(made: PiSession, path: Path) -> None:
    append(path, work(made, 2, "later"))
    journal = store_in(path).journal
    lines = journal.read_bytes().splitlines(keepends=True)
    record = json.loads(lines[-1])
    record["version"] = "0.0.1"
    del record["sha256"], record["records"]
    journal.write_bytes(b"".join(lines[:-1]) + json.dumps(record, separators=(",", ":")).encode() + b"\n")


WHOLE: dict[str, Callable[[PiSession, Path], None]] = {
    "a compaction": _compacts,
    "the leaf left": _goes_back,
    "the result of a call before": _answers_an_old_call,
    "a marker": _quotes_a_marker,
    "another byte before": _changes_what_is_finished,
    "twice as large": _grows,
    "another version": _is_by_another_version,
}


def test_a_run_that_has_the_next_one_read_all_reads_it_itself(tmp_path: Path) -> None:
    """The next would find what is said again only now, though nothing was added: in a fresh clone, say."""
    made, rng = PiSession(), random.Random(1)
    source = texts.python_source(rng, 40)
    work(made, 4).step("read", {"path": "a.py"}, source)
    path = write(tmp_path, work(made, 1))
    compress(path)
    made.step("read", {"path": "a.py"}, source)
    append(path, work(made, 8, "later"))
    with counting() as read:
        compress(path)
    assert read
    compress_again(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("format", "../../x"), *((name, (1 << 62) - 1) for name in ("turns", "lines", "characters", "imitated"))],
)
def test_what_cannot_be_is_not_believed(tmp_path: Path, field: str, value: object) -> None:
    """A count that is added to such a one would be written into a journal that nobody reads."""
    made = PiSession()
    path = begun(tmp_path, made)
    journal = store_in(path).journal
    lines = split(journal.read_bytes())
    record = json.loads(lines[-1])
    del record["sha256"]
    record["prefix"][field] = value
    body = json.dumps(record, separators=(",", ":")).encode()[:-1]
    seal = sha256(b"".join(lines[:-1]) + body).hexdigest()
    journal.write_bytes(b"".join(lines[:-1]) + body + b',"sha256":"' + seal.encode() + b'"}\n')
    append(path, work(made, 2, "later"))
    with counting() as read:
        compress(path)
    assert read
    verify_session(path, EAGER)
    restore(path)
    assert path.read_bytes() == made.bytes()


def test_a_format_that_was_named_once_is_not_taken_for_granted(tmp_path: Path) -> None:
    """A chat that nobody names is passed over, whatever was done with it before."""
    made, rng = ChatSession(), random.Random(1)
    for number in range(LONG + 2):
        made.message("user", "Go on.").step("read", {"path": f"{number}.py"}, texts.python_source(rng, 30))
    lines = made.lines()
    path = write(tmp_path, b"".join(lines[:-6]))
    compress(path)
    with path.open("ab") as file:
        file.write(b"".join(lines[-6:]))
    with pytest.raises(NotASession):
        compress_session(path, EAGER, named=False)
    compress(path, form="openai-chat")
    assert "prefix" not in journal_of(path)[-1]


def test_a_line_over_the_cap_is_not_parsed_behind_what_is_finished(tmp_path: Path) -> None:
    """It comes in pieces, of which each would be taken for a line that our parser does not read."""
    made = work(PiSession(), LONG)
    made.step("read", {"path": "a.txt"}, "x" * LINE_CAP)
    path = write(tmp_path, made)
    with mock.patch.object(incremental, "read_line", side_effect=AssertionError):
        compress(path)
    assert "prefix" not in journal_of(path)[-1]


def test_no_id_is_cut_to_one_that_is_taken(tmp_path: Path) -> None:
    """Where ids begin anew, two calls would go by one: the one that is not read may have it already."""
    made = ResponsesSession()
    for number in range(LONG):
        _thinks_and_reads(made, f"call_{number}|fc_{number}a")
    path = write(tmp_path, made)
    compress(path)
    for number in range(3):
        _thinks_and_reads(made, f"call_{number}|fc_{number}b")
    append(path, made)
    compress(path)
    names = [part["id"] for part in calls(entries(path.read_bytes()))]
    assert "call_0" in names
    assert len(set(names)) == len(names)


def _thinks_and_reads(made: PiSession, call: str) -> None:
    rng = random.Random(call)
    made.user("Go on.")
    use = Use("read", {"path": f"{call}.py"}, texts.python_source(rng, 20), call_id=call)
    made.parallel([use], thinking=texts.prose(rng, 6))
    made.assistant(texts.prose(rng, 2))


def test_claude_code_going_back_is_seen(tmp_path: Path) -> None:
    """Its path goes on in time where a parent is missing, but this one stands in what is finished."""
    made, rng = ClaudeSession(), random.Random(1)
    places = []
    for _ in range(LONG):
        places.append(made.user("Go on."))
        made.step("Read", {"file_path": "/a.py"}, texts.python_source(rng, 20))
        made.respond(texts.prose(rng, 2))
    path = write(tmp_path, made.bytes())
    compress(path)
    before = made.lines()
    made.branch(places[2])
    made.turn(2)
    with path.open("ab") as file:
        file.write(b"".join(made.lines()[len(before) :]))
    with counting() as read:
        assert compress_session(path, EAGER).turns == 5
    assert read


def test_nothing_is_written_behind_a_damaged_record(tmp_path: Path) -> None:
    """No restore would read it."""
    made = PiSession()
    path = begun(tmp_path, made)
    append(path, work(made, 2, "later"))
    compress(path)
    journal = store_in(path).journal
    journal.write_bytes(journal.read_bytes().replace(b'{"type":"line"', b'{"type":"lime"', 1))
    append(path, work(made, 2, "last"))
    before = path.read_bytes()
    with pytest.raises(Damaged):
        compress_session(path, EAGER)
    assert path.read_bytes() == before


def test_nothing_of_gemini_cli_is_finished(tmp_path: Path) -> None:
    """A message may be taken back, or written again: without the header no line says that this is so."""
    made, rng = GeminiRecords(), random.Random(1)
    for number in range(LONG + 2):
        output = texts.python_source(rng, 40)
        made.message("user", f"Part {number}.").answer("", made.used("read_file", {}, output, output)).answer("Done.")
        if number == LONG - 1:
            first = _messages(made)
    made.back(-3)
    path = write(tmp_path, b"".join(first))
    compress(path)
    path.write_bytes(path.read_bytes() + b"".join(_messages(made)[len(first) :]))
    found = survey_of(path.read_bytes())
    recent = [number for number, each in enumerate(standings(found.lines, found.shape, EAGER)) if each == "protected"]
    before = split(path.read_bytes())
    assert compress_session(path, EAGER).turns == LONG + 1
    assert [split(path.read_bytes())[number] for number in recent] == [before[number] for number in recent]


def _messages(made: GeminiRecords) -> list[bytes]:
    return [line for line in made.lines() if b'"$set"' not in line]


def test_prompts_without_user_lines_are_no_turns(tmp_path: Path) -> None:
    """Codex tells the model of a subagent as a user would: behind the boundary such prompts stand alone."""
    policy = replace(EAGER, turn_threshold_before_compress=4, protect_tokens=8000)
    made, rng = Rollout(), random.Random(1)
    made.user("Do all of it.")
    for _ in range(60):
        made.run("cat a.py", texts.python_source(rng, 30))
    path = write(tmp_path, made.bytes())
    compress(path, policy)
    before = made.lines()
    for number in range(6):
        made.run("true", "ok")
        made.message("user", [{"type": "input_text", "text": f"<subagent_notification>{number}"}])
    with path.open("ab") as file:
        file.write(b"".join(made.lines()[len(before) :]))
    found = survey_of(path.read_bytes())
    protected = standings(found.lines, found.shape, policy).index(Standing.PROTECTED)
    recent = split(path.read_bytes())[protected:]
    assert compress_session(path, policy).turns == 1
    assert split(path.read_bytes())[protected:] == recent


@pytest.mark.parametrize("name", WHOLE)
def test_what_would_be_judged_otherwise_is_read_whole(tmp_path: Path, name: str) -> None:
    """From the first line on; and the next run but one may begin behind it again."""
    made = PiSession()
    path = begun(tmp_path, made)
    WHOLE[name](made, path)
    with counting() as read:
        compress(path)
    assert read
    verify_session(path, EAGER)


def test_what_a_killed_run_left_is_undone_first(tmp_path: Path) -> None:
    """Then the run goes on as if there had been none."""
    made = PiSession()
    path = begun(tmp_path, made)
    _loses_the_end_of_its_journal(made, path)
    with counting() as read:
        compress(path)
    assert not read
    verify_session(path, EAGER)


@pytest.mark.parametrize(
    ("policy", "options"),
    [(replace(EAGER, tool_result_max_bytes=2000), {}), (EAGER, {"form": "pi"})],
    ids=["another policy", "a format"],
)
def test_what_is_asked_for_otherwise_is_read_whole(tmp_path: Path, policy: Policy, options: dict[str, Any]) -> None:
    """Another policy takes more or less, and as a session of another format it has other blocks."""
    made = PiSession()
    path = begun(tmp_path, made)
    append(path, work(made, 3, "later"))
    with counting() as read:
        compress_session(path, policy, **options)
    assert read


def test_after_a_compaction_the_next_but_one_begins_behind(tmp_path: Path) -> None:
    """The checkpoint is a part of what is finished as soon as it is old."""
    made = PiSession()
    path = begun(tmp_path, made)
    _compacts(made, path)
    compress(path)
    append(path, work(made, 3, "last"))
    with counting() as read:
        compress(path)
    assert not read
    restore(path)
    assert path.read_bytes() == made.bytes()


def test_the_finished_part_is_read_once(tmp_path: Path) -> None:
    """By the copy; the journal's records are read as bytes, and only the newest run's is understood."""
    made = PiSession()
    path = begun(tmp_path, made)
    end = journal_of(path)[-1]["prefix"]["bytes"]
    append(path, work(made, 2, "later"))
    inode = path.stat().st_ino
    preadv = os.preadv
    read = [0]

    def counted(fd: int, buffers: list[memoryview], position: int) -> int:
        size = preadv(fd, buffers, position)
        if os.fstat(fd).st_ino == inode:
            read[0] += max(min(end, position + size) - position, 0)
        return size

    with mock.patch.object(os, "preadv", counted):
        compress(path)
    assert read == [end]


def test_a_picture_where_the_recent_context_begins(tmp_path: Path) -> None:
    """It stays with the prompt that it came with, whether the lines before it are read again or not."""
    made = work(PiSession(), LONG)
    made.user("What is this?", [image("x" * 4000)])
    made.assistant("A picture.")
    work(made, 3, "recent")
    path = write(tmp_path, made)
    policy = replace(BALANCED, size_threshold_kb=0, min_saved_kb=0)
    assert compress_session(path, policy).is_smaller
    after = path.read_bytes()
    with counting() as read:
        assert not compress_session(path, policy, force=True).is_smaller
    assert not read
    assert path.read_bytes() == after
    assert b"x" * 4000 in after


def test_a_run_that_changes_nothing_looks_at_the_finished_part(tmp_path: Path) -> None:
    """So that another byte in it is not overlooked; and it does not if all is well."""
    made = PiSession()
    path = begun(tmp_path, made)
    made.assistant("One thing more.")
    append(path, made)
    with counting() as read:
        assert compress_session(path, EAGER).status is Status.UNCHANGED
    assert not read
    os.utime(path, ns=(MTIME + 1, MTIME + 1))
    path.write_bytes(path.read_bytes().replace(b"Please do part 1.", b"Please do part 7.", 1))
    with counting() as read:
        compress_session(path, EAGER)
    assert read


def test_turn_for_turn_it_comes_to_nearly_the_same_as_once(tmp_path: Path) -> None:
    """Sessions grow run by run; the last restore is exact, and the sizes stay close."""
    policy = replace(EAGER, min_saved_kb=16)
    grown, once = tmp_path / "grown", tmp_path / "once"
    grown.mkdir()
    once.mkdir()
    made = PiSession()
    path = write(grown, work(made, 2))
    for number in range(40):
        append(path, work(made, 1, f"turn {number}"))
        if compress_session(path, policy).status is Status.COMPRESSED and number % 10 == 9:
            compress_again(path, policy)
    other = write(once, made)
    compress(other, policy)
    sizes = [(each.stat().st_size, disk(each) - each.stat().st_size) for each in (path, other)]
    assert sizes[0][0] <= sizes[1][0] * 1.02 + 16 * 1024
    assert sizes[0][1] <= sizes[1][1] * 1.5
    restore(path, policy)
    assert path.read_bytes() == made.bytes()


def test_a_line_that_stands_in_the_unread_part_is_told(tmp_path: Path) -> None:
    """A rewritten line may not be what stands there: restore could not tell them apart."""
    del tmp_path
    lines = [b'{"a":1}\n', b'{"b":2}\n', b'{"c":3}\n']
    data = b"".join(lines)
    assert digest_of_prefix(BytesIO(data), 16, 16, None) == xxh3_128(data[:16]).hexdigest()
    assert digest_of_prefix(BytesIO(data), 24, 16, lines[2].__eq__) == xxh3_128(data).hexdigest()
    with pytest.raises(NotFinished):
        digest_of_prefix(BytesIO(data), 24, 16, lines[1].__eq__)


def test_a_line_clashes_with_what_it_would_be_taken_for() -> None:
    """With itself alone, where no id was cut."""
    lines = split(turn(work(PiSession(), 1)).bytes())
    view = view_of(b"".join(lines), EAGER)
    clashes = clashing(view, view.lines, [3])
    assert [number for number, raw in enumerate(lines) if clashes(raw)] == [3]


FIXED = ("claude-code.jsonl", "claude-agent.jsonl", "codex.jsonl", "omp.jsonl", "openclaw.jsonl", "pi-1x.jsonl")


def repeating() -> PiSession:
    """Return a session in which answers say again what results said."""
    rng = random.Random("repeating")
    made = PiSession()
    for number in range(4):
        made.user(f"Part {number}?")
        said = texts.prose(rng, 5)
        made.step("bash", {"command": "cat notes"}, said)
        made.assistant(f"It says:\n\n{said}")
    return made


TOLD: dict[str, Callable[[], bytes]] = {
    **{name: partial(fixture, name) for name in FIXED},
    "answers that repeat results": lambda: repeating().bytes(),
    "tied ids": lambda: work(ResponsesSession(), 3).bytes(),
}


@pytest.mark.parametrize("name", TOLD)
def test_lines_taken_from_the_whole_are_what_reading_them_alone_shows(name: str) -> None:
    """Wherever a session is cut, as long as they hang together by themselves."""
    data = TOLD[name]()
    form, whole, raws = form_of(data), survey_of(data), split(data)
    told = 0
    for first in range(1, len(raws)):
        responses = whole.lines.responses
        goes_on_behind = set(responses[:first]) & set(responses[first:]) - {""}
        found = None if goes_on_behind else incremental._sliced(whole.lines, first, form)
        if found is not None and goes_on(found):
            told += 1
            rest = [(number, raw, True) for number, raw in enumerate(raws[first:])]
            alone = survey(rest, form)
            assert incremental._are_the_same(alone.lines, whole.lines, first)
            assert (goes_on(alone), list(alone.shape.live)) == (True, list(found.shape.live))
    assert told
