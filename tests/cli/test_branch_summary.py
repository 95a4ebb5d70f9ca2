"""`branch-summary` and `handoff`: output, JSON, exit codes, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.branched import branched
from tests.support.commands import HOSTILE, RAW, document, one, run, spawn
from tests.support.long import LONG
from tests.support.runs import split, write
from tests.support.session import PiSession

MADE = branched()
LIST = f"""\
{MADE.fork}  fork, live  2026-03-02T09:01:36Z  Gauge 4 failed at noon, and no other one did.
{MADE.first}  leaf        2026-03-02T09:03:09Z  The reader asks again in again.py, and that works.
{MADE.second}  leaf, live  2026-03-02T09:04:45Z  The second gauge is in second.py, and it fails like [...]
"""


@pytest.fixture
def session(here: Path) -> Path:
    return write(here, MADE.data)


# branch-summary


def test_the_list(session: Path) -> None:
    assert run("branch-summary", session, "--list").stdout == LIST
    assert session.read_bytes() == MADE.data


def test_a_list_of_hostile_words_is_printable(here: Path) -> None:
    made = PiSession()
    made.user("words \x1b[31m and \x07 and \u202e")
    made.raw(b'{"type":"label","id":"\\u001b[31m","parentId":null,"timestamp":"\\u001b"}\n')
    path = write(here, made)
    told = spawn("branch-summary", "--list", str(path), cwd=here).stdout
    assert len(told.splitlines()) == 2
    assert b"\\x1b[31m" in told
    assert not any(raw in told for raw in RAW)


def test_the_line_of_a_run_of_a_rehearsal_and_of_a_second_run(session: Path) -> None:
    said = f"after {MADE.first}; 6 messages after {MADE.fork} left behind (summary "
    assert f"session.jsonl: would continue {said}" in run("branch-summary", "session.jsonl", "--dry-run").stdout
    assert session.read_bytes() == MADE.data
    done = run("branch-summary", "session.jsonl")
    assert f"session.jsonl: continues {said}" in done.stdout
    assert done.exit_code == 0
    again = run("branch-summary", "session.jsonl")
    assert again.stdout == (
        "session.jsonl: unchanged: nothing was said since the last branch summary; name an entry (--to) to leave this branch too\n"
    )
    assert again.exit_code == 0


def test_the_json_document(session: Path) -> None:
    told = document("branch-summary", session, "--dry-run")
    assert (told["schema"], told["dryRun"]) == ("sessioncompress.branch-summary/1", True)
    (file,) = told["files"]
    assert (file["status"], file["to"], file["fork"]) == ("would-summarize", MADE.first, MADE.fork)
    assert "summary" not in file
    assert one("branch-summary", session, "--to", MADE.fork)["status"] == "summarized"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--to", "nobody"), 4, "it has no entry nobody."),
        (("--to", ""), 2, "--to needs the id of an entry"),
        (("--to", "\x1b[31m"), 4, "it has no entry \\x1b[31m."),
        (("--list", "--json"), 2, "--list can't be combined with"),
        (("--list", "--dry-run"), 2, "--list can't be combined with"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], code: int, said: str, session: Path) -> None:
    result = run("branch-summary", session, *arguments)
    assert result.exit_code == code
    assert said in result.stderr
    assert session.read_bytes() == MADE.data


def test_another_agent_is_refused_by_name(here: Path) -> None:
    result = run("branch-summary", write(here, LONG["codex"](2)), "--list")
    assert (result.exit_code, "codex sessions" in result.stderr) == (4, True)


def test_a_store_elsewhere_and_the_way_back(session: Path) -> None:
    assert run("branch-summary", session, "--backup-dir", "store", "--commit-originals").exit_code == 0
    assert not (session.parent / ".sessioncompress").exists()
    assert "1 summary removed" in run("restore", session, "--backup-dir", "store").stdout
    assert session.read_bytes() == MADE.data


# handoff


def test_the_document_is_printed_or_written(session: Path) -> None:
    printed = run("handoff", "session.jsonl")
    assert printed.exit_code == 0
    assert printed.stdout.startswith("# Handoff\n")
    written = run("handoff", "session.jsonl", "-o", "handoff.md")
    assert written.stdout.startswith("session.jsonl: 10 messages, ")
    assert written.stdout.endswith(" in handoff.md\n")
    assert Path("handoff.md").read_text() == printed.stdout
    assert Path("handoff.md").stat().st_mode & 0o777 == 0o600
    again = run("handoff", "session.jsonl", "-o", "handoff.md")
    assert (again.exit_code, "the file exists" in again.stderr) == (4, True)
    assert sorted(each.name for each in session.parent.iterdir()) == ["handoff.md", "session.jsonl"]


def test_a_new_session_is_begun_and_named(session: Path) -> None:
    said = run("handoff", session, "--new").stdout
    begun = Path(said.rstrip().rpartition(" in ")[2])
    assert json.loads(split(begun.read_bytes())[0])["parentSession"] == str(session)
    result = run("handoff", session, "--new", "-o", "a.md")
    assert (result.exit_code, "can't be combined with -o" in result.stderr) == (2, True)
    assert not Path("a.md").exists()


def test_the_summary_may_be_shorter(here: Path) -> None:
    path = write(here, LONG["pi"](60))
    assert len(run("handoff", path, "--summary-tokens", "1000").stdout) < 4_400 < len(run("handoff", path).stdout)


def test_a_hostile_name_is_printed_so_that_nothing_obeys_it(here: Path) -> None:
    (here / HOSTILE.decode(errors="surrogateescape")).write_bytes(MADE.data)
    for arguments in ((), ("-o", b"a.md"), ("--new",)):
        done = spawn("handoff", HOSTILE, *arguments, cwd=here)
        assert done.returncode == 0, done.stderr
        assert not any(raw in done.stdout for raw in RAW)
    assert not any(raw in (here / "a.md").read_bytes() for raw in RAW)
