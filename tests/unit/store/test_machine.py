"""What only this user can write on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from sessioncompress.store.machine import folder_name, is_signed, make_key, signature
from tests.support.repository import Repository
from tests.support.stores import user_of

BEFORE, BODY, REST = b"a record\n", b'{"type":"run"', b',"sha256":"%s"}\n' % (b"0" * 64)


def signed(body: bytes = BODY) -> bytes:
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


def _checked_out(folder: Path) -> None:
    home, key = Repository(folder.parent), folder / "late-links.key"
    home.git("add", "--force", key)
    home.commit()
    key.unlink()
    home.git("checkout", "--", key)


def _committed(folder: Path) -> None:
    home = Repository(folder.parent)
    (folder / ".gitignore").write_bytes(b"!*\n")
    home.commit()
    assert "sessioncompress/late-links.key" in home.tracked()


def _longer(folder: Path) -> None:
    key = folder / "late-links.key"
    content = key.read_bytes()
    key.unlink()
    key.write_bytes(content + b"\n")
    key.chmod(0o400)


def _linked(folder: Path) -> None:
    there = folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(there)


@pytest.mark.parametrize(
    "brings", [_checked_out, _committed, _longer, _linked], ids=["checkout", "committed", "longer", "link"]
)
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_key_that_others_may_have_brought_counts_for_nothing(
    tmp_path: Path, brings: Callable[[Path], None], umask: int
) -> None:
    """A home may be a work tree, and a branch may track what git ignores there: then a checkout replaces the key."""
    before, folder = os.umask(umask), tmp_path / "sessioncompress"
    try:
        with user_of(tmp_path):
            make_key()
            name = folder_name()
        with user_of(tmp_path):
            assert folder_name() == name
        brings(folder)
        elsewhere = sorted((tmp_path / "elsewhere").glob("*"))
        with user_of(tmp_path):
            assert folder_name() == ""
            make_key()
            new = folder_name()
            assert new not in ("", name)
    finally:
        os.umask(before)
    assert sorted((tmp_path / "elsewhere").glob("*")) == elsewhere
    with user_of(tmp_path):
        assert folder_name() == ("" if brings is _linked else new)


def test_git_is_kept_from_the_key(tmp_path: Path) -> None:
    """Whatever a branch has brought in the place of our .gitignore."""
    with user_of(tmp_path):
        make_key()
    ignore = tmp_path / "sessioncompress/.gitignore"
    ignore.write_bytes(b"!*\n")
    with user_of(tmp_path):
        assert folder_name()
    assert ignore.read_bytes() == b"*\n"
