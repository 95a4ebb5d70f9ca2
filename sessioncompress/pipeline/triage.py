"""Whether a run has anything to do at all, decided before anything that takes time is imported."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sessioncompress.core import VERSION
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, KB, counted, kb
from sessioncompress.errors import failing
from sessioncompress.formats import table
from sessioncompress.policy.model import Policy, Rule, differences
from sessioncompress.store.layout import has_leftovers, last_line, size_of, store_at

if TYPE_CHECKING:
    from sessioncompress.pipeline.summary import CompressionStats

SKIPPED = "skipped"
UNCHANGED = "unchanged"
SWITCHED_OFF = "switched off by the policy (enabled: false)"


def skip(path: Path, policy: Policy, *, force: bool, form: str | None = None) -> CompressionStats | None:
    """Return the statistics of a file that the policy lets alone, or None where it must be opened to know."""
    said = not_due(path, policy, force=force, form=form)
    if said is None:
        return None
    from sessioncompress.pipeline.summary import CompressionStats, Status

    status, reason = said
    size = path.lstat().st_size
    files = store_at(path, policy)
    originals = size_of(files.originals) or 0
    return CompressionStats(
        str(path),
        status=Status(status),
        reason=reason,
        original_size=size,
        compressed_size=size,
        store_size=originals + (size_of(files.journal) or 0),
        originals_size=originals,
    )


def not_due(path: Path, policy: Policy, *, force: bool, form: str | None = None) -> tuple[str, str] | None:
    """Return the status of a file that has nothing due, and why; None where it must be opened to know."""
    with failing(path):
        found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        return None
    if not policy.enabled:
        return SKIPPED, SWITCHED_OFF
    reason = too_small(found.st_size, policy, force=force) if policy.every_turns is None else ""
    reason = reason or may_be_cached(found, policy)
    said = (SKIPPED, reason) if reason else None
    if not reason and not force and form is None and (reason := settled(path, policy, found)):
        said = UNCHANGED, reason
    with failing(path):
        # A run opens it then, and carries over what came late before it asks the same.
        return None if said and has_leftovers(path) else said


def estimate(path: Path, agent: str, size: int, policy: Policy) -> int:
    """Estimate the bytes that a run frees in all of a session that is due; 0 if that is little, or not known.

    It is a share of the tool output since the last run; the first 512 KB of that stand for all.
    """
    # Imported here: a run needs no estimate.
    import orjson

    # Nothing is known of other settings, nor where only markers tell of a run: its store was forgotten.
    if differences(policy).keys() - {"backupDir", "commitOriginals", "idleSeconds", "compact"}:
        return 0
    has_run, done, sample = False, 0, b""
    with suppress(OSError, ValueError, KeyError, TypeError):
        run = orjson.loads(last_line(store_at(path, policy).journal))
        has_run, done = True, int(run["compressedSize"]) if run["command"] == "compress" else 0
    with suppress(OSError), path.open("rb") as file:
        file.seek(done)
        sample = file.read(1 << 19)
    if PREFIX_BYTES in sample and not has_run:
        return 0
    (mark, share), most = table.FREES[agent], policy.tool_result_max_bytes
    over = sum(len(line) - most for line in sample.split(b"\n") if len(line) > most and mark in line)
    # What is protected then was old before, if there was a run.
    stays = 0 if done else int(CHARACTERS_PER_TOKEN * (policy.protect_tokens or 0))
    # Of rows in a database nothing is read.
    part = over / len(sample) if sample else 1.0
    freed = round(share * (part * max(size - done, 0) - stays))
    return freed if freed >= policy.min_saved_kb * KB else 0


def promised(estimate: int, size: int) -> int:
    """Return what was estimated of sessions, 0 if it is little: runs leave some, and the estimate cannot tell which."""
    return estimate if estimate > size / 50 else 0


def is_plainly_session(path: Path) -> bool:
    """Say whether a file's first bytes show a session: of one that is let alone, nothing more is read then."""
    with failing(path), path.open("rb") as file:
        return table.is_plainly_session(file.read(table.FIRST_BYTES))


def has_places(path: Path) -> bool:
    """Say whether a file's first bytes show a session in which its agent keeps places elsewhere, to be put right."""
    with failing(path), path.open("rb") as file:
        return bool(table.indexed(file.read(table.FIRST_BYTES)))


def settled(path: Path, policy: Policy, found: os.stat_result, *, turns_counted: bool = False) -> str:
    """Say why nothing is due after the newest run; empty where something may be, or where none compressed the session.

    By the rule `size` that is so until the session has grown, unless its agent compacts it: a run takes about as long
    however little came, and what it leaves for the next one is no more than that. `turns_counted` is whether the caller
    knows that `everyTurns` is not reached. Another policy or version, or a restore, makes a run due at once.
    """
    # Imported here: a file that is too small does not need it.
    import orjson

    try:
        files = store_at(path, policy)
        run = orjson.loads(last_line(files.journal))
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
        # No journal, or none that says so: a run will see.
        return ""
    came = found.st_size - left
    if came == 0 and modified == found.st_mtime_ns:
        return "already compressed, nothing new since"
    if policy.budget.rule is not Rule.SIZE or (policy.every_turns is not None and not turns_counted):
        return ""
    # Over the turns of a session its runs then cost a few times its size, and what waits is under a tenth of it. Where
    # commits keep the originals, each run leaves git a version that it may have to pack whole: half of it waits.
    least = max(64 * KB, found.st_size // (2 if policy.commit_originals == "history" else 10))
    if not 0 <= came < least or _is_compacted(path, left):
        return ""
    return f"already compressed, {kb(min(came, least - KB))} new since; due at {kb(least)}"


def _is_compacted(path: Path, start: int) -> bool:
    """Say whether what stands in a file from a byte on may hold a compaction by its agent."""
    # Imported here: hardly a session has grown by so little.
    from sessioncompress.core.jsonl import holds

    with failing(path), path.open("rb") as file:
        file.seek(start)
        return holds(file, *table.COMPACTIONS)


def check_originals(path: Path, policy: Policy) -> None:
    """Raise Damaged where there are fewer originals than the newest run left; of a skipped file none is read."""
    import orjson

    files = store_at(path, policy)
    try:
        wanted = int(orjson.loads(last_line(files.journal))["storeSize"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if (there := size_of(files.originals) or 0) < wanted:
        from sessioncompress.store import journal as journals
        from sessioncompress.store.damage import any_readable, too_short

        left = any_readable(files.originals, journals.load(files.journal))
        raise too_short(files.originals, there, wanted, left=left)


def may_be_cached(found: os.stat_result, policy: Policy) -> str:
    """Say that a session changed so few seconds ago that a rewriting would cost its provider's cache; empty if not."""
    # A time far in the future says nothing of when the file changed.
    if abs(age := time.time() - found.st_mtime) >= policy.idle_seconds:
        return ""
    seconds = counted(round(max(age, 0)), "second", "seconds")
    return f"it changed {seconds} ago, idleSeconds {policy.idle_seconds:g}: its provider may still have it cached"


def too_small(size: int, policy: Policy, *, force: bool) -> str:
    """Say that a session of so many bytes is under the threshold; empty if not. Other rules than `size` have none."""
    if force or policy.budget.rule is not Rule.SIZE or size >= policy.size_threshold_kb * KB:
        return ""
    # Rounded up it would not read as under it.
    said, most = min(round(size / KB), policy.size_threshold_kb - 1), policy.size_threshold_kb
    return f"{said:,} KB, under the threshold of {most:,} KB"
