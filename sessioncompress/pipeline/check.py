"""The checks that every rewritten session passes before it may replace anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sessioncompress.core.lines import Lines, callers
from sessioncompress.core.model import Block, Line, Standing
from sessioncompress.errors import NOT_CHANGED, Damaged


def check(
    before: Lines,
    after: Lines,
    standing: Sequence[Standing],
    changed: Sequence[int],
    where: str,
    is_free: Callable[[int, Block], bool],
) -> None:
    """Compare a session's lines before and after: same lines in the same order, same ties, nothing protected changed.

    A protected line may lose copies that `is_free` says, and nothing else. Raises Damaged: it
    means an error in this program, and the session is not changed.
    """
    if len(before) != len(after):
        raise broken("the number of lines differs", where)
    for number in changed:
        was, now = before[number], after[number]
        fault = ""
        if standing[number] is Standing.PROTECTED and not _stays(number, was, now, is_free):
            fault = "a protected line would change"
        elif (was.role, was.id, was.parent, was.facts.keeps) != (now.role, now.id, now.parent, now.facts.keeps):
            fault = "a line's type, id or parent would change"
        elif len(was.calls) != len(now.calls) or was.facts.failed != now.facts.failed:
            fault = "a line's calls or its error flag would change"
        elif now.size >= was.size:
            fault = "a line would grow"
        if fault:
            raise broken(fault, where, number)
    named = frozenset(changed)
    ids_differ = False
    for number, (was, now) in enumerate(zip(before, after, strict=True)):
        if was is now:
            continue
        if was.digest != now.digest and number not in named:
            raise broken("a line would change that the plan does not name", where, number)
        ids_differ |= was.answers != now.answers or was.calls != now.calls
    if ids_differ and callers(before) != callers(after):
        raise broken("calls and their results would not stay together", where)


def _stays(number: int, before: Line, after: Line, is_free: Callable[[int, Block], bool]) -> bool:
    """Tell whether a protected line lost nothing but copies that nobody meets again."""

    def rest(line: Line) -> Line:
        blocks = tuple(block._replace(tool="") for block in line.blocks if not is_free(number, block))
        return line._replace(size=0, digest=0, blocks=blocks)

    return any(is_free(number, block) for block in before.blocks) and rest(before) == rest(after)


def broken(what: str, where: str, number: int | None = None) -> Damaged:
    """Make the error for a rewrite that failed a check."""
    return Damaged(
        f"the rewritten session failed its check: {what}",
        where=where,
        line=None if number is None else number + 1,
        state=NOT_CHANGED,
        remedy="This is a bug in sessioncompress; please report it.",
    )
