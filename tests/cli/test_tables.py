"""Tables and lines fit into terminals of any width; piped they are whole and plain."""

from __future__ import annotations

import re
import sys

import click
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from sessioncompress.cli import options, restore, sessions, tables
from sessioncompress.operations.history import RunStats, State
from sessioncompress.operations.sessions import ListedSession
from sessioncompress.pipeline.discover import Globs

PATH = "/home/someone/.pi/agent/sessions/--a-project--/2026-03-02T10-00-00-000Z_0198f7c2-5a6b.jsonl"
PROJECT = "/home/someone/src/a/long/way/down/to/the-project-with-a-name"
LISTED = [
    ListedSession(
        PATH, "claude-code", PROJECT, "x", 219 << 20, 0, compressed=True, could_save=99 << 20, title="Add a webhook."
    ),
    ListedSession("s.jsonl", "pi", "/w\x1b[31m", "y", 1 << 10, 0, compressed=False, could_save=0),
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
    def command() -> None:
        sessions.echo_list(LISTED)
        click.echo(tables.file_line(PATH, "924 KB", "331 KB", "-64 %"))
        tables.echo_wrapped("  replaced: " + "12,345 results, " * 8)

    return CliRunner().invoke(command, list(arguments), env=env, color=columns > 0)


@pytest.mark.parametrize("columns", [80, 100, 120, 200, 240])
def test_it_fits(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """No line is longer, numbers are whole, and paths are cut in the middle."""
    shown = click.unstyle(printed(monkeypatch, columns).output).splitlines()
    assert max(map(len, shown)) <= columns
    assert re.search(
        r"  219.0 MB     99.0 MB  yes +"
        + (
            r"~/\.pi/.*5a6b\.jsonl" + r"  Add a webhook\.$" * (columns == 240)
            if columns >= 120
            else r"\*7c2-5a6b\.jsonl$"
        ),
        shown[1],
    )
    assert shown[1].startswith("claude-code  ~/")
    assert ("only the first: sessioncompress compress --all --include '*7c2-5a6b.jsonl'" in shown) == (columns < 120)
    assert shown[2].startswith("pi           /w\\x1b[31m ")
    (line,) = (each for each in shown if "->" in each)
    assert re.fullmatch(r"~/.*5a6b\.jsonl +924 KB -> +331 KB +-64 %", line)
    assert (line.startswith("~/.pi/agent/sessions/--a-project--/2026-03-02T10")) == (columns >= 120)


@pytest.mark.parametrize("columns", [80, 120])
def test_what_is_packed_is_told(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """In a narrow terminal in the place of what could be saved; no command for one of them is offered."""
    packed = replace(LISTED[0], packed=True, could_save=0)
    monkeypatch.setattr(sys.modules[__name__], "LISTED", [packed])
    shown = click.unstyle(printed(monkeypatch, columns).output).splitlines()
    assert re.search(r"219.0 MB  +(-  +)?packed +[*~].*5a6b\.jsonl", shown[1])
    assert not any("one alone" in each for each in shown)


ENDS = [
    ((), []),
    (("/a/b/0123456789abcdef.jsonl",), ["*89abcdef.jsonl"]),
    (("s.json",), ["*s.json"]),
    (("/base/7.jsonl", "/base/a/b.jsonl"), ["*7.jsonl", "*b.jsonl"]),
    (("/a/1/session.json", "/a/2/session.json"), ["*1/session.json", "*2/session.json"]),
    (("/a/two/chats/session.json", "/a/one/chats/session.json"), ["*o/chats/session.json", "*e/chats/session.json"]),
    (("/1/" + "x" * 30, "/2/" + "x" * 30), ["*" + "x" * 20] * 2),
    (("/a/[x]*\x1b?.jsonl",), ["*?x]???.jsonl"]),
]


@pytest.mark.parametrize(("paths", "ends"), ENDS)
def test_ends_of_paths(paths: tuple[str, ...], ends: list[str]) -> None:
    """Each is short, and a pattern that --include takes for this session alone where few characters tell it."""
    made = sessions.ends_of(paths)
    assert [made[path] for path in paths] == ends
    for path in paths:
        taken = [each for each in paths if Globs((made[path],)).takes(each)]
        assert path in taken
        assert len(taken) == ends.count(made[path])


def test_the_heading_comes_again_where_it_left_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    said = click.unstyle(printed(monkeypatch, 80, lines=1).output)
    assert said.count("could save") == 2


@pytest.mark.parametrize(("sort", "left_out"), [("saves", "age"), ("project", "age"), ("age", "size")])
def test_a_narrow_list_says_what_was_compressed(monkeypatch: pytest.MonkeyPatch, sort: str, left_out: str) -> None:
    """Else a table after a run looks as if nothing had happened; the longest ends of paths find room, too."""
    monkeypatch.setattr(tables, "is_seen", lambda: True)
    monkeypatch.setattr(sessions, "is_seen", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    alike = [replace(LISTED[0], path=f"/{number}/" + "x" * 40, packed=True) for number in range(2)]
    heading, row, *_ = click.unstyle(
        CliRunner().invoke(click.command()(lambda: sessions.echo_list(alike, sort))).stdout
    ).splitlines()
    shown = [column.name for column in sessions.COLUMNS if column.name != left_out]
    assert re.split(" {2,}", heading.strip()) == shown
    assert "  packed  " in row
    assert len(row) <= 80


def test_a_list_longer_than_the_screen_ends_with_what_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what the screen shows when it is done, and what one alone is named of."""
    first, other = (click.unstyle(printed(monkeypatch, 80, lines=lines).output).splitlines() for lines in (1, 40))
    assert [line.split()[0] for line in first[:4]] == ["agent", "pi", "claude-code", "agent"]
    assert [line.split()[0] for line in other[:3]] == ["agent", "claude-code", "pi"]
    (note,) = set(first) - set(other) - {first[0]}
    assert note == "in reverse order: the first session is at the bottom"


def test_piped_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """With tabs, full paths and no colors."""
    said = printed(monkeypatch, 0).output
    assert f"claude-code\t{PROJECT}\t0 min\t219.0 MB\t99.0 MB\tyes\t{PATH}\tAdd a webhook.\n" in said
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


RUNS = [
    RunStats("20260302-100000-1a2b", "2026-03-02T10:00:07Z", ("compact", "compress"), State.PARTLY, 9 << 24, -5, ()),
    RunStats("20260302-100000", "2026-03-02T10:00:08Z", ("compress",), State.IN_PLACE, 4 << 10, 3 << 10, ()),
]


@pytest.mark.parametrize("columns", [80, 120, 0])
def test_runs_fit(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """With their whole ids; piped with all there is."""
    module = sys.modules["sessioncompress.cli.restore"]
    for each in (tables, module):
        monkeypatch.setattr(each, "is_seen", lambda: columns > 0)
    monkeypatch.setattr(module, "histories", lambda _: RUNS)
    monkeypatch.setenv("COLUMNS", str(columns or 80))
    said = CliRunner().invoke(restore.history, ["--all"]).stdout
    lines = said.splitlines()
    assert len(lines) == 4
    assert all(each.run in line for each, line in zip(RUNS, lines[1:], strict=False))
    assert ("2026-03-02T10:00:08Z" in said, " d ago" in said) == (columns == 0, columns == 120)
    if columns:
        assert max(map(len, lines)) <= columns
    else:
        assert lines[2].split("\t")[1:] == ["compress", "0", "4 KB", "3 KB", "in place", "2026-03-02T10:00:08Z"]
