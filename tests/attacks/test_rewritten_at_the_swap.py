"""An agent rewrites its session in the instant between our last look at it and our swap: its text stays."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import InUse, Refused
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.policy.model import PRESETS
from sessioncompress.store import disk as real_disk
from tests.support.runs import fixture
from tests.unit.store.tools import disk, in_a_child, left_over

SESSIONS = ("gencode.json", "gemini.json", "opencode.json", "claude-code.jsonl", "pi-anthropic.jsonl")
SWAPS = ("exchange", "replace")
NEW = b"NEW-MESSAGE"
POLICY = PRESETS["low-cost"]


def longer(content: bytes) -> bytes:
    return _with_a_message(content, 3000)


def shorter(content: bytes) -> bytes:
    return _with_a_message(content, 1, keep=3)


def as_long(content: bytes) -> bytes:
    new = _with_a_message(content, 1, keep=3)
    return new + b" " * (len(content) - len(new) - 1) + b"\n"


def _with_a_message(content: bytes, size: int, keep: int = 1 << 30) -> bytes:
    said = NEW.decode() + "y" * size
    if not content.lstrip().startswith(b"{\n") and b"\n{" in content:
        return b"".join(content.splitlines(keepends=True)[:keep]) + b'{"type":"custom","note":"%s"}\n' % said.encode()
    document = json.loads(content)
    messages = document["messages"]
    messages[:] = [*messages[:keep], {**messages[0], "note": said}]
    return json.dumps(document, indent=2).encode()


def renamed(path: Path, new: bytes) -> None:
    """Save as agents do that write a new file and rename it."""
    (path.parent / "new").write_bytes(new)
    (path.parent / "new").replace(path)


def truncated(path: Path, new: bytes) -> None:
    """Save as agents do that open their file anew."""
    path.write_bytes(new)


def at_the_swap(save: Callable[[], object], call: str = "exchange") -> Callable[[int, str, tuple[Any, ...]], None]:
    """Make a disk that lets an agent save just before a session is replaced."""
    left = [save]

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        del number, arguments
        if name == (call if hasattr(real_disk.System, call) else "replace") and left:
            left.pop()()

    return before


def checked(path: Path, original: bytes, wanted: bytes) -> None:
    """The agent's text is the session, and the next run works on it as on any other."""
    assert path.read_bytes() == wanted
    compress_session(path, POLICY, force=True)
    assert left_over(path.parent) == []
    assert NEW in path.read_bytes()
    assert wanted != original


CASES = [
    (name, save, text)
    for name, save, text in product(SESSIONS, (renamed, truncated), (longer, shorter, as_long))
    # A file of lines that only grew was appended to.
    if not name.endswith(".jsonl") or (save, text) != (truncated, longer)
]


@pytest.mark.parametrize(("name", "save", "text"), CASES)
def test_what_the_agent_saved_stays(
    tmp_path: Path, name: str, save: Callable[[Path, bytes], None], text: Callable[[bytes], bytes]
) -> None:
    """By a rename or in place, longer, shorter or as long: the run ends as in use, and the session is the agent's."""
    path = tmp_path / name
    path.write_bytes(original := fixture(name))
    new = text(original)
    with disk(at_the_swap(lambda: save(path, new))), pytest.raises(InUse, match="another program has"):
        compress_session(path, POLICY, force=True)
    checked(path, original, new)


@pytest.mark.parametrize("call", ["write", "link", "exchange"])
@pytest.mark.parametrize("name", [name for name in SESSIONS if name.endswith(".json")])
def test_a_document_that_grew_is_not_appended_to(tmp_path: Path, name: str, call: str) -> None:
    """Nobody adds lines to a document: whatever came behind it is the agent's, and no part of ours."""
    path = tmp_path / name
    path.write_bytes(original := fixture(name))

    def append() -> None:
        with path.open("ab") as file:
            file.write(b" \n")

    with disk(at_the_swap(append, call)), pytest.raises(InUse):
        compress_session(path, POLICY, force=True)
    assert path.read_bytes() == original + b" \n"
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, save, text in CASES if name in SESSIONS[::4] and save is truncated]
)
def test_a_text_saved_in_place_where_files_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: Callable[[bytes], bytes]
) -> None:
    """The replaced file is looked at after the swap there too, and put back."""

    def unknown(one: Path, other: Path) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(real_disk.System, "exchange", staticmethod(unknown), raising=False)
    path = tmp_path / name
    path.write_bytes(original := fixture(name))
    new = text(original)
    with disk(at_the_swap(lambda: truncated(path, new), "replace")), pytest.raises(InUse):
        compress_session(path, POLICY, force=True)
    checked(path, original, new)


@pytest.mark.parametrize("name", ["gencode.json", "pi-anthropic.jsonl"])
def test_an_agent_that_saves_again_and_again(tmp_path: Path, name: str) -> None:
    """Also while its text is being put back: the newest stays."""
    path = tmp_path / name
    path.write_bytes(original := fixture(name))
    texts = [longer(original) + b"\n" * number for number in range(4)]
    left = list(texts)

    def before(number: int, call: str, arguments: tuple[Any, ...]) -> None:
        if call in SWAPS and left:
            renamed(path, left.pop(0))

    with disk(before), pytest.raises(InUse):
        compress_session(path, POLICY, force=True)
    assert path.read_bytes() == texts[-1]


@pytest.mark.parametrize("name", ["gencode.json", "pi-anthropic.jsonl"])
def test_a_kill_right_after_it(tmp_path: Path, name: str) -> None:
    """Where the run that would have put it back is killed, the agent's text lies there, and every command says so."""
    path = tmp_path / name
    path.write_bytes(original := fixture(name))
    new = longer(original)
    swapped: list[str] = []

    def before(number: int, call: str, arguments: tuple[Any, ...]) -> None:
        if swapped:
            os.kill(os.getpid(), signal.SIGKILL)
        if call in SWAPS:
            swapped.append(call)
            renamed(path, new)

    def work() -> None:
        with disk(before):
            compress_session(path, POLICY, force=True)

    assert in_a_child(work) == signal.SIGKILL
    for command in (partial(compress_session, force=True), restore_session):
        with pytest.raises(Refused, match="another program put this file in the session's place") as caught:
            command(path, POLICY)
    assert caught.value.where is not None
    assert Path(caught.value.where).read_bytes() == new
    Path(caught.value.where).replace(path)
    checked(path, original, new)
