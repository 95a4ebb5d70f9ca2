"""The checks that every rewritten session passes before it may replace anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sessioncompress.errors import NOT_CHANGED, Damaged
from sessioncompress.model import Line, Standing
from sessioncompress.pairs import callers


def check(
    before: Sequence[Line],
    after: Sequence[Line],
    standing: Sequence[Standing],
    changed: Mapping[int, object],
    where: str,
) -> None:
    """Compare a session's lines before and after: same lines in the same order, same ties, nothing protected changed.

    Raises Damaged: it means an error in this program, and the session is not changed.
    """
    if len(before) != len(after):
        raise broken("the number of lines differs", where)
    for number in changed:
        if standing[number] is Standing.PROTECTED:
            raise broken("a protected line would change", where, number)
        same_line(before[number], after[number], where, number)
    for number, line in enumerate(before):
        if number not in changed and line.digest != after[number].digest:
            raise broken("a line would change that the plan does not name", where, number)
    if callers(before) != callers(after):
        raise broken("calls and their results would not stay together", where)


def same_line(before: Line, after: Line, where: str, number: int) -> None:
    """Check one changed line: what it is, its id, its parent, its calls; and it must be smaller."""
    was = (before.role, before.id, before.parent, before.facts.keeps)
    if was != (after.role, after.id, after.parent, after.facts.keeps):
        raise broken("a line's type, id or parent would change", where, number)
    if len(before.calls) != len(after.calls) or before.facts.failed != after.facts.failed:
        raise broken("a line's calls or its error flag would change", where, number)
    if after.size >= before.size:
        raise broken("a line would grow", where, number)


def broken(what: str, where: str, number: int | None = None) -> Damaged:
    """Make the error for a rewrite that failed a check."""
    return Damaged(
        f"the rewritten session failed its check: {what}",
        where=where,
        line=None if number is None else number + 1,
        state=NOT_CHANGED,
        remedy="This is an error in sessioncompress; please report it.",
    )
