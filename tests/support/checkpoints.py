"""Writes checkpoints into sessions, with a cut made by hand and a short summary."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sessioncompress.checkpoints.cut import find_cut, for_the_model
from sessioncompress.core.checkpoint import Checkpoint, Cut, Summary, Written
from sessioncompress.core.documents import edits_of
from sessioncompress.core.jsonl import document_of, parse
from sessioncompress.core.lines import Survey
from sessioncompress.core.model import Role
from sessioncompress.core.splice import edited
from sessioncompress.policy.model import Compact, CutRule
from tests.support.runs import form_of, split, survey_of, units

SUMMARY = Summary(
    "The levels were published, and then the forecasts.",
    "Forecasts published.",
    read=("src/tides.py",),
    changed=("src/report.py", "src/levels.py"),
    tokens_before=50_000,
    tokens_after=9_000,
)


class Cutting(NamedTuple):
    """A session with a checkpoint: its bytes before and after, where it was cut, and what was written."""

    before: bytes
    after: bytes
    cut: Cut
    checkpoint: Checkpoint


def written_of(data: bytes, survey: Survey | None = None) -> Written:
    """Return a session as whoever writes a checkpoint needs it."""
    found = units(data)

    def entry(number: int) -> Mapping[str, Any]:
        return parse(found[number]) or {}

    def newest(mark: bytes, takes: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any] | None:
        numbers = (number for number in range(len(found) - 1, -1, -1) if mark in found[number])
        return next((entry(number) for number in numbers if takes(entry(number))), None)

    document = document_of(lambda: io.BytesIO(data), len(data))
    outer = None if document is None else document.outer
    return Written((survey or survey_of(data)).lines, entry, newest, found.__getitem__, outer)


def cut_of(survey: Survey, share: float = 0.3, *, splits: bool = True) -> Cut:
    """Cut where about so large a share of what the model reads stays."""
    keep = Compact(keep=CutRule.SHARE, keep_share=share, min_dead_tokens=0)
    found = find_cut(survey, keep, splits=splits)
    assert isinstance(found, Cut), found
    return found


def checkpointed(data: bytes, share: float = 0.3, summary: Summary = SUMMARY, first: int | None = None) -> Cutting:
    """Write a checkpoint into a session; what is kept begins with the line `first`, or else is so large a share."""
    form, survey = form_of(data), survey_of(data)
    if first is None:
        cut = cut_of(survey, share, splits=form.splits_turns)
    else:
        order = for_the_model(survey)
        at = order.index(first)
        cut = Cut(order[:at], order[at:], survey.lines.roles[first] is not Role.USER)
    made = form.checkpoint(written_of(data, survey), cut, summary)
    assert made is not None
    document = document_of(lambda: io.BytesIO(data), len(data))
    after = edited(document.raw, edits_of(document, made)) if document is not None else _with_lines(data, made)
    return Cutting(data, after, cut, made)


def _with_lines(data: bytes, made: Checkpoint) -> bytes:
    """Add lines before those of their numbers; a line that sets all messages counts as many as it holds."""
    found: list[bytes] = []
    number = 0
    added: dict[int, bytes] = {}
    for addition in made.added:
        added[addition.before] = added.get(addition.before, b"") + addition.line
    for line in split(data):
        found += filter(None, [added.get(number), made.changed.get(number, line)])
        number += len(units(line)) if line.startswith(b'{"$set":{"messages":[') else 1
    return b"".join([*found, *filter(None, [added.get(number)])])
