"""Files that are refused by name: what each is, what to do, and that nothing about it changes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import NotASession, Refused
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.store.originals import zstd
from tests.support.runs import EAGER, fixture, snapshot

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
