"""`diff`: what a person reads of what a session lost, in any width, and the table."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sessioncompress.store.layout import store_in
from tests.support.build import PiSession
from tests.support.commands import references, run
from tests.support.runs import fixture, write


def test_a_narrow_terminal_has_the_original_above(compressed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message with its turn, line, role and time; each value with its sizes and the way back."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("diff", "session.jsonl").stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any(len(line) == 80 and line.endswith("...") for line in lines)
    assert lines[0] == "turn 1, line 5, assistant, 2026-03-02T09:01:05Z"
    ref = references(compressed)[0]
    at = next(number for number, line in enumerate(lines) if line.endswith(f", sessioncompress show {ref}"))
    assert re.fullmatch(r"  result of bash: 2\.2 KB -> 519 bytes, .*", lines[at])
    shown = lines[at + 1 : lines.index("", at)]
    signs = [line[:4] for line in shown]
    assert signs == sorted(signs, reverse=True)
    assert signs.count("  - ") == 13
    assert "  - ... 37 more lines" in shown
    assert "  + (removed)" in lines
    assert re.fullmatch(r"session\.jsonl: \d+ values in \d+ messages: .* KB -> .* KB; --stat .*", lines[-1])


def test_a_wide_terminal_has_both_beside_each_other(compressed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    lines = run("diff", "session.jsonl").stdout.splitlines()
    assert all(len(line) <= 160 for line in lines)
    first = next(line for line in lines if line.startswith("  total 745"))
    assert [part.strip() for part in first.split(" | ")] == ["total 745", "total 745"]
    assert {line.index(" | ") for line in lines if line.startswith("  ") and " | " in line} >= {79}


def test_the_table_has_a_row_for_each_kind_and_tool(compressed: Path) -> None:
    """Those that lost most first; the sums are those of all lines."""
    heading, *rows, total = (line.split() for line in run("diff", "--stat", "session.jsonl").stdout.splitlines())
    assert heading == ["kind", "tool", "values", "bytes", "bytes", "now"]
    numbers = [[int(each.replace(",", "")) for each in row[-3:]] for row in rows]
    assert total == ["total", *(f"{sum(column):,}" for column in zip(*numbers, strict=True))]
    assert [before - now for _, before, now in numbers] == sorted((b - n for _, b, n in numbers), reverse=True)
    assert ["result", "bash"] in [row[:2] for row in rows]


def test_where_nothing_is_replaced_it_says_why(session: Path) -> None:
    never = "session.jsonl: nothing was replaced: it has no store and no markers\n"
    assert run("diff", "session.jsonl").stdout == run("diff", "--stat", "session.jsonl").stdout == never
    assert run("compress", "session.jsonl").exit_code == run("restore", "session.jsonl").exit_code == 0
    assert run("diff", "session.jsonl").stdout.endswith(": every line has its original bytes\n")


def test_what_cannot_be_compared_is_named(compressed: Path) -> None:
    store_in(compressed).originals.unlink()
    result = run("diff", "session.jsonl")
    assert result.exit_code == 5
    assert "session.jsonl.originals.zst: it is missing" in result.stderr
    assert result.stdout == ""
    store_in(compressed).journal.unlink()
    assert run("diff", "--stat", "session.jsonl").exit_code == 4


def test_a_summary_is_told_in_numbers(session: Path) -> None:
    stats = json.loads(run("compact", "--json", "--drop-dead", "--keep-tokens", "2000", "session.jsonl").stdout)
    one = stats["files"][0]
    assert one["status"] == "compacted", one
    told = re.match(
        r"summary \(extractive, tokens\): ([\d,]+) -> ([\d,]+) tokens for the model; ",
        run("diff", "session.jsonl").stdout,
    )
    assert told
    for number, key in zip(told.groups(), ("tokensBefore", "tokensAfter"), strict=True):
        assert abs(int(number.replace(",", "")) - one[key]) < 3
    moved = re.search(r"; (\d+) lines moved to the originals\n", run("diff", "--stat", "session.jsonl").stdout)
    assert moved
    # One line was written anew, to hang on the summary.
    assert int(moved[1]) - one["linesDropped"] in (0, 1)


def test_nothing_of_a_session_moves_the_terminal(here: Path) -> None:
    """Escapes, wide characters, a line without end and one of many lines."""
    sent = PiSession()
    sent.user("a")
    sent.step("read\x1b[31m", {"path": "x"}, "\x1b]0;title\x07 \u202e \u6f22\u5b57" * 3000)
    sent.step("bash", {"command": "x"}, "one\r\n\ttwo\u009b2J\n" * 4000)
    for number in range(6):
        sent.user(f"{number}")
    write(here, sent.bytes())
    assert "% smaller" in run("compress", "--min-size", "0", "--keep-turns", "1", "session.jsonl").stdout
    for arguments in (["session.jsonl"], ["--stat", "session.jsonl"]):
        shown = run("diff", *arguments).stdout
        # Piped, tabs part the columns of the table.
        assert all(line.replace("\t", "").isprintable() for line in shown.splitlines())
        assert "read\\x1b[31m" in shown
        assert len(shown) < 20_000


def test_it_ends_with_its_reader(compressed: Path) -> None:
    line = f"set -o pipefail; {sys.executable} -m sessioncompress diff session.jsonl | head -1"
    done = subprocess.run(["bash", "-c", line], cwd=compressed.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("turn 1, line 5, ")


@pytest.mark.parametrize("named", ["session.jsonl", "."])
def test_on_a_terminal_it_goes_through_the_pager(compressed: Path, named: str) -> None:
    ours, its = pty.openpty()
    environment = os.environ | {"PAGER": "sh -c 'head -1; echo PAGED'", "TERM": "dumb"}
    command = [sys.executable, "-m", "sessioncompress", "diff", named]
    done = subprocess.Popen(command, cwd=compressed.parent, env=environment, stdout=its, stdin=its, stderr=its)
    os.close(its)
    shown = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            while data := terminal.read(4096):
                shown += data
        except OSError:
            pass
    assert done.wait() == 0
    first = {"session.jsonl": b"turn 1, line 5, ", ".": b"session.jsonl:"}[named]
    assert shown.splitlines()[0].startswith(first)
    assert b"PAGED" in shown.splitlines()
    assert b"Traceback" not in shown


def test_the_printed_command_finds_the_original(compressed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a session that is looked for nowhere: its path is in the command."""
    monkeypatch.chdir("/")
    ref = references(compressed)[0]
    line = next(each for each in run("diff", compressed).stdout.splitlines() if f"show {ref}" in each)
    _, *arguments = line.partition(", sessioncompress ")[2].split()
    assert arguments == [ref, str(compressed)]
    assert run("show", *arguments).exit_code == 0


def test_screen_copies_alone_are_counted(here: Path) -> None:
    """Codex writes an event after each step: a line each would bury what the model lost."""
    write(here, fixture("codex.jsonl"))
    done = run("compress", "--force", "--preset", "archive", "session.jsonl").stdout
    number = next(word for word in done.split(", ") if "screen copies" in word).partition(";")[0]
    *lines, counted, _ = run("diff", "session.jsonl").stdout.splitlines()
    assert re.fullmatch(rf"not shown: {number} alone, [0-9.]+ KB, which no model reads", counted)
    assert "  result of exec_command: " in "\n".join(lines)
    assert "screen copy" not in "\n".join(lines)
