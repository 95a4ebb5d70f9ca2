"""`sessions`, and `compress` over the sessions that it lists: output, JSON, exit codes, and that a list writes nothing."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.cli import sessions
from sessioncompress.formats.table import NAMES
from sessioncompress.operations.sessions import ListedSession
from sessioncompress.store.layout import store_in
from tests.support.build import ClaudeSession, PiSession
from tests.support.commands import document, run
from tests.support.documents import GeminiDocument
from tests.support.homes import contents, pi, put

DAY = 24 * 3600
ROWS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("nothing to save", {}, ["pi", "/work", "3 d", "1 KB", "-", "-", "s.jsonl", "s.jsonl", "x"]),
    (
        "much",
        {"could_save": 5 << 20, "estimate": 5 << 20},
        ["pi", "/work", "3 d", "1 KB", "5,120 KB", "-", "s.jsonl", "s.jsonl", "x"],
    ),
    (
        "about as much",
        {"could_save": None, "estimate": 9 << 10},
        ["pi", "/work", "3 d", "1 KB", "~9 KB", "-", "s.jsonl", "s.jsonl", "x"],
    ),
    ("compressed", {"compressed": True}, ["pi", "/work", "3 d", "1 KB", "-", "yes", "s.jsonl", "s.jsonl", "x"]),
    ("no project", {"project": ""}, ["pi", "-", "3 d", "1 KB", "-", "-", "s.jsonl", "s.jsonl", "x"]),
    (
        "a digest of a project",
        {"project": "0123456789abcdef" * 4},
        ["pi", "sha256:0123456789ab", "3 d", "1 KB", "-", "-", "s.jsonl", "s.jsonl", "x"],
    ),
    (
        "a name of as many letters",
        {"project": "w" * 64},
        ["pi", "w" * 64, "3 d", "1 KB", "-", "-", "s.jsonl", "s.jsonl", "x"],
    ),
    (
        "a project that would write to a terminal",
        {"project": "/a\x1b[31m"},
        ["pi", "/a\\x1b[31m", "3 d", "1 KB", "-", "-", "s.jsonl", "s.jsonl", "x"],
    ),
]
AGES = [
    (-5, "0 min"),
    (0, "0 min"),
    (59, "0 min"),
    (3599, "59 min"),
    (3600, "1 h"),
    (DAY, "1 d"),
    (1000 * DAY, "1,000 d"),
]


def listed(**more: Any) -> ListedSession:
    made = ListedSession("s.jsonl", "pi", "/work", "x", 1024, time.time() - 3 * DAY - 9, compressed=False, could_save=0)
    return ListedSession(**{name: more.get(name, getattr(made, name)) for name in ListedSession.__struct_fields__})


# The list


@pytest.mark.parametrize(("more", "cells"), [case[1:] for case in ROWS], ids=[case[0] for case in ROWS])
def test_a_row(more: dict[str, Any], cells: list[str]) -> None:
    assert sessions.row(listed(**more)) == cells
    assert len(cells) == len(sessions.COLUMNS)


@pytest.mark.parametrize(("seconds", "said"), AGES)
def test_an_age(seconds: float, said: str) -> None:
    """In the largest unit that is full; a clock that was ahead makes nothing negative."""
    assert sessions.row(listed(modified=time.time() - seconds - 0.5 * (seconds > 0)))[2] == said


@pytest.mark.parametrize(("sort", "paths"), [("saves", "bca"), ("size", "acb"), ("age", "cab"), ("project", "abc")])
def test_what_comes_first(sort: str, paths: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What saves most, is largest, is oldest, or the projects by name."""
    made = [
        listed(path="a", size=9 << 10, modified=5, project="/a"),
        listed(path="b", estimate=2, size=1 << 10, modified=9, project="/b"),
        listed(path="c", estimate=1, size=5 << 10, modified=1, project="/c"),
    ]
    sessions.echo_list(made, sort)
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split("\t") == [column.name for column in sessions.COLUMNS[:-1]]
    assert "".join(line.split("\t")[-2] for line in rows) == paths


@pytest.mark.parametrize(("verbose", "first"), [(False, ["b", "a"]), (True, ["a", "b"])])
def test_paths_and_ids_count_where_a_list_leaves_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, verbose: bool, first: list[str]
) -> None:
    """Two sessions are six lines with -v: the first one must be where the screen ends, under the heading again."""
    monkeypatch.setattr("sessioncompress.cli.tables._is_terminal", lambda stream: stream is not None)
    monkeypatch.setenv("LINES", "4")
    sessions.echo_list([listed(path="a", title="a"), listed(path="b", title="b", size=2048)], "size", verbose=verbose)
    done = capsys.readouterr()
    assert [line[-1] for line in done.out.splitlines() if line.startswith("pi")] == first
    assert done.out.count("could save") == 1 + verbose
    assert ("at the bottom" in done.err) == verbose


@pytest.mark.parametrize("columns", [80, 200])
def test_rows_that_look_alike_name_their_ids(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much of each as tells them apart, and only there; -v names the whole ids, and a pipe has the paths."""
    title = "You are an analyst who reads tide gauges, and the harbour office " * 3
    ids = {"a": "abcdefab-1", "b": "abcdefab-2", "c": "abcdefab-3", "d": "abcdefab-2"}
    made = [listed(path=path, id=name, title=title) for path, name in ids.items()]
    made[2] = listed(path="c", id=ids["c"], title=title, modified=time.time() - 9 * DAY)
    made.append(listed(path="e", id="abcdefab-1", title="Another one."))
    sessions.echo_list(made)
    assert "\tabcdefab" not in capsys.readouterr().out
    monkeypatch.setattr("sessioncompress.cli.tables._is_terminal", lambda stream: stream is not None)
    monkeypatch.setenv("COLUMNS", str(columns))
    sessions.echo_list(made, verbose=True)
    assert " abcdefab-1 You" not in capsys.readouterr().out
    sessions.echo_list(made)
    rows = capsys.readouterr().out.splitlines()[1:]
    begins = ["abcdefab-1 You are", "abcdefab-2 You are", "You are an", "abcdefab-2 You are", "Another one."]
    assert [f"-  {title}" in row for row, title in zip(rows, begins, strict=True)] == [True] * 5


def test_the_list_has_all_agents(agents: Path) -> None:
    """A heading, a line each, and the sums; nothing is written."""
    before = contents(agents)
    result = run("sessions")
    assert result.exit_code == 0
    heading, *rows, total = result.stdout.splitlines()
    assert heading.split("\t") == [column.name for column in sessions.COLUMNS[:-1]]
    cells = [row.split("\t") for row in rows]
    assert sorted(row[0] for row in cells) == ["claude-code", "codex", "gemini", "pi", "pi"]
    assert {row[2] for row in cells if row[0] in ("claude-code", "codex")} == {"8 d"}
    size = sum(len(raw) for path, raw in before.items() if path.name not in ("logs.json", "history.jsonl"))
    assert total.startswith(f"total: 5 sessions of 4 agents, {round(size / 1024):,} KB; 0 compressed already; ")
    assert not result.stderr
    assert contents(agents) == before


def test_what_could_be_saved_is_what_a_run_saves(agents: Path) -> None:
    """In all, with what it adds beside; and then the list says that it was done."""
    said = {each["path"]: each for each in document("sessions", "--savings")["sessions"]}
    large = agents / ".pi/agent/sessions/x/large.jsonl"
    size = large.stat().st_size
    assert run("compress", large).exit_code == 0
    files = store_in(large)
    now = sum(path.stat().st_size for path in (large, files.originals, files.journal))
    assert said[str(large)]["couldSave"] == size - now
    assert not said[str(large)]["compressed"]
    again = {each["path"]: each for each in document("sessions", "--savings")["sessions"]}[str(large)]
    assert (again["compressed"], again["couldSave"]) == (True, 0)
    assert again["reason"]
    assert run("restore", large).exit_code == 0
    assert not {each["path"]: each for each in document("sessions")["sessions"]}[str(large)]["compressed"]


def test_the_estimate_is_of_what_a_run_has_not_seen(agents: Path) -> None:
    """All of a session before the first run and after a restore; nothing where nothing is due; else what came.

    What is left where the originals were forgotten nobody knows, nor what a run with other settings frees.
    """
    large = agents / ".pi/agent/sessions/x/large.jsonl"

    def estimated() -> int:
        each: dict[str, Any] = next(each for each in document("sessions")["sessions"] if each["path"] == str(large))
        return int(each["couldSaveEstimate"])

    whole = estimated()
    assert whole > 64 << 10
    assert run("compress", large).exit_code == 0
    assert estimated() == 0
    with large.open("ab") as file:
        file.write(b'{"type":"label","x":"%s"}\n' % (b"x" * (99 << 10)))
    assert 0.9 * (99 << 10) > estimated() > 0.1 * (99 << 10)
    assert run("restore", large).exit_code == 0
    assert estimated() > whole
    put(large.parent / "compression.json", b'{"session": {"toolResultMaxBytes": 999}}')
    assert estimated() == 0
    (large.parent / "compression.json").unlink()
    assert run("compress", large).exit_code == 0
    assert run("forget", large, "--yes").exit_code == 0
    with large.open("ab") as file:
        file.write(b'{"type":"label","x":"%s"}\n' % (b"x" * (99 << 10)))
    assert estimated() == 0


def test_without_a_command_it_says_what_to_do_next(agents: Path) -> None:
    """How much is there, and commands that save what they say; the help where there is nothing."""
    large = agents / ".pi/agent/sessions/x/large.jsonl"
    os.utime(large, (time.time() - 22 * DAY,) * 2)
    said = run().stdout.splitlines()
    assert said[0].startswith("5 sessions of 4 agents, ")
    assert said[2] == "  sessioncompress pack --all --older-than 21d"
    command = said[4].split()
    assert command == ["sessioncompress", "compress", "--all", "--older-than", "1d"]
    os.utime(large, (time.time() - 20 * DAY,) * 2)
    assert run().stdout.splitlines()[2].split() == command
    assert "(3 compressed)" in run(*command[1:], "--yes").stdout
    then = run().stdout.splitlines()
    assert "could save" not in then[0]
    assert then[1:] == ["To list them:", "  sessioncompress sessions"]
    shutil.rmtree(agents)
    assert run().stdout == run("--help").stdout


def test_what_the_agent_deletes_soon(agents: Path) -> None:
    """Is told beside the list, with the command that packs it before."""
    path = put(agents / ".claude/projects/x/claude.jsonl", ClaudeSession().turn().bytes())
    os.utime(path, (time.time() - 29 * DAY,) * 2)
    said = run("sessions").stderr.splitlines()
    assert said[0].startswith("Claude Code will delete 1 session within a week (cleanupPeriodDays: 30 days).")
    assert document("sessions")["totals"]["deletedSoon"] == 1
    assert "packed 1 session" in run(*said[1].split()[1:], "--yes").stdout
    assert not run("sessions").stderr
    put(path, ClaudeSession().turn().bytes())
    put(path.with_suffix("") / "tool-results/toolu_1.txt", b"A part of it.")
    os.utime(path, (time.time() - 29 * DAY,) * 2)
    alone, setting = run("sessions").stderr.splitlines()
    assert setting == f"  cleanupPeriodDays: 365 in {agents / '.claude/settings.json'}"
    assert alone.startswith(
        "Claude Code will delete 1 session within a week (cleanupPeriodDays: 30 days). 'pack' refuses"
    )
    put(path.with_name("whole.jsonl"), ClaudeSession().turn().bytes())
    os.utime(path.with_name("whole.jsonl"), (time.time() - 29 * DAY,) * 2)
    assert (
        run("sessions")
        .stderr.splitlines()[0]
        .endswith(" 'pack' refuses 1, a part of which lies outside the file. To keep the others in an archive:")
    )


def test_a_session_under_the_threshold_is_listed(agents: Path) -> None:
    """With the reason why nothing can be saved."""
    (small,) = [each for each in document("sessions")["sessions"] if each["path"].endswith("small.jsonl")]
    assert (small["couldSave"], small["couldSaveEstimate"]) == (None, 0)
    assert "under the threshold" in small["reason"]
    assert small["agent"] == "pi"
    del agents


def test_the_document(agents: Path) -> None:
    """It says of each what its line says, and the sums; a path of any bytes is in it."""
    put(agents / ".pi/agent/sessions/x" / os.fsdecode(b"a\xff.jsonl"), PiSession().opening().bytes())
    whole = document("sessions")
    assert whole["schema"] == "sessioncompress.sessions/1"
    assert whole["totals"]["sessions"] == len(whole["sessions"]) == 6
    assert whole["totals"]["couldSave"] is None
    for name in ("size", "couldSaveEstimate", "compressed"):
        assert whole["totals"][name] == sum(each[name] for each in whole["sessions"])
    codex = next(each for each in whole["sessions"] if each["agent"] == "codex")
    assert set(codex) == {
        *("path", "agent", "project", "id", "size"),
        *("modified", "compressed", "couldSave", "couldSaveEstimate", "reason", "packed", "packedSize", "title"),
        "madeElsewhere",
    }
    assert codex["title"]
    assert {each["title"] for each in whole["sessions"]} - {""} <= {
        row.split("\t")[-1] for row in run("sessions").stdout.splitlines()
    }
    assert codex["modified"].endswith("Z")
    assert codex["project"] == "/tmp"


def test_the_list_of_some(agents: Path) -> None:
    """By agent, project and age, and all of these at once."""
    assert document("sessions", "--agent", "codex")["totals"]["sessions"] == 1
    assert document("sessions", "--older-than", "7d")["totals"]["sessions"] == 2
    assert document("sessions", "--older-than", "7d", "--agent", "pi")["totals"]["sessions"] == 0
    assert document("sessions", "--project", "/tmp")["totals"]["sessions"] == 5
    assert document("sessions", "--project", ".")["totals"]["sessions"] == 0
    assert document("sessions", "--project", "/tmp", "--agent", "pi")["totals"]["sessions"] == 2
    del agents


PI = "warning: no matching pi sessions under ~/.pi/agent/sessions"
NONE = [
    (("sessions", "--agent", "openclaw"), "warning: no matching openclaw sessions under ~/.openclaw/agents, "),
    (("compress", "--agent", "openclaw"), "warning: no matching openclaw sessions under ~/.openclaw/agents, "),
    (("sessions", "--agent", "pi", "--older-than", "9d"), f"{PI}; 2 are younger than 9d\n"),
    (("verify", "--agent", "pi", "--include", "none*"), f"{PI}; 2 are left out by --include and --exclude\n"),
    (
        ("stats", "--agent", "pi", "--older-than", "9d", "--include", "*large*"),
        f"{PI}; 1 is younger than 9d, 1 is left",
    ),
]


@pytest.mark.parametrize(("command", "says"), NONE, ids=["none", "none to change", "none so old", "no name", "both"])
def test_where_it_looked_for_an_agents_sessions_is_told(agents: Path, command: tuple[str, ...], says: str) -> None:
    """Where there are none: they may be elsewhere."""
    result = run(*command)
    assert result.exit_code == 0
    assert result.stderr.startswith(says)
    assert not run("sessions", "--agent", "pi").stderr
    del agents


def test_an_id_or_a_title_is_told_from_a_path(agents: Path) -> None:
    """Commands take paths: the error has that of the session which is meant."""
    meant = next(each for each in document("sessions")["sessions"] if each["path"].endswith("large.jsonl"))
    for named in (meant["id"][:-2], meant["title"][4:30].upper()):
        for command in ("stats", "restore", "sessions"):
            result = run(command, named)
            assert result.exit_code == 2
            assert f"'{named}' is not a path. The session with that id or title: {meant['path']}. " in result.stderr
    assert "Path 'none such' does not exist." in run("stats", "none such").stderr
    del agents


def test_a_run_does_not_read_titles_again(agents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the sessions in the agents' folders are known since these were found."""
    title = next(each["title"] for each in document("sessions")["sessions"] if each["path"].endswith("large.jsonl"))
    monkeypatch.setattr("sessioncompress.cli.tables.is_seen", lambda: True)
    monkeypatch.setattr("sessioncompress.operations.sessions.title_of", lambda path: f"{path} was read again")
    said = run("compress", "--agent", "pi", "--yes").stdout
    assert title[:20] in said
    assert "read again" not in said
    del agents


def test_paths_are_for_another_command(agents: Path) -> None:
    (agents / "a folder").mkdir()
    result = run("sessions", agents / "a folder")
    assert result.exit_code == 2
    assert f"takes no PATHS; for others: sessioncompress stats '{agents}/a folder'\n" in result.stderr


def test_sessions_of_opencode_are_told_of(agents: Path) -> None:
    """What it kept before it had a database: that it is not read is said, where it would be."""
    store = agents / ".local/share/opencode"
    for name in ("session", "message", "part"):
        put(store / "storage" / name / "x.json", b'{"id": "ses_1"}')
    for options in ((), ("--agent", "opencode"), ("--json",)):
        said = run("sessions", *options).stderr
        assert said == f"OpenCode's sessions in {store} are not read; 'opencode export SESSION > FILE' exports one\n"
    assert not run("sessions", "--agent", "pi").stderr
    shutil.rmtree(store)
    assert not run("sessions").stderr


def test_an_empty_list(here: Path) -> None:
    """It is a heading and a total, or a document without sessions."""
    del here
    assert run("sessions").stdout.splitlines()[1:] == ["total: 0 sessions"]
    assert document("sessions")["sessions"] == []


@pytest.mark.parametrize("command", ["sessions", "compress"])
@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--agent", "nobody"), f"'nobody' is not one of {', '.join(NAMES)}. Nothing was done."),
        (("--older-than", "7"), "'7' needs a unit; use m, h, d or w, as in 7d"),
        (("--older-than", "-7d"), "not an age"),
        (("--older-than", "1y"), "'1y': unknown unit 'y'; use m, h, d or w, as in 7d"),
    ],
)
def test_what_names_nothing_is_an_error(here: Path, command: str, option: tuple[str, str], said: str) -> None:
    del here
    result = run(command, *option)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_damaged_store_is_told_beside_the_list(agents: Path) -> None:
    """The others are listed; the exit code is that of the damage."""
    large = agents / ".pi/agent/sessions/x/large.jsonl"
    assert run("compress", large).exit_code == 0
    journal = store_in(large).journal
    journal.write_bytes(b"{torn\n" + journal.read_bytes())
    result = run("sessions")
    assert result.exit_code == 5
    assert result.stderr.startswith(f"failed: {journal}")
    assert result.stdout.splitlines()[-1].startswith("total: 4 sessions of 4 agents, ")
    assert result.stdout.splitlines()[-1].endswith("; 1 failed")


# compress over what is listed


def test_compress_by_project(agents: Path, here: Path) -> None:
    """Those begun in the folder, whoever wrote them."""
    made = GeminiDocument().user("hello").bytes()
    put(agents / ".gemini/tmp/y/chats/session-other.json", made.replace(b'"projectHash": "', b'"projectHash": "0'))
    files = document("compress", "--project", "/tmp", "--dry-run")["files"]
    assert {each["format"] for each in files} == {"", "claude-code", "codex", "gemini", "pi"}
    assert "session-other.json" not in str(files)
    assert document("compress", "--project", here)["files"] == []


def test_a_project_that_is_not_there(agents: Path) -> None:
    """Those there are stand on stderr, last worked in first; not where only the age takes all out, which is said."""
    put(agents / ".pi/agent/sessions/y/b.jsonl", pi("D:\\quay"))
    put(agents / ".gemini/tmp/x/.project_root", b"/tmp")
    for command in (("sessions",), ("compress",), ("stats", "-v")):
        result = run(*command, "--project", "nowhere")
        assert result.exit_code == 0
        assert result.stderr == (
            "warning: no sessions in the project nowhere; there are sessions in D:\\quay and /tmp\n"
        )
        for more in (("--project", "/tmp", "--older-than", "9w"), ("--older-than", "9w")):
            said = run(
                *command, *(more if command == ("sessions",) or "--project" in more else ("--all", *more))
            ).stderr
            assert said.startswith("warning: no matching sessions ")
            assert said.endswith(
                "; 6 are younger than 9w\n" if "--project" not in more else "; 5 are younger than 9w\n"
            )
    assert "sessions in /tmp\n" in run("sessions", "--agent", "codex", "--project", "nowhere").stderr
    for number in range(6):
        put(agents / f".pi/agent/sessions/y/{number}.jsonl", pi(f"/many/{number}"))
    assert run("sessions", "--project", "nowhere").stderr.endswith(" and 3 more\n")


def test_compress_all_that_nobody_works_in(agents: Path) -> None:
    """What changed in the last days stays as it is; a run does not make a session younger."""
    before = contents(agents)
    result = run("compress", "--all", "--older-than", "7d")
    assert "total: 2 files (2 compressed)" in result.stdout
    changed = {path.name for path, raw in before.items() if path.read_bytes() != raw}
    assert changed == {"rollout.jsonl", "claude.jsonl"}
    assert "total: 2 files (2 unchanged)" in run("compress", "--all", "--older-than", "7d").stdout
    assert "total: 5 files (" in run("compress", "--all").stdout


def test_the_selection_goes_with_other_options(agents: Path) -> None:
    assert run("compress", "--all", "--check").exit_code == 1
    assert run("compress", "--agent", "pi", "--dry-run", "--force", "--keep-turns", "1").exit_code == 0
    assert run("compress", "--agent", "pi", "--min-size", "1000").exit_code == 0
    (codex,) = document("compress", "--agent", "codex", "--format", "pi")["files"]
    assert codex["status"] == "unchanged"
    assert not list(agents.rglob(".sessioncompress"))
