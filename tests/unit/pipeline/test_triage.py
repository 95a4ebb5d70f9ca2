"""Nothing is due until a session has grown, and every command that looks says the same of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from sessioncompress.core.text import KB
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.overview import measure
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.sessions import Session, budget_session, inspect_session, listed
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import BALANCED, Budget, Policy, Rule
from sessioncompress.store.layout import store_in
from tests.support import texts
from tests.support.build import PiSession, dice
from tests.support.long import FEW
from tests.support.runs import FIXTURES, MTIME, append, compress, write

POLICY = replace(BALANCED, size_threshold_kb=0, turn_threshold_before_compress=1)


class Life(NamedTuple):
    """A session that was compressed, and is grown."""

    made: PiSession
    path: Path
    run: str

    def works(self) -> None:
        """Add a turn that leaves a run something to take, and end it."""
        self.made.user("Look again.")
        self.made.step("read", {"path": "again.py"}, texts.python_source(dice("again"), 200))
        append(self.path, self.made)
        self.adds(2 * KB)
        self.adds(2 * KB)

    def adds(self, size: int, text: str = "") -> None:
        """Add a turn that takes about so many bytes, with room for its frame."""
        self.made.user(f"{text}{'x ' * (size // 2 - 400)}")
        self.made.assistant("Done.")
        append(self.path, self.made)

    def says(self, policy: Policy = POLICY, *, force: bool = False) -> str:
        """Why nothing is due; empty where something may be."""
        status, reason = triage.status_unopened(self.path, policy, force=force) or ("", "")
        assert status in ("", Status.UNCHANGED)
        return reason


@pytest.fixture
def life(tmp_path: Path) -> Life:
    made = PiSession()
    for number in range(12):
        made.user(f"Part {number}.")
        made.step("read", {"path": f"{number}.py"}, texts.python_source(dice("growth", number), 200))
    made.user("And now?")
    made.assistant("Done.")
    path = write(tmp_path, made)
    return Life(made, path, compress(path, POLICY).run)


def _nothing(life: Life) -> Policy:
    del life
    return POLICY


def _little(life: Life) -> Policy:
    life.adds(62 * KB)
    return POLICY


def _a_quote(life: Life) -> Policy:
    life.adds(4 * KB, 'It says {"type":"compaction"} there.')
    return POLICY


def _touched(life: Life) -> Policy:
    os.utime(life.path, ns=(MTIME + 1, MTIME + 1))
    return POLICY


def _large(life: Life) -> Policy:
    life.adds(1024 * KB)
    life.works()
    compress(life.path, POLICY, force=True)
    life.adds(80 * KB)
    return POLICY


def _large_in_commits(life: Life) -> Policy:
    policy = replace(POLICY, commit_originals="history")
    life.adds(512 * KB)
    life.works()
    compress(life.path, policy, force=True)
    life.adds(200 * KB)
    return policy


def _few_turns(life: Life) -> Policy:
    policy = replace(POLICY, every_turns=3)
    life.works()
    compress(life.path, policy, force=True)
    life.adds(4 * KB)
    return policy


LEFT_ALONE: dict[str, Callable[[Life], Policy]] = {
    "nothing new": _nothing,
    "under 64 KB": _little,
    "under a tenth": _large,
    "under half, where commits keep the originals": _large_in_commits,
    "a compaction in what a user says": _a_quote,
    "another time": _touched,
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_grew_little_is_left_alone(life: Life, name: str) -> None:
    """It is told from the end of the journal, and of what came only compactions are looked for."""
    policy = LEFT_ALONE[name](life)
    before = life.path.read_bytes()
    assert life.says(policy).startswith("already compressed, ")
    stats = compress_session(life.path, policy)
    assert (stats.status, stats.reason) == (Status.UNCHANGED, life.says(policy))
    assert life.path.read_bytes() == before


def _grown(life: Life) -> Policy:
    life.adds(66 * KB)
    return POLICY


def _large_and_grown(life: Life) -> Policy:
    _large(life)
    life.adds(50 * KB)
    return POLICY


def _shorter(life: Life) -> Policy:
    life.path.write_bytes(b"".join(life.path.read_bytes().splitlines(keepends=True)[:-2]))
    return POLICY


def _by_another_policy(life: Life) -> Policy:
    life.adds(4 * KB)
    return replace(POLICY, turn_threshold_before_compress=2)


def _by_another_rule(life: Life) -> Policy:
    """By any other rule than that of the size, the rule says when."""
    policy = replace(POLICY, budget=Budget(rule=Rule.OMP))
    life.works()
    compress(life.path, policy, force=True)
    life.adds(4 * KB)
    return policy


def _compacted(life: Life) -> Policy:
    with life.path.open("ab") as file:
        file.write(b'{"type":"compaction","id":"c0ffee00","parentId":"x","summary":"All.","firstKeptEntryId":"x"}\n')
    return POLICY


def _compacted_by_us(life: Life) -> Policy:
    life.adds(8 * KB)
    assert compact_session(life.path, FEW).status is Status.COMPACTED
    return POLICY


def _restored(life: Life) -> Policy:
    assert restore_session(life.path, POLICY).status is Status.RESTORED
    return POLICY


def _taken_back(life: Life) -> Policy:
    assert restore_session(life.path, POLICY, run=life.run).status is Status.RESTORED
    return POLICY


def _without_originals(life: Life) -> Policy:
    store_in(life.path).originals.unlink()
    return POLICY


def _enough_turns(life: Life) -> Policy:
    policy = _few_turns(life)
    life.adds(4 * KB)
    life.adds(4 * KB)
    return policy


DUE: dict[str, Callable[[Life], Policy]] = {
    "64 KB": _grown,
    "a tenth of what is larger": _large_and_grown,
    "it became shorter": _shorter,
    "another policy": _by_another_policy,
    "another rule": _by_another_rule,
    "its agent compacted it": _compacted,
    "we compacted it": _compacted_by_us,
    "it was restored": _restored,
    "a run was taken back": _taken_back,
    "its originals are gone": _without_originals,
    "as many turns as the policy says": _enough_turns,
}


@pytest.mark.parametrize("name", DUE)
def test_what_is_due(life: Life, name: str) -> None:
    assert not life.says(DUE[name](life))


def test_force_makes_a_run_due(life: Life) -> None:
    _little(life)
    assert life.says()
    assert not life.says(force=True)
    assert compress_session(life.path, POLICY, force=True).reason != life.says()


def _by_dry_run(life: Life) -> str:
    return compress_session(life.path, POLICY, dry_run=True).reason


def _by_list(life: Life) -> str:
    found = listed(Session(life.path, named=False, agent="pi", size=life.path.stat().st_size), POLICY, counts=True)
    assert found.could_save == 0
    return found.reason


def _by_budget(life: Life) -> str:
    stats = budget_session(life.path, POLICY)
    assert stats.decision == "none"
    return stats.reason


def _by_stats(life: Life) -> str:
    return inspect_session(life.path, POLICY).would.reason


def _by_report(life: Life) -> str:
    return "" if measure(life.path, POLICY).frees else life.says()


ASKING: dict[str, Callable[[Life], str]] = {
    "compress --check": _by_dry_run,
    "sessions": _by_list,
    "budget": _by_budget,
    "stats": _by_stats,
    "report": _by_report,
}


@pytest.mark.parametrize("name", ASKING)
def test_every_command_says_the_same(life: Life, name: str) -> None:
    """What one would leave alone, no other calls due."""
    _little(life)
    assert ASKING[name](life).startswith(life.says())
    life.adds(40 * KB)
    assert "new since" not in ASKING[name](life) if name != "budget" else True


@pytest.mark.parametrize(("size", "said"), [(0, "0 KB"), (98 * KB, "98 KB"), (100 * KB - 1, "99 KB"), (100 * KB, "")])
def test_what_is_under_the_threshold_reads_as_under_it(size: int, said: str) -> None:
    """Also where it would be rounded up to it."""
    assert triage.too_small(size, BALANCED, force=False) == (said and f"{said}, under the threshold of 100 KB")


ANYWAY: list[tuple[str, str, Status, bool, bool, bool]] = [
    ("found in a folder", "missing", Status.SKIPPED, False, True, False),
    ("compressed, and nothing is mended", "missing", Status.UNCHANGED, True, False, False),
    ("named, and a session", "pi-1x.jsonl", Status.SKIPPED, True, True, False),
    ("compressed, without offsets", "pi-1x.jsonl", Status.UNCHANGED, True, True, False),
    ("with offsets, and nothing is mended", "codex.jsonl", Status.SKIPPED, True, False, False),
    ("named, and no session", "make.py", Status.SKIPPED, True, False, True),
    ("named, with offsets", "codex.jsonl", Status.SKIPPED, True, True, True),
    ("compressed, with offsets", "codex.jsonl", Status.UNCHANGED, False, True, True),
]


@pytest.mark.parametrize(
    ("file", "status", "named", "mends", "expected"), [case[1:] for case in ANYWAY], ids=[case[0] for case in ANYWAY]
)
def test_what_is_not_due_is_opened_where_it_may_be_no_session_or_has_offsets(
    file: str, status: Status, named: bool, mends: bool, expected: bool
) -> None:
    """Of the others not even the first bytes are read where they cannot matter."""
    assert triage.opens_anyway(FIXTURES / file, status, named=named, mends=mends) is expected
