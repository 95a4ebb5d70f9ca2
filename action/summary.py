"""What a run of the action did, as the Markdown of a job summary; no text from outside can be Markdown in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sessioncompress.core.text import counted, kb, printable, smaller
from sessioncompress.operations.compact import CompactStats
from sessioncompress.pipeline.stats import CompressionStats, Status

MOST_ROWS = 200
"""A summary of over 1 MiB is not shown at all."""

_PLAIN = frozenset(" ./-")
_QUIET = (Status.UNCHANGED, Status.SKIPPED)


def summary(done: Sequence[CompressionStats], before: int, after: int, compacted: Sequence[CompactStats] = ()) -> str:
    """Return the page; `before` and `after` are the bytes of all sessions with what lies beside them."""
    return "".join(f"{line}\n" for line in _lines(done, before, after, compacted))


def _lines(
    done: Sequence[CompressionStats], before: int, after: int, compacted: Sequence[CompactStats]
) -> Iterator[str]:
    rows = [stats for stats in done if stats.status not in _QUIET]
    yield "### Sessions"
    yield ""
    if rows:
        yield "| session | before | after | smaller | store | outcome |"
        yield "|---|---:|---:|---|---:|---|"
        yield from map(_row, rows[:MOST_ROWS])
        yield ""
    yield f"{_counts(done, len(rows))}. With their stores: {kb(before)} -> {kb(after)}."
    yield ""
    if written := [stats for stats in compacted if stats.is_compacted]:
        was, now = (sum(getattr(each, name) for each in written) for name in ("tokens_before", "tokens_after"))
        yield f"{counted(len(written), 'session', 'sessions')} compacted: {was:,} -> {now:,} tokens for the model."
        yield ""


def _row(stats: CompressionStats) -> str:
    name = f"<code>{_text(stats.path)}</code>"
    if stats.status is not Status.COMPRESSED:
        return f"| {name} | | | | | {stats.status.value}: {_text(stats.reason)} |"
    sizes = (kb(stats.original_size), kb(stats.compressed_size), smaller(stats.original_size, stats.compressed_size))
    return f"| {name} | {' | '.join(sizes)} | {kb(stats.store_size)} | {stats.status.value} |"


def _counts(done: Sequence[CompressionStats], rows: int) -> str:
    parts = [f"{sum(stats.status is status for stats in done):,} {status.value}" for status in Status]
    parts = [part for part in parts if not part.startswith("0 ")] or ["No sessions"]
    more = f" ({rows - MOST_ROWS:,} of them not listed)" if rows > MOST_ROWS else ""
    return ", ".join(parts) + more


def _text(text: str) -> str:
    """Return a text in which nothing means anything to Markdown or HTML."""
    return "".join(char if char.isalnum() or char in _PLAIN else f"&#{ord(char)};" for char in printable(text))
