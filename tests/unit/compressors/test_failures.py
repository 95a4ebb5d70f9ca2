"""Failures: what a command's output says of them, by the forms in which the usual runners of tests report."""

from __future__ import annotations

import random
import time

import pytest

from sessioncompress.compressors.preview import Wording, failed, lines_of, preview, said
from tests.support import texts

LOG = texts.log_lines(random.Random(1), 120)
BEFORE, BEHIND = "begin\n" + "it runs and runs\n" * 60, "it runs and runs\n" * 60 + "end\n"

ENDINGS = [
    ("Command exited with code 2", True),
    ("exit code: 1\n", True),
    ("Exit status 127.", True),
    ("exited -1", True),
    ("(Command exited with code 1)", True),
    ("Command exited with code 0", False),
    ("exit code 10 was seen before\nall fine", False),
    ("exit code 1" + " fine" * 60, False),
    ("", False),
]


@pytest.mark.parametrize(("end", "expected"), ENDINGS)
def test_a_command_failed_by_its_flag_or_by_the_status_at_its_end(end: str, expected: bool) -> None:
    """Only there, however long the output is."""
    assert failed(LOG + "\n" + end, flagged=False) == expected
    assert failed(end, flagged=True)


LEFT_ALONE = [
    'fmt.Println("--- FAIL: TestTide (0.00s)")',
    "logs/ci.log:12:--- FAIL: TestTide (0.00s)",
    "+--- FAIL: TestTide (0.00s)",
    "    return 'not ok 3 - tide'",
    "not ok 3 - tide # TODO later",
    "not ok 3 - tide # SKIP no gauge",
    "ok 3 - tide",
    "the build FAILED yesterday",
    "FAILED to fetch metadata",
    "ERROR in src/tide.ts",
    "test tide ... ok",
    "  \u00d7 Formatter would have printed the following content:",
    "  1) Tides",
    "0 fail",
    " 0 fail",
    "# fail 0",
    "Tests: none",
    "error: nothing was found",
    'x = "Tests run: 3, Failures: 1"',
    "fatal: not a git repository",
    "  X Run cargo build --profile serious",
]
"""Lines that stay out of a preview of a command that is not known to have failed."""

REPORTED = [
    "--- FAIL: TestTide (0.00s)",
    "    --- FAIL: TestTide/low (0.00s)",
    "[test:ci] --- FAIL: TestTide (0.00s)",
    "test (ubuntu-latest)\tUnit Tests\t2026-07-14T14:03:52.0047503Z --- FAIL: TestTide (0.01s)",
    "=== FAIL: tide TestTide (0.00s)",
    "FAIL\texample.org/tide\t0.183s",
    "FAIL\texample.org/tide [build failed]",
    "FAILED tests/test_tide.py::test_low - assert 1 == 2",
    "ERROR tests/test_tide.py",
    "tests/test_tide.py::test_low FAILED                [ 50%]",
    "========= 1 failed, 3 passed in 0.12s =========",
    "============================== 22 passed in 2.36s ==============================",
    "1 failed, 3 passed in 0.12s",
    "test tide::low ... FAILED",
    "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
    "        FAIL [   0.012s] tide low::tests::ebb",
    "FAIL src/tide.test.ts",
    " FAIL  src/tide.test.ts > low > is low",
    "    ✕ is low (5 ms)",
    "   \u00d7 low > is low 12ms",
    "✖ is low (1.2345ms)",
    "Tests:       1 failed, 3 passed, 4 total",
    "      Tests  1 failed | 3 passed (4)",
    "(fail) tide > is low [1450.98ms]",
    "@tide/core test: (fail) tide > is low [1450.98ms]",
    " 3 fail",
    "  2 failing",
    "not ok 3 - is low",
    "    not ok 1 - is low",
    "# fail 1",
    "\u2139 fail 1",
    "FAIL: test_low (tests.test_tide.Tide)",
    "ERROR: test_low (tests.test_tide.Tide.test_low)",
    "FAILED (failures=1)",
    "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0",
    "[ERROR] org.example.TideTest.low  Time elapsed: 0.01 s  <<< FAILURE!",
    "TideTest > isLow() FAILED",
    "  Failed Tide.Tests.IsLow [12 ms]",
    "Failed!  - Failed:     1, Passed:     3, Skipped:     0, Total:     4",
    "rspec ./spec/tide_spec.rb:3 # Tide is low",
    "4 examples, 1 failure",
    " 2/10 Test  #2: tide.low .........................***Failed    0.01 sec",
    "90% tests passed, 1 tests failed out of 10",
    "Tests: 4, Assertions: 9, Failures: 1.",
]


SUMS = [
    "test result: ok. 68 passed; 0 failed; 0 ignored",
    "68 passed in 1.20s",
    "68 passed, 2 skipped in 1.20s",
    "  68 passed (1.2m)",
    " 68 pass",
    "# pass 68",
    "Ran 68 tests in 0.1s",
]


@pytest.mark.parametrize("line", SUMS)
def test_a_run_that_passed_keeps_its_last_sum(line: str) -> None:
    """Of many, as of a workspace, the last."""
    text = f"{BEFORE}{line.replace('68', '67')}\n{BEHIND}{line}\n{BEHIND}"
    new = preview(text, 160, Wording(None), keep=lines_of(text, flagged=False))
    assert f"\n{line}\n" in new
    assert "67" not in new


CI = "E2E tests\tRun them\t2026-02-13T13:21:48.6147414Z "
REPORTS = [
    "  1) [chromium] \u203a tests/tide.spec.ts:56:7 \u203a Tide \u203a is low",
    "    Test timeout of 30000ms exceeded.",
    "    Error: page.waitForURL: the page was closed",
    "  1 failed",
    "X Run cargo build --profile serious",
    "##[error]Process completed with exit code 1.",
]


@pytest.mark.parametrize(
    "prefix", ["", CI, CI.rpartition("\t")[2], f"\x1b[31m{CI}"], ids=["none", "job", "time", "color"]
)
def test_a_log_of_ci_keeps_what_its_runners_report(prefix: str) -> None:
    """Not a warning that has a word of failure in its middle."""
    log = [*[f"it runs {each}" for each in range(60)], "WARN the worker's request failed: HTTP 404"]
    log += [*[f"it runs {each}" for each in range(60)], *REPORTS]
    text = said("\n".join(prefix + each for each in log))
    new = preview(text, 160, Wording(None), keep=lines_of(text, flagged=True))
    assert [each for each in REPORTS if each in new] == REPORTS
    assert "WARN" not in new
    assert "2026-" not in new


def kept(line: str, *, flagged: bool = False) -> bool:
    """Say whether a line in the middle of a long output stays in its preview."""
    text = f"{BEFORE}{line}\n{BEHIND}"
    return f"\n{line}\n" in preview(text, 160, Wording(None), keep=lines_of(text, flagged))


@pytest.mark.parametrize("line", LEFT_ALONE)
def test_what_only_looks_like_a_report_goes(line: str) -> None:
    """Source code, a search over logs, a linter, a word alone."""
    assert not kept(line)


@pytest.mark.parametrize("line", REPORTED)
@pytest.mark.parametrize("flagged", [False, True], ids=["piped", "failed"])
def test_what_a_runner_reports_stays(line: str, flagged: bool) -> None:
    """Whether or not the command is known to have failed."""
    assert kept(line, flagged=flagged)


REASON = "since the gauge says something else " * 12
LONG = [
    ("from its beginning", f"src/tide.ts:4: error: {REASON}\n", "src/tide.ts:4: error: since the gauge"),
    ("a failed test of a runner", f"--- FAIL: TestTide {REASON}\n", "--- FAIL: TestTide since the gauge"),
    ("from the word on", f"{'a word ' * 60}error: {REASON}\n", "]]\nerror: since the gauge"),
    (
        "in other letters",
        "\u6f6e" * 30 + "\n" + "\u6c34 " * 300 + "error: " + "\u6c34 " * 300 + "\n",
        "]]\nerror: \u6c34 ",
    ),
]


@pytest.mark.parametrize(("line", "stays"), [row[1:] for row in LONG], ids=[row[0] for row in LONG])
def test_of_failures_that_are_all_too_long_a_part_of_the_first_stays(line: str, stays: str) -> None:
    text = BEFORE + line * 3 + BEHIND
    new = preview(text, 160, Wording("a" * 12), keep=lines_of(text, flagged=True))
    assert new.count(stays) == 1
    assert len(new) < 160 + 2 * 80 + 300
    short = "tide.ts: error: too short\n"
    text = BEFORE + line * 3 + short + BEHIND
    new = preview(text, 160, Wording("a" * 12), keep=lines_of(text, flagged=True))
    assert short in new
    assert stays not in new


@pytest.mark.parametrize(
    "unit",
    [
        *("a", " ", "\n", "=", "1 ", "1", ":", "a.py::", "test ", "[", "\t", "a\t", "FAIL ", "not ok 1 ", "1 failed, "),
        *("test a ... ", "FAIL: a (", "a > ", "  1) ", "✕ 1", "FAILED ", "--- FAIL: \n", "exit code ", "\n  "),
    ],
    ids=repr,
)
def test_the_time_grows_with_the_text(unit: str) -> None:
    """Eight times the text, far less than sixty-four times the time."""
    small, large = (spent("passed FAIL" + unit * (size // len(unit))) for size in (100_000, 800_000))
    assert large < max(small, 0.005) * 30


def spent(text: str) -> float:
    start = time.process_time()
    preview(text, 160, Wording(None), keep=lines_of(text, flagged=True))
    return time.process_time() - start
