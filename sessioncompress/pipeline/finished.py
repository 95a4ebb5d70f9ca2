"""What of a session a run finishes, to be noted for the next one; and what of it tells that nothing is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import BinaryIO, Final

from xxhash import xxh3_64_intdigest, xxh3_128

from sessioncompress.compressors import View
from sessioncompress.core.jsonl import LINE_CAP, pieces
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.model import NO_PREFIX, Line, Prefix, Role
from sessioncompress.core.splice import literal
from sessioncompress.core.turns import turns_on
from sessioncompress.formats.base import Format
from sessioncompress.formats.table import REVISED
from sessioncompress.pipeline.incremental import NotFinished, Part, goes_on, hex_of, read_behind, turns_by_prompts
from sessioncompress.pipeline.summary import boundary_of
from sessioncompress.pipeline.survey import read_line
from sessioncompress.store.disk import BUFFER

_NO_DIGEST: Final = "0" * 32
_BEGINNING: Final = re.compile(rb'"[^"\\]*+')
"""A string of a line's JSON, up to what is escaped in it."""
_MOST_BEHIND: Final = 256
"""So many lines that are ours already may follow what is finished; they are noted one by one."""
_SHORT_MEMORY: Final = frozenset({"claude-code", "codex", "oh-my-pi", "openclaw", "pi"})
"""The formats whose readers keep of earlier lines only what _sliced() names."""


def prefix_of(part: Part, view: View, new: Lines, size: int, rewritten: bytes, markers: tuple[int, int]) -> Prefix:
    """Return what of a session this run finishes: what lies before the first protected line; or NO_PREFIX.

    `new` are the lines as they are now, of a session of `size` bytes, `rewritten` says (not 0) which of them are ours,
    `markers` how many there are that are not, and in calls. The digest is still to come. The prefix counts only where
    reading what follows it alone shows the same lines, on the same path, that the whole showed.
    """
    lines, live, before = view.lines, view.survey.shape.live, part.prefix
    first = boundary_of(view)
    if _has_none(view, first) or sum(line.size for line in new) + before.size != size:
        return NO_PREFIX
    ours = frozenset(before.behind)
    open_ones = range(first, len(lines))
    # Of a line that lost only copies that nobody meets again, more may change later: it holds no marker.
    behind = [
        number
        for number in open_ones
        if (rewritten[number] and _is_marked(new[number])) or (ours and hex_of(lines[number].digest) in ours)
    ]
    if len(behind) > _MOST_BEHIND or _are_marked(new, first, frozenset(behind)) or _goes_on_behind(lines, first):
        return NO_PREFIX
    behind_it = [number - first for number in live if number >= first]
    alone = _sliced(lines, first, view.form) or _read_again(part, lines, first, view.form)
    if alone is None or not goes_on(alone) or list(alone.shape.live) != behind_it:
        return NO_PREFIX
    ahead = live[: len(live) - len(behind_it)]
    end = before.size + sum(line.size for line in new[:first])
    return Prefix(
        view.form.name,
        end,
        before.lines + first,
        _NO_DIGEST,
        before.turns + sum(position < len(ahead) for position in turns_on(lines, live)),
        before.characters + sum(new[number].reads for number in ahead if number not in view.survey.shape.dead),
        before.strange + new.not_understood(first),
        *markers,
        before.whole or end,
        tuple(hex_of(new[number].digest) for number in behind),
    )


def _has_none(view: View, first: int) -> bool:
    """Say whether nothing before the first protected line can count as finished."""
    lines = view.lines
    return (
        not 0 < first < len(lines)
        # Lines behind it were changed, of which more may change later.
        or view.policy.at_rest
        # What it left as too recent to be pruned comes due as the session goes on.
        or view.policy.prune.enabled
        or view.form.name in REVISED
        or turns_by_prompts(lines, view.survey.shape.live)
        # Such a line is copied in pieces, and the next run would read all of the session.
        or max(line.size for line in lines[first:]) >= LINE_CAP
    )


def _sliced(lines: Lines, first: int, form: Format) -> Survey | None:
    """Return what lines would be if they were read alone, taken from the whole; None where only a reading shows it.

    No response may go on behind the lines before them. Of these a reader may know a call that is answered later, which
    goes_on() sees, and results that the next answer repeats.
    """
    if form.name not in _SHORT_MEMORY:
        return None
    answer = next((line for line in lines[first:] if line.role is Role.ASSISTANT), None)
    if answer is not None and answer.facts.repeats:
        return None
    alone = Lines(lines[first:])
    return Survey(alone, form.shape(alone), 0)


def _goes_on_behind(lines: Lines, first: int) -> bool:
    """Say whether a response of the lines before one goes on behind it."""
    names = {line.response for line in lines[first:]} - {""}
    return not names.isdisjoint(lines.responses[:first])


def _read_again(part: Part, lines: Lines, first: int, form: Format) -> Survey | None:
    """Read lines as if nothing came before them; None where they are others then than in the whole."""
    start = part.prefix.size + sum(line.size for line in lines[:first])
    reader, ours = form.reader(), frozenset(part.prefix.behind)
    with part.session.reader(start) as file:
        alone = Lines(read_behind(raw, reader, ours) for _, raw, _ in pieces(file, part.session.size - start))
    return Survey(alone, form.shape(alone), 0) if _are_the_same(alone, lines, first) else None


def _are_the_same(alone: Lines, lines: Lines, first: int) -> bool:
    """Say whether lines read alone are what they are from there on in the whole; the names of responses are free."""
    if len(alone) != len(lines) - first:
        return False
    names: dict[str, str] = {}
    for one, other in zip(alone, lines[first:], strict=True):
        if one._replace(response="") != other._replace(response=""):
            return False
        if names.setdefault(one.response, other.response) != other.response:
            return False
    return len(set(names.values()) - {""}) == len(names.keys() - {""})


def _are_marked(lines: Lines, first: int, but: frozenset[int]) -> bool:
    """Say whether something in these lines looks like a marker."""
    return any(_is_marked(line) for number, line in enumerate(lines[first:], first) if number not in but)


def _is_marked(line: Line) -> bool:
    return any(block.marked for block in line.blocks)


def digest_of_prefix(file: BinaryIO, size: int, unread: int, clashes: Callable[[bytes], bool]) -> str:
    """Return the XXH3-128 of the first bytes of a new session, of which this run did not read so many.

    Raises NotFinished where one of the lines that it did not read clashes with what it wrote.
    """
    found = xxh3_128()
    position = 0
    while position < max(size, unread):
        raw = file.readline(LINE_CAP) if position < unread else file.read(min(size - position, BUFFER))
        if position < unread and clashes(raw):
            raise NotFinished
        position += len(raw)
        if position <= size:
            found.update(raw)
    return found.hexdigest()


def nothing(raw: bytes) -> bool:
    """Say of every line that it clashes with nothing."""
    del raw
    return False


def clashing(view: View, new: Lines, changed: Iterable[int]) -> Callable[[bytes], bool]:
    """Return what says whether a line that a run did not read clashes with those that it changed.

    It must not be one of them, for restore could not tell them apart, nor have a call that goes by an id which the run
    made by cutting others.
    """
    rewritten = {(new[number].size, new[number].digest) for number in changed}
    ids = _ids(new) - _ids(view.lines)
    written = frozenset(each for name in ids for each in _BEGINNING.findall(literal(name))[:1])

    def clashes(raw: bytes) -> bool:
        if (len(raw), xxh3_64_intdigest(raw)) in rewritten:
            return True
        if not written or written.isdisjoint(_BEGINNING.findall(raw)):
            return False
        line = read_line(raw, view.form.reader())
        return line.answers in ids or any(call.name in ids for call in line.calls)

    return clashes


def _ids(lines: Lines) -> frozenset[str]:
    return frozenset(call.id for line in lines for call in line.calls)
