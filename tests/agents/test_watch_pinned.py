"""What the watch looks at with the newest agents, with some that are pinned: in CI, they go on as without us.

The others take minutes, and the tests of their resumes start them with the same versions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.installed import MODULES, need
from tests.agents.watch import watch
from tests.agents.watch_agents import AGENTS

PI = "@earendil-works/pi-coding-agent"
"""Several versions of it are installed, each under a name of its own."""


@pytest.mark.parametrize("name", ["claude-code", "codex", "pi"])
def test_a_pinned_agent_goes_on_with_its_own_sessions(name: str, tmp_path: Path) -> None:
    need(MODULES.exists(), name)
    for path in [*MODULES.glob("[!@]*"), *MODULES.glob("@*/*")]:
        link = tmp_path / path.relative_to(MODULES)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(path)
    newest = max(MODULES.glob("pi-*"), key=lambda path: path.name)
    (tmp_path / PI).unlink(missing_ok=True)
    (tmp_path / PI).symlink_to(newest)
    lines, _ = watch(AGENTS[name], tmp_path)
    assert [line for line in lines if line.startswith("WRONG")] == []
