"""Exit codes, errors of paths and of the policy, and hostile names in all of them."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import Damaged, FileFailed, NotASession
from sessioncompress.formats.table import AGENTS
from sessioncompress.operations import compress as compress_module
from sessioncompress.store.layout import store_in
from tests.cli.test_help import commands
from tests.support.commands import HOSTILE, RAW, policy, put, references, run, spawn
from tests.support.runs import but_undo, fixture, snapshot

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open")


# Exit codes


def test_a_file_that_fails_is_3(session: Path) -> None:
    """The error says what the system said, where, and that the session is as it was."""
    before = snapshot(session)
    (session.parent / "file").write_bytes(b"")
    result = run("compress", "--backup-dir", "file/below", "session.jsonl")
    assert result.exit_code == 3
    assert re.search(r"failed: .*not a directory\. The session was not changed\.", result.stderr)
    assert {**snapshot(session), "file": ()} == {**before, "file": ()}


def test_a_path_that_is_not_there_is_2(here: Path) -> None:
    for name in [
        name for name, command in commands() if any((each.name or "").startswith("path") for each in command.params)
    ]:
        first = {"show": ["0123456789ab"], "config": ["show"], "search": ["text"]}.get(name, [])
        arguments = (*first, "none.jsonl")
        result = run(name, *arguments)
        assert result.exit_code == 2, name
        assert "none.jsonl" in result.stderr
        assert "does not exist" in result.stderr


def test_every_command_refuses_alike(session: Path) -> None:
    """The same line: how it ended, the path as it was typed, what is wrong, the state, and what to do."""
    (session.parent / "below").mkdir()
    none = session.parent / "below" / "none.jsonl"
    none.write_bytes(b'{"kind":"log"}\n' * 9000)
    seen = "its first object has the keys kind"
    said = (
        f"refused: below/none.jsonl: this is not a session of any agent we know ({seen}). The file was not changed. "
        f"Name a session of {AGENTS}.\n"
    )
    for command in ("compress", "stats", "verify"):
        result = run(command, "below/none.jsonl")
        assert (result.exit_code, result.stderr) == (4, said), command
    os.link(session, "other")
    os.mkfifo("pipe")
    linked = (
        "session.jsonl: it has other hard links, which would keep the old text. The session was not changed. Remove"
    )
    for command in ("compress", "restore"):
        result = run(command, "session.jsonl")
        assert (result.exit_code, result.stderr.startswith(f"refused: {linked}")) == (4, True), command
        said = (
            "refused: pipe: it is not a regular file. It was not changed. Name a session, or a folder with sessions.\n"
        )
        assert run(command, "pipe").stderr == said, command


def test_show_where_the_originals_are_gone(compressed: Path) -> None:
    """Exit code 5, naming the file, and what to do."""
    store_in(compressed).originals.unlink()
    result = run("show", references(compressed)[0], "session.jsonl")
    assert result.exit_code == 5
    missing = f"{store_in(compressed).originals}: the originals that the journal lists are missing"
    assert f"{missing}. The session was not changed. Put a copy of it back" in result.stderr


def test_show_where_a_session_was_named(compressed: Path) -> None:
    """The error does not tell to name it."""
    result = run("show", "0123456789ab", "session.jsonl")
    assert result.exit_code == 2
    assert (
        "session.jsonl: no original with the reference 0123456789ab found. Name the session that holds the marker"
        in (result.stderr)
    )


def test_show_says_whose_originals_it_searched(compressed: Path) -> None:
    """Of a folder: a few names, and how many more there are."""
    said = run("show", "0123456789ab", compressed.parent).stderr
    assert "0123456789ab found. It has the stores of session.jsonl. Name the session that" in said
    for number in range(10):
        store_in(compressed).journal.with_name(f"a{number}.jsonl.history").touch()
    said = run("show", "0123456789ab", compressed.parent).stderr
    assert "It has the stores of a0.jsonl, a1.jsonl, " in said
    assert ", a9.jsonl and 1 more. Name the session that" in said
    (compressed.parent / "none").mkdir()
    assert "found. It has no session's store. Name" in run("show", "0123456789ab", compressed.parent / "none").stderr


def test_a_second_ago(session: Path) -> None:
    """It is one second, not seconds."""
    now = time.time()
    os.utime(session, (now - 1, now - 1))
    assert "it changed 1 second ago," in run("compress", "--idle-seconds", "60", session).stdout


def test_paths_are_looked_at_first(session: Path) -> None:
    """One that is not there stops all, and the error says so."""
    before = snapshot(session)
    for name in ("compress", "stats", "restore", "verify"):
        result = run(name, "session.jsonl", "none.jsonl")
        assert result.exit_code == 2, name
        assert result.stderr.endswith("'none.jsonl' does not exist. Nothing was done.\n"), name
        assert result.stdout == ""
    assert snapshot(session) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("compress",),
        ("none",),
        ("compress", "--none", "."),
        ("compress", "--preset", "best", "."),
        ("compress", "--keep-turns", "-1", "."),
        ("compress", "--min-size", "much", "."),
        ("compress", "--protect-tokens", "all", "."),
        ("restore", "--originals", "x.jsonl", "."),
        ("show",),
        ("show", "0123"),
        ("show", "not-a-reference"),
        ("show", "0123456789ab"),
        ("compress", "--config", "none", "."),
    ],
    ids=" ".join,
)
def test_what_does_not_exist_is_2(here: Path, arguments: Sequence[str]) -> None:
    """Commands, options, values and references."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr


EMPTY = (
    *(("compress", ""), ("restore", ""), ("verify", ""), ("stats", ""), ("budget", ""), ("show", "0123456789ab", "")),
    *(("forget", "--yes", ""), ("forget", "--yes", "--older-than", "0d", ""), ("pre-commit", "")),
    *(("compress", "session.jsonl", option, "") for option in ("--backup-dir", "--config", "--log")),
    *(("sessions", "--project", ""), ("restore", "--from-markers", "--originals", "", "session.jsonl")),
    *((name, "--backup-dir", "", "session.jsonl") for name in ("restore", "verify", "stats", "forget")),
)


@pytest.mark.parametrize("arguments", EMPTY, ids=" ".join)
def test_an_empty_path_is_2(compressed: Path, arguments: Sequence[str]) -> None:
    """So a shell gives a variable that is not set: it is not the working folder."""
    before = snapshot(compressed)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "the path is empty" in result.stderr
    assert "Nothing was done" in result.stderr
    assert snapshot(compressed) == before


@pytest.mark.parametrize(
    "arguments",
    [
        *((name, ".") for name in ("compress", "restore", "history", "pack", "stats", "verify", "forget", "diff")),
        *(
            ("search", "text", "."),
            ("show", "0123456789ab", "."),
            ("show", "0123456789ab"),
            ("sessions", "--project", "."),
            ("report", "."),
        ),
        *(("compact", "."), ("budget", "."), ("handoff", "."), ("config", "show"), ("pre-commit", "session.jsonl")),
    ],
    ids=" ".join,
)
def test_a_path_from_a_deleted_folder_is_2(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some commands ended with a traceback and 1, as if something would change, and others said there was nothing."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    said = " ".join(result.stderr.split())
    advice = r"no longer exists\. Change to another one, or name (an absolute path\. Nothing was done|the session: show .*)\."
    assert re.search(advice, said)


@linux
def test_a_session_in_use_is_4(session: Path) -> None:
    """The error names the program, here this one itself, and the session is not touched."""
    before = snapshot(session)
    with session.open("ab"):
        result = run("compress", "session.jsonl")
        assert result.exit_code == 4
        assert re.search(
            r"refused: .*session\.jsonl: it is in use, open for writing in this command itself \(process \d+\)\. "
            r"The session was not changed\. Run again when the agent is idle\.",
            result.stderr,
        )
        assert snapshot(session) == before
        assert run("restore", "session.jsonl").exit_code == 4
    assert run("compress", "session.jsonl").exit_code == 0


FAILURES: dict[str, tuple[Callable[[str], Exception], int]] = {
    "five": (lambda where: Damaged("it is damaged", where=where), 5),
    "three": (lambda where: FileFailed("it failed", where=where), 3),
    "four": (lambda where: NotASession("it is none", where=where), 4),
}


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("good",), 1),
        (("four", "good"), 4),
        (("three", "four", "good"), 3),
        (("good", "four", "three"), 3),
        (("three", "five", "four"), 5),
        (("good", "three"), 3),
        (("five",), 5),
    ],
)
def test_of_several_codes(here: Path, monkeypatch: pytest.MonkeyPatch, names: Sequence[str], code: int) -> None:
    """5, then 3, then 4, then 1; every file has its turn."""
    real = compress_module.compress_session

    def pretend(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.stem in FAILURES:
            raise FAILURES[path.stem][0](str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(compress_module, "compress_session", pretend)
    for name in names:
        put(here / f"{name}.jsonl")
    result = run("compress", "--check", *(f"{name}.jsonl" for name in names))
    assert result.exit_code == code
    assert (f"total: {len(names)} files" in result.stdout) == (len(names) > 1)
    assert but_undo(result.stderr).count("\n") == sum(name in FAILURES for name in names)


def test_interrupted_is_130(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says in which state everything is."""

    def interrupt(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(compress_module, "compress_session", interrupt)
    result = run("compress", session)
    assert result.exit_code == 130
    assert result.stderr == "Interrupted. Every session is either as before or completely rewritten.\n"


# Errors of the policy


def test_an_unknown_key(session: Path) -> None:
    """The error names the file, the key and the nearest one."""
    policy(session.parent / "compression.json", toolResultMaxByte=10)
    before = snapshot(session)
    result = run("compress", "session.jsonl")
    assert result.exit_code == 2
    file = session.parent / "compression.json"
    assert f'{file}: the policy has an unknown key "session.toolResultMaxByte"' in result.stderr
    assert (
        'did you mean "toolResultMaxBytes"? No session that it governs was changed. Correct the file.' in result.stderr
    )
    assert snapshot(session) == before


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"Session": {"minSavedKB": 0}}', '"Session" is'),
        ('{"SESSION": {}, "level": 9}', '"SESSION" is'),
        ('{"sizeThresholdKB": 5}', '"sizeThresholdKB" is'),
        ('{"enabled": false, "keepBackup": false, "level": 9}', '"enabled", "keepBackup" are'),
        ('{"session": {}, "sizeThresholdKB": 1000}', '"sizeThresholdKB" is'),
        ('{"compression": {"enabled": false}}', '"compression" is'),
    ],
)
def test_a_misplaced_key_is_warned_of(session: Path, text: str, keys: str) -> None:
    """Once, however many sessions there are; what is done, and the exit code, is as without it."""
    file = session.parent / "compression.json"
    file.write_text(text)
    put(session.with_name("other.jsonl"))
    result = run("compress", ".")
    assert result.exit_code == 0
    assert but_undo(result.stderr) == f'warning: {file}: {keys} ignored: keys belong in an object "session"\n'
    assert "total: 2 files (2 compressed)\n" in result.stdout


def test_a_misplaced_key_of_a_named_file(session: Path) -> None:
    """It is warned of too; a named file without the section is an error that names what it lacks."""
    file = session.parent / "p.json"
    file.write_text('{"session": {}, "minSavedKB": 0}')
    result = run("stats", "--config", file, session)
    assert result.exit_code == 0
    assert 'p.json: "minSavedKB" is ignored' in result.stderr
    file.write_text('{"Session": {}}')
    result = run("stats", "--config", file, session)
    assert result.exit_code == 2
    assert 'p.json: the policy has no object "session"; "Session" is ignored: ' in result.stderr
    assert but_undo(result.stderr).count("\n") == 1


@pytest.mark.parametrize("text", ['{"session": {}}', '{"level": 9}', '{"sessions": {}}'])
def test_a_file_without_misplaced_keys_is_not_warned_of(session: Path, text: str) -> None:
    """Other tools have files of that name."""
    (session.parent / "compression.json").write_text(text)
    result = run("compress", session)
    assert (result.exit_code, but_undo(result.stderr)) == (0, "")


# Names


def test_a_hostile_name_never_reaches_the_terminal_raw(here: Path) -> None:
    """In no output of any command, neither of results nor of errors; the file is still found and done."""
    name = os.fsdecode(HOSTILE)
    try:
        put(here / name)
    except OSError:
        pytest.skip("this file system does not take such a name")
    refused, missing = f"r{name}", f"m{name}"
    (here / refused).write_bytes(b"{}\n" * 50_000)
    done = spawn("compress", "--dry-run", HOSTILE, cwd=here)
    printed = [done.stdout + done.stderr]
    codes = [done.returncode]
    for command in (
        *(("stats", name), ("compress", "."), ("compress", name), ("verify", "."), ("compress", refused)),
        *(("stats", refused), ("compress", missing), ("restore", name), ("forget", "--yes", name)),
        ("show", "0123456789ab", name),
    ):
        result = run(*command)
        printed.append(result.stdout_bytes + result.stderr_bytes)
        codes.append(result.exit_code)
    for each in printed:
        assert not [raw for raw in RAW if raw in each], each
    assert rb"a\x1b[31m\x07 \u202e\x9b\xff.jsonl: " in printed[2]
    assert codes == [0, 0, 0, 0, 0, 4, 4, 2, 0, 0, 2]
    assert (here / name).read_bytes() == fixture("pi-anthropic.jsonl")


def test_a_hostile_name_in_json(here: Path) -> None:
    """JSON escapes control characters, and holds a name that is no UTF-8 with its bytes escaped."""
    try:
        put(here / os.fsdecode(HOSTILE))
    except OSError:
        pytest.skip("this file system does not take such a name")
    for command in (("compress", "--dry-run"), ("stats",)):
        said = run(*command, "--json", os.fsdecode(HOSTILE)).stdout
        assert all(line.isprintable() for line in said.split("\n"))
        assert json.loads(said)["files"][0]["path"] == "a\x1b[31m\x07 \u202e\x9b\\udcff.jsonl"


def test_hostile_keys_in_an_error(here: Path) -> None:
    """What was seen in a file is printed escaped."""
    (here / "x.jsonl").write_bytes(b'{"\\u001b[31m\\u202e":1}\n' * 9000)
    result = run("compress", "x.jsonl")
    assert r"has the keys \x1b[31m\u202e)" in result.stderr
