"""Nothing lost whatever happens in whatever order: an agent, our commands, and kills in the middle of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from msgspec.structs import replace

from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import BALANCED
from sessioncompress.store.layout import store_in
from tests.faults.effort import effort
from tests.faults.life import Agent
from tests.faults.scenes import kill_at
from tests.support.runs import EAGER, GREEDY, disk, reading_again, runs_again, snapshot, split
from tests.unit.store.tools import disk as watched
from tests.unit.store.tools import in_a_child, left_over

POLICIES = {
    "eager": EAGER,
    "greedy": GREEDY,
    "by tokens": replace(GREEDY, protect_tokens=500, turn_threshold_before_compress=2),
    "no thinking": replace(EAGER, strip_thinking=False, eliminate_redundancy=False),
    # With no threshold: what is under it is not even opened, and keeps what a killed run left.
    "only what pays": replace(BALANCED, size_threshold_kb=0, min_saved_kb=4, turn_threshold_before_compress=1),
}
_POLICY = st.sampled_from(sorted(POLICIES))
_MOST_CALLS = 24
"""So many calls that change the disk a run makes at most; a later one kills nothing, and it must end well."""

_KILLS = st.lists(st.integers(0, _MOST_CALLS), min_size=1, max_size=2)
"""Before which call to kill: the command, and maybe the one that is to finish it."""


class Life(Agent):
    """A session's life: its agent, and our commands."""

    def __init__(self) -> None:
        super().__init__()
        self.checked: dict[str, tuple[bytes, int, int]] = {}

    @rule(policy=_POLICY)
    def compress(self, policy: str) -> None:
        """A run makes it no larger, and a second one has nothing to do."""
        size, lines = disk(self.path), len(split(self.path.read_bytes()))
        with reading_again():
            stats = compress_session(self.path, POLICIES[policy])
        self._lived()
        assert disk(self.path) <= size
        assert len(split(self.path.read_bytes())) == lines
        before = snapshot(self.path)
        assert runs_again(self.path, POLICIES[policy]).status is not Status.COMPRESSED, stats
        assert snapshot(self.path) == before

    @rule()
    @precondition(lambda self: self.is_kept())
    def restore(self) -> None:
        """Everything is as if no one had ever compressed it."""
        restore_session(self.path)
        self._lived()
        assert self.path.read_bytes() == self.original

    @rule()
    @precondition(lambda self: self.is_kept())
    def restore_a_copy_by_markers(self) -> None:
        """What a marker names comes back, nothing else changes, and the exact restore still can be had."""
        with self.copied() as path:
            before = split(path.read_bytes())
            restore_session(path, from_markers=True)
            for was, now, original in zip(before, split(path.read_bytes()), split(self.original), strict=True):
                assert now in (was, original) or len(now) > len(was)
            verify_session(path)
            restore_session(path)
            assert path.read_bytes() == self.original

    @rule()
    def verify(self) -> None:
        """What lies there is sound, and looking changes nothing."""
        before = snapshot(self.path)
        verify_session(self.path)
        assert snapshot(self.path) == before

    @rule()
    @precondition(lambda self: self.is_kept())
    def forget(self) -> None:
        """Once restored it needs nothing beside it."""
        self.restore()
        forget_session(self.path)
        self._lived()
        assert not store_in(self.path).journal.exists()
        assert not store_in(self.path).originals.exists()

    @rule(policy=_POLICY, numbers=_KILLS)
    @precondition(lambda self: not self.rest)
    def is_killed_in_a_run(self, policy: str, numbers: list[int]) -> None:
        """A run that has something to do, and maybe the one that is to finish it."""
        self.works_much()
        self._killed(lambda: compress_session(self.path, POLICIES[policy]), numbers)
        verify_session(self.path)

    @rule(numbers=_KILLS)
    def is_killed_in_a_restore(self, numbers: list[int]) -> None:
        """A restore that has something to do, and maybe the one that is to finish it."""
        compress_session(self.path, GREEDY)
        if self.is_kept():
            self._killed(lambda: restore_session(self.path), numbers)
            verify_session(self.path)

    @rule(numbers=_KILLS)
    @precondition(lambda self: self.is_kept())
    def is_killed_while_it_forgets(self, numbers: list[int]) -> None:
        """Of a session that needs nothing beside it. Where only the journal is left, forgetting again ends it."""
        self.restore()
        self._killed(lambda: forget_session(self.path), numbers)
        if not store_in(self.path).originals.exists():
            forget_session(self.path)
        verify_session(self.path)

    @invariant()
    def every_line_can_be_had(self) -> None:
        """Restoring a copy of all that lies there gives what no one ever compressed."""
        now = snapshot(self.path) if self.original else {}
        if now != self.checked:
            with self.copied() as path:
                restore_session(path)
                assert path.read_bytes() == self.original
            self.checked = now

    def is_kept(self) -> bool:
        """Say whether originals lie beside it, so that there is something to restore."""
        return store_in(self.path).journal.exists()

    def _lived(self) -> None:
        assert left_over(self.path.parent) == []

    def _killed(self, act: Callable[[], object], numbers: Sequence[int]) -> None:
        """Do something in children, each killed before one of its calls, unless it makes fewer: then it must end well."""
        lines = len(split(self.path.read_bytes()))
        for number in numbers:
            old = self.path.read_bytes()
            ended = in_a_child(partial(_until, number, act))
            assert ended in (0, signal.SIGKILL)
            if ended == 0:
                self._lived()
            assert self.path.read_bytes() == old or len(split(self.path.read_bytes())) == lines


def _until(number: int, act: Callable[[], object]) -> None:
    """Do something in this child; whatever it raises must be seen by its parent."""
    status = 1
    try:
        with watched(kill_at(number)):
            act()
        status = 0
    finally:
        os._exit(status)


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=effort(settings().max_examples // 4, 120, 2000), stateful_step_count=effort(12, 30, 30)
)
