"""What the request of a resumed session with a checkpoint must hold: the summary, what is kept, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.agents.bodies import Body, Kind, Message, messages
from tests.agents.compare import counted
from tests.agents.standin import Request
from tests.support.checkpoints import SUMMARY, Cutting
from tests.support.runs import form_of, units

_LONG = 40
"""Characters. A line of so many that only the old part holds is one of its own."""


def check(made: Cutting, before: Request, after: Request, *, asked: int = 0, framed: int = 0) -> None:
    """Compare the requests of the original and of the session with the checkpoint.

    So many messages before the summary, and behind it, are part of the checkpoint.
    """
    old, new = messages(before.body), messages(after.body)
    places = [number for number, message in enumerate(new) if SUMMARY.text in said_in(message)]
    assert len(places) == 1, places
    assert json.dumps(after.body).count(SUMMARY.text) == 1
    kept = new[places[0] + 1 + framed :]
    ahead = places[0] - asked
    assert new[:ahead] == old[:ahead], "only what the agent itself puts first stands before the summary"
    assert len(kept) < len(old)
    first, *rest = old[len(old) - len(kept) :]
    assert kept[1:] == rest
    # A prompt may stand in one message with results of before.
    assert (kept[0].role, kept[0].parts) == (first.role, first.parts[-len(kept[0].parts) :])
    everything = "\n".join(strings_of(after.body))
    assert [text for text in lines_of_old(made) if text in everything] == []
    assert counted(after.problems) - counted(before.problems) == Counter()


def said_in(message: Message) -> str:
    return "\n".join(str(part.value) for part in message.parts if part.kind is Kind.TEXT)


def strings_of(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, (dict, list)):
            waiting += each.values() if isinstance(each, dict) else each


def lines_of_old(made: Cutting) -> Sequence[str]:
    """Return the long lines that were said in the old part, and nowhere in what is kept."""
    found, reader = units(made.before), form_of(made.before).reader()
    old, kept = (
        [line for number in part for said in reader.said(_entry(found[number])) for line in said.text.split("\n")]
        for part in (made.cut.old, made.cut.kept)
    )
    around = "\n".join([*kept, *strings_of([_entry(found[number]) for number in made.cut.kept])])
    return [line for line in dict.fromkeys(old) if len(line) >= _LONG and line not in around]


def _entry(raw: bytes) -> Body:
    found = json.loads(raw)
    assert isinstance(found, dict)
    return found
