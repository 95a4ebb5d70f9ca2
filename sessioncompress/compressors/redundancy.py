"""Redundancy: a result that stands again later, an old read of a file, a result that the next text repeats."""

from __future__ import annotations

from collections.abc import Iterator

from sessioncompress import marker
from sessioncompress.compressors.base import View
from sessioncompress.compressors.results import MARKER_BYTES
from sessioncompress.model import Block, Call, Change, Kind, Purpose, Role, Treatment


def propose(view: View) -> Iterator[Change]:
    """Offer what the live path says again; contents are compared by their hash, never by path alone."""
    if not view.policy.eliminate_redundancy:
        return
    repeats = _Repeats(view)
    for number, block in view.blocks(Kind.RESULT):
        ours = view.origin(block)
        if ours is None and block.size <= view.policy.result_limit:
            continue
        note = repeats.note(number, block)
        if note and block.size > MARKER_BYTES + len(note) + MARKER_BYTES // 2:
            # Counted without the note: it goes when what it names is replaced as well, and all else must stay as it is.
            yield Change(number, block.path, Treatment.REFERENCE, block.size - MARKER_BYTES, block, note=note)


class _Repeats:
    """Where the live path says again what a result said: by content, by file, by the text that follows."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._position = {number: position for position, number in enumerate(view.survey.shape.live)}
        self._last_with: dict[bytes, tuple[int, Block, int]] = {}
        self._last_of: dict[tuple[str, str], int] = {}
        self._quoted: dict[bytes, int] = {}
        for position, number in enumerate(view.survey.shape.live):
            line = view.lines[number]
            self._quoted.update(dict.fromkeys(line.facts.repeats, position))
            if line.role is Role.RESULT:
                self._add(position, number)

    def _add(self, position: int, number: int) -> None:
        line = self._view.lines[number]
        for block in line.blocks:
            if block.kind is Kind.RESULT and not block.marked:
                self._last_with[block.digest] = (position, block, number)
        call = self._view.asked(number)
        if call and call.file and not line.facts.failed:
            if call.purpose is Purpose.READ:
                self._last_of[call.file, call.part] = position
            elif call.purpose is Purpose.WRITE:
                self._last_of[call.file, "written"] = position

    def note(self, number: int, block: Block) -> str:
        """Return what the marker says the text repeats, or nothing where it repeats nothing."""
        position = self._position.get(number)
        if position is None:
            return ""
        later, other, other_number = self._last_with.get(block.digest, (position, block, number))
        if later > position:
            return f"same text as a later {self._named(other, other_number)}"
        if self._quoted.get(block.digest, position) > position:
            return "repeated in the text that follows"
        return self._superseded(position, self._view.asked(number))

    def _superseded(self, position: int, call: Call | None) -> str:
        if call is None or call.purpose is not Purpose.READ or not call.file:
            return ""
        if self._last_of.get((call.file, call.part), position) > position:
            return f"older content of {marker.name(call.file)}, read again later"
        if self._last_of.get((call.file, "written"), position) > position:
            return f"older content of {marker.name(call.file)}, written later"
        return ""

    def _named(self, block: Block, number: int) -> str:
        call = self._view.asked(number)
        of_file = f" of {marker.name(call.file)}" if call and call.file else ""
        return f"{marker.name(block.tool) or 'tool'} result{of_file}"
