"""`compact`: replace the old part of sessions, for the model, by a summary in their agent's own form."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import cluster, goals, options, output, summarizing
from sessioncompress.cli.asking import goes_on
from sessioncompress.cli.choosing import Chosen, choosing
from sessioncompress.cli.kinds import WholeNumber
from sessioncompress.cli.tables import echo_wrapped, file_line
from sessioncompress.core import text
from sessioncompress.core.checkpoint import EXTRACTIVE
from sessioncompress.core.text import counted, less, printable
from sessioncompress.operations import batch
from sessioncompress.operations.compact import CompactStats, compact_session, refuse_size
from sessioncompress.operations.wording import author, compact_line, sending, status_of
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import Status, to_json

SCHEMA = "sessioncompress.compact/1"

_NOT_IN_JSON = frozenset({"summary", "goal", "unheeded", "budget"})


@click.command(
    cls=options.Command,
    epilog="Example: sessioncompress compact session.jsonl --dry-run",
    first=("--dry-run", "--print", "--if-due", "--goal", "--ask", "--summarizer", "--endpoint", "--model", "--all"),
)
@choosing(
    options.DRY_RUN, options.YES, options.CHECK, options.JOBS, options.JSON, options.QUIET, options.VERBOSE, urls=True
)
@click.option("--print", "prints", is_flag=True, help="Print the summary of one session; change nothing.")
@click.option(
    "--if-due", is_flag=True, help="Compact only where the budget's rule asks for it; leave the rest to compress."
)
@options.RULE
@options.CONFIG
@options.PRESET
@click.option(
    "--keep",
    type=click.Choice(["tokens", "messages", "share", "sincePrompt", "turns"]),
    help="Rule for how much of the recent conversation stays; by default compact.keep of the policy.",
)
@click.option("--keep-tokens", type=WholeNumber(1), metavar="N", help="With --keep tokens: how many tokens stay.")
@click.option("--summary-tokens", type=WholeNumber(1000), metavar="N", help="Largest size of the summary, in tokens.")
@goals.said
@click.option(
    "--drop-dead",
    is_flag=True,
    help="Move the old lines to the originals: the agent's tree, rewind, lists and screen lose them until a restore. "
    "For pi, Claude Code, Codex, Gemini CLI and OpenCode.",
)
@options.BACKUP_DIR
@options.COMMIT_ORIGINALS
@options.QUIET_SECONDS
@options.IDLE_SECONDS
@options.LOG
@options.FORMAT
@summarizing.MODEL
@cluster.ENGINE
def compact(
    chosen: Chosen,
    prints: bool,
    if_due: bool,
    drop_dead: bool,
    goal: str | None,
    goal_from: str | None,
    instructions: str | None,
    ask: bool,
    config: Path | None,
    preset: str | None,
    form: str | None,
    **overrides: Any,
) -> None:
    """Summarize the old part of sessions for the model, as their agent does."""
    rehearse = chosen.rehearses or prints
    policies = options.policies_of(config, preset, compresses=True, by_options=chosen.by_options, **overrides)
    run_id = text.run_id(time.time())
    listed = options.all_governed(chosen.sessions(), policies)
    wanted = goals.wanted(goal, goal_from, instructions, ask=ask)
    _refuse_unfit(chosen, listed, overrides, prints=prints, if_due=if_due, ask=ask)
    for each in listed if if_due else ():
        if each.error is None and (policy := options.policy_of(each, policies)).enabled:
            refuse_size(each.path, policy)

    sends = not chosen.rehearses
    governing = [options.policy_of(each, policies) for each in listed if each.error is None]
    if not summarizing.asked(governing, overrides, sends=sends, yes=chosen.yes, engine=chosen.engine):
        return
    if ask and not (rehearse or chosen.yes):
        wanted = goals.ask(listed[0].path, policies, wanted, if_due=if_due, form=form)

    def prepare(each: Found) -> Callable[[], CompactStats]:
        policy = options.policy_of(each, policies)
        if policy.commit_originals and not rehearse:
            options.show_originals(each.path, policy)
        work = partial(
            compact_session,
            policy=policy,
            dry_run=rehearse,
            sends=sends,
            if_due=if_due,
            drop_dead=drop_dead,
            form=form,
            named=each.named,
            run_id=run_id,
            goal=goals.leaves_cut(wanted, policies, each.path if each.remote is None else None, overrides),
        )
        bound = options.on(each, work, writes=not rehearse)
        return chosen.unless_in_use(bound, partial(CompactStats, str(each.path), status=Status.SKIPPED))

    if chosen.asks and not goes_on("Compact", listed, lambda path: policies.of(path).enabled):
        return

    lines = output.Lines(chosen)

    def say(stats: CompactStats) -> None:
        _tell(stats, goal_from, quiet=chosen.quiet)
        if prints:
            summary = "\n".join(map(printable, stats.summary.split("\n"))) or compact_line(stats)
            if stats.summary:
                click.echo(summary)
            else:
                echo_wrapped(summary, err=True)
        elif stats.is_compacted:
            lines.changed(compact_line(stats), partial(_short, stats))
        else:
            lines.left(compact_line(stats), stats.status.value, stats.reason)

        if stats.warning:
            options.warn(f"{stats.path}: {stats.warning}; the summary was written anyway")

    done = output.told(batch.Archive(listed, prepare, chosen.jobs, chosen.engine, quiet=chosen.quiet), say)
    written = [stats for stats in done.results if stats.is_compacted]
    output.tell_of_others(chosen)
    if chosen.as_json:
        output.echo_json(_document(done, dry_run=rehearse))
    left = [stats.status for stats in done.results]
    others = {status.value: left.count(status) for status in (Status.UNCHANGED, Status.SKIPPED)} | done.others
    lines.end([output.total(len(written), _total(written, rehearse=rehearse), others)])
    runs = (stats.run for stats in written)
    output.tell_of_undo(runs, chosen.paths, overrides["backup_dir"], chosen.urls, quiet=chosen.quiet)
    sys.exit(batch.worst({done.exit_code} | ({1} if chosen.check and written else set())))


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


def _refuse_unfit(
    chosen: Chosen, listed: Sequence[Found], overrides: Mapping[str, Any], *, prints: bool, if_due: bool, ask: bool
) -> None:
    """Raise click's UsageError where options do not go together."""
    is_one = len(listed) == 1 and chosen.paths == (listed[0].path,)
    if prints and (chosen.as_json or not is_one):
        raise click.UsageError("--print needs the path of one session and can't be combined with --json")
    if ask and not is_one:
        raise click.UsageError("--ask needs the path of one session")
    if overrides["rule"] is not None and not if_due:
        raise click.UsageError("--rule needs --if-due")
    if overrides["keep_tokens"] is not None and overrides["keep"] not in (None, "tokens"):
        raise click.UsageError("--keep-tokens needs --keep tokens")


def _short(stats: CompactStats) -> str:
    before, after = stats.tokens_before, stats.tokens_after
    become = "would become" if stats.status is Status.WOULD_COMPACT else "->"
    return file_line(stats.path, f"{before:,}", f"{after:,} tokens", less(before, after), become)


def _total(written: Sequence[CompactStats], *, rehearse: bool) -> str:
    before, after = (sum(getattr(each, name) for each in written) for name in ("tokens_before", "tokens_after"))
    if not written:
        return ""
    verb = "would be compacted" if rehearse else "compacted"
    sent = sum(each.tokens_sent for each in written if each.by == EXTRACTIVE) if rehearse else 0
    return f" {verb}: {before:,} -> {after:,} tokens for the model" + (f"; {sending(sent)}" if sent else "")


def _document(done: output.Done, *, dry_run: bool) -> dict[str, Any]:
    files = [*done.results]
    for path, error in done.failed:
        files.append(CompactStats(path, status=status_of(error), reason=str(error), exit_code=error.exit_code))
    told = [{key: value for key, value in to_json(each).items() if key not in _NOT_IN_JSON} for each in files]
    return {"schema": SCHEMA, "dryRun": dry_run, "files": told}
