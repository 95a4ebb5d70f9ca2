"""Nothing that comes from outside reaches a terminal raw: names of files, of folders, of tools, and what was typed.

tests/cli/test_errors.py has one such name in processes of their own; here are all kinds, in every command and every error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sessioncompress.cli.main import main
from sessioncompress.store.layout import store_in
from tests.faults.forging import reference
from tests.faults.scenes import SIZES, built
from tests.support.runs import turn, write
from tests.support.session import PiSession

KINDS = {
    "a line break": b"a\nrefused: passwd: b",
    "a carriage return": b"long name\rb",
    "a colour": b"\x1b[31mred",
    "a title": b"\x1b]0;owned\x07",
    "a link": b"\x1b]8;;http:evil\x1b\\text\x1b]8;;\x1b\\",
    "the clipboard": b"\x1b]52;c;cm0gLXJm\x07",
    "a C1 sequence": "\x9b31m\x9d0;x\x9c".encode(),
    "backspaces": b"good\b\b\b\bevil",
    "DEL and others": b"\x7f\x01\x0b\x0c\x0e",
    "right to left": "\u202egpj.\u2066x\u2069\u200f".encode(),
    "line separators": "\u2028a\u2029b\u0085c".encode(),
    "what cannot be seen": "\u200b\u2060\ufeff\U000e0041\u00ad".encode(),
    "no UTF-8": b"\xff\xfe\xc3(",
    "a surrogate": b"\xed\xa0\xbd",
}
EAGERLY = ("compress", "--force", "--keep-turns", "1")
every_kind = pytest.mark.parametrize("raw", KINDS.values(), ids=KINDS)


def run(*arguments: str | Path) -> Result:
    """Run a command; all that it prints is printable, line by line, and no line is from outside."""
    done = CliRunner().invoke(main, [str(each) for each in arguments], input="n\n")
    assert isinstance(done.exception, SystemExit | None), done.exception
    for line in done.output.split("\n"):
        assert line.replace("\t", " ").isprintable(), (arguments, line)
        assert not line.startswith("refused: passwd"), (arguments, line)
    return done


def commands(path: Path, ref: str) -> Iterator[tuple[str | Path, ...]]:
    """Yield every command on a path, in both kinds of output; some ask, none fails because of the path."""
    for options in ((), ("--json",)):
        yield *EAGERLY, "--dry-run", *options, path
        yield *EAGERLY, *options, path
        yield "stats", *options, path
        yield "verify", *options, path
    yield "show", ref, path
    yield "forget", path
    yield "restore", "--from-markers", path
    yield "restore", path
    yield "forget", "--yes", path


@pytest.fixture
def name(raw: bytes, tmp_path: Path) -> str:
    """Return a name of a kind, where the file system takes it."""
    name = os.fsdecode(raw)
    try:
        (tmp_path / name).touch()
        (tmp_path / name).unlink()
    except OSError as error:
        pytest.skip(f"this file system does not take such a name: {error.strerror}")
    return name


@every_kind
def test_names_of_files_and_folders(tmp_path: Path, name: str) -> None:
    """Of a session, its folder, a backup folder and a policy file: named, walked, and in the errors of each."""
    folder = tmp_path / name
    folder.mkdir()
    path = write(folder, built(SIZES[0], 1), f"{name}.jsonl")
    for command in commands(path, "0123456789ab"):
        done = run(*command)
        assert done.exit_code == (2 if command[0] == "show" else 0), (command, done.output)
        if "--json" in command:
            json.loads(done.stdout)
    for command in commands(folder, "0123456789ab"):
        run(*command)
    run(*EAGERLY, "--backup-dir", tmp_path / f"b{name}", path)
    run("verify", "--backup-dir", tmp_path / f"b{name}", folder)
    run("verify", "--backup-dir", path, path)
    assert path.read_bytes() != built(SIZES[0], 1).bytes()


@every_kind
def test_names_in_errors(tmp_path: Path, name: str) -> None:
    """What is missing, linked, damaged, no session, no policy: each is told without its name's power."""
    path = write(tmp_path, built(SIZES[0], 1), f"{name}.jsonl")
    config = tmp_path / f"{name}.json"
    (tmp_path / f"l{name}.jsonl").symlink_to(path)
    (tmp_path / f"n{name}.jsonl").write_bytes(b'{"k":1}\n' * 9)
    run(*EAGERLY, path)
    journal = store_in(path).journal
    journal.write_bytes(b"{}\n" + journal.read_bytes())
    for wrong in (path, *(tmp_path / f"{letter}{name}.jsonl" for letter in "lnm")):
        for command in commands(wrong, "0123456789ab"):
            done = run(*command)
            assert done.exit_code or command[0] in ("stats", "forget", "restore"), (command, done.output)
    for text in ("{", '{"session": 7}', json.dumps({"session": {"x\x1b[2J\u202e\n": 1}})):
        config.write_text(text)
        assert run("stats", "--config", config, path).exit_code


@every_kind
def test_what_was_typed(tmp_path: Path, raw: bytes) -> None:
    """Commands, options and values that do not exist are named in errors."""
    typed = os.fsdecode(raw)
    path = write(tmp_path, built(SIZES[0], 1))
    for arguments in (
        (typed,),
        ("stats", f"--{typed}", path),
        ("stats", "--preset", typed, path),
        ("stats", "--config", typed, path),
        ("compress", "--keep-turns", typed, path),
        ("compress", f"--json={typed}", path),
        ("show", typed, path),
        ("show", "0123456789ab", path, typed),
        ("show", "0123456789ab", path, "--lines", typed),
        ("restore", "--from-markers", "--originals", typed, path),
        ("verify", "--backup-dir", typed, path, typed),
    ):
        assert run(*arguments).exit_code == 2 or arguments[0] == "restore", arguments


@pytest.mark.parametrize("raw", [raw for raw in KINDS.values() if raw.decode(errors="replace").encode() == raw])
def test_names_inside_a_session(tmp_path: Path, raw: bytes) -> None:
    """Tools, keys and paths, in statistics, warnings, and where a reference names several originals."""
    text = raw.decode()
    made = PiSession()
    made.user(text)
    for number in range(3):
        made.step(f"{text}{number % 2}", {"path": text, text: "much\n" * 900}, f"{number} {text}\n" * 900)
    path = write(tmp_path, turn(made, 2))
    run("stats", path)
    run("stats", "--json", path)
    run(*EAGERLY, path)
    for command in commands(path, reference(path)):
        if command[0] != "show":
            run(*command)
