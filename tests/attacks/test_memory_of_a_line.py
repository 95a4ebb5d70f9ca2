"""The memory of a command is a small multiple of the longest line, whatever stands in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from sessioncompress.cli.main import main
from tests.faults.memory import memory_of
from tests.support.chats import ChatSession
from tests.support.claude import ClaudeSession
from tests.support.rollout import Rollout
from tests.support.session import PiSession

_MIB = 1 << 20
_COMPRESS = ("compress", "--force", "--keep-turns", "1")
_COPIED = 4.5
"""A line that is not parsed is held about three times: as it was read, decoded, and as what is written."""


def lists(size: int) -> bytes:
    return b"[" + b"[]," * (size // 3) + b"0]"


def objects(size: int) -> bytes:
    return b"[" + b",".join(b'{"k%x":%d}' % (each % 4096, each) for each in range(size // 15)) + b"]"


def lists_in_a_string(size: int) -> bytes:
    return json.dumps(f" [{'[],' * (size // 3)}0]").encode()


def one_text(size: int) -> bytes:
    return json.dumps("a, b[0], {c}\n" * (size // 14)).encode()


def one_text_with_an_emoji(size: int) -> bytes:
    return json.dumps("\N{GRINNING FACE}" + "a, b[0], {c}\n" * (size // 14), ensure_ascii=False).encode()


def many_texts(size: int) -> bytes:
    return json.dumps(["x" * 700] * (size // 704)).encode()


def with_value(path: Path, value: bytes) -> Path:
    """Write a session with old calls, of which one result's copy for the screen is this value."""
    session = ClaudeSession()
    session.user("go")
    session.step("Bash", {"command": "make"}, "line\n" * 10_000)
    session.step("Bash", {"command": "make"}, "done", {"value": "@"})
    data = session.turn(1).bytes()
    assert data.count(b'"value":"@"') == 1
    path.write_bytes(data.replace(b'"@"', value))
    return path


def factor(path: Path, *command: str) -> float:
    """Run a command on a session; return how many times its longest line it held."""
    longest = max(map(len, path.read_bytes().split(b"\n")))
    grown, code, said = memory_of(*command, path)
    assert code in (0, 4), said
    return grown * _MIB / longest


@pytest.mark.parametrize(
    ("value", "mib", "command"),
    [
        *((lists, 15, command) for command in (_COMPRESS, ("verify",), ("restore",), ("stats",))),
        (objects, 15, _COMPRESS),
        (many_texts, 24, _COMPRESS),
    ],
)
def test_a_line_of_many_values_is_copied(
    tmp_path: Path, value: Callable[[int], bytes], mib: int, command: tuple[str, ...]
) -> None:
    """Parsed, each of its values would take some eighty bytes."""
    path = with_value(tmp_path / "s.jsonl", value(mib * _MIB))
    line = max(path.read_bytes().split(b"\n"), key=len)
    assert factor(path, *command) < _COPIED
    assert line in path.read_bytes().split(b"\n")


def test_it_is_counted_and_the_rest_is_compressed(tmp_path: Path) -> None:
    """It is not understood, but it hangs where it hung: what came before it is old."""
    path = with_value(tmp_path / "s.jsonl", lists(_MIB))
    done = json.loads(CliRunner().invoke(main, [*_COMPRESS, "--json", str(path)]).stdout)["files"][0]
    assert (done["status"], done["linesNotUnderstood"], done["toolResultsCompressed"]) == ("compressed", 1, 1)


@pytest.mark.parametrize(("value", "mib", "most"), [(one_text, 40, 7), (one_text_with_an_emoji, 15, 13)])
def test_a_line_of_one_long_text_is_compressed(
    tmp_path: Path, value: Callable[[int], bytes], mib: int, most: float
) -> None:
    """However long it is: it is held a few times, at four bytes a character where one needs them."""
    path = with_value(tmp_path / "s.jsonl", value(mib * _MIB))
    assert factor(path, *_COMPRESS) < most
    assert path.stat().st_size < _MIB


def test_a_line_of_many_long_texts_is_compressed(tmp_path: Path) -> None:
    """Each has its records, and its place in the plan."""
    path = with_value(tmp_path / "s.jsonl", many_texts(15 * _MIB))
    assert factor(path, *_COMPRESS) < 24
    assert path.stat().st_size < 3 * _MIB


def test_values_in_a_string_count(tmp_path: Path) -> None:
    """The arguments of a function are a string that holds JSON."""
    rollout = Rollout().user("go")
    rollout.function("shell", "@", "x" * 30_000)
    path = tmp_path / "s.jsonl"
    data = rollout.user("and now?").end("Nothing.").bytes()
    path.write_bytes(data.replace(b'"arguments":"@"', b'"arguments":' + lists_in_a_string(15 * _MIB)))
    assert factor(path, *_COMPRESS) < _COPIED


def test_a_first_line_of_many_values(tmp_path: Path) -> None:
    """Whether a file is one document, its first line tells."""
    session = PiSession(header={"more": "@"}).opening()
    session.user("go")
    session.step("bash", {"command": "make"}, "line\n" * 10_000)
    path = tmp_path / "s.jsonl"
    path.write_bytes(session.bytes().replace(b'"@"', lists(15 * _MIB)))
    assert factor(path, *_COMPRESS) < _COPIED


def test_a_document_of_many_values_is_refused(tmp_path: Path) -> None:
    """It is held whole, so it must not be larger in memory than its agent's are."""
    path = tmp_path / "s.json"
    chat = ChatSession().message("user", "go").message("assistant", "So.", annotations="@")
    path.write_bytes(chat.document().replace(b'"@"', lists(15 * _MIB)))
    result = memory_of(*_COMPRESS, path)
    assert result[0] / 15 < _COPIED
    assert result[1] == 4
    assert "has over a million values" in result[2]
