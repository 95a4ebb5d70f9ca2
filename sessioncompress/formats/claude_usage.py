"""What Claude Code records of its requests: the usage in each line of a response, of which the last is whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessioncompress.core.model import Answer, Usage, beside
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry
from sessioncompress.formats.requests import moment

_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_NO_MODEL = "<synthetic>"
"""Stands for the model in an answer that the agent made itself."""


def answer(entry: Entry) -> Answer | None:
    """Return what a line says of the request that it answers."""
    if entry.get("type") != "assistant":
        return None
    message = values.fields(entry.get("message"))
    at = moment(entry.get("timestamp"))
    if entry.get("isApiErrorMessage") is True:
        said = "".join(values.part_text(part) for part in values.items(message.get("content")))
        return Answer(error=said or "the request failed", at=at)
    model = values.text(message.get("model"))
    if model == _NO_MODEL:
        return None
    return Answer(model=model, usage=_usage(values.fields(message.get("usage"))), at=at)


def _usage(recorded: Mapping[str, Any]) -> Usage | None:
    """Read what was counted: where the vendor went round several times, all rounds together, and then each of them."""
    rounds = values.items(recorded.get("iterations"))
    sent, output, read, wrote = map((values.fields(rounds[-1]) if rounds else recorded).get, _USAGE)
    thought = values.fields(recorded.get("output_tokens_details")).get("thinking_tokens")
    return beside(sent, output, read, wrote, thought)
