"""Sessions of pi with compactions and branches, and of its older and newer versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support import blocks, texts
from tests.support.session import PiSession
from tests.support.stories import tidewatch as tw
from tests.support.stories.chores import Routine
from tests.support.story import Story
from tests.support.workspace import Workspace

SUMMARY = """## Goal
Publish tide forecasts for all stations, next to the measured levels.

## Done
- `forecast.py` computes twelve hours ahead from the harmonic constants
- `report.py` prints measured and expected levels side by side

## Next
- Show the difference in the chart
- Ask before touching `store.py`: its table is shared with the night shift's tool
"""
_TURNS = (
    ("Add a tide forecast for twelve hours ahead.", "The forecast is in: twelve hours, one value each ten minutes."),
    ("Print it in the report next to the measured level.", "The report has both columns now."),
    ("Show the difference in the chart too.", "The chart shades the difference, red where the water is higher."),
    ("Which station is off the most?", "Dunrock: 19 cm on average: its constants are from before the new pier."),
    ("Then take its constants out until we have new ones.", "Dunrock shows measured levels only."),
    ("Good. Say so in the report.", "The report says *no forecast* for Dunrock and why."),
)


def compacted() -> PiSession:
    """Return a session with a checkpoint on the live path and a branch that was given up."""
    made = PiSession(seed="pi-compacted").opening()
    routine = Routine(Workspace(made, tw.files()), "pi-compacted", 1450)
    _turns(routine, _TURNS[:1], 8)
    fork = made.leaf
    _turns(routine, [("Try it with a neural network instead.", "It fits the training month and nothing else.")], 5)
    gone = made.leaf
    made.branch(fork)
    made.entry("branch_summary", fromId=gone, summary="A neural network was tried and fitted noise; given up.")
    _turns(routine, _TURNS[1:2], 6)
    kept = made.user(_TURNS[2][0])
    routine.steps(3)
    made.assistant(_TURNS[2][1])
    files = {"readFiles": ["src/tidewatch/store.py"], "modifiedFiles": ["src/tidewatch/report.py"]}
    made.compaction(SUMMARY, kept, details=files, fromHook=False)
    made.entry("label", targetId=kept, label="chart")
    made.entry("session_info", name="Tide forecast")
    made.entry("custom", customType="notes", data={"open": 2})
    _turns(routine, _TURNS[3:], 4)
    return made


def version_1() -> PiSession:
    """Return a session of version 1: no ids, a checkpoint by index, edits of one text."""
    made = PiSession(version=1, seed="pi-v1", model="claude-sonnet-4-5")
    made.entry("thinking_level_change", thinkingLevel="medium")
    routine = Routine(OldWorkspace(made, tw.files()), "pi-v1", 450)
    _turns(routine, _TURNS[:2], 6)
    kept = made.count
    _turns(routine, _TURNS[2:3], 4)
    made.compaction(SUMMARY, kept)
    _turns(routine, _TURNS[3:], 4)
    return made


def version_2() -> PiSession:
    """Return a session of version 2: a tree whose extension messages have the role hookMessage."""
    made = PiSession(version=2, seed="pi-v2", model="claude-sonnet-4-5").opening("medium")
    routine = Routine(OldWorkspace(made, tw.files()), "pi-v2", 400)
    _turns(routine, _TURNS[:2], 4)
    made.message("hookMessage", customType="reminder", content="Two stations changed while you worked.", display=True)
    made.entry("custom_message", customType="reminder", content="Mind the tide table.", display=True)
    _turns(routine, _TURNS[2:4], 4)
    return made


def version_1x() -> PiSession:
    """Return a session of pi 1.x: system messages, usage entries, context edits."""
    made = PiSession(seed="pi-1x")
    rng = blocks.dice("pi-1x")
    tools = [_tool("read", "path"), _tool("bash", "command"), _tool("edit", "path"), _tool("write", "path")]
    sections = {"preamble": "You are a coding agent.", "project": texts.markdown(rng, 3)}
    made.message("system", content="", sections=sections, toolsAdded=tools)
    made.opening()
    routine = Routine(Workspace(made, tw.files()), "pi-1x", 350)
    _turns(routine, _TURNS[:2], 5)
    target = made.leaf
    _turns(routine, _TURNS[2:3], 4)
    made.message("system", content="The working folder is read-only now.")
    made.entry("context_edit", targetId=target, replacement=None)
    made.entry("context_edit", targetId=made.user("Never mind that."), replacement={"content": "(taken back)"})
    made.bash_execution("git status --short", " M src/tidewatch/report.py", excludeFromContext=True)
    made.entry("usage", kind="cache_warm", provider=made.provider, model=made.model, usage=_warm())
    kept = made.user(_TURNS[3][0])
    routine.steps(3)
    made.assistant(_TURNS[3][1], thinkingLevel="high")
    system = {"role": "system", "content": "", "sections": sections, "toolsAdded": tools, "timestamp": 1772442000000}
    made.compaction(SUMMARY, kept, fromHook=False, systemMessage=system)
    _turns(routine, _TURNS[4:], 3)
    return made


class OldWorkspace(Workspace):
    """The same with the edit tool of old versions: one text replaced by another."""

    def edit_arguments(self, path: str, edits: Sequence[tuple[str, str]]) -> dict[str, Any]:
        return self.arguments(path, oldText=edits[0][0], newText=edits[0][1])


def _turns(routine: Routine, turns: Sequence[tuple[str, str]], steps: int) -> None:
    for asked, answer in turns:
        routine.desk.session.user(asked)
        routine.steps(steps)
        routine.desk.session.assistant(answer)


def _tool(name: str, argument: str) -> dict[str, Any]:
    schema = {"type": "object", "required": [argument], "properties": {argument: {"type": "string"}}}
    return {"name": name, "description": f"The {name} tool.", "parameters": schema}


def _warm() -> dict[str, Any]:
    cost = {"input": 0, "output": 0, "cacheRead": 0.009, "cacheWrite": 0.000009, "total": 0.009009}
    return {"input": 0, "output": 0, "cacheRead": 18000, "cacheWrite": 2, "totalTokens": 18002, "cost": cost}


STORIES = (
    Story("pi-compacted.jsonl", compacted, "pi"),
    Story("pi-v1.jsonl", version_1, "pi"),
    Story("pi-v2.jsonl", version_2, "pi", stays=True),
    Story("pi-1x.jsonl", version_1x, "pi", stays=True),
)
