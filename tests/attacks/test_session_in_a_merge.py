"""A session that git could not merge: its conflict markers stand between the lines, and no run rewrites those."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessioncompress.formats.table import NAMES
from sessioncompress.store.layout import store_in
from tests.support.repository import Repository
from tests.support.runs import fixture, invoke, snapshot, split
from tests.support.stories import STORIES, of_format

LINES = [*{STORIES[name].form: name for name in of_format(*NAMES) if name.endswith(".jsonl")}.values()]
"""A session of each format of lines."""
SIDES = (b"<<<<<<< HEAD\n", b"=======\n", b">>>>>>> a branch\n")


def merged(lines: list[bytes], at: int, marks: tuple[bytes, ...] = SIDES) -> bytes:
    return b"".join([*lines[:at], marks[0], lines[at], marks[1], lines[at + 1], *marks[2:], *lines[at + 2 :]])


@pytest.mark.parametrize(("name", "ends"), [*((name, b"\n") for name in LINES), (LINES[0], b"\r\n")])
def test_a_session_in_a_merge_is_refused(tmp_path: Path, name: str, ends: bytes) -> None:
    """In every format of lines, by name and line, by a rehearsal too; nothing is changed."""
    path = tmp_path / "s.jsonl"
    lines = split(fixture(name))
    at = len(lines) // 2
    first, middle, last = (mark.replace(b"\n", ends) for mark in SIDES)
    path.write_bytes(merged(lines, at, (first, middle, last)))
    before = snapshot(path)
    for options in (["--force"], ["--dry-run", "--force"]):
        done = invoke("compress", *options, path)
        assert done.exit_code == 4, done.output
        assert f"{path}:{at + 1}: git could not merge this session" in done.stderr
        assert "The session was not changed. Finish the merge first: " in done.stderr
        assert snapshot(path) == before


def test_behind_what_an_earlier_run_finished(tmp_path: Path) -> None:
    """The number is that of the line in the file; what is there can be restored, and compressed once they are out."""
    path = tmp_path / "s.jsonl"
    original = fixture("pi-anthropic.jsonl")
    path.write_bytes(original)
    assert invoke("compress", "--force", path).exit_code == 0
    smaller = path.read_bytes()
    more = split(fixture("pi-one-prompt.jsonl"))[1:3]
    path.write_bytes(smaller + merged(more, 0))
    done = invoke("compress", "--force", path)
    assert done.exit_code == 4
    assert f"{path}:{len(split(smaller)) + 1}: git could not merge" in done.stderr
    assert invoke("restore", path).exit_code == 0
    assert path.read_bytes() == original + merged(more, 0)
    path.write_bytes(original + b"".join(more))
    assert invoke("compress", "--force", path).exit_code == 0


def test_markers_of_another_size(tmp_path: Path) -> None:
    """As the attribute conflict-marker-size makes them."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(merged(split(fixture("pi-anthropic.jsonl")), 20, (b"<<<<<<<<<<<< HEAD\n", *SIDES[1:])))
    assert "git could not merge this session" in invoke("compress", "--force", path).stderr


NO_MARKERS = [
    b" <<<<<<< HEAD\n",
    b"<<<<<<<\n",
    b"========\n",
    b"======= x\n",
    b"=======\n",
    b">>>>>>> a branch\n",
    b'{"a":"<<<<<<< HEAD"}\n',
]


@pytest.mark.parametrize("line", NO_MARKERS, ids=repr)
def test_what_git_does_not_write_is_copied(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "s.jsonl"
    lines = split(fixture("pi-anthropic.jsonl"))
    path.write_bytes(b"".join([*lines[:9], line, *lines[9:]]))
    assert invoke("compress", "--force", path).exit_code == 0
    assert split(path.read_bytes())[9] == line


def test_as_git_leaves_it(tmp_path: Path) -> None:
    """Two branches went on from one session."""
    repository = Repository(tmp_path / "work")
    path = repository.folder / "s.jsonl"
    lines = split(fixture("pi-anthropic.jsonl"))
    path.write_bytes(b"".join(lines[:-2]))
    repository.commit()
    repository.git("checkout", "--quiet", "-b", "side")
    path.write_bytes(b"".join(lines[:-1]))
    repository.commit()
    repository.git("checkout", "--quiet", "main")
    path.write_bytes(b"".join([*lines[:-2], lines[-1]]))
    repository.commit()
    assert repository.run("git", "merge", "side").returncode == 1
    done = invoke("compress", "--force", path)
    assert done.exit_code == 4
    assert f"s.jsonl:{len(lines) - 1}: git could not merge this session" in done.stderr


COMMANDS = ["compress --force", "stats", "budget", "verify", "forget --yes", "forget --yes --max-size 0KB"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("where", ["in what was compressed", "behind it"])
def test_no_command_says_that_it_is_well(tmp_path: Path, command: str, where: str) -> None:
    """All but restore refuse it in the same words; the originals stay, which one side may need."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    assert invoke("compress", "--force", path).exit_code == 0
    lines = split(path.read_bytes())
    at = 9 if where == "in what was compressed" else len(lines) - 2
    path.write_bytes(merged(lines, at))
    before = snapshot(path)
    done = invoke(*command.split(), path)
    assert done.exit_code == 4, done.output
    assert f"{path}:{at + 1}: git could not merge this session" in done.stderr
    assert "Finish the merge first: " in done.stderr
    assert snapshot(path) == before
    assert invoke("restore", path).stdout.endswith("it still has git's conflict markers\n")
    assert path.read_bytes() == merged(split(fixture("pi-anthropic.jsonl")), at)
    assert invoke("restore", path).stdout.endswith("it still has git's conflict markers\n")


@pytest.mark.parametrize("name", ["gemini.json", "opencode.json", "gencode.json", "chat.json"])
@pytest.mark.parametrize("begins", [False, True], ids=["in it", "at its beginning"])
def test_a_document_in_a_merge_is_refused(tmp_path: Path, name: str, begins: bool) -> None:
    """It is no JSON then, and shows no agent."""
    path = tmp_path / "s.json"
    lines = split(fixture(name))
    at = 0 if begins else len(lines) // 2
    path.write_bytes(merged(lines, at))
    before = snapshot(path)
    for command in ("compress --force", "verify", "restore", "show 0123456789ab", "forget --yes"):
        done = invoke(*command.split(), path)
        assert done.exit_code == 4, done.output
        assert f"{path}:{at + 1}: git could not merge this session" in done.stderr
    assert snapshot(path) == before


def test_damage_is_told_first(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    assert invoke("compress", "--force", path).exit_code == 0
    path.write_bytes(merged(split(path.read_bytes()), 9))
    store_in(path).originals.write_bytes(b"")
    assert invoke("verify", path).exit_code == 5
