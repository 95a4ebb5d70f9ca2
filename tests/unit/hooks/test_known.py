"""Which markers something beside the session knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessioncompress.errors import SessionCompressError
from sessioncompress.hooks.guard import known
from sessioncompress.store.layout import journals_in
from tests.support.runs import fixture
from tests.unit.hooks.calls import INVENTED, compressed, markers


def test_its_own(tmp_path: Path) -> None:
    session = compressed(tmp_path)
    own = list(dict.fromkeys(markers(session)))
    assert len(own) > 5
    assert known([INVENTED, *own], session) == own


def test_those_of_a_neighbour_of_which_it_may_be_a_fork(tmp_path: Path) -> None:
    parent, fork = compressed(tmp_path), tmp_path / "fork.jsonl"
    fork.write_bytes(fixture("claude-code.jsonl"))
    assert known([INVENTED, markers(parent)[0]], fork) == [markers(parent)[0]]


def test_those_of_sessions_elsewhere_are_not(tmp_path: Path) -> None:
    """They name no original here; and without anything beside the session, none is known."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    session = here / "session.jsonl"
    session.write_bytes(fixture("claude-code.jsonl"))
    assert known(markers(compressed(there)), session) == []


def test_those_of_its_subagents(tmp_path: Path) -> None:
    """Of a call of theirs, too, the agent names the session."""
    session, folder = tmp_path / "session.jsonl", tmp_path / "session" / "subagents"
    session.write_bytes(fixture("claude-code.jsonl"))
    folder.mkdir(parents=True)
    subagent = compressed(folder, "agent-1.jsonl")
    assert known([INVENTED, markers(subagent)[0]], session) == [markers(subagent)[0]]


def test_in_a_backup_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the user's configuration names."""
    session = compressed(tmp_path, backup_dir="kept")
    assert known(markers(session)[:1], session) == []
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    own = tmp_path / "configuration" / "sessioncompress" / "config.json"
    own.parent.mkdir(parents=True)
    own.write_text('{"session": {"backupDir": "kept"}}')
    own.chmod(0o600)
    assert known(markers(session)[:1], session) == markers(session)[:1]


def test_under_a_policy_with_an_error(tmp_path: Path) -> None:
    """Every run says what is wrong with it; the guard goes by where most have what lies beside."""
    session = compressed(tmp_path)
    (tmp_path / "compression.json").write_text('{"session": {"protectToken": 1}}')
    assert known([INVENTED, *markers(session)[:1]], session) == markers(session)[:1]


def test_one_that_names_no_original_if_a_run_put_it_there(tmp_path: Path) -> None:
    session = compressed(tmp_path, keep_backup=False)
    ours = markers(session)[0]
    assert "show" not in ours
    assert known([ours], session) == [ours]


def test_one_that_names_no_original_passes_where_the_agent_wrote_it(tmp_path: Path) -> None:
    """The call that is about to run stands in the session already: that line is none of ours."""
    session = compressed(tmp_path, keep_backup=False)
    quoted = "[[sessioncompress: 77 lines, 9.9 KB]]"
    with session.open("a", encoding="utf-8") as file:
        file.write(f'{{"type":"user","text":"{quoted}"}}\n')
    assert known([quoted], session) == []


def test_a_damaged_journal_is_an_error_only_where_it_must_be_read(tmp_path: Path) -> None:
    session = compressed(tmp_path)
    (journal,) = journals_in(tmp_path)
    journal.write_bytes(b"[]\n" + journal.read_bytes())
    assert known(markers(session)[:1], session) == markers(session)[:1]
    assert known(["[[sessioncompress: 77 lines, 9.9 KB]]", *markers(session)[:1]], session) == markers(session)[:1]
    with pytest.raises(SessionCompressError):
        known(["[[sessioncompress: 77 lines, 9.9 KB]]"], session)
