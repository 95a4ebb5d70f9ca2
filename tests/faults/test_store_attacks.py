"""The store under attack: what rots, what was forged, what is made to be expanded, what quotes our own marker."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sessioncompress.audit import verify_session
from sessioncompress.errors import Damaged
from sessioncompress.restore import restore_session
from sessioncompress.store.beside import beside
from tests.faults.scenes import SCENES, SIZES, built
from tests.runs import append, compress, turn, write

_FLIPS = 100


@pytest.mark.parametrize("which", ["originals", "journal"])
def test_verify_finds_every_flipped_bit(tmp_path: Path, which: str) -> None:
    """Wherever it is: in a text, in a number, in what no other command looks at."""
    dice = random.Random(which)
    path = SCENES[1].prepare(tmp_path, SIZES[0])
    compress(path)
    file = getattr(beside(path), which)
    right = file.read_bytes()
    for position in (0, len(right) - 1, *(dice.randrange(len(right)) for _ in range(_FLIPS))):
        file.write_bytes(right[:position] + bytes([right[position] ^ 1 << dice.randrange(8)]) + right[position + 1 :])
        with pytest.raises(Damaged):
            verify_session(path)
    file.write_bytes(right)
    verify_session(path)


def test_a_flip_in_what_nobody_needs_stops_no_restore(tmp_path: Path) -> None:
    """Every line that goes back is compared with its own SHA-256; the rest of the journal is for other commands."""
    made = built(SIZES[0], 1)
    path = write(tmp_path, made)
    compress(path)
    journal = beside(path).journal
    journal.write_bytes(journal.read_bytes().replace(b'"tool":"bash"', b'"tool":"bush"', 1))
    with pytest.raises(Damaged, match="not the same any more"):
        verify_session(path)
    append(path, turn(made))
    restore_session(path)
    assert path.read_bytes() == made.bytes()
