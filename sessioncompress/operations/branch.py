"""Leave a branch of a session: summarize it, and add the summary where the conversation continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.checkpoints.cut import for_the_model
from sessioncompress.checkpoints.notes import Besides
from sessioncompress.checkpoints.quote import one_line
from sessioncompress.core.checkpoint import Checkpoint, Cut, Say, Summary
from sessioncompress.core.lines import SPOKEN, Survey, messages_of, tokens_of, turns_on
from sessioncompress.core.model import Role
from sessioncompress.formats.base import tree_shape
from sessioncompress.operations.draft import Opened, opened
from sessioncompress.operations.old_part import WENT_ON, OldPart
from sessioncompress.operations.user_commands import CANCELED, others_sum_up, summed_up, tell_after
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.stats import Status, Summarized
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store.records import RunKind


class BranchStats(Summarized, frozen=True, rename="camel"):
    """What `branch-summary` did to a session, or would do with `dry_run`. Sizes are bytes; tokens are estimates.

    The branch that ends with entry `leaf` was left for entry `to`. `fork` is their last common entry, or "".
    `messages_left` counts the messages that the model no longer reads.
    """

    messages_left: int = 0
    leaf: str = ""
    to: str = ""
    fork: str = ""

    @property
    def is_summarized(self) -> bool:
        """True if a summary was written, or would be with `dry_run`."""
        return self.status in (Status.SUMMARIZED, Status.WOULD_SUMMARIZE)


class BranchPoint(Struct, frozen=True, rename="camel"):
    """An entry that the user can go back to, and its last words.

    `kind` is "leaf" if it ends a branch, "fork" if several branches start after it, or "turn" if it ends a turn on the
    live path. `is_live` is true if it is on that path. `time` is in milliseconds since 1970, or 0 if unknown.
    """

    id: str
    kind: str
    is_live: bool
    time: int = 0
    words: str = ""


def summarize_branch(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    to: str = "",
    instructions: str = "",
    dry_run: bool = False,
    sends: bool = True,
    form: str | None = None,
) -> BranchStats:
    """Summarize a session's current branch, and continue after entry `to`, or by default after the last other leaf.

    `instructions` set the focus of the summary. With `dry_run`, only report the effect; a model named by
    `policy.summarizer` is then asked only if `sends`. The policy's before-command is asked first, and its after-command
    told at the end. `form` as in compress_session(). Raises SessionCompressError with the session
    unchanged: Refused if we can't summarize branches for the agent, or if the session has no such entry.
    """
    path = Path(path)
    if not policy.enabled:
        return BranchStats(str(path), status=Status.SKIPPED, reason=triage.SWITCHED_OFF)
    with opened(path, policy, writing=not dry_run, form=form) as session:
        stats, record = _summarize(session, to, instructions, dry_run=dry_run, sends=sends)
    warning = tell_after(policy, stats.path, stats.format, stats.run, stats.summary, record)
    return replace(stats, warning=warning)


def places(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> list[BranchPoint]:
    """List the leaves, forks and live turns of a session in order. Raises as summarize_branch() does."""
    with opened(Path(path), policy, writing=False, adds=False, form=form) as session:
        with session.refusing():
            leaves = session.form.leaves(session.read.lines)
        lines, live = session.read.lines, session.read.shape.live
        children = Counter(parent for name, parent in zip(lines.ids, lines.parents, strict=True) if name)
        numbers = {name: number for number, name in enumerate(lines.ids) if name}
        kinds = {live[position - 1]: "turn" for position in turns_on(lines, live)[1:]}
        kinds |= {number: "fork" for name, number in numbers.items() if children[name] > 1}
        kinds |= dict.fromkeys(leaves, "leaf")
        on_path = frozenset(live)
        return [
            BranchPoint(
                lines.ids[number],
                kind,
                number in on_path,
                session.form.written_at(session.entry(number)),
                _words(session, number, numbers),
            )
            for number, kind in sorted(kinds.items())
        ]


def _summarize(session: Opened, to: str, instructions: str, *, dry_run: bool, sends: bool) -> tuple[BranchStats, bytes]:
    """Summarize the branch; return the statistics and the journal's record of it (empty if nothing was written)."""
    form, read = session.form, session.read
    lines, live = read.lines, read.shape.live
    with session.refusing():
        leaves = form.leaves(lines)
    size, before = session.session.size, tokens_of(read)
    stats = BranchStats(
        session.where,
        form.name,
        size_before=size,
        size_after=size,
        tokens_before=tokens_of(read, session.per_token),
        tokens_after=tokens_of(read, session.per_token),
    )
    stats = replace(stats, leaf=lines.ids[live[-1]])
    if not to and _ends_with_summary(session):
        reason = "nothing was said since the last branch summary; name an entry (--to) to leave this branch too"
        return replace(stats, reason=reason), b""
    target = _target(session, leaves, to)
    path = Survey(lines, tree_shape(lines, target), read.size)
    stays = frozenset(path.shape.live)
    left = [number for number in for_the_model(read) if number not in stays]
    shared = [number for number in live if number in stays]
    stats = replace(stats, to=lines.ids[target], fork=lines.ids[shared[-1]] if shared else "")
    if not any(lines.roles[number] in SPOKEN for number in left):
        return replace(stats, reason=f"nothing was said after {lines.ids[target]} that would be left behind"), b""
    _refuse_inside_step(session, path, target)
    old = OldPart(session, left, budget=session.budget(left), besides=Besides(instructions=instructions), apart=stays)
    cut = Cut(left, for_the_model(path), splits=False)

    def made(summary: Summary) -> Checkpoint:
        with session.refusing():
            return form.branch_summary(session.written, left, target, summary)

    if others_sum_up(session.policy):
        # Check first, so that nothing is sent or asked for a session that will be refused.
        with session.draft(made(old.extract), cut, dry_run=True):
            pass
    told = summed_up(old, "branch", "branch", cut.kept, dry_run=dry_run, sends=sends)
    if told is None or (others_sum_up(session.policy) and old.went_on()):
        return replace(stats, status=Status.SKIPPED, reason=WENT_ON if told else CANCELED), b""
    with session.draft(made(told.summary), cut, dry_run=dry_run) as draft:
        after = tokens_of(draft.read)
        stats = replace(
            stats,
            status=Status.WOULD_SUMMARIZE if dry_run else Status.SUMMARIZED,
            messages_left=messages_of(read, frozenset(left)),
            **told.stats(session, draft),
        )
        if dry_run:
            return stats, b""
        # The rule of a compaction is its cut rule; a branch has none.
        size = session.commit(draft, told.summary, "branch", (before, after), RunKind.BRANCH)
        return replace(stats, size_after=size, run=session.run_id), draft.record


def _target(session: Opened, leaves: Sequence[int], to: str) -> int:
    """Find the entry where the conversation continues. Raises Refused."""
    lines, live = session.read.lines, session.read.shape.live
    if not to:
        others = [leaf for leaf in leaves if leaf not in frozenset(live)]
        if not others:
            raise session.refused("it has no second leaf", "Name the entry to go back to (--to).")
        return others[-1]
    found = [number for number, name in enumerate(lines.ids) if name == to]
    if not found:
        raise session.refused(
            f"it has no entry {to}",
            "Name one of its entries; branch-summary --list shows the leaves, and where branches split.",
        )
    if found[-1] == live[-1]:
        remedy = "Name an entry before it, or one on another branch; branch-summary --list shows the leaves."
        raise session.refused(f"{to} is its last entry, so there is no branch to leave", remedy)
    return found[-1]


def _refuse_inside_step(session: Opened, path: Survey, target: int) -> None:
    """Refuse an entry between calls and their results: no request may end there."""
    lines = path.lines
    waiting = {call.id for number in path.shape.live for call in lines[number].calls}
    waiting -= {lines[number].answers for number in path.shape.live}
    if not waiting.isdisjoint(line.answers for line in lines):
        what = f"{lines.ids[target]} is between calls and their results"
        raise session.refused(what, "Name the last of the results, or the entry before the calls.")


def _ends_with_summary(session: Opened) -> bool:
    """True if the last readable entry on the live path is a branch summary."""
    lines, reader = session.read.lines, session.form.reader()
    last = next((number for number in reversed(session.read.shape.live) if lines[number].reads), None)
    if last is None or lines.roles[last] is not Role.OTHER:
        return False
    return any(said.say is Say.SUMMARY for said in reader.said(session.entry(last)))


def _words(session: Opened, number: int, numbers: Mapping[str, int]) -> str:
    """Return the words of an entry, or of its nearest ancestor that has any."""
    reader, parents = session.form.reader(), session.read.lines.parents
    step: int | None = number
    for _ in range(16):
        if step is None:
            break
        said = (each.text for each in reader.said(session.entry(step)) if each.say in (Say.PROMPT, Say.ANSWER))
        if words := next(filter(None, said), ""):
            return one_line(words, 60)
        step = numbers.get(parents[step])
    return ""
