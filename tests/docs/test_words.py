"""Docstrings and comments of the package are plain English: no phrase of German syntax comes back."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

import sessioncompress

PACKAGE = Path(sessioncompress.__file__).parent
PHRASES = tuple(
    map(
        re.compile,
        (
            r'"""(?:What|Who|Whoever|Where|How) [a-z]',
            r'"""(?:Whether|Tell whether|Say whether)',
            r"\b(?:None|empty|nothing|0) (?:where|without)\b",
            r"\b(?:somebody|nobody|whoever)\b",
            r"\b(?:that|those) of\b",
            r"\bas (?:it|they) (?:was|were|is|are)\b",
            r"\b(?:stands?|sa(?:y|ys|id)|goes?|comes?|behind|besides?|lies?)\b",
            r"\b(?:of ours|so many|hangs?|hung|rehung)\b",
        ),
    )
)


def prose(source: str) -> list[tuple[int, str]]:
    """Return the docstrings and comments of a module, each with its line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        (each.start[0], each.string)
        for each in tokens
        if each.type == tokenize.COMMENT or (each.type == tokenize.STRING and each.string.startswith('"""'))
    ]


@pytest.mark.parametrize("folder", sorted({path.parent for path in PACKAGE.rglob("*.py")}), ids=lambda each: each.name)
def test_no_phrase_of_german_syntax(folder: Path) -> None:
    found = [
        f"{path.name}:{line}: {match.group()!r} in {text[:80]!r}"
        for path in sorted(folder.glob("*.py"))
        for line, text in prose(path.read_text())
        for match in filter(None, (phrase.search(text) for phrase in PHRASES))
    ]
    assert not found, "\n".join(found)
