"""Originals beside a journal that is not theirs are never cut to its length: no line in a cut frame could be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.errors import Damaged
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.store.layout import store_in
from sessioncompress.store.originals import zstd
from tests.faults.scenes import SIZES, built
from tests.support.runs import append, compress, write
from tests.unit.store.tools import everything

_SEAL = re.compile(rb',"(originalsSha256|sha256)":"[0-9a-f]{64}"(?=[,}]|}\n)')


def newer_originals(folder: Path) -> tuple[Path, bytes, bytes]:
    """Compress a session twice from its original; return it, the first journal, and the second, which goes with it.

    Both begin with the same original, as it is where two sides of a merge, or a backup and the present, differ.
    """
    path = write(folder, built(SIZES[0], 1))
    compress(path)
    older = store_in(path).journal.read_bytes()
    restore_session(path)
    forget_session(path)
    append(path, built(SIZES[0], 2))
    compress(path)
    return path, older, store_in(path).journal.read_bytes()


def without_seals(journal: bytes) -> bytes:
    """Return a journal of which somebody took the seals out."""
    return b"".join(
        _SEAL.sub(b"", line) if b'"type":"run"' in line else line for line in journal.splitlines(keepends=True)
    )


@pytest.mark.parametrize("act", [compress, restore_session, verify_session], ids=lambda act: act.__name__)
@pytest.mark.parametrize("form", [bytes, without_seals], ids=["sealed", "without seals"])
def test_an_older_journal(tmp_path: Path, act: Callable[[Path], object], form: Callable[[bytes], bytes]) -> None:
    """It is damage, nothing is touched, and with the right journal back every byte is."""
    path, older, right = newer_originals(tmp_path)
    store_in(path).journal.write_bytes(form(older))
    before = everything(tmp_path)
    with pytest.raises(Damaged, match=r"it is not the journal of|two sides stand together"):
        act(path)
    assert everything(tmp_path) == before
    store_in(path).journal.write_bytes(right)
    restore_session(path)
    assert path.read_bytes() == built(SIZES[0], 2).bytes()


@pytest.mark.parametrize(
    "torn", [b"\x28", zstd.compress(b"torn")[:-2], bytes(5000)], ids=["one byte", "a frame", "zeros"]
)
def test_what_a_crash_left_is_cut(tmp_path: Path, torn: bytes) -> None:
    """A frame that was not finished, or never reached the disk."""
    path = write(tmp_path, built(SIZES[0], 1))
    compress(path)
    files = store_in(path)
    right = files.originals.read_bytes()
    files.originals.write_bytes(right + torn)
    restore_session(path)
    assert files.originals.read_bytes() == right
    assert path.read_bytes() == built(SIZES[0], 1).bytes()
