"""Rewrite coding-agent sessions in place into smaller ones that the agent can resume, and keep every original.

The functions; for one of them see help(sessioncompress.compress_session), since the rest of this page is long:

compress_session    make a session smaller, in place
restore_session     restore its original bytes
verify_session      check it and every original
show                read the originals that a marker names
inspect_session     measure where its bytes are, and what a run could save
budget_session      judge whether it is due, by a policy's rule
compact_session     summarize its old part, in the agent's own form
summarize_branch    leave a branch with a summary
handoff_session     summarize all of it for another agent
forget_session      delete its originals, which then cannot be restored
policy_for          find the policy that the command would use
sessions            list the sessions of all agents on this machine

A Policy decides what may be removed. Errors are SessionCompressError.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sessioncompress.core import VERSION as __version__

if TYPE_CHECKING:
    from sessioncompress.errors import SessionCompressError
    from sessioncompress.operations.branch import BranchStats, summarize_branch
    from sessioncompress.operations.compact import CompactStats, compact_session
    from sessioncompress.operations.compress import compress_session
    from sessioncompress.operations.forget import ForgetStats, Only, forget_session
    from sessioncompress.operations.goals import Goal
    from sessioncompress.operations.handoff import Handoff, handoff_session
    from sessioncompress.operations.restore import RestoreStats, restore_session
    from sessioncompress.operations.sessions import (
        Selection,
        Session,
        SessionStats,
        budget_session,
        inspect_session,
        sessions,
    )
    from sessioncompress.operations.show import Shown, show
    from sessioncompress.operations.verify import VerifyStats, verify_session
    from sessioncompress.pipeline.discover import Found
    from sessioncompress.pipeline.stats import BudgetStats, CompressionStats, Status
    from sessioncompress.policy.model import PRESETS, Budget, Compact, CutRule, Limits, Placeholder, Policy, Prune, Rule
    from sessioncompress.policy.sources import policy_for

_HOMES = {
    "errors": ("SessionCompressError",),
    "operations.branch": ("BranchStats", "summarize_branch"),
    "operations.compact": ("CompactStats", "compact_session"),
    "operations.compress": ("compress_session",),
    "operations.forget": ("ForgetStats", "Only", "forget_session"),
    "operations.goals": ("Goal",),
    "operations.handoff": ("Handoff", "handoff_session"),
    "operations.restore": ("RestoreStats", "restore_session"),
    "operations.show": ("Shown", "show"),
    "operations.sessions": ("Selection", "Session", "SessionStats", "budget_session", "inspect_session", "sessions"),
    "operations.verify": ("VerifyStats", "verify_session"),
    "pipeline.discover": ("Found",),
    "pipeline.stats": ("BudgetStats", "CompressionStats", "Status"),
    "policy.model": ("PRESETS", "Budget", "Compact", "CutRule", "Limits", "Placeholder", "Policy", "Prune", "Rule"),
    "policy.sources": ("policy_for",),
}

__all__ = [
    "PRESETS",
    "BranchStats",
    "Budget",
    "BudgetStats",
    "Compact",
    "CompactStats",
    "CompressionStats",
    "CutRule",
    "ForgetStats",
    "Found",
    "Goal",
    "Handoff",
    "Limits",
    "Only",
    "Placeholder",
    "Policy",
    "Prune",
    "RestoreStats",
    "Rule",
    "Selection",
    "Session",
    "SessionCompressError",
    "SessionStats",
    "Shown",
    "Status",
    "VerifyStats",
    "__version__",
    "budget_session",
    "compact_session",
    "compress_session",
    "forget_session",
    "handoff_session",
    "inspect_session",
    "policy_for",
    "restore_session",
    "sessions",
    "show",
    "summarize_branch",
    "verify_session",
]


def __getattr__(name: str) -> object:
    """Import a public name's module on first use, so that a run with nothing to do stays fast."""
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Include all public names, because `help` shows what this returns."""
    return sorted({*globals(), *__all__})
