"""The stories that the fixtures tell: which file holds which session."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.support.stories import anthropic, apis, chats, checkpoints, claude_code, codex, documents, odd, relatives

_GITCLAW = "state/sessions/2026-03-02T09-00-00-000Z_gitclaw.jsonl"

STORIES: Mapping[str, Callable[[], bytes]] = {
    "pi-anthropic.jsonl": lambda: anthropic.session().bytes(),
    "pi-responses.jsonl": lambda: apis.responses().bytes(),
    "pi-gemini.jsonl": lambda: apis.gemini().bytes(),
    "pi-one-prompt.jsonl": lambda: apis.one_prompt().bytes(),
    "pi-compacted.jsonl": lambda: checkpoints.compacted().bytes(),
    "pi-v1.jsonl": lambda: checkpoints.version_1().bytes(),
    "pi-v2.jsonl": lambda: checkpoints.version_2().bytes(),
    "pi-1x.jsonl": lambda: checkpoints.version_1x().bytes(),
    "omp.jsonl": lambda: relatives.oh_my_pi().bytes(),
    "omp-gemini.jsonl": lambda: relatives.oh_my_pi_gemini().bytes(),
    "claude-code.jsonl": lambda: claude_code.session().bytes(),
    "claude-compacted.jsonl": lambda: claude_code.compacted().bytes(),
    "claude-agent.jsonl": lambda: claude_code.subagent().bytes(),
    "openclaw.jsonl": lambda: relatives.openclaw().bytes(),
    "codex.jsonl": lambda: codex.rollout().bytes(),
    "codex-older.jsonl": lambda: codex.older().bytes(),
    "gemini.json": lambda: documents.gemini().bytes(),
    "opencode.json": lambda: documents.opencode().bytes(),
    "gemini.jsonl": lambda: chats.records().bytes(),
    "gencode.json": lambda: chats.gencode().bytes(),
    "chat.jsonl": lambda: chats.chat().bytes(),
    "chat.json": lambda: chats.chat(3).document(),
    f"gitclaw/GITCLAW-layout/{_GITCLAW}": lambda: relatives.gitclaw().bytes(),
    "gitclaw/GITCLAW-layout/state/issues/7.json": lambda: relatives.gitclaw_issue(f".GITCLAW/{_GITCLAW}"),
    "look-alike-deepseek.jsonl": odd.deepseek,
    "hostile.jsonl": odd.hostile,
    "bom.jsonl": odd.bom,
}
"""The name of each fixture, and how to make its bytes."""

NOT_SESSIONS = frozenset({"look-alike-deepseek.jsonl", "hostile.jsonl", "bom.jsonl"})
"""Fixtures that no agent wrote so."""
