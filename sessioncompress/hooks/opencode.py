"""The hook of OpenCode: a plugin that calls the guard. Its sessions lie in a database, and nothing compresses them."""

from __future__ import annotations

import os
from pathlib import Path

from sessioncompress.hooks.base import AgentHooks
from sessioncompress.hooks.extension import Extension
from sessioncompress.store.machine import at_home


class _OpenCode(Extension):
    title = "OpenCode"
    compresses = False
    own = "opencode"

    def file(self) -> Path:
        return at_home(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "opencode" / "plugins" / "sessioncompress.ts"


HOOKS: AgentHooks = _OpenCode()
