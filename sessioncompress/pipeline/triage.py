"""Decide whether a run has anything to do before anything slow is imported."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from sessioncompress.core import VERSION
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, KB, counted, kb
from sessioncompress.errors import failing
from sessioncompress.formats import table
from sessioncompress.pipeline.stats import CompressionStats, Status
from sessioncompress.policy.model import Policy, Rule, differences
from sessioncompress.store.layout import has_leftovers, newest_run, size_of, store_at

SWITCHED_OFF = "switched off by the policy (enabled: false)"


def skip(path: Path, policy: Policy, *, force: bool, form: str | None = None) -> CompressionStats | None:
    """Return the statistics of a file that the policy skips, or None if it must be opened to know."""
    said = status_unopened(path, policy, force=force, form=form)
    if said is None:
        return None
    status, reason = said
    size = path.lstat().st_size
    files = store_at(path, policy)
    originals = size_of(files.originals) or 0
    return CompressionStats(
        str(path),
        status=status,
        reason=reason,
        original_size=size,
        compressed_size=size,
        store_size=originals + (size_of(files.journal) or 0),
        originals_size=originals,
    )


def status_unopened(path: Path, policy: Policy, *, force: bool, form: str | None = None) -> tuple[Status, str] | None:
    """Return the status and reason of a file with nothing due, or None if it must be opened to know."""
    with failing(path):
        found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        return None
    if not policy.enabled:
        return Status.SKIPPED, SWITCHED_OFF
    reason = too_small(found.st_size, policy, force=force) if policy.every_turns is None else ""
    reason = reason or may_be_cached(found, policy)
    said = (Status.SKIPPED, reason) if reason else None
    if not reason and not force and form is None and (reason := why_settled(path, policy, found)):
        said = Status.UNCHANGED, reason
    with failing(path):
        # Leftovers make a run open the session; it picks them up before it asks again.
        return None if said and has_leftovers(path) else said


def estimate(path: Path, agent: str, size: int, policy: Policy) -> int:
    """Estimate the bytes that a run frees in a session that is due; 0 if that is little or unknown.

    Takes a share of the tool output since the last run, based on its first 512 KB.
    """
    from sessioncompress.core.marker import PREFIX_BYTES

    # No shares were measured for other settings. They don't apply either if markers show that a store was forgotten.
    if differences(policy).keys() - {"backupDir", "commitOriginals", "idleSeconds", "compact"}:
        return 0
    has_run, done, sample = False, 0, b""
    with suppress(OSError, ValueError, KeyError, TypeError):
        run = newest_run(store_at(path, policy).journal)
        has_run, done = True, int(run["compressedSize"]) if run["command"] == "compress" else 0
    with suppress(OSError), path.open("rb") as file:
        file.seek(done)
        sample = file.read(1 << 19)
    if PREFIX_BYTES in sample and not has_run:
        return 0
    (mark, share), most = table.FREES[agent], policy.tool_result_max_bytes
    over = sum(len(line) - most for line in sample.split(b"\n") if len(line) > most and mark in line)
    # After a run, the content protected now is balanced by what was protected then and is old now.
    stays = 0 if done else int(CHARACTERS_PER_TOKEN * (policy.protect_tokens or 0))
    # Rows in a database aren't read.
    part = over / len(sample) if sample else 1.0
    freed = round(share * (part * max(size - done, 0) - stays))
    return freed if freed >= policy.min_saved_kb * KB else 0


def promised(estimate: int, size: int) -> int:
    """Return an estimate over several sessions, or 0 if it is too small to promise: some sessions yield nothing."""
    return estimate if estimate > size / 50 else 0


def opens_anyway(path: Path, status: Status, *, named: bool, mends: bool) -> bool:
    """True if a file with nothing due must be opened all the same. The first bytes of a session tell.

    A skipped file that the user `named` may be no session, which is an error. And its agent may keep offsets into it
    elsewhere, which a run that `mends` them may have to correct.
    """
    is_skipped = status is Status.SKIPPED
    if not (named if is_skipped else mends):
        return False
    with failing(path), path.open("rb") as file:
        first = file.read(table.FIRST_BYTES)
    return (mends and bool(table.indexed(first))) or (is_skipped and not table.is_plainly_session(first))


def why_settled(path: Path, policy: Policy, found: os.stat_result, *, turns_counted: bool = False) -> str:
    """Return why nothing is due after the newest run; empty if something may be, or if no run compressed the session.

    With the rule `size`, nothing is due until the session has grown enough, unless its agent compacts it. A run takes
    about as long however little is new, and waiting leaves only that little. Set `turns_counted` if the caller knows
    that `everyTurns` isn't reached. Another policy or version, or a restore, makes a run due at once.
    """
    try:
        files = store_at(path, policy)
        run = newest_run(files.journal)
        left, modified = int(run["compressedSize"]), run["modifiedNs"]
        if (
            (run["type"], run["command"]) != ("run", "compress")
            or (run["version"], run["policy"]) != (VERSION, differences(policy))
            or (size_of(files.originals) or 0) != run["storeSize"]
            # In a database what it wrote may have been kept from the rows by a kill.
            or found.st_size == run["originalSize"]
        ):
            return ""
    except (OSError, ValueError, KeyError, TypeError):
        # No usable journal; the run will see.
        return ""
    came = found.st_size - left
    if came == 0 and modified == found.st_mtime_ns:
        return "already compressed, nothing new since"
    if policy.budget.rule is not Rule.SIZE or (policy.every_turns is not None and not turns_counted):
        return ""
    # This keeps the total cost of all runs at a few times the session's size, and the waiting part under a tenth. If
    # commits keep the originals, each run leaves git a version that it may have to pack whole, so half may wait.
    least = max(64 * KB, found.st_size // (2 if policy.commit_originals == "history" else 10))
    if not 0 <= came < least or _is_compacted(path, left):
        return ""
    return f"already compressed, {kb(min(came, least - KB))} new since; due at {kb(least)}"


def _is_compacted(path: Path, start: int) -> bool:
    """True if a file may hold a compaction by its agent after byte `start`."""
    from sessioncompress.core.jsonl import holds

    with failing(path), path.open("rb") as file:
        file.seek(start)
        return holds(file, *table.COMPACTIONS)


def check_originals(path: Path, policy: Policy) -> None:
    """Raise Damaged if the originals are smaller than the newest run left them. Used for skipped files."""
    files = store_at(path, policy)
    try:
        wanted = int(newest_run(files.journal)["storeSize"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if (there := size_of(files.originals) or 0) < wanted:
        from sessioncompress.store import journal as journals
        from sessioncompress.store.damage import any_readable, too_short

        left = any_readable(files.originals, journals.load(files.journal))
        raise too_short(files.originals, there, wanted, left=left)


def may_be_cached(found: os.stat_result, policy: Policy) -> str:
    """Return why a rewrite would now lose the provider's cache, if the session changed recently; else empty."""
    # A time far in the future is no evidence of a recent change.
    if abs(age := time.time() - found.st_mtime) >= policy.idle_seconds:
        return ""
    seconds = counted(round(max(age, 0)), "second", "seconds")
    return f"it changed {seconds} ago, idleSeconds {policy.idle_seconds:g}: its provider may still have it cached"


def too_small(size: int, policy: Policy, *, force: bool) -> str:
    """Return why a session is under the size threshold, or empty. Only the rule `size` has a threshold."""
    if force or policy.budget.rule is not Rule.SIZE or size >= policy.size_threshold_kb * KB:
        return ""
    # Rounding up would show a size equal to the threshold.
    said, most = min(round(size / KB), policy.size_threshold_kb - 1), policy.size_threshold_kb
    return f"{said:,} KB, under the threshold of {most:,} KB"
