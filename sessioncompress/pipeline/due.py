"""Whether a session that is open has anything due, by the rule of its policy; and what pruning has to do with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sessioncompress.core.turns import turns_of
from sessioncompress.pipeline import reading, triage
from sessioncompress.pipeline.incremental import NotFinished, Part
from sessioncompress.pipeline.summary import LINES, MESSAGES, TURNS, BudgetStats, all_messages, noted
from sessioncompress.policy.model import Policy, Rule

if TYPE_CHECKING:
    from sessioncompress.pipeline.usage import Answers


def judge(part: Part, policy: Policy, saves: Callable[[], int], *, as_left: bool = False) -> BudgetStats:
    """Judge what is read of a session; `saves` says how many tokens pruning would save the model.

    Raises NotFinished where that does not show what the session stands against.
    """
    # Imported here, as below, because hardly any policy has a rule.
    from sessioncompress.pipeline.budget import judged

    read, form, session = part.known.survey, part.known.form, part.session
    return judged(
        read,
        _answers(part),
        part.journal.runs[-1] if part.journal.runs else None,
        policy,
        saves,
        path=str(session.path),
        form=form.name,
        as_left=as_left,
    )


def _answers(part: Part) -> Answers:
    """Return the answers that a session records, as far as they count. Raises NotFinished where more may."""
    session, known = part.session, part.known
    if not part.prefix.size:
        return reading.read_answers(session, known)
    from sessioncompress.pipeline.usage import answers

    found = answers(part.read(session.reader, session.size), known.survey, known.form)
    if not any(each.usage and each.model for each in found.answers):
        # The model, and with it the window, may be named in what no run reads again.
        raise NotFinished
    return found


def is_judged(policy: Policy) -> bool:
    """Say whether a run must know how a session stands against its budget: its rule asks, or its log tells."""
    return policy.budget.rule is not Rule.SIZE or policy.log_file is not None


def not_due(part: Part, policy: Policy, budget: BudgetStats | None, *, force: bool) -> str:
    """Say why nothing is due; empty where something is. With `force` something always is."""
    size = part.session.size
    if reason := triage.may_be_cached(part.session.stat, policy):
        return reason
    if policy.budget.rule is not Rule.SIZE:
        from sessioncompress.pipeline.budget import Action

        waits = budget is not None and budget.decision == Action.NONE and not force
        return f"{budget.reason} (rule {budget.rule})" if budget and waits else ""
    if triage.is_small(size, policy, force=force) and not _turns_are_due(part, policy):
        return triage.too_small(size, policy)
    return ""


def with_pruning(policy: Policy, budget: BudgetStats | None) -> Policy:
    """Return the policy that a decision calls for: pruning, where the rule wants it, though the policy has it off."""
    if budget is None or policy.prune.enabled or policy.budget.rule is Rule.SIZE:
        return policy
    from sessioncompress.pipeline.budget import Action

    if budget.decision not in (Action.PRUNE, Action.COMPACT):
        return policy
    return replace(policy, prune=replace(policy.prune, enabled=True))


def to_note(part: Part) -> dict[str, int]:
    """Return what a run's record notes of a session, so that the next one knows what came since."""
    read = part.known.survey
    messages = all_messages(read, part.journal.runs[-1] if part.journal.runs else None)
    return {TURNS: turns_of(read), LINES: part.prefix.lines + len(read.lines), MESSAGES: messages}


def _turns_are_due(part: Part, policy: Policy) -> bool:
    before = noted(part.journal.runs[-1], TURNS) if part.journal.runs else 0
    return policy.every_turns is not None and turns_of(part.known.survey) - before >= policy.every_turns
