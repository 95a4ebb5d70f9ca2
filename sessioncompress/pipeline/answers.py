"""The answers that a session records, in the order of its live path, and what its lines add from one to the next."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from msgspec import Struct

from sessioncompress.core.jsonl import Piece
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.model import Answer, Role
from sessioncompress.core.text import estimate
from sessioncompress.formats.base import Format
from sessioncompress.formats.values import entry_of
from sessioncompress.pipeline.models import characters_per_token
from sessioncompress.pipeline.survey import parse

_SPEAKING = frozenset({Role.ASSISTANT, Role.CHECKPOINT})


class Answers(Struct, frozen=True):
    """The answers on a session's live path in order, and estimates, in tokens, of what stands between them.

    `added` holds for each answer what the lines from the answer before it, with that one, up to it hold: by so much
    should what was sent have grown. `behind` is what stands behind the last answer that has a usage, for its context to
    grow by. Both are None where a compaction stands between, or nothing to count from.
    """

    answers: tuple[Answer, ...]
    added: tuple[int | None, ...]
    behind: int | None


class _Made(NamedTuple):
    """An answer, where on the live path the first of its lines stands, and what those lines go by."""

    answer: Answer
    first: int
    name: str | int


def answers(pieces: Iterable[Piece], read: Survey, form: Format, document: Any = None) -> Answers:
    """Read the answers among the pieces of which `read` is the survey; only lines that may hold one are parsed.

    `document` is what stands around the messages, where the session is one.
    """
    found = dict(form.noted(document))
    live = bytearray(len(read.lines))
    for number in read.shape.live:
        live[number] = True
    for number, raw, whole in pieces:
        if whole and 0 <= number < len(live) and live[number] and any(mark in raw for mark in form.answer_marks):
            answer = form.answer(parse(raw) or entry_of(raw) or {})
            if answer:
                found[number] = answer
    made = _made(read, found)
    sums = array("Q", accumulate((read.lines[number].reads for number in read.shape.live), initial=0))
    compactions = array("I", accumulate((_ends(read.lines, number) for number in read.shape.live), initial=0))
    added = [_between(sums, compactions, *span) for span in pairwise(made)]
    return Answers(tuple(each.answer for each in made), (None, *added)[: len(made)], _behind(read, made))


def _made(read: Survey, found: Mapping[int, Answer]) -> list[_Made]:
    """Put together what several lines say of one request: of the lines of a response the last with a usage counts.

    What is no line of a response but counts one is of the last response before it.
    """
    lines = read.lines
    made: dict[str | int, _Made] = {}
    firsts: dict[str | int, int] = {}
    model, window = "", 0
    last: str | int | None = None
    for position, number in enumerate(read.shape.live):
        own = _name(lines, number)
        if own is not None:
            last = own
            firsts.setdefault(own, position)
        answer = found.get(number)
        if answer is None:
            continue
        model, window = answer.model or model, answer.window or window
        if own is None and answer.usage is None and not answer.error:
            continue
        said = own if own is not None or answer.error else last
        name = number if said is None else said
        before = made.get(name)
        if before is None or (answer.usage and answer.usage != before.answer.usage):
            known = answer._replace(line=number, model=model, window=window)
            made[name] = _Made(known, firsts.setdefault(name, position), name)
    return sorted(made.values(), key=lambda each: each.first)


def _name(lines: Lines, number: int) -> str | int | None:
    """Return what the lines of a response go by: its name, or the number of its only line; None for any other line."""
    return lines.responses[number] or (number if lines.roles[number] in _SPEAKING else None)


def _ends(lines: Lines, number: int) -> bool:
    return lines.roles[number] is Role.CHECKPOINT


def _between(sums: Sequence[int], compactions: Sequence[int], before: _Made, after: _Made) -> int | None:
    if compactions[before.first] != compactions[after.first]:
        return None
    return _tokens(sums[after.first] - sums[before.first], after)


def _tokens(characters: int, read_by: _Made) -> int:
    return estimate(characters, characters_per_token(read_by.answer.model))


def _behind(read: Survey, made: Sequence[_Made]) -> int | None:
    counted = next((each for each in reversed(made) if each.answer.usage), None)
    if counted is None:
        return None
    since = read.shape.live[counted.first :]
    if any(_ends(read.lines, number) for number in since):
        return None
    rest = (number for number in since if _name(read.lines, number) != counted.name)
    return _tokens(sum(read.lines[number].reads for number in rest), counted)
