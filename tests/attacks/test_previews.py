"""Results made to be the worst for their names: the previews stay within their budget, and time grows as they do."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from sessioncompress.compressors.names import LOOKED_AT, PreviewNames, Visible
from sessioncompress.core import marker
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.policy.model import BALANCED
from tests.support import texts
from tests.support.blocks import dice
from tests.support.build import PiSession
from tests.support.claude import ClaudeSession
from tests.support.runs import EAGER, compress, entries, old, result_texts, write

pytestmark = pytest.mark.usefixtures("collected")

_MB = 1_000_000
_MOST = 8.0
"""So many times as long may four times as much take; where time grows with the square it is sixteen."""
_SOON = 0.3
"""Seconds of processor time that say nothing of growth."""

Piece = Callable[[int], str]

PIECES: dict[str, Piece] = {
    "distinct names": lambda each: f"value = call(name_{each});\n",
    "distinct names in one line": lambda each: f"value = call(name_{each}); ",
    "distinct names and nothing else": lambda each: f"(n_{each})",
    "one name": lambda _: "(read_gauge);\n",
    "one name inside others": lambda each: f"(xread_gauge{each} read_gauge);\n",
    "the beginnings of one name": lambda each: f"(x_{'y' * (each % 46)});\n",
    "numbers": lambda each: f"({each + 10_000});\n",
    "numbered lines": lambda each: f"{each}\tint name_{each} = {each};\n",
    "files": lambda each: f"src/deep/file_{each}.py;\n",
    "files of one folder each": lambda each: f"src/folder_{each}/a{each}.py;\n",
    "dots": lambda _: ".",
    "dotted words": lambda each: f"a_{each}.b_{each}.",
    "slashes": lambda _: "/\\",
    "underscores": lambda _: "a_",
    "markers": lambda each: (
        f"[[sessioncompress: {each} lines, 5 bytes, kept on disk: sessioncompress show 7f3a91c2e05b]]\n"
    ),
    "lines like an index": lambda each: f"in it: name_{each} | src/f{each}.py\n",
    "CJK": lambda _: "漢字潮汐",
    "names between CJK": lambda each: f"漢字name_{each}潮汐 ",
    "emoji": lambda _: "👩\u200d👩\u200d👧",
    "lone surrogates": lambda each: f"\ud800name_{each}\udc00\n",
    "colors": lambda each: f"\x1b[31mname_{each}\x1b[0m;\n",
    "colors that do not end": lambda _: "\x1b[38;5;204;1;4",
    "base64": lambda each: f"QUJDREVGR0hJSktMTU5PUFFS{each}",
    "folders of nobody": lambda each: f".git/name_{each}\nnode_modules/n_{each};\n",
    "escaped line ends": lambda each: f"name_{each};\\n\\t",
    "quotes": lambda each: f'"name_{each}":"\\\\',
    "control characters": lambda each: f"\x00\x01name_{each}",
    "spaces": lambda _: " \t",
    "line ends": lambda _: "\n",
    "prose": lambda each: f"The tide rose {each} times and nobody said why. ",
}


def text_of(piece: Piece, size: int) -> str:
    """Return so many characters of different pieces."""
    found: list[str] = []
    for number in count():
        found.append(piece(number))
        size -= len(found[-1])
        if size <= 0:
            break
    return "".join(found)


def chosen(results: list[str]) -> tuple[list[Visible], float]:
    """Return the indexes of results, and the seconds of processor time."""
    begun = time.process_time()
    names = PreviewNames(BALANCED)
    for text in results:
        names.keep(json.dumps(text[-2_000:]).encode())
    for text in results:
        names.add(text + "\n(own_name);")
    return names.choose(), time.process_time() - begun


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_the_indexes_stay_within_the_budget(piece: Piece) -> None:
    """Of one result of a megabyte, and of many of what is looked at of one: no line of it is above its most."""
    text = text_of(piece, _MB)
    for results in ([text], [text[at : at + LOOKED_AT] for at in range(0, _MB, LOOKED_AT)]):
        lines = [index.line().encode() for index in chosen(results)[0]]
        assert sum(map(len, lines)) <= BALANCED.preview_share * sum(len(each) + 12 for each in results)
        assert all(len(line) <= BALANCED.preview_max_bytes and b"\n" not in line for line in lines)


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_time_grows_as_the_results_do(piece: Piece) -> None:
    """Many results, all of whose bytes are looked at; in one result no more than some are."""
    text = text_of(piece, _MB)
    assert min(chosen([text])[1] for _ in range(2)) < _SOON
    parts = [text[at : at + LOOKED_AT] for at in range(0, len(text), LOOKED_AT)]
    quarter = chosen(parts[: len(parts) // 4])[1]
    whole = chosen(parts)[1]
    if whole > max(_SOON, _MOST * quarter):  # whatever else the machine did meanwhile
        quarter, whole = min(quarter, chosen(parts[: len(parts) // 4])[1]), min(whole, chosen(parts)[1])
    assert whole <= max(_SOON, _MOST * quarter)


LEFT_ALONE = ("lone surrogates",)
"""Such a line is sealed."""
LONG = {name: piece for name, piece in PIECES.items() if name not in LEFT_ALONE}


@pytest.mark.parametrize("piece", LONG.values(), ids=LONG)
def test_a_result_of_a_megabyte_has_a_short_preview(piece: Piece, tmp_path: Path) -> None:
    """One that a tool printed, with an error flag or without; every byte comes back."""
    made = PiSession()
    made.user("Go.")
    for error in (False, True):
        made.step("bash", {"command": "make"}, text_of(piece, _MB) + str(error), error=error)
    path = write(tmp_path, data := old(made))
    compress(path)
    for text in result_texts(entries(path.read_bytes())):
        assert marker.occurs_in(text)
        size = len(json.dumps(text, ensure_ascii=False).encode(errors="replace"))
        assert size <= BALANCED.preview_max_bytes + EAGER.result_limit
    assert compress_session(path, EAGER).lines_changed == 0
    restore_session(path, EAGER)
    assert path.read_bytes() == data


# Wrappers in results

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


# Reports of test runs

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
