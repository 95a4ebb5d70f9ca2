"""What `clean` did, or would do, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sessioncompress.core.text import counted, printable
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.clean import Cause, CleanStats
from sessioncompress.operations.forget import ForgetStats
from sessioncompress.operations.report import at_stake, kb, links_kept, status_of
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.clean/1"
KEPT = "kept"
DELETED = "deleted"

_NUMBERS = ("bytesDeleted", "originals", "originalsLost", "leftOver", "leftOverBytes", "lateBytes", "linksKept")


def line(stats: CleanStats, *, dry_run: bool) -> str:
    """Return the line of one session."""
    verb = "would delete" if dry_run else DELETED
    parts = []
    if stats.deleted and stats.bytes_deleted:
        numbers = stats.bytes_deleted, stats.originals, stats.originals_lost
        cost = ForgetStats(stats.path, *numbers, links_kept=stats.links_kept, referring=stats.referring)
        parts.append(f"{verb} {at_stake(cost, done=not dry_run)}: {stats.reason}")
    if stats.late_bytes:
        verb_first = "would carry" if dry_run else "carried"
        parts.append(f"{verb_first} {stats.late_bytes:,} bytes that came late over into the session")
    if stats.left_over:
        parts.append(
            f"{verb} {counted(stats.left_over, 'file', 'files')} that ended runs left, {kb(stats.left_over_bytes)}"
        )
    if not stats.deleted and stats.cause is not Cause.DEAD_RUN:
        parts.append(f"{'the rest is ' if stats.left_over else ''}{KEPT}: {stats.reason}")
        parts += [f"{KEPT} {links_kept(stats.links_kept)}"] if stats.links_kept else []
    return printable(f"{stats.path}: {'; '.join(parts)}")


def failed_line(error: SessionCompressError) -> str:
    """Return the line of a session that an error ended."""
    return f"{status_of(error).value}: {error}"


def total_line(done: Sequence[CleanStats], failed: int, lying: Sequence[int], *, dry_run: bool) -> str:
    """Return the line that ends a clean-up; `lying` are the bytes that lay beside each session before it."""
    going = [each for each in done if each.deleted or each.left_over]
    size = sum(each.bytes_deleted + each.left_over_bytes for each in going)
    parts = ["total: nothing to delete"]
    if going:
        verb = "would delete" if dry_run else DELETED
        parts = [f"total: {counted(len(going), 'session', 'sessions')}: {verb} {kb(size)}"]
    kept = len(done) - len(going)
    parts += [f"{number:,} {word}" for number, word in ((kept, KEPT), (failed, "failed or refused")) if number]
    found = "lie" if dry_run or not going else "lay"
    sessions = counted(len(lying), "session", "sessions")
    if lying or not failed:
        # Where something could not be looked at there may be any.
        parts.append(f"{kb(sum(lying))} {found} beside {sessions}" if lying else "no originals lie there")
    return "; ".join([*parts, *(["nothing is deleted without --yes"] if dry_run and going else [])])


def document(
    done: Sequence[CleanStats], failed: Sequence[tuple[str, SessionCompressError]], *, dry_run: bool
) -> dict[str, Any]:
    """Return the `--json` document."""
    files = [_file(stats, DELETED if stats.deleted or stats.left_over else KEPT) for stats in done]
    totals = {name: sum(each[name] for each in files) for name in _NUMBERS}
    for path, error in failed:
        stats = CleanStats(path, deleted=False, cause=None, reason=str(error))
        files.append(_file(stats, status_of(error).value))
    return {"schema": SCHEMA, "dryRun": dry_run, "files": files, "totals": totals}


def _file(stats: CleanStats, status: str) -> dict[str, Any]:
    said = to_json(stats)
    texts = {"path": said["path"], "status": status, "cause": said["cause"] or "", "reason": said["reason"]}
    return texts | {name: said[name] for name in _NUMBERS}
