"""The table of compressors, in the order in which they may claim a block, and who renders what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sessioncompress.compressors import arguments, attachments, mirrors, redundancy, results, thinking
from sessioncompress.compressors.base import Compressor, Context, View
from sessioncompress.core.model import Change, Kind, Replacement

COMPRESSORS: tuple[Compressor, ...] = (
    redundancy.prune,
    redundancy.propose,
    results.propose,
    arguments.propose,
    thinking.propose,
    attachments.propose,
    mirrors.propose,
)

RENDERERS: Mapping[Kind, Callable[[Change, Any, Context], Iterable[Replacement]]] = {
    Kind.ARGUMENT: arguments.render,
    Kind.RESULT: results.render,
    Kind.THINKING: thinking.render,
    Kind.IMAGE: attachments.render_image,
    Kind.MIRROR: mirrors.render,
    Kind.ATTACHMENT: attachments.render,
}

__all__ = ["COMPRESSORS", "RENDERERS", "Context", "View"]
