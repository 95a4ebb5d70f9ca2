"""Compacts a session for the tests that resume one, and tells what its request should not be."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from sessioncompress.checkpoints.cut import for_the_model
from sessioncompress.core.checkpoint import Say
from sessioncompress.core.jsonl import parse
from sessioncompress.core.model import Role
from sessioncompress.formats.gemini import THANKS
from sessioncompress.operations.compact import CompactStats, compact_session
from sessioncompress.policy.model import BALANCED, Compact, CutRule, Policy
from tests.agents.bodies import Body, Kind, Part, messages
from tests.agents.compare import UNSAID, counted
from tests.agents.rules import problems
from tests.support.runs import form_of, survey_of, units

DEFAULT = BALANCED
SMALL = Policy(compact=Compact(keep=CutRule.MESSAGES, keep_messages=10, min_dead_tokens=0, min_saved_tokens=0))
"""For the fixtures, which are smaller than what a compaction is made for."""

HEAD = "[Extracted by sessioncompress from "
"""So begins the text of each summary."""


_REPEATED = ("<system-reminder>", "<environment_context>", "# AGENTS.md instructions")
_TOOLS = '"additional_tools"'

_ARCHIVED = "\u00b6"
"""So begins what oh-my-pi sends of its own compaction: ours carries it on."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """A session with a checkpoint, and what its old and its kept lines said."""

    path: Path
    stats: CompactStats
    calls: Counter[str]
    """The calls of the kept lines."""

    gone: frozenset[str]
    """The calls of the lines that the summary stands for."""


def compacted(session: Path, folder: Path, policy: Policy = DEFAULT) -> Compacted:
    """Compact a copy of a session in a folder of its own; its last line gets an end where it has none."""
    folder.mkdir()
    copy = folder / session.name
    copy.write_bytes(session.read_bytes().rstrip(b"\n") + b"\n")
    return compacted_here(copy, policy)


def compacted_here(session: Path, policy: Policy = DEFAULT) -> Compacted:
    stats = compact_session(session, policy, named=False)
    assert stats.is_compacted, stats.reason
    data = session.read_bytes()
    found, reader, lines = survey_of(data), form_of(data).reader(), units(data)
    live = frozenset(for_the_model(found))
    calls: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for number, raw in enumerate(lines):
        for said in reader.said(parse(raw) or {}):
            # What the user ran was no call of the model.
            if said.say is Say.CALL and found.lines.roles[number] in (Role.ASSISTANT, Role.CHECKPOINT):
                # Gemini CLI sends it without the tool that it names it with.
                calls[number in live][said.call.removeprefix(f"{said.tool}__")] += 1
    return Compacted(session, stats, calls[True], frozenset(calls[False].keys() - calls[True].keys()))


def differences(made: Compacted, before: Body, after: Body) -> list[str]:
    """List how the request of a compacted session is not a summary and the end of the original's request."""
    old, new = parts_of(before), parts_of(after)
    places = [place for place, (_, part) in enumerate(new) if part.kind is Kind.TEXT and HEAD in str(part.value)]
    if len(places) != 1:
        return [f"the summary stands at {places}"]
    found = [] if new[: places[0]] == old[: places[0]] else ["something else stands before the summary"]
    # Gemini CLI has the model thank for a summary.
    kept = [part for part in new[places[0] + 1 :] if part[1].value != THANKS and not _is_archived(part[1])]
    if [part for part in new if _is_archived(part[1])] != [part for part in old if _is_archived(part[1])]:
        found.append("what the agent archived is not what it was")
    if kept != old[len(old) - len(kept) :]:
        found.append(_first_difference(old, kept))
    calls = Counter(part.call for _, part in kept if part.kind is Kind.CALL)
    if calls != made.calls:
        found.append(f"calls: missing {list(made.calls - calls)}, more {list(calls - made.calls)}")
    if gone := [name for name in made.gone if f'"{name}"' in json.dumps(after)]:
        found.append(f"dead calls are there: {gone}")
    return [*found, *(counted(problems(after)) - counted(problems(before)))]


def parts_of(body: Body) -> list[tuple[str, Part]]:
    """Return the parts of what was said with their roles: an agent may put a prompt into the message of a summary.

    What the agent itself says, it may say again, elsewhere, once a summary stands for it: also which tools there are.
    """
    return [
        # Codex names each new prompt at random.
        (message.role, replace(part, item="") if message.role == "user" else part)
        for message in messages(body)
        for part in message.parts
        if message.role not in UNSAID and not _is_of_agent(part)
    ]


def _is_of_agent(part: Part) -> bool:
    said = str(part.value)
    return said.startswith(_REPEATED) if part.kind is Kind.TEXT else part.kind is Kind.OTHER and _TOOLS in said


def _is_archived(part: Part) -> bool:
    return part.kind is Kind.TEXT and str(part.value).startswith(_ARCHIVED)


def _first_difference(old: list[tuple[str, Part]], kept: list[tuple[str, Part]]) -> str:
    pairs = zip(reversed(old), reversed(kept), strict=False)
    place, (was, now) = next((place, pair) for place, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"{place} of {len(kept)} parts before the end was {was[1].kind} {was[1].value!r:.80}, is {now!r:.160}"
