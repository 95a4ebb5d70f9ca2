"""A run of tests that was piped does not fail: its preview keeps the names of the tests that did all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sessioncompress.core import marker
from tests.support import texts
from tests.support.blocks import dice
from tests.support.claude import ClaudeSession

LOG = texts.log_lines(dice("reports"), 40)
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "go": ("--- FAIL: TestTide (0.00s)", "FAIL\texample.org/tide\t0.1s"),
    "pytest": ("FAILED tests/test_tide.py::test_low - assert 1 == 2", "===== 1 failed, 3 passed in 0.12s ====="),
    "cargo": ("test tide::low ... FAILED", "test result: FAILED. 3 passed; 1 failed; 0 ignored"),
    "jest": ("FAIL src/tide.test.ts", "Tests:       1 failed, 3 passed, 4 total"),
    "tap": ("not ok 3 - is low", "# fail 1"),
    "unittest": ("FAIL: test_low (tests.test_tide.Tide)", "FAILED (failures=1)"),
    "maven": (
        "[ERROR] org.example.TideTest.low -- Time elapsed: 0.01 s <<< FAILURE!",
        "[ERROR] Tests run: 3, Failures: 1",
    ),
}


def compressed(path: Path, tool: str, given: Mapping[str, str], output: str) -> str:
    """Compress a session with an old result; return its preview."""
    made = ClaudeSession()
    made.user("Go.")
    made.step(tool, given, output)
    for _ in range(3):
        made.user("Go on.")
        made.respond("Done.")
    path.write_bytes(made.bytes())
    words = ("compress", "--force", "--keep-turns", "1", str(path))
    subprocess.run([sys.executable, "-m", "sessioncompress", *words], check=True, capture_output=True)
    messages = [json.loads(line).get("message", {}) for line in path.read_bytes().splitlines()]
    parts = [part for message in messages if isinstance(message.get("content"), list) for part in message["content"]]
    shown = next(str(part["content"]) for part in parts if part["type"] == "tool_result")
    assert marker.PREFIX in shown
    return shown


def output_of(lines: tuple[str, ...]) -> str:
    """Return the output of a run that goes on after these lines."""
    return "\n".join(piece for line in lines for piece in (LOG, line)) + "\n" + LOG


@pytest.mark.parametrize("runner", OUTPUTS)
def test_the_tests_that_failed_stay(runner: str, tmp_path: Path) -> None:
    """`mise run test:ci | head -200` ends well, whatever failed."""
    lines = OUTPUTS[runner]
    new = compressed(tmp_path / "s.jsonl", "Bash", {"command": "mise run test:ci | head -200"}, output_of(lines))
    assert [line for line in new.splitlines() if line in lines] == list(lines)


def test_source_code_and_searches_keep_no_such_line(tmp_path: Path) -> None:
    """Words of failure alone mean nothing."""
    for number, line in enumerate(("ci.log:7:--- FAIL: TestTide (0.00s)", 'say("test result: FAILED. 1 failed")')):
        new = compressed(tmp_path / f"{number}.jsonl", "Bash", {"command": "grep -rn FAIL ."}, output_of((line,)))
        assert line not in new


def test_a_file_that_was_read_keeps_no_such_line(tmp_path: Path) -> None:
    """It is no run of tests, whatever its lines look like."""
    line = "--- FAIL: TestTide (0.00s)"
    assert line not in compressed(tmp_path / "s.jsonl", "Read", {"file_path": "/tmp/ci.log"}, output_of((line,)))
