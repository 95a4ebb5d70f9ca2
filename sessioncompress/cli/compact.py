"""`compact`: replace the old part of sessions, for the model, by a summary in their agent's own form."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import goals, options, output, summarizing
from sessioncompress.cli.frame import Done, Each, SessionCommand, Words
from sessioncompress.cli.tables import echo_wrapped, file_line
from sessioncompress.core import text
from sessioncompress.core.checkpoint import EXTRACTIVE
from sessioncompress.core.text import counted, less, printable
from sessioncompress.operations.compact import CompactStats, compact_session, refuse_size
from sessioncompress.operations.wording import author, compact_line, sending
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import Status

_NOT_IN_JSON = frozenset({"summary", "goal", "unheeded", "budget"})


class Compact(SessionCommand[CompactStats]):
    """Summarize the old part of sessions, as their agent does."""

    changes = compresses = urls = True
    asks = "Compact"
    flags = (options.DRY_RUN, options.YES, options.CHECK, options.JOBS, options.JSON, options.QUIET, options.VERBOSE)
    takes = (
        click.option("--print", "prints", is_flag=True, help="Print the summary of one session; change nothing."),
        click.option(
            "--if-due",
            is_flag=True,
            help="Compact only where the budget's rule asks for it; leave the rest to compress.",
        ),
        *(options.RULE, options.CONFIG, options.PRESET),
        click.option(
            "--keep",
            type=click.Choice(["tokens", "messages", "share", "sincePrompt", "turns"]),
            help="Rule for how much of the recent conversation stays; by default compact.keep of the policy.",
        ),
        click.option(
            "--keep-tokens", type=options.WholeNumber(1), metavar="N", help="With --keep tokens: how many tokens stay."
        ),
        click.option(
            "--summary-tokens",
            type=options.WholeNumber(1000),
            metavar="N",
            help="Largest size of the summary, in tokens.",
        ),
        goals.said,
        click.option(
            "--drop-dead",
            is_flag=True,
            help="Move the old lines to the originals: the agent's tree, rewind, lists and screen lose them until a "
            "restore. For pi, Claude Code, Codex, Gemini CLI and OpenCode.",
        ),
        *(options.BACKUP_DIR, options.COMMIT_ORIGINALS, options.IDLE_SECONDS, options.LOG),
        *(options.FORMAT, summarizing.MODEL),
    )
    hands = ("if_due", "drop_dead", "form")
    keeps = ("prints", "goal", "goal_from", "instructions", "ask")
    notes = output.tell_of_others

    @staticmethod
    def work(each: Each, **how: Any) -> CompactStats:
        return compact_session(each.path, each.policy, dry_run=each.dry_run, named=each.found.named, **how)

    def refuse(self) -> None:
        given = self.given
        self.wanted = goals.wanted(given.goal, given.goal_from, given.instructions, ask=given.ask)
        self.handed |= {"run_id": text.run_id(time.time()), "sends": not self.chosen.rehearses}
        if given.prints:
            self.chosen = self.chosen._replace(dry_run=True)

    def agreed(self, found: Sequence[Found]) -> bool:
        self._refuse_unfit(found)
        chosen, policies, if_due = self.chosen, self.policies, self.given.if_due
        for each in found if if_due else ():
            if each.error is None and (policy := options.policy_of(each, policies)).enabled:
                refuse_size(each.path, policy)
        sends = self.handed["sends"]
        governing = [options.policy_of(each, policies) for each in found if each.error is None]
        if not summarizing.asked(governing, self.overrides, sends=sends, yes=chosen.yes, engine=chosen.engine):
            return False
        if self.given.ask and not (chosen.rehearses or chosen.yes):
            self.wanted = goals.ask(found[0].path, policies, self.wanted, if_due=if_due, form=self.given.form)
        return super().agreed(found)

    def is_due(self, path: Path) -> bool:
        return self.policies.of(path).enabled

    def handed_to(self, found: Found) -> dict[str, Any]:
        path = found.path if found.remote is None else None
        return self.handed | {"goal": goals.leaves_cut(self.wanted, self.policies, path, self.overrides)}

    def failure(self, path: str, status: str, reason: str, code: int) -> CompactStats:
        return CompactStats(path, status=Status(status), reason=reason, exit_code=code)

    def say(self, stats: CompactStats) -> None:
        _tell(stats, self.given.goal_from, quiet=self.chosen.quiet)
        if self.given.prints:
            summary = "\n".join(map(printable, stats.summary.split("\n"))) or compact_line(stats)
            if stats.summary:
                click.echo(summary)
            else:
                echo_wrapped(summary, err=True)
        else:
            super().say(stats)
        if stats.warning:
            options.warn(f"{stats.path}: {stats.warning}; the summary was written anyway")

    def words(self, stats: CompactStats) -> Words:
        before, after = stats.tokens_before, stats.tokens_after
        become = "would become" if stats.status is Status.WOULD_COMPACT else "->"
        short = file_line(stats.path, f"{before:,}", f"{after:,} tokens", less(before, after), become)
        return Words(compact_line(stats), short, None if stats.is_compacted else (stats.status.value, stats.reason))

    def file(self, stats: CompactStats) -> dict[str, Any]:
        return {key: value for key, value in super().file(stats).items() if key not in _NOT_IN_JSON}

    def total(self, done: Done[CompactStats]) -> list[str]:
        written = [stats for stats in done.results if stats.is_compacted]
        left = [stats.status for stats in done.results]
        others = {status.value: left.count(status) for status in (Status.UNCHANGED, Status.SKIPPED)} | done.others
        return [output.total(len(written), _total(written, rehearse=self.chosen.rehearses), others)]

    def hints(self, done: Done[CompactStats]) -> None:
        chosen, runs = self.chosen, (stats.run for stats in done.results)
        output.tell_of_undo(runs, chosen.paths, self.overrides["backup_dir"], chosen.urls, quiet=chosen.quiet)

    def codes(self, done: Done[CompactStats]) -> list[int]:
        return [int(self.chosen.check and stats.is_compacted) for stats in done.results]

    def _refuse_unfit(self, found: Sequence[Found]) -> None:
        given, chosen, overrides = self.given, self.chosen, self.overrides
        is_one = len(found) == 1 and chosen.paths == (found[0].path,)
        if given.prints and (chosen.as_json or not is_one):
            raise click.UsageError("--print needs the path of one session and can't be combined with --json")
        if given.ask and not is_one:
            raise click.UsageError("--ask needs the path of one session")
        if overrides["rule"] is not None and not given.if_due:
            raise click.UsageError("--rule needs --if-due")
        if overrides["keep_tokens"] is not None and overrides["keep"] not in (None, "tokens"):
            raise click.UsageError("--keep-tokens needs --keep tokens")


compact = Compact.command("compact session.jsonl --dry-run")


def _tell(stats: CompactStats, goal_from: str | None, *, quiet: bool) -> None:
    """Tell on stderr who has not summed up, and what became of the goal and the instructions."""
    summarizing.tell(stats.path, stats.model_failure, author(stats.by, stats.model))
    for each in stats.unheeded:
        options.warn(f"{stats.path}: {each}")
    if number := stats.markers_without_journal:
        texts = counted(number, "preview whose original lies", "previews whose originals lie")
        options.warn(
            f"{stats.path}: it has {texts} in no store here, and the summary is made of what is left. Run "
            "'sessioncompress restore --from-markers' on it first, which looks for them"
        )
    if stats.is_compacted and goal_from is not None and stats.goal_method == goal_from and not quiet:
        click.echo(printable(f"{stats.path}: goal (--goal-from {goal_from}): {stats.goal}"), err=True)


def _total(written: Sequence[CompactStats], *, rehearse: bool) -> str:
    before, after = (sum(getattr(each, name) for each in written) for name in ("tokens_before", "tokens_after"))
    if not written:
        return ""
    verb = "would be compacted" if rehearse else "compacted"
    sent = sum(each.tokens_sent for each in written if each.by == EXTRACTIVE) if rehearse else 0
    return f" {verb}: {before:,} -> {after:,} tokens for the model" + (f"; {sending(sent)}" if sent else "")
