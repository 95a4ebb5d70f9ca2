"""What Codex records of its requests: an event behind each response, and the model once a turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessioncompress.core.model import Answer, within
from sessioncompress.formats import values
from sessioncompress.formats.requests import window

MARKS = (b'"token_count"', b'"turn_context"', b'"task_started"', b'"error"')

_WINDOW = "model_context_window"
_USAGE = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "reasoning_output_tokens",
)


def answer(kind: str, payload: Mapping[str, Any]) -> Answer | None:
    """Return what a line of that type says of a request."""
    match kind, payload.get("type"):
        case "turn_context", _:
            return Answer(model=values.text(payload.get("model")))
        case "event_msg", "task_started":
            return Answer(window=window(payload.get(_WINDOW)))
        case "event_msg", "error":
            return Answer(error=values.text(payload.get("message")) or "error")
        case "event_msg", "token_count":
            return _counted(values.fields(payload.get("info")))
    return None


def _counted(info: Mapping[str, Any]) -> Answer:
    """Read a count: it stands behind the results of the calls of its response, and may be written again.

    Behind a compaction it is no count but an estimate, in its total alone: that is no usage.
    """
    last = values.fields(info.get("last_token_usage"))
    return Answer(usage=within(*map(last.get, _USAGE)), window=window(info.get(_WINDOW)))
