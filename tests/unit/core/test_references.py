"""References: at least twelve digits, unique in a session, the same for the same content."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from xxhash import xxh3_64_hexdigest

from sessioncompress.core.references import FEWEST_DIGITS, References, digest_of, digests_of, git_blob

CONTENT = b"some content"
DIGEST = sha256(CONTENT).hexdigest()[:20]
OLD = xxh3_64_hexdigest(CONTENT)


def test_a_reference_is_twelve_digits_of_the_hash() -> None:
    """Short enough to type, long enough to be unique."""
    assert References().refer(CONTENT) == DIGEST[:FEWEST_DIGITS]
    assert FEWEST_DIGITS == 12


def test_the_same_content_has_the_same_reference() -> None:
    """Also in a later run, which knows the earlier ones from the journal."""
    first = References()
    assert first.refer(CONTENT) == first.refer(CONTENT)
    assert References([(DIGEST[:12], DIGEST)]).refer(CONTENT) == DIGEST[:12]


def test_a_reference_stands_beside_its_digest() -> None:
    """All of it, also where another content has the same beginning."""
    assert References().named(CONTENT) == (DIGEST[:FEWEST_DIGITS], DIGEST)
    assert References([(DIGEST[:12], "f" * 20)]).named(CONTENT) == (DIGEST[:13], DIGEST)


def test_a_reference_of_the_first_stores_stays_beside_a_new_one() -> None:
    """The content has two then: a marker of each stands in the session."""
    assert References([(OLD[:12], OLD)]).refer(CONTENT) == DIGEST[:12]
    assert References([(DIGEST[:12], OLD)]).refer(CONTENT) == DIGEST[:13]
    assert digests_of(CONTENT) == (DIGEST, OLD)


@pytest.mark.parametrize("length", [13, 16, 19, 20])
def test_a_taken_prefix_makes_it_longer(length: int) -> None:
    """As long as another content of the session has the prefix."""
    taken = [(DIGEST[:digits], "f" * 20) for digits in range(12, length)]
    assert References(taken).refer(CONTENT) == DIGEST[:length]


def test_a_git_blob_is_what_git_says(tmp_path: Path) -> None:
    """`git cat-file -p ID` prints a file wherever it was committed."""
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    said = subprocess.run(["git", "hash-object", str(file)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert git_blob(CONTENT) == said.stdout.strip()


def test_the_identity_of_a_content_is_sha_256() -> None:
    """Of as many digits as nobody can find twice."""
    assert digest_of(b"").hex() == "e3b0c44298fc1c149afbf4c8996fb924"
