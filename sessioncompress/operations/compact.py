"""Write a checkpoint into one session: cut, sum up, write in the agent's own form, check, commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.checkpoints.cut import NoCut, find_cut, for_the_model, is_silent
from sessioncompress.checkpoints.digest import digest
from sessioncompress.core import VERSION, jsonl, text
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Said, Summary, Written
from sessioncompress.core.jsonl import GAP, Piece
from sessioncompress.core.lines import EVERY, Survey, messages_of, tokens_of
from sessioncompress.errors import NOT_CHANGED, Refused, UsageError
from sessioncompress.formats.base import CannotCheckpoint, Entry
from sessioncompress.operations import log
from sessioncompress.operations.compress import judge_open, refuse_in_merge
from sessioncompress.pipeline import reading, triage
from sessioncompress.pipeline.budget import Action
from sessioncompress.pipeline.check import broken
from sessioncompress.pipeline.incremental import Part
from sessioncompress.pipeline.reading import Known
from sessioncompress.pipeline.summary import LINES, BudgetStats, Status, known_lines, to_json
from sessioncompress.policy.file import differences
from sessioncompress.policy.model import BALANCED, Policy, Rule
from sessioncompress.store import journal as journals
from sessioncompress.store.commit import Rewrite
from sessioncompress.store.layout import Store, store_of
from sessioncompress.store.lock import open_session
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import CheckpointRecord, RunRecord, readable, sealed
from sessioncompress.store.recover import check, recover

EXTRACTIVE = "extractive"
"""Who writes the summary: taken from the session's own words, without a model."""

MANUAL = "manual"
"""Why a run acted that was asked to, whatever the budget."""

_THRESHOLDS = ("idleSeconds", "budget", "compact")
_TOLD = (
    *("tokensBefore", "tokensAfter", "tokensSummary", "messagesBefore", "messagesKept"),
    *("strategy", "trigger", "tokensSince", "messagesSince"),
)

_LEAST_SUMMARY = 1_000
_SHARE_OF_OLD = 20
"""A summary takes at most one in so many tokens of what it stands for, but never less than the least."""


class CompactStats(Struct, frozen=True, rename="camel"):
    """What `compact` did to one session, or with `dry_run` would do. Sizes are bytes; tokens are estimates.

    `tokens_before` and `tokens_after` are what the model reads; `tokens_summary` is the summary's part of the latter.
    `splits_turn`: what is kept begins inside a turn. `strategy` is the rule of the cut, `trigger` why the run acted:
    the budget's reason, or that it was asked to. `tokens_since` and `messages_since` count what came since the last
    run, None without one. `summary` is the text, where it was asked for.
    """

    path: str
    format: str = ""
    status: Status = Status.UNCHANGED
    reason: str = ""
    size_before: int = 0
    size_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    tokens_summary: int = 0
    messages_before: int = 0
    messages_kept: int = 0
    splits_turn: bool = False
    strategy: str = ""
    trigger: str = ""
    tokens_since: int | None = None
    messages_since: int | None = None
    exit_code: int = 0
    summary: str = ""
    budget: BudgetStats | None = None

    @property
    def is_compacted(self) -> bool:
        """Whether a checkpoint was written, or with `dry_run` would be."""
        return self.status in (Status.COMPACTED, Status.WOULD_COMPACT)


def compact_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    dry_run: bool = False,
    if_due: bool = False,
    form: str | None = None,
    named: bool = True,
) -> CompactStats:
    """Write a checkpoint into a session in place, or with `dry_run` only find out what that would do.

    What goes and how long the summary is says `policy.compact`. With `if_due` only where the rule of `policy.budget`
    asks for a summary, and a run of compress would not do. `form` and `named` as in compress_session(); what was
    found in a folder and cannot have a checkpoint is skipped. Raises SessionCompressError with the session unchanged:
    Refused where the session's agent has no checkpoint that we write, UsageError where `if_due` has no rule to go by.
    """
    path = Path(path)
    if not policy.enabled:
        return CompactStats(str(path), status=Status.SKIPPED, reason=triage.SWITCHED_OFF)
    if if_due:
        refuse_size(path, policy)
    with (
        open_session(path, writing=not dry_run, quiet_seconds=policy.quiet_seconds) as session,
        log.noting(session.path, policy, dry_run=dry_run) as note,
    ):
        store = store_of(session.path, policy)
        journal = journals.load(store.journal)
        (check if dry_run else recover)(session, store, journal.lengths)
        part = Part(session, reading.read_session(session, journal, form, named=named), journal)
        refuse_in_merge(part)
        budget = None
        if if_due or policy.log_file is not None:
            budget = judge_open(part, store, policy, form, to_compact=if_due)
        compaction = _Compaction(part, store, policy, budget if if_due else None, named=named)
        stats = replace(compaction.run(dry_run=dry_run), budget=budget)
        note(_to_log(stats), _THRESHOLDS)
        return stats


def refuse_size(path: Path, policy: Policy) -> None:
    """Raise UsageError where a policy's rule cannot tell whether a checkpoint is due: it knows no tokens."""
    if policy.budget.rule is not Rule.SIZE:
        return
    others = [f'"{rule}"' for rule in Rule if rule is not Rule.SIZE]
    raise UsageError(
        'the budget\'s rule is "size", which does not say when a summary is due',
        where=path,
        state=NOT_CHANGED,
        remedy=f"Name a rule with --rule, or as budget.rule of the policy: {', '.join(others[:-1])} or {others[-1]}.",
    )


def _to_log(stats: CompactStats) -> dict[str, Any]:
    told = to_json(stats)
    record = {key: told[key] for key in ("path", "format", "status", "reason")}
    record |= {"originalSize": stats.size_before, "compressedSize": stats.size_after}
    record |= log.judgment(stats.budget) if stats.budget else {}
    return record | {key: told[key] for key in _TOLD}


class _Compaction:
    """One checkpoint for one open session."""

    def __init__(self, part: Part, store: Store, policy: Policy, budget: BudgetStats | None, *, named: bool) -> None:
        self._named = named
        self._session, self._store, self._journal, self._known = part.session, store, part.journal, part.known
        self._policy, self._budget = policy, budget
        self._read = part.known.survey
        self._where = str(part.session.path)

    def run(self, *, dry_run: bool) -> CompactStats:
        """Write the checkpoint, unless none is due, nothing is to go or too little is saved."""
        form, policy = self._known.form, self._policy
        if reason := triage.may_be_cached(self._session.stat, policy) or _not_due(self._budget):
            return replace(self._unchanged(reason), status=Status.SKIPPED)
        found = find_cut(self._read, policy.compact, splits=form.splits_turns)
        if isinstance(found, NoCut):
            return self._unchanged(found.reason)
        before = tokens_of(self._read)
        summary = self._summary(found, before)
        try:
            made = form.checkpoint(self._written, found, summary)
        except CannotCheckpoint as why:
            if not self._named:
                # Of a subagent, say: folders of agents are full of them.
                return replace(self._unchanged(why.what), status=Status.SKIPPED)
            raise Refused(why.what, where=self._where, state=NOT_CHANGED, remedy=why.remedy) from why
        if made is None:
            what = f"compact writes no checkpoint for sessions of {form.name} yet"
            raise Refused(what, where=self._where, state=NOT_CHANGED, remedy="compress makes this session smaller.")
        unended = self._ends_without_lf(made)
        with ExitStack() as opened:
            sink: Rewrite | None = None
            if not dry_run:
                commits = policy.commit_originals
                sink = Rewrite(self._session, self._store, self._journal.lengths, commit_originals=commits)
                opened.enter_context(sink)
            draft = _Draft(self._pieces(), made.added, sink, unended=unended)
            after = draft.checked(self._known, found, self._where)
            tokens = tokens_of(after)
            stats = replace(
                self._unchanged(),
                status=Status.WOULD_COMPACT if dry_run else Status.COMPACTED,
                size_after=draft.size,
                tokens_after=tokens,
                tokens_summary=text.estimate(len(summary.text)),
                messages_kept=messages_of(self._read, frozenset(found.kept)),
                splits_turn=found.splits,
                summary=summary.text,
            )
            if before - tokens < policy.compact.min_saved_tokens:
                least = policy.compact.min_saved_tokens
                return self._unchanged(f"it would save {before - tokens:,} tokens, less than minSavedTokens {least:,}")
            if sink is None:
                return stats
            record = CheckpointRecord(
                form.name, EXTRACTIVE, policy.compact.keep, draft.lines, summary.refs, (before, tokens), unended
            )
            return replace(stats, size_after=self._commit(sink, record, len(after.lines)))

    def _commit(self, sink: Rewrite, record: CheckpointRecord, lines: int) -> int:
        size = sink.finish().size
        last = self._journal.runs[-1] if self._journal.runs else None
        run = RunRecord(
            at=text.written_time(time.time()),
            version=VERSION,
            policy=differences(self._policy),
            original_size=self._session.size,
            compressed_size=size,
            store_size=self._journal.store_size,
            boundary=last.boundary if last else 0,
            # No line is rewritten: what counts from the last run that did counts on, but for what came since.
            stats={**(last.stats if last else {}), LINES: lines},
            restored=self._journal.restored,
            records=(0, 0),
            session_id=self._known.session_id,
        )
        return sink.commit(sealed([record.encode()], readable(run, self._store.journal))).size

    def _ends_without_lf(self, made: Checkpoint) -> bool:
        """Tell whether lines are added behind one without its LF. Raises Refused where that is no whole one."""
        last = len(self._read.lines) - 1
        if self._offsets is None or all(each.before <= last for each in made.added):
            return False
        raw = self._raw(last)
        if raw.endswith(b"\n"):
            return False
        if jsonl.parse(raw) is None:
            what = "its last line breaks off: its agent may be writing it, or was stopped while it did"
            remedy = "Resume the session once with its agent, and run again."
            raise Refused(what, where=self._where, line=last + 1, state=NOT_CHANGED, remedy=remedy)
        return True

    def _unchanged(self, reason: str = "") -> CompactStats:
        read, run = self._read, self._journal.runs[-1] if self._journal.runs else None
        size, tokens, messages = self._session.size, tokens_of(read), messages_of(read)
        since = None if run is None or run.restored else EVERY[known_lines(read, run) :]
        return CompactStats(
            self._where,
            self._known.form.name,
            reason=reason,
            size_before=size,
            size_after=size,
            tokens_before=tokens,
            tokens_after=tokens,
            messages_before=messages,
            messages_kept=messages,
            strategy=self._policy.compact.keep,
            trigger=self._budget.reason if self._budget else MANUAL,
            tokens_since=None if since is None else tokens_of(read, among=since),
            messages_since=None if since is None else messages_of(read, since),
        )

    def _summary(self, cut: Cut, before: int) -> Summary:
        lines = self._read.lines
        old = text.estimate(sum(lines[number].reads for number in cut.old))
        budget = max(min(self._policy.compact.summary_tokens, old // _SHARE_OF_OLD), _LEAST_SUMMARY)
        with ExitStack() as opened:
            originals = None
            if self._known.rewritten.rows and self._journal.store_size:
                originals = opened.enter_context(OriginalsReader(self._store.originals))
            made = digest(self._said(cut.old, originals), budget=budget, splits=cut.splits)
        kept = text.estimate(sum(lines[number].reads for number in cut.kept))
        return made._replace(tokens_before=before, tokens_after=kept + text.estimate(len(made.text)))

    def _said(self, old: Sequence[int], originals: OriginalsReader | None) -> Iterator[tuple[int, Said]]:
        """Yield what was said in the old lines; a checkpoint first, wherever it stands. Previews as their originals."""
        reader, rewritten = self._known.form.reader(), self._known.rewritten
        first = old[0] if len(old) > 1 and old[0] > old[1] else None
        if first is not None:
            yield from ((first, each) for each in reader.said(self._entry(first)))
        wanted = frozenset(old[1:] if first is not None else old)
        for number, raw, whole in self._pieces():
            if number not in wanted or not whole:
                continue
            if originals is not None and number in rewritten and (record := rewritten[number]).place:
                raw = originals.line(record.place, record.sha256)  # noqa: PLW2901 - what the agent wrote there
            yield from ((number, each) for each in reader.said(jsonl.parse(raw) or {}))

    def _pieces(self) -> Iterator[Piece]:
        return jsonl.pieces_of(self._session.reader, self._session.size)

    @cached_property
    def _offsets(self) -> Sequence[int] | None:
        """Where each line begins; None for a document, or where one line sets several messages."""
        ends = list(accumulate((line.size for line in self._read.lines), initial=0))
        return ends if ends[-1] == self._session.size else None

    def _raw(self, number: int) -> bytes:
        if self._offsets is None:
            return next((raw for at, raw, whole in self._pieces() if at == number and whole), b"")
        with self._session.reader(self._offsets[number]) as file:
            return file.read(self._read.lines[number].size)

    def _entry(self, number: int) -> Entry:
        return jsonl.parse(self._raw(number)) or {}

    @property
    def _written(self) -> Written:
        def newest(mark: bytes, takes: Callable[[Mapping[str, Any]], bool]) -> Entry | None:
            for number in range(len(self._read.lines) - 1, -1, -1):
                raw = self._raw(number)
                if mark in raw and (entry := jsonl.parse(raw)) is not None and takes(entry):
                    return entry
            return None

        return Written(self._read.lines, self._entry, newest, self._raw)


def _not_due(budget: BudgetStats | None) -> str:
    """Word why a budget asks for no summary; empty where it does, or nobody asks it."""
    if budget is None or budget.decision == Action.COMPACT:
        return ""
    enough = "" if budget.decision == Action.NONE else ": a run of compress is enough"
    return f"{budget.reason} (rule {budget.rule}){enough}"


class _Placed(NamedTuple):
    """What a reading of the new session finds: its lines, and where ours and the session's own are among them."""

    survey: Survey
    ours: frozenset[int]
    moved: Mapping[int, int]


class _Draft:
    """The new session: the pieces of the old one with the lines that are added."""

    def __init__(
        self, pieces: Iterable[Piece], added: Iterable[Addition], sink: Rewrite | None, *, unended: bool
    ) -> None:
        self._pieces = pieces
        self._added: dict[int, list[bytes]] = {}
        for each in added:
            self._added.setdefault(each.before, []).append(each.line)
        self._sink = sink
        self._unended = unended
        self.size = 0
        self.lines: tuple[str, ...] = tuple(
            sha256(line).hexdigest() for place in sorted(self._added) for line in self._added[place]
        )

    def checked(self, known: Known, cut: Cut, where: str) -> Survey:
        """Write the draft, and read it as the next run will: its checkpoint is live, what is kept too, no old line."""
        lines = known.survey.lines
        self._moved: dict[int, int] = {}
        self._ours: set[int] = set()
        found = reading.survey(self._stream(len(lines)), known.form)
        live = set(for_the_model(found))
        kept = {self._moved[number] for number in cut.kept if not is_silent(lines, number)}
        if not kept <= live:
            raise broken("a line that is kept would not be read", where, min(kept - live))
        old = {self._moved[number] for number in cut.old}
        if old & live:
            raise broken("a line that the summary stands for would still be read", where, min(old & live))
        if not self._ours & live:
            raise broken("the checkpoint would not be read", where)
        return found

    def _stream(self, lines: int) -> Iterator[Piece]:
        shift = 0
        seen = -1
        for number, raw, whole in self._pieces:
            if number not in (GAP, seen):
                seen = number
                for piece in self._add(number, number + shift):
                    shift += piece[0] != GAP
                    yield piece
                self._moved[number] = number + shift
            self._take(raw)
            yield (number if number == GAP else number + shift), raw, whole
        if self._unended:
            self._take(b"\n")
        yield from self._add(lines, lines + shift)

    def _add(self, before: int, at: int) -> Iterator[Piece]:
        for line in self._added.get(before, ()):
            self._take(line)
            for number, raw, whole in jsonl.with_updates([(0, line, True)]):
                if number == GAP:
                    yield number, raw, whole
                    continue
                self._ours.add(at)
                yield at, raw, whole
                at += 1

    def _take(self, raw: bytes) -> None:
        self.size += len(raw)
        if self._sink is not None:
            self._sink.write(raw)
