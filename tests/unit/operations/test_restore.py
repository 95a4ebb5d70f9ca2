"""Restoring: exact or refused; with what was appended kept; or, by its markers, what is left of an altered session."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.errors import Damaged, Refused, SessionCompressError, UsageError
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.store.layout import store_in
from tests.support.build import OmpSession, PiSession, ResponsesSession
from tests.support.runs import (
    EAGER,
    FIXTURES,
    GREEDY,
    MTIME,
    append,
    compress,
    compress_again,
    entries,
    fixture,
    restore,
    result_texts,
    snapshot,
    split,
    turn,
    write,
)
from tests.support.sessions import LOG, reserialised, session


def compressed(folder: Path, made: PiSession | None = None, name: str = "session.jsonl") -> Path:
    path = write(folder, made or session(), name)
    compress(path)
    return path


@pytest.mark.parametrize("elsewhere", [None, "backup"], ids=["beside", "in a backup folder"])
def test_a_session_that_was_moved_is_refused(tmp_path: Path, elsewhere: str | None) -> None:
    """Its markers tell that it was compressed; by its old path it gets back every byte."""
    policy = replace(EAGER, backup_dir=elsewhere and str(tmp_path / elsewhere))
    (tmp_path / "old").mkdir()
    path = write(tmp_path / "old", session())
    compress(path, policy)
    moved = tmp_path / "moved.jsonl"
    path.rename(moved)
    before = snapshot(moved)
    for use in (verify_session, restore_session):
        with pytest.raises(Refused, match="markers, but its store is missing") as caught:
            use(moved, policy)
    said = str(caught.value)
    assert "--from-markers" not in said  # nothing here is known to hold them
    assert said.count(str(moved)) == 1
    lie = ".sessioncompress/" if elsewhere is None else "backup/"
    moved_to = rf"{lie}local-\*/(\w+-)?moved\.jsonl\.history and (\w+-)?moved\.jsonl\.originals\.zst"
    assert re.search(f"No store here has the originals. .* somebody else made it, ask for that: {moved_to}. If", said)
    assert snapshot(moved) == before
    assert restore_session(moved, policy, from_markers=True, originals=path).status is Status.RESTORED
    assert moved.read_bytes() == session().bytes()


@pytest.mark.parametrize("first", [False, True], ids=["all of it", "one part of it"])
def test_a_copy_of_a_session_whose_originals_were_not_kept_is_refused(tmp_path: Path, first: bool) -> None:
    """As a clone has it: its markers name no original, and no journal says how many lines there are."""
    (tmp_path / "old").mkdir()
    path = write(tmp_path / "old", session(made := PiSession()))
    if first:
        compress(path)
        session(made)
        append(path, made)
    compress(path, replace(EAGER, keep_backup=False))
    clone = write(tmp_path, path.read_bytes(), "clone.jsonl")
    before = snapshot(clone)
    for use in (verify_session, restore_session):
        with pytest.raises(Refused, match=r"\d+ markers, but its store is missing") as caught:
            use(clone)
        said = str(caught.value)
        assert re.search(r"\d markers name no original, since none was kept \(keepBackup: false\)", said)
        assert ("No store here has the originals." in said) == first
    assert snapshot(clone) == before


def test_the_files_of_a_moved_session_may_be_moved_after_it(tmp_path: Path) -> None:
    path = compressed(tmp_path)
    moved = path.rename(tmp_path / "moved.jsonl")
    with pytest.raises(Refused) as caught:
        restore_session(moved)
    said = str(caught.value)
    for old, new in (
        (store_in(path).journal, store_in(moved).journal),
        (store_in(path).originals, store_in(moved).originals),
    ):
        assert new.name in said
        old.rename(new)
    restore(moved)
    assert moved.read_bytes() == session().bytes()


def test_lines_may_be_moved_or_put_between(tmp_path: Path) -> None:
    """Originals are found by the line, not by its place."""
    path = compressed(tmp_path)
    lines = split(path.read_bytes())
    path.write_bytes(b"".join([*lines[:2], b'{"type":"label","id":"x"}\n', *reversed(lines[2:])]))
    restore(path)
    original = split(session().bytes())
    assert split(path.read_bytes()) == [*original[:2], b'{"type":"label","id":"x"}\n', *reversed(original[2:])]


def one_altered(data: bytes) -> bytes:
    return data.replace(b'"toolName":"bash"', b'"toolName":"bash" ', 1)


def one_lost(data: bytes) -> bytes:
    lines = split(data)
    number = next(number for number, line in enumerate(lines) if marker.PREFIX_BYTES in line)
    return b"".join(lines[:number] + lines[number + 1 :])


def without_its_end(data: bytes) -> bytes:
    """Return the session without its second half, as a user may cut it, or an older commit has it."""
    lines = split(data)
    return b"".join(lines[: len(lines) // 2])


def one_cut(data: bytes) -> bytes:
    return data[: data.rindex(marker.PREFIX_BYTES)]


def word_altered(data: bytes) -> bytes:
    return data.replace(b"kept on disk", b"held on disk", 1)


ALTERED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("rewritten by its agent", reserialised),
    ("one line altered", one_altered),
    ("cut off", one_cut),
    ("a word of a marker altered", word_altered),
]

OLDER: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("one line lost", one_lost),
    ("the second half is not there", without_its_end),
]


@pytest.mark.parametrize("alter", [case[1] for case in OLDER], ids=[case[0] for case in OLDER])
def test_what_is_there_of_an_older_state_is_restored(tmp_path: Path, alter: Callable[[bytes], bytes]) -> None:
    """It is said how many lines are not; by its markers, too, it is exact."""
    path = compressed(tmp_path)
    older = alter(path.read_bytes())
    kept = set(split(older))
    wanted = b"".join(
        then for now, then in zip(split(path.read_bytes()), session().lines(), strict=True) if now in kept
    )
    path.write_bytes(older)
    gone = verify_session(path).lines_not_there
    assert gone > 0
    told = f"{gone} line{'s' * (gone > 1)} that its store knows {'are' if gone > 1 else 'is'} missing"
    assert restore(path).reason == f"an older state of the session: {told}"
    assert path.read_bytes() == wanted
    assert restore_session(path).reason == "no line in it is rewritten"
    path.write_bytes(older)
    assert restore_session(path, from_markers=True).reason == f"an older state of the session: {told}"
    assert path.read_bytes() == wanted
    assert restore_session(path, from_markers=True).reason.startswith("no line in it is rewritten")


def test_the_store_of_another_session_makes_no_older_state(tmp_path: Path) -> None:
    """Another one lies at the path now, and none of its lines were ever rewritten."""
    path = compressed(tmp_path)
    write(tmp_path, session(PiSession(seed="other")))
    for use in (verify_session, restore_session):
        with pytest.raises(Refused, match="the store next to it belongs to another session, 019cac38"):
            use(path)


def test_an_older_state_with_a_line_that_nobody_reads_is_restored(tmp_path: Path) -> None:
    """Tools print half characters. Such a line may be one that was rewritten and then cut off: that is said."""
    made = session()
    strange = made.lines()[3].replace(b'"id":"', b'"id":"x', 1)[:-2] + b',"half":"\\ud800"}\n'
    path = compressed(tmp_path, made)
    older = without_its_end(path.read_bytes())
    path.write_bytes(older + strange)
    assert "an older state" in restore(path).reason
    line = next(line for line in split(older) if marker.PREFIX_BYTES in line)
    path.write_bytes(older.replace(line, line[:-3] + b"\n"))
    done = restore_session(path)
    assert not done.exact
    assert [each.line for each in done.changed] == [split(older).index(line) + 1]


@pytest.mark.parametrize("alter", [case[1] for case in ALTERED], ids=[case[0] for case in ALTERED])
def test_what_was_changed_stays_and_everything_else_comes_back(tmp_path: Path, alter: Callable[[bytes], bytes]) -> None:
    """A changed line is named with what shows its original, each time, until it is as it was; `verify` tells of it."""
    path = compressed(tmp_path)
    then = dict(zip(split(path.read_bytes()), session().lines(), strict=True))
    path.write_bytes(alter(path.read_bytes()))
    before = split(path.read_bytes())
    changed = [number for number, line in enumerate(before, 1) if line not in then]
    told = verify_session(path).changed
    assert {each.line for each in told} <= set(changed)
    for use in (partial(restore_session, dry_run=True), restore_session, restore_session):
        done = use(path)
        assert not done.exact
        assert done.changed == told
        assert "changed since by another program" in done.reason
        assert ("restore --from-markers" in done.reason) == (alter not in (one_cut, word_altered))
        assert "older than the session" not in done.reason
    assert split(path.read_bytes()) == [then.get(line, line) for line in before]
    for ref in {ref for each in told for ref in each.refs}:
        assert show(ref, path)


def test_an_edited_marker_stops_no_run(tmp_path: Path) -> None:
    """Only one that a run may have written tells of a store that lacks a run."""
    path = compressed(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"120 lines, 12.3 KB", b"120 lines, 12.4 KB", 1))
    with pytest.raises(Refused, match="or somebody edited the marker"):
        compress_session(path, EAGER, force=True)
    path.write_bytes(whole.replace(b"KB, kept on disk", b"KB, held on disk"))
    compress_session(path, EAGER, force=True)


def test_what_oh_my_pi_pruned_since_stays_as_it_left_it(tmp_path: Path) -> None:
    """It overwrites results that a newer read superseded where few tokens follow, as behind a run that took many."""
    path = compressed(tmp_path, session(OmpSession()))
    then = dict(zip(split(path.read_bytes()), session(OmpSession()).lines(), strict=True))
    lines = split(path.read_bytes())
    number = next(at for at, raw in enumerate(lines) if b'"toolResult"' in raw and marker.PREFIX_BYTES in raw)
    entry = json.loads(lines[number])
    entry["message"]["content"] = [{"type": "text", "text": "[Superseded by a newer read of this file]"}]
    entry["message"]["prunedAt"] = 1_700_000_000_000
    lines[number] = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
    path.write_bytes(b"".join(lines))
    assert [each.line for each in verify_session(path).changed] == [number + 1]
    done = restore_session(path)
    assert not done.exact
    assert [each.line for each in done.changed] == [number + 1]
    now = split(path.read_bytes())
    stay = [at for at, line in enumerate(now) if line != then.get(lines[at])]
    # With the line of the call, whose id was cut in both.
    assert stay == [number - 1, number]
    assert [now[at] for at in stay] == [lines[at] for at in stay]


@pytest.mark.parametrize("name", ["codex.jsonl", "chat.jsonl"])
def test_lines_that_were_written_anew_are_known_where_entries_have_no_ids(name: str, tmp_path: Path) -> None:
    """By the markers in them, or by their time, whatever keys came or moved."""
    path = write(tmp_path, fixture(name))
    compress(path, GREEDY)
    # A chat is known by its keys alone.
    more = {} if name.startswith("chat") else {"x": 1}
    lines = [{**more, **dict(reversed(entry.items()))} for entry in entries(path.read_bytes())]
    path.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in lines))
    assert verify_session(path).changed
    done = restore_session(path)
    assert not done.exact
    assert done.lines_restored == 0


@pytest.mark.parametrize("name", ["codex.jsonl", "chat.jsonl", "pi-anthropic.jsonl"])
def test_of_a_line_that_was_deleted_no_other_is_taken_for_it(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, fixture(name))
    compress(path, GREEDY)
    lines = split(path.read_bytes())
    marked = [number for number, line in enumerate(lines) if marker.PREFIX_BYTES in line and lines.count(line) == 1]
    path.write_bytes(b"".join(line for number, line in enumerate(lines) if number != marked[len(marked) // 2]))
    assert verify_session(path).changed == ()
    assert verify_session(path).lines_not_there == 1


def values(data: bytes) -> Any:
    """Return what a restore by markers can give back: results, prompts and arguments."""
    found = []
    for entry in entries(data):
        message = (entry or {}).get("message") or {}
        for part in message.get("content", ()):
            if part["type"] in ("text", "image"):
                found.append(part.get("text", part.get("data")))
            elif part["type"] == "toolCall":
                found.append(part["arguments"])
    return found


@pytest.mark.parametrize("make", [PiSession, ResponsesSession], ids=["pi", "responses"])
def test_by_its_markers_an_altered_session_gets_its_texts_back(tmp_path: Path, make: Callable[[], PiSession]) -> None:
    """Results, arguments and pictures, wherever a marker of ours stands; lines that the agent wrote stay as they are."""
    path = compressed(tmp_path, session(make()))
    path.write_bytes(reserialised(path.read_bytes()))
    size = path.stat().st_size
    stats = restore_session(path, from_markers=True)
    assert stats.status is Status.RESTORED
    assert (stats.size_before, stats.size_after) == (size, path.stat().st_size)
    assert values(path.read_bytes()) == values(session(make()).bytes())
    assert marker.PREFIX_BYTES not in path.read_bytes()
    assert restore_session(path, from_markers=True).status is Status.UNCHANGED


def test_what_did_not_come_back_by_markers_is_told(tmp_path: Path) -> None:
    """Thinking and mirrors leave no marker. After it no error advises it once more."""
    path = compressed(tmp_path)
    was = split(path.read_bytes())
    rewritten = sum(now != then for now, then in zip(was, session().lines(), strict=True))
    path.write_bytes(reserialised(path.read_bytes()))
    stats = restore_session(path, from_markers=True)
    assert not stats.exact
    assert stats.lines_restored > 3
    stays = rewritten - stats.lines_restored
    assert stays > 0
    assert stats.reason == (
        f"of {rewritten} rewritten lines {stays} did not come back and {stats.lines_restored} came back in part "
        "(thinking and screen copies leave no marker): the session is not exact"
    )
    assert len(verify_session(path).changed) == rewritten
    assert not restore_session(path).exact
    again = restore_session(path, from_markers=True)
    assert again.reason.startswith("it has nothing that can be put back: the session is not exact; the rewritten lines")
    assert "'sessioncompress show REF PATH' prints what was in it" in again.reason
    assert not again.exact


def test_what_a_session_and_its_fork_rewrote_one_after_the_other_comes_back_at_once(tmp_path: Path) -> None:
    """The fork's store has what the parent's run left, and the parent's store has what stood there before."""
    made = session()
    path = compressed(tmp_path, made)
    before = made.lines()
    header = {**json.loads(before[0]), "id": "fork", "parentSession": str(path)}
    first = json.dumps(header).encode() + b"\n"
    was = split(path.read_bytes())
    fork = write(tmp_path, b"".join([first, *was[1:]]), "fork.jsonl")
    session(made)
    made.compaction("All done.", made.ids[-1])
    append(fork, turn(made))
    compress(fork)
    now = split(fork.read_bytes())
    assert any(len({*each}) == 3 for each in zip(now[1 : len(was)], was[1:], before[1:], strict=True))
    stats = restore_session(fork, from_markers=True)
    assert stats.exact
    assert f"from the originals of {path}" in stats.reason
    assert split(fork.read_bytes()) == [first, *made.lines()[1:]]


@pytest.mark.parametrize("named", ["nope.jsonl", ".", "plain.jsonl"])
def test_originals_of_a_session_that_has_none_are_refused(tmp_path: Path, named: str) -> None:
    """Nothing is put back without a word; a session that is gone is no error where its originals lie there."""
    path = compressed(tmp_path)
    write(tmp_path, session(), "plain.jsonl")
    fork = write(tmp_path, path.read_bytes(), "fork.jsonl")
    before = snapshot(fork)
    with pytest.raises(UsageError, match=r"whose originals are to be used, has no store") as caught:
        restore_session(fork, from_markers=True, originals=tmp_path / named)
    assert caught.value.exit_code == 2
    assert snapshot(fork) == before
    path.unlink()
    assert restore_session(fork, from_markers=True, originals=path).status is Status.RESTORED


def test_what_only_quotes_a_marker_stays(tmp_path: Path) -> None:
    """Ours is what the journal records: this text, in this kind of place, for this call."""
    path = compressed(tmp_path)
    shown = next(text for text in result_texts(entries(path.read_bytes())) if marker.occurs_in(text))
    quoting = PiSession(seed="other")
    quoting.user(shown)
    quoting.step("bash", {"command": "cat session.jsonl"}, shown)
    quoting.step("write", {"path": "a", "content": shown}, "ok")
    quoting.assistant(shown)
    data = path.read_bytes() + b"".join(quoting.lines()[1:])
    path.write_bytes(data)
    restore_session(path, from_markers=True)
    assert split(path.read_bytes())[-quoting.count + 1 :] == quoting.lines()[1:]


def shown_again(path: Path, made: PiSession) -> list[bytes]:
    """Append a turn whose result, of a call with an id that was used before, is a bare marker of the session."""
    shown = next(text for text in result_texts(entries(path.read_bytes())) if marker.is_one(text))
    made.user("What does the file say?")
    made.assistant(made.call("bash", {"command": "cat notes"}, call_id="call_0"))
    made.result("call_0", shown)
    append(path, made)
    return made.lines()[-3:]


def with_dead_history(made: PiSession) -> PiSession:
    """Return a session that is cut down to a bare marker in the result of `call_0`."""
    made.user("Go.")
    made.assistant(made.call("bash", {"command": "x"}, call_id="call_0"))
    made.result("call_0", LOG)
    made.compaction("All done.", made.user("On."))
    return turn(made, 2)


@pytest.mark.parametrize("alter", [bytes, reserialised], ids=["as written", "rewritten by its agent"])
def test_a_marker_that_a_later_call_of_the_same_id_printed_stays(
    tmp_path: Path, alter: Callable[[bytes], bytes]
) -> None:
    """Only the entry that we wrote gets its text back, also where its line was rewritten since."""
    made = with_dead_history(PiSession())
    original = made.bytes()
    path = compressed(tmp_path, made)
    path.write_bytes(alter(path.read_bytes()))
    later = shown_again(path, made)
    restore_session(path, from_markers=True)
    lines = split(path.read_bytes())
    assert lines[-3:] == later
    assert values(b"".join(lines[:-3])) == values(original)


def partly_kept(folder: Path, made: PiSession) -> tuple[Path, list[bytes]]:
    """Compress a session with a backup, go on, and compress without; return it, and the lines that were kept."""
    path = compressed(folder, session(made))
    kept = [then for now, then in zip(split(path.read_bytes()), made.lines(), strict=True) if now != then]
    session(made)
    append(path, made)
    compress(path, replace(EAGER, keep_backup=False))
    return path, kept


def ids(data: bytes) -> tuple[set[str], set[str]]:
    """Return the ids of the calls that are made, and of those that are answered."""
    messages = [(entry or {}).get("message") or {} for entry in entries(data)]
    made = {part["id"] for message in messages for part in message.get("content", ()) if part["type"] == "toolCall"}
    return made, {message["toolCallId"] for message in messages if "toolCallId" in message}


@pytest.mark.parametrize("make", [PiSession, ResponsesSession], ids=["pi", "responses"])
def test_after_a_run_without_a_backup_all_else_comes_back(tmp_path: Path, make: Callable[[], PiSession]) -> None:
    """It is said how many lines have no original, each time."""
    path, kept = partly_kept(tmp_path, made := make())
    pairs = list(zip(split(path.read_bytes()), made.lines(), strict=True))
    lost = sum(now != then for now, then in pairs if then not in kept)
    for _ in range(2):
        done = restore_session(path)
        assert f"{lost} lines have no original" in done.reason
        assert not done.exact
        assert split(path.read_bytes()) == [then if then in kept else now for now, then in pairs]


def test_a_call_and_its_result_come_back_with_one_id(tmp_path: Path) -> None:
    """Where the one line was altered, the id that was cut in both stays cut in both, and the texts come back."""
    path = compressed(tmp_path, session(made := ResponsesSession()))
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"toolName":"bash"', b'"toolName":"bash" ', 1))
    done = restore_session(path)
    assert not done.exact
    assert "; 1 more line stays compressed, since calls tie them to those" in done.reason
    calls, answered = ids(path.read_bytes())
    assert calls == answered
    restore_session(path, from_markers=True)
    calls, answered = ids(path.read_bytes())
    assert calls == answered
    assert sum("|" not in each for each in calls) == 1
    assert values(path.read_bytes()) == values(made.bytes())
    back = sum(now == then for now, then in zip(split(path.read_bytes()), made.lines(), strict=True))
    assert back == made.count - 2


def test_a_line_that_came_back_in_part_has_its_original_still(tmp_path: Path) -> None:
    """Where the other line of its call was altered: that one alone is not there any more, now and after a further run."""
    path = compressed(tmp_path, session(made := ResponsesSession()))
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"toolName":"write"', b'"toolName":"write" ', 1))
    restore_session(path, from_markers=True)
    for _ in range(2):
        assert len(verify_session(path).changed) == 1
        assert not restore_session(path, dry_run=True).exact
        compress_session(path, EAGER, force=True)
        compress_again(path)
    restore_session(path, from_markers=True)
    assert values(path.read_bytes()) == values(made.bytes())


def flipped(path: Path, share: float) -> None:
    store = store_in(path).originals
    data = bytearray(store.read_bytes())
    data[int(len(data) * share)] ^= 0x10
    store.write_bytes(data)


def told(use: Callable[[], Any]) -> tuple[Any, str]:
    """Return what comes of it, or what the error for a damaged store says."""
    try:
        return use(), ""
    except Damaged as error:
        return None, str(error)


@pytest.mark.parametrize("share", [number / 20 for number in range(1, 20)])
@pytest.mark.parametrize("make", [PiSession, ResponsesSession], ids=["pi", "responses"])
def test_from_a_damaged_store_all_comes_back_that_can_be_read(
    tmp_path: Path, make: Callable[[], PiSession], share: float
) -> None:
    """Wherever the flipped bit is: each line is its original or as it was, ids go together, and what stays is named."""
    path = compressed(tmp_path, session(made := make()))
    was = split(path.read_bytes())
    flipped(path, share)
    said = []
    for use in (restore_session, verify_session):
        with pytest.raises(Damaged) as caught:
            use(path)
        said.append(str(caught.value))
    stats, error = told(lambda: restore_session(path, from_markers=True))
    comes = "--from-markers' puts back all lines that can still be read" if stats else "'sessioncompress forget' ends"
    assert all(comes in each for each in said)
    calls, answered = ids(path.read_bytes())
    assert calls == answered
    lines = list(zip(split(path.read_bytes()), was, made.lines(), strict=True))
    stay = [at for at, (now, before, then) in enumerate(lines, 1) if now == before != then]
    if stats is None:
        assert "nothing can be put back: the originals of lines" in error
        assert split(path.read_bytes()) == was
    elif make is PiSession:
        assert all(now in (before, then) for now, before, then in lines)
        assert f"the original{'s' * (len(stay) > 1)} of line" in stats.reason
        assert all(re.search(rf"\b{at}\b", stats.reason) for at in stay[:10])
    else:
        assert "cannot be read" in stats.reason


def test_where_one_original_cannot_be_read_no_other_takes_its_place(tmp_path: Path) -> None:
    """Two calls of one id, each with its text: which marker is whose is not known without both."""
    path = compressed(tmp_path)
    path.write_bytes(reserialised(path.read_bytes()))
    was = path.read_bytes()
    journal = store_in(path).journal
    records = [json.loads(raw) for raw in split(journal.read_bytes())]
    lines = [number for number, each in enumerate(records) if each["type"] == "edit"]
    block = next(at for at, each in enumerate(records) if each["type"] == "block" and each["kind"] == "result")
    owner = max(at for at in lines if at < block)
    other = {**records[block], "sha256": records[block]["ref"] + "0" * 8}
    nowhere = {**records[owner], "was": {**records[owner]["was"], "sha256": "0" * 64}}
    records[block + 1 : block + 1] = [nowhere, other]
    records[-1]["records"] = {"lines": len(lines) + 1, "blocks": records[-1]["records"]["blocks"] + 1}
    journal.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in records))
    number = records[block]["line"]
    stats = restore_session(path, from_markers=True)
    assert f"the original of line {number + 1} cannot be read" in stats.reason
    assert split(path.read_bytes())[number] == split(was)[number]


def test_what_can_be_read_of_a_damaged_store_is_shown(tmp_path: Path) -> None:
    path = compressed(tmp_path)
    found = [ref for entry in entries(path.read_bytes()) for ref in marker.references(json.dumps(entry))]
    whole = {ref: show(ref, path)[0].content for ref in found}
    data = store_in(path).originals.read_bytes()
    some = 0
    for number in range(1, 20):
        store_in(path).originals.write_bytes(data)
        flipped(path, number / 20)
        shown = [(told(partial(show, ref, path)), content) for ref, content in whole.items()]
        assert all(done[0].content == content if done else "from a backup" in said for (done, said), content in shown)
        some += 0 < sum(done is not None for (done, _), _ in shown) < len(whole)
    assert some > 2


@pytest.mark.parametrize("harm", ["lost", "cut", "flipped", "emptied"])
@pytest.mark.parametrize("from_markers", [False, True], ids=["exact", "from markers"])
def test_a_damaged_store_restores_nothing(tmp_path: Path, harm: str, from_markers: bool) -> None:
    path = compressed(tmp_path)
    store = store_in(path).originals
    data = store.read_bytes()
    if harm == "lost":
        store.unlink()
    else:
        store.write_bytes(
            {"cut": data[:-9], "flipped": data[:40] + bytes([data[40] ^ 1]) + data[41:], "emptied": b""}[harm]
        )
    session_before = path.read_bytes()
    with pytest.raises(SessionCompressError) as caught:
        restore_session(path, from_markers=from_markers)
    assert caught.value.exit_code in (3, 5)
    assert path.read_bytes() == session_before


@pytest.mark.parametrize(
    "wrong",
    [
        (b'"path":"/message/content/0/text"', b'"path":""'),
        (b'"path":"/message/content/0/text"', b'"path":"/message/nope/0/text"'),
        (b'"bytes":', b'"bytes":1'),
        (rb'("sha256":"[0-9a-f]{12})[0-9a-f]{8}', rb"\g<1>00000000"),
    ],
    ids=["type", "place", "size", "digest"],
)
def test_what_the_journal_says_of_a_value_must_be_so(tmp_path: Path, wrong: tuple[bytes, bytes]) -> None:
    """Nothing else is ever put back in a marker's place, shown, or passed by verify."""
    path = compressed(tmp_path)
    path.write_bytes(reserialised(path.read_bytes()))
    ref = next(ref for text in result_texts(entries(path.read_bytes())) for ref in marker.references(text))
    journal = store_in(path).journal
    records = split(journal.read_bytes())
    journal.write_bytes(b"".join(re.sub(*wrong, raw) if b'"type":"block"' in raw else raw for raw in records))
    before = path.read_bytes()
    for use in (
        lambda: restore_session(path, from_markers=True),
        lambda: show(ref, path),
        lambda: verify_session(path),
    ):
        with pytest.raises(Damaged, match="does not match the journal"):
            use()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "name", sorted(path.name for path in FIXTURES.glob("*.jsonl") if not path.name.startswith("look-alike"))
)
def test_from_markers_gives_the_texts_of_every_fixture_back(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, fixture(name))
    if compress_session(path, EAGER).status is not Status.COMPRESSED:
        return
    assert restore_session(path, from_markers=True).status in (Status.RESTORED, Status.UNCHANGED)
    assert marker.PREFIX_BYTES not in path.read_bytes()
    original = [json.dumps(value) for value in values_or_text(fixture(name))]
    assert [json.dumps(value) for value in values_or_text(path.read_bytes())] == original


def values_or_text(data: bytes) -> Any:
    return values(b"".join(line for line in split(data) if _is_usual(line)))


def _is_usual(line: bytes) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and isinstance((entry.get("message") or {}).get("content", []), list)


@pytest.mark.parametrize("version", [3, 1])
def test_a_journal_that_mixes_up_two_lines_restores_nothing(tmp_path: Path, version: int) -> None:
    """Each original is there and right, but it is that of another entry. Version 1 has no ids: the times tell."""
    path = compressed(tmp_path, session(PiSession(version)))
    journal = store_in(path).journal
    records = [json.loads(raw) for raw in split(journal.read_bytes())]
    first, second = [each for each in records if each["type"] == "edit"][1:3]
    first["isSha256"], second["isSha256"] = second["isSha256"], first["isSha256"]
    journal.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in records))
    before = snapshot(path)
    for use in (
        lambda: restore_session(path),
        lambda: restore_session(path, from_markers=True),
        lambda: verify_session(path),
    ):
        with pytest.raises(Damaged, match="original of another entry"):
            use()
    assert snapshot(path) == before


def test_the_time_of_a_session_that_went_on_is_that_of_its_last_line(tmp_path: Path) -> None:
    made = session()
    path = compressed(tmp_path, made)
    append(path, turn(made))
    os.utime(path, ns=(MTIME + 1, MTIME + 1))
    restore(path)
    assert path.stat().st_mtime_ns == MTIME + 1
