"""How OpenCode writes a compaction: a message of the user that asks for it, and the summary as its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import ascii_letters, digits
from typing import Any

from xxhash import xxh3_128_intdigest

from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Summary, Written
from sessioncompress.core.model import Role
from sessioncompress.core.text import json_safe
from sessioncompress.formats import base, values
from sessioncompress.formats.base import CannotCheckpoint

_ID = re.compile(r"msg_([0-9a-f]{12})[0-9A-Za-z]*+")
"""Such ids rise with the time, and the agent sorts by them."""

_AGAIN = "Export the session again with 'opencode export SESSION > FILE', and run again."
_LETTERS = digits + ascii_letters


def compaction(session: Written, cut: Cut, summary: Summary) -> Checkpoint:
    """Write both messages at the end.

    The agent reads a compaction before also where it stands in what is kept: then that leaves the document.
    """
    lines = session.lines
    asked = _info(session, Role.USER)
    answered = _info(session, Role.ASSISTANT)
    gone = _compactions(session, cut)
    first = next(number for number in cut.kept if number not in gone)
    if not lines.ids[first] or list(lines.ids).count(lines.ids[first]) > 1:
        raise CannotCheckpoint("the first message that would stay has no id of its own in the export", _AGAIN)
    whose = values.text(asked.get("sessionID")) or values.text(answered.get("sessionID"))
    at, time = _newest_id(lines.ids), _time(session)
    seed = "\n".join((lines.ids[first], summary.text))
    user, assistant = (_new_id("msg", at + after, seed) for after in (1, 2))
    asks = {
        "info": {
            "role": "user",
            "model": asked.get("model"),
            "agent": asked.get("agent"),
            "time": {"created": time + 1},
            "id": user,
            "sessionID": whose,
        },
        "parts": [
            {
                "type": "compaction",
                "auto": False,
                "overflow": False,
                "tail_start_id": lines.ids[first],
                "id": _new_id("prt", at + 1, seed),
                "sessionID": whose,
                "messageID": user,
            }
        ],
    }
    answers = {
        "info": {
            "role": "assistant",
            "parentID": user,
            "mode": "compaction",
            "agent": "compaction",
            "summary": True,
            "path": answered.get("path"),
            "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "modelID": answered.get("modelID"),
            "providerID": answered.get("providerID"),
            "time": {"created": time + 2, "completed": time + 2},
            "finish": "stop",
            "id": assistant,
            "sessionID": whose,
        },
        "parts": [
            {
                "type": "text",
                "text": summary.text,
                "id": _new_id("prt", at + 2, seed),
                "sessionID": whose,
                "messageID": assistant,
            }
        ],
    }
    messages = (values.literal(json_safe(each)) for each in (asks, answers))
    return Checkpoint(tuple(Addition(len(lines), message) for message in messages), removed=gone)


def dropping(session: Written, cut: Cut, made: Checkpoint) -> Checkpoint:
    """Take out the messages before what is kept, but for one on which a kept answer hangs."""
    lines, first = session.lines, min(cut.kept)
    answers = (number for number in range(first, len(lines)) if lines.roles[number] is not Role.USER)
    parents = {_parent(session, number) for number in answers}
    return made._replace(removed=made.removed.union(n for n in range(first) if lines.ids[n] not in parents))


def _info(session: Written, role: Role) -> Mapping[str, Any]:
    """Find the newest message of a role, and read what the agent notes of it."""
    roles = session.lines.roles
    for number in range(len(roles) - 1, -1, -1):
        if roles[number] is role:
            return values.fields(session.entry(number).get("info"))
    raise CannotCheckpoint("the export has no user message, or none from the model", _AGAIN)


def _compactions(session: Written, cut: Cut) -> frozenset[int]:
    """Find the messages of earlier compactions that stand behind the first one that is kept.

    Raises CannotCheckpoint where an answer besides the summary hangs on one: its session could not be imported.
    """
    roles, ids = session.lines.roles, session.lines.ids
    behind = range(min(cut.kept), len(roles))
    summaries = [number for number in behind if roles[number] is Role.CHECKPOINT]
    if not summaries:
        return frozenset()
    asked = {_parent(session, number) for number in summaries}
    for number in behind:
        if roles[number] is Role.ASSISTANT and _parent(session, number) in asked:
            raise CannotCheckpoint(
                "an answer is linked to the compaction before it",
                "Send it one more request with OpenCode, and run again.",
            )
    return frozenset((*summaries, *(number for number in behind if ids[number] in asked)))


def _parent(session: Written, number: int) -> str:
    return values.text(values.fields(session.entry(number).get("info")).get("parentID"))


def _time(session: Written) -> int:
    """Find when the last message was written."""
    time = values.fields(values.fields(session.entry(len(session.lines) - 1).get("info")).get("time"))
    return max(base.moment(time.get("created")), base.moment(time.get("completed")))


def _newest_id(ids: Sequence[str]) -> int:
    """Read the time in the newest id. Raises CannotCheckpoint where none can follow it."""
    newest = _ID.fullmatch(max(ids, default=""))
    if newest is None or int(newest[1], 16) >= (1 << 48) - 2:
        raise CannotCheckpoint("the ids of its messages do not increase with time, as OpenCode's do", _AGAIN)
    return int(newest[1], 16)


def _new_id(kind: str, at: int, seed: str) -> str:
    number = xxh3_128_intdigest(f"{kind}\n{at}\n{seed}".encode(errors="backslashreplace"))
    letters = []
    # So many characters behind its time keep an id apart from others.
    for _ in range(14):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return f"{kind}_{at:012x}{''.join(letters)}"
