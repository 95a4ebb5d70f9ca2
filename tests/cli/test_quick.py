"""Where nothing is due the answer is that of the command line, word for word; everything else is left to it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.__main__ import nothing_due
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import BALANCED
from sessioncompress.store.layout import store_in
from tests.support.build import PiSession
from tests.support.runs import MTIME, run, write
from tests.support.sessions import large


def _small(folder: Path) -> list[str]:
    write(folder, PiSession().bytes())
    return ["session.jsonl"]


def _done(folder: Path) -> list[str]:
    path = large(folder)
    run("compress", path)
    return ["session.jsonl"]


def _both(folder: Path) -> list[str]:
    write(folder, PiSession().bytes(), "small.jsonl")
    return [*_done(folder), "./small.jsonl", "small.jsonl"]


def _near(make: Callable[[Path], list[str]], text: str) -> Callable[[Path], list[str]]:
    """Put a policy file of that text beside what is made."""

    def made(folder: Path) -> list[str]:
        names = make(folder)
        (folder / "compression.json").write_text(text)
        return names

    return made


def _beside(make: Callable[[Path], list[str]], ending: str) -> Callable[[Path], list[str]]:
    """Put a file of that ending into our folder beside what is made, as a dead run leaves one."""

    def made(folder: Path) -> list[str]:
        names = make(folder)
        (folder / ".sessioncompress").mkdir(exist_ok=True)
        (folder / ".sessioncompress" / f"{names[0]}{ending}").touch()
        return names

    return made


def _due(folder: Path) -> list[str]:
    large(folder)
    return ["session.jsonl"]


def _not_idle(folder: Path) -> list[str]:
    large(folder)
    (folder / "compression.json").write_text(json.dumps({"session": {"idleSeconds": 10**9}}))
    os.utime(folder / "session.jsonl", (0, os.stat(folder).st_mtime + 10**6))
    return ["session.jsonl"]


def _oddly_named(folder: Path) -> list[str]:
    write(folder, PiSession().bytes(), "a\x1b[31mb.jsonl")
    return ["a\x1b[31mb.jsonl"]


def _grown_little(folder: Path) -> list[str]:
    names = _done(folder)
    with (folder / names[0]).open("ab") as file:
        file.write(b"\n")
    return names


def _touched(folder: Path) -> list[str]:
    names = _done(folder)
    os.utime(folder / names[0], ns=(MTIME + 1, MTIME + 1))
    return names


ANSWERED: dict[str, Callable[[Path], list[str]]] = {
    "small": _small,
    "as left": _done,
    "grown little": _grown_little,
    "with another time": _touched,
    "both, one of them twice": _both,
    "under a policy's threshold": _near(_due, '{"session": {"sizeThresholdKB": 10000}}'),
    "switched off": _near(_due, '{"session": {"enabled": false}}'),
    "not idle yet": _not_idle,
    "another tool's file of that name": _near(_small, '{"gzip": true}'),
    "a name with power over terminals": _oddly_named,
}


def test_the_users_configuration_counts_as_for_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over the preset, under the file near the session; where it is ignored the command line says so."""
    arguments = ["compress", str(large(tmp_path))]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "sessioncompress").mkdir()
    file = tmp_path / "sessioncompress" / "config.json"
    file.write_text(json.dumps({"session": {"sizeThresholdKB": 10_000}}))
    file.chmod(0o600)
    assert nothing_due(arguments)
    said = capsys.readouterr().out
    assert said == run(*arguments).stdout
    assert "under the threshold of 10,000 KB" in said
    file.chmod(0o622)
    assert not nothing_due(arguments)


@pytest.mark.parametrize("name", ANSWERED)
def test_the_answer_is_that_of_the_command_line(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same text on the same stream, and the same exit code."""
    arguments = ["compress", *ANSWERED[name](tmp_path)]
    monkeypatch.chdir(tmp_path)
    assert nothing_due(arguments)
    said = capsys.readouterr()
    usual = run(*arguments)
    assert said == (usual.stdout, usual.stderr) == (usual.stdout, "")
    assert ("total: " in said.out) == (len(arguments) > 2)


def _grown(folder: Path) -> list[str]:
    names = _done(folder)
    with (folder / names[0]).open("ab") as file:
        file.write(b"\n" * 70_000)
    return names


def _without_originals(folder: Path) -> list[str]:
    names = _done(folder)
    store_in(folder / names[0]).originals.unlink()
    return names


def _with_a_torn_journal(folder: Path) -> list[str]:
    names = _done(folder)
    with store_in(folder / names[0]).journal.open("ab") as file:
        file.write(b'{"type":"line"')
    return names


def _linked(folder: Path) -> list[str]:
    _small(folder)
    (folder / "link.jsonl").symlink_to("session.jsonl")
    return ["link.jsonl"]


LEFT: dict[str, Callable[[Path], list[str]]] = {
    "one that is due": _due,
    "one that has grown": _grown,
    "another policy": _near(_done, '{"session": {"protectTokens": 1}}'),
    "no originals": _without_originals,
    "a torn journal": _with_a_torn_journal,
    "a killed run's draft": _beside(_done, ".temp-0123abcd"),
    "a late link": _beside(_done, ".late-1-2-3-4-5"),
    "a late link of one that is small": _beside(_small, ".late-1-2-3-4-5"),
    "a warning to say": _near(_small, '{"sizeThresholdKB": 1}'),
    "a policy with an error": _near(_small, '{"session": {"sizeThreshold": 1}}'),
    "a policy with a key of the user's": _near(_small, '{"session": {"logFile": "log"}}'),
    "a link": _linked,
    "nothing named": lambda _: [],
    "a file that is not there": lambda _: ["none.jsonl"],
    "a folder": lambda _: ["."],
    "an option": lambda folder: ["--json", *_small(folder)],
    "an option behind": lambda folder: [*_small(folder), "--check"],
    "an empty name": lambda _: [""],
}


@pytest.mark.parametrize("name", LEFT)
def test_left_to_the_command_line(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is said; also where one of several has something due."""
    names = LEFT[name](tmp_path)
    monkeypatch.chdir(tmp_path)
    assert not nothing_due(["compress", *names])
    write(tmp_path, PiSession().bytes(), "other.jsonl")
    assert not nothing_due(["compress", "other.jsonl", *names]) or not names
    assert capsys.readouterr().out == "" or not names


@pytest.mark.parametrize("arguments", [[], ["verify", "session.jsonl"], ["--help"], ["compress"]])
def test_no_other_command_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    _small(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert not nothing_due(arguments)


def test_what_is_forced_or_named_otherwise_is_due(tmp_path: Path) -> None:
    """A session as the last run left it has nothing due, but whoever forces a run wants it to look."""
    path = tmp_path / _done(tmp_path)[0]
    assert triage.status_unopened(path, BALANCED, force=False) == (
        Status.UNCHANGED,
        "already compressed, nothing new since",
    )
    assert triage.status_unopened(path, BALANCED, force=True) is None
    assert triage.status_unopened(path, BALANCED, force=False, form="pi") is None


def test_a_session_that_was_restored_is_due(tmp_path: Path) -> None:
    """The newest run is no run of this command then."""
    path = tmp_path / _done(tmp_path)[0]
    run("restore", path)
    assert triage.status_unopened(path, BALANCED, force=False) is None


def test_without_an_output_the_command_line_sees_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is closed there is nothing to write to."""
    names = _small(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", None)
    assert not nothing_due(["compress", *names])
