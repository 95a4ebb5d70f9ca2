"""`forget`: delete the stores of sessions, after saying what that loses."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.choosing import Chosen, choosing, with_stores
from sessioncompress.cli.tables import echo_wrapped, is_seen, shown, wrapped
from sessioncompress.core.text import counted, kb
from sessioncompress.errors import Refused
from sessioncompress.operations import batch
from sessioncompress.operations.forget import ForgetStats, forget_session
from sessioncompress.operations.wording import at_stake, links_kept, status_of
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import to_json
from sessioncompress.policy.sources import Policies
from sessioncompress.store.layout import FOLDER

SCHEMA = "sessioncompress.forget/1"
DELETED = "deleted"
KEPT = "kept"
NO_STORE = "without a store"

_VERIFY = "'sessioncompress verify' says whether the store of another session here has them"


@click.command(cls=options.Command, epilog="Example: sessioncompress forget session.jsonl")
@choosing(options.DRY_RUN, options.YES, options.JSON, gone=True)
@options.CONFIG
@options.THEIR_FOLDER
def forget(chosen: Chosen, config: Path | None, backup_dir: Path | None) -> None:
    """Delete the stores of sessions; first say what can't be restored after that, and ask once."""
    if chosen.as_json and not (chosen.yes or chosen.dry_run):
        raise click.UsageError("--json can't ask; add --yes or --dry-run")
    policies = options.policies_of(config, backup_dir=backup_dir)
    found = with_stores(chosen, policies, gone_too=True)
    forgetting = _Forgetting(chosen, policies)
    done, ended = forgetting.forget(found), forgetting.ended
    deleted = [stats.bytes_deleted for stats in done.results if ended[stats.path] == DELETED]
    elsewhere = any(stats.markers for stats in done.results if ended[stats.path] != KEPT)
    if kept := sum(stats.links_kept for stats in done.results):
        text = f"kept {links_kept(kept)}: files with '.late-' in their names, in {FOLDER} folders"
        echo_wrapped(text, err=True)
    if chosen.as_json:
        output.echo_json(_document(done, ended, dry_run=chosen.dry_run))
    elif not chosen.is_one:
        became = [ended[stats.path] for stats in done.results]
        others = {word: became.count(word) for word in (KEPT, NO_STORE)}
        verb = "would delete" if chosen.dry_run else DELETED
        echo_wrapped(output.total(len(deleted), f": {verb} {kb(sum(deleted))}", {**others, **done.others}))
    output.tell_of_packed(chosen)
    sys.exit(batch.worst([done.exit_code, Refused.exit_code if kept or elsewhere else 0]))


class _Forgetting:
    """Looks at sessions, asks, and deletes their stores; `ended` says by path what became of each."""

    def __init__(self, chosen: Chosen, policies: Policies) -> None:
        self._chosen, self._policies = chosen, policies
        self._is_sure = chosen.yes and not chosen.dry_run
        self.ended: dict[str, str] = {}

    def forget(self, found: Sequence[Found]) -> output.Done:
        """Go over the sessions. Raises UsageError if nobody answers."""
        done = output.told(batch.each(found, self._look_or_delete), self._say)
        asked = {each.path: each for each in done.results if self.ended[each.path] == KEPT}
        if not asked:
            return done
        if not _agreed(list(asked.values()), one=self._chosen.is_one):
            if self._chosen.is_one:
                self._echo(done.results[0], KEPT)
            return done
        left = done._replace(results=[each for each in done.results if each.path not in asked])
        going = {str(each.path): each for each in found if str(each.path) in asked}
        return output.both(left, output.told(batch.each(going.values(), self._delete), self._say_deleted))

    def _look_or_delete(self, found: Found) -> ForgetStats:
        stats = forget_session(found.path, self._policies.of(found.path), dry_run=True)
        return self._delete(found) if stats.bytes_deleted and self._is_sure else stats

    def _delete(self, found: Found) -> ForgetStats:
        return forget_session(found.path, self._policies.of(found.path))

    def _say(self, stats: ForgetStats) -> None:
        if not stats.bytes_deleted:
            self.ended[stats.path] = NO_STORE
            # Of several, those that there is nothing to say of are counted in the total.
            if self._chosen.is_one or stats.links_kept or stats.markers:
                self._echo(stats, _without_a_store(stats))
        elif self._is_sure:
            self._say_deleted(stats)
        else:
            self.ended[stats.path] = DELETED if self._chosen.dry_run else KEPT
            # The question about one session says it.
            if self._chosen.dry_run or not self._chosen.is_one:
                self._echo(stats, f"would delete {at_stake(stats)}")

    def _say_deleted(self, stats: ForgetStats) -> None:
        self.ended[stats.path] = DELETED
        # Of several what goes was said before the question.
        if self._is_sure or self._chosen.is_one or stats.markers:
            self._echo(stats, f"deleted {at_stake(stats, done=True)}{_unknown(stats)}")

    def _echo(self, stats: ForgetStats, said: str) -> None:
        if not self._chosen.as_json:
            echo_wrapped(f"{_name(stats)}: {said}")


def _name(stats: ForgetStats) -> str:
    return shown(stats.path) + (" (session gone)" if stats.gone else "")


def _agreed(asked: Sequence[ForgetStats], *, one: bool) -> bool:
    """Ask whether to delete the stores of sessions, once; of `one` with all that is known. Raises UsageError."""
    if one:
        question, where = f"{_name(asked[0])}: delete {at_stake(asked[0])}?", Path(asked[0].path)
    else:
        size, originals, lost = (
            sum(getattr(each, name) for each in asked) for name in ("bytes_deleted", "originals", "originals_lost")
        )
        loss = f"After that, {lost:,} of them can't be restored." if lost else "The sessions have their original bytes."
        echo_wrapped(f"Total: {kb(size)}, {counted(originals, 'original', 'originals')}. {loss}")
        question, where = f"Delete {counted(len(asked), 'store', 'stores')}?", None
    # Behind a question click writes what may be answered.
    question = wrapped(question, len(" [y/N]: ")) if is_seen() else question
    return output.confirmed(question, where, "Nothing was deleted.")


def _unknown(stats: ForgetStats) -> str:
    if not stats.markers:
        return ""
    return (
        f"; but it has {_standing(stats)} that no journal here knew. If their originals are elsewhere, "
        f"run again with --backup-dir and their folder, or without --backup-dir; {_VERIFY}"
    )


def _standing(stats: ForgetStats) -> str:
    return counted(stats.markers, "marker", "markers")


def _without_a_store(stats: ForgetStats) -> str:
    if stats.links_kept:
        return f"kept {links_kept(stats.links_kept)}"
    if stats.markers:
        return (
            f"nothing was deleted: there is no store here, but {_standing(stats)}. Name the folder of the originals "
            f"with --backup-dir; {_VERIFY}"
        )
    return "it has no store"


def _document(done: output.Done, ended: Mapping[str, str], *, dry_run: bool) -> dict[str, Any]:
    files = [to_json(each) | {"status": ended[each.path], "reason": ""} for each in done.results]
    for path, error in done.failed:
        files.append(to_json(ForgetStats(path)) | {"status": status_of(error).value, "reason": str(error)})
    return {"schema": SCHEMA, "dryRun": dry_run, "files": files}
