"""The hooks of pi: an extension that calls both."""

from __future__ import annotations

import os
from pathlib import Path

from sessioncompress.hooks.base import AgentHooks
from sessioncompress.hooks.extension import Extension
from sessioncompress.store.machine import at_home


class _Pi(Extension):
    title = "pi"
    compresses = True
    own = "pi"

    def file(self) -> Path:
        # pi loads it in every project.
        agent = at_home(os.environ.get("PI_CODING_AGENT_DIR") or "~/.pi/agent")
        return agent / "extensions" / "sessioncompress.ts"


HOOKS: AgentHooks = _Pi()
