"""The errors made on purpose, which CI makes last of all: each can still be made."""

from __future__ import annotations

from pathlib import Path

import pytest

import sessioncompress
from tests.mutants.table import MUTANTS, Mutant

PACKAGE = Path(sessioncompress.__file__).parent


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_an_error_changes_stands_once(mutant: Mutant) -> None:
    """Whoever changes that line is to know at once, and not an hour later."""
    assert (PACKAGE / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
