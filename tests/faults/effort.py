"""How much the fault tests do: on any machine enough to notice an error, in CI all that is claimed, at length far more."""

from __future__ import annotations

import os
from typing import Final, TypeVar

LONG: Final = os.environ.get("SESSIONCOMPRESS_TESTS") == "long"
"""Asked for by its user: takes an hour or more."""

IN_CI: Final = LONG or os.environ.get("CI") == "true"

Amount = TypeVar("Amount")


def effort(usual: Amount, ci: Amount, long: Amount) -> Amount:
    """Return the amount that is asked for: usually, in CI, at length."""
    if LONG:
        return long
    return ci if IN_CI else usual
