"""`restore` of whole sessions, and where their originals are; test_restore.py has single runs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import policy, put, run
from tests.support.runs import fixture, snapshot, split, write


def test_restore(compressed: Path) -> None:
    """Every byte is back, and the line says how much; a second time there is nothing to do."""
    size = round(compressed.stat().st_size / 1024)
    result = run("restore", "session.jsonl")
    assert result.exit_code == 0
    assert re.fullmatch(rf"session\.jsonl: {size} KB -> 338 KB, \d+ lines restored\n", result.stdout)
    assert compressed.read_bytes() == fixture("pi-anthropic.jsonl")
    assert run("restore", "session.jsonl").stdout == "session.jsonl: unchanged: no line in it is rewritten\n"


def test_restore_of_what_was_never_compressed(session: Path) -> None:
    before = snapshot(session)
    assert (
        run("restore", "session.jsonl").stdout
        == "session.jsonl: unchanged: it is not compressed: it has no markers and no store\n"
    )
    assert snapshot(session) == before


def test_restore_leaves_what_was_changed_and_markers_help(compressed: Path) -> None:
    """A rewritten line that was altered comes back by its markers."""
    lines = split(compressed.read_bytes())
    number = next(at for at, line in enumerate(lines) if b"sessioncompress show" in line and b"toolResult" in line)
    lines[number] = lines[number].replace(b'"type":"message"', b'"type": "message"', 1)
    compressed.write_bytes(b"".join(lines))
    result = run("restore", "session.jsonl")
    assert result.exit_code == 5
    assert f"the rewritten line {number + 1} was changed since by another program, and stays" in result.stdout
    assert "'restore --from-markers' puts back" in result.stdout
    verified = run("verify", "session.jsonl")
    assert verified.exit_code == 0
    assert f"the rewritten line {number + 1} was changed since" in verified.stdout
    assert run("restore", "--from-markers", "session.jsonl").exit_code == 5
    restored = split(compressed.read_bytes())
    original = split(fixture("pi-anthropic.jsonl"))
    assert b"[[sessioncompress: " not in compressed.read_bytes()
    assert json.loads(restored[number])["message"]["content"] == json.loads(original[number])["message"]["content"]


def test_restore_of_a_fork(compressed: Path) -> None:
    """A fork has no journal: elsewhere, the originals of the session that it came from are named."""
    fork = compressed.parent / "elsewhere" / "fork.jsonl"
    fork.parent.mkdir()
    fork.write_bytes(b"".join(split(compressed.read_bytes())[:60]))
    assert run("restore", "--from-markers", "elsewhere/fork.jsonl").exit_code == 4
    result = run("restore", "--from-markers", "--originals", "session.jsonl", "elsewhere/fork.jsonl")
    assert result.exit_code == 0
    assert re.fullmatch(r"elsewhere/fork\.jsonl: [\d,]+ KB -> [\d,]+ KB, \d+ lines restored\n", result.stdout)
    assert b"[[sessioncompress: " not in fork.read_bytes()


def test_restore_of_a_folder(here: Path) -> None:
    put(here / "a.jsonl")
    put(here / "b.jsonl", "omp.jsonl")
    put(here / "c.jsonl", "bom.jsonl")
    assert run("compress", ".").exit_code == 0
    result = run("restore", ".")
    assert result.exit_code == 0
    assert len(re.findall(r"^[ab]\.jsonl: .* \(\d+ lines\)$", result.stdout, re.MULTILINE)) == 2
    assert (here / "a.jsonl").read_bytes() == fixture("pi-anthropic.jsonl")
    assert (here / "b.jsonl").read_bytes() == fixture("omp.jsonl")


def test_the_policy_says_where_the_originals_are(session: Path) -> None:
    chosen = policy(session.parent / "p.json", backupDir="elsewhere")
    assert run("compress", "--config", chosen, session).exit_code == 0
    assert (session.parent / "elsewhere").is_dir()
    for command in (("verify",), ("restore",), ("forget", "--yes")):
        assert run(*command, "--config", chosen, session).exit_code == 0
    assert session.read_bytes() == fixture("pi-anthropic.jsonl")
    assert list((session.parent / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("as_policy", [True, False])
def test_restore_leaves_committed_originals_to_git(session: Path, as_policy: bool) -> None:
    """Also where only the run had the option: whoever restores later, in a clone perhaps, does not hide them again."""
    (session.parent / ".git").mkdir()
    chosen = ["--config", str(policy(session.parent / "p.json", commitOriginals=True))] if as_policy else []
    assert run("compress", *(chosen or ["--commit-originals"]), session).exit_code == 0
    ignore = session.parent / ".sessioncompress" / ".gitignore"
    before = ignore.read_bytes()
    assert before != b"*\n"
    assert run("restore", *chosen, session).exit_code == 0
    assert ignore.read_bytes() == before


def test_originals_that_an_earlier_run_hid_are_shown(session: Path) -> None:
    """Also where the session has nothing due, which nothing but a look leaves as it is."""
    (session.parent / ".git").mkdir()
    assert run("compress", session).exit_code == 0
    ignore = session.parent / ".sessioncompress" / ".gitignore"
    assert run("compress", "--commit-originals", "--dry-run", session).exit_code == 0
    assert ignore.read_bytes() == b"*\n"
    assert run("compress", "--commit-originals", session).exit_code == 0
    assert ignore.read_bytes() != b"*\n"


def test_a_run_tells_that_git_will_lack_the_originals_of_what_it_tracks(session: Path) -> None:
    write(session.parent, session.read_bytes(), "other.jsonl")
    for arguments in (["init", "-q"], ["add", session.name]):
        subprocess.run(["git", *arguments], cwd=session.parent, check=True)
    told = "git tracks 1 session of these, but does not see the originals, so that no commit has them"
    assert run("compress", session.parent).stderr.count(f"{told}; --commit-originals changes that\n") == 1
