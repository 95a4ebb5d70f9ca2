"""The sessions that the resume tests run on: the fixtures, and real ones where they lie beside the repository."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress import PRESETS, Policy, Status, compress_session
from sessioncompress.operations.history import session_runs
from sessioncompress.policy.model import Placeholder, Prune

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
CORPUS = ROOT.parent / "shared" / "corpus"

NO_THRESHOLDS = Policy(size_threshold_kb=0, min_saved_kb=0)
"""The shipped defaults, for sessions of any size."""

LITTLE_PROTECTED = Policy(size_threshold_kb=0, min_saved_kb=0, protect_tokens=500, turn_threshold_before_compress=1)
"""Nearly everything is rewritten: what a resume bears here, it bears with any policy."""

ARCHIVE = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0)
"""The preset for sessions that nobody works in; they must go on all the same."""

PRUNED = replace(
    LITTLE_PROTECTED,
    prune=Prune(enabled=True, prune_minimum=0, prune_protect=0, protect_tools=(), preserve_recent_messages=0),
)
"""Every result that is not protected is cleared whole."""

PRUNED_NATIVE = replace(PRUNED, prune=replace(PRUNED.prune, placeholder=Placeholder.NATIVE))
"""The same in the agent's own words."""


def of_corpus(part: str) -> Path:
    """Return the one real session whose name holds this; skips where there are none."""
    if not CORPUS.is_dir():
        pytest.skip("there are no real sessions beside the repository")
    return next(CORPUS.glob(f"*/*{part}*.json*"))


WAYS = {"default": NO_THRESHOLDS, "little": LITTLE_PROTECTED, "archive": ARCHIVE, "pruned": PRUNED}
"""By these names, and `grown`, tests list how a session is rewritten: the original is resumed once for all of them."""


def rewritten(session: Path, way: str) -> Path:
    return grown(session, LITTLE_PROTECTED) if way == "grown" else compressed(session, WAYS[way], way)


def compressed(session: Path, policy: Policy, place: str = "compressed") -> Path:
    """Compress a copy of a session in a folder of its own; it must become smaller."""
    folder = session.parent / place
    folder.mkdir()
    copy = Path(shutil.copyfile(session, folder / session.name))
    stats = compress_session(copy, policy)
    assert stats.status is Status.COMPRESSED, stats.reason
    assert copy.stat().st_size < session.stat().st_size
    return copy


def grown(session: Path, policy: Policy) -> Path:
    """Compress a copy of a session as it grows, a tenth at a time behind its first half; return what comes of that."""
    folder = session.parent / "grown"
    folder.mkdir()
    copy = folder / session.name
    lines = session.read_bytes().splitlines(keepends=True)
    step = -(-len(lines) // 10)
    copy.write_bytes(b"".join(lines[: 5 * step]))
    for start in range(5 * step, len(lines) + step, step):
        compress_session(copy, policy, force=True)
        with copy.open("ab") as file:
            file.write(b"".join(lines[start : start + step]))
    assert len(session_runs(copy)) > 1
    assert copy.stat().st_size < session.stat().st_size
    return copy
