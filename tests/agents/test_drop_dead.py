"""The real agents send the same for a session from which the old lines are gone as for one that holds them still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.restore import restore_session
from tests.agents import claude, codex, compare, gemini, opencode, pi
from tests.agents.compacting import SMALL
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, of_corpus
from tests.agents.standin import Request

TWICE = 2


def of_pi(version: str) -> Callable[[Path, Path], list[Request]]:
    def resumed(session: Path, folder: Path) -> list[Request]:
        need(version in pi.versions(), f"pi {version}")
        session = pi.with_cwd(session, folder, folder / "session.jsonl")
        requests: list[Request] = []
        for _ in range(TWICE):
            found = pi.run(version, session, folder / "run")
            session.write_bytes(found.session)
            requests += found.requests
        return requests

    return resumed


def of_claude(version: str) -> Callable[[Path, Path], list[Request]]:
    def resumed(session: Path, folder: Path) -> list[Request]:
        need(claude.command(version), f"Claude Code {version}")
        there = claude.placed(session, folder)
        return [request for _ in range(TWICE) for request in claude.go_on(version, there, None)]

    return resumed


def of_codex(session: Path, folder: Path) -> list[Request]:
    need(codex.program(), "Codex CLI")
    there = codex.placed(session, folder)
    return [request for _ in range(TWICE) for request in codex.go_on(there)]


def of_gemini(session: Path, folder: Path) -> list[Request]:
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    requests = []
    for _ in range(TWICE):
        requests.append(gemini.resume(session, folder))
        session = session.with_suffix(".jsonl")
        session.write_bytes(gemini.copy_in(folder, ".jsonl").read_bytes())
    return requests


def of_opencode(session: Path, folder: Path) -> list[Request]:
    need(opencode.program() is not None, "OpenCode")
    # It imports the session: the second time it would go on with what it made of it the first time.
    return opencode.resume_often(session, folder, 1)


RUNS = [
    ("pi-anthropic.jsonl", of_pi("0.74.2")),
    ("pi-anthropic.jsonl", of_pi("0.87.1")),
    ("pi-compacted.jsonl", of_pi("0.74.2")),
    ("pi-responses.jsonl", of_pi("0.87.1")),
    ("claude-code.jsonl", of_claude(claude.OLD)),
    ("claude-code.jsonl", of_claude(claude.NEW)),
    ("claude-compacted.jsonl", of_claude(claude.OLD)),
    ("codex.jsonl", of_codex),
    ("codex-older.jsonl", of_codex),
    ("gemini.jsonl", of_gemini),
    ("opencode.json", of_opencode),
]

CORPUS_RUNS = [
    ("9b0c0a5f", of_pi("0.74.2")),
    ("019da84b", of_pi("0.87.1")),
    ("da81b1d5", of_claude(claude.NEW)),
    ("019ed893", of_codex),
    ("019f1d64", of_codex),
    ("970c70a7", of_gemini),
    ("ses_277daa81", of_opencode),
]


@pytest.mark.parametrize(("name", "resume"), RUNS)
def test_a_fixture_without_its_old_lines_is_resumed(
    name: str, resume: Callable[[Path, Path], list[Request]], tmp_path: Path
) -> None:
    check(FIXTURES / name, resume, tmp_path)


@pytest.mark.parametrize(("name", "resume"), CORPUS_RUNS)
def test_a_real_session_without_its_old_lines_is_resumed(
    name: str, resume: Callable[[Path, Path], list[Request]], tmp_path: Path
) -> None:
    check(of_corpus(name), resume, tmp_path)


def check(session: Path, resume: Callable[[Path, Path], list[Request]], folder: Path) -> None:
    """Resume a session with its old lines and without; and take the checkpoint out of what the agent wrote."""
    requests, place = [], folder / "resumed"
    place.mkdir()
    if resume is of_codex:
        session = codex.ours(session, folder / session.name)
    original = session.read_bytes().rstrip(b"\n") + b"\n"
    paths = [folder / name / session.name for name in ("whole", "dropped")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(original)
        stats = compact_session(path, SMALL, drop_dead=path is paths[1])
        assert stats.is_compacted
        assert stats.lines_dropped or path is paths[0]
        copy = path.with_name(f"copy{path.suffix}")
        copy.write_bytes(path.read_bytes())
        requests.append(resume(copy, place))
    before, after = requests
    assert [compare.differences(was.body, now.body) for was, now in zip(before, after, strict=True)] == [[]] * len(
        after
    )
    restore_session(paths[1])
    assert paths[1].read_bytes() == original
