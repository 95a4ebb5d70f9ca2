"""The compressors, in the order in which they may claim a block, and the properties of each kind of block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from sessioncompress.compressors import arguments, beside, redundancy, results, thinking
from sessioncompress.compressors.base import Compressor, Context, View
from sessioncompress.core.model import Block, Change, Kind, Replacement
from sessioncompress.policy.model import Policy

COMPRESSORS: tuple[Compressor, ...] = (
    redundancy.prune,
    redundancy.propose,
    results.propose,
    arguments.propose,
    thinking.propose,
    beside.propose,
    beside.propose_mirrors,
)


class OfKind(NamedTuple):
    """A kind's properties for the other stages; the defaults fit a text that a model reads.

    `one` and `several` name its blocks in reports. `field` is the number in CompressionStats that counts them; kinds
    without one are counted in `others_replaced`. `record` is the size in bytes of the journal's record of a replaced
    block, `original` the type of a value that a marker replaces. `counts` is True if a block counts as removable,
    `read` if a model reads it.
    """

    render: Callable[[Change, Any, Context], Iterable[Replacement]]
    one: str
    several: str
    field: str = ""
    record: int = 280
    original: type | tuple[type, ...] = str
    counts: Callable[[Block, Policy], bool] = lambda _, __: False
    read: bool = True


KINDS: Mapping[Kind, OfKind] = {
    Kind.ARGUMENT: OfKind(arguments.render, "call", "calls", "tool_calls_compressed", counts=arguments.counts),
    Kind.RESULT: OfKind(results.render, "result", "results", "tool_results_compressed", counts=results.counts),
    Kind.THINKING: OfKind(
        thinking.render, "thinking", "thinking", "thinking_blocks_removed", 140, object, lambda _, by: by.strip_thinking
    ),
    Kind.IMAGE: OfKind(
        beside.render_image, "image", "images", "images_replaced", 280, (dict, str), lambda it, _: not it.marked
    ),
    Kind.MIRROR: OfKind(
        beside.render_mirror,
        "screen copy",
        "screen copies",
        "mirrors_replaced",
        190,
        object,
        lambda _, __: True,
        read=False,
    ),
    Kind.ATTACHMENT: OfKind(beside.render_attachment, "attachment", "attachments"),
}
"""In the order of reports."""

__all__ = ["COMPRESSORS", "KINDS", "Context", "View"]
