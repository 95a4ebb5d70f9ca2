"""What a walk over a folder finds: lines by their name, documents by how they begin, nothing else."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import NotASession, Refused
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, discover, handed
from sessioncompress.store.originals import zstd
from tests.cli.conftest import here
from tests.support.commands import run
from tests.support.runs import EAGER, fixture, snapshot, split

__all__ = ["here"]


def names(folder: Path) -> list[str]:
    return [str(each.path.relative_to(folder)) for each in discover([folder])]


def test_what_cannot_be_opened_is_no_session(tmp_path: Path) -> None:
    """Links, pipes and folders of such a name, and a file that is gone: no error, and nothing waits."""
    (tmp_path / "real.txt").write_bytes(fixture("gemini.json"))
    (tmp_path / "link.json").symlink_to("real.txt")
    (tmp_path / "gone.json").symlink_to("nothing")
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    assert names(tmp_path) == []


def test_a_read_that_fails_is_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_bytes(fixture("gemini.json"))
    closed: list[int] = []
    close = os.close

    def failing(fd: int, size: int) -> bytes:
        raise OSError(5, "Input/output error")

    def noting(fd: int) -> None:
        closed.append(fd)
        close(fd)

    monkeypatch.setattr(os, "read", failing)
    monkeypatch.setattr(os, "close", noting)
    assert names(tmp_path) == []
    assert len(closed) >= 1


@pytest.mark.parametrize("store", ["storage", "."])
def test_where_opencode_kept_its_sessions(here: Path, store: str) -> None:
    """Who names that folder learns how to get them out; in a folder above it, it is passed by."""
    folder = here / "opencode"
    folder.mkdir()
    for name in ("session", "message", "part"):
        (folder / store / name).mkdir(parents=True)
        (folder / store / name / "x.json").write_bytes(b'{"id": "ses_1"}')
    result = run("compress", folder)
    assert result.exit_code == 4
    assert result.stderr.startswith(f"refused: {folder}: OpenCode keeps its sessions here")
    assert "'opencode export SESSION > FILE'" in result.stderr
    assert run("compress", here).exit_code == 0


# What a program hands over


HANDED: tuple[tuple[str, bytes, bool], ...] = (
    ("notes.txt", b"", False),
    ("a.jsonl.zst", b"", False),
    ("package.json", b'{"name": "x"}', False),
    ("missing.json", b"", False),
    (".sessioncompress/a.jsonl", b"{}\n", False),
    ("folder/.sessioncompress/a.refs.jsonl", b"{}\n", False),
    ("backup/a.refs.jsonl", b"{}\n", False),
    ("a.refs.jsonl", b"{}\n", True),
    ("a.jsonl", b"{}\n", True),
    ("document.json", b'{"sessionId": "x", "projectHash": "y", "messages": []}', True),
)
"""Files, and whether they may be sessions; beside the journal in `backup` lie its originals."""


@pytest.mark.parametrize(("name", "data", "may_be"), HANDED, ids=[name for name, _, _ in HANDED])
def test_what_is_handed_over_is_judged_as_if_met_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, may_be: bool
) -> None:
    """By names and first bytes; ours are none, and none is named."""
    monkeypatch.chdir(tmp_path)
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if name != "missing.json":
        path.write_bytes(data)
    Path("backup").mkdir(exist_ok=True)
    Path("backup/a.jsonl.zst").touch()
    assert list(handed([path])) == ([Found(path, named=False)] if may_be else [])


GLOBS: list[tuple[Globs, str, bool]] = [
    (EVERYTHING, "a/b.jsonl", True),
    (Globs(("*.jsonl",)), "a/b.jsonl", True),
    (Globs(("*.jsonl",)), "a/b.json", False),
    (Globs(("b*",)), "a/b.jsonl", True),
    (Globs(("a",)), "a/b.jsonl", True),
    (Globs(("a",)), "x/a/b.jsonl", True),
    (Globs(("a",)), "ab/b.jsonl", False),
    (Globs(("x/*",)), "x/a/b.jsonl", True),
    (Globs(("x/*",)), "y/x/b.jsonl", False),
    (Globs(("A",)), "a/b.jsonl", False),
    (Globs(("x", "a")), "a/b.jsonl", True),
    (Globs((), ("a",)), "a/b.jsonl", False),
    (Globs((), ("*.jsonl",)), "a/b.jsonl", False),
    (Globs((), ("x",)), "a/b.jsonl", True),
    (Globs(("*.jsonl",), ("agent-*",)), "a/agent-1.jsonl", False),
    (Globs(("*.jsonl",), ("agent-*",)), "a/1.jsonl", True),
]


@pytest.mark.parametrize(("globs", "path", "taken"), GLOBS)
def test_what_is_taken(globs: Globs, path: str, taken: bool) -> None:
    """By the whole path or by a name in it; what is excluded is not included again."""
    assert globs.takes(path) is taken


def test_what_is_excluded_is_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of many files costs nothing then."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.jsonl").write_bytes(b"{}\n")
    scanned: set[str] = set()
    scan = os.scandir

    def noting(path: str) -> Any:
        scanned.add(str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", noting)
    assert list(discover([tmp_path], Globs((), ("old",)))) == []
    assert scanned == {str(tmp_path)}


# What is refused

PROMPT = {"sessionId": "x", "messageId": 0, "timestamp": "2026", "type": "user", "message": "hello"}
CONTENT = {"role": "user", "parts": [{"text": "hello"}]}


def document(value: Any, indent: int | None = 2) -> bytes:
    return json.dumps(value, indent=indent).encode()


UNKNOWN: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "it is empty"),
    ("text", b"hello\nworld\n", "no JSON object in its first lines"),
    ("lines of JSON", b'{"a": 1}\n{"b": 2}\n', "its first object has the keys a"),
    ("a document", document({"name": "x", "version": 1}), "one JSON document with the keys name, version"),
    ("a document of one line", document({"name": "x"}, None), "one JSON document with the keys name"),
    ("an empty object", b"{}", "one JSON document with the keys (none)"),
    ("a list", document(["x"]), "one JSON list"),
    ("an empty list", b"[]", "one JSON list"),
    ("a document that is cut off", document({"name": "x"})[:-2], "starts like one JSON document, but is not JSON"),
    ("many keys", document({f"key{number}": 1 for number in range(99)}), "key6, key7)"),
    ("many keys in a line", document({f"key{number}": 1 for number in range(99)}, None) + b"\n{}\n", "key6, key7)"),
    (
        "a chat behind a header",
        b'{"working_dir": "/"}\n' + fixture("chat.jsonl"),
        "first object has the keys working_dir",
    ),
    ("another harness", fixture("look-alike-deepseek.jsonl"), "its first object has the keys type"),
    ("prompts that Gemini CLI logs", document([PROMPT, PROMPT]), "one JSON list"),
    ("a chat saved by Gemini CLI", document({"history": [CONTENT]}), "the keys history"),
    ("training data", b'{"messages": [{"role": "user", "content": "x"}]}\n' * 2, "the keys messages"),
    ("a name of a magic behind the start", b" SQLite format 3\0", "no JSON object in its first lines"),
]
KNOWN: list[tuple[str, bytes, str, str]] = [
    ("SQLite", b"SQLite format 3\0" + bytes(100), "an SQLite database", "'opencode export SESSION > FILE'"),
    ("zstd", zstd.compress(b"x"), "packed with zstd", "'zstd -d FILE'"),
    ("gzip", gzip.compress(b"x"), "packed with gzip", "'gunzip FILE'"),
]


def refused(folder: Path, raw: bytes) -> NotASession:
    """Return the error of a run over a file of these bytes; it and its folder stay as they are."""
    path = folder / "session.jsonl"
    path.write_bytes(raw)
    before = snapshot(path)
    with pytest.raises(NotASession) as error:
        compress_session(path, EAGER)
    with pytest.raises(NotASession):
        verify_session(path)
    assert snapshot(path) == before
    assert str(error.value).startswith(f"{path}: ")
    assert "The file was not changed." in str(error.value)
    return error.value


@pytest.mark.parametrize("other", [b'{"a":1}\n', b'\xef\xbb\xbf{"b":2}\n'])
def test_the_one_line_that_is_not_the_agents_is_named(tmp_path: Path, other: bytes) -> None:
    """Of few lines, one says too much. Lines that are no objects count, too."""
    lines = split(fixture("gemini.jsonl"))[:8]
    error = refused(tmp_path, b"".join([b"torn {\n", *lines[:3], other, *lines[3:]]))
    assert "without line 5 this would be a session of gemini. " in str(error)
    assert "--format gemini" in str(error)


@pytest.mark.parametrize(("raw", "said"), [case[1:] for case in UNKNOWN], ids=[case[0] for case in UNKNOWN])
def test_what_nobody_knows(tmp_path: Path, raw: bytes, said: str) -> None:
    """What was seen is said, and taken for nothing else."""
    error = refused(tmp_path, raw)
    assert error.what.startswith("this is not a session of any agent we know (")
    assert said in error.what


@pytest.mark.parametrize(("raw", "said", "remedy"), [case[1:] for case in KNOWN], ids=[case[0] for case in KNOWN])
def test_what_is_known(tmp_path: Path, raw: bytes, said: str, remedy: str) -> None:
    error = refused(tmp_path, raw)
    assert error.what.startswith("this is ")
    assert said in error.what
    assert remedy in error.remedy


def test_what_two_formats_recognize_is_refused(tmp_path: Path) -> None:
    """With the names of both; whoever knows it says which."""
    path = tmp_path / "session.json"
    gemini = {"sessionId": "x", "projectHash": "y", "startTime": "2026"}
    path.write_bytes(document({**gemini, "info": {"id": "x", "projectID": "y", "directory": "/tmp"}, "messages": []}))
    with pytest.raises(Refused) as error:
        compress_session(path, EAGER)
    assert "it could be a session of gemini and of opencode" in str(error.value)
    assert "--format NAME" in str(error.value)
    assert compress_session(path, EAGER, form="gemini").format == "gemini"
