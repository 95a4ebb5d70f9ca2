"""Who sums up in place of the extract: the section `summarizer` of a policy, and the options that say the same."""

# Without `from __future__ import annotations`: the types are read when the first value is checked.

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from sessioncompress.policy.section import LONGEST_NAME, MOST_ENTRIES, File, Section

_Text = Annotated[str, Meta(min_length=1, max_length=4_096, pattern=r"\A[^\0]*\Z")]
Text = Annotated[_Text | None, Meta(description="a text or null")]
Variable = Annotated[
    str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,99}\Z", description="the name of an environment variable")
]
Names = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)], ...],
    Meta(max_length=10, description=f"a list of at most 10 names of at most {LONGEST_NAME} characters"),
]
Patterns = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=1_000)], ...],
    Meta(max_length=MOST_ENTRIES, description=f"a list of at most {MOST_ENTRIES} regular expressions"),
]
Few = Annotated[int, Meta(ge=0, le=10, description="a whole number from 0 to 10")]
ModelSeconds = Annotated[int, Meta(ge=1, le=3_600, description="a whole number from 1 to 3,600")]
InputTokens = Annotated[int, Meta(ge=4_000, le=4_000_000, description="a whole number from 4,000 to 4,000,000")]


class Protocol(StrEnum):
    """What an endpoint that sums up is asked in: OpenAI's chat form, or oh-my-pi's `{systemPrompt, prompt}`."""

    OPENAI = "openai"
    OMP = "omp"


class OnFailure(StrEnum):
    """What becomes of a session that no model has summed up: it gets the extract, or is left as it is."""

    EXTRACTIVE = "extractive"
    LEAVE = "leave"


class Summarizer(Section, frozen=True, gc=False):
    """Who writes the prose of a summary in place of the extract: a `command`, or the `models` of an `endpoint`.

    Without either nothing leaves the machine. `models` are asked in their order, each after the one before failed.
    What is sent has at most `input_tokens`, without what a pattern matches. Raises UsageError.
    """

    command: Text = None
    endpoint: Text = None
    protocol: Protocol = Protocol.OPENAI
    models: Names = ()
    api_key_env: Variable = "OPENAI_API_KEY"
    prompt: File = None
    input_tokens: InputTokens = 120_000
    timeout_seconds: ModelSeconds = 120
    retries: Few = 2
    on_failure: OnFailure = OnFailure.EXTRACTIVE
    redact_patterns: Patterns = ()


_OPTIONS = {
    "summarizer": "command",
    "endpoint": "endpoint",
    "protocol": "protocol",
    "model": "models",
    "api_key_env": "api_key_env",
    "prompt": "prompt",
    "on_failure": "on_failure",
}


def with_options(own: Summarizer, options: Mapping[str, Any]) -> Summarizer:
    """Apply the options that say who sums up: a command takes the place of an endpoint, and the other way round."""
    given = {field: options[name] for name, field in _OPTIONS.items() if options.get(name)}
    if not given:
        return own
    if "prompt" in given:
        given["prompt"] = os.path.abspath(given["prompt"])  # noqa: PTH100 - must not resolve links
    if "command" in given or "endpoint" in given:
        own = replace(own, command=None, endpoint=None, protocol=Protocol.OPENAI, models=())
    return replace(own, **given)
