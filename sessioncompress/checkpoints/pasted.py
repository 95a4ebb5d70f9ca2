"""What a user pasted into a request: screens, logs and code, not sentences of the user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_LEAST = 4
"""Lines of a run; fewer are no paste."""
_BETWEEN = 2
"""Lines of words that stand inside a paste."""
_LETTERS = 0.72
"""Of the characters of a sentence at least so much are letters."""
_WORDS = 3
_LOOKED_AT = 400

_ITEM = re.compile(r"\s{0,12}(?:[-*\u2022]|[0-9]{1,3}[.)])\s")
_CODE = re.compile(r"\s{2,}|[<{}\[$>|]|at \S|\S{1,60}@\S{1,80}[ :]|file:|https?:|.{0,400}[;{},\\]\s{0,8}\Z")
_FENCE = ("```", "~~~")


def is_words(line: str) -> bool:
    """Tell whether a line may be a sentence that somebody wrote, or an item of a list."""
    line = line[:_LOOKED_AT]
    if _ITEM.match(line):
        return True
    if _CODE.match(line):
        return False
    dense = "".join(line.split())
    return len(line.split()) >= _WORDS and sum(map(str.isalpha, dense)) >= _LETTERS * len(dense)


def pasted(lines: Sequence[str]) -> Iterator[range]:
    """Yield the runs of lines that were pasted; the first and the last line of all are none."""
    begins, last, count = 0, 0, 0
    in_code = False
    for at in range(1, len(lines)):
        fenced = lines[at].lstrip().startswith(_FENCE)
        is_end = at == len(lines) - 1
        if not is_end and (fenced or in_code or not is_words(lines[at])):
            if not count:
                begins = at
            last, count = at, count + 1
        elif count and (is_end or at - last > _BETWEEN):
            if count >= _LEAST:
                yield range(begins, last + 1)
            count = 0
        in_code ^= fenced


def own(lines: Sequence[str]) -> list[str]:
    """Leave the lines that the user wrote."""
    taken = {at for run in pasted(lines) for at in run}
    return [line for at, line in enumerate(lines) if at not in taken and is_words(line)]
