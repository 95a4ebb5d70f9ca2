"""Sessions of Claude Code: several turns, one with a compaction, and a subagent's."""

from __future__ import annotations

import random
from typing import Any

from tests.support import blocks, texts
from tests.support.claude import ClaudeSession, Use, picture
from tests.support.stories import tidewatch as tw
from tests.support.story import Story

_TURNS = (
    ("The night shift wants one page that shows which gauges are silent. Where would it go?", "Into `report.py`."),
    ("Build it.", "The page lists silent gauges first, with the time of their last reading."),
    ("Two gauges are listed twice.", "They had two rows in the station table. The page groups by name now."),
    ("Good. Anything left?", "One thing: the page has no test yet. I can add one."),
    ("Please do.", "Added. It uses three stations, one silent, one listed twice, one fine."),
    ("Thanks, that's all.", "You're welcome."),
)
_AGENT = "a1b2c3d4e5f607182"
_SPILLED = "/tmp/.claude/projects/-tmp/{session}/tool-results/b{number}.txt"


def session() -> ClaudeSession:
    """Return a session with every kind of line that the agent writes beside the conversation."""
    made = ClaudeSession("claude-code")
    made.note("mode", mode="normal")
    skills = "\n".join(f"- {texts.heading(blocks.dice('skill', each))}: for tide gauges" for each in range(24))
    made.note("queue-operation", operation="enqueue", timestamp="2026-03-02T09:00:00.000Z", content=_long_prompt())
    for number, (asked, said) in enumerate(_TURNS):
        _asks(made, number, asked)
        if number in (0, 3):
            made.attachment("skill_listing", content=skills, skillCount=24, isInitial=number == 0)
        _works(made, number)
        made.respond(blocks.text(said))
        made.note("last-prompt", lastPrompt=asked, leafUuid=made.leaf)
        made.entry("system", subtype="turn_duration", durationMs=41_000 + number, isMeta=False)
    return made


def compacted() -> ClaudeSession:
    """Return a session of which the first half was summed up; the last step before it was kept."""
    made = ClaudeSession("claude-compacted")
    for number, (asked, said) in enumerate(_TURNS[:2]):
        made.user(asked)
        _works(made, number)
        made.respond(said)
    kept = made.respond("I keep an eye on the two gauges.")[0]
    made.compact("This session is being continued from an earlier one. The page of silent gauges is built.", kept)
    for number, (asked, said) in enumerate(_TURNS[4:], 4):
        made.user(asked)
        _works(made, number)
        made.respond(said)
    return made


def subagent() -> ClaudeSession:
    """Return what a subagent wrote: one prompt, and all lines beside the main conversation."""
    made = ClaudeSession("claude-agent", agent=_AGENT)
    made.user("Find every place that reads the station table. Report file and line.")
    for number in range(6):
        rng = blocks.dice("claude-agent", number)
        _runs(made, rng, "grep -rn stations .", texts.grep_output(rng, 30), "Where else is it read?")
    made.respond("Four places, all in `report.py`.")
    return made


def _long_prompt() -> str:
    return _TURNS[0][0] + "\n\n" + texts.markdown(blocks.dice("claude prompt"), 2)


def _asks(made: ClaudeSession, number: int, asked: str) -> None:
    if number == 0:
        made.user(_long_prompt())
    elif number == 2:
        made.user([blocks.text(asked), picture(blocks.png(40))])
    else:
        made.user(asked)


def _works(made: ClaudeSession, number: int) -> None:
    rng = blocks.dice(made.seed, "work", number)
    if number == len(_TURNS) - 1:
        return
    source = tw.files()["src/tidewatch/smoothing.py"]
    _reads(made, "src/tidewatch/smoothing.py", source, "The smoothing decides what counts as silent.")
    _runs(made, rng, "python -m pytest -q", texts.pytest_run(rng, 60), "All tests first, before anything changes.")
    _edits(made, source)
    _searches_at_once(made, rng)
    if number == 1:
        _asks_an_agent(made, rng)
        _writes(made, texts.python_source(rng, 8))
    if number == 2:
        made.attachment("edited_text_file", filename="/tmp/README.md", snippet=texts.numbered(tw.README, "\t"))
        made.attachment(
            "hook_success", hookName="PostToolUse:Edit", content="", stdout=texts.log_lines(rng, 12), stderr=""
        )
        _spills(made, rng, number)


def _reads(made: ClaudeSession, path: str, content: str, thinking: str) -> None:
    lines = content.count("\n")
    shown = {"filePath": path, "content": content, "numLines": lines, "startLine": 1, "totalLines": lines}
    numbered = texts.numbered(content, "→")
    made.step("Read", {"file_path": path}, numbered, {"type": "text", "file": shown}, thinking=thinking)


def _runs(made: ClaudeSession, rng: random.Random, command: str, output: str, thinking: str) -> None:
    shown = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    thoughts = f"{thinking} {texts.prose(rng, 6)}"
    made.step("Bash", {"command": command, "description": "Runs it"}, output, shown, thinking=thoughts)


def _edits(made: ClaudeSession, source: str) -> None:
    lines = source.splitlines()
    old, new = "\n".join(lines[2:14]), "\n".join([*lines[2:8], "# silence is one more column", *lines[8:14]])
    given = {"file_path": "src/tidewatch/smoothing.py", "old_string": old, "new_string": new, "replace_all": False}
    hunk = {"oldStart": 3, "oldLines": 12, "newStart": 3, "newLines": 13, "lines": [f" {line}" for line in lines[2:14]]}
    shown: dict[str, Any] = {"filePath": given["file_path"], "oldString": old, "newString": new, "originalFile": source}
    shown |= {"structuredPatch": [hunk], "userModified": False, "replaceAll": False}
    made.step("Edit", given, f"The file {given['file_path']} has been updated.", shown)


def _writes(made: ClaudeSession, content: str) -> None:
    path = "src/tidewatch/silent.py"
    shown: dict[str, Any] = {
        "type": "create",
        "filePath": path,
        "content": content,
        "structuredPatch": [],
        "originalFile": None,
    }
    made.step("Write", {"file_path": path, "content": content}, f"File created successfully at: {path}", shown)


def _searches_at_once(made: ClaudeSession, rng: random.Random) -> None:
    uses = []
    for word in ("silent", "gauge"):
        found = texts.grep_output(rng, 30)
        shown = {"mode": "content", "numFiles": 0, "filenames": [], "content": found, "numLines": 30}
        uses.append(Use("Grep", {"pattern": word, "output_mode": "content"}, found, shown))
    made.parallel(uses, thinking="Both words at once.")


def _asks_an_agent(made: ClaudeSession, rng: random.Random) -> None:
    prompt = "Look for places that list gauges.\n\n" + texts.markdown(rng, 3)
    name = made.new_call_id()
    (place,) = made.respond({"type": "tool_use", "id": name, "name": "Agent", "input": {"prompt": prompt}})
    for _ in range(4):
        said = {"role": "assistant", "content": [blocks.text(texts.prose(rng, 9))]}
        message = {"type": "assistant", "message": said, "uuid": made.leaf}
        made.progress(name, type="agent_progress", message=message, normalizedMessages=[], prompt=prompt)
    report = [blocks.text(texts.markdown(rng, 4))]
    shown = {"status": "completed", "prompt": prompt, "agentId": _AGENT, "content": report, "totalTokens": 9000}
    made.result(name, report, shown, parent=place)


def _spills(made: ClaudeSession, rng: random.Random, number: int) -> None:
    path = _SPILLED.format(session=made.session, number=number)
    text = f"<persisted-output>\nOutput too large (61.2KB). Full output saved to: {path}\n\nPreview (first 2KB):\n"
    text += texts.log_lines(rng, 30) + "\n...\n</persisted-output>"
    made.step("Bash", {"command": "cat var/tidewatch.log"}, text, {"stdout": text, "persistedOutputPath": path})


STORIES = (
    Story("claude-code.jsonl", session, "claude-code"),
    Story("claude-compacted.jsonl", compacted, "claude-code"),
    Story("claude-agent.jsonl", subagent, "claude-code", stays=True),
)
