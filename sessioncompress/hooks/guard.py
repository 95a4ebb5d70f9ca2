"""Before a tool runs: refuse to write a marker as if it were content.

    {"tool_name", "tool_input", "transcript_path"}  ->  {"hookSpecificOutput": {"permissionDecision": "deny", ...}, ...}

This is Claude Code's format, which Codex and our hooks for other agents also use. Gemini CLI reads `decision` and
`reason` instead. An empty answer allows the call. A call without a marker must cost almost nothing, so modules are
imported where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sessioncompress.core import marker

if TYPE_CHECKING:
    from pathlib import Path

_PATCH = "*** Begin Patch"


def answer(raw: bytes) -> bytes:
    """Answer a call that is about to run; empty to allow it."""
    # JSON doesn't escape a marker's prefix, so a call without it need not be parsed.
    if marker.PREFIX_BYTES not in raw:
        return b""
    import json

    from sessioncompress.core.jsonl import is_deep

    if is_deep(raw):
        what = "the arguments are nested too deep to check, and contain what looks like a marker for text"
        return _denied(f"Not written: {what} that was left out of this session.")
    call = json.loads(raw)
    found = new_markers(call.get("tool_input"))
    if not found:
        return b""
    from pathlib import Path

    from sessioncompress.hooks import base

    session = call.get("transcript_path")
    ours = known(found, Path(session)) if isinstance(session, str) and session else known_here(found)
    tool = f"{call.get('tool_name')} in {session or 'a session that is not a file'}"
    if not ours:
        base.note_in_log("guard", f"let through {tool}: no store here knows {found[0]}")
        return b""
    base.note_in_log("guard", f"refused {tool}: {ours[0]}")
    said = (
        f"Not written: the text contains {ours[0]}, which is a placeholder, not content. It marks where text was left "
        "out of this session, and would damage a file."
    )
    if refs := list(dict.fromkeys(marker.references("\n".join(ours)))):
        named = " and ".join(f"`sessioncompress show {ref} --all`" for ref in refs)
        return _denied(f"{said} {named} prints that text in full: put the real text there, and write again.")
    return _denied(f"{said} No original of it was kept: get the text from where it came from, and write again.")


def _denied(why: str) -> bytes:
    import json

    said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    return json.dumps({"decision": "block", "reason": why, "hookSpecificOutput": said}).encode()


def new_markers(given: Any) -> list[str]:
    """List the markers in a call's arguments, each once, without those that the call also removes."""
    texts = list(_texts(given, removed=False))
    # A marker in a text that an edit removes is already in the file.
    old = {each for removed, text in texts if removed for each in marker.whole_in(text)}
    new = (each for removed, text in texts if not removed for each in marker.whole_in(text))
    return [each for each in dict.fromkeys(new) if each not in old]


def _texts(value: Any, *, removed: bool) -> Iterator[tuple[bool, str]]:
    """Yield each text, and if the call removes it."""
    from sessioncompress.formats.values import OLD_TEXT_KEYS

    if isinstance(value, str) and value.lstrip().startswith(_PATCH):
        for line in value.splitlines():
            # Only added lines are new; the others are in the file already, or are removed.
            yield not line.startswith("+"), line
    elif isinstance(value, str):
        yield removed, value
    elif isinstance(value, dict):
        for inner, each in value.items():
            yield from _texts(each, removed=inner in OLD_TEXT_KEYS)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, removed=removed)


def known(found: Sequence[str], session: Path) -> list[str]:
    """List the markers with an original in a store of the session's folder, or written into this session by a run.

    An unknown marker may be a quotation, and is allowed. The folder also holds the sessions that this one was forked
    from; a subagent has its own session. Raises SessionCompressError and OSError.
    """
    from contextlib import suppress

    from sessioncompress.errors import UsageError
    from sessioncompress.formats import table
    from sessioncompress.operations.show import mentions
    from sessioncompress.policy.model import BALANCED
    from sessioncompress.policy.sources import Policies
    from sessioncompress.store.layout import backups_of, store_at, stores_in

    policies, policy = Policies(warn=lambda _: None), BALANCED
    # An invalid policy must not disable the guard. Every run reports it anyway.
    with suppress(UsageError):
        policy = policies.own
        policy = policies.of(session)
    store = store_at(session, policy)
    own = [store_at(each, policy).journal for each in (session, *table.subagents(session))]
    neighbours = [each.journal for _, each in stores_in(session.parent, backups_of(session, policy))]
    journals = [each for each in dict.fromkeys([*own, *neighbours]) if each.is_file()]
    named = {each: marker.references(each) for each in found}
    ours = [each for each, refs in named.items() if any(mentions(ref, file) for ref in refs for file in journals)]
    if ours:
        # One is enough to refuse. The call must not run because checking the others is slow or fails.
        return ours
    bare = [each for each, refs in named.items() if not refs]
    return _put_in(bare, session, store.journal) if bare else []


def known_here(found: Sequence[str]) -> list[str]:
    """List the markers whose original `sessioncompress show` would print in the working folder.

    For agents with sessions in a database, which name no file. Compressed content there came from files.
    """
    from sessioncompress.errors import SessionCompressError, UsageError
    from sessioncompress.operations.show import show
    from sessioncompress.policy.sources import Policies

    own = Policies(warn=lambda _: None).own

    def is_known(ref: str) -> bool:
        try:
            return bool(show(ref, policy=own))
        except UsageError:
            return False
        except SessionCompressError:
            # A store names it, but it can't be read.
            return True

    return [each for each in found if any(map(is_known, marker.references(each)))]


def _put_in(bare: Sequence[str], session: Path, file: Path) -> list[str]:
    """List the markers that are in rewritten lines of the session."""
    import json
    from hashlib import sha256

    from sessioncompress.core.jsonl import pieces
    from sessioncompress.store import journal as journals

    journal = journals.load(file)
    if not journal.runs:
        return []
    written = {each: json.dumps(each)[1:-1].encode() for each in bare}
    put_in: set[str] = set()
    with session.open("rb") as opened:
        for _, raw, _ in pieces(opened, session.stat().st_size):
            if marker.PREFIX_BYTES in raw and journal.rewriting(sha256(raw).digest()) is not None:
                put_in.update(each for each, form in written.items() if form in raw)
    return [each for each in bare if each in put_in]
