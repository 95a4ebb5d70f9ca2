"""The errors made on purpose, which CI makes last of all: each can still be made."""

from __future__ import annotations

from pathlib import Path

import pytest

import sessioncompress
from tests.mutants.table import MUTANTS, Mutant

PACKAGE = Path(sessioncompress.__file__).parent


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_an_error_can_be_made(mutant: Mutant) -> None:
    """Whoever changes that line is to know at once, and not an hour later."""
    text = (PACKAGE / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    # What does not compile is noticed by no test of the promise.
    compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
