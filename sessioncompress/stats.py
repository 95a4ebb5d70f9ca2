"""What one run did to one session, in numbers; the statistics that the library returns and the reports show."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """How a run over one file ended."""

    COMPRESSED = "compressed"
    WOULD_COMPRESS = "would-compress"
    RESTORED = "restored"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    REFUSED = "refused"
    FAILED = "failed"


class BudgetStats(NamedTuple):
    """How a session stands against its budget, and what its rule decides. All sizes are tokens.

    `tokens` is what the rule went by: what the agent recorded of the newest request and its answer, with an estimate of
    what came behind it; or the estimate of all where it recorded nothing, or before the last run or compaction
    (`recorded_is_stale`). `limits_from` says who knows the window:
    the session, the policy, our table, or the fallback for models that nobody knows. `usable` is what of it the rule
    leaves. `messages_since` and `seconds_since` count from the last run, None where there was none.
    """

    path: str
    format: str
    rule: str
    decision: str
    reason: str
    tokens: int = 0
    tokens_estimated: int = 0
    tokens_recorded: int | None = None
    recorded_is_stale: bool = False
    model: str = ""
    context_window: int = 0
    output_limit: int = 0
    limits_from: str = ""
    usable: int = 0
    messages: int = 0
    messages_since: int | None = None
    seconds_since: float | None = None

    @property
    def utilisation(self) -> float:
        """Return the tokens by the context window."""
        return self.tokens / self.context_window if self.context_window else 0.0


class CompressionStats(NamedTuple):
    """What a run did, or with `dry_run` would do. Sizes in bytes of the file; tokens are estimates.

    `ratio` is the compressed size by the original size. `backup_size` is all that lies beside the session,
    `originals_size` the originals of it, `backup_added` what this run added to it. `tokens_uncached` are those of
    `tokens_after` behind the first message that changed: the next request sends them without the provider's prompt
    cache. `removable_bytes` are those of all blocks over their kind's threshold outside the protected part,
    `removed_bytes` how many of them are gone, `protected_bytes` those inside it.
    """

    path: str
    format: str = ""
    status: Status = Status.UNCHANGED
    reason: str = ""
    original_size: int = 0
    compressed_size: int = 0
    backup_size: int = 0
    originals_size: int = 0
    backup_added: int = 0
    tool_calls_compressed: int = 0
    tool_results_compressed: int = 0
    thinking_blocks_removed: int = 0
    images_replaced: int = 0
    mirrors_replaced: int = 0
    redundancies_eliminated: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    tokens_uncached: int = 0
    removable_bytes: int = 0
    removed_bytes: int = 0
    protected_bytes: int = 0
    lines: int = 0
    lines_changed: int = 0
    messages_changed: int = 0
    lines_not_understood: int = 0
    imitated_markers: int = 0
    imitated_in_calls: int = 0
    markers_without_journal: int = 0
    turns: int = 0
    exit_code: int = 0
    budget: BudgetStats | None = None

    @property
    def is_smaller(self) -> bool:
        """Say whether the run made the session smaller, or with `dry_run` would."""
        return self.status in (Status.COMPRESSED, Status.WOULD_COMPRESS)

    @property
    def ratio(self) -> float:
        """Return the compressed size by the original size, 1.0 for an empty file."""
        return self.compressed_size / self.original_size if self.original_size else 1.0


class RestoreStats(NamedTuple):
    """What a restore did to one session; sizes in bytes of the file."""

    path: str
    status: Status
    reason: str = ""
    size_before: int = 0
    size_after: int = 0
    lines_restored: int = 0


class Share(NamedTuple):
    """Blocks of one kind and tool: how many, and their bytes by where they stand."""

    kind: str
    tool: str
    blocks: int = 0
    protected: int = 0
    old: int = 0
    dead: int = 0

    @property
    def bytes(self) -> int:
        """Return all bytes of the share."""
        return self.protected + self.old + self.dead


class SessionStats(NamedTuple):
    """Where a session's bytes are, and what a run with the same policy would come to."""

    path: str
    format: str
    size: int
    backup_size: int
    lines: int
    turns: int
    shares: tuple[Share, ...]
    would: CompressionStats


class ListedSession(NamedTuple):
    """One session in the list of all: `could_save` are the bytes that a run would free in all, 0 where it would not.

    `reason` then says why. `compressed`: the last run over it was no restore. `modified` counts from 1970.
    """

    path: str
    agent: str
    project: str
    id: str
    size: int
    modified: float
    compressed: bool
    could_save: int
    reason: str = ""


class VerifyStats(NamedTuple):
    """What `verify` checked in one session: its lines, and the originals that it read and compared.

    `lines_without_original` are rewritten lines of which none was kept: they cannot be restored. `unknown_markers`
    name what the journal does not know: a tool printed them, or they are of another session, or side of this one.
    `lines_not_there`: the store knows them, but this older state of the session does not hold them. The originals of
    `markers_of_relatives` were read in the store of a session that this one was forked from, or goes on from.
    `open_to_others`: the store's modes let other users read it. `foreign_files` are named like late links, but no run
    of this user on this machine made them: they count for nothing.
    """

    path: str
    format: str
    lines: int
    lines_not_understood: int
    lines_rewritten: int
    lines_without_original: int
    originals: int
    blocks: int
    unknown_markers: int = 0
    lines_not_there: int = 0
    markers_of_relatives: int = 0
    open_to_others: bool = False
    foreign_files: int = 0


class Cause(StrEnum):
    """Why what lies beside a session is deleted, or is not."""

    GONE = "gone"
    AGE = "age"
    SIZE = "size"
    DEAD_RUN = "dead run"
    MISSING = "missing"
    GIT = "git"
    UNKNOWN = "unknown"
    BACK = "back"
    CHANGED = "changed"


class CleanStats(NamedTuple):
    """What `clean` deletes beside one session, or with a dry run would, and why; or why it keeps it.

    `bytes_deleted`, `originals` and `originals_lost` are those of ForgetStats; `left_over` counts the temp files and
    late links of dead runs, whose bytes `left_over_bytes` are. `links_kept` and `referring` are those of ForgetStats.
    """

    path: str
    deleted: bool
    cause: Cause | None
    reason: str
    bytes_deleted: int = 0
    originals: int = 0
    originals_lost: int = 0
    left_over: int = 0
    left_over_bytes: int = 0
    links_kept: int = 0
    referring: tuple[str, ...] = ()


class ForgetStats(NamedTuple):
    """What `forget` deletes beside one session: bytes, originals, and how many of them stand nowhere else.

    `gone`: the session itself does not exist any more. `links_kept` late links of it stay: a program has them open for
    writing, or lines came late that stand nowhere else, or they are not of this user's runs on this machine. `markers`
    stand in the session that no journal here knows: another store is elsewhere, or was deleted. `referring` are the
    names of other sessions in its folder with markers that these originals alone can expand.
    """

    path: str
    bytes_deleted: int
    originals: int
    originals_lost: int
    gone: bool = False
    links_kept: int = 0
    markers: int = 0
    referring: tuple[str, ...] = ()
