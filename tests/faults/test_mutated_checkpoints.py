"""Nothing lost where sessions with odd values are compacted: refused, or written and taken out again to the byte."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Damaged, Refused, SessionCompressError
from sessioncompress.operations.compact import CompactStats, compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import CompressionStats, Status
from sessioncompress.policy.model import Compact, CutRule, Policy
from sessioncompress.store.layout import store_in
from tests.faults.effort import effort
from tests.faults.mutating import mutated_session
from tests.support.long import LONG
from tests.support.runs import EAGER, FIXTURES, journal_of, snapshot

_SESSIONS = effort(60, 120, 4_000)
_SOURCES = {
    **{name: made(4) for name, made in LONG.items()},
    **{path.name: path.read_bytes() for path in sorted(FIXTURES.glob("*.json*")) if "look-alike" not in path.name},
}
_RULES = tuple(
    replace(rule, min_dead_tokens=200, min_saved_tokens=200)
    for rule in (
        *(Compact(keep_tokens=tokens) for tokens in (1, 300, 3_000)),
        *(Compact(keep=CutRule.SHARE, keep_share=0.4), Compact(keep=CutRule.TURNS, keep_turns=1)),
        *(Compact(keep=CutRule.MESSAGES, keep_messages=3), Compact(keep=CutRule.SINCE_PROMPT)),
    )
)
_ORDERS = (("compact",), ("compact", "compress"), ("compress", "compact"), ("compact", "compress") * 2)
_COMMANDS: dict[str, Callable[[Path, Policy], CompactStats | CompressionStats]] = {
    "compact": compact_session,
    "compress": compress_session,
}


@pytest.mark.parametrize("part", range(4))
def test_mutated_sessions_come_back(tmp_path: Path, part: int) -> None:
    """Compacted and compressed in either order, a session is refused, or holds: twice, in `show` and in `restore`."""
    ended: Counter[str] = Counter()
    for number in range(_SESSIONS):
        dice = random.Random(f"{part} {number}")
        data = mutated_session(dice, _SOURCES[dice.choice(sorted(_SOURCES))], dice.choice((0.02, 0.1, 0.3, 1.0)))
        path = tmp_path / str(number) / "session.jsonl"
        path.parent.mkdir()
        path.write_bytes(data)
        policy = replace(EAGER, compact=dice.choice(_RULES))
        for command in dice.choice(_ORDERS):
            ended[_run(command, path, policy)] += 1
        _show(path)
        if store_in(path).journal.exists():
            restore_session(path)
        assert path.read_bytes() == data, (part, number)
    assert ended["compacted"] > _SESSIONS // 4
    assert ended["refused"] > _SESSIONS // 20


def _run(command: str, path: Path, policy: Policy) -> str:
    """Run a command, again where it wrote; return how it ended."""
    before = snapshot(path)
    try:
        status = _COMMANDS[command](path, policy).status
    except Refused as error:
        said, state = (error.what, error.where, error.state, error.remedy), snapshot(path)
        assert all(said), said
        assert state == before
        return "refused"
    except Damaged as error:
        pytest.fail(str(error))
    if status in (Status.COMPACTED, Status.COMPRESSED):
        verify_session(path)
        before = snapshot(path)
        assert _COMMANDS[command](path, policy).status is Status.UNCHANGED
    assert snapshot(path) == before
    return status


def _show(path: Path) -> None:
    if not store_in(path).journal.exists():
        return
    for record in journal_of(path):
        for ref in record["refs"] if record["type"] == "checkpoint" else ():
            try:
                assert show(ref, path)
            except SessionCompressError as error:
                pytest.fail(f"{ref}: {error}")
