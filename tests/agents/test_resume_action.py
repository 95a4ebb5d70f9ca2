"""What the action leaves is resumed by the real pi, from a fresh clone of the commit, as the next job would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents import pi
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES
from tests.agents.test_resume_pi import MIDDLE, resumed
from tests.cli.action.runner import Job
from tests.support.repository import Repository

SESSIONS = ".GITCLAW/state/sessions"


@pytest.mark.parametrize("originals", ["commit", "none"])
def test_the_next_job_goes_on_with_the_session(originals: str, tmp_path: Path) -> None:
    need(MIDDLE in pi.versions(), f"pi {MIDDLE}")
    repository = Repository(tmp_path / "work")
    folder = repository.folder / SESSIONS
    folder.mkdir(parents=True)
    session = pi.with_cwd(FIXTURES / "pi-anthropic.jsonl", tmp_path, folder / "session.jsonl")
    original = tmp_path / "session.jsonl"
    original.write_bytes(session.read_bytes())
    job = Job(repository, tmp_path / "job")
    job.pretend_pip()
    done = job.use({"paths": SESSIONS, "originals": originals})
    assert done.exit_code == 0, done.log
    repository.commit()
    committed = repository.clone(tmp_path / "clone").folder / SESSIONS / "session.jsonl"
    before, after = resumed(MIDDLE, [original, committed], tmp_path)
    assert differences(before.body, after.body, pi.thoughts(original)) == []
    assert after.size < before.size / 2
