"""Before a tool runs: refuse to write a marker as if it were content.

    {"tool_name", "tool_input", "transcript_path"}  ->  {"hookSpecificOutput": {"permissionDecision": "deny", ...}}

This is the format of Claude Code, which our hooks for other agents use too. No answer lets the tool run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessioncompress.core import marker

_TAKEN_AWAY = frozenset({"old_string", "oldText"})
"""The keys of text that an edit removes: a marker there is in the file already."""


_TOO_DEEP = (
    "Not written: the arguments are nested too deep to be looked at, and hold what looks like a marker for text "
    "that was left out of this session."
)


def new_markers(given: Any) -> list[str]:
    """List the markers in a call's arguments, each once, except those that it also removes."""
    texts = list(_texts(given, ""))
    old = {each for key, text in texts if key in _TAKEN_AWAY for each in marker.whole_in(text)}
    new = (each for key, text in texts if key not in _TAKEN_AWAY for each in marker.whole_in(text))
    return [each for each in dict.fromkeys(new) if each not in old]


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for inner, each in value.items():
            yield from _texts(each, inner)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, key)


def answer(raw: bytes) -> bytes:
    """Answer a call that is about to run; empty if it may."""
    # JSON does not escape the beginning of a marker: without one the call is not even parsed.
    if marker.PREFIX_BYTES not in raw:
        return b""
    # Imported only now: this runs before each write, and nearly all calls end above.
    import json

    from sessioncompress.core.jsonl import is_deep

    if is_deep(raw):
        return _denied(_TOO_DEEP)
    call = json.loads(raw)
    found = new_markers(call.get("tool_input"))
    if not found:
        return b""
    from pathlib import Path

    from sessioncompress.hooks import base
    from sessioncompress.hooks.known import known

    session = call.get("transcript_path")
    ours = known(found, Path(session)) if isinstance(session, str) else []
    tool = f"{call.get('tool_name')} in {session}"
    if not ours:
        base.note_in_log("guard", f"let through {tool}: no store here knows {found[0]}")
        return b""
    base.note_in_log("guard", f"refused {tool}: {ours[0]}")
    return _denied(reason(ours))


def reason(found: list[str]) -> str:
    """Tell the model why a text with these markers is not written, and how to get the original text."""
    said = (
        f"Not written: the text holds {found[0]}, which is no content. It marks where a text was left out of this "
        "session, and would damage a file."
    )
    if refs := list(dict.fromkeys(marker.references("\n".join(found)))):
        named = " and ".join(f"`sessioncompress show {ref} --all`" for ref in refs)
        return f"{said} {named} prints that text in full: put what belongs there, and write again."
    return f"{said} No original of it was kept: read what it was from where it came from, and write again."


def _denied(why: str) -> bytes:
    import json

    said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    return json.dumps({"hookSpecificOutput": said}).encode()
