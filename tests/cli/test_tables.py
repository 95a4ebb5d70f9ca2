"""Tables and lines fit into terminals of any width; piped they are whole and plain."""

from __future__ import annotations

import re
import sys
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace
from rich.cells import cell_len

from sessioncompress.cli import options, sessions, tables
from sessioncompress.cli.main import main
from sessioncompress.operations.history import RunState, RunStats, SessionRun
from sessioncompress.operations.sessions import ListedSession

PATH = "/home/someone/.pi/agent/sessions/--a-project--/2026-03-02T10-00-00-000Z_0198f7c2-5a6b.jsonl"
PROJECT = "/home/someone/src/a/long/way/down/to/the-project-with-a-name"
LISTED = [
    ListedSession(
        *(PATH, "claude-code", PROJECT, "x", 219 << 20, 0),
        compressed=True,
        could_save=None,
        estimate=99 << 20,
        title="Add a webhook." + " that says so" * 9,
    ),
    ListedSession(
        "s.jsonl", "pi", "/w\x1b[31m", "y", 1 << 10, 0, compressed=False, could_save=0, title="다음 작업 \x1b[2J"
    ),
]
ANSI = "\x1b["


def printed(monkeypatch: pytest.MonkeyPatch, columns: int, *arguments: str, lines: int = 40, **env: str) -> Result:
    """Print the list, as in a terminal of so many columns; 0: piped."""
    monkeypatch.setattr(tables, "is_seen", lambda: columns > 0)
    monkeypatch.setattr(sessions, "is_seen", lambda: columns > 0)
    monkeypatch.setattr("time.time", lambda: 9.0)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("COLUMNS", str(columns or 80))
    monkeypatch.setenv("LINES", str(lines))

    @click.command(cls=options.ReadOnly)
    @options.COLOR
    @options.VERBOSE
    def command(*, verbose: bool) -> None:
        sessions.echo_list(LISTED, verbose=verbose)
        click.echo(tables.file_line(PATH, "924 KB", "331 KB", "-64 %"))
        tables.echo_wrapped("  replaced: " + "12,345 results, " * 8)

    return CliRunner().invoke(command, list(arguments), env=env, color=columns > 0)


@pytest.mark.parametrize("columns", [80, 100, 120, 200, 240])
def test_it_fits(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """No line is longer, numbers and ages are whole, and what does not fit is cut."""
    shown = click.unstyle(printed(monkeypatch, columns).output).splitlines()
    copied = f"  sessioncompress compress {PATH.replace('/home/someone', '~')}"
    assert copied in shown
    assert max(len(line) for line in shown if line != copied) <= columns
    assert re.search(r"  0 min +219\.0 MB +~99\.0 MB +(the\.\.\.h-a-name: )?Add a webhook\.( |$)", shown[1])
    assert shown[1].startswith("claude-code  " + "~/src" * (columns >= 120))
    assert ("the...h-a-name: " in shown[1]) == (columns < 120)
    assert shown[2].startswith("pi           " + ("/w\\x1b[31m " if columns >= 120 else ""))
    assert shown[2].endswith(" 다음 작업 \\x1b[2J")
    (line,) = (each for each in shown if "->" in each)
    assert re.fullmatch(r"~/.*5a6b\.jsonl +924 KB -> +331 KB +-64 %", line)
    assert (line.startswith("~/.pi/agent/sessions/--a-project--/2026-03-02T10")) == (columns >= 120)


LONG = "Add a webhook." + " that says so" * 9


@pytest.mark.parametrize(
    ("title", "says"), [(LONG, LONG[:40]), ("다음 작업 " * 30, "다음 작업 다음 작업"), ("", "~/.pi")]
)
def test_a_line_has_the_title(monkeypatch: pytest.MonkeyPatch, title: str, says: str) -> None:
    """As much of it as fits, of letters of two cells too; the path where there is none."""
    monkeypatch.setattr(tables, "is_seen", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("HOME", "/home/someone")
    line = click.unstyle(tables.file_line(PATH, "924 KB", "331 KB", "-64 %", title=title))
    assert line.startswith(says)
    assert cell_len(line) == 80


def test_paths_and_ids_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = click.unstyle(printed(monkeypatch, 80, "-v").output).splitlines()
    assert shown[2:4] == [f"  ~{PATH.removeprefix('/home/someone')}", "  x"]


@pytest.mark.parametrize(("more", "says"), [({"packed": True}, "packed"), ({}, "compressed")])
def test_what_is_done_is_told(monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], says: str) -> None:
    """In the place of what could be saved; no command for one of them is offered."""
    monkeypatch.setattr(sys.modules[__name__], "LISTED", [replace(LISTED[0], could_save=0, estimate=0, **more)])
    shown = click.unstyle(printed(monkeypatch, 80).output)
    assert re.search(rf"219.0 MB +{says}  Add", shown)
    assert "little to save" not in shown
    assert "only" not in shown


def test_a_dash_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "LISTED", [replace(LISTED[1], could_save=None)])
    assert "\n-: nothing is due, or little to save; " in printed(monkeypatch, 80).output


def test_the_heading_comes_again_where_it_left_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    said = click.unstyle(printed(monkeypatch, 80, lines=1).output)
    assert said.count("could save") == 2


def test_a_list_longer_than_the_screen_ends_with_what_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what the screen shows when it is done, and what one alone is named of."""
    first, other = (click.unstyle(printed(monkeypatch, 80, lines=lines).output).splitlines() for lines in (1, 40))
    assert [line.split()[0] for line in first[:4]] == ["agent", "pi", "claude-code", "agent"]
    assert [line.split()[0] for line in other[:3]] == ["agent", "claude-code", "pi"]
    (note,) = set(first) - set(other) - {first[0]}
    assert note == "the session with the most to save is at the bottom"


def test_piped_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    said = printed(monkeypatch, 0).output
    assert f"claude-code\t{PROJECT}\t0 min\t219.0 MB\t~99.0 MB\tyes\t{PATH}\tAdd a webhook. that" in said
    assert f"{PATH}: 924 KB -> 331 KB (-64 %)\n" in said
    assert ANSI not in said


@pytest.mark.parametrize(
    ("arguments", "no_color", "colors"),
    [
        ((), "", True),
        ((), "1", False),
        (("--color", "always"), "1", True),
        (("--color", "never"), "", False),
        (("--color", "auto"), "", True),
    ],
)
def test_colors(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], no_color: str, *, colors: bool) -> None:
    """Of the option and the variable the option counts."""
    assert (ANSI in printed(monkeypatch, 80, *arguments, NO_COLOR=no_color).output) == colors


@pytest.mark.parametrize("seen", [False, True])
def test_a_table_of_a_question(monkeypatch: pytest.MonkeyPatch, *, seen: bool) -> None:
    """Goes to stderr, laid out where that is a terminal, whatever stdout is."""
    monkeypatch.setattr(tables, "is_seen", lambda: not seen)
    monkeypatch.setattr(tables, "_is_terminal", lambda stream: seen and stream is sys.stderr)

    @click.command()
    def command() -> None:
        columns = [tables.Column("agent"), tables.Column("size", is_number=True)]
        tables.echo_table(columns, [["pi", "1 KB"], ["total", "12.3 MB"]], err=True)

    said = CliRunner().invoke(command)
    laid_out = ["agent     size", "pi        1 KB", "total  12.3 MB"]
    assert said.stdout == ""
    assert said.stderr.splitlines() == (laid_out if seen else ["agent\tsize", "pi\t1 KB", "total\t12.3 MB"])


def test_names_stay_different() -> None:
    """Also where they are cut; those that fit are whole."""
    names = ["mcp__server__take_screenshot", "mcp__server__take_snapshot_of", "mcp__server__fake_screenshot", "Read"]
    cut = tables.distinct(names, 15)
    assert len(set(cut.values())) == len(names)
    assert {len(each) for each in cut.values()} == {4, 15}
    assert cut["Read"] == "Read"


def test_titles_that_begin_alike_stay_different() -> None:
    """Each shows where it differs from its neighbors; equal ones and others are as they were."""
    names = [f"Implement the following plan: # Plan: {each} the docs" for each in ("mend", "move", "test")]
    cut = tables.distinct([*names, names[0], "Add a webhook to the deploys"], 25, at_end=True)
    assert list(cut.values()) == [
        "Add a webhook to the d...",
        "Implemen...mend the docs",
        "Implemen...move the docs",
        "Implemen...test the docs",
    ]


def test_what_is_quoted_is_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are copied; an apostrophe quotes nothing."""
    monkeypatch.setenv("COLUMNS", "40")
    command = "'sessioncompress unpack /home/a/b.jsonl'"
    said = tables.wrapped(f"the users' file isn't here: {command} brings it back, {command}.")
    assert said.splitlines() == ["the users' file isn't here:", f"  {command}", "  brings it back,", f"  {command}."]


RUN = SessionRun("/home/someone/" + "a" * 90 + ".jsonl", "x", "", "compress", RunState.IN_PLACE, 0, 0)
RUNS = [
    RunStats(
        "20260302-100000-1a2b", "2026-03-02T10:00:07Z", ("compact", "compress"), RunState.PARTLY, 9 << 24, -5, (RUN,)
    ),
    RunStats("20260302-100000", "2026-03-02T10:00:08Z", ("compress",), RunState.IN_PLACE, 4 << 10, 3 << 10, (RUN, RUN)),
]


@pytest.mark.parametrize("columns", [80, 120, 0])
def test_runs_fit(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """With their whole ids, and below them what they were over; piped with all there is."""
    module = sys.modules["sessioncompress.cli.restore"]
    for each in (tables, module):
        monkeypatch.setattr(each, "is_seen", lambda: columns > 0)
    monkeypatch.setattr(module, "histories", lambda _: RUNS)
    monkeypatch.setenv("COLUMNS", str(columns or 80))
    said = CliRunner().invoke(main, ["history", "--all"]).stdout
    lines = said.splitlines()
    assert len(lines) == (6 if columns else 4)
    assert all(each.run in line for each, line in zip(RUNS, lines[1 :: 2 if columns else 1], strict=False))
    assert ("2026-03-02T10:00:08Z" in said, " d ago" in said) == (columns == 0, columns > 0)
    if columns:
        assert max(map(len, lines)) <= columns
    else:
        cells = ["compress", "2", "4 KB", "3 KB", "in place", "2026-03-02T10:00:08Z"]
        assert lines[2].split("\t")[1:] == [*cells, "a" * 37 + "... and 1 other session"]
