"""What a policy file says, as a Policy: its section, its keys, and errors that name the nearest key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson
from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from sessioncompress.core.text import json_safe
from sessioncompress.errors import UsageError
from sessioncompress.policy import model
from sessioncompress.policy.model import BALANCED, OnlyUser, Policy, must_be

Held = TypeVar("Held", bound=model.Section)

SECTION = "session"
OF_PRESETS = ("previewMinBytes", "previewMaxBytes", "atRest")
"""What presets alone set, as the journal names it."""
_GONE: Mapping[str, str] = {
    "session.protectMode": 'it is gone: "turns" is now "protectTokens": null; instead of the other two leave it out',
}
"""Keys of earlier versions, by their dotted names, and what to write instead."""


class Key(NamedTuple):
    """The field that a key sets, its type, and why a file near a session may not set it, None where it may."""

    field: str
    kind: Any
    only_user: OnlyUser | None

    @property
    def section(self) -> type[model.Section] | None:
        """What the key's object holds, None where its value is no object."""
        return self.kind if isinstance(self.kind, type) and issubclass(self.kind, model.Section) else None


def keys_of(section: type[model.Section]) -> dict[str, Key]:
    """Return the keys of a section that a file may have."""
    names = zip(section.__struct_encode_fields__, section.__struct_fields__, strict=True)
    return {key: _key(name, section.__annotations__[name]) for key, name in names if key not in OF_PRESETS}


def _key(name: str, kind: Any) -> Key:
    rules = (each for each in getattr(kind, "__metadata__", ()) if isinstance(each, OnlyUser))
    return Key(name, kind, next(rules, None))


KEYS: Mapping[str, Key] = keys_of(Policy)
SECTIONS: Mapping[str, type[model.Section]] = {key: inner for key, each in KEYS.items() if (inner := each.section)}

Counts = Callable[[str, Key, Any], bool]
"""Says of a key, by its dotted name, whether a value counts; raises UsageError where it must not be there."""

_LONGEST_SHOWN = 80
_NO_PRESET = "; a preset is chosen with --preset"


def parsed(data: bytes, file: Path) -> Any:
    """Return what a policy file holds. Raises UsageError."""
    try:
        document = orjson.loads(data)
        json.loads(data, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _error(f"the policy is no JSON: {error}", file) from error
    if not isinstance(document, dict):
        raise _error(f"the policy is {_written(document)}, but must be an object", file)
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object. Raises ValueError where a key stands in it twice: readers differ in which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f'the key "{twice[:_LONGEST_SHOWN]}" stands twice in one object')
    return found


def section_of(document: Mapping[str, Any], file: Path) -> Mapping[str, Any] | None:
    """Return our section of a document, None where it has none. Raises UsageError."""
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
    return _with(base, section, SECTION, file, counts)


def _with(base: Held, section: Any, where: str, file: Path, counts: Counts) -> Held:
    """Return the policy, or a section of it, with what counts of what a file says."""
    if not isinstance(section, dict):
        raise _error(f'the policy\'s "{where}" is {_written(section)}, but must be an object', file)
    keys, changes = keys_of(type(base)), dict[str, Any]()
    for name, value in section.items():
        dotted = f"{where}.{name[:_LONGEST_SHOWN]}"
        if name not in keys:
            if dotted in _GONE:
                raise _error(f'the policy has a key "{dotted}"; {_GONE[dotted]}', file)
            raise _error(f'the policy has an unknown key "{dotted}"{_hint(name[:_LONGEST_SHOWN], keys)}', file)
        key = keys[name]
        try:
            if key.section is None:
                held = convert(value, key.kind)
            else:
                held = _with(getattr(base, key.field), value, dotted, file, counts)
        except ValidationError:
            what = f'the policy\'s "{dotted}" is {_written(value)}, but must be {must_be(key.kind)}'
            raise _error(what, file) from None
        if counts(dotted, key, held):
            changes[key.field] = held
    return replace(base, **changes)


def _hint(key: str, keys: Mapping[str, Key]) -> str:
    if key.lower() == "preset":
        return _NO_PRESET
    sections = {name: inner for name, each in keys.items() if (inner := each.section)}
    outer, dot, inner_key = key.partition(".")
    if dot and outer in sections:
        return f'; write "{outer}": {{"{inner_key}": ...}}'
    # Imported here: only an error needs it.
    import difflib

    places = {each: f"{name}.{each}" for name, those in sections.items() for each in keys_of(those)}
    places |= {each: each for each in keys}
    near = difflib.get_close_matches(key, places, n=1, cutoff=0.4)
    return f'; did you mean "{places[near[0]]}"?' if near else ""


def misplaced(document: Mapping[str, Any]) -> str:
    """Say which keys beside the section were meant for it, so that nothing heeds them; empty where none were."""
    keys = [key for key in document if key in KEYS or (key != SECTION and key.lower() == SECTION)]
    named = ", ".join(f'"{key}"' for key in keys)
    return (
        f'{named} {"is" if len(keys) == 1 else "are"} not heeded: keys stand in an object "{SECTION}"' if keys else ""
    )


def to_mapping(policy: Policy) -> dict[str, Any]:
    """Return the policy as `compression.json` writes it."""
    return {key: value for key, value in _all(policy).items() if key not in OF_PRESETS}


def _all(policy: Policy) -> dict[str, Any]:
    plain: dict[str, Any] = json_safe(to_builtins(policy))
    return plain


@lru_cache(maxsize=1)
def differences(policy: Policy) -> Mapping[str, Any]:
    """Return what of the policy is not the default, for the journal's run record: equal ones are of equal policies.

    Where a log is written changes nothing in a session. One call works by one policy, or by a few.
    """
    differing = _differing(_all(policy), _all(BALANCED))
    return {key: value for key, value in differing.items() if key != "logFile"}


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


def _error(what: str, file: Path) -> UsageError:
    return UsageError(what, where=file, state="No session is changed.", remedy="Correct the file.")
