"""What is ours: by digest, kind and call alone."""

from __future__ import annotations

import pytest

from sessioncompress.compressors.base import Ours
from sessioncompress.core.model import Kind, Origin, OurKey
from tests.support.runs import Held

KEY: OurKey = (b"d" * 16, Kind.RESULT, "c1")
ORIGIN = Origin("7f3a91c2e05b", "7f3a91c2e05b0123", ("a",), 9, 1)


@pytest.mark.parametrize("other", [(b"e" * 16, Kind.RESULT, "c1"), (KEY[0], Kind.IMAGE, "c1"), (*KEY[:2], "c2")])
def test_only_the_same_is_ours(other: OurKey) -> None:
    """Whether the journal knows it or the run under way has made it."""
    ours = Ours((Held({KEY: ORIGIN}),))
    ours.add((b"n" * 16, Kind.ARGUMENT, ""))
    assert KEY in ours
    assert (b"n" * 16, Kind.ARGUMENT, "") in ours
    assert other not in ours
    assert ours.origin(KEY) == ORIGIN
    assert ours.origin(other) is None
