"""What only this user can write on this machine."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from sessioncompress.errors import Refused
from sessioncompress.store.machine import folder_name, is_signed, make_key, signature
from tests.attacks.test_stores_of_branches import user_of
from tests.support.repository import Repository

BEFORE, BODY, REST = b"a record\n", b'{"type":"run"', b',"sha256":"%s"}\n' % (b"0" * 64)


def signed(body: bytes = BODY) -> bytes:
    """Return a record that this user signed."""
    return body + signature(sha256(BEFORE), body) + REST


CASES = [
    ("as it was written", BEFORE, signed, True),
    ("without a signature", BEFORE, lambda: BODY + REST, False),
    ("with an empty one", BEFORE, lambda: BODY + b',"signed":""' + REST, False),
    ("behind other records", b"another\n", signed, False),
    ("of another record", BEFORE, lambda: signed().replace(b"run", b"ran"), False),
    ("with another field behind it", BEFORE, lambda: signed().replace(REST, b',"type":"run"' + REST), False),
    ("with more behind the seal", BEFORE, lambda: signed().replace(b"}\n", b',"type":"run"}\n'), False),
    ("with part of it", BEFORE, lambda: signed().replace(REST, b"")[:-2] + b'"' + REST, False),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_signature(case: tuple[str, bytes, object, bool]) -> None:
    """It is of a record and of all before it."""
    _, before, record, expected = case
    assert callable(record)
    assert is_signed(sha256(before), record()) is expected


def test_another_key_signs_otherwise(tmp_path: Path) -> None:
    """And without one nothing is signed."""
    record = signed()
    with user_of(tmp_path):
        nobodys = signature(sha256(BEFORE), BODY)
        assert not is_signed(sha256(BEFORE), record)
        assert not is_signed(sha256(BEFORE), BODY + nobodys + REST)
        make_key()
        assert len(signature(sha256(BEFORE), BODY)) == len(nobodys)
        assert not is_signed(sha256(BEFORE), record)
        assert not is_signed(sha256(BEFORE), BODY + nobodys + REST)


@pytest.mark.parametrize("form", ["sha1", "sha256"])
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_key_that_git_has_counts_for_nothing(tmp_path: Path, form: str, mode: int) -> None:
    """A home may be a work tree, and a branch may track what git ignores there: then a checkout replaces the key."""
    home, key = Repository(tmp_path, {"GIT_DEFAULT_HASH": form}), tmp_path / "sessioncompress" / "late-links.key"
    with user_of(tmp_path):
        make_key()
        name = folder_name()
    with user_of(tmp_path):
        assert folder_name() == name
    home.git("add", "--force", str(key))
    key.chmod(mode)
    with user_of(tmp_path):
        assert folder_name() == ""
        with pytest.raises(Refused, match="git has this key"):
            make_key()
    key.unlink()
    with user_of(tmp_path):
        make_key()
        assert folder_name() not in ("", name)
