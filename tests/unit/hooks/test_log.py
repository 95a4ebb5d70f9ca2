"""The log is bounded, its owner's alone, and never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessioncompress.hooks import base


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "sessioncompress"


def test_it_stays_bounded(state: Path) -> None:
    for _ in range(2 * base.LARGEST // 1000 + 300):
        base.note_in_log("guard", "x" * 3000)
    assert sorted(each.name for each in state.iterdir()) == ["hook.log", "hook.log.1"]
    assert all(each.stat().st_size < base.LARGEST + 3000 for each in state.iterdir())


def test_what_cannot_be_noted_is_not(state: Path, tmp_path: Path) -> None:
    """A link that someone put there is not followed, and nothing fails."""
    state.mkdir()
    (state / "hook.log").symlink_to(tmp_path / "elsewhere")
    base.note_in_log("guard", "one")
    assert not (tmp_path / "elsewhere").exists()
    state.rename(tmp_path / "moved")
    state.write_text("a file")
    base.note_in_log("guard", "one")
    assert state.read_text() == "a file"


def test_without_a_home_nothing_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container whose user nobody knows; the project's folder gets no `~`."""
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr("os.path.expanduser", str)
    monkeypatch.chdir(tmp_path)
    base.note_in_log("guard", "one")
    assert list(tmp_path.iterdir()) == []
