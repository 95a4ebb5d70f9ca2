"""Statistics to text and to JSON; every outside string is made printable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sessioncompress.core.text import KB, counted, file_line, files_line, not_there, printable, strangers
from sessioncompress.errors import SessionCompressError
from sessioncompress.pipeline.summary import CompressionStats, Status, to_json

if TYPE_CHECKING:
    from sessioncompress.operations.forget import ForgetStats
    from sessioncompress.operations.stats import SessionStats
    from sessioncompress.operations.verify import VerifyStats

SCHEMA = "sessioncompress.compress/1"
VERIFY_SCHEMA = "sessioncompress.verify/1"
STATS_SCHEMA = "sessioncompress.stats/1"
_TOOL_WIDTH = 20
_MOST_NAMES = 10
_CUT = "..."
PASSED_OVER = "passed over (no sessions, or links)"

_NOT_IN_JSON = frozenset({"backup_added", "messages_changed", "imitated_in_calls", "turns", "exit_code", "budget"})
_TEXTS = ("path", "format", "status", "reason")
_NUMBERS = [name for name in CompressionStats.__struct_fields__ if name not in {*_TEXTS, *_NOT_IN_JSON}]
_PARTS = (
    ("tool_calls_compressed", "call"),
    ("tool_results_compressed", "result"),
    ("thinking_blocks_removed", "thinking"),
    ("images_replaced", "image"),
    ("mirrors_replaced", "mirror"),
)


def kb(size: int) -> str:
    """Return bytes as whole KB of 1,024 with separators."""
    return f"{round(size / KB):,} KB"


def smaller(before: int, after: int) -> str:
    """Say by how much: never over 100 %, and never rounded up to something that is not true."""
    if after >= before:
        return "not smaller"
    return f"{int(100 * (before - after) / before)} % smaller"


def failed(path: str, error: SessionCompressError) -> CompressionStats:
    """Return the statistics of a file that an error ended."""
    return CompressionStats(path, status=status_of(error), reason=str(error), exit_code=error.exit_code)


def status_of(error: SessionCompressError) -> Status:
    """Return how a file ended that an error ended."""
    return Status.REFUSED if error.exit_code == 4 else Status.FAILED  # noqa: PLR2004 - the code for refusals


def line(stats: CompressionStats) -> str:
    """Return the line of one file."""
    name = printable(stats.path)
    if stats.exit_code:
        return f"{stats.status.value}: {stats.reason}"
    if not stats.is_smaller:
        return file_line(name, stats.status.value, stats.reason)
    uncached = _uncached(stats) if stats.status is Status.WOULD_COMPRESS else ""
    parts = [change(stats, _arrow(stats.status)), *filter(None, [uncached, stats.reason])]
    return f"{name}: {'; '.join(parts)}"


def _uncached(stats: CompressionStats) -> str:
    """Say what the provider's prompt cache would no longer hold."""
    return f"the next request would send {stats.tokens_uncached:,} tokens (estimated) uncached"


def _arrow(status: Status) -> str:
    return "would become" if status is Status.WOULD_COMPRESS else "->"


def change(stats: CompressionStats, arrow: str = "->") -> str:
    """Return what a run did, or would do, in sizes and counts."""
    parts = [smaller(stats.original_size, stats.compressed_size) + "; " + _counts(stats)]
    parts.append(f"{'originals' if stats.originals_size else 'journal'} {kb(stats.backup_size)}")
    return f"{kb(stats.original_size)} {arrow} {kb(stats.compressed_size)} ({'; '.join(parts)})"


def _counts(stats: CompressionStats) -> str:
    counted = [(getattr(stats, name), word) for name, word in _PARTS]
    return ", ".join(f"{number:,} {_plural(number, word)}" for number, word in counted if number) or "no blocks"


def _plural(number: int, word: str) -> str:
    return word if number == 1 or word == "thinking" else word + "s"


def warnings(stats: CompressionStats) -> list[str]:
    """Return what a user should look at."""
    found = []
    if stats.markers_without_journal:
        one = stats.markers_without_journal == 1
        found.append(
            f"{printable(stats.path)}: {stats.markers_without_journal:,} {'marker' if one else 'markers'}, but no "
            "journal lies here: 'sessioncompress verify' tells whether what "
            f"{'it stands' if one else 'they stand'} for is found"
        )
    if stats.imitated_in_calls:
        one = stats.imitated_in_calls == 1
        found.append(
            f"{printable(stats.path)}: {stats.imitated_in_calls:,} "
            f"{'text in a call looks like a marker' if one else 'texts in calls look like markers'} of ours but "
            f"{'is' if one else 'are'} none: a model may have copied one into a file; look for '[[sessioncompress:' "
            "in the files it wrote"
        )
    return found


def total(all_stats: Sequence[CompressionStats]) -> CompressionStats:
    """Return the sums over all files."""
    sums = {name: sum(getattr(stats, name) for stats in all_stats) for name in _NUMBERS}
    return CompressionStats("total", status=Status.COMPRESSED, **sums)


def total_line(all_stats: Sequence[CompressionStats], *, passed_over: int = 0) -> str:
    """Return the line that ends a run: all files, how many of each status, what they and all beside them came to."""
    summed = total(all_stats)
    by_status = {status.replace("-", " "): sum(stats.status is status for stats in all_stats) for status in Status}
    head = files_line(len(all_stats), by_status, f"{passed_over} {PASSED_OVER}" if passed_over else "")
    smaller_ones = [stats.status for stats in all_stats if stats.is_smaller]
    if not smaller_ones:
        return head
    with_beside = summed.compressed_size + summed.backup_size
    before = summed.original_size + summed.backup_size - sum(stats.backup_added for stats in all_stats)
    return (
        f"{head}: {change(summed, _arrow(smaller_ones[0]))}; with what lies beside: "
        f"{kb(before)} {_arrow(smaller_ones[0])} {kb(with_beside)}, {smaller(before, with_beside)}; "
        f"tokens (estimated) {summed.tokens_before:,} -> {summed.tokens_after:,}"
    )


def document(all_stats: Sequence[CompressionStats], *, dry_run: bool = False) -> dict[str, Any]:
    """Return the `--json` document of compress."""
    totals = _totals(all_stats)
    return {"schema": SCHEMA, "dryRun": dry_run, "files": [_file(stats) for stats in all_stats], "totals": totals}


def _file(stats: CompressionStats) -> dict[str, Any]:
    names = zip(stats.__struct_fields__, to_json(stats).items(), strict=True)
    said = dict(item for name, item in names if name not in _NOT_IN_JSON)
    return {**said, "ratio": round(stats.ratio, 4)}


def _totals(all_stats: Sequence[CompressionStats]) -> dict[str, Any]:
    return {key: value for key, value in _file(total(all_stats)).items() if key not in _TEXTS}


def session_lines(stats: SessionStats) -> Iterable[str]:
    """Return the text of `stats` for one session: a head, a table by kind and tool, and what would be saved."""
    turns = counted(stats.turns, "turn", "turns")
    yield f"{printable(stats.path)}: {stats.format}, {kb(stats.size)}, {stats.lines:,} lines, {turns}"
    yield f"  {'kind':<10} {'tool':<{_TOOL_WIDTH}} {'blocks':>7} {'protected':>12} {'old':>12} {'dead':>12}  (bytes)"
    names = _in_columns({printable(share.tool) for share in stats.shares})
    for share in stats.shares:
        tool = names[printable(share.tool)] or "-"
        row = f"{share.protected:>12,} {share.old:>12,} {share.dead:>12,}"
        yield f"  {share.kind:<10} {tool:<{_TOOL_WIDTH}} {share.blocks:>7,} {row}"
    if not stats.shares:
        yield "  no blocks of 256 bytes or more"
    would = stats.would
    if would.is_smaller:
        yield f"  a run would do: {change(would)}"
        yield f"  tokens (estimated) {would.tokens_before:,} -> {would.tokens_after:,}"
        yield f"  {_uncached(would)}"
    else:
        yield f"  a run would leave it: {would.reason}"
    yield f"  beside it: {kb(stats.backup_size)}"


def _in_columns(tools: Iterable[str]) -> dict[str, str]:
    """Return the tools' names cut to their column, in the middle: tools of one server differ at their ends."""
    shown: dict[str, str] = {}
    room = _TOOL_WIDTH - len(_CUT)
    for tool in sorted(tools):
        cuts = [tool[:head] + _CUT + tool[head - room :] for head in range(room // 2, room)]
        names = [tool] if len(tool) <= _TOOL_WIDTH else cuts
        shown[tool] = next((name for name in names if name not in shown.values()), names[0])
    return shown


def sessions_total(all_stats: Sequence[SessionStats]) -> str:
    """Return what the sums over all sessions come to."""
    would = total([stats.would for stats in all_stats])
    parts = [f", {kb(sum(stats.size for stats in all_stats))}", "a run would leave them"]
    if any(stats.would.is_smaller for stats in all_stats):
        parts[1] = (
            f"a run would do: {change(would)}; tokens (estimated) {would.tokens_before:,} -> {would.tokens_after:,}"
        )
    return "; ".join([*parts, f"beside them: {kb(sum(stats.backup_size for stats in all_stats))}"])


def sessions_document(all_stats: Sequence[SessionStats]) -> dict[str, Any]:
    """Return the `--json` document of `stats`."""
    files = [to_json(stats) | {"would": _file(stats.would)} for stats in all_stats]
    totals = {key: sum(each[key] for each in files) for key in ("size", "backupSize", "lines", "turns")}
    would = _totals([stats.would for stats in all_stats])
    return {"schema": STATS_SCHEMA, "files": files, "totals": {**totals, "would": would}}


def at_stake(stats: ForgetStats, *, done: bool = False) -> str:
    """Return what `forget` deletes, or deleted, and what can then not be restored; and what of it stays."""
    stays = f", but for {links_kept(stats.links_kept)}" if stats.links_kept else ""
    return _deleted(stats, done=done) + stays


def links_kept(number: int) -> str:
    """Return what late links stay for."""
    lines = "lines that came late, or may still come, or of another machine or user"
    return counted(number, f"late link with {lines}", f"late links with {lines}")


def _deleted(stats: ForgetStats, *, done: bool) -> str:
    if not stats.originals:
        return f"{kb(stats.bytes_deleted)} without an original"
    what = f"{kb(stats.bytes_deleted)} with {counted(stats.originals, 'original', 'originals')}"
    refer = _referring(stats.referring)
    if not stats.originals_lost:
        has = "the session has their bytes"
        return f"{what} ({has}, but {refer})" if refer else f"{what} (nothing is lost: {has})"
    of = "which" if stats.originals_lost == stats.originals else f"{stats.originals_lost:,} of which"
    return f"{what}, {of} can {'no longer' if done else 'then not'} be restored" + (f"; {refer}" if refer else "")


def _referring(names: Sequence[str]) -> str:
    """Say which other sessions need originals; of many the first, and how many more."""
    if not names:
        return ""
    shown = [printable(each) for each in names[:_MOST_NAMES]]
    shown += [f"{len(names) - _MOST_NAMES:,} more"] if len(names) > _MOST_NAMES else []
    return f"{counted(len(names), 'session here refers', 'sessions here refer')} to these originals: {', '.join(shown)}"


def verified(stats: VerifyStats) -> str:
    """Return the line of `verify` for one session."""
    opaque = f", {stats.lines_not_understood:,} not understood" if stats.lines_not_understood else ""
    kept = _kept(stats.lines_rewritten, stats.originals, stats.lines_without_original)
    known = counted(stats.markers_of_relatives, "marker", "markers")
    known = f"{known} whose originals, read and right, lie in a relative's store" if stats.markers_of_relatives else ""
    notes = (kept, not_there(stats.lines_not_there), known, strangers(stats.unknown_markers))
    found = "; ".join(filter(None, notes))
    line = f"{printable(stats.path)}: {stats.format}, {stats.lines:,} lines{opaque}, {found}"
    if stats.open_to_others:
        line += "; other users may read its store, until the next run that writes there"
    if stats.foreign_files:
        foreign = counted(stats.foreign_files, "file that counts", "files that count")
        line += f"; {foreign} for nothing in its store: no run of this user on this machine made it"
    return line


def verified_total(all_stats: Sequence[VerifyStats]) -> str:
    """Return what `verify` found in all of several sessions."""
    lines = sum(stats.lines for stats in all_stats)
    rewritten = sum(stats.lines_rewritten for stats in all_stats)
    originals = sum(stats.originals for stats in all_stats)
    lost = sum(stats.lines_without_original for stats in all_stats)
    return f": {lines:,} lines, {_kept(rewritten, originals, lost)}"


def _kept(rewritten: int, originals: int, lost: int) -> str:
    """Say of how many rewritten lines the originals are right, and how many have none."""
    kept = f"{rewritten:,} rewritten, {originals:,} originals read and right"
    if not lost:
        return kept
    return f"{kept}; {counted(lost, 'line has', 'lines have')} no original (keepBackup: false) and cannot be restored"


def verify_document(all_stats: Iterable[VerifyStats]) -> dict[str, Any]:
    """Return the `--json` document of `verify`."""
    return {"schema": VERIFY_SCHEMA, "files": list(map(to_json, all_stats))}
