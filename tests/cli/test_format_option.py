"""`--format`: a file is taken for what the user says it is; what is not understood as such stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.errors import NotASession, UsageError
from sessioncompress.formats.table import NAMES
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.sessions import inspect_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import Status
from tests.support.commands import run
from tests.support.runs import EAGER, GREEDY, fixture, snapshot
from tests.support.session import PiSession

FILES = ("claude-code.jsonl", "codex.jsonl", "gemini.json", "hostile.jsonl", "look-alike-deepseek.jsonl")
NO_OBJECTS = [
    ("nothing", b"", "it is empty"),
    ("text", b"hello\nworld\n", "no JSON object"),
    ("numbers", b"1\n[2]\nnull\n", "no JSON object"),
    ("a database", b"SQLite format 3\0" + bytes(300), "an SQLite database"),
    ("a document", b'{\n  "name": "x"\n}\n', "one JSON document with the keys name"),
    ("a document that is cut off", b'{\n  "name": "x"\n', "starts like one JSON document, but is not JSON"),
]
NOT_UNDERSTOOD = [("objects", b'{"a": 1}\n{"b": [2]}\n'), ("a list", b'[{"a": 1}, {"b": [2]}]')]


@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize("name", FILES)
def test_whatever_it_is_taken_for_it_comes_back(tmp_path: Path, name: str, form: str) -> None:
    """All formats, over sessions of all of them: no error, nothing grows, and every byte is restored."""
    path = tmp_path / name
    path.write_bytes(fixture(name))
    stats = compress_session(path, GREEDY, form=form)
    assert stats.format == form
    if stats.status is not Status.COMPRESSED:
        assert [each.name for each in tmp_path.iterdir()] == [name]
        return
    assert stats.compressed_size < stats.original_size
    assert verify_session(path, GREEDY, form=form).format == form
    assert inspect_session(path, GREEDY, form=form).format == form
    restore_session(path, GREEDY)
    assert path.read_bytes() == fixture(name)


@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize("raw", [case[1] for case in NOT_UNDERSTOOD], ids=[case[0] for case in NOT_UNDERSTOOD])
def test_where_nothing_is_understood_nothing_changes(tmp_path: Path, raw: bytes, form: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(raw)
    before = snapshot(path)
    done = compress_session(path, EAGER, form=form)
    assert done.status is Status.UNCHANGED
    assert done.reason.startswith(f"it does not look like a session of the format {form}; ")
    assert inspect_session(path, EAGER, form=form).shares == ()
    assert verify_session(path, EAGER, form=form).lines_rewritten == 0
    assert restore_session(path, EAGER, form=form).status is Status.UNCHANGED
    assert snapshot(path) == before


@pytest.mark.parametrize(("raw", "said"), [case[1:] for case in NO_OBJECTS], ids=[case[0] for case in NO_OBJECTS])
def test_what_holds_no_json_object_is_refused_all_the_same(tmp_path: Path, raw: bytes, said: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(raw)
    before = snapshot(path)
    for command in (compress_session, inspect_session, verify_session, restore_session):
        with pytest.raises(NotASession, match=said):
            command(path, EAGER, form="pi")
    assert snapshot(path) == before


def test_a_name_that_is_none_is_an_error_of_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(PiSession().opening().bytes())
    with pytest.raises(UsageError, match="'nobody' is not one of") as error:
        compress_session(path, EAGER, form="nobody")
    assert all(name in str(error.value) for name in NAMES)


@pytest.mark.parametrize("command", ["compress", "restore", "stats", "verify"])
def test_a_name_that_is_none_is_exit_code_2(here: Path, command: str) -> None:
    (here / "session.jsonl").write_bytes(fixture("pi-v1.jsonl"))
    result = run(command, "session.jsonl", "--format", "nobody")
    assert result.exit_code == 2
    assert f"'nobody' is not one of {', '.join(NAMES)}. Nothing was done." in result.stderr


def test_a_session_whose_header_is_gone(here: Path) -> None:
    """Nothing tells whose it is but the user; every command that has to know takes it from there."""
    path = here / "session.jsonl"
    raw = fixture("pi-anthropic.jsonl").partition(b"\n")[2]
    path.write_bytes(raw)
    assert run("compress", path).exit_code == 4
    assert run("compress", path, "--format", "pi").exit_code == 0
    assert PREFIX_BYTES in path.read_bytes()
    for command in ("stats", "verify"):
        assert run(command, path).exit_code == 4
        assert run(command, path, "--format", "pi").exit_code == 0
    assert run("restore", "--from-markers", path).exit_code == 4
    assert run("restore", "--from-markers", path, "--format", "pi").exit_code == 0
    assert path.read_bytes() == raw


def test_an_exact_restore_needs_no_format(here: Path) -> None:
    """The journal knows the lines, whatever is in them."""
    path = here / "session.jsonl"
    raw = fixture("pi-anthropic.jsonl").partition(b"\n")[2]
    path.write_bytes(raw)
    run("compress", path, "--format", "pi")
    assert run("restore", path).exit_code == 0
    assert path.read_bytes() == raw
