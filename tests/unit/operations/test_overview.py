"""What a report measures of a session, and the sums over several."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.errors import NotASession
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.overview import REST, Measured, Row, Use, measure, overview
from sessioncompress.operations.restore import restore_session
from sessioncompress.pipeline.summary import Status
from sessioncompress.policy.model import BALANCED
from tests.support.attack import LONG
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


def test_the_store_of_a_summary_is_used(tmp_path: Path) -> None:
    """Though no line was rewritten; without a store nothing is unused."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    assert measure(path).unused == 0
    assert compact_session(path).status is Status.COMPACTED
    found = measure(path)
    assert found.store > 0 == found.unused


def test_without_originals_nothing_is_known_to_be_saved(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    policy = replace(BALANCED, keep_backup=False)
    compress_session(path, policy)
    found = measure(path, policy)
    assert (found.saved, found.unused) == (0, 0)


def test_the_uses_of_a_session_are_in_it(tmp_path: Path) -> None:
    """Their bytes and tokens come to no more than the session's."""
    for name in FIXTURES:
        found = measure(write(tmp_path, fixture(name), name))
        assert 0 < sum(use.size for use in found.uses) <= found.size, name
        assert 0 < sum(use.tokens for use in found.uses) <= found.tokens, name
        assert all(use.protected <= use.size for use in found.uses), name


def test_names_of_strangers_are_cut_and_made_printable(tmp_path: Path) -> None:
    made = PiSession(cwd="/home/user/\u202egnp").opening()
    made.user("Go.")
    for number in range(150):
        made.step(f"{LONG[:200]}{number}" if number else "\x1b[31m", {}, "output " * (60 + number))
    found = measure(write(tmp_path, made))
    assert found.project == "/home/user/\\u202egnp"
    assert len(found.uses) == 101
    assert max(len(use.tool) for use in found.uses) < 150
    assert all(use.tool.isprintable() for use in found.uses)
    assert measure(write(tmp_path, fixture("gemini.jsonl"), "g.jsonl")).project.startswith(("/", "sha256:"))


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


def test_a_session_without_answers_is_of_the_month_of_its_file(tmp_path: Path) -> None:
    """And of the project that is given with it, if its header names none."""
    path = write(tmp_path, PiSession(cwd="").opening())
    os.utime(path, (1_000_000_000, 1_000_000_000))
    found = measure(path, project="/kept")
    assert (found.month, found.project) == ("2001-09", "/kept")


def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotASession):
        measure(write(tmp_path, b'{"a": 1}\n'))


def made(**more: Any) -> Measured:
    return replace(NOTHING, **more)


def test_the_sums() -> None:
    """By each name, the largest first, months in order; a run that would add more than it frees frees nothing."""
    found = overview(
        [
            made(path="a", size=100, tokens=10, frees=50, adds=20, uses=(Use("result", "bash", 60, 20, 6),)),
            made(path="b", size=300, tokens=40, agent="codex", month="2026-01", project="", frees=1, adds=9),
            made(
                path="c",
                size=200,
                month="",
                uses=(
                    Use("result", "read", 70, 0, 0),
                    Use("mirror", "read", 80, 80),
                    Use("attachment", "skills", 50, 1, 0),
                ),
            ),
        ]
    )
    assert [each.path for each in found.sessions] == ["b", "c", "a"]
    assert found.agents == (Row("codex", 1, 300, 40, 0), Row("pi", 2, 300, 10, 30))
    assert found.projects == (Row("/work", 2, 300, 10, 30), Row("unknown", 1, 300, 40, 0))
    assert [row.name for row in found.months] == ["2026-01", "2026-03", "unknown"]
    assert found.kinds == (
        Row("result", 2, 130, 6, 20),
        Row("mirror", 1, 80, 0, 80),
        Row("attachment", 1, 50, 0, 1),
        Row(REST, 3, 340, 44, 0),
    )
    assert found.tools == (Row("read", 1, 150, 0, 80), Row("bash", 1, 60, 6, 20))
    assert found.total("size") == 600


def test_shares_are_of_disk_with_stores() -> None:
    """Those of what was saved, and of what a run would free."""
    found = overview([made(size=100, store=20, saved=50, frees=30, adds=10), made(size=10, store=5, unused=5)])
    assert found.disk == (160, 130, 110)
