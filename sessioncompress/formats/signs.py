"""What the first bytes of a file tell of whether it is a session, without the time that the formats take."""

from __future__ import annotations

FIRST_BYTES = 4096
"""So much of a file is read: what names a session stands at its beginning."""

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


_LINES: tuple[tuple[tuple[bytes, ...], tuple[bytes, ...]], ...] = (
    ((b'"type":"session"', b'"id"', b'"timestamp"', b'"cwd"'), (b'"createdAt"', b'"seq"')),
    ((b'"type":"session_meta"', b'"timestamp"', b'"payload"', b'"cwd"'), ()),
    ((b'"parentUuid"', b'"sessionId"', b'"type"'), (b'"parts"',)),
)
"""What stands there, and what does not, in lines as pi and its relatives, Codex and Claude Code write them."""


def is_plainly_session(first: bytes) -> bool:
    """Say whether a file that begins so is a session for certain; of any other its format must be asked."""
    if not first.startswith(b"{"):
        return False
    lines = (all(key in first for key in has) and not any(key in first for key in lacks) for has, lacks in _LINES)
    return any(lines) or may_be_session(first)
