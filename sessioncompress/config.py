"""compression.json to a Policy: where it is looked for, what it may say, and errors that name the nearest key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import orjson

from sessioncompress.errors import UsageError
from sessioncompress.find import SECTION, policy_file
from sessioncompress.policy import BALANCED, Policy, ProtectMode, checked, preset_of

_LONGEST_SHOWN = 80


KEYS: Mapping[str, str] = {
    "enabled": "enabled",
    "sizeThresholdKB": "size_threshold_kb",
    "everyTurns": "every_turns",
    "turnThresholdBeforeCompress": "turn_threshold_before_compress",
    "protectMode": "protect_mode",
    "protectTokens": "protect_tokens",
    "protectTools": "protect_tools",
    "toolCallMaxBytes": "tool_call_max_bytes",
    "toolResultMaxBytes": "tool_result_max_bytes",
    "minSavedKB": "min_saved_kb",
    "stripThinking": "strip_thinking",
    "eliminateRedundancy": "eliminate_redundancy",
    "keepBackup": "keep_backup",
    "backupDir": "backup_dir",
    "commitOriginals": "commit_originals",
    "quietSeconds": "quiet_seconds",
}
"""Every key of the section, and the field of the policy that it sets."""


_OF_PRESETS: Mapping[str, str] = {
    "previewMinBytes": "preview_min_bytes",
    "previewMaxBytes": "preview_max_bytes",
    "atRest": "at_rest",
}
"""What presets alone set, as the journal names it."""


def policy_for(session: Path, config: Path | None, preset: str | None) -> Policy:
    """Return the policy for a session: the named file, else the nearest one above the session, else the preset.

    A preset is the base that the file's keys change. Raises UsageError.
    """
    base = preset_of(preset)
    file = config or policy_file(session)
    return load(file, base) if file else base


def load(file: Path, base: Policy = BALANCED) -> Policy:
    """Return the base with what the file's section `session` says. Raises UsageError."""
    try:
        document = orjson.loads(file.read_bytes())
    except OSError as error:
        raise _error(f"the policy cannot be read: {error.strerror}", file) from error
    except orjson.JSONDecodeError as error:
        raise _error(f"the policy is no JSON: {error}", file) from error
    if not isinstance(document, dict) or not isinstance(document.get(SECTION), dict):
        raise _error(f'the policy has no object "{SECTION}"', file)
    return from_mapping(document[SECTION], base, file)


def from_mapping(section: Mapping[str, Any], base: Policy, file: Path) -> Policy:
    """Return the base with the section's keys. Raises UsageError, naming the file, the key and the nearest one."""
    changes: dict[str, Any] = {}
    for key, value in section.items():
        if key not in KEYS:
            raise _error(f'the policy has an unknown key "{SECTION}.{key}"{_hint(key)}', file)
        try:
            changes[KEYS[key]] = checked(KEYS[key], value)
        except ValueError as error:
            raise _error(f'the policy\'s "{SECTION}.{key}" is {_written(value)}, but must be {error}', file) from None
    return replace(base, **changes)


def _hint(key: str) -> str:
    if key.lower() == "preset":
        return "; a preset is chosen with --preset"
    # Imported here: only an error needs it.
    import difflib

    near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.4)
    return f'; did you mean "{near[0]}"?' if near else ""


def misplaced(file: Path) -> str:
    """Say which keys beside the section were meant for it, so that nothing heeds them; empty where none were."""
    try:
        document = orjson.loads(file.read_bytes())
    except OSError:
        return ""
    except orjson.JSONDecodeError as error:
        return f"nothing of it is heeded, since it is no JSON: {error}"
    keys = [key for key in document if key in KEYS or _is_meant(key)] if isinstance(document, dict) else []
    named = ", ".join(f'"{key}"' for key in keys)
    return (
        f'{named} {"is" if len(keys) == 1 else "are"} not heeded: keys stand in an object "{SECTION}"' if keys else ""
    )


def _is_meant(key: str) -> bool:
    return key != SECTION and key.lower() == SECTION


def to_mapping(policy: Policy) -> dict[str, Any]:
    """Return the policy as `compression.json` writes it."""
    values = {field.name: getattr(policy, field.name) for field in fields(policy)}
    return {key: _plain(values[name]) for key, name in KEYS.items()}


def differences(policy: Policy) -> dict[str, Any]:
    """Return what of the policy is not the default, for the journal's run record: equal ones are of equal policies."""
    both = [(key, getattr(policy, name), getattr(BALANCED, name)) for key, name in {**KEYS, **_OF_PRESETS}.items()]
    return {key: _plain(value) for key, value, default in both if value != default}


def _written(value: Any) -> str:
    """Return a value as a message shows it; what no parser would write is named by its type."""
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return f"a {type(value).__name__} too deep to show"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + " (and more)"


def _plain(value: Any) -> Any:
    if isinstance(value, ProtectMode):
        return value.value
    if isinstance(value, str):
        # A folder's name may hold bytes that are no UTF-8, which JSON cannot.
        return value.encode("utf-8", "backslashreplace").decode()
    return list(value) if isinstance(value, tuple) else value


def _error(what: str, file: Path) -> UsageError:
    return UsageError(what, where=file, state="No session is changed.", remedy="Correct the file.")
