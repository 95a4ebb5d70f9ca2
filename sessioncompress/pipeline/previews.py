"""Between plan and rewrite: read what stays and what goes, and choose the names that each preview keeps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from sessioncompress.compressors import View
from sessioncompress.compressors.names import MOST_HELD, NOTHING, Index, Names
from sessioncompress.core.jsonl import parse_any
from sessioncompress.core.model import Change, JsonPath, Kind, Treatment
from sessioncompress.core.references import digests_of
from sessioncompress.core.splice import CannotSplice
from sessioncompress.pipeline.plan import Plan
from sessioncompress.pipeline.reading import Known
from sessioncompress.pipeline.rewrite import value_at

_KEPT = 2_048
"""Bytes of a line that stays in which names are looked for: what a model reads of it stands at its beginning."""
_CONTENT = b'"content":'
"""Ids and times stand before it, if the agent has such a key."""
_BESIDE = 200
"""Bytes of types and ids among what a model reads."""
_AT_ONCE = 64
"""Lines. Many words at once cost half of what they cost line by line."""


def names_of_results(known: Known, view: View, plan: Plan) -> Mapping[tuple[int, JsonPath], Index]:
    """Choose an index for each result that is to be previewed, by its line and place.

    What a model can still read is looked at first, then these results, the newest first. Of equal texts one has an
    index, also where an earlier run replaced it.
    """
    places = {
        number: found
        for number in sorted(plan, reverse=True)
        if (found := [change.path for change in plan[number] if _is_previewed(change, view)])
    }
    if not places:
        return {}
    names, preamble = Names(view.policy), view.form.preamble
    lines, dead = view.lines, view.survey.shape.dead
    newest = reversed(range(len(lines)))
    stay = (
        number
        for number in newest
        if lines[number].reads and number not in dead and all(map(_is_mirror, plan.get(number, ())))
    )
    kept, size = list[bytes](), 0
    for number, raw in known.lines(stay, _KEPT):
        start = max(raw.find(_CONTENT), 0)
        kept.append(raw[start : start + lines[number].reads * 6 // 5 + _BESIDE])
        size += len(kept[-1])
        if len(kept) == _AT_ONCE or size >= MOST_HELD:
            names.keep(b"\n".join(kept))
            kept.clear()
        if size >= MOST_HELD:
            break
    names.keep(b"\n".join(kept))
    results: list[tuple[int, JsonPath]] = []
    repeats: dict[tuple[int, JsonPath], Index] = {}
    marked = ((block.digest, block.kind, block.call) for _, block in view.blocks(Kind.RESULT) if block.marked)
    replaced = {origin.digest for key in marked if (origin := view.ours.origin(key)) is not None}
    for number, raw in known.lines(places):
        if names.is_full:
            # Older results show what they would without names.
            break
        entry = parse_any(raw) or {}
        for path in places[number]:
            # What is not there any more is found when the line is rewritten.
            with suppress(CannotSplice):
                if not isinstance(text := value_at(entry, path), str):
                    continue
                digests = digests_of(text.encode())
                if not replaced.isdisjoint(digests):
                    # A run to come would give it other names, and what did not bear a change now would bear it then.
                    repeats[number, path] = NOTHING
                    continue
                replaced.update(digests)
                above = preamble.match(text) if preamble else None
                names.add(text[above.end() :] if above else text)
                results.append((number, path))
    return {**repeats, **dict(zip(results, names.choose(), strict=True))}


def _is_previewed(change: Change, view: View) -> bool:
    block = change.block
    if block is None or block.kind is not Kind.RESULT or block.marked or change.treatment is not Treatment.PREVIEW:
        return False
    return not view.is_report(change.line, block)


def _is_mirror(change: Change) -> bool:
    """Tell whether a change takes nothing that a model reads."""
    return change.block is not None and change.block.kind is Kind.MIRROR
