"""oh-my-pi: pi's entries behind a title slot, with each call's arguments once more as it started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from sessioncompress.core.model import Block, JsonPath, Kind, Purpose
from sessioncompress.core.splice import REMOVED, Added
from sessioncompress.core.text import estimate
from sessioncompress.formats import pi, values
from sessioncompress.formats.base import CannotCheckpoint, Cleared, Entry, Head

if TYPE_CHECKING:
    from sessioncompress.core.checkpoint import Cut, NewSession, Summary, Written

_ARGUMENTS: JsonPath = ("data", "args")
_PRUNED: JsonPath = ("message", "prunedAt")
_PRESERVED, _ARCHIVE = "preserveData", "snapcompact"
_TOOLS = "edit grep glob find ls web_search fetch task"
_OWN_ENTRIES = (
    "title title_change session_init model_usage service_tier_change ttsr_injection mode_change credential_pin "
    "reset_boundary"
)


class OhMyPiReader(pi.PiReader):
    """Reads oh-my-pi's entries."""

    purposes: Mapping[str, Purpose] = {**pi.PiReader.purposes, "eval": Purpose.COMMAND, "task": Purpose.AGENT}

    def entry_blocks(self, entry: Entry) -> list[Block]:
        """Find, too, the copy of arguments that explains crashes, and what a compaction keeps beside its text."""
        if entry.get("type") == "compaction":
            kept = values.fields(entry.get(_PRESERVED)).items()
            found = [((_PRESERVED, a, b), each) for a, held in kept for b, each in values.fields(held).items()]
            return [block for path, each in found for block in values.whole(Kind.MIRROR, path, each, "", "")]
        if not _is_start(entry) or not isinstance(entry["data"].get("args"), dict):
            return super().entry_blocks(entry)
        call = values.text(entry["data"].get("toolCallId"))
        # Without its tool, of which it is no state.
        return values.whole(Kind.MIRROR, _ARGUMENTS, entry["data"]["args"], "", call)


class OhMyPi(pi.FamilyFormat):
    """Sessions of oh-my-pi."""

    name = "oh-my-pi"
    reader = OhMyPiReader
    tools = frozenset({*OhMyPiReader.purposes, *_TOOLS.split()})
    links = re.compile(r"artifact://\d+|blob:sha256:[0-9a-f]{64}")

    def recognizes(self, head: Head) -> bool:
        own = any(
            entry.get("type") in _OWN_ENTRIES.split()
            or (entry.get("type") == "model_change" and "model" in entry)
            or _is_start(entry)
            for entry in head.entries
        )
        return own and super().recognizes(head)

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        """Let the arguments of a start be emptied, never dropped."""
        if path == _PRUNED:
            return isinstance(value, Added) and _may_be_pruned(entry)
        if path[:1] == (_PRESERVED,):
            return entry.get("type") == "compaction" and value is REMOVED
        return super().may_change(entry, path, value) or (path == _ARGUMENTS and _is_start(entry) and value == {})

    def noted_beside(self, session: Written, cut: Cut, summary: Summary) -> Mapping[str, Any]:
        """Carry on what the model reads of an earlier compaction beside its text: pictures of what was said."""
        before = values.fields(session.entry(cut.old[0]).get(_PRESERVED))
        if before.get("openaiRemoteCompaction"):
            what = "its last compaction is one that only the provider can read, and no summary carries that on"
            raise CannotCheckpoint(what, "Compact it with oh-my-pi, or run 'sessioncompress compress' instead.")
        archive = values.fields(before.get(_ARCHIVE))
        if text := values.text(archive.get("text")):
            # The agent's next compaction makes its pictures of this, where lines end so, and then reads no summary.
            archive = {**archive, "text": "\u2588".join((text, *summary.text.splitlines()))}
        kept = ({_ARCHIVE: archive} if archive else {}) | orjson.loads(summary.preserved or "{}")
        noted = {"shortSummary": summary.short, "tokensAfter": summary.tokens_after}
        return noted | {_PRESERVED: kept} if kept else noted

    def handoff(self, session: Written, path: str, text: str, seed: str) -> NewSession:
        from sessioncompress.formats import pi_checkpoint

        live = self.shape(session.lines).live
        return pi_checkpoint.handoff(session, live, path, text, seed, attribution="agent")

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        return {} if path == _ARGUMENTS else super().stand_in(path, value)

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        """Give the agent's words, and when it said them; None where it has done so before."""
        if not _may_be_pruned(entry):
            return None
        return Cleared(f"[Output truncated - {estimate(len(text))} tokens]", {_PRUNED: now})


def _is_start(entry: Entry) -> bool:
    return entry.get("customType") == "tool_execution_start" and isinstance(entry.get("data"), dict)


def _may_be_pruned(entry: Entry) -> bool:
    message = values.fields(entry.get("message"))
    return message.get("role") == "toolResult" and _PRUNED[-1] not in message
