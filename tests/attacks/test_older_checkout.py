"""The store is ignored by git, so a checkout of an older commit leaves the newest store beside an older session."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import texts
from tests.support.build import PiSession
from tests.support.runs import HOMES, invoke, split, turn

MARKER = b"[[sessioncompress: "


@pytest.fixture(autouse=True)
def _no_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)


def git(folder: Path, *arguments: str) -> None:
    """Run git as a user without any configuration."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    empty = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(
        ["git", *who, *arguments], cwd=folder, env={**os.environ, **empty}, check=True, stdout=subprocess.DEVNULL
    )


def part(number: int, made: PiSession) -> None:
    """Add what one commit brings: results and thinking that go, and two short turns."""
    made.user(f"Go {number}.")
    for step in range(3):
        output = texts.log_lines(random.Random(f"{number}/{step}"), 120)
        made.step("bash", {"command": f"make {step}"}, output, thinking="Hm. " * 200)
        made.step("bash", {"command": "true"}, "", thinking="So. " * 300)
    turn(made, 2)


def checked_out(folder: Path, preset: str = "low-cost") -> tuple[Path, bytes]:
    """Commit a session twice, each time rewritten, and check the first commit out; return it and its original."""
    made, path = PiSession(), folder / "session.jsonl"
    git(folder, "init", "-q")
    for number in range(2):
        before = made.count if number else 0
        part(number, made)
        if number == 0:
            first = made.bytes()
        with path.open("ab") as file:
            file.write(b"".join(made.lines()[before:]))
        done = invoke("compress", "--force", "--keep-turns", 1, "--protect-tokens", 0, "--preset", preset, path)
        assert " smaller; " in done.stdout, done.stderr
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", str(number))
    git(folder, "checkout", "-q", "HEAD~1")
    assert MARKER in path.read_bytes()
    return path, first


def test_it_is_sound_and_comes_back_exactly(tmp_path: Path) -> None:
    """Every line that is there is known; how many more the store knows is said."""
    path, original = checked_out(tmp_path)
    older = path.read_bytes()
    for number, command in enumerate((("verify",), ("restore",), ("restore",), ("restore", "--from-markers"))):
        done = invoke(*command, path)
        assert done.exit_code == 0, done.stderr
        # Once it is restored nothing is missing: the runs were taken back.
        assert ("an older state of the session: " in done.stdout) == (number < 2)
        assert ("lines that its store knows are missing" in done.stdout) == (number < 2)
        assert "not exact" not in done.stdout
        assert path.read_bytes() == (older if command == ("verify",) else original)
    git(tmp_path, "checkout", "-q", "-f", "-")
    assert invoke("verify", path).exit_code == 0
    assert "older" not in invoke("restore", path).stdout


def test_a_tool_that_printed_a_marker_changes_nothing(tmp_path: Path) -> None:
    """A text that quotes is content, in a line that no journal knows."""
    path, original = checked_out(tmp_path)
    quoting = PiSession(seed="quoting")
    quoting.user("What does the session hold?")
    quoting.step("bash", {"command": "cat session.jsonl"}, path.read_text())
    shown = next(line for line in path.read_text().splitlines() if MARKER.decode() in line and "toolResult" in line)
    quoting.step("bash", {"command": "jq ."}, json.loads(shown)["message"]["content"][0]["text"])
    with path.open("ab") as file:
        file.write(b"".join(quoting.lines()[1:]))
    assert invoke("restore", path).exit_code == 0
    assert path.read_bytes() == original + b"".join(quoting.lines()[1:])


def edited(line: bytes) -> bytes:
    return line.replace(b'"timestamp"', b'"timestamp" ', 1)


def reserialised(line: bytes) -> bytes:
    """Return a rewritten line as an agent writes it that has a version of its own."""
    return json.dumps({**json.loads(line), "version": 9}).encode() + b"\n"


def torn(line: bytes) -> bytes:
    return line[: len(line) // 2] + b"\n"


@pytest.mark.parametrize("marked", [True, False], ids=["a marker in it", "its thinking gone"])
@pytest.mark.parametrize("damage", [edited, reserialised, torn])
def test_a_rewritten_line_that_was_changed_is_told_still(
    tmp_path: Path, damage: Callable[[bytes], bytes], marked: bool
) -> None:
    """It stays as it is, whether or not a marker of ours shows it, and the others come back."""
    path, original = checked_out(tmp_path)
    lines, then = split(path.read_bytes()), split(original)
    line = next(now for now, was in zip(lines, then, strict=True) if now != was and (MARKER in now) == marked)
    path.write_bytes(b"".join(damage(each) if each == line else each for each in lines))
    expected = b"".join(damage(now) if now == line else was for now, was in zip(lines, then, strict=True))
    verified, restored = invoke("verify", path), invoke("restore", path)
    assert (verified.exit_code, restored.exit_code) == (0, 5)
    for done in (verified, restored):
        assert f"the rewritten line {lines.index(line) + 1} was changed since by another program" in done.stdout
    assert path.read_bytes() == expected
    assert invoke("restore", path).exit_code == 5


def test_an_older_state_that_ends_in_half_a_line_is_told(tmp_path: Path) -> None:
    """What was cut off may be a rewritten line."""
    path, _ = checked_out(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    assert (invoke("verify", path).exit_code, invoke("restore", path).exit_code) == (0, 5)


def test_an_emptied_file_is_no_older_state(tmp_path: Path) -> None:
    path, _ = checked_out(tmp_path)
    path.write_bytes(b"")
    assert (invoke("verify", path).exit_code, invoke("restore", path).exit_code) == (4, 4)
