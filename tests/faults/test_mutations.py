"""Nothing lost at bad bytes: lines of every kind, mutated byte by byte, come back as they were, whatever they are by then."""

from __future__ import annotations

import random
from pathlib import Path

import orjson
import pytest

from sessioncompress.errors import NotASession
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.pipeline.stats import Status
from tests.faults.effort import effort
from tests.faults.scenes import NAME
from tests.support.mutations import mutated
from tests.support.runs import EAGER, FIXTURES, GREEDY, runs_again, snapshot, split

_FIXTURES = sorted(path for path in FIXTURES.glob("*.jsonl") if not path.name.startswith("look-alike"))
_SESSIONS = effort(200, 200, 10_000)
_LINES = 100


def made(dice: random.Random, lines: list[bytes], share: float) -> bytes:
    """Return a session of so many lines in their order, some of them mutated."""
    start = dice.randrange(max(1, len(lines) - _LINES))
    chosen = [lines[0], *lines[max(1, start) : start + _LINES]]
    chosen += [dice.choice(lines) for _ in range(_LINES - len(chosen))]
    return b"".join(
        mutated(dice, line) if number and dice.random() < share else line for number, line in enumerate(chosen)
    )


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("share", [0.02, 1.0], ids=["few lines", "all lines"])
@pytest.mark.parametrize("part", range(4))
def test_mutated_lines_come_back(tmp_path: Path, part: int, share: float) -> None:
    """Compressed twice and restored it is the same; what changed is valid; what is not understood was copied."""
    rewritten = 0
    for number in range(_SESSIONS // 4):
        dice = random.Random(f"{part} {share} {number}")
        lines = split(dice.choice(_FIXTURES).read_bytes())
        data = made(dice, lines, share)
        path = tmp_path / f"{number}" / NAME
        path.parent.mkdir()
        path.write_bytes(data)
        policy = dice.choice((EAGER, GREEDY))
        try:
            stats = compress_session(path, policy)
        except NotASession:
            assert path.read_bytes() == data
            continue
        rewritten += stats.status is Status.COMPRESSED
        before = snapshot(path)
        assert runs_again(path, policy).status is Status.UNCHANGED
        assert snapshot(path) == before
        for old, new in zip(split(data), split(path.read_bytes()), strict=True):
            assert new == old or (_is_json(old) and _is_json(new) and len(new) < len(old))
        restore_session(path)
        assert path.read_bytes() == data
    assert rewritten > _SESSIONS // 16
