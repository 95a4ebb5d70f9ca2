"""The hooks of Codex CLI, in its `hooks.json`; its `config.toml` says which of them it trusts, and is only read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sessioncompress.hooks.base import AgentHooks
from sessioncompress.hooks.settings import Settings
from sessioncompress.store.machine import at_home

_PLACES = {"PreToolUse": "pre_tool_use", "SessionEnd": "session_end"}
"""The events as Codex writes them where it notes which hooks it trusts."""


class _Codex(Settings):
    title = "Codex CLI"
    advice = "It calls them once you trust them: type /hooks in Codex."
    guarded = "PreToolUse"
    writing = "^(Bash|apply_patch|mcp__.*)$"
    # It allows the end of a session no more than three.
    seconds = (10, 3)
    elsewhere = "CODEX_HOME"

    def file(self) -> Path:
        return at_home(os.environ.get("CODEX_HOME") or "~/.codex") / "hooks.json"

    def switched_off(self, text: str) -> str:
        config = _config(self.file().with_name("config.toml"))
        features = config.get("features")
        if isinstance(features, dict) and False in (features.get("hooks"), features.get("codex_hooks")):
            return "features.hooks in config.toml is false"
        hooks = config.get("hooks")
        state = hooks.get("state") if isinstance(hooks, dict) else None
        places = [f"{_PLACES[event]}:{group}:{number}" for event, group, number in self.ours(text)]
        noted = [self._noted(state if isinstance(state, dict) else {}, place) for place in places]
        if not all("trusted_hash" in each for each in noted):
            return "Codex does not trust them yet: type /hooks in Codex"
        return "disabled under /hooks in Codex" if any(each.get("enabled") is False for each in noted) else ""

    def _noted(self, state: dict[str, Any], place: str) -> dict[str, Any]:
        """Find what Codex notes of a hook, by the path of its file, which it may have resolved."""
        found = (state.get(f"{path}:{place}") for path in (self.file(), self.file().resolve()))
        return next((each for each in found if isinstance(each, dict)), {})


def _config(path: Path) -> dict[str, Any]:
    """Read Codex's configuration; empty if there is none, or it cannot be read."""
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}


HOOKS: AgentHooks = _Codex()
