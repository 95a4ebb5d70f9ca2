"""`forget`: delete the stores of sessions, after reporting what will be lost."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Job, SessionCommand, Words
from sessioncompress.cli.tables import echo_wrapped, is_seen, shown, wrapped
from sessioncompress.core import process
from sessioncompress.core.text import counted, kb
from sessioncompress.errors import Refused
from sessioncompress.operations.forget import ForgetStats, Only, forget_found, kept_of, kept_rows
from sessioncompress.operations.wording import at_stake, links_kept, packs_kept
from sessioncompress.pipeline.discover import Found, Remote, SessionGone, folders, is_folder, names_rows
from sessioncompress.policy.model import Policy
from sessioncompress.store.layout import FOLDER

if TYPE_CHECKING:
    from sessioncompress.operations.database import DatabaseStats

DELETED = "deleted"
KEPT = "kept"
NO_STORE = "without a store"

_VERIFY = "'sessioncompress verify' says whether the store of another session here has them"


class Forget(SessionCommand[ForgetStats]):
    """Delete the stores of sessions. First list what can't be restored after that, and ask once."""

    changes = stores = gone_too = True
    parallel = False
    flags = (options.DRY_RUN, options.YES, options.JSON)
    takes = (
        click.option("--gone", is_flag=True, help="Only the stores of sessions that are gone, unless git has them."),
        click.option("--unneeded", is_flag=True, help="Only stores that nothing needs, as after a restore."),
        click.option(
            "--max-size",
            metavar="SIZE",
            callback=options.amount({"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}, "a size", "500MB"),
            help="Only the stores of the sessions that changed longest ago, until the rest fits in this size, as in "
            "500MB.",
        ),
        *(options.CONFIG, options.THEIR_FOLDER),
    )
    hands = ()
    keeps = ("gone", "unneeded", "max_size")

    @staticmethod
    def work(
        job: Job,
        deletes: bool,
        only: Only,
        named: Mapping[Path, Mapping[str, set[str]]],
        around: Sequence[Path],
    ) -> ForgetStats:
        among = named.get(job.found.path.parent, {})
        return forget_found(job.found, job.path, job.policy, among, only=only, around=around, dry_run=not deletes)

    def on_database(self, path: Path, rows: Sequence[Found]) -> DatabaseStats | None:
        from sessioncompress.operations.database import is_due, rewritten

        # Replaced content may remain in the database's free pages.
        return rewritten(path) if (path in self.emptied or is_due(path)) and not self.chosen.dry_run else None

    def on_databases(self, done: Done[ForgetStats]) -> Done[ForgetStats]:
        self.emptied = {Path(each) for stats in done.results for each in stats.emptied}
        for path in sorted(self.emptied):
            self.rows_in.setdefault(path, [])
        return super().on_databases(done)

    def refuse(self) -> None:
        if self.given.gone and (self.given.unneeded or self.chosen.older_than is not None):
            raise click.UsageError(
                "--gone can't be combined with --older-than or --unneeded: the sessions are not there"
            )
        if self.chosen.as_json and not (self.chosen.yes or self.chosen.dry_run):
            raise click.UsageError("--json cannot ask: use --yes or --dry-run with it")

    def at_once(self, found: Found, policy: Policy) -> ForgetStats | None:
        if (kept := self.kept.get(found.path)) is None:
            return None
        return ForgetStats(str(found.path), gone=not os.path.lexists(found.path), kept=kept)

    def over(self, found: Iterable[Found]) -> Done[ForgetStats]:
        """Work through the sessions once, then again through those whose stores the user agrees to delete."""
        given, limited = self.given, self.given.max_size is not None or self.chosen.older_than is not None
        only = Only(given.gone, given.unneeded, time.time() if limited else math.inf)
        # The store of a session missing from its database may be deleted.
        found = list(found)
        there = {each.path.parent for each in found if each.error is None and each.remote is None}
        there |= {here for path in filter(is_folder, self.chosen.paths) for here, _ in folders(path)}
        around = sorted({*map(Path, map(os.path.realpath, there))})
        lost = {each.path for each in found if isinstance(each.error, SessionGone) and names_rows(each.path)}
        found = [
            replace(each, error=None, remote=Remote(each.shown, 0, 0, is_row=True)) if each.path in lost else each
            for each in found
        ]
        self.kept: dict[Path, str] = {}
        """Sessions whose stores stay, with the reason."""
        if given.gone or given.unneeded or limited:
            if given.gone and not self.chosen.is_one:
                found = [each for each in found if each.error is not None or not os.path.lexists(each.path)]
            paths = [each.path for each in found if each.error is None and each.remote is None]
            self.kept = kept_of(paths, self.policies.of, only, given.max_size, self.chosen.paths)
            if given.gone and lost:
                self.kept |= kept_rows(lost, self.chosen.paths)
        asks = not (self.chosen.yes or self.chosen.dry_run)
        databases = {each.path.parent for each in found if each.error is None and each.remote and each.remote.is_row}
        if databases:
            from sessioncompress.operations.database import named_in
        named = {each: named_in(each, self.chosen.paths) for each in databases}
        self.handed |= {"deletes": self.chosen.yes and not self.chosen.dry_run, "only": only}
        self.handed |= {"named": named, "around": around}
        done = self.each(found)
        asked = [each for each in done.results if asks and _status(each) == DELETED]
        if not asked:
            return done
        rest = done._replace(
            results=[each for each in done.results if each not in asked],
            files=[each for each in done.files if each not in asked],
        )
        if done.exit_code != process.EXIT_CODE and _agreed(asked, one=self.chosen.is_one):
            self.handed["deletes"] = True
            paths = [Path(each.path) for each in asked]
            return rest + self.each([each for each in found if each.path in paths])
        kept = [replace(each, kept="nobody agreed to delete it") for each in asked]
        if self.chosen.is_one:
            echo_wrapped(f"{_name(kept[0])}: {KEPT}")
        return rest + Done(kept, [*kept], {}, 0)

    def words(self, stats: ForgetStats) -> Words | None:
        name, nothing = _name(stats), ("", "")
        if stats.kept:
            return Words(f"{name}: {KEPT}: {stats.kept}", left=(KEPT, stats.kept))
        if not stats.bytes_deleted:
            # With many sessions, those without news only count in the total.
            is_news = stats.links_kept or stats.markers
            return Words(f"{name}: {_without_a_store(stats)}", left=None if is_news else nothing)
        if self.handed["deletes"]:
            # With many sessions, this was printed before the question.
            is_news = self.chosen.yes or stats.markers
            said = f"{name}: {DELETED} {at_stake(stats, done=True)}{_unknown(stats)}"
            return Words(said, left=None if is_news else nothing)
        if self.chosen.is_one and not self.chosen.dry_run:
            # The question includes this.
            return None
        # With many sessions, those that lose nothing only count in the total.
        loses = stats.originals_lost or stats.links_kept or stats.markers or stats.referring or stats.in_commits
        return Words(f"{name}: would delete {at_stake(stats)}", left=None if loses else nothing)

    def failure(self, path: str, status: str, reason: str, code: int) -> dict[str, Any]:
        return self.file(ForgetStats(path)) | {"status": status, "reason": reason}

    def file(self, stats: ForgetStats) -> dict[str, Any]:
        file, status = super().file(stats), _status(stats)
        status = "would-delete" if status == DELETED and self.chosen.dry_run else status
        return file | {"status": status, "reason": file.pop("kept")}

    def total(self, done: Done[ForgetStats]) -> list[str]:
        became = [_status(stats) for stats in done.results]
        others = {word: became.count(word) for word in (KEPT, NO_STORE)}
        deleted = [stats.bytes_deleted for stats in done.results if _status(stats) == DELETED]
        verb = "would delete" if self.chosen.dry_run else DELETED
        what = f": {verb} {kb(sum(deleted))}, and their runs from the history"
        return [output.total(len(deleted), what, {**others, **done.others})]

    def hints(self, done: Done[ForgetStats]) -> None:
        if kept := sum(stats.links_kept for stats in done.results):
            text = f"kept {links_kept(kept)}: files with '.late-' in their names, in {FOLDER} folders"
            echo_wrapped(text, err=True)
        if packs := list(dict.fromkeys(pack for stats in done.results for pack in stats.packs_kept)):
            echo_wrapped(packs_kept(packs), err=True)
        self.tell_of_packed()

    def codes(self, done: Done[ForgetStats]) -> list[int]:
        left = (each.links_kept or each.packs_kept or (each.markers and not each.kept) for each in done.results)
        stays = any(left) or any(each.reason for each in self.databases)
        # The originals are still in a pack, so a secret in them isn't deleted.
        only_packed = self.chosen.paths and not done.files
        return [Refused.exit_code if stays or (only_packed and self.still_packed) else 0]


forget = Forget.command("forget session.jsonl")


def _status(stats: ForgetStats) -> str:
    if stats.kept:
        return KEPT
    return DELETED if stats.bytes_deleted else NO_STORE


def _name(stats: ForgetStats) -> str:
    return shown(stats.path) + (" (session gone)" if stats.gone else "")


def _agreed(asked: Sequence[ForgetStats], *, one: bool) -> bool:
    """Ask once whether to delete the stores; for `one` session, include the details. Raises UsageError."""
    if one:
        question, where = f"{_name(asked[0])}: delete {at_stake(asked[0])}?", Path(asked[0].path)
    else:
        size, originals, lost = (
            sum(getattr(each, name) for each in asked) for name in ("bytes_deleted", "originals", "originals_lost")
        )
        loss = f"After that, {lost:,} of them can't be restored." if lost else "The sessions have their original bytes."
        echo_wrapped(f"Total: {kb(size)}, {counted(originals, 'original', 'originals')}. {loss}")
        question, where = f"Delete {counted(len(asked), 'store', 'stores')}?", None
    # Leave room for the answer choices that click appends.
    question = wrapped(question, len(" [y/N]: ")) if is_seen() else question
    return output.confirmed(question, where, "Nothing was deleted.")


def _unknown(stats: ForgetStats) -> str:
    has = counted(stats.markers, "marker", "markers")
    what = f"; but it has {has} that no journal here knew. If they lie elsewhere, run again with --backup-dir"
    return f"{what} and their folder, or without --backup-dir; {_VERIFY}" if stats.markers else ""


def _without_a_store(stats: ForgetStats) -> str:
    if stats.links_kept:
        return f"kept {links_kept(stats.links_kept)}"
    has = counted(stats.markers, "marker", "markers")
    what = f"nothing was deleted: there is no store here, but {has}. Name the folder of the originals with --backup-dir"
    return f"{what}; {_VERIFY}" if stats.markers else "it has no store"
