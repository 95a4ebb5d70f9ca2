"""A run begins from the state of the last commit, whatever was left behind; forgetting leaves nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.errors import Damaged, FileFailed, IsALink
from sessioncompress.operations.compress import compress_session
from sessioncompress.store.layout import Lengths, store_in
from sessioncompress.store.lock import open_session
from sessioncompress.store.originals import FRAME_BYTES, zstd
from sessioncompress.store.records import LineRecord
from sessioncompress.store.recover import forget, recover
from tests.support.runs import GREEDY, fixture, write
from tests.unit.store.tools import (
    APPENDED,
    OLD,
    compress,
    digest,
    disk,
    everything,
    failing_at,
    late_link,
    late_state,
    make_session,
    names_of_descriptors,
    read_lengths,
    restore,
    shortened,
    steps_of,
)

NEW = shortened(OLD)
CHECKSUM = {int(zstd.CompressionParameter.checksum_flag): 1}
FRAME = zstd.compress(APPENDED + bytes(range(11, 256)), options=CHECKSUM)
"""A line that stands in the session in the tests below, and a part of another."""


def recovered(path: Path) -> int:
    """Recover a session; return how many bytes were carried over."""
    with open_session(path, writing=True) as session:
        files = store_in(session.path)
        return recover(session, files, read_lengths(files))


def test_nothing_left_over(tmp_path: Path) -> None:
    """Nothing is written, and no folder made, where there is nothing to recover."""
    path = make_session(tmp_path)
    with disk() as seam:
        assert recovered(path) == 0
    assert seam.calls == []
    assert [path.name for path in tmp_path.iterdir()] == ["session.jsonl"]


@pytest.mark.parametrize("name", ["gemini.jsonl", "gemini.json", "opencode.json", "gencode.json", "chat.json"])
def test_messages_that_are_no_lines_of_their_own_are_the_trace_of_a_killed_run(name: str, tmp_path: Path) -> None:
    """They are kept as lines: else those that follow each other would look like one that the session lacks."""
    path = write(tmp_path, fixture(name), name)
    assert compress_session(path, GREEDY).is_smaller
    files = store_in(path)
    path.write_bytes(fixture(name))
    # As before its journal was written.
    files.journal.write_bytes(b"")
    recovered(path)
    assert not files.originals.exists()
    assert path.read_bytes() == fixture(name)


def test_torn_appends_are_cut(tmp_path: Path) -> None:
    """What stands behind the last run record was never committed; a later run's records do not hide behind it."""
    path = make_session(tmp_path, OLD + APPENDED)
    compress(path)
    before = everything(tmp_path)
    files = store_in(path)
    for file, begun in ((files.originals, FRAME[:-5]), (files.journal, b'{"type": "li')):
        with file.open("ab") as torn:
            torn.write(begun)
    assert recovered(path) == 0
    assert everything(tmp_path) == before


def test_first_run_killed(tmp_path: Path) -> None:
    """What a first run left without a commit goes away, and the folder with it."""
    path = make_session(tmp_path)
    files = store_in(path)
    files.folder.mkdir(parents=True)
    files.originals.write_bytes(FRAME[:9])
    files.journal.write_bytes(b"")
    (files.work / "session.jsonl.temp-01234567").write_bytes(b"new")
    recovered(path)
    assert everything(tmp_path) == {"session.jsonl": OLD}


def test_only_our_own_temp_files_go(tmp_path: Path) -> None:
    """Temp files of other sessions may be in use by another run; other files are not ours."""
    path = make_session(tmp_path)
    files = store_in(path)
    files.folder.mkdir(parents=True)
    others = ["other.jsonl.temp-01234567", "session.jsonl.temp-", "session.jsonl.temp-0123456x", "notes"]
    for name in [*others, "session.jsonl.temp-89abcdef"]:
        (files.work / name).write_bytes(b"")
    recovered(path)
    assert sorted(path.name for path in files.work.iterdir()) == sorted(others)


def test_originals_without_a_journal(tmp_path: Path) -> None:
    """Originals whose journal someone removed are not taken for the trace of a crash: they are all there is."""
    path = make_session(tmp_path)
    compress(path)
    store_in(path).journal.unlink()
    before = everything(tmp_path)
    with pytest.raises(Damaged, match="journal of these originals is missing") as caught:
        recovered(path)
    assert f"Put {store_in(path).journal.name} back from a backup. Without it" in str(caught.value)
    assert f"'zstd -dc {store_in(path).originals}' still prints the originals" in str(caught.value)
    assert "'sessioncompress forget' deletes them." in str(caught.value)
    assert everything(tmp_path) == before


def without_the_last_record(journal: bytes) -> bytes:
    """Return a journal whose last line is gone."""
    return b"".join(journal.splitlines(keepends=True)[:-1])


def with_a_bad_run_record(journal: bytes) -> bytes:
    """Return a journal with a bad byte in its last record."""
    return b'"type": "rum"'.join(journal.rsplit(b'"type": "run"', 1))


def emptied(journal: bytes) -> bytes:
    """Return nothing, as a file system leaves a file that was not flushed."""
    return journal[:0]


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("harm", [without_the_last_record, with_a_bad_run_record, emptied])
def test_a_journal_that_lost_a_run(tmp_path: Path, harm: Callable[[bytes], bytes], runs: int) -> None:
    """Originals that the session needs are never taken for the trace of a crash; nothing is touched."""
    path = make_session(tmp_path)
    compress(path)
    if runs == 2:
        with path.open("ab") as file:
            file.write(OLD.replace(b'"id"', b'"name"'))
        compress(path)
    journal = store_in(path).journal
    journal.write_bytes(harm(journal.read_bytes()))
    before = everything(tmp_path)
    lost = 12 if runs == 2 and harm is emptied else 6
    with pytest.raises(Damaged, match=f"lost the record of a run that replaced {lost} lines") as caught:
        recovered(path)
    assert f"zstd -dc {store_in(path).originals}" in str(caught.value)
    assert everything(tmp_path) == before


def test_a_journal_that_lost_a_run_without_originals(tmp_path: Path) -> None:
    """What a run without originals wrote is known by its records alone."""
    path = make_session(tmp_path, NEW)
    files = store_in(path)
    files.folder.mkdir(parents=True)
    files.journal.write_bytes(LineRecord(digest(b"old"), None, digest(NEW.splitlines(keepends=True)[2])).encode())
    with pytest.raises(Damaged, match=r"history: it has lost the record of a run that replaced 1 line of"):
        recovered(path)
    path.write_bytes(OLD)
    recovered(path)
    assert everything(tmp_path) == {"session.jsonl": OLD}


def test_a_store_that_is_torn_and_lost_a_run(tmp_path: Path) -> None:
    """What can still be read of it is enough to see that the session needs it."""
    path = make_session(tmp_path)
    compress(path)
    files = store_in(path)
    files.journal.write_bytes(b"")
    files.originals.write_bytes(files.originals.read_bytes()[:-1])
    with pytest.raises(Damaged, match="replaced 6 lines"):
        recovered(path)


def damaged(frames: bytes, at: int) -> bytes:
    """Return frames with a wrong byte."""
    return frames[:at] + bytes([frames[at] ^ 0x55]) + frames[at + 1 :]


DAMAGED = {
    "at the head of the first frame": damaged(FRAME, 0),
    "in the size of its window": damaged(FRAME, 4),
    "in its content": damaged(FRAME, 20),
    "in its checksum, before a torn one": damaged(FRAME, len(FRAME) - 1) + FRAME[:-5],
    "in the second frame": damaged(FRAME * 2, len(FRAME) + 2),
    "no frame at all": b"garbage",
    "a frame larger than ours": zstd.compress(b"x" * (FRAME_BYTES + 1)),
    "zeros where a frame was": bytes(40) + FRAME,
}


@pytest.mark.parametrize("harm", DAMAGED)
@pytest.mark.parametrize("runs", [0, 1])
def test_damage_behind_the_committed_bytes(tmp_path: Path, harm: str, runs: int) -> None:
    """No kill leaves it: what cannot be read may be what the session needs, and an emptied journal says nothing."""
    path = make_session(tmp_path, OLD + APPENDED)
    files = store_in(path)
    files.folder.mkdir(parents=True)
    if runs:
        compress(path)
    with files.originals.open("ab") as file:
        file.write(DAMAGED[harm])
    files.journal.touch()
    before = everything(tmp_path)
    with pytest.raises(Damaged, match=r"the originals cannot be read from byte [0-9,]+ on") as caught:
        recovered(path)
    assert caught.value.remedy.endswith(
        f"the first {read_lengths(files).journal} bytes of session.jsonl.history." if runs else "forget' deletes them."
    )
    assert everything(tmp_path) == before


TORN = [FRAME[:length] for length in (1, 3, 4, 5, 6, 9, 20, len(FRAME) - 1)]


@pytest.mark.parametrize("torn", TORN, ids=len)
@pytest.mark.parametrize("rest", [0, 3, 5000])
@pytest.mark.parametrize("whole", [0, 2])
def test_a_torn_frame_is_undone(tmp_path: Path, torn: bytes, rest: int, whole: int) -> None:
    """A killed run leaves it behind whole ones; a power cut may leave zeros where the rest was to be."""
    path = make_session(tmp_path, OLD + APPENDED)
    files = store_in(path)
    files.folder.mkdir(parents=True)
    files.originals.write_bytes(zstd.compress(APPENDED) * whole + torn + bytes(rest))
    files.journal.touch()
    recovered(path)
    assert everything(tmp_path) == {"session.jsonl": OLD + APPENDED}


@pytest.mark.parametrize("runs", [0, 1])
def test_a_line_that_changed_since_a_run_was_killed(tmp_path: Path, runs: int) -> None:
    """A lost record looks the same: nothing is touched, and the error says both, and how to get rid of the trace."""
    path = make_session(tmp_path)
    files = store_in(path)
    if runs:
        compress(path)
    committed = read_lengths(files)
    with path.open("ab") as file:
        file.write(OLD.replace(b'"id"', b'"name"'))
    (tmp_path / "copy").mkdir()
    copy = make_session(tmp_path / "copy", path.read_bytes())
    compress(copy)
    files.folder.mkdir(parents=True, exist_ok=True)
    with files.originals.open("ab") as file:
        file.write(store_in(copy).originals.read_bytes())
    files.journal.touch()
    path.write_bytes(path.read_bytes().replace(b'{"name":"4"', b'{"note":"agent","name":"4"'))
    before = everything(tmp_path)
    with pytest.raises(Damaged, match="either it has lost the record of a run that replaced 1 line of") as caught:
        recovered(path)
    kept = 6 if runs else 12
    assert f"or a run was killed, and of {kept} lines that it kept 1 changed since" in caught.value.what
    assert everything(tmp_path) == before
    if not runs:
        assert caught.value.remedy.endswith("If not, 'sessioncompress forget' deletes them.")
        return
    found = re.search(
        r"the first (\d+) bytes of session.jsonl.originals.zst and the first (\d+) bytes", caught.value.remedy
    )
    assert found
    assert tuple(map(int, found.groups())) == (committed.originals, committed.journal)
    os.truncate(files.originals, committed.originals)
    compress(path)
    restore(path)
    assert path.read_bytes().startswith(OLD)


@pytest.mark.parametrize("which", ["originals", "journal"])
def test_lost_bytes(tmp_path: Path, which: str) -> None:
    """A file beside that is shorter than committed, or gone, is damage; nothing is touched."""
    path = make_session(tmp_path)
    compress(path)
    files = store_in(path)
    lengths = read_lengths(files)
    file: Path = getattr(files, which)
    os.truncate(file, file.stat().st_size - 1)
    before = everything(tmp_path)
    with open_session(path, writing=True) as session, pytest.raises(Damaged, match="1 of its") as caught:
        recover(session, files, lengths)
    assert "back from a backup" in str(caught.value)
    assert "'sessioncompress forget' ends this" in str(caught.value)
    assert "git checkout" not in str(caught.value)
    # Of what this journal names nothing can be read.
    assert "zstd" not in str(caught.value)
    assert "--from-markers" not in str(caught.value)
    assert everything(tmp_path) == before
    if which == "originals":
        file.unlink()
        with open_session(path, writing=True) as session, pytest.raises(Damaged, match="it is missing") as caught:
            recover(session, files, lengths)
        assert "zstd" not in str(caught.value)


def test_a_linked_folder(tmp_path: Path) -> None:
    """Nothing is looked for, or removed, behind a link."""
    path = make_session(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "session.jsonl.temp-01234567").write_bytes(b"")
    (tmp_path / ".sessioncompress").symlink_to("elsewhere")
    with pytest.raises(IsALink):
        recovered(path)
    assert (tmp_path / "elsewhere" / "session.jsonl.temp-01234567").exists()


def test_a_killed_drain_is_finished(tmp_path: Path) -> None:
    """A tail that a killed run left in a link is carried over, once, and the link goes."""
    path = make_session(tmp_path)
    old = tmp_path / "old"
    os.link(path, old)
    (tmp_path / "new").write_bytes(NEW)
    (tmp_path / "new").replace(path)
    with old.open("ab") as file:
        file.write(APPENDED + APPENDED)
    with path.open("ab") as file:
        file.write(APPENDED + b"later\n")
    work = store_in(path).work
    work.mkdir()
    successor = path.stat().st_ino
    states = late_state(old, len(OLD), len(NEW), successor), late_state(old, len(OLD + APPENDED), len(NEW), 1)
    link = old.rename(states[0].path(path))
    os.link(link, states[1].path(path))
    assert recovered(path) == len(APPENDED)
    assert path.read_bytes() == NEW + APPENDED + APPENDED + b"later\n"
    assert not work.exists()
    assert recovered(path) == 0


def test_a_link_that_names_another_file_now(tmp_path: Path) -> None:
    """A copy of the folder, or a file put under the name: its lines are not the session's."""
    path = make_session(tmp_path, NEW)
    link = late_link(path, OLD + APPENDED, carried=len(OLD))
    (tmp_path / "copy").write_bytes(link.read_bytes())
    (tmp_path / "copy").replace(link)
    assert recovered(path) == 0
    assert path.read_bytes() == NEW
    assert link.exists()


def test_forget(tmp_path: Path) -> None:
    """Everything beside the session goes, the session stays."""
    path = make_session(tmp_path)
    compress(path)
    restore(path)
    with open_session(path, writing=True) as session:
        recover(session, store_in(path), read_lengths(store_in(path)))
        forget(session, store_in(path))
    assert everything(tmp_path) == {"session.jsonl": OLD}


@names_of_descriptors
def test_the_order_of_forgetting(tmp_path: Path) -> None:
    """The originals go before the journal that tells of them; and what went has gone from the disk too."""
    path = make_session(tmp_path)
    compress(path)
    with open_session(path, writing=True) as session, steps_of(("truncate", "fsync", "unlink")) as steps:
        forget(session, store_in(path))
    assert steps[:3] == ["unlink .zst", "unlink .history", "fsync local-"]


def test_forget_fails_half_way(tmp_path: Path) -> None:
    """Nothing is taken for the trace of a killed run: forget says what it ends, and ends it."""
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = make_session(folder)
        compress(path)
        with disk(failing_at(number, 5)), open_session(path, writing=True) as session, pytest.raises(FileFailed):
            forget(session, store_in(path))
        if number == 1:
            with pytest.raises(Damaged, match="it is missing") as caught:
                recovered(path)
            assert "'sessioncompress forget' ends this" in str(caught.value)
        with open_session(path, writing=True) as session:
            forget(session, store_in(path))
        assert everything(folder) == {"session.jsonl": NEW}


def test_forget_keeps_the_folder_of_others(tmp_path: Path) -> None:
    """Other sessions' files stay."""
    path, other = make_session(tmp_path), make_session(tmp_path, name="other.jsonl")
    compress(path)
    compress(other)
    with open_session(path, writing=True) as session:
        forget(session, store_in(path))
    store = store_in(other)
    assert sorted(store.folder.iterdir()) == [store.journal, store.originals]
    assert read_lengths(store_in(path)) == Lengths()
