"""`verify`: check sessions, and that every original is there and right."""

from __future__ import annotations

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Each, SessionCommand, Words
from sessioncompress.operations import wording
from sessioncompress.operations.verify import VerifyStats, verify_session


class Verify(SessionCommand[VerifyStats]):
    """Check sessions, and that every original is there; exit 5 if not."""

    stores = urls = packed = True
    takes = (options.CONFIG, options.THEIR_FOLDER, options.FORMAT)
    notes = output.tell_of_rollouts

    @staticmethod
    def work(each: Each, form: str | None) -> VerifyStats:
        return verify_session(each.path, each.policy, form=form)

    def words(self, stats: VerifyStats) -> Words:
        # What is right and nothing more is in the total.
        is_news = wording.noticed(stats) or stats.lines_not_understood
        return Words(wording.verified(stats), left=None if is_news else ("", ""))

    def total(self, done: Done[VerifyStats]) -> list[str]:
        return [output.total(len(done.results), wording.verified_total(done.results), done.others)]


verify = Verify.command("verify session.jsonl")
