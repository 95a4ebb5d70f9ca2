"""Format statistics as text and as JSON. Every outside string is made printable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from sessioncompress.compressors import KINDS
from sessioncompress.core.checkpoint import EXTRACTIVE
from sessioncompress.core.model import Kind
from sessioncompress.core.text import counted, file_line, files_line, kb, listed, printable, smaller
from sessioncompress.operations import reasons
from sessioncompress.operations.batch import PASSED_OVER
from sessioncompress.pipeline.stats import CompressionStats, Status, to_json
from sessioncompress.store.git import INTO_A_STORE
from sessioncompress.store.layout import HISTORY, JOURNAL

if TYPE_CHECKING:
    from sessioncompress.operations.compact import CompactStats
    from sessioncompress.operations.forget import ForgetStats
    from sessioncompress.operations.sessions import SessionStats
    from sessioncompress.operations.verify import VerifyStats

_NOT_IN_JSON = frozenset(
    {"othersReplaced", "messagesChanged", "imitatedInCalls", "turns", "gapAt", "exitCode", "budget"}
)


def line(stats: CompressionStats) -> str:
    """Format one file's result with all details."""
    name = printable(stats.path)
    if not stats.is_smaller:
        opaque = f"; {_opaque(stats)}" if stats.lines_not_understood else ""
        return file_line(name, stats.status.value, stats.reason) + opaque
    parts = [change(stats, arrow(stats)), tokens(stats)]
    parts += [_uncached(stats)] if stats.status is Status.WOULD_COMPRESS else []
    parts += [_opaque(stats)] if stats.lines_not_understood else []
    return f"{name}: {'; '.join([*parts, stats.reason] if stats.reason else parts)}"


def _opaque(stats: CompressionStats) -> str:
    number = stats.lines_not_understood
    stayed = counted(
        number, "line was not understood and was left alone", "lines were not understood and were left alone"
    )
    return f"{stayed}; 'sessioncompress verify' says which, for the same sessions"


def arrow(stats: CompressionStats) -> str:
    """Return the text between a size before and after."""
    return "would become" if stats.status is Status.WOULD_COMPRESS else "->"


def tokens(stats: CompressionStats) -> str:
    """Format the tokens before and after a run, and the agent's recorded number."""
    return f"tokens {stats.tokens_before:,} -> {stats.tokens_after:,} ({_estimated(stats)})"


def _estimated(stats: CompressionStats | CompactStats) -> str:
    return "estimated" + ("" if stats.tokens_recorded is None else f"; {stats.tokens_recorded:,} recorded before")


def compact_line(stats: CompactStats) -> str:
    """Format one file's result of `compact`."""
    said = f"{stats.status}: {stats.reason}"
    if stats.is_compacted:
        kept = f"{stats.messages_kept:,} of {counted(stats.messages_before, 'message', 'messages')} kept"
        would = "would be " if stats.status is Status.WOULD_COMPACT else ""
        inside = ", starting in the middle of a turn" if stats.splits_turn else ""
        said = (
            f"{would}{stats.tokens_before:,} -> {stats.tokens_after:,} tokens for the model, "
            f"{stats.tokens_summary:,} of them the summary{author(stats.by, stats.model)} "
            f"({kept}{inside}; {_estimated(stats)}); "
            f"{kb(stats.size_before)} -> {kb(stats.size_after, stats.size_before)} on disk"
        )
        if stats.lines_dropped:
            said += f", {counted(stats.lines_dropped, 'old line', 'old lines')} moved to the originals"
        if stats.by == EXTRACTIVE and stats.tokens_sent and not stats.model_failure:
            said += f"; {sending(stats.tokens_sent)}"
        said += f"; {stats.reason}" if stats.reason else ""
    return f"{printable(stats.path)}: {said}"


def sending(tokens: int) -> str:
    """Format how much a run would send to a model."""
    return f"a run would send {tokens:,} tokens"


def author(by: str, model: str) -> str:
    """Name the author of a summary unless it is the extract."""
    if by in ("", EXTRACTIVE):
        return ""
    return f" by the model {printable(model)}" if model else f" by the {by}"


def _uncached(stats: CompressionStats) -> str:
    return f"the next request would send {stats.tokens_uncached:,} of them uncached"


def change(stats: CompressionStats, become: str = "->") -> str:
    """Format a run's actual or expected effect: sizes before and after, replaced blocks, and the store."""
    by = smaller(stats.original_size, stats.compressed_size)
    before = stats.original_size
    sizes = f"{kb(before)} {become} {kb(stats.compressed_size, before)}"
    return f"{sizes} ({by}; {replaced(stats)}; store {kb(stats.store_size, before)})"


def replaced(stats: CompressionStats) -> str:
    """Format how many blocks of each kind a run replaced, or would replace."""
    others = stats.others_replaced
    numbers = [(of, getattr(stats, of.field) if of.field else others.get(kind, 0)) for kind, of in KINDS.items()]
    cleared = f" ({stats.tool_results_cleared:,} cleared)" if stats.tool_results_cleared else ""
    counts = [
        counted(number, of.one, of.several) + cleared * (of is KINDS[Kind.RESULT]) for of, number in numbers if number
    ]
    return ", ".join(counts) or "no blocks"


def warnings(stats: CompressionStats, *, is_news: bool = True) -> list[str]:
    """List warnings about this session for the user."""
    name, found = printable(stats.path), []
    if number := stats.markers_without_journal:
        found.append(
            f"{name}: {counted(number, 'marker', 'markers')}, but its store is missing; 'sessioncompress verify' says "
            f"whether {'its original' if number == 1 else 'their originals'} can be found"
        )
    if number := stats.blobs_out_of_reach:
        found.append(
            f"{name}: originals are in {counted(number, 'git blob', 'git blobs')} of no commit that HEAD comes from; "
            "'sessioncompress verify' says what to do"
        )
    elif number := stats.blobs_in_commits:
        found.append(
            f"{name}: originals of earlier runs are only in commits ({counted(number, 'git blob', 'git blobs')}), "
            f"which a squash leaves out; {INTO_A_STORE}"
        )
    if stats.gap_at and is_news:
        gap = f"the parent of line {stats.gap_at:,} is missing, so {stats.format} goes on from that line"
        found.append(f"{name}: {gap}; the lines before it are protected too")
    if stats.format == "opencode" and stats.run and stats.path.endswith(".json"):
        how = "'opencode session delete ID' first: an import does not change an existing session"
        found.append(f"{name}: to continue it in OpenCode, run {how}")
    if number := stats.imitated_in_calls:
        looks = counted(number, "text in a call looks like a marker", "texts in calls look like markers")
        found.append(
            f"{name}: {looks} of ours but {'is not one' if number == 1 else 'are not'}: a model may have copied one "
            "into a file; look for '[[sessioncompress:' and 'in it: ' in the files it wrote"
        )
    return found


def total(all_stats: Sequence[CompressionStats]) -> CompressionStats:
    """Sum the numbers of all files."""
    numbers = [name for name, value in asdict(CompressionStats("")).items() if type(value) is int]
    sums = {name: sum(getattr(stats, name) for stats in all_stats) for name in numbers}
    others = sum((Counter(stats.others_replaced) for stats in all_stats), Counter[str]())
    return CompressionStats("total", status=Status.COMPRESSED, others_replaced=others, **sums)


def total_lines(all_stats: Sequence[CompressionStats], *, passed_over: int) -> list[str]:
    """Format the end of a run: the files by status, and the change in size with and without stores."""
    by_status = {status.replace("-", " "): sum(stats.status is status for stats in all_stats) for status in Status}
    head = files_line(len(all_stats), by_status, f"{passed_over} {PASSED_OVER}" if passed_over else "")
    changed = [stats for stats in all_stats if stats.is_smaller]
    lines = [head, *(changes(all_stats, arrow(changed[0])) if changed else [])]
    summed = total(all_stats)
    return [*lines, f"  {_opaque(summed)}"] if summed.lines_not_understood else lines


def changes(all_stats: Sequence[CompressionStats], become: str) -> list[str]:
    """Format the effect of runs over several sessions, one line each for bytes, tokens and blocks."""
    summed = total(all_stats)
    in_all = summed.compressed_size + summed.store_size
    before = summed.original_size + summed.store_size - sum(stats.store_added for stats in all_stats)
    sizes = f"{kb(summed.original_size)} {become} {kb(summed.compressed_size, before)}"
    by = smaller(summed.original_size, summed.compressed_size)
    with_stores = f"{kb(before)} {become} {kb(in_all, before)}"
    return [
        f"  sessions: {sizes}, {by}; stores {kb(summed.store_size, before)}",
        f"  with the stores: {with_stores}, {smaller(before, in_all)}",
        # Only changed sessions count, because some others were not read.
        f"  of those changed: {tokens(total([stats for stats in all_stats if stats.is_smaller]))}",
        f"  replaced: {replaced(summed)}",
    ]


def document(all_stats: Sequence[CompressionStats], *, dry_run: bool = False) -> dict[str, Any]:
    """Build the `--json` document of `compress`."""
    return {"dryRun": dry_run, "files": [_file(stats) for stats in all_stats], "totals": _totals(all_stats)}


def _file(stats: CompressionStats) -> dict[str, Any]:
    said = {key: value for key, value in to_json(stats).items() if key not in _NOT_IN_JSON}
    return {**said, "ratio": round(stats.ratio, 4), "compressedShare": round(1 - stats.ratio, 4)}


def _totals(all_stats: Sequence[CompressionStats]) -> dict[str, Any]:
    not_summed = ("path", "format", "status", "reason", "run", "tokensRecorded")
    return {key: value for key, value in _file(total(all_stats)).items() if key not in not_summed}


def inspected(stats: SessionStats) -> list[str]:
    """Format the text of `stats` for one session, before and after the table of shares."""
    turns = counted(stats.turns, "turn", "turns")
    head = f"{stats.format}, {kb(stats.size)}, {stats.lines:,} lines, {turns}, store {kb(stats.store_size)}"
    would = stats.would
    if not would.is_smaller:
        return [f"{printable(stats.path)}: {head}", f"a run would leave it alone: {would.reason}"]
    size, by = would.original_size, smaller(would.original_size, would.compressed_size)
    return [
        f"{printable(stats.path)}: {head}",
        f"after a run: {kb(size)} -> {kb(would.compressed_size, size)} ({by}; store {kb(would.store_size, size)})",
        f"  replaced: {replaced(would)}",
        f"  {tokens(would)}; {_uncached(would)}",
    ]


def inspected_total(all_stats: Sequence[SessionStats], reached: Sequence[SessionStats]) -> list[str]:
    """Format the totals of `stats` over several sessions. A run skips packed ones, which are not in `reached`."""
    size, stores = (sum(getattr(stats, name) for stats in all_stats) for name in ("size", "store_size"))
    head = f"{kb(size)}, stores {kb(stores, size)}"
    if packed := len(all_stats) - len(reached):
        before = size + stores - sum(stats.size + stats.store_size for stats in reached)
        head += f"; {packed:,} of them packed, {kb(before)} with their stores"
    if not any(stats.would.is_smaller for stats in reached):
        return [head, "a run would change nothing"]
    return [head, "after a run:", *changes([stats.would for stats in reached], "->")]


def sessions_document(all_stats: Sequence[SessionStats], reached: Sequence[SessionStats]) -> dict[str, Any]:
    """Build the `--json` document of `stats`; a run skips packed sessions."""
    # A dry run names the session by its real path.
    files = [to_json(each) | {"would": _file(replace(each.would, path=each.path))} for each in all_stats]
    totals = {key: sum(each[key] for each in files) for key in ("size", "storeSize", "lines", "turns")}
    would = _totals([stats.would for stats in reached])
    return {"files": files, "totals": {**totals, "would": would}}


def at_stake(stats: ForgetStats, *, done: bool = False) -> str:
    """Format what `forget` deletes, what can't be restored after that, and what stays."""
    stays = f", and what {counted(stats.packs, 'pack', 'packs')} kept of it" if stats.packs else ""
    stays += f", but for {links_kept(stats.links_kept)}" if stats.links_kept else ""
    stays += f"; of {stats.in_commits:,} only the places go: git still has the lines" if stats.in_commits else ""
    if not stats.originals:
        return f"{kb(stats.bytes_deleted)} with no originals{stays}"
    what = f"{kb(stats.bytes_deleted)} with {counted(stats.originals, 'original', 'originals')}"
    if stats.dropped:
        what += f" (among them {counted(stats.dropped, 'old line', 'old lines')} that compact moved out of the session)"
    what += f" and {counted(stats.outputs, 'file', 'files')} of its agent with a whole output" if stats.outputs else ""
    refer = ""
    if number := len(stats.referring):
        refer = counted(number, "session here refers", "sessions here refer")
        refer += f" to these originals: {listed(list(map(printable, stats.referring)))}"
    if stats.originals_lost:
        of = "which" if stats.originals_lost == stats.originals else f"{stats.originals_lost:,} of which"
        verb = "be found by 'restore'" if stats.in_commits else "be restored"
        lost = f"{what}, {of} {f'can no longer {verb}' if done else f'cannot {verb} after that'}"
        return f"{lost}; {refer}{stays}" if refer else lost + stays
    has = "the session still has their bytes"
    return f"{what} ({f'{has}, but {refer}' if refer else f'nothing is lost: {has}'}){stays}"


def links_kept(number: int) -> str:
    """Format the number of late links that stay, and the reason."""
    lines = "lines that came late, may still come, or belong to another machine or user"
    return counted(number, f"late link with {lines}", f"late links with {lines}")


def verified(stats: VerifyStats) -> str:
    """Format the result of `verify` for one session."""
    opaque = f", {stats.lines_not_understood:,} not understood" if stats.lines_not_understood else ""
    if at := stats.not_understood_at:
        opaque += f" ({'line' if len(at) == 1 else 'lines'} {listed(at)})"
    notes = [_kept(stats), *noticed(stats)]
    for each in [printable(path) for path, more in stats.elsewhere.items() if not more]:
        has_journal = each.endswith((HISTORY, JOURNAL))
        without = f"the originals {each} have no journal; the store in use has them, too"
        notes.append(f"its other store, {each}, is whole" if has_journal else without)
    return f"{printable(stats.path)}: {stats.format}, {stats.lines:,} lines{opaque}, {'; '.join(notes)}"


def noticed(stats: VerifyStats) -> list[str]:
    """Format notes about a session that is otherwise fine."""
    known = counted(stats.markers_of_relatives, "marker", "markers")
    known = f"{known} with originals in a relative's store, checked, all good" if stats.markers_of_relatives else ""
    from sessioncompress.operations.verify import told_of

    changed = told_of(stats.changed)
    if stats.was_changed and not (changed or stats.lines_not_there):
        changed = reasons.CHANGED_SINCE
    notes = [changed, reasons.not_there(stats.lines_not_there), known, reasons.strangers(stats.unknown_markers)]
    notes.append(reasons.elsewhere(stats.elsewhere))
    if stats.foreign_files:
        foreign = counted(stats.foreign_files, "file", "files")
        notes.append(f"{foreign} in its store ignored: not written by a run of this user on this machine")
    return list(filter(None, notes))


def verified_total(all_stats: Sequence[VerifyStats], *, are_all: bool) -> str:
    """Format the totals of `verify` over several sessions; some failed unless `are_all`."""
    good = "all good" if are_all else "these are good"
    return f": {sum(stats.lines for stats in all_stats):,} lines, {_kept(*all_stats, good=good)}"


def open_to_others(number: int) -> str:
    """Format the number of stores that other users can read."""
    what = counted(number, "store is", "stores are")
    return f"{what} readable by other users, as git leaves files; the next run that writes there fixes that"


def gone(sessions: Sequence[str], chosen: str) -> str:
    """Format the missing sessions whose stores exist; `chosen` are arguments that select them again."""
    what = counted(
        len(sessions), "session is gone, but its store is there", "sessions are gone, but their stores are there"
    )
    return (
        f"{what}: {listed(list(map(printable, sessions)))}. If their agent deleted them, 'sessioncompress forget "
        f"--gone {chosen}' deletes the stores, too. If they were moved, 'sessioncompress restore --from-markers "
        "--originals OLD_PATH NEW_PATH' brings the originals back."
    )


def taken(packed: Sequence[tuple[str, str, bool]]) -> str:
    """Format packed sessions whose paths are taken by files, given as (path, archive, is the user's own)."""
    what = counted(len(packed), "session is packed, but a file is", "sessions are packed, but files are")
    others = {True: "", False: ", which others may have made"}
    names = listed([f"{printable(place)} (in {printable(archive)}{others[own]})" for place, archive, own in packed])
    where = "in its place" if len(packed) == 1 else "in their places"
    back = " The pack may have the originals: move the file away, and unpack it."
    return f"{what} {where}: {names}.{back if any(own for _, _, own in packed) else ''}"


def packs_kept(packs: Sequence[str]) -> str:
    """Format the packs that `forget` leaves unchanged."""
    why = "others may have made it, it cannot be read, or what is in it is not back"
    what = counted(len(packs), "pack may still hold", "packs may still hold")
    return f"{what} what was to go: {listed(list(map(printable, packs)))} ({why}). Unpack what you need, and delete it."


def _kept(*all_stats: VerifyStats, good: str = "all good") -> str:
    names = ("lines_rewritten", "originals", "lines_without_original")
    rewritten, originals, lost = (sum(getattr(stats, name) for stats in all_stats) for name in names)
    lacks_runs = any(each.later for stats in all_stats for each in stats.changed)
    # A run that this store lacks may have written unknown markers; lines that another store knows surely need that.
    lacks_runs |= any(
        (stats.was_changed and stats.unknown_markers) or any(stats.elsewhere.values()) for stats in all_stats
    )
    if not (rewritten or originals):
        # A store that is lost may have left no marker.
        return "no line is rewritten, no original to check"
    kept = f"{rewritten:,} rewritten, {originals:,} originals checked{'' if lacks_runs else f', {good}'}"
    if not lost:
        return kept
    return f"{kept}; {counted(lost, 'line has', 'lines have')} no original (keepBackup: false) and cannot be restored"
