"""The conversation of user and agent: requests, the constraints in them, and reports."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sessioncompress.checkpoints.quote import (
    CUT,
    clip,
    excerpt,
    fitting,
    more,
    newest,
    one_line,
    quoted,
    reference,
)

_MOST_TOLD = 400
"""Maximum requests (in addition to the first one), and maximum reports."""
_MOST_FOUND = 400
"""Maximum sentences."""
_LOOKED_AT = 6_000
"""Characters at either end of a text that are searched for sentences."""
_LINE = 220
_SHORTEST, _LONGEST = 24, 260
"""Characters of a sentence."""

_VERBATIM, _LONG = 260, 900
"""Length up to which a request is shown whole: any request, and the first and last two."""
_BEGUN = 60
"""Minimum characters for the line of each request."""
_WHOLE = 8_000
"""Characters at either end of a request that are kept."""
_REPORT, _LAST_REPORT = 300, 800

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\"(])|\n+")
_CONSTRAINT = re.compile(
    r"\b(?:must|never|always|don['\u2019]?t|do not|only|avoid|prefers?|should|make sure|ensure|keep|no need|without|"
    r"not allowed|required?|instead|from now on|no longer|(?:would|['\u2019]d) (?:like|rather))\b",
    re.IGNORECASE,
)
_LABEL = re.compile(r"\W{0,4}[A-Z]{4,20}(?: [A-Z]{2,20}){0,3}: ")
"""The beginning of a labeled sentence: `NOTE: `."""
_STATES = re.compile(r"\b(?:is|are|was|now|onto|called|named|based|runs|lives|uses?|owns|belongs)\b")
_VALUE = re.compile(
    r"https?://\w|[$\u20ac\u00a3] ?[0-9]|\b[0-9]{4}-[0-9]{2}-[0-9]{2}\b|\b[A-Z]{2,12}-[0-9]{1,8}\b|\b[0-9a-f]{7,40}\b|"
    r"\b[a-z]{2,20}/[\w-]{2,60}\b"
)
"""Parts of facts that may be in no file: an address, a sum, a date, a ticket, a commit, a branch."""
_RULE = re.compile(r"[\s`*#=|:+-]*+")

BELOW = "(in progress: below)"
"""Replaces the text of a request that has its own section."""


class SummaryRow(NamedTuple):
    """One request or report: its number among the requests, its lines, and the reference of its whole text."""

    number: int
    lines: Sequence[str]
    ref: str = ""

    @property
    def label(self) -> str:
        """The number of a row; a row before any request has none."""
        return f"{self.number}." if self.number else "-"

    def row(self, shown: Sequence[str], *, cut: bool) -> str:
        """Write the shown lines, with the reference if not all are shown."""
        return quoted(self.label, shown, f" [whole: {self.ref}]" if self.ref and cut else "")


class Story:
    """The requests of a session and the reports on them, noted in order."""

    def __init__(self) -> None:
        self.asked: deque[SummaryRow] = deque(maxlen=_MOST_TOLD)
        self.first: SummaryRow | None = None
        self.reported: deque[SummaryRow] = deque(maxlen=_MOST_TOLD)
        self.constraints: deque[str] = deque(maxlen=_MOST_FOUND)
        self.asked_before = self.reported_before = 0
        """The number of requests, and of reports, that an earlier summary left out."""
        self.number = 0
        self.newest = ""
        """The first sentence of the newest request."""
        self._answer = ""
        self.calls_since = False
        """True if calls came after the last answer."""

    def prompt(self, text: str) -> None:
        """Add a request, which begins a new turn."""
        self.end_turn()
        self.number += 1
        words = without_skills(text)
        lines = excerpt(words, _WHOLE)
        self._ask(SummaryRow(self.number, lines or ["(empty)"], reference(text)))
        self.newest = next((one_line(each, 120) for each in _SENTENCE.split(words[:2_000]) if each.strip()), "")
        self._note_constraints(lines)

    def asked_earlier(self, told: SummaryRow) -> None:
        """Add a request from an earlier summary."""
        self.number = max(self.number, told.number)
        self.newest = one_line(next(iter(told.lines), ""), 120)
        self._ask(told)
        if not any(CUT in line for line in told.lines):
            self._note_constraints(told.lines)

    def _note_constraints(self, lines: Sequence[str]) -> None:
        is_one = len(lines) == 1 and len(lines[0]) <= _LINE
        for sentence in lines if is_one else _sentences("\n".join(lines)):
            is_fact = _STATES.search(sentence) and _VALUE.search(sentence)
            if is_fact or _CONSTRAINT.search(sentence) or _LABEL.match(sentence):
                self.constraints.append(one_line(sentence, _LINE))

    def _ask(self, told: SummaryRow) -> None:
        if self.first is None:
            self.first = told
        else:
            self.asked_before += len(self.asked) == _MOST_TOLD
            self.asked.append(told)

    def answer(self, text: str) -> None:
        """Add a text of the agent; the last one of a turn is its report."""
        if text.strip():
            self._answer = text
            self.calls_since = False

    def call(self) -> None:
        """Record that the agent continued to work."""
        self.calls_since = True

    def end_turn(self) -> None:
        """Turn the last text of the turn into its report."""
        if self._answer:
            self.reported_before += len(self.reported) == _MOST_TOLD
            self.reported.append(SummaryRow(self.number, _report_lines(self._answer), reference(self._answer)))
        self._answer = ""
        self.calls_since = False


def requests(story: Story, room: int, *, splits: bool) -> list[str]:
    """Write the user's requests: a line of each, and more of the first and the newest ones if it fits.

    A request in progress shows only its number, because it has its own section.
    """
    told = [*([story.first] if story.first else []), *story.asked]
    if not told:
        return []
    rows = [_told(each, _VERBATIM) for each in told]
    if splits:
        rows[-1] = f"{told[-1].number}. {BELOW}"
    spare = room - sum(map(len, rows)) - len(rows)
    last = len(told) - 1 - splits
    for at in range(1, last + 1):
        # Each request keeps one line before a newer one gets many.
        if spare < 0:
            spare += len(rows[at])
            rows[at] = _begun(told[at])
            spare -= len(rows[at])
    for at in (each for each in (last, 0, last - 1) if 0 <= each <= last):
        longer = _told(told[at], _LONG)
        if len(longer) - len(rows[at]) <= spare:
            spare -= len(longer) - len(rows[at])
            rows[at] = longer
    if len(rows[0]) + 1 > room // 2 and len(told) > splits:
        rows[0] = _told(told[0], max(room // 2, 60))
    newer = newest(rows[1:], room - len(rows[0]) - 1, story.asked_before)
    gone = len(rows) - 1 + story.asked_before if len(rows) > 1 and not newer else 0
    return [rows[0], *newer, *([more(gone)] if gone else [])]


def _begun(told: SummaryRow) -> str:
    """Write the first line of a request."""
    if sum(map(len, told.lines)) + len(told.lines) <= _BEGUN:
        return _told(told, _BEGUN)
    shown = one_line(told.lines[0], _BEGUN)
    cut = len(told.lines) > 1 or shown != told.lines[0]
    row = told.row([shown], cut=cut)
    # A reference may be longer than the rest of the line.
    return _told(told, _VERBATIM) if sum(map(len, told.lines)) + 3 < len(row) - len(told.label) else row


def _told(told: SummaryRow, most: int, *, tail: bool = True) -> str:
    shown = clip(told.lines, most, tail=tail)
    # A whole text needs no reference, unless it was cut before.
    return told.row(shown, cut=shown != list(told.lines) or any("left out" in line for line in shown))


def constraints(story: Story, written: str, room: int) -> list[str]:
    """Write the sentences in requests that state rules and facts and are not in the text `written`.

    If not all fit, rules and labeled sentences are preferred, then newer ones.
    """
    written = " ".join(written.split())
    said = [each for each in dict.fromkeys(story.constraints) if " ".join(each.split()) not in written]
    is_rule = [bool(_CONSTRAINT.search(each) or _LABEL.match(each)) for each in said]
    order = sorted(range(len(said) - 1, -1, -1), key=lambda at: not is_rule[at])
    return fitting([f"- > {each}" for each in said], order, room)


def reports(story: Story, room: int) -> list[str]:
    """Write the agent's report at the end of each request, the last two at greater length."""
    # A repeated report is shown once.
    last_said = {tuple(each.lines): at for at, each in enumerate(story.reported)}
    told = [story.reported[at] for at in sorted(last_said.values())]
    last = min(_LAST_REPORT, max(room // 2, _REPORT))
    rows = [_told(each, _REPORT, tail=False) for each in told[:-2]]
    rows += [_told(each, last, tail=False) for each in told[-2:]]
    return newest(rows, room, story.reported_before)


def progress(story: Story, room: int) -> list[str]:
    """Write the request in progress, whole if it fits."""
    told = story.asked[-1] if story.asked else story.first
    return [_told(told, max(room - len(" [whole: ]") - 24, 40))] if told else []


def _sentences(text: str) -> Iterator[str]:
    if len(text) > 2 * _LOOKED_AT:
        text = f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    for each in _SENTENCE.split(text):
        sentence = each.strip()
        if _SHORTEST <= len(sentence) <= _LONGEST:
            yield sentence


def _report_lines(text: str) -> list[str]:
    """Return the lines of a report without code and rules; cut long ones."""
    kept: list[str] = []
    in_code = False
    for line in excerpt(text, 2_000):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not _RULE.fullmatch(line):
            kept.append(one_line(line.strip().lstrip("# "), _LINE))
    return kept or [one_line(text, _LINE)]


_SKILL, _SKILL_ENDS = "<skill name=", "</skill>"


def without_skills(text: str) -> str:
    """Replace skill texts, which an agent inserted into a request, with the skills' names."""
    if _SKILL not in text:
        return text
    kept: list[str] = []
    start = 0
    while (begin := text.find(_SKILL, start)) >= 0:
        end = text.find(_SKILL_ENDS, begin)
        if end < 0:
            break
        name = text[begin + len(_SKILL) : begin + len(_SKILL) + 80].lstrip("\"'").partition('"')[0]
        kept += [text[start:begin], f"[skill {one_line(name, 60)}] "]
        start = end + len(_SKILL_ENDS)
    return "".join([*kept, text[start:]])


LONGEST_GOAL = 500
"""Characters."""


def as_goal(text: str) -> str:
    """Write the user's next goal as one line without escapes and tags, of at most LONGEST_GOAL characters."""
    return one_line(without_skills(text[: 64 * 1024]), LONGEST_GOAL)
