"""Which markers stand for something that was left out here: what nobody here knows may be a quote, and passes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from sessioncompress.core import marker
from sessioncompress.core.jsonl import pieces
from sessioncompress.errors import UsageError
from sessioncompress.formats import locations
from sessioncompress.operations.show import mentions
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.policy.sources import Policies
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import JOURNAL, Beside, beside_of


def known(found: Sequence[str], session: Path) -> list[str]:
    """Return those of the markers that name an original beside sessions of the folder, or else were put into this one.

    In that folder lie the sessions, too, of which this one is a fork; what a subagent reads and writes is of its own
    session. Raises SessionCompressError and OSError.
    """
    policy = _policy_of(session)
    beside = beside_of(session, policy)
    own = [beside_of(each, policy).journal for each in (session, *locations.subagents(session))]
    neighbours = sorted(beside.folder.glob(f"*{JOURNAL}"))
    journals_there = list(filter(Path.is_file, dict.fromkeys([*own, *neighbours])))
    named = {each: marker.references(each) for each in found}
    if ours := [each for each, refs in named.items() if _are_named(refs, journals_there)]:
        # One is enough to refuse a call: that the others take long, or cannot be known, must not let it run.
        return ours
    bare = [each for each, refs in named.items() if not refs]
    put_in = set(_put_in(bare, session, beside)) if bare else set()
    return [each for each in bare if each in put_in]


def _policy_of(session: Path) -> Policy:
    """Return the policy of a session; one with an error, which every run tells of, must not switch the guard off."""
    policies = Policies(warn=lambda _: None)
    with suppress(UsageError):
        return policies.of(session)
    with suppress(UsageError):
        return policies.own
    return BALANCED


def _are_named(refs: Sequence[str], journals_there: Sequence[Path]) -> bool:
    return any(mentions(ref, journal) for ref in refs for journal in journals_there)


def _put_in(bare: Sequence[str], session: Path, beside: Beside) -> Iterator[str]:
    """Yield the markers, of those that name no original, that stand in lines which a run of ours rewrote."""
    journal = journals.load(beside.journal)
    if not journal.runs:
        return
    written = {each: json.dumps(each)[1:-1].encode() for each in bare}
    with session.open("rb") as file:
        for _, raw, _ in pieces(file, session.stat().st_size):
            if marker.PREFIX_BYTES in raw and journal.rewriting(sha256(raw).digest()) is not None:
                yield from (each for each, form in written.items() if form in raw)
