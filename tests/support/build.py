"""Builds synthetic sessions for tests, fixtures and benchmarks: one place to import everything from."""

from __future__ import annotations

from tests.support.blocks import (
    Block,
    call,
    dice,
    hexes,
    image,
    number,
    png,
    redacted,
    sealed_thinking,
    signature,
    stringify,
    text,
    thinking,
    unsigned,
)
from tests.support.claude import ClaudeSession
from tests.support.session import PiSession, Use
from tests.support.variants import (
    GeminiSession,
    OmpAnthropicSession,
    OmpGeminiSession,
    OmpSession,
    OpenClawSession,
    ResponsesSession,
    blob,
    shown,
    title_slot,
)

__all__ = [
    "Block",
    "ClaudeSession",
    "GeminiSession",
    "OmpAnthropicSession",
    "OmpGeminiSession",
    "OmpSession",
    "OpenClawSession",
    "PiSession",
    "ResponsesSession",
    "Use",
    "blob",
    "call",
    "dice",
    "hexes",
    "image",
    "number",
    "png",
    "redacted",
    "sealed_thinking",
    "shown",
    "signature",
    "stringify",
    "text",
    "thinking",
    "title_slot",
    "unsigned",
]
