"""Redundancy: what stands again later, an old read of a file, a result that the next text repeats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sessioncompress.compressors.base import View
from sessioncompress.compressors.results import MARKER_BYTES
from sessioncompress.core import marker
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import (
    PLAIN,
    Block,
    Call,
    Change,
    JsonPath,
    Kind,
    Line,
    Purpose,
    Role,
    Standing,
    Treatment,
)
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, estimate
from sessioncompress.core.turns import SPOKEN

_LEAST = 50 * CHARACTERS_PER_TOKEN
"""Characters. What gains fewer tokens is not worth a hole in the session."""

Place = tuple[int, JsonPath]
"""The line of a block, and where it stands in it."""


def aged(view: View) -> frozenset[Place]:
    """Return the results that go since they are old, whatever else the session says; none where nothing is pruned."""
    prune = view.policy.prune
    if not prune.enabled:
        return frozenset()
    open_ones, window = free(view), _window(view)
    kept = frozenset(map(str.lower, prune.protect_tools))
    return frozenset(
        (number, block.path)
        for number, block in view.blocks(Kind.RESULT)
        if number in open_ones
        and (number, block.path) not in window
        and block.tool.lower() not in kept
        and gains(block)
    )


def free(view: View) -> frozenset[int]:
    """Return the lines of the live path that a model reads and that are in none of the newest messages."""
    recent = _newest_messages(view)
    return frozenset(
        number for number in view.survey.shape.live if number not in recent and view.standing[number] is Standing.OLD
    )


def gains(block: Block, note: str = "") -> bool:
    """Say whether enough is gained where a marker with this note takes a block's place."""
    return block.size - MARKER_BYTES - len(note) >= _LEAST


def _newest_messages(view: View) -> frozenset[int]:
    """Return the lines of the newest messages; one that an agent writes in several lines counts once."""
    lines, most = view.lines, view.policy.prune.preserve_recent_messages
    found: set[int] = set()
    names: set[str] = set()
    messages = 0
    for number in reversed(view.survey.shape.live):
        if lines.roles[number] not in SPOKEN:
            continue
        name = lines.responses[number]
        if not name or name not in names:
            messages += 1
        if messages > most:
            break
        names.add(name)
        found.add(number)
    return frozenset(found)


def _window(view: View) -> frozenset[Place]:
    """Return the results at the end of the live path into which the newest tokens of tool output reach."""
    lines, most = view.lines, view.policy.prune.prune_protect
    found: set[Place] = set()
    characters = 0
    for number in reversed(view.survey.shape.live):
        line = lines[number]
        blocks = [block for block in line.blocks if block.kind is Kind.RESULT]
        for block in reversed(blocks):
            if estimate(characters) >= most:
                return frozenset(found)
            found.add((number, block.path))
            characters += block.size
        if line.role is Role.RESULT:
            # What is too short to be a block, or cannot be replaced, is read all the same.
            characters += max(line.io - sum(block.size for block in blocks), 0)
    return frozenset(found)


_COMPARED = frozenset({Kind.RESULT, Kind.ATTACHMENT})


def propose(view: View) -> Iterator[Change]:
    """Offer what the live path says again; contents are compared by their hash, never by path alone."""
    if not view.policy.eliminate_redundancy:
        return
    repeats = Repeats(view, aged(view))
    for number, block in _offered(view):
        note = repeats.note(number, block)
        if note and block.size > MARKER_BYTES + len(note) + MARKER_BYTES // 2:
            # Counted without the note: it goes when what it names is replaced as well, and all else must stay as it is.
            yield Change(number, block.path, Treatment.REFERENCE, block.size - MARKER_BYTES, block, note=note)


def _offered(view: View) -> Iterator[tuple[int, Block]]:
    """Yield the results and attachments that may become a reference; a preview of ours may be one yet."""
    for number, block in view.blocks(Kind.RESULT, view.policy.result_limit):
        if view.holds_ours(block) or block.size > view.policy.result_limit:
            yield number, block
    for number, block in view.blocks(Kind.ATTACHMENT):
        if not view.holds_ours(block):
            yield number, block


class Repeats:
    """Where the live path says again what a result said: by content, by file, by the text that follows.

    Of the `old` results, which pruning takes, a reader finds nothing.
    """

    def __init__(self, view: View, old: frozenset[Place]) -> None:
        self._view = view
        self._lines = view.lines
        self._aged = old
        self._position = [-1] * len(view.lines)
        self._last_with: dict[bytes, tuple[int, int, Block]] = {}
        """Of each content the position of its last copy, the number of its line, and its block."""
        self._last_of: dict[tuple[str, str], int] = {}
        self._quoted: dict[bytes, int] = {}
        for position, number in enumerate(view.survey.shape.live):
            self._position[number] = position
            line = self._lines[number]
            if line.facts is not PLAIN and line.facts.repeats:
                self._quoted.update(dict.fromkeys(line.facts.repeats, position))
            if line.role is Role.RESULT:
                self._add(position, number, line)
        for number, block in _copies(self._lines):
            self._compare(number, block)

    def _add(self, position: int, number: int, line: Line) -> None:
        made = self._view.asking(number)
        if made is not None and made.file and not line.facts.failed:
            if made.purpose is Purpose.READ:
                self._last_of[made.file, made.part] = position
            elif made.purpose is Purpose.WRITE:
                self._last_of[made.file, "written"] = position

    def _compare(self, number: int, block: Block) -> None:
        """Remember the last copy of each content that a reader finds something of: whole, or at least a preview."""
        digest, position = block.digest, self._position[number]
        before = self._last_with[digest][0] if digest in self._last_with else -1
        goes = (number, block.path) in self._aged or self._goes(position, number, digest)
        if position > before and (self._view.is_whole(number, block) or not goes):
            self._last_with[digest] = (position, number, block)

    def _goes(self, position: int, number: int, digest: bytes) -> bool:
        """Say whether no more than a marker will be left of a result, whatever other copies of it there are."""
        return self._view.treatment(number) is Treatment.REFERENCE or bool(
            self._said_otherwise(position, number, digest)
        )

    def note(self, number: int, block: Block) -> str:
        """Return what the marker says the text repeats, or nothing where it repeats nothing."""
        position = self._position[number]
        if position < 0 and not (block.kind is Kind.ATTACHMENT and not self._lines[number].id):
            # What has no place in the tree stands on no path that the user could go back to.
            return ""
        later, other, copy = self._last_with.get(block.digest, (position, number, block))
        if later > position:
            return f"same text as a later {self._named(other, copy)}"
        return self._said_otherwise(position, number, block.digest)

    def _said_otherwise(self, position: int, number: int, digest: bytes) -> str:
        if self._quoted.get(digest, position) > position:
            return "repeated in the text that follows"
        return self._superseded(position, self._view.asking(number))

    def _superseded(self, position: int, call: Call | None) -> str:
        if call is None or call.purpose is not Purpose.READ or not call.file:
            return ""
        if self._last_of.get((call.file, call.part), position) > position:
            return f"older content of {marker.name(call.file)}, read again later"
        if self._last_of.get((call.file, "written"), position) > position:
            return f"older content of {marker.name(call.file)}, written later"
        return ""

    def _named(self, number: int, block: Block) -> str:
        call = self._view.asking(number)
        of_file = f" of {marker.name(call.file)}" if call and call.file else ""
        what = "attachment" if block.kind is Kind.ATTACHMENT else "result"
        return f"{marker.name(block.tool) or 'tool'} {what}{of_file}"


def _copies(lines: Lines) -> Sequence[tuple[int, Block]]:
    """Return the blocks whose content another one has as well: only these can be said again."""
    seen: set[bytes] = set()
    twice: set[bytes] = set()
    compared: list[tuple[int, Block]] = []
    for number, line in enumerate(lines):
        for block in line.blocks:
            if digest := block.digest:
                (twice if digest in seen else seen).add(digest)
                if block.kind in _COMPARED and not block.marked:
                    compared.append((number, block))
    return [each for each in compared if each[1].digest in twice] if twice else ()
