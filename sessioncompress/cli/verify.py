"""`verify`: check sessions, and that every original is there and right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Each, SessionCommand, Words
from sessioncompress.cli.tables import echo_wrapped
from sessioncompress.errors import SessionGone
from sessioncompress.operations import wording
from sessioncompress.operations.verify import VerifyStats, verify_session
from sessioncompress.pipeline.discover import Found


class Verify(SessionCommand[VerifyStats]):
    """Check sessions, and that every original is there; exit 5 if not."""

    stores = urls = packed = True
    takes = (options.CONFIG, options.THEIR_FOLDER, options.FORMAT)
    notes = output.tell_of_rollouts

    @staticmethod
    def work(each: Each, form: str | None) -> VerifyStats:
        return verify_session(each.path, each.policy, form=form)

    def over(self, found: Iterable[Found]) -> Done[VerifyStats]:
        # An agent deletes its old sessions; only one that the user named is missed.
        found = list(found)

        def is_gone(each: Found) -> bool:
            return isinstance(each.error, SessionGone) and each.path not in self.chosen.paths

        self.gone = [each.shown for each in found if is_gone(each)]
        return super().over([each for each in found if not is_gone(each)])

    def words(self, stats: VerifyStats) -> Words:
        # What is right and nothing more is in the total.
        is_news = wording.noticed(stats) or stats.lines_not_understood
        return Words(wording.verified(stats), left=None if is_news else ("", ""))

    def total(self, done: Done[VerifyStats]) -> list[str]:
        return [output.total(len(done.results), wording.verified_total(done.results), done.others)]

    def document(self, done: Done[VerifyStats]) -> dict[str, Any]:
        return super().document(done) | {"gone": self.gone}

    def hints(self, done: Done[VerifyStats]) -> None:
        if self.gone and not self.silent:
            echo_wrapped(wording.gone(self.gone, self.chosen.typed(self.overrides["backup_dir"])), err=True)


verify = Verify.command("verify session.jsonl")
