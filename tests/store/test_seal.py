"""The seal of a run: no flipped bit of it is missed, and what has none is of a version that wrote none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessioncompress.audit import verify_session
from sessioncompress.errors import Damaged
from sessioncompress.store.beside import beside
from tests.faults.scenes import SCENES, SIZES
from tests.runs import compress

_KEY = b',"sha256":"'


def test_a_flip_in_the_key_of_a_seal_is_found(tmp_path: Path) -> None:
    """The run then seems to have no seal, as one of version 0.1.0: but it counts its records, which that did not."""
    path = SCENES[1].prepare(tmp_path, SIZES[0])
    compress(path)
    journal = beside(path).journal
    right = journal.read_bytes()
    begins = right.rindex(_KEY)
    for position in range(begins, begins + len(_KEY)):
        for bit in range(8):
            flipped = bytes([right[position] ^ 1 << bit])
            journal.write_bytes(right[:position] + flipped + right[position + 1 :])
            with pytest.raises(Damaged):
                verify_session(path)
    journal.write_bytes(right)
    verify_session(path)
