"""The inputs of the action, and what they make the command be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

USAGE = 2
"""The exit code for an input that cannot be heeded."""

VARIABLE = "SESSIONCOMPRESS_"


class WrongInputError(Exception):
    """An input has a value that it cannot have; its text says which and what it may be."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the workflow asks for; `paths` as they were typed, `config` and `preset` empty where they were not."""

    paths: tuple[str, ...]
    config: str
    preset: str
    keep_originals: bool
    fail_if_larger: bool


def inputs_of(environ: Mapping[str, str]) -> Inputs:
    """Return the inputs, which come as variables so that no shell reads them. Raises WrongInputError."""
    paths = tuple(filter(None, map(str.strip, environ[f"{VARIABLE}PATHS"].splitlines())))
    if not paths:
        raise WrongInputError("the input 'paths' names no session and no folder")
    return Inputs(
        paths,
        environ[f"{VARIABLE}CONFIG"],
        environ[f"{VARIABLE}PRESET"],
        _choice("originals", environ[f"{VARIABLE}ORIGINALS"], "commit", "none"),
        _choice("fail-if-larger", environ[f"{VARIABLE}FAIL_IF_LARGER"], "true", "false"),
    )


def _choice(name: str, value: str, yes: str, no: str) -> bool:
    if value not in (yes, no):
        raise WrongInputError(f"the input '{name}' must be '{yes}' or '{no}'")
    return value == yes


def arguments(inputs: Inputs) -> list[str]:
    """Return the command's arguments. Without originals the journal is committed too: later runs know ours by it."""
    options = ["--json", "--commit-originals"]
    options += [] if inputs.keep_originals else ["--no-backup"]
    options += ["--config", inputs.config] if inputs.config else []
    options += ["--preset", inputs.preset] if inputs.preset else []
    return ["compress", *options, "--", *inputs.paths]
