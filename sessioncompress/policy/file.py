"""What a policy file says, as a Policy: its section, its keys, and errors that name the nearest key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import orjson

from sessioncompress.core.text import utf8
from sessioncompress.errors import UsageError
from sessioncompress.policy.keys import ALL, GONE, KEYS, OF_PRESETS, SECTION, Key, Keys
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.policy.sections import MODEL_KEYS, Budget, Limits, Prune

Held = TypeVar("Held", Policy, Prune, Budget)

Counts = Callable[[str, Key, Any], bool]
"""Says of a key, by its dotted name, whether a value counts; raises UsageError where it must not be there."""

_LONGEST_SHOWN = 80
_NO_PRESET = "; a preset is chosen with --preset"


def parsed(data: bytes, file: Path) -> Any:
    """Return what a policy file holds. Raises UsageError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _error(f"the policy is no JSON: {error}", file) from error


def section_of(document: Any, file: Path) -> Mapping[str, Any] | None:
    """Return our section of a document, None where it has none. Raises UsageError."""
    if not isinstance(document, dict):
        return None
    if any(key.lower() == "preset" for key in document):
        raise _error(f'the policy has a key "preset"{_NO_PRESET}', file)
    if SECTION not in document:
        return None
    if not isinstance(document[SECTION], dict):
        raise no_section(file)
    section: dict[str, Any] = document[SECTION]
    return section


def no_section(file: Path, beside: str = "") -> UsageError:
    """Make the error for a file that is ours and has no section; `beside` says what else is wrong there."""
    return _error(f'the policy has no object "{SECTION}"' + (f"; {beside}" if beside else ""), file)


def from_mapping(section: Mapping[str, Any], base: Policy, file: Path, counts: Counts) -> Policy:
    """Return the base with the section's keys. Raises UsageError, naming the file, the key and the nearest one."""
    return _with(base, section, ALL, file, counts)


def _with(base: Held, section: Any, keys: Keys, file: Path, counts: Counts) -> Held:
    """Return the policy, or a section of it, with what counts of what a file says."""
    if not isinstance(section, dict):
        raise _error(f'the policy\'s "{keys.name}" is {_written(section)}, but must be an object', file)
    changes: dict[str, Any] = {}
    for key, value in section.items():
        if key not in keys.fields:
            shown = key[:_LONGEST_SHOWN]
            if said := GONE.get(f"{keys.name}.{key}"):
                raise _error(f'the policy has a key "{keys.name}.{key}"; {said}', file)
            raise _error(f'the policy has an unknown key "{keys.name}.{shown}"{_hint(shown, keys)}', file)
        name, field = f"{keys.name}.{key}", keys.fields[key].field
        try:
            inner = keys.inner.get(key)
            held = keys.checks[field](
                value if inner is None else _with(getattr(base, field), value, inner, file, counts)
            )
        except ValueError as error:
            raise _error(f'the policy\'s "{name}" is {_written(value)}, but must be {error}', file) from None
        if counts(name, keys.fields[key], held):
            changes[field] = held
    return replace(base, **changes)


def _hint(key: str, keys: Keys) -> str:
    if key.lower() == "preset":
        return _NO_PRESET
    section, dot, inner = key.partition(".")
    if dot and section in keys.inner:
        return f'; write "{section}": {{"{inner}": ...}}'
    # Imported here: only an error needs it.
    import difflib

    places = {each: each for each in keys.fields} | {
        each: f"{name}.{each}" for name, those in keys.inner.items() for each in those.fields if each not in keys.fields
    }
    near = difflib.get_close_matches(key, places, n=1, cutoff=0.4)
    return f'; did you mean "{places[near[0]]}"?' if near else ""


def misplaced(document: Any) -> str:
    """Say which keys beside the section were meant for it, so that nothing heeds them; empty where none were."""
    keys = [key for key in document if key in KEYS or _is_meant(key)] if isinstance(document, dict) else []
    named = ", ".join(f'"{key}"' for key in keys)
    return (
        f'{named} {"is" if len(keys) == 1 else "are"} not heeded: keys stand in an object "{SECTION}"' if keys else ""
    )


def _is_meant(key: str) -> bool:
    return key != SECTION and key.lower() == SECTION


def to_mapping(policy: Policy) -> dict[str, Any]:
    """Return the policy as `compression.json` writes it."""
    return _mapping(policy, ALL)


def _mapping(held: Any, keys: Keys) -> dict[str, Any]:
    values = {key: getattr(held, each.field) for key, each in keys.fields.items()}
    return {
        key: _mapping(value, keys.inner[key]) if key in keys.inner else _plain(value) for key, value in values.items()
    }


@lru_cache(maxsize=1)
def differences(policy: Policy) -> Mapping[str, Any]:
    """Return what of the policy is not the default, for the journal's run record: equal ones are of equal policies.

    Where a log is written changes nothing in a session. One call works by one policy, or by a few.
    """
    of_preset = {key: _plain(getattr(policy, name)) for key, name in OF_PRESETS.items()}
    default = {key: _plain(getattr(BALANCED, name)) for key, name in OF_PRESETS.items()}
    given, shipped = to_mapping(policy) | of_preset, to_mapping(BALANCED) | default
    return {key: value for key, value in _differing(given, shipped).items() if key != "logFile"}


def _differing(given: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _differing(value, default[key]) if isinstance(value, dict) else value
        for key, value in given.items()
        if value != default[key]
    }


def _written(value: Any) -> str:
    """Return a value as a message shows it; what no parser would write is named by its type."""
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return f"a {type(value).__name__} too deep to show"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + " (and more)"


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, str):
        # A folder's name may hold bytes that are no UTF-8, which JSON cannot.
        return utf8(value)
    if isinstance(value, Limits):
        return dict(zip(MODEL_KEYS, value, strict=True))
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def _error(what: str, file: Path) -> UsageError:
    return UsageError(what, where=file, state="No session is changed.", remedy="Correct the file.")
