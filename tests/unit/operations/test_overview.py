"""What a report measures of a session, and the sums over several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.overview import Measured, measure
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
