"""Handing off: all that the model reads, in a document or in a session that begins with it; the source stays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sessioncompress.errors import Refused
from sessioncompress.operations.branch import summarize_branch
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.handoff import handoff_session, write_new
from sessioncompress.operations.show import show
from sessioncompress.pipeline.stats import Status
from sessioncompress.store.layout import store_in
from tests.support.branched import branched
from tests.support.long import FEW, LONG
from tests.support.runs import fixture, form_of, snapshot, split, survey_of, write
from tests.support.session import PiSession

MADE = branched()


@pytest.mark.parametrize("name", LONG)
def test_the_document_has_all_requests_and_files_and_the_session_stays(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, LONG[name](8))
    before = snapshot(path)
    made = handoff_session(path, FEW)
    assert made.text.startswith(f"# Handoff\n\nReferences are of the session {path}: ")
    assert made.text.endswith("\n")
    assert all(f"Part {turn}" in made.text for turn in range(8))
    assert all(f"notes-{turn}.md" in made.text for turn in range(8))
    assert (made.format, made.begun) == (name.partition(" ")[0], "")
    assert 0 < made.tokens_summary < made.tokens_before
    assert snapshot(path) == before
    assert not store_in(path).work.exists()


def test_a_reference_in_it_is_found_in_the_session(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    text = handoff_session(path).text
    ref = text.partition("second.py`: written, 2 lines [")[2].partition("]")[0]
    assert show(ref, path)[0].content == b"def second() -> None: ...\n"
    summarize_branch(path)
    assert show(ref, path)[0].content == b"def second() -> None: ...\n"


# A new session


def test_the_new_session_begins_with_the_document(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    before = snapshot(path)
    made = handoff_session(path, new=True)
    begun = Path(made.begun)
    assert begun.parent == path.parent
    assert begun.stat().st_mode & 0o777 == 0o600
    header, entry = map(json.loads, split(begun.read_bytes()))
    source, *_, last = map(json.loads, split(MADE.data))
    assert (header["parentSession"], header["cwd"]) == (str(path), source["cwd"])
    assert header["id"] != source["id"]
    assert begun.name == f"{last['timestamp'].replace(':', '-').replace('.', '-')}_{header['id']}.jsonl"
    assert header["timestamp"] == entry["timestamp"] == last["timestamp"]
    assert (entry["type"], entry["customType"], entry["display"]) == ("custom_message", "handoff", True)
    assert entry["parentId"] is None
    assert made.text.rstrip() in entry["content"]
    assert entry["content"].startswith("<handoff-context>\n")
    assert form_of(begun.read_bytes()).name == "pi"
    assert list(survey_of(begun.read_bytes()).shape.live) == [1]
    after = snapshot(path)
    del after[begun.name]
    assert after == before


def test_the_same_session_gives_the_same_one_which_is_never_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path, MADE.data)
    begun = Path(handoff_session(path, new=True).begun)
    data = begun.read_bytes()
    begun.write_bytes(b"mine")
    with pytest.raises(Refused, match="the file exists"):
        handoff_session(path, new=True)
    assert begun.read_bytes() == b"mine"
    begun.unlink()
    assert Path(handoff_session(path, new=True).begun) == begun
    assert begun.read_bytes() == data


def test_oh_my_pi_says_who_wrote_it(tmp_path: Path) -> None:
    begun = Path(handoff_session(write(tmp_path, fixture("omp.jsonl")), new=True).begun)
    assert json.loads(split(begun.read_bytes())[1])["attribution"] == "agent"


def test_nothing_said_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nothing in it to hand off"):
        handoff_session(write(tmp_path, PiSession()))


def test_the_new_session_can_be_compacted_and_keeps_what_was_handed_off(tmp_path: Path) -> None:
    begun = Path(handoff_session(write(tmp_path, MADE.data), new=True).begun)
    more = PiSession(seed="more").branch(json.loads(split(begun.read_bytes())[1])["id"])
    long = split(LONG["pi"](8))[3:]
    more.user("Go on.")
    with begun.open("ab") as file:
        file.write(b"".join(more.lines()[1:]))
        first = json.loads(long[0]) | {"parentId": more.leaf}
        file.write(json.dumps(first).encode() + b"\n" + b"".join(long[1:]))
    stats = compact_session(begun, FEW)
    assert stats.status is Status.COMPACTED
    assert "Try the other way: put a second gauge beside it." in stats.summary
    assert "second.py" in stats.summary


# Files


def test_a_new_file_is_private_and_whole(tmp_path: Path) -> None:
    write_new(tmp_path / "a.md", b"words")
    assert (tmp_path / "a.md").read_bytes() == b"words"
    assert (tmp_path / "a.md").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a.md"]


@pytest.mark.parametrize("there", ["file", "link", "folder"])
def test_what_is_there_stays(there: str, tmp_path: Path) -> None:
    target = tmp_path / "a.md"
    if there == "file":
        target.write_bytes(b"mine")
    elif there == "link":
        target.symlink_to("gone")
    else:
        target.mkdir()
    with pytest.raises(Refused, match="the file exists"):
        write_new(target, b"words")
    assert os.listdir(tmp_path) == ["a.md"]
    assert there != "file" or target.read_bytes() == b"mine"
