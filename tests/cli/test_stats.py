"""`stats` of a session."""

from __future__ import annotations

import re
from pathlib import Path

from sessioncompress.core.model import Kind
from tests.support.commands import FILE_FIELDS, SIZES, TOKENS, TOTAL_FIELDS, document, one, policy, put, run
from tests.support.runs import snapshot, survey_of


def test_stats(session: Path) -> None:
    """A head, a row for each kind and tool, what a run would come to, what lies beside; nothing is changed."""
    before = snapshot(session)
    result = run("stats", "session.jsonl")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "session.jsonl: pi, 338 KB, 98 lines, 9 turns, store 0 KB"
    assert lines[1].split("\t") == ["kind", "tool", "blocks", "size", "protected", "old", "compacted"]
    rows = [line.split("\t")[:2] for line in lines[2:-3]]
    assert ["result", "bash"] in rows
    assert ["argument", "write"] in rows
    assert ["thinking", "-"] in rows
    assert re.fullmatch(rf"after a run: {SIZES} -> {SIZES} \(\d+ % smaller; store {SIZES}\)", lines[-3])
    assert re.fullmatch(r"  replaced: .* results, .*", lines[-2])
    assert re.fullmatch(rf"  {TOKENS}; the next request would send [\d,]+ of them uncached", lines[-1])
    assert snapshot(session) == before


def test_stats_of_a_compressed_session(compressed: Path) -> None:
    """It says why a run would leave it, and how much lies beside."""
    lines = run("stats", compressed).stdout.splitlines()
    assert lines[-1].startswith("a run would leave it alone: ")
    assert re.fullmatch(r".*, store [1-9]\d* KB", lines[0])


def test_stats_as_json(session: Path) -> None:
    """Schema, fields, and the same figures as compress --dry-run."""
    done = document("stats", "session.jsonl")
    assert set(done) == {"schema", "files", "totals"}
    assert done["schema"] == "sessioncompress.stats/1"
    file = done["files"][0]
    assert set(done["totals"]) == {"size", "storeSize", "lines", "turns", "would"}
    assert set(done["totals"]["would"]) == TOTAL_FIELDS
    names = {"path", "format", "size", "storeSize", "lines", "turns", "summaryCount", "shares", "otherBytes", "would"}
    assert set(file) == names
    assert set(file["would"]) == FILE_FIELDS
    assert {frozenset(share) for share in file["shares"]} == {
        frozenset({"kind", "tool", "blocks", "protectedBytes", "oldBytes", "deadBytes"})
    }
    kinds = {block.kind for line in survey_of(session.read_bytes()).lines for block in line.blocks}
    assert {share["kind"] for share in file["shares"]} == {kind.value for kind in kinds}
    assert kinds >= {Kind.ARGUMENT, Kind.RESULT, Kind.THINKING, Kind.IMAGE, Kind.MIRROR}
    assert file["would"] == one("compress", "--dry-run", "session.jsonl")


def test_stats_shows_the_dead(here: Path) -> None:
    """What lies before a compaction has a column of its own."""
    put(here / "session.jsonl", "pi-compacted.jsonl")
    assert sum(share["deadBytes"] for share in one("stats", "session.jsonl")["shares"]) > 0


def test_stats_with_a_preset_and_a_policy(session: Path) -> None:
    """What would be saved is judged by them."""
    high = one("stats", "--preset", "high-quality", session)["would"]
    assert high["thinkingBlocksRemoved"] == 0
    assert (
        one("stats", "--config", policy(session.parent / "p.json", stripThinking=False), session)["would"][
            "thinkingBlocksRemoved"
        ]
        == 0
    )
