"""What only this user can write on this machine."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from sessioncompress.store.machine import is_signed, make_key, signature
from tests.attacks.test_stores_of_branches import user_of

BEFORE, BODY, REST = b"a record\n", b'{"type":"run"', b',"sha256":"00"}\n'


def signed(body: bytes = BODY) -> bytes:
    """Return a record that this user signed."""
    return body + signature(sha256(BEFORE), body) + REST


CASES = [
    ("as it was written", BEFORE, signed, True),
    ("without a signature", BEFORE, lambda: BODY + REST, False),
    ("with an empty one", BEFORE, lambda: BODY + b',"signed":""' + REST, False),
    ("behind other records", b"another\n", signed, False),
    ("of another record", BEFORE, lambda: signed().replace(b"run", b"ran"), False),
    ("with part of it", BEFORE, lambda: signed().replace(REST, b"")[:-2] + b'"' + REST, False),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_signature(case: tuple[str, bytes, object, bool]) -> None:
    """It is of a record and of all before it."""
    _, before, record, expected = case
    assert callable(record)
    assert is_signed(sha256(before), record()) is expected


def test_another_key_signs_otherwise(tmp_path: Path) -> None:
    """And none signs nothing."""
    record = signed()
    with user_of(tmp_path):
        assert signature(sha256(BEFORE), BODY) == b""
        assert not is_signed(sha256(BEFORE), record)
        make_key()
        assert signature(sha256(BEFORE), BODY) != b""
        assert not is_signed(sha256(BEFORE), record)
