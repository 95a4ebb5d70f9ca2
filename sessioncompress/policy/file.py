"""Read a policy file into a Policy, with errors that name the nearest key; and write one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import orjson
from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from sessioncompress.core.text import json_safe
from sessioncompress.policy.model import PRESETS, OnlyUser, Policy, Section, must_be, wrong

Held = TypeVar("Held", bound=Section)

SECTION = "session"
PRESET = "preset"
"""The key that names the base for all other keys."""
OF_PRESETS = ("atRest",)
"""Keys that only presets set, as the journal names them."""
_GONE: Mapping[str, str] = {
    "session.protectMode": 'it is gone: "turns" is now "protectTokens": null; instead of the other two leave it out',
    "session.enableCompaction": "no key starts a summary: run 'sessioncompress compact --if-due', or do not",
}
"""Removed keys, by their dotted names, and what to write or do instead."""
_ELSEWHERE: Mapping[str, str] = {
    "enablePruning": "prune.enabled",
    "idleEnabled": "idleSeconds",
    "idleTimeoutSeconds": "idleSeconds",
    "remoteEnabled": "summarizer.endpoint",
    "compressionStrategy": "compact.keep",
    "compressionInteractive": "compact.ask",
    "compressionPromptTimeout": "compact.askSeconds",
    "compressionTriggerTokens": "budget.actTokens",
    "compressionTriggerUtilization": "budget.safetyPercent",
    "compressionMinMessagesSinceLastCompress": "budget.actMessages",
    "compressionMinTimeBetweenPrompts": "budget.actSeconds",
}
"""Keys of the designs that the rules are based on, if none of our names resembles them."""


class Key(NamedTuple):
    """The field that a key sets, its type, and why a file near a session may not set it (None: it may)."""

    field: str
    kind: Any
    only_user: OnlyUser | None

    @property
    def section(self) -> type[Section] | None:
        """The type of the key's object, or None if its value is not an object."""
        return self.kind if isinstance(self.kind, type) and issubclass(self.kind, Section) else None


def keys_of(section: type[Section]) -> dict[str, Key]:
    """Return the keys that a file may have in a section."""
    found = {}
    for key, name in zip(section.__struct_encode_fields__, section.__struct_fields__, strict=True):
        kind = section.__annotations__[name]
        rules = [each for each in getattr(kind, "__metadata__", ()) if isinstance(each, OnlyUser)]
        whole = getattr(kind, "__origin__", None)
        if isinstance(whole, type) and issubclass(whole, Section):
            kind = whole
        if key not in OF_PRESETS:
            found[key] = Key(name, kind, rules[0] if rules else None)
    return found


KEYS: Mapping[str, Key] = keys_of(Policy)

Counts = Callable[[str, Key, Any], bool]
"""A predicate on a key's dotted name, the key and its value: does the value count?"""

_LONGEST_SHOWN = 80


def section_in(data: bytes, file: Path, *, ours: bool) -> tuple[Mapping[str, Any] | None, str]:
    """Parse a policy file; return our section (None if it has none) and a warning about keys outside it.

    Other tools have files of this name too. Raises UsageError, also if a file of `ours` has no section.
    """
    try:
        document = orjson.loads(data)
        json.loads(data, object_pairs_hook=_once)
    except orjson.JSONDecodeError as error:
        # No text of the file is shown: in a clone it may be a link to a file that only the user may read.
        raise wrong(f"the policy is not JSON: {error.msg}, at column {error.colno}", file, error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise wrong(f"the policy is not JSON: {error}", file) from error
    if not isinstance(document, dict):
        raise wrong(f"the policy is {_written(document)}, but must be an object", file)
    no_section = f'the policy has no object "{SECTION}"'
    if SECTION in document and not isinstance(document[SECTION], dict):
        raise wrong(no_section, file)
    # gencode has an object of that name; its users may expect it to count.
    ours_elsewhere = {*KEYS, PRESET, "compression"}
    keys = [key for key in document if key in ours_elsewhere or (key != SECTION and key.lower() == SECTION)]
    named = ", ".join(f'"{key}"' for key in keys)
    are = "is" if len(keys) == 1 else "are"
    outside = f'{named} {are} ignored: keys belong in an object "{SECTION}"' if keys else ""
    if SECTION not in document and ours:
        raise wrong(f"{no_section}; {outside}" if outside else no_section, file)
    return document.get(SECTION), outside


def preset_in(section: Mapping[str, Any], file: Path) -> str | None:
    """Return the preset that a section names, or None. Raises UsageError."""
    if PRESET not in section:
        return None
    name = section[PRESET]
    if not isinstance(name, str) or name not in PRESETS:
        known = " or ".join(f'"{each}"' for each in PRESETS)
        raise wrong(f'the policy\'s "{SECTION}.{PRESET}" is {_written(name)}, but must be {known}', file)
    return name


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Parsers disagree about which of two equal keys counts.
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f'the key "{twice[:_LONGEST_SHOWN]}" appears twice in one object')
    return found


def from_mapping(base: Held, section: Any, file: Path, counts: Counts, where: str = SECTION) -> Held:
    """Apply a section to the base, except for values that do not count; `where` is the section's dotted name.

    The base is the preset, so the key that names it is skipped. Raises UsageError with the file, the key and the
    nearest key.
    """
    if not isinstance(section, dict):
        raise wrong(f'the policy\'s "{where}" is {_written(section)}, but must be an object', file)
    keys, changes = keys_of(type(base)), dict[str, Any]()
    for name, value in section.items():
        if name == PRESET and where == SECTION:
            continue
        dotted = f"{where}.{name[:_LONGEST_SHOWN]}"
        if name not in keys:
            if dotted in _GONE:
                raise wrong(f'the policy has a key "{dotted}"; {_GONE[dotted]}', file)
            raise wrong(f'the policy has an unknown key "{dotted}"{_hint(name[:_LONGEST_SHOWN], keys)}', file)
        key = keys[name]
        try:
            if key.section is None:
                held = convert(value, key.kind)
            else:
                held = from_mapping(getattr(base, key.field), value, file, counts, dotted)
        except ValidationError:
            what = f'the policy\'s "{dotted}" is {_written(value)}, but must be {must_be(key.kind)}'
            raise wrong(what, file) from None
        if counts(dotted, key, held):
            changes[key.field] = held
    return replace(base, **changes)


def _hint(key: str, keys: Mapping[str, Key]) -> str:
    sections = {name: inner for name, each in keys.items() if (inner := each.section)}
    outer, dot, inner_key = key.partition(".")
    if dot and outer in sections:
        return f'; write "{outer}": {{"{inner_key}": ...}}'
    if key in _ELSEWHERE:
        return f'; did you mean "{_ELSEWHERE[key]}"?'
    import difflib

    places = {each: f"{name}.{each}" for name, those in sections.items() for each in keys_of(those)}
    places |= {each: each for each in (*keys, *([PRESET] if sections else []))}
    near = difflib.get_close_matches(key, places, n=1)
    return f'; did you mean "{places[near[0]]}"?' if near else ""


def to_mapping(policy: Policy) -> dict[str, Any]:
    """Return the policy with the keys of `compression.json`."""
    return {key: value for key, value in json_safe(to_builtins(policy)).items() if key not in OF_PRESETS}


def schema_address() -> str:
    """Return the address of the JSON Schema of a policy file, which is shipped next to this module, or "".

    Until the project has a homepage, its addresses use a domain that can never exist (RFC 2606).
    """
    schema = orjson.loads(Path(__file__).with_name("compression.schema.json").read_bytes())
    address = str(schema["$id"])
    return "" if (urlsplit(address).hostname or "").endswith(".invalid") else address


def flat(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten the result of to_mapping() to dotted names."""
    found = dict[str, Any]()
    for key, value in mapping.items():
        found |= {f"{key}.{name}": each for name, each in value.items()} if isinstance(value, dict) else {key: value}
    return found


def _written(value: Any) -> str:
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return f"a {type(value).__name__} nested too deep to show"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + " (and more)"
