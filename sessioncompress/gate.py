"""Whether a run has anything to do at all, decided before anything that takes time is imported."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

from sessioncompress.errors import failing
from sessioncompress.policy import Policy
from sessioncompress.stats import CompressionStats, Status

KB = 1024


def skip(path: Path, policy: Policy, *, force: bool) -> CompressionStats | None:
    """Return the statistics of a file that the policy lets alone, or None where it must be opened to know."""
    with failing(path):
        found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        return None
    size = found.st_size
    skipped = CompressionStats(str(path), status=Status.SKIPPED, original_size=size, compressed_size=size)
    if not policy.enabled:
        return replace(skipped, reason="switched off by the policy (enabled: false)")
    if is_small(size, policy, force=force) and policy.every_turns is None:
        return replace(skipped, reason=too_small(size, policy))
    return None


def is_small(size: int, policy: Policy, *, force: bool) -> bool:
    """Say whether a session of so many bytes is under the threshold."""
    return size < policy.size_threshold_kb * KB and not force


def too_small(size: int, policy: Policy) -> str:
    """Say that a session is under the threshold."""
    return f"{size / KB:,.0f} KB, under the threshold of {policy.size_threshold_kb:,} KB"
