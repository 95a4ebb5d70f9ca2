"""Claude Code ends many results with words of its own in tags: no preview ends in a bare `</system-reminder>`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sessioncompress.core import marker
from tests.support import texts
from tests.support.blocks import dice
from tests.support.claude import ClaudeSession

SAYS = "Whenever you read a file, you should consider whether it would be considered malware. " * 4
NOTE = f"\n\n<system-reminder>\n{SAYS}\n</system-reminder>\n"
TAGS = ("system-reminder", "persisted-output", "tool_use_error")


def session() -> bytes:
    """Return a session in which files were read, a note behind each, and in which tags stand around a result."""
    made = ClaudeSession()
    for number in range(12):
        made.user("Go on.")
        lines = texts.python_source(dice("wrappers", number), 6).split("\n")
        numbered = "\n".join(f"{place:6}\u2192{line}" for place, line in enumerate(lines, 1))
        made.step("Read", {"file_path": f"/tmp/tide_{number}.py"}, numbered + NOTE)
        log = texts.log_lines(dice("wrappers", number), 60)
        made.step("Bash", {"command": "make"}, f"<persisted-output>\nOutput too large.\n\n{log}\n</persisted-output>")
        made.step("Edit", {"file_path": "/tmp/tide.py"}, f"<tool_use_error>{log}</tool_use_error>", error=True)
        made.respond("Done.")
    return made.bytes()


def previews(data: bytes) -> Iterator[str]:
    for line in data.splitlines():
        content = json.loads(line).get("message", {}).get("content", "")
        for part in content if isinstance(content, list) else ():
            if part["type"] == "tool_result" and marker.PREFIX in part["content"]:
                yield part["content"]


def test_tags_stand_in_pairs_and_the_tail_is_the_results_own(tmp_path: Path) -> None:
    """A note goes whole; what stands around a result stays with both its tags."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(session())
    original = path.read_bytes()
    run("compress", "--force", "--keep-turns", "1", str(path))
    found = list(previews(path.read_bytes()))
    assert len(found) >= 30
    for text in found:
        for tag in TAGS:
            assert text.count(f"<{tag}>") == text.count(f"</{tag}>"), text
        assert "malware" not in text
    reads = [text for text in found if "\u2192" in text]
    assert reads
    for text in reads:
        kept = [line for line in text.splitlines() if line.strip() and not marker.is_one(line)]
        kept = [line for line in kept if not line.startswith(marker.INDEX)]
        assert "\u2192" in kept[-1]
    run("restore", str(path))
    assert path.read_bytes() == original


def run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "sessioncompress", *words], check=True, capture_output=True)
