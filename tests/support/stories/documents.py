"""Sessions that are one JSON document: Gemini CLI's, and an export of OpenCode with a compaction in it."""

from __future__ import annotations

import random

from tests.support import blocks, texts
from tests.support.documents import GeminiDocument, OpenCodeExport
from tests.support.stories import tidewatch as tw
from tests.support.story import Story

_REPORT = "src/tidewatch/report.py"


def gemini() -> GeminiDocument:
    """Return a session with thoughts, notes of the agent, commands of the user, and what the screen shows."""
    made = GeminiDocument()
    rng = blocks.dice("gemini-story")
    made.message("info", "Gemini CLI update available! 0.60.0 → 0.61.0")
    for number, (asked, said) in enumerate(tw.TURNS):
        made.user(asked)
        for _ in range((3, 2, 3, 1, 1, 0)[number]):
            log = texts.log_lines(rng, 40)
            command = {"command": "tail -40 logs/service.log", "description": "Reads the end of the log."}
            made.answer("", made.used("run_shell_command", command, _ran(log), log), thought=texts.prose(rng, 4))
        if number % 2:
            made.answer("I change the page.", *changes(made, rng, number))
        made.answer(said, thought=texts.prose(rng, 3))
        if number == 2:
            made.user("/stats")
    return made


def opencode() -> OpenCodeExport:
    """Return an export with a compaction, reasoning, edits, and copies of what tools gave back."""
    made = OpenCodeExport()
    rng = blocks.dice("opencode-story")
    compacted = 0
    files = tw.files()
    for number, (asked, said) in enumerate(tw.TURNS):
        made.user(
            asked, texts.unified_diff(files[_REPORT], texts.python_source(rng, 2), _REPORT) if number == 1 else ""
        )
        for step in range((3, 2, 3, 2, 1, 0)[number]):
            made.assistant().part("step-start", snapshot=blocks.hexes(40, number, step))
            made.part("reasoning", text=texts.prose(rng, 4), time={"start": 1, "end": 2})
            listed = texts.grep_output(rng, 30)
            made.tool("grep", {"pattern": "silent", "include": "*.py"}, listed, {"matches": 30, "preview": listed})
            log = texts.log_lines(rng, 40)
            made.tool("bash", {"command": "tail -40 logs/service.log"}, log, {"output": log, "exit": 0})
            made.finish("tool-calls")
        if number in (1, 3):
            _writes(made, rng, number)
        made.assistant(finish="stop").part("text", text=said)
        if number == 0:
            made.compaction("Two gauges were silent last night, both from two in the morning on.")
            compacted = len(made.messages)
    # The message behind that of the user: the first call after the compaction, with its results.
    made.prune(compacted + 1, compacted + 2)
    return made


def _ran(output: str) -> str:
    return f"Command: tail -40 logs/service.log\nDirectory: (root)\nOutput: {output}\nError: (none)\nExit Code: 0"


def changes(made: GeminiDocument, rng: random.Random, number: int) -> list[dict[str, object]]:
    """Return a read, an edit and a write, made at once."""
    source = texts.python_source(rng, 4)
    old, new = texts.prose(rng, 4), texts.prose(rng, 5)
    path = f"src/tidewatch/page{number}.py"
    diff = {"fileDiff": texts.unified_diff(old, new, path), "fileName": path, "originalContent": old, "newContent": new}
    return [
        made.used("read_file", {"file_path": _REPORT}, source),
        made.used("replace", {"file_path": path, "old_string": old, "new_string": new}, "Replaced 1 occurrence.", diff),
        made.used("write_file", {"file_path": path, "content": source}, f"Successfully overwrote file: {path}."),
    ]


def _writes(made: OpenCodeExport, rng: random.Random, number: int) -> None:
    source = texts.python_source(rng, 4)
    path = f"/tmp/tests/test_page{number}.py"
    made.assistant()
    made.tool("read", {"filePath": f"/tmp/{_REPORT}"}, texts.numbered(source, ": "), {"preview": source[:400]})
    made.tool("write", {"filePath": path, "content": source}, "Wrote file successfully.", {"diagnostics": {}})
    old, new = texts.prose(rng, 4), texts.prose(rng, 5)
    edit = {"filePath": path, "oldString": old, "newString": new}
    made.tool("edit", edit, "Edit applied successfully.", {"diff": texts.unified_diff(old, new, path)})


STORIES = (Story("gemini.json", gemini, "gemini"), Story("opencode.json", opencode, "opencode"))
