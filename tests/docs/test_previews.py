"""The page on previews: what it shows is what a run makes, and its numbers are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import sessioncompress
from sessioncompress import Policy
from sessioncompress.compressors import base, preview
from sessioncompress.core.marker import INDEX, PREFIX
from sessioncompress.policy.model import PRESETS
from tests.docs.pages import Place, blocks, code, page, section
from tests.docs.test_readme import texts
from tests.support.runs import fixture

PAGE = "docs/explanation/previews.md"
REPLACEMENTS = "docs/reference/replacements.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the texts of the fixture that the page quotes, as a run leaves them."""
    path = tmp_path_factory.mktemp("previews") / "session.jsonl"
    path.write_bytes(fixture("claude-tools.jsonl"))
    sessioncompress.compress_session(path, Policy(size_threshold_kb=0, min_saved_kb=0))
    return texts(path.read_bytes())


def test_the_previews_are_what_a_run_makes(made: str) -> None:
    """To the letter, and no result twice."""
    shown = [each.strip("\n") for each in blocks(section(PAGE, "Five previews"), "text")]
    assert len(shown) == len(set(shown)) == 5
    for each in shown:
        assert PREFIX in each
        assert f"\n{each}\n" in f"\n{made}\n", each


def test_the_index_of_the_reference_is_one_of_a_run(made: str) -> None:
    (index,) = blocks(section(REPLACEMENTS, "The index"), "text")
    assert index.startswith(INDEX)
    assert f"\n{index}" in made


def test_the_command_of_the_page_compresses(tmp_path: Path) -> None:
    """What a reader types makes the same session."""
    place = Place(tmp_path)
    (given,) = code(section(PAGE, "Five previews"))
    for line in given.lines:
        assert place.run(line).returncode == 0, line
    assert INDEX in (place.work / "session.jsonl").read_text()


NUMBERS = (
    (preview._BUDGET, "in 320 bytes", 320),
    (preview.LEAST_GAIN, "less than 512 bytes could be removed", 512),
    (base.REPORT, "everything up to 4 KB", 4 << 10),
    (base._MOST_REPORTS, "the newest 20 on", 20),
)
"""Numbers of the code, the words of the page that tell them, and what these words say."""


@pytest.mark.parametrize(("number", "words", "said"), NUMBERS, ids=[words for _, words, _ in NUMBERS])
def test_the_numbers_are_those_of_the_code(number: float, words: str, said: float) -> None:
    """So that who changes one looks at the page."""
    assert number == said
    assert words in " ".join(page(PAGE).split())


def test_archive_has_no_previews() -> None:
    """As the configuration says of it, and of no other preset."""
    assert [name for name, preset in PRESETS.items() if not preset.has_previews] == ["archive"]
    assert "It leaves no previews" in section("docs/reference/configuration.md", "Presets")
