"""Git converts the line ends of a session, or of a journal: each command says so, and the command it names mends it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress import Compact, CutRule, Policy, compact_session, compress_session, restore_session, verify_session
from sessioncompress.errors import Damaged, Refused, SessionCompressError
from sessioncompress.store.layout import store_in
from tests.support.repository import Repository

FIXTURES = Path(__file__).parents[2] / "fixtures"
SOON = Policy(
    size_threshold_kb=0, turn_threshold_before_compress=0, protect_tokens=0, min_saved_kb=0, commit_originals=True
)
AGAIN = Policy(
    size_threshold_kb=0, turn_threshold_before_compress=0, protect_tokens=0, min_saved_kb=0, tool_result_max_bytes=300
)
SMALL = Policy(compact=Compact(keep=CutRule.MESSAGES, keep_messages=10, min_dead_tokens=0, min_saved_tokens=0))
COMMANDS: dict[str, Callable[[Path], object]] = {
    "verify": verify_session,
    "restore": restore_session,
    "restore --from-markers": lambda path: restore_session(path, from_markers=True),
    "compress": lambda path: compress_session(path, AGAIN),
    "compact": lambda path: compact_session(path, SMALL),
}


def in_git(folder: Path, name: str, *attributes: str) -> tuple[Repository, Path, bytes]:
    """Commit a rewritten fixture with its store, where git may convert it; return it and its original."""
    path, original = folder / name, (FIXTURES / name).read_bytes()
    repository = Repository(folder)
    (folder / ".gitattributes").write_text("".join(f"{each}\n" for each in attributes))
    path.write_bytes(original)
    assert compress_session(path, SOON).lines_changed
    repository.git("add", "-A", "-f")
    repository.commit()
    return repository, path, original


def checked_out(repository: Repository, *paths: Path) -> None:
    for path in paths:
        path.unlink()
    repository.git("checkout", "-q", "--", *paths)


def mended_as(error: SessionCompressError) -> None:
    command = error.remedy.removeprefix("Convert them back: ").partition(", and run again.")[0]
    subprocess.run(["sh", "-c", command], check=True)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["pi-anthropic.jsonl", "claude-tools.jsonl", "codex.jsonl"])
def test_each_command_says_that_a_session_was_converted(tmp_path: Path, name: str, command: str) -> None:
    repository, path, original = in_git(tmp_path, name, "*.jsonl text eol=crlf", ".sessioncompress/** -text")
    checked_out(repository, path)
    converted = path.read_bytes()
    assert converted.endswith(b"\r\n")
    with pytest.raises(Refused, match="its lines end with CR LF now") as caught:
        COMMANDS[command](path)
    assert path.read_bytes() == converted
    mended_as(caught.value)
    assert verify_session(path, SOON).changed == ()
    restore_session(path, SOON)
    assert path.read_bytes() == original


def test_it_is_said_of_a_session_whose_summary_alone_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes((FIXTURES / "pi-anthropic.jsonl").read_bytes())
    compact_session(path, SMALL)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(Refused, match="CR LF"):
        restore_session(path)


def test_it_is_said_of_a_document(tmp_path: Path) -> None:
    path = tmp_path / "gemini.json"
    path.write_bytes((FIXTURES / path.name).read_bytes())
    assert compress_session(path, SOON).lines_changed
    rewritten = path.read_bytes()
    assert rewritten.count(b"\n") > 1
    path.write_bytes(rewritten.replace(b"\n", b"\r\n"))
    with pytest.raises(Refused, match="CR LF") as caught:
        verify_session(path)
    mended_as(caught.value)
    assert path.read_bytes() == rewritten


@pytest.mark.parametrize("command", [each for each in COMMANDS if each != "compact"])
def test_it_is_said_of_a_journal(tmp_path: Path, command: str) -> None:
    repository, path, original = in_git(tmp_path, "pi-anthropic.jsonl", "*.jsonl -text")
    journal = store_in(path).journal
    (journal.parent / ".gitattributes").write_text("*.refs.jsonl text eol=crlf\n")
    checked_out(repository, journal)
    with pytest.raises(Damaged, match="its lines end with CR LF") as caught:
        COMMANDS[command](path)
    mended_as(caught.value)
    restore_session(path, SOON)
    assert path.read_bytes() == original


LEFT_ALONE: dict[str, Callable[[bytes], bytes]] = {
    "an agent that writes CR LF": lambda data: data.replace(b"\n", b"\r\n"),
    "one line of it": lambda data: data.replace(b"\n", b"\r\n", 1),
}


@pytest.mark.parametrize("how", LEFT_ALONE)
def test_a_session_that_ended_so_before_is_none(tmp_path: Path, how: str) -> None:
    path = tmp_path / "s.jsonl"
    original = LEFT_ALONE[how]((FIXTURES / "pi-anthropic.jsonl").read_bytes())
    path.write_bytes(original)
    assert compress_session(path, SOON).lines_changed
    verify_session(path)
    restore_session(path)
    assert path.read_bytes() == original
