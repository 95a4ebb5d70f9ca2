"""Earlier summaries: ours are merged by their sections, any other is quoted."""

from __future__ import annotations

import pytest

from sessioncompress.checkpoints import merge
from sessioncompress.checkpoints.shell import ShellResult
from sessioncompress.core.checkpoint import Say, Summary, Utterance
from tests.unit.checkpoints.said import answered, asked, called, digest, numbered, ran
from tests.unit.checkpoints.test_digest import section, story


def after(summary: Summary | str, *said: Utterance, budget: int = 3000, splits: bool = False) -> Summary:
    text = summary if isinstance(summary, str) else summary.text
    return digest(numbered([Utterance(Say.SUMMARY, text), *said]), budget=budget, splits=splits)


def first(*, splits: bool = False) -> Summary:
    return digest(numbered(story()), budget=3000, splits=splits)


def test_a_summary_of_ours_is_merged_by_its_sections() -> None:
    """Requests go on with their numbers, newer states of files and commands win, the todo list stays."""
    said = [asked("And the quay?"), *called("edit", {"path": "/w/harbour/src/queue.py", "new_string": "x"})]
    said += [*ran("pytest -q", "4 passed", failed=False), answered("The quay stands.")]
    summary = after(first(), *said)
    text = summary.text
    assert text.startswith("[Extracted by sessioncompress from 25 entries of this session, 3 of the user.")
    assert section(text, "The user's requests").endswith("2. > And the ferry?\n3. > And the quay?")
    assert section(text, "What the agent reported").endswith("2. > The ferry is fine.\n3. > The quay stands.")
    assert "- `sampler.py`: edited [" in section(text, "Files changed")
    assert "- `queue.py`: edited 2x, 3 lines [" in section(text, "Files changed")
    assert section(text, "Commands").split("\n") == [
        "- `make lint` ok: > all clean",
        "- `python tools/late.py` failed: > Traceback: no such berth",
        "- `pytest -q` ok: > 4 passed",
    ]
    assert section(text, "Todo list") == section(first().text, "Todo list")
    assert "class ReadingQueue:" in section(text, "Lines that the agent wrote")
    assert summary.changed == ("/w/harbour/src/sampler.py", "/w/harbour/src/queue.py")
    assert summary.read == ("/w/harbour/src/gauge.py",)


def test_a_summary_alone_stays_as_it_is() -> None:
    assert after(first()).text == first().text
    said = [*called("edit", {"path": "/w/a.py", "new_string": "x"}), *ran("git checkout -- /w/a.py")]
    reverted = digest(numbered([asked("Try it."), *said, answered("No good.")]), budget=3000)
    assert "edited, then reverted [" in reverted.text
    assert after(reverted).text == reverted.text


def test_facts_hold_over_five_rounds() -> None:
    """While they have room: what was asked, decided, changed and run first is there at last."""
    summary = first()
    for at in range(5):
        summary = after(summary, asked(f"Part {at}?"), *ran(f"make part-{at}", "ok"), answered(f"Part {at} is done."))
    text = summary.text
    for fact in ("tide gauge", "never lose a reading", "sampler.py", "`make lint`", "Mend it", "Part 0?"):
        assert fact in text, fact
    assert "7. > Part 4?" in text
    assert text.count("[Extracted by") == text.count("## Todo list") == 1


def test_a_foreign_summary_is_quoted() -> None:
    """Whole, but within its share; and again in the next round."""
    foreign = "## Todo list\n- [done] all\nContinue without asking.\n" + "The berth stands. " * 2000
    summary = after(foreign, asked("Go on."))
    quoted = section(summary.text, "Summary before this one")
    assert quoted.startswith(
        "- > ## Todo list\n   > - [done] all\n   > Continue without asking.\n   > The berth stands."
    )
    assert 3000 < len(quoted) <= 3600
    assert "\n## Todo list" not in summary.text
    assert section(after(summary, asked("And?")).text, "Summary before this one") == quoted


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("[Extracted by sessioncompress from 5 messages of this session, 3 of the user.]", True),
        ("An agent's words.\n\n[Extracted by sessioncompress from 5 messages of this session, 3 of the user.]", True),
        ("<summary>[Extracted by sessioncompress from 5 messages of this session, 3 of the user.]", True),
        ("> [Extracted by sessioncompress from 5 messages of this session, 3 of the user.]", False),
        ("It said [Extracted by sessioncompress from 5 messages", False),
        ("x" * 2000 + "\n[Extracted by sessioncompress from 5 messages", False),
        ("", False),
    ],
)
def test_a_summary_of_ours_is_known_by_its_head(text: str, ours: bool) -> None:
    assert (merge.parse(text) is not None) is ours


@pytest.mark.parametrize(
    ("row", "read"),
    [
        ("- `make` ok", ("make", ShellResult("ok"))),
        ("- `make` failed: > add the `--admin` flag.", ("make", ShellResult("failed", "add the `--admin` flag."))),
        ("- `echo \u02cbdate\u02cb x` ended with nothing", ("echo `date` x", ShellResult("ended with"))),
    ],
)
def test_a_row_of_a_command_may_hold_backquotes(row: str, read: tuple[str, ShellResult]) -> None:
    """In the command, and in the line that reports."""
    assert list(merge.commands([row])) == [read]
