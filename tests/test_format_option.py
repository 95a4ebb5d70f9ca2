"""`--format`: a file is taken for what the user says it is; what is not understood as such stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessioncompress.audit import verify_session
from sessioncompress.compress import compress_session
from sessioncompress.errors import UsageError
from sessioncompress.formats import NAMES
from sessioncompress.inspect import inspect_session
from sessioncompress.marker import PREFIX_BYTES
from sessioncompress.restore import restore_session
from sessioncompress.stats import Status
from tests.runs import EAGER, GREEDY, fixture, snapshot
from tests.session import PiSession
from tests.test_cli import here, run

__all__ = ["here"]

FILES = (
    "claude-code.jsonl",
    "codex.jsonl",
    "gemini.json",
    "hostile.jsonl",
    "look-alike-deepseek.jsonl",
    "omp.jsonl",
    "openclaw.jsonl",
    "opencode.json",
    "pi-v1.jsonl",
)
NOT_UNDERSTOOD = [
    ("nothing", b""),
    ("text", b"hello\nworld\n"),
    ("numbers", b"1\n[2]\nnull\n"),
    ("a database", b"SQLite format 3\0" + bytes(300)),
    ("a document", b'{\n  "name": "x"\n}\n'),
    ("a list", b'[{"a": 1}, {"b": [2]}]'),
]


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
    """Nor does anything come to lie beside it."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(raw)
    before = snapshot(path)
    assert compress_session(path, EAGER, form=form).status is Status.UNCHANGED
    assert inspect_session(path, EAGER, form=form).shares == ()
    assert verify_session(path, EAGER, form=form).lines_rewritten == 0
    assert restore_session(path, EAGER, form=form).status is Status.UNCHANGED
    assert snapshot(path) == before


def test_a_name_that_is_none_is_an_error_of_the_caller(tmp_path: Path) -> None:
    """With the names that there are."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(PiSession().opening().bytes())
    with pytest.raises(UsageError, match="'nobody' is no format") as error:
        compress_session(path, EAGER, form="nobody")
    assert all(name in str(error.value) for name in NAMES)


@pytest.mark.parametrize("command", ["compress", "restore", "stats", "verify"])
def test_a_name_that_is_none_is_exit_code_2(here: Path, command: str) -> None:
    """Before anything is looked at."""
    (here / "session.jsonl").write_bytes(fixture("pi-v1.jsonl"))
    result = run(command, "session.jsonl", "--format", "nobody")
    assert result.exit_code == 2
    assert f"'nobody' is none of {', '.join(NAMES)}. Nothing was done." in result.stderr


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
