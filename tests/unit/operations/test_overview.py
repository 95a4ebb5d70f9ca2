"""What a report measures of a session, and the sums over several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.operations import page
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.overview import Measured, Overview, Row, measure
from sessioncompress.operations.page import Money, Price, Unit, breaks, count, money, share
from sessioncompress.operations.restore import restore_session
from tests.support.runs import fixture, write
from tests.support.session import PiSession

FIXTURES = ("pi-anthropic.jsonl", "claude-code.jsonl", "codex.jsonl", "gemini.jsonl", "opencode.json", "omp.jsonl")
NOTHING = Measured("s", "pi", "/work", "claude-opus-5", "2026-03", 0, 0, 0, 0, 0, 0, 0, 0, 0, ())


@pytest.mark.parametrize("name", FIXTURES)
def test_what_was_saved_is_what_would_have_been(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, fixture(name), name)
    before = measure(path)
    assert (before.saved, before.saved_tokens, before.store) == (0, 0, 0)
    assert before.frees > before.adds > 0
    done = compress_session(path)
    after = measure(path)
    assert (after.frees, after.adds, after.frees_tokens) == (0, 0, 0)
    assert (after.size, after.saved, after.unused) == (done.compressed_size, before.frees, 0)
    # Only a run that writes has an id.
    assert 0 <= after.store - before.adds < 100
    assert after.saved_tokens == before.frees_tokens
    assert (after.agent, after.project, after.model, after.month) == (
        before.agent,
        before.project,
        before.model,
        before.month,
    )
    restore_session(path)
    again = measure(path)
    assert (again.size, again.saved, again.saved_tokens) == (before.size, 0, 0)
    assert again.unused == again.store > after.store


DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("project", "shown"), [(DIGEST, "sha256:0123456789ab"), (f"/{DIGEST[1:]}", f"/{DIGEST[1:]}"), ("", "")]
)
def test_only_a_project_is_shortened_as_a_digest(tmp_path: Path, project: str, shown: str) -> None:
    """Names of tools stay, whatever they look like."""
    made = PiSession(cwd="").opening()
    made.user("Go.")
    made.step(DIGEST, {}, "output " * 60)
    found = measure(write(tmp_path, made), project=project)
    assert found.project == shown
    assert {use.tool for use in found.uses} == {DIGEST}


def made(**more: Any) -> Measured:
    return replace(NOTHING, **more)


# The page

WORDED = [
    (count(999_999), "999,999"),
    (count(1_250_000), "1.2 million"),
    (Unit(1024, "KB").write(2_000_000), "1,953"),
    (Unit(1024**2, "MB").write(2_000_000), "1.9"),
    (Unit(1024**2, "MB").write(20_000), "<0.1"),
    (Unit(1024**2, "MB").write(0), "0"),
    (share(999, 1000), "99 %"),
    (share(9, 1000), "<1 %"),
    (share(0, 1000), "0 %"),
    (share(0, 0), "-"),
    (str(breaks("/a/<b>")), "/<wbr>a/<wbr>&lt;b&gt;"),
    (page._label("short"), "short"),
    (page._label("/home/somebody/projects/tool"), "projects/tool"),
    (page._label("/home/a-folder-with-a-long-name"), "/home/a-folder-wi\u2026"),
    (page._label("mcp__server__a_long_tool"), "mcp__server__a_lo\u2026"),
    (page._label("\u6c34" * 9), "\u6c34" * 9),
    (page._label("\u6c34" * 10), "\u6c34" * 8 + "\u2026"),
]

MONEY = [
    ("not a price", [], Money(0, 0)),
    ("all models", [Price("*", 2)], Money(8, 2)),
    ("the first that fits", [Price("CLAUDE-*", 1), Price("*", 2)], Money(7, 2)),
    ("some models", [Price("claude-*", 10)], Money(10, 1)),
]


@pytest.mark.parametrize(("said", "wanted"), WORDED, ids=[wanted for _, wanted in WORDED])
def test_words(said: str, wanted: str) -> None:
    """A share is never claimed to be more than it is."""
    assert said == wanted


@pytest.mark.parametrize(("prices", "wanted"), [row[1:] for row in MONEY], ids=[row[0] for row in MONEY])
def test_money(prices: list[Price], wanted: Money) -> None:
    claude = replace(NOTHING, frees_tokens=1_000_000)
    gpt = replace(NOTHING, model="gpt-5", frees_tokens=3_000_000)
    assert money([claude, gpt], "frees_tokens", prices) == wanted


def test_long_tables_are_summed_up() -> None:
    """The smallest projects and tools in one row, and the oldest months."""
    rows = tuple(Row(f"n{number:02}", 1, 100 - number, 10, 1) for number in range(40))
    tables = {each.key: each for each in page._tables(Overview((), rows, rows, rows, rows, rows))}
    assert len(tables["agents"].rows) == 40
    assert tables["projects"].rows[-1] == Row("28 other projects", 28, sum(range(61, 89)), 280, 28)
    assert tables["tools"].rows[-1] == Row("28 other tools", 0, sum(range(61, 89)), 280, 28)
    assert [row.name for row in tables["months"].rows[:2]] == ["earlier", "n16"]
    assert {each.size for each in tables.values()} == {sum(range(61, 101))}
    assert (len(tables["tools"].bars), len(tables["months"].bars)) == (8, 25)
