"""Prunes a synthetic session of gencode in memory: the decision and the edits, as an agent does it to its own session."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from sessioncompress.compressors import View
from sessioncompress.core.jsonl import parse
from sessioncompress.core.references import References
from sessioncompress.pipeline.plan import plan
from sessioncompress.pipeline.rewrite import rewrite
from sessioncompress.policy.model import BALANCED, Prune
from tests.support import texts
from tests.support.chats import GenCodeSession
from tests.support.runs import units, view_of

_LOGS = 60
_FILES = 50


@dataclass(frozen=True)
class Read:
    """A session that was read: its messages, and what the plan sees of them."""

    messages: Sequence[bytes]
    view: View


def session(messages: int, prune: Prune) -> Read:
    """Return a session of so many messages: of each five one prompt, two calls and their results."""
    rng = random.Random("pruning")
    logs = [texts.log_lines(rng, rng.randint(10, 60)) for _ in range(_LOGS)]
    made = GenCodeSession()
    for number in range(messages // 5):
        made.message("user", f"And now part {number}?")
        made.step("Bash", {"command": f"make {number}"}, f"{number}\n{logs[2 * number % _LOGS]}", "I look.")
        made.step("Read", {"file_path": f"src/{number % _FILES}.py"}, f"{number}\n{logs[(2 * number + 1) % _LOGS]}")
    data = made.bytes()
    return Read(units(data), view_of(data, replace(BALANCED, prune=prune)))


def edits(read: Read) -> int:
    """Decide what is to be pruned, and make the new messages; return how many changed."""
    # A view remembers what it found.
    view = replace(read.view, now=1)
    refer = References().refer
    changed = 0
    for number, changes in plan(view, (), ()).items():
        entry = parse(read.messages[number])
        assert entry is not None
        changed += rewrite(read.messages[number], entry, changes, view, refer) is not None
    return changed
