"""Redundancy: what stands again later, an old read of a file, a result that the next text repeats."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from sessioncompress import marker
from sessioncompress.compressors.age import Place, aged
from sessioncompress.compressors.base import View
from sessioncompress.compressors.results import MARKER_BYTES
from sessioncompress.lines import NO_LINE, Lines
from sessioncompress.model import PLAIN, Block, Call, Change, Kind, Purpose, Role, Treatment
from sessioncompress.pairs import NO_CALL

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
        self._position = array("q", [-1]) * len(view.lines)
        self._last_with: dict[bytes, tuple[int, int]] = {}
        """Of each content the position of its last copy, and which of all blocks that is."""
        self._last_of: dict[tuple[str, str], int] = {}
        self._quoted: dict[bytes, int] = {}
        facts, roles = self._lines.facts, self._lines.roles
        for position, number in enumerate(view.survey.shape.live):
            self._position[number] = position
            if facts[number] is not PLAIN and facts[number].repeats:
                self._quoted.update(dict.fromkeys(facts[number].repeats, position))
            if roles[number] is Role.RESULT:
                self._add(position, number)
        for index in _copies(self._lines):
            self._compare(index)

    def _add(self, position: int, number: int) -> None:
        asked = self._view.asked[number]
        if asked != NO_CALL and not self._lines.facts[number].failed:
            _, _, _, purposes, files, parts = self._lines.calls.columns
            if files[asked] and purposes[asked] is Purpose.READ:
                self._last_of[files[asked], parts[asked]] = position
            elif files[asked] and purposes[asked] is Purpose.WRITE:
                self._last_of[files[asked], "written"] = position

    def _compare(self, index: int) -> None:
        """Remember the last copy of each content that a reader finds something of: whole, or at least a preview."""
        _, paths, *_, digests, _ = self._lines.blocks.columns
        number, digest = self._lines.block_lines[index], digests[index]
        position = self._position[number]
        before, _ = self._last_with.get(digest, (-1, index))
        goes = (number, paths[index]) in self._aged or self._goes(position, number, digest)
        if position > before and (self._view.is_whole(number, index) or not goes):
            self._last_with[digest] = (position, index)

    def _goes(self, position: int, number: int, digest: bytes) -> bool:
        """Say whether no more than a marker will be left of a result, whatever other copies of it there are."""
        return self._view.treatment(number) is Treatment.REFERENCE or bool(
            self._said_otherwise(position, number, digest)
        )

    def note(self, number: int, block: Block) -> str:
        """Return what the marker says the text repeats, or nothing where it repeats nothing."""
        position = self._position[number]
        if position < 0 and not (block.kind is Kind.ATTACHMENT and not self._lines.ids[number]):
            # What has no place in the tree stands on no path that the user could go back to.
            return ""
        later, other = self._last_with.get(block.digest, (position, 0))
        if later > position:
            return f"same text as a later {self._named(other)}"
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

    def _named(self, index: int) -> str:
        call = self._view.asking(self._lines.block_lines[index])
        of_file = f" of {marker.name(call.file)}" if call and call.file else ""
        block = self._lines.blocks[index]
        what = "attachment" if block.kind is Kind.ATTACHMENT else "result"
        return f"{marker.name(block.tool) or 'tool'} {what}{of_file}"


def _copies(lines: Lines) -> Iterator[int]:
    """Yield the blocks whose content another one has as well: only these can be said again."""
    kinds, *_, digests, marked = lines.blocks.columns
    seen: set[bytes] = set()
    twice: set[bytes] = set()
    for digest in filter(None, digests):
        (twice if digest in seen else seen).add(digest)
    for index, (digest, number) in enumerate(zip(digests, lines.block_lines, strict=True)):
        if digest in twice and number != NO_LINE and kinds[index] in _COMPARED and not marked[index]:
            yield index
