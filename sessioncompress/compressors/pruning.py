"""Pruning: whole results go, those that are old, and those of any age that the session says again later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from sessioncompress.compressors.base import View
from sessioncompress.compressors.redundancy import Repeats, aged, free, gains
from sessioncompress.compressors.results import MARKER_BYTES
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Change, Kind, Treatment
from sessioncompress.policy.model import Placeholder


def propose(view: View) -> Iterator[Change]:
    """Offer whole results where the policy prunes; of a preview of ours no more than its marker is left."""
    if not view.policy.prune.enabled:
        return
    old, open_ones = aged(view), free(view)
    repeats = Repeats(view, old) if view.policy.eliminate_redundancy else None
    native = view.policy.prune.placeholder is Placeholder.NATIVE
    answered = _answered(view.lines) if native else Counter[str]()
    for number, block in view.blocks(Kind.RESULT, MARKER_BYTES):
        note = repeats.note(number, block) if repeats else ""
        note = note if gains(block, note) else ""
        if (number, block.path) in old or (note and number in open_ones):
            # Of results that go by one id an agent's words may make equal lines, whose originals none could tell apart.
            treatment = Treatment.CLEAR if native and answered[block.call] <= 1 else Treatment.REFERENCE
            yield Change(number, block.path, treatment, block.size - MARKER_BYTES, block, note=note)


def _answered(lines: Lines) -> Counter[str]:
    """Count the results that go by each call's id, where they stand in messages of their own."""
    several = chain.from_iterable(facts.several for facts in lines.facts)
    return Counter(chain((line.answers for line in lines), several))
