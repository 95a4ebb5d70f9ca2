"""Tell which markers stand for text that was left out here. An unknown marker may be a quote, and passes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from sessioncompress.core import marker
from sessioncompress.core.jsonl import pieces
from sessioncompress.errors import UsageError
from sessioncompress.formats import table
from sessioncompress.operations.show import mentions
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.policy.sources import Policies
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import JOURNAL, Beside, beside_of


def known(found: Sequence[str], session: Path) -> list[str]:
    """List the markers that name an original of a session in the folder, or else were put into this session.

    The sessions that this one was forked from are in the same folder; a subagent has a session of its own. Raises
    SessionCompressError and OSError.
    """
    policy = _policy_of(session)
    beside = beside_of(session, policy)
    own = [beside_of(each, policy).journal for each in (session, *table.subagents(session))]
    neighbours = sorted(beside.folder.glob(f"*{JOURNAL}"))
    journals_there = list(filter(Path.is_file, dict.fromkeys([*own, *neighbours])))
    named = {each: marker.references(each) for each in found}
    if ours := [each for each, refs in named.items() if _are_named(refs, journals_there)]:
        # One is enough to refuse the call. It must not run because the others take long or cannot be read.
        return ours
    bare = [each for each, refs in named.items() if not refs]
    put_in = set(_put_in(bare, session, beside)) if bare else set()
    return [each for each in bare if each in put_in]


def _policy_of(session: Path) -> Policy:
    # A policy with an error, which every run reports, must not disable the guard.
    policies = Policies(warn=lambda _: None)
    with suppress(UsageError):
        return policies.of(session)
    with suppress(UsageError):
        return policies.own
    return BALANCED


def _are_named(refs: Sequence[str], journals_there: Sequence[Path]) -> bool:
    return any(mentions(ref, journal) for ref in refs for journal in journals_there)


def _put_in(bare: Sequence[str], session: Path, beside: Beside) -> Iterator[str]:
    journal = journals.load(beside.journal)
    if not journal.runs:
        return
    written = {each: json.dumps(each)[1:-1].encode() for each in bare}
    with session.open("rb") as file:
        for _, raw, _ in pieces(file, session.stat().st_size):
            if marker.PREFIX_BYTES in raw and journal.rewriting(sha256(raw).digest()) is not None:
                yield from (each for each, form in written.items() if form in raw)
