"""Files of instructions: the newest copy that was read stays whole; older ones and output that quotes them go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.policy.model import BALANCED, PRESETS, Policy
from tests.support.build import ClaudeSession, PiSession
from tests.support.documents import GeminiDocument, OpenCodeExport
from tests.support.runs import EAGER, after, old, plan_of, result_texts

RULES = "# Rules\n\n" + "".join(f"- Call fn_{number} before step_{number}.\n" for number in range(90))
ARCHIVE = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0)
Step = tuple[str, dict[str, Any]]


def read(file: str, **part: int) -> Step:
    return "read", {"path": file, **part}


def kept(*steps: Step, policy: Policy = EAGER) -> list[bool]:
    """Tell which results of these calls stay whole; each returns other rules."""
    made = PiSession()
    made.user("Go.")
    for number, (tool, arguments) in enumerate(steps):
        made.step(tool, arguments, f"{RULES}- Rule {number}.\n")
    return [not marker.occurs_in(text) for text in result_texts(after(old(made), policy))]


LEFT_ALONE: list[tuple[str, Sequence[Step]]] = [
    *((f"the list has {name}", [read(f"/src/{name}")]) for name in BALANCED.protect_files),
    ("without a folder", [read("AGENTS.md")]),
    ("in a hidden folder", [read(".github/copilot-instructions.md")]),
    ("a path of Windows", [read("C:\\work\\AGENTS.md")]),
    ("two files of one name", [read("/a/AGENTS.md"), read("/b/AGENTS.md")]),
    ("two parts of one file", [read("AGENTS.md", offset=1, limit=90), read("AGENTS.md", offset=91, limit=90)]),
]

CHANGED: list[tuple[str, Sequence[Step], Sequence[bool]]] = [
    ("an older copy", [read("AGENTS.md"), read("AGENTS.md"), read("AGENTS.md")], [False, False, True]),
    ("an older copy of a part", [read("AGENTS.md", offset=9, limit=9)] * 2, [False, True]),
    ("a file of another name", [read("README.md"), read("MY-AGENTS.md"), read("AGENTS.md.bak")], [False] * 3),
    ("the name in other case", [read("agents.md")], [False]),
    ("a folder of that name", [read("AGENTS.md/notes.txt")], [False]),
    ("a command that prints it", [("bash", {"command": "cat AGENTS.md"})], [False]),
    ("a change of it", [("edit", {"path": "AGENTS.md", "edits": []})], [False]),
]


@pytest.mark.parametrize("steps", [case[1] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(steps: Sequence[Step]) -> None:
    """The newest copy of each file, and of each part of it."""
    assert kept(*steps) == [True] * len(steps)


@pytest.mark.parametrize(("steps", "whole"), [case[1:] for case in CHANGED], ids=[case[0] for case in CHANGED])
def test_changed(steps: Sequence[Step], whole: Sequence[bool]) -> None:
    assert kept(*steps) == list(whole)


POLICIES: list[tuple[str, Policy, bool, bool]] = [
    ("the presets' list", EAGER, True, False),
    ("another list", replace(EAGER, protect_files=("RULES.md",)), False, True),
    ("both", replace(EAGER, protect_files=("AGENTS.md", "RULES.md")), True, True),
    ("an empty list", replace(EAGER, protect_files=()), False, False),
    ("archive", ARCHIVE, False, False),
    ("archive with a list: nobody works in the session", replace(ARCHIVE, protect_files=("RULES.md",)), False, False),
]


@pytest.mark.parametrize(
    ("policy", "agents", "rules"), [case[1:] for case in POLICIES], ids=[case[0] for case in POLICIES]
)
def test_the_key_replaces_the_list(policy: Policy, agents: bool, rules: bool) -> None:
    assert kept(read("AGENTS.md"), read("RULES.md"), policy=policy) == [agents, rules]


@pytest.mark.parametrize("name", ["balanced", "low-cost", "high-quality"])
def test_the_presets_have_one_list(name: str) -> None:
    """What the user wrote for the agent holds whatever a session may cost."""
    assert PRESETS[name].protect_files == BALANCED.protect_files
    assert PRESETS["archive"].protect_files == ()


def test_a_read_that_failed_is_no_copy() -> None:
    made = PiSession()
    made.user("Go.")
    made.step("read", {"path": "AGENTS.md"}, RULES)
    made.step("read", {"path": "AGENTS.md"}, "It is not there. " * 20, error=True)
    assert plan_of(old(made)) == {}


def test_a_read_that_says_that_nothing_changed_is_no_copy() -> None:
    """It points back at the one before it."""
    made = ClaudeSession()
    made.user("Go.")
    made.step("Read", {"file_path": "/src/CLAUDE.md"}, RULES)
    made.step("Read", {"file_path": "/src/CLAUDE.md"}, "File unchanged since last read. The content is still current.")
    assert plan_of(made.turn().bytes()) == {}


@pytest.mark.parametrize("said", ["", "The file is empty.", "It was not read. " * 14], ids=["nothing", "empty", "why"])
def test_a_read_that_returns_hardly_anything_is_no_copy(said: str) -> None:
    """Whatever the agent says instead of what is in the file."""
    made = PiSession()
    made.user("Go.")
    made.step("read", {"path": "AGENTS.md"}, RULES)
    made.step("read", {"path": "AGENTS.md"}, said)
    assert plan_of(old(made)) == {}


def gemini(*files: str) -> bytes:
    made = GeminiDocument().user("Go.")
    made.answer("I look.", *(made.used("read_file", {"file_path": file}, RULES + file) for file in files))
    return made.user("And now?").answer("Done.").bytes()


def opencode(*files: str) -> bytes:
    made = OpenCodeExport().user("Go.").assistant()
    for file in files:
        made.tool("read", {"filePath": file}, RULES + file)
    return made.finish("stop").user("And now?").assistant().finish("stop").bytes()


@pytest.mark.parametrize("session", [gemini, opencode])
def test_a_result_in_the_line_of_its_call(session: Callable[..., bytes]) -> None:
    """Each is looked at by itself; a whole message is one line."""
    assert plan_of(session("/src/AGENTS.md")) == {}
    for files in (("/src/AGENTS.md", "README.md"), ("README.md", "/src/AGENTS.md")):
        (changes,) = plan_of(session(*files)).values()
        (change,) = changes
        assert str(files.index("README.md")) in map(str, change.path)


def test_a_copy_on_a_branch_that_was_left_is_none() -> None:
    made = PiSession()
    made.user("Go.")
    made.step("read", {"path": "AGENTS.md"}, RULES)
    here = made.leaf
    made.step("read", {"path": "AGENTS.md"}, RULES + "- One more.\n")
    made.branch(here)
    assert [marker.occurs_in(text) for text in result_texts(after(old(made)))] == [False, True]
