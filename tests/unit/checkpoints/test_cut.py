"""Where a session is cut."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from sessioncompress.checkpoints.cut import NoCut, find_cut
from sessioncompress.core.checkpoint import Cut
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.model import Call, Facts, Line, Purpose, Role, Shape
from sessioncompress.policy.model import Compact, CutRule

_ROLES = {
    "H": Role.HEADER,
    "u": Role.USER,
    "a": Role.ASSISTANT,
    "c": Role.ASSISTANT,
    "r": Role.RESULT,
    "K": Role.CHECKPOINT,
    "-": Role.OTHER,
}
_EACH = 400
"""Characters of each message: 100 tokens."""


def read(story: str, *, dead: frozenset[int] = frozenset(), answers: dict[int, str] | None = None) -> Survey:
    """Make a session of one letter a line: user, answer, call, result, checkpoint, other (-), header.

    A result answers the last call, or the one that `answers` says; a call's id is `c` and its place.
    """
    lines = []
    last = ""
    for number, letter in enumerate(story):
        line = Line(_ROLES[letter], 500, number, id=str(number), reads=0 if letter in "H-" else _EACH)
        if letter == "c":
            last = f"c{number}"
            line = line._replace(calls=(Call(last, last, "bash", Purpose.COMMAND),))
        if letter == "r":
            line = line._replace(answers=(answers or {}).get(number, last))
        lines.append(line)
    return Survey(Lines(lines), Shape(range(len(lines)), dead), 500 * len(lines))


def keep(rule: CutRule, **numbers: float) -> Compact:
    return Compact(keep=rule, min_dead_tokens=0, **numbers)  # type: ignore[arg-type]


class Row(NamedTuple):
    """A story, a rule, and the place at which what is kept begins; -1: nowhere."""

    story: str
    rule: Compact
    start: int
    splits: bool = False


TOKENS = keep(CutRule.TOKENS, keep_tokens=200)
MESSAGES = keep(CutRule.MESSAGES, keep_messages=3)
ROWS = {
    # Left alone.
    "no message": Row("H--", TOKENS, -1),
    "no user request": Row("aaaa", keep(CutRule.TURNS, keep_turns=1), -1),
    "nor since one": Row("aaaa", keep(CutRule.SINCE_PROMPT), -1),
    "one entry": Row("u", TOKENS, -1),
    "all is kept": Row("ua", keep(CutRule.SINCE_PROMPT), -1),
    "all has fewer tokens": Row("uaua", keep(CutRule.TOKENS, keep_tokens=400), -1),
    # By tokens: the entry that reaches the number is kept too.
    "at a prompt": Row("uauaua", TOKENS, 4),
    "at the answer behind it": Row("uaua-a", TOKENS, 3, splits=True),
    "behind a compaction in the only request": Row("aaaa", TOKENS, 2, splits=True),
    "not at a result": Row("uacrua", keep(CutRule.TOKENS, keep_tokens=300), 4),
    "before the call of the last result": Row("uaucr", keep(CutRule.TOKENS, keep_tokens=50), 3, splits=True),
    "a call at the end stays": Row("uauac", keep(CutRule.TOKENS, keep_tokens=50), 4, splits=True),
    "with the silent entries before": Row("uaua--ua", TOKENS, 4),
    "a header is not one of them": Row("Hua", keep(CutRule.TOKENS, keep_tokens=50), 2, splits=True),
    # By the other rules.
    "messages": Row("uauacra", MESSAGES, 4, splits=True),
    "a share": Row("uauauauaua", keep(CutRule.SHARE, keep_share=0.4), 6),
    "since the prompt": Row("uacrucra", keep(CutRule.SINCE_PROMPT), 4),
    "turns": Row("uauauaua", keep(CutRule.TURNS, keep_turns=2), 4),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_is_kept_begins_where_the_rule_says(row: Row) -> None:
    found = find_cut(read(row.story), row.rule, splits=True)
    if row.start < 0:
        assert isinstance(found, NoCut)
        return
    assert isinstance(found, Cut)
    assert (found.old, found.kept) == ([*range(row.start)], [*range(row.start, len(row.story))])
    assert found.splits == row.splits


def test_a_format_that_splits_no_turn_is_cut_at_a_prompt() -> None:
    found = find_cut(read("uacruacracra"), TOKENS, splits=False)
    assert isinstance(found, Cut)
    assert (found.kept[0], found.splits) == (4, False)
    assert find_cut(read("uacracra"), TOKENS, splits=False) == NoCut("it holds a single request")


@pytest.mark.parametrize("messages", [4, 5])
def test_parallel_calls_stay_with_all_their_results(messages: int) -> None:
    story = read("uaccrrua", answers={4: "c2", 5: "c3"})
    found = find_cut(story, keep(CutRule.MESSAGES, keep_messages=messages), splits=True)
    assert isinstance(found, Cut)
    assert found.kept[0] == 6


def test_several_results_in_one_line_stay_with_their_calls() -> None:
    story = read("uaccr-a")
    lines = Lines(story.lines)
    lines[4] = lines[4]._replace(answers="", facts=Facts(several=("c2", "c3")))
    found = find_cut(story._replace(lines=lines), keep(CutRule.MESSAGES, keep_messages=2), splits=True)
    assert isinstance(found, Cut)
    assert found.kept[0] == 5


def test_an_answer_of_several_lines_is_not_parted() -> None:
    story = read("uacrcra")
    lines = Lines(line._replace(response="one" if line.role is Role.ASSISTANT else "") for line in story.lines)
    lines[6] = lines[6]._replace(response="two")
    found = find_cut(story._replace(lines=lines), keep(CutRule.MESSAGES, keep_messages=3), splits=True)
    assert isinstance(found, Cut)
    assert found.kept[0] == 6
