"""Markers that no journal beside a session knows: it was moved, copied or cloned without what they name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from sessioncompress.core.jsonl import parse, pieces_of
from sessioncompress.core.marker import PREFIX_BYTES, adds_up, references, stands_in
from sessioncompress.core.model import Block, Kind, OurKey
from sessioncompress.core.text import counted
from sessioncompress.errors import NOT_CHANGED, Refused, SessionCompressError
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.relatives import Kin, Relative, State, name_of, named_by, relatives_of, state_of, stored
from sessioncompress.pipeline.rewrite import value_at
from sessioncompress.policy.model import Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Beside, beside_of
from sessioncompress.store.lock import OpenSession, open_session


class Markers(NamedTuple):
    """In how many texts of a session a marker stands as we write it; how many in calls, and how many name nothing."""

    texts: int = 0
    in_calls: int = 0
    nameless: int = 0


class Stranger(NamedTuple):
    """A text with a marker that a session's own journal does not know: what it names, if anything, and its identity."""

    reference: str
    key: OurKey


_DIGITS: Final = 12
"""A reference has at least so many digits of the XXH3-64 of what it names."""


def markers_of(session: OpenSession, form: str | None = None) -> Markers:
    """Count a session's markers; none in what is no session. `form` names its format where it is known."""
    found = [(block.kind, references(text)) for block, text in _marked(session, form)]
    kinds = [kind for kind, _ in found]
    return Markers(len(found), kinds.count(Kind.ARGUMENT), sum(not named for _, named in found))


def strangers_of(session: OpenSession, journal: Journal, form: str | None = None) -> list[Stranger]:
    """Find the texts with a marker as we write it that names what the session's own journal does not know.

    What stands in a line that the journal knows stood there before our run, and is content. Of the others nothing
    tells for certain whether another session, or another side of this one, was rewritten there, or a tool printed all
    of such a text: they are counted, and no command fails for them. Not even where a text cannot be read: then none
    is counted, since an exact restore and a check go by digests alone. A session without a journal has strangers alone.
    """
    try:
        found = [
            Stranger(next(iter(references(text)), ""), (block.digest, block.kind, block.call))
            for block, text in _marked(session, form, journal)
            if not journal.runs or (references(text) and adds_up(text))
        ]
    except (ValueError, TypeError, LookupError, RecursionError):
        return []
    return unknown_to(journal, found)


def unknown_to(journal: Journal, strangers: Sequence[Stranger]) -> list[Stranger]:
    """Keep those of the texts that a journal does not know, by what they name or by what they are."""
    known = {xxh3[:_DIGITS] for _, xxh3 in journal.references} if strangers else set()
    return [each for each in strangers if each.reference[:_DIGITS] not in known and each.key not in journal]


def unknown_to_all(relatives: Iterable[Relative], strangers: Sequence[Stranger]) -> list[Stranger]:
    """Keep those of the texts that no journal of a session's relatives knows."""
    for each in relatives:
        strangers = unknown_to(each.journal, strangers)
    return list(strangers)


def refuse_if_marked(session: OpenSession, beside: Beside, policy: Policy, form: str | None = None) -> None:
    """Raise Refused where a session without a journal has markers: it was moved, copied or forked."""
    strangers = strangers_of(session, Journal(), form)
    if not strangers:
        return
    relatives = [each for each in relatives_of(session, policy, form) if _may_know(each.journal, strangers)]
    ways = []
    if relatives:
        known = len(strangers) - len(unknown_to_all(relatives, strangers))
        lie = "the originals of all lie" if known == len(strangers) else f"the originals of {known:,} lie"
        names = " and of ".join(str(each.session) for each in relatives)
        ways = [
            f"It goes on from another session: {lie} in the store of {names}; 'restore --from-markers' puts them back."
        ]
    if not all(os.path.lexists(each.session) for each in relatives) or not ways:
        ways.append(_way_out(strangers, beside))
    raise Refused(
        f"{counted(len(strangers), 'marker stands', 'markers stand')} in it, but it has no journal under its name",
        where=session.path,
        state=NOT_CHANGED,
        remedy=" ".join(ways),
    )


def referring(
    session: Path, ids: Collection[str], beside: Beside, journal: Journal | None, policy: Policy, kin: Kin
) -> list[str]:
    """Name the sessions in a session's folder with markers that its originals alone can expand.

    `journal` is None where it cannot be read: then every marker of its kin that nobody else knows may be one.
    """
    relatives = cache(lambda name: named_by(name, session, policy))
    found = []
    for path in kin.of(session, ids):
        own = beside_of(path, policy).journal
        left = _nameable(path, state_of(path), own, state_of(own))
        # Relatives are looked for only where they count.
        for relative in relatives(name_of(path)) if _may_know(journal, left) else ():
            if relative != path and beside_of(relative, policy) != beside:
                with suppress(SessionCompressError):
                    left = unknown_to(stored(relative, policy).journal, left)
            if not left:
                break
        if _may_know(journal, left):
            found.append(path.name)
    return found


@lru_cache(maxsize=1 << 10)
def _nameable(kin: Path, state: State, own: Path, of_own: State) -> Sequence[Stranger]:
    """Find the texts of a session with a marker that names what its own journal does not know; read once."""
    del state, of_own
    with suppress(SessionCompressError), open_session(kin, writing=False) as session:
        return [each for each in strangers_of(session, journals.load(own)) if each.reference]
    return []


def _may_know(journal: Journal | None, strangers: Sequence[Stranger]) -> bool:
    """Tell whether a journal, None if it cannot be read, may know one of the texts."""
    return bool(strangers) and (journal is None or len(unknown_to(journal, strangers)) < len(strangers))


def _way_out(strangers: Sequence[Stranger], beside: Beside) -> str:
    elsewhere = (
        "If it was moved or renamed, name its old path, or if it is a copy the other session: "
        f"'restore --from-markers --originals OTHER'. Or put its two files here as {beside.journal} and "
        f"{beside.originals.name}, or name their folder with --backup-dir. Where 'clean' or 'forget' deleted them, "
        "they are gone."
    )
    nameless = sum(not each.reference for each in strangers)
    if not nameless:
        return elsewhere
    never = (
        f"{counted(nameless, 'marker names', 'markers name')} no original, since none was kept (keepBackup: "
        "false): only a copy of the session can bring back what they stand for."
    )
    return never if nameless == len(strangers) else f"{elsewhere} {never}"


def _marked(session: OpenSession, form: str | None, journal: Journal | None = None) -> Iterator[tuple[Block, str]]:
    """Yield the texts in which a marker stands as we write it, but for lines that a journal knows; with the blocks."""
    try:
        reader = reading.format_of(session, form).reader()
    except Refused:
        return
    for _, raw, whole in pieces_of(session.reader, session.size):
        if not whole or PREFIX_BYTES not in raw:
            continue
        digest = sha256(raw).digest()
        if journal and (journal.rewriting(digest) is not None or journal.original(digest) is not None):
            continue
        entry = parse(raw)
        for block in reader.line(raw, entry).blocks if entry is not None else ():
            text = value_at(entry or {}, block.path) if block.marked else ""
            if stands_in(text, in_arguments=block.kind is Kind.ARGUMENT):
                yield block, text
