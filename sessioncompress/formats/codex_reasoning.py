"""Which of Codex's items came in one response of the API, and what of them hangs on the sealed reasoning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sessioncompress.core.model import Facts, Kind, Line, Path, Tie
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import values

PASSED_OVER = "other"
"""What becomes of an item's type when it loses its seal: items of a type that it does not know Codex leaves out."""

_REASONING = "reasoning"
_FREE = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
"""The calls that may stand without their item's id, as in all rollouts of before 2026."""


class Responses(Struct):
    """Tells of each item in its turn to which response it belongs: from one input, or output of a tool, to the next."""

    _made: int = 0
    _name: str = ""

    def placed(self, line: Line, item: Mapping[str, Any], payload: str) -> Line:
        """Return an item's line with its response, and with what must change together with the reasoning in it."""
        kind = values.text(item.get("type"))
        if kind.endswith("_output") or kind == "agent_message" or (kind == "message" and not _is_answer(item)):
            self._name = ""
            return line
        if not self._name:
            self._made += 1
            self._name = f"response {self._made}"
        if kind == _REASONING:
            return _sealed(line._replace(response=self._name), item, payload)
        return line._replace(response=self._name, facts=_tied(line.facts, item, payload))


def is_reasoning(item: Mapping[str, Any]) -> bool:
    """Say whether an item is reasoning, or was until it lost its seal."""
    return item.get("type") in (_REASONING, PASSED_OVER)


def may_become(item: Mapping[str, Any], path: Path, value: Any) -> bool:
    """Say whether the value at a path of an item may become that one, for reasoning to go."""
    match path:
        case ("type",):
            return item.get("type") == _REASONING and bool(value == PASSED_OVER)
        case ("encrypted_content",):
            return item.get("type") == _REASONING and value is REMOVED
        case ("id",):
            return value is REMOVED and _may_be_nameless(item)
    return False


def _sealed(line: Line, item: Mapping[str, Any], payload: str) -> Line:
    """Return the line of reasoning; without a seal of some length it stays, and all that hangs on it."""
    seal = item.get("encrypted_content")
    if not isinstance(seal, str):
        return line._replace(facts=Facts(thinks=True))
    blocks = values.whole(Kind.THINKING, (payload, "encrypted_content"), seal, "", "")
    return line._replace(blocks=tuple(blocks), facts=Facts(ties=(Tie((payload, "type"), PASSED_OVER, 0),), thinks=True))


def _tied(facts: Facts, item: Mapping[str, Any], payload: str) -> Facts:
    """Return the facts of any other item: its id names it to the API, which then wants the reasoning before it."""
    name = item.get("id")
    if not isinstance(name, str) or is_reasoning(item):
        return facts
    if not _may_be_nameless(item):
        return facts._replace(sealed=True)
    return facts._replace(ties=(Tie((payload, "id"), None, len(name) + len('"id":"",')),))


def _may_be_nameless(item: Mapping[str, Any]) -> bool:
    return values.text(item.get("type")) in _FREE or _is_answer(item)


def _is_answer(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "message" and item.get("role") == "assistant"
