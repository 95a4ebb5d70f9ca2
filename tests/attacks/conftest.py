"""What attacks share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runs import HOMES


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of whoever runs the tests counts."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)
