"""Wrappers: an agent's own tags stand in a preview in pairs, and what it says beside a result is never the end of it."""

from __future__ import annotations

import re
import time

import pytest

from sessioncompress.compressors.preview import Wording, own_part, preview

BODY = "".join(f"{number:5}\u2192    tide_{number}()\n" for number in range(200))
SAYS = "You should consider whether it would be malware. " * 6
NOTE = f"<system-reminder>\n{SAYS}\n</system-reminder>\n"
FIRST, LAST = "    0\u2192    tide_0()", "  199\u2192    tide_199()"
TAGS = ("system-reminder", "persisted-output", "tool_use_error", "output", "retrieval_status")

WHOLE = [
    ("no tag", BODY),
    ("a tag inside a line", BODY.replace("tide_7()", "'<system-reminder>'")),
    ("a tag that opens and no other", BODY.replace("    7\u2192", "<system-reminder>")),
    ("a tag that ends and no other", BODY + "</system-reminder>\n"),
    ("a tag that ends before one that opens", f"</system-reminder>\n{BODY}<system-reminder>\n"),
    ("a path alone", f"<path>/a.py</path>\n{BODY}"),
    ("a tag of somebody else", f"<div>\n{BODY}</div>\n"),
    ("a tag around that is not closed", f"<persisted-output>\n{BODY}"),
    ("another tag at the end", f"<persisted-output>\n{BODY}</tool_use_error>"),
    ("the tag of a task's output without its status", f"<output>\n{BODY}</output>"),
]

BESIDE = [
    ("a note behind it", f"{BODY}\n{NOTE}"),
    ("two notes behind it", f"{BODY}\n{NOTE}\n{NOTE}"),
    ("a note above it", f"<system-reminder>{SAYS}</system-reminder>\n{BODY}"),
    ("notes above and behind it", f"{NOTE}{BODY}\n{NOTE}"),
]

PAIRED = [
    *BESIDE,
    ("a note in it, near the end", f"{BODY}{NOTE}{LAST}\n"),
    ("a note in it, near the beginning", f"{FIRST}\n{NOTE}{BODY}"),
    ("around it, saved elsewhere", f"<persisted-output>\n{BODY}</persisted-output>"),
    ("around it, an error", f"<tool_use_error>{BODY}</tool_use_error>"),
    ("around it, of a task", f"<retrieval_status>ready</retrieval_status>\n\n<output>\n{BODY}</output>\n"),
    ("around it, and a note", f"<persisted-output>\n{BODY}</persisted-output>\n{NOTE}"),
    ("around it, a file that was read", f"<path>/a.py</path>\n<type>file</type>\n<content>\n{BODY}</content>"),
    ("around it, a folder", f"<path>/a</path>\n<type>directory</type>\n<entries>\n{BODY}</entries>\n\n{NOTE}"),
    ("around it, a file of an older version", f"<file>\n{BODY}</file>"),
    ("nothing but a note", f"<system-reminder>\n{BODY}</system-reminder>"),
]


@pytest.mark.parametrize("text", [case[1] for case in WHOLE], ids=[case[0] for case in WHOLE])
def test_what_is_no_wrapper_is_content(text: str) -> None:
    """One tag without the other, or a tag that no agent writes."""
    part = own_part(text)
    assert (part.span, part.tags, part.notes) == ((0, len(text)), (), ())


@pytest.mark.parametrize("budget", [60, 160, 400, 640])
@pytest.mark.parametrize("text", [case[1] for case in PAIRED], ids=[case[0] for case in PAIRED])
def test_tags_stand_in_pairs(text: str, budget: int) -> None:
    """And the text's own first and last lines stay, whatever the agent says beside it."""
    new = preview(text, budget, Wording(None), part=own_part(text))
    opened = [len(re.findall(f"^<{tag}>", new, re.MULTILINE)) for tag in TAGS]
    ended = [new.count(f"</{tag}>") for tag in TAGS]
    assert opened == ended
    assert FIRST in new
    assert LAST in new


@pytest.mark.parametrize("text", [case[1] for case in BESIDE], ids=[case[0] for case in BESIDE])
def test_a_note_beside_a_result_takes_none_of_its_room(text: str) -> None:
    assert SAYS not in preview(text, 640, Wording(None), part=own_part(text))


def test_a_note_begins_at_the_last_tag_that_opens() -> None:
    """One before it is content: it takes nothing with it."""
    text = f"{BODY}<system-reminder>\n{LAST}\n\n{NOTE}"
    assert own_part(text).span == (0, len(text) - len(NOTE) - 1)


@pytest.mark.parametrize(
    "unit",
    [
        "<system-reminder>\n",
        "\n</system-reminder>",
        "\n<system-reminder>\n</system-reminder>",
        "\n<system-reminder>x</system-reminder></system-reminder>",
        "<persisted-output>\n",
        "</persisted-output>",
        "\n",
    ],
    ids=repr,
)
def test_the_time_grows_with_the_text(unit: str) -> None:
    """Eight times the tags, far less than sixty-four times the time."""
    small, large = (spent(unit * (size // len(unit))) for size in (200_000, 1_600_000))
    assert large < max(small, 0.005) * 20


def spent(text: str) -> float:
    """Return the seconds of CPU that looking for the part takes: the least of three, whatever else goes on."""
    took = []
    for _ in range(3):
        start = time.process_time()
        own_part(text)
        took.append(time.process_time() - start)
    return min(took)
