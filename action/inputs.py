"""The inputs of the action, and what they make the command be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

USAGE = 2
"""The exit code for an input that cannot be heeded."""

VARIABLE = "SESSIONCOMPRESS_"

NEVER, ALWAYS, IF_DUE = "false", "true", "if-due"
"""Whether sessions are compacted before they are compressed."""


HISTORY, NONE = "history", "none"
"""Where originals go, besides all into the store."""


class WrongInputError(Exception):
    """An input has a value that it cannot have; its text says which and what it may be."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the workflow asks for; `paths` as they were typed, `config` and `preset` empty where they were not."""

    paths: tuple[str, ...]
    config: str
    preset: str
    compact: str
    originals: str
    force: bool
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
        _choice("compact", environ[f"{VARIABLE}COMPACT"], NEVER, ALWAYS, IF_DUE),
        _choice("originals", environ[f"{VARIABLE}ORIGINALS"], HISTORY, "commit", NONE),
        _choice("force", environ[f"{VARIABLE}FORCE"], "true", "false") == "true",
        _choice("fail-if-larger", environ[f"{VARIABLE}FAIL_IF_LARGER"], "true", "false") == "true",
    )


def _choice(name: str, value: str, *choices: str) -> str:
    if value not in choices:
        words = [f"'{each}'" for each in choices]
        raise WrongInputError(f"the input '{name}' must be {', '.join(words[:-1])} or {words[-1]}")
    return value


def arguments(inputs: Inputs) -> list[str]:
    """Return the command's arguments. Without originals the journal is committed too: later runs know ours by it."""
    options = ["--no-backup"] * (inputs.originals == NONE) + ["--force"] * inputs.force
    return _asked("compress", inputs, *options)


def to_compact(inputs: Inputs) -> list[str]:
    """Return the arguments of the command that comes first; none where the workflow does not ask for it."""
    if inputs.compact == NEVER:
        return []
    return _asked("compact", inputs, *(["--if-due"] if inputs.compact == IF_DUE else []))


def _asked(command: str, inputs: Inputs, *more: str) -> list[str]:
    options = ["--json", "--originals-in", HISTORY if inputs.originals == HISTORY else "committed", *more]
    options += ["--config", inputs.config] if inputs.config else []
    options += ["--preset", inputs.preset] if inputs.preset else []
    return [command, *options, "--", *inputs.paths]
