"""A summary in the place of messages, where no agent reads one back: in gencode's layout, and in a plain chat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from xxhash import xxh3_64_hexdigest

from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Summary, Written
from sessioncompress.core.model import JsonPath, Role
from sessioncompress.core.splice import Added
from sessioncompress.core.text import estimate, utf8
from sessioncompress.formats import base, values
from sessioncompress.formats.base import CannotCheckpoint

_SYSTEM = ("system", "developer")

GONE = -1
"""What gencode's notes of an answer name where its message left."""


def chat(session: Written, cut: Cut, text: str) -> Checkpoint:
    """Put a message of the user in the place of those that it sums up."""
    if session.outer is None:
        raise CannotCheckpoint(
            "each of its messages is a line, and a summary would have to replace some of them",
            "Run 'sessioncompress compress' instead, which makes it smaller.",
        )
    stays, gone = _old(session, cut)
    message = values.literal({"role": "user", "content": utf8(text)})
    return Checkpoint((Addition(min(cut.kept), message),), gone, stays=stays)


def _old(session: Written, cut: Cut) -> tuple[frozenset[int], frozenset[int]]:
    """Part what is old: messages of the system that stand first stay, the summary stands for all others.

    Of several summaries it stands for the last one.
    """
    roles, old = session.lines.roles, frozenset(cut.old)
    before = range(min(cut.kept))
    first = takewhile(
        lambda number: roles[number] is Role.OTHER and session.entry(number).get("role") in _SYSTEM, before
    )
    stays = frozenset(first)
    gone = (number for number in before if number in old or roles[number] is not Role.CHECKPOINT)
    return stays, frozenset(gone) - stays


def gencode(session: Written, cut: Cut, summary: Summary, heading: str) -> Checkpoint:
    """Put a message of the system in the place of those that it sums up, and a record of it beside the messages."""
    (stays, gone), text = _old(session, cut), utf8(summary.text)
    content = f"{heading}{len(gone)} messages summarized]\n\n{text}"
    message = values.literal({"role": "system", "content": content})
    outer = dict(_around(session, cut, gone, summary._replace(text=text)))
    return Checkpoint((Addition(min(cut.kept), message),), gone, outer, stays=stays)


def _around(session: Written, cut: Cut, gone: frozenset[int], summary: Summary) -> Iterator[tuple[JsonPath, Any]]:
    """Find what changes around the messages: the summaries, the counts, and the numbers of messages."""
    outer = values.fields(session.outer)
    metadata = values.fields(outer.get("metadata"))
    count = len(session.lines)
    if isinstance(metadata.get("messageCount"), int):
        yield ("metadata", "messageCount"), count - len(gone) + 1
    if "fullMessageCount" not in outer:
        yield ("fullMessageCount",), Added(count)
    for place, note in enumerate(map(values.fields, values.items(metadata.get("completions")))):
        number = note.get("afterMessageIndex")
        if isinstance(number, int) and number >= min(gone):
            moved = GONE if number in gone else number - len(gone) + 1
            yield ("metadata", "completions", place, "afterMessageIndex"), moved
    record = _record(session, cut, gone, summary, values.text(metadata.get("updatedAt")))
    if isinstance(outer.get("summaries"), list):
        yield ("summaries",), [*outer["summaries"], record]
    elif "summaries" not in outer:
        yield ("summaries",), Added([record])


def _record(session: Written, cut: Cut, gone: frozenset[int], summary: Summary, at: str) -> Mapping[str, Any]:
    tools = Counter(call.tool for number in sorted(gone) for call in session.lines[number].calls)
    # So many characters end the id of a summary of gencode's.
    digits = xxh3_64_hexdigest(f"{min(cut.kept)}\n{summary.text}".encode())[:7]
    return {
        "id": f"sum-{base.moment(at)}-{digits}",
        "type": "compaction",
        "coveringMessages": [min(gone), max(gone)],
        "content": summary.text,
        "keyDecisions": [],
        "filesModified": list(map(utf8, summary.changed)),
        "toolsUsed": [{"tool": tool, "count": count, "notableUses": []} for tool, count in tools.items()],
        "generatedAt": at,
        "estimatedTokens": estimate(len(summary.text)),
    }
