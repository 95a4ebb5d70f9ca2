"""A stranger's store gives an original under a reference of ours: what is printed has the digest that it begins."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from sessioncompress import show, verify_session
from sessioncompress.errors import Damaged, SessionCompressError
from tests.support.forged import (
    FIXTURE,
    REFERENCE,
    Records,
    compressed,
    forged,
    of_first_stores,
    other_digests,
    other_names,
    own_names,
)


@pytest.mark.parametrize("forge", [other_names, other_digests, of_first_stores, own_names])
def test_no_command_takes_it_for_the_original(tmp_path: Path, forge: Callable[[Records, Records], None]) -> None:
    path = forged(tmp_path, forge)
    with pytest.raises(Damaged):
        verify_session(path)
    for ref in {match.decode() for match in REFERENCE.findall(path.read_bytes())}:
        try:
            found = show(ref, path)
        except SessionCompressError:
            continue
        assert all(sha256(each.content).hexdigest().startswith(ref) for each in found)


def test_an_original_is_found_under_the_digits_of_its_sha_256(tmp_path: Path) -> None:
    path = compressed(tmp_path / "ours", FIXTURE.read_bytes())
    named = {match.decode() for match in REFERENCE.findall(path.read_bytes())}
    assert named
    for ref in named:
        (found,) = show(ref, path)
        assert sha256(found.content).hexdigest().startswith(ref)
