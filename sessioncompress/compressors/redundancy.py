"""Whole results are removed: those that the live path repeats later and, if the policy prunes, old ones.

A later text repeats a result if it has the same content, is a newer state of the same file, or quotes it right after
it. Contents are compared by hash, never by path alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from sessioncompress.compressors.base import View
from sessioncompress.compressors.preview import LEAST_GAIN, MARKER_BYTES
from sessioncompress.core import marker
from sessioncompress.core.lines import SPOKEN, Lines
from sessioncompress.core.model import PLAIN, Block, Change, JsonPath, Kind, Protection, Purpose, Role, Treatment
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, estimate
from sessioncompress.policy.model import Placeholder

_SAME = "same text as a later {tool} {what}{of}"
_SAID = "same text as in a later message"
_FOLLOWS = "repeated in the text that follows"
_READ_AGAIN = "older content of {file}, read again later"
_WRITTEN = "older content of {file}, written later"
NOTES = (_SAME, _SAID, _FOLLOWS, _READ_AGAIN, _WRITTEN)
"""All notes in markers about what repeats a text."""

Place = tuple[int, JsonPath]
"""The line of a block, and its path in the line."""


def propose(view: View) -> Iterator[Change]:
    """Offer results and attachments that the live path repeats; our preview of one may still become a reference."""
    if not view.policy.eliminate_redundancy:
        return
    repeats = Repeats(view, _aged(view) if view.policy.prune.enabled else frozenset())
    limit = view.policy.result_limit
    for number, block in chain(view.blocks(Kind.RESULT, limit), view.blocks(Kind.ATTACHMENT)):
        ours = view.holds_ours(block)
        if ours if block.kind is Kind.ATTACHMENT else not ours and block.bulk <= limit:
            continue
        note = repeats.note(number, block)
        least = MARKER_BYTES // 2 if ours else LEAST_GAIN
        if note and block.size - MARKER_BYTES - len(note) >= least:
            # `saves` ignores the note, which disappears if the text that it names is replaced too: nothing else may
            # change then.
            yield Change(number, block.path, Treatment.REFERENCE, block.size - MARKER_BYTES, block, note=note)


def prune(view: View) -> Iterator[Change]:
    """Offer whole results if the policy prunes; our previews shrink to their marker."""
    if not view.policy.prune.enabled:
        return
    old, open_ones = _aged(view), _open_lines(view)
    repeats = Repeats(view, old) if view.policy.eliminate_redundancy else None
    native = view.policy.prune.placeholder is Placeholder.NATIVE
    answered = Counter[str]()
    if native:
        answered.update(name for line in view.lines for name in (line.answers, *line.facts.several))
    for number, block in view.blocks(Kind.RESULT, MARKER_BYTES):
        note = repeats.note(number, block) if repeats else ""
        note = note if _gains(block, note) else ""
        if (number, block.path) in old or (note and number in open_ones):
            # If several results share one id, the agent's words may make lines identical, and restore could not tell
            # them apart.
            treatment = Treatment.CLEAR if native and answered[block.call] <= 1 else Treatment.REFERENCE
            yield Change(number, block.path, treatment, block.size - MARKER_BYTES, block, note=note)


def _gains(block: Block, note: str = "") -> bool:
    """True if replacing a block with a marker that has this note gains enough."""
    # A gain of fewer tokens is not worth a hole in the session.
    return block.size - MARKER_BYTES - len(note) >= 50 * CHARACTERS_PER_TOKEN


def _aged(view: View) -> frozenset[Place]:
    """Return the results that pruning removes because of their age alone."""
    open_ones, window = _open_lines(view), _window(view)
    kept = frozenset(map(str.lower, view.policy.prune.protect_tools))
    return frozenset(
        (number, block.path)
        for number, block in view.blocks(Kind.RESULT)
        if number in open_ones
        and (number, block.path) not in window
        and block.tool.lower() not in kept
        and _gains(block)
    )


def _open_lines(view: View) -> frozenset[int]:
    """Return the lines of the live path that are old but not dead, and not in the newest messages."""
    lines, most = view.lines, view.policy.prune.preserve_recent_messages
    recent: set[int] = set()
    names: set[str] = set()
    messages = 0
    for number in reversed(view.survey.shape.live):
        if lines.roles[number] not in SPOKEN:
            continue
        # A message in several lines counts once.
        name = lines.responses[number]
        messages += not name or name not in names
        if messages > most:
            break
        names.add(name)
        recent.add(number)
    live = view.survey.shape.live
    return frozenset(number for number in live if number not in recent and view.standing[number] is Protection.OLD)


def _window(view: View) -> frozenset[Place]:
    """Return the results at the end of the live path that hold the newest `prune_protect` tokens of tool output."""
    most = view.policy.prune.prune_protect
    found: set[Place] = set()
    characters = 0
    for number in reversed(view.survey.shape.live):
        line = view.lines[number]
        blocks = [block for block in line.blocks if block.kind is Kind.RESULT]
        for block in reversed(blocks):
            if estimate(characters) >= most:
                return frozenset(found)
            found.add((number, block.path))
            characters += block.size
        if line.role is Role.RESULT:
            # Results that are too short for a block, or can't be replaced, are read too.
            characters += max(line.io - sum(block.size for block in blocks), 0)
    return frozenset(found)


class Repeats:
    """Finds what repeats a result on the live path: by content, by file, or by the text that follows it.

    The `old` results, which pruning removes, don't count as copies.
    """

    def __init__(self, view: View, old: frozenset[Place]) -> None:
        self._view = view
        self._position = [-1] * len(view.lines)
        self._last_with: dict[bytes, tuple[int, int, Block]] = {}
        """For each content: the position of its last copy, the copy's line number, and its block."""
        self._last_of: dict[tuple[str, str], int] = {}
        """For each file, and part that was read, the last position; `written` is a part of its own."""
        self._quoted: dict[bytes, int] = {}
        roles, every, result = view.lines.roles, view.lines.facts, Role.RESULT
        for position, number in enumerate(view.survey.shape.live):
            self._position[number] = position
            facts = every[number]
            if facts is not PLAIN and facts.repeats:
                self._quoted.update(dict.fromkeys(facts.repeats, position))
            made = view.asking(number) if roles[number] is result else None
            if made is not None and made.file and not facts.failed:
                if made.purpose is Purpose.READ:
                    self._last_of[made.file, made.part] = position
                elif made.purpose is Purpose.WRITE:
                    self._last_of[made.file, "written"] = position
        # Copies count only if something of them stays: the whole text, or at least a preview.
        for number, block in _copies(view.lines):
            position = self._position[number]
            if position <= (self._last_with[block.digest][0] if block.digest in self._last_with else -1):
                continue
            goes = (
                (number, block.path) in old
                or view.treatment(number) is Treatment.REFERENCE
                or self._said_otherwise(position, number, block.digest)
            )
            if not goes or view.is_whole(number, block):
                self._last_with[block.digest] = (position, number, block)

    def note(self, number: int, block: Block) -> str:
        """Return the marker's note about what repeats the text, or ""."""
        position = self._position[number]
        if position < 0 and not (block.kind is Kind.ATTACHMENT and not self._view.lines[number].id):
            # The user could return to a path with this text. An attachment without an id is on no path at all.
            return ""
        later, other, copy = self._last_with.get(block.digest, (position, number, block))
        if later <= position:
            return self._said_otherwise(position, number, block.digest)
        if self._view.lines[other].role is Role.CHECKPOINT and not copy.tool:
            return _SAID
        call = self._view.asking(other)
        of_file = f" of {marker.name(call.file)}" if call and call.file else ""
        what = "attachment" if copy.kind is Kind.ATTACHMENT else "result"
        return _SAME.format(tool=marker.name(copy.tool) or "tool", what=what, of=of_file)

    def _said_otherwise(self, position: int, number: int, digest: bytes) -> str:
        if self._quoted.get(digest, position) > position:
            return _FOLLOWS
        call = self._view.asking(number)
        if call is None or call.purpose is not Purpose.READ or not call.file:
            return ""
        if self._last_of.get((call.file, call.part), position) > position:
            return _READ_AGAIN.format(file=marker.name(call.file))
        if self._last_of.get((call.file, "written"), position) > position:
            return _WRITTEN.format(file=marker.name(call.file))
        return ""


def _copies(lines: Lines) -> Sequence[tuple[int, Block]]:
    """Return the blocks whose content occurs more than once: only these can be repeated."""
    seen: set[bytes] = set()
    twice: set[bytes] = set()
    compared: list[tuple[int, Block]] = []
    for number, line in enumerate(lines):
        for block in line.blocks:
            if digest := block.digest:
                (twice if digest in seen else seen).add(digest)
                if block.kind in (Kind.RESULT, Kind.ATTACHMENT) and not block.marked:
                    compared.append((number, block))
    return [each for each in compared if each[1].digest in twice] if twice else ()
