"""How a hostile session is made and lived through: two policies, a second run, the agent that goes on, a restore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import cycle, product
from pathlib import Path

import pytest

from sessioncompress.operations.compress import compress_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_in
from tests.faults.checks import (
    Played,
    check_beside,
    check_lines,
    check_markers,
    check_protected,
    check_rest,
    check_restored,
)
from tests.faults.effort import IN_CI
from tests.support import texts
from tests.support.build import (
    GeminiSession,
    OmpAnthropicSession,
    OmpGeminiSession,
    OmpSession,
    OpenClawSession,
    PiSession,
    ResponsesSession,
    dice,
)
from tests.support.runs import EAGER, GREEDY, MTIME, disk, split, turn, write

KINDS: Sequence[type[PiSession]] = (
    PiSession,
    ResponsesSession,
    GeminiSession,
    OpenClawSession,
    OmpSession,
    OmpGeminiSession,
    OmpAnthropicSession,
)
_LONG = texts.python_source(dice("hostile"), 30)
POLICIES = {"eager": EAGER, "greedy": GREEDY}


def asks_no_more(played: Played) -> None:
    """Ask for nothing but what every session asks for."""


@dataclass(frozen=True, slots=True)
class Case:
    """One hostile session, in which a run finds work: what it shows, how it is made, what it asks for itself."""

    name: str
    make: Callable[[], PiSession]
    asks: Callable[[Played], None] = asks_no_more


def cases(table: Sequence[Case]) -> pytest.MarkDecorator:
    """Run a test on every case of a table, by its name: in CI with every policy, elsewhere with one in turn."""
    assert len({case.name for case in table}) == len(table)
    pairs = list(product(table, POLICIES) if IN_CI else zip(table, cycle(POLICIES), strict=False))
    played = [pytest.param(case, POLICIES[policy], id=f"{case.name}-{policy}") for case, policy in pairs]
    return pytest.mark.parametrize(("case", "policy"), played)


by_every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def bulk(made: PiSession, name: str) -> PiSession:
    """Add a command whose output is worth replacing."""
    made.step("bash", {"command": f"cat {name}.log"}, _log(name))
    return made


@cache
def _log(name: str) -> str:
    return texts.log_lines(dice(name), 60)


def work_much(made: PiSession) -> None:
    """Add a file that is written and edited: long texts in arguments, at any depth."""
    arguments = {"path": "a.py", "content": _LONG, "deep": {"list": [_LONG + "2", 7, None]}, "executable": True}
    made.step("write", arguments, "ok")
    made.step("edit", {"path": "a.py", "edits": [{"oldText": _LONG, "newText": _LONG + "3"}] * 2}, "ok")


def around(hostile: Callable[[PiSession], object], kind: type[PiSession] = PiSession) -> PiSession:
    """Return a session with something hostile in the middle of old work, and recent work that could be replaced too."""
    made = kind().opening()
    made.user("Look at the logs.")
    bulk(made, "first")
    hostile(made)
    bulk(made, "last")
    turn(made).user("And the newest one?")
    bulk(made, "recent").assistant("It is the same.")
    return made


def respelled(made: PiSession, spell: Callable[[bytes], bytes]) -> PiSession:
    """Return the session with every line in another spelling."""
    for line in [made.take_last() for _ in range(made.count)][::-1]:
        made.raw(spell(line))
    return made


def play(case: Case, policy: Policy, folder: Path) -> None:
    """Run over a hostile session as its agent would live with it, and check at each step what every run promises."""
    made = case.make()
    path = write(folder, made)
    before = path.read_bytes()
    stats = compress_session(path, policy)
    played = Played(path, policy, before, path.read_bytes(), stats)
    assert stats.status is Status.COMPRESSED, stats.reason
    check_lines(played)
    check_protected(played)
    check_markers(played)
    check_beside(path, len(before))
    case.asks(played)
    check_rest(path, policy, played.after)
    check_restored(path, policy, before)
    assert path.stat().st_mtime_ns == MTIME
    _goes_on(made, path, policy)


def _goes_on(made: PiSession, path: Path, policy: Policy) -> None:
    """The session is compressed again, the agent appends, more becomes old: it is as exact as at the first run."""
    compress_session(path, policy, force=True)
    count = made.count
    if not made.bytes().endswith(b"\n"):
        made.raw(b"\n")
    turn(bulk(made, "later"), 2)
    with path.open("ab") as file:
        file.write(b"".join(made.lines()[count:]))
    size = disk(path)
    compress_session(path, policy, force=True)
    check_rest(path, policy, path.read_bytes())
    check_beside(path, size)
    known = {sha256(line).hexdigest() for line in split(made.bytes())}
    found = journals.load(store_in(path).journal)
    assert {found.original_of(row).hex() for row in range(found.counts[0])} <= known
    check_restored(path, policy, made.bytes())
