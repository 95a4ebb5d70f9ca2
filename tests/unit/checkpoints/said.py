"""Builds what was said in a session, for summaries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sessioncompress.checkpoints.digest import extract
from sessioncompress.checkpoints.notes import NOTHING, Besides, Notes
from sessioncompress.core.checkpoint import Say, Summary, Utterance
from sessioncompress.core.model import Purpose

_PURPOSES = {"bash": Purpose.COMMAND, "read": Purpose.READ, "write": Purpose.WRITE}


def asked(text: str) -> Utterance:
    return Utterance(Say.PROMPT, text)


def answered(text: str) -> Utterance:
    return Utterance(Say.ANSWER, text)


def called(tool: str, given: dict[str, Any], result: str | None = "", failed: bool | None = None) -> list[Utterance]:
    """Return a call and its result; without one where that is None."""
    purpose = _PURPOSES.get(tool, Purpose.OTHER)
    call = Utterance(Say.CALL, tool=tool, call="c", purpose=purpose, given=given)
    return [call] if result is None else [call, Utterance(Say.RESULT, result, call="c", failed=failed)]


def ran(command: str, result: str | None = "", failed: bool | None = None) -> list[Utterance]:
    return called("bash", {"command": command}, result, failed)


def numbered(said: list[Utterance]) -> list[tuple[int, Utterance]]:
    return list(enumerate(said))


def digest(
    said: Iterable[tuple[int, Utterance]], *, budget: int, splits: bool = False, besides: Besides = NOTHING
) -> Summary:
    return extract(Notes(said, splits=splits, besides=besides), budget)
