"""Many files: whatever becomes of one, the others have their turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessioncompress.archive import each, worst
from sessioncompress.discover import Found

FILES = [Found(Path(name), named=True) for name in ("a.jsonl", "b.jsonl", "c.jsonl")]


@pytest.mark.parametrize(
    "error", [ValueError("a secret"), RecursionError(), MemoryError(), KeyError("a secret"), AssertionError()], ids=repr
)
def test_an_error_of_ours_is_one_failed_file(error: Exception) -> None:
    """Exit code 3, and a line to report that holds nothing of the session."""

    def work(found: Found) -> str:
        if found.path.name == "b.jsonl":
            raise error
        return found.path.stem

    done = list(each(FILES, work))
    assert [outcome.result for outcome in done] == ["a", None, "c"]
    assert worst(outcome.exit_code for outcome in done) == 3
    said = str(done[1].error)
    assert said.startswith("b.jsonl: an error in sessioncompress ")
    assert f"({type(error).__name__} at test_archive.py:" in said
    assert "Please report this line, without the session." in said
    assert "secret" not in said


def test_an_error_of_the_system_is_named_as_one() -> None:
    """It is nothing to report."""

    def work(found: Found) -> str:
        return found.path.read_text()

    assert "b.jsonl: no such file or directory. " in str(list(each(FILES, work))[1].error)


def test_what_ends_it_all() -> None:
    """An interrupt is no failure of one file."""

    def work(found: Found) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(each(FILES, work))
