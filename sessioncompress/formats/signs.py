"""What the beginning of a JSON document must hold for a walk over a folder to look at the rest of it."""

from __future__ import annotations

FIRST_BYTES = 4096
"""So much of each `.json` is read: what names a session stands at its beginning."""

_SIGNS: tuple[tuple[bytes, ...], ...] = (
    (b'"sessionId"', b'"projectHash"'),
    (b'"info"', b'"projectID"', b'"directory"'),
    (b'"metadata"', b'"createdAt"', b'"provider"', b'"cwd"'),
)
"""The keys that stand there in sessions of Gemini CLI, in exports of OpenCode, and in sessions of gencode.

A chat names no agent: it has none, since a document that is only met may be anything.
"""


def may_be_session(first: bytes) -> bool:
    """Say whether a document that begins so may be a session; whether it is one, its format tells from all of it."""
    return any(all(key in first for key in keys) for keys in _SIGNS)
