"""`compress`: make sessions smaller, in place."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sessioncompress.cli import options, output, tables
from sessioncompress.cli.frame import Done, Job, SessionCommand, Words
from sessioncompress.core import text
from sessioncompress.core.text import kb, less, printable
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.batch import PASSED_OVER
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.discover import Found, is_folder
from sessioncompress.pipeline.stats import CompressionStats, Status
from sessioncompress.store.layout import real_place, store_at

if TYPE_CHECKING:
    from sessioncompress.operations.database import DatabaseStats
    from sessioncompress.operations.sessions import Session
    from sessioncompress.policy.model import Policy
    from sessioncompress.policy.sources import Policies


class Compress(SessionCommand[CompressionStats]):
    """Make sessions smaller, in place."""

    changes = compresses = urls = True
    asks = "Compress"
    notes = output.tell_of_others
    flags = (options.DRY_RUN, options.YES, options.CHECK, options.JOBS, options.JSON, options.QUIET, options.VERBOSE)
    takes = (
        *(options.CONFIG, options.PRESET),
        click.option(
            "--keep-turns",
            type=options.WholeNumber(0),
            metavar="N",
            help="Keep this many of the last user turns whole; of their tool I/O the newest --protect-tokens.",
        ),
        click.option(
            "--protect-tokens",
            type=options.WholeNumber(0),
            metavar="N",
            help="Keep this many of the newest tokens of tool I/O in these turns whole.",
        ),
        options.RULE,
        click.option("--min-size", type=options.WholeNumber(0), metavar="KB", help="Leave smaller sessions alone."),
        click.option("--prune", is_flag=True, help="Also clear whole old results; see prune in the policy."),
        click.option("--prune-only", is_flag=True, help="Clear whole old results; change nothing else."),
        click.option("--no-backup", is_flag=True, help="Keep no originals: nothing can be restored."),
        *(options.BACKUP_DIR, options.COMMIT_ORIGINALS, options.IDLE_SECONDS, options.LOG),
        click.option(
            "--force",
            is_flag=True,
            help="Also compress sessions that are under the size threshold or grew little, and for savings under "
            "minSavedKB.",
        ),
        options.FORMAT,
    )
    hands = ("force", "form")

    @staticmethod
    def work(job: Job, **how: Any) -> CompressionStats:
        from sessioncompress.operations.compress import compress_session

        return compress_session(job.path, job.policy, dry_run=job.dry_run, named=job.found.named, **how)

    def on_database(self, path: Path, rows: Sequence[Found]) -> DatabaseStats | None:
        from sessioncompress.operations.database import take_events

        policy = self.policies.of(path)
        return take_events(path, rows, policy, dry_run=self.chosen.rehearses) if rows and policy.enabled else None

    def over(self, found: Iterable[Found]) -> Done[CompressionStats]:
        self.handed["run_id"] = text.run_id(time.time())
        found, self.titles = list(found), dict[str, str]()
        if self.chosen.by_options:
            # Their titles are already known.
            from sessioncompress.operations.sessions import Session, folder_of

            sessions = [(each, folder_of(each.project)) for each in found if isinstance(each, Session)]
            has_several = len({folder for _, folder in sessions}) > 1
            for each, folder in sessions:
                self.titles[each.shown] = tables.titled(each.title, folder if has_several else "")
        return super().over(found)

    def at_once(self, found: Found, policy: Policy) -> CompressionStats | None:
        if found.remote is None:
            skipped = triage.skip(found.path, policy, force=self.given.force)
        else:
            from sessioncompress.operations import cloud

            skipped = cloud.skip(found, policy, force=self.given.force)
        if skipped is None:
            return None
        mends = not self.chosen.rehearses
        return None if triage.opens_anyway(found.path, skipped.status, named=found.named, mends=mends) else skipped

    def frees(self, session: Session) -> int | None:
        policy = options.policy_of(session, self.policies)
        from sessioncompress.operations.sessions import file_and_reason

        path, reason = file_and_reason(session, policy, force=self.given.force)
        return None if reason else triage.estimate(path, session.agent, session.size, policy)

    def undo(self, found: Sequence[Found]) -> str:
        keeps = all(self.policies.of(each.path).keep_backup for each in found if each.error is None)
        return super().undo(found) if keeps else "You cannot undo this."

    def failure(self, path: str, status: str, reason: str, code: int) -> CompressionStats:
        return CompressionStats(path, status=Status(status), reason=reason, exit_code=code)

    def words(self, stats: CompressionStats) -> Words:
        from sessioncompress.operations import wording
        from sessioncompress.operations.sessions import title_of

        before, after = stats.original_size, stats.compressed_size
        is_shown = stats.is_smaller and tables.is_seen()
        title = printable(self.titles.get(stats.path) or title_of(Path(stats.path))) if is_shown else ""
        sizes = kb(before), kb(after, before), less(before, after)
        short = tables.file_line(stats.path, *sizes, wording.arrow(stats), title)
        left = None if stats.is_smaller else (stats.status.value, stats.reason)
        # Otherwise every run of a timer would repeat it.
        is_news = self.chosen.is_one or self.chosen.verbose
        return Words(wording.line(stats), short, left, wording.warnings(stats, is_news=is_news))

    def document(self, done: Done[CompressionStats]) -> dict[str, Any]:
        from sessioncompress.operations import wording

        return wording.document(done.files, dry_run=self.chosen.rehearses)

    def total(self, done: Done[CompressionStats]) -> Iterable[str]:
        from sessioncompress.operations import wording

        return wording.total_lines(done.files, passed_over=done.others[PASSED_OVER])

    def hints(self, done: Done[CompressionStats]) -> None:
        """Warn about folders that a run can't change, and print the command that undoes the run."""
        chosen = self.chosen
        changing = [stats for stats in done.results if stats.is_smaller] if chosen.rehearses and not chosen.urls else []
        places = (Path(stats.path).parent for stats in changing)
        # The parent of a session in a database is the database file.
        for folder in dict.fromkeys(each if is_folder(each) else each.parent for each in places):
            if not os.access(folder, os.W_OK | os.X_OK):
                options.warn(f"{folder} is not writable: a run would change nothing in it")
        # A run without originals can't be undone.
        runs, final = list[str](), 0
        for each in done.results:
            is_kept = chosen.urls or self.policies.of(Path(each.path)).keep_backup
            runs += [each.run] if is_kept else []
            final += bool(not is_kept and each.is_smaller and each.run)
        output.tell_of_undo(runs, *self.where, chosen.urls, quiet=chosen.quiet)
        if final and not chosen.quiet:
            kept = text.counted(final, "session", "sessions")
            click.echo(f"no originals of {kept} are kept: this cannot be undone", err=True)
        self.tell_of_seen(each.path for each in done.results if each.is_smaller)
        if not (chosen.rehearses or chosen.urls or chosen.quiet):
            # If git fails, print nothing.
            with suppress(SessionCompressError):
                _tell_of_hidden((Path(each.path) for each in done.results if each.is_smaller), self.policies)

    def codes(self, done: Done[CompressionStats]) -> list[int]:
        return [int(self.chosen.check and stats.is_smaller) for stats in done.results]


compress = Compress.command("compress ~/.pi/agent/sessions")


def _tell_of_hidden(paths: Iterable[Path], policies: Policies) -> None:
    """Report sessions that git tracks while their originals are hidden from it. Reads the index, which is fast."""
    from sessioncompress.store import folder, git

    tracked = 0
    by_top: dict[Path, set[str]] = {}
    for path in paths:
        policy, top = policies.of(path), next(git.work_trees(path.parent), None)
        if top and policy.keep_backup and not policy.backup_dir and folder.hides_from_git(store_at(path, policy)):
            by_top.setdefault(top, set()).add(os.path.relpath(real_place(path), top))
    for top, names in by_top.items():
        tracked += len(names.intersection(os.fsdecode(git.call(["ls-files", "-z"], at=top)).split("\0")))
    if tracked:
        has = text.counted(tracked, "session", "sessions")
        said = f"git tracks {has} of these, but does not see the originals, so that no commit has them"
        click.echo(f"{said}; --commit-originals changes that", err=True)
