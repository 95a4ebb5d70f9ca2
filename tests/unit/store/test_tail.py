"""What came late gets into its place, once, and never makes one line of two."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessioncompress.store.late_links import LeftOver, current_state
from sessioncompress.store.layout import store_in
from sessioncompress.store.lock import open_session
from sessioncompress.store.swap import Draft, late_tail, write_with_tail
from tests.unit.store.tools import late_state

CASES = {
    "nothing came": (b"old\n", b"", b"new\n", b"", b"new\n"),
    "one line": (b"old\n", b"late\n", b"new\n", b"", b"new\nlate\n"),
    "before what reached the session": (b"old\n", b"late\n", b"new\n", b"then\n", b"new\nlate\nthen\n"),
    "there already": (b"old\n", b"late\n", b"new\n", b"late\n", b"new\nlate\n"),
    "half of it there already": (b"old\n", b"one\ntwo\n", b"new\n", b"one\n", b"new\none\ntwo\n"),
    "there already, then more": (b"old\n", b"one\ntwo\n", b"new\n", b"one\nthen\n", b"new\none\ntwo\nthen\n"),
    "torn off by a crash": (b"old\n", b"one\ntwo\n", b"new\n", b"one\ntw", b"new\none\ntwo\n"),
    "a line that begins alike": (b"old\n", b"line one\n", b"new\n", b"line two\n", b"new\nline one\nline two\n"),
    "the rest of a line": (b"old\nha", b"lf\n", b"new\nha", b"", b"new\nhalf\n"),
    "a line without its end": (b"old\n", b"late", b"new\n", b"{}\n", b"new\nlate\n{}\n"),
    "the first half of a line": (b"old\n", b'{"a":', b"new\n", b'{"b":1}}\n{}\n', b'new\n{"a":{"b":1}}\n{}\n'),
    "the middle of a line": (b'old\n{"a', b'":', b'new\n{"a', b"1}\n", b'new\n{"a":1}\n'),
    "after a line without its end": (b"old\n", b"late\n", b"new", b"", b"new\nlate\n"),
}


@pytest.mark.parametrize(("old", "late", "new", "reached", "wanted"), CASES.values(), ids=CASES)
def test_cases(tmp_path: Path, old: bytes, late: bytes, new: bytes, reached: bytes, wanted: bytes) -> None:
    """The old file's late lines follow what the new file was made of, before what reached the new file itself."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(new + reached)
    (tmp_path / "late").write_bytes(old + late)
    fd = os.open(tmp_path / "late", os.O_RDONLY)
    with open_session(path, writing=True) as session:
        tail = late_tail(session, late_state(tmp_path / "late", len(old), len(new), 0), fd, whole_lines=False)
        draft = Draft(path)
        behind = write_with_tail(draft, session, tail)
        draft.check()
        assert draft.path.read_bytes() == wanted
        assert wanted[:behind].rstrip(b"\n").endswith((late or new).rstrip(b"\n"))
        draft.discard()
    os.close(fd)


def test_a_line_that_may_still_be_written_waits(tmp_path: Path) -> None:
    """Only whole lines are taken from a file that someone may be writing to."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"new\n")
    (tmp_path / "late").write_bytes(b"old\nwhole\nha")
    fd = os.open(tmp_path / "late", os.O_RDONLY)
    with open_session(path, writing=True) as session:
        tail = late_tail(session, late_state(tmp_path / "late", 4, 4, 0), fd, whole_lines=True)
        assert (tail.start, tail.end) == (4, 10)
        assert not late_tail(session, late_state(tmp_path / "late", 10, 4, 0), fd, whole_lines=True)
    os.close(fd)


def test_names_keep_states(tmp_path: Path) -> None:
    """A state survives in the name of its link; the one for the session's inode holds, at most to its end."""
    path = tmp_path / "s[1].jsonl"
    path.write_bytes(b"x" * 20)
    inode = path.stat().st_ino
    states = sorted([late_state(path, 10, 20, 77), late_state(path, 15, 30, 88)], key=lambda state: state.path(path))
    work = store_in(path).work
    work.mkdir()
    for state in states:
        os.link(path, state.path(path))
    (work / "s1.jsonl.late-1-2-3-4-5").write_bytes(b"")
    assert LeftOver(path).late == {inode: states}
    assert current_state(states, 88, 100) == states[1]
    assert current_state(states, 88, 25).base == 25
    assert (current_state(states, 99, 100).drained, current_state(states, 99, 100).base) == (10, 100)
