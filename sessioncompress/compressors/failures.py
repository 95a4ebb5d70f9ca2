"""What a command's output says of failures: that the command failed, which tests did, and the lines that report it."""

from __future__ import annotations

import re
from functools import cache

from sessioncompress.compressors.preview import Form, Special

_EXIT = "exit"
_EXIT_STATUS = re.compile(r"\bexit(?:ed)?(?: with)?(?: code| status)?:? ?-?[1-9]\d*\W*\Z", re.IGNORECASE)
_EXIT_WITHIN = 200
_EXIT_LINE = re.compile(r"^(?:\w+ )?exit(?:ed)?(?: with)?(?: code| status)?:? [1-9]\d*$", re.IGNORECASE | re.MULTILINE)
"""Some agents say it in a line of its own above the output."""

_FAILURE = re.compile(
    r"\b(error|errors|fail|failed|failure|fatal|panic|exception|traceback|denied|not found|no such)\b|Error\b|[✗✘]",
    re.IGNORECASE,
)
_BUDGET = 320

_BEFORE = r"(?:\[[^\]\n]{1,40}\] |[\w@./-]{1,60} [\w:.-]{1,30}: |[^\t\n]{1,60}\t[^\t\n]{1,60}\t[\dT:.-]{19,30}Z )?"
"""What task runners and the logs of CI write before each line: `[test:ci] `, `core test: `, job, step and time."""

_TESTS = (
    r"[ \t]{0,40}--- FAIL: \S",  # go test
    r"=== FAIL: \S",  # gotestsum
    r"(?:FAILED|ERROR) [^\s:]{1,300}\.py(?:::|\b)",  # pytest, its summary
    r"[^\s:]{1,300}\.py::[^\n]{1,300} (?:FAILED|ERROR)\b",  # pytest -v
    r"test [^\n]{1,300} \.\.\. FAILED$",  # cargo test
    r"[ ]{0,12}FAIL \[ {0,6}[\d.]{1,9}s\] \S",  # cargo nextest
    r"[ ]{0,4}FAIL {1,2}[^\s:]{1,300}\.[cm]?[jt]sx?\b",  # jest, vitest
    r"[ \t]{0,40}[✕✗✖\u00d7] [^\n]{1,300}\d ?m?s\)?$",  # jest, vitest, node:test
    r"\(fail\) \S",  # bun test
    r"[ \t]{0,40}not ok \d{1,6} (?!.{0,300}# (?:TODO|SKIP))\S",  # TAP: node:test, bats, perl
    r"(?:FAIL|ERROR): \w{1,200} \([\w.]{1,300}\)",  # unittest
    r"(?:\[ERROR\] )?[^\n]{1,300} <<< (?:FAILURE|ERROR)!",  # Maven
    r"\S{1,200} > [^\n]{1,200} FAILED$",  # Gradle
    r"[ ]{2,4}Failed [\w.<>(),:\" ]{1,300} \[(?:< )?\d{1,6} m?s\]$",  # dotnet test
    r"rspec \./[^\s:]{1,300}:\d",  # rspec
    r"[ ]{0,8}\d{1,6}/\d{1,6} Test {1,6}#\d{1,6}: [^\n]{1,300}\*\*\*",  # ctest
)
_TESTS_OF_PHPUNIT = (r"\d{1,6}\) [\w\\]{1,200}::\w",)
_SUMMARIES = (
    r"FAIL\t\S",  # go test, of a package
    r"={3,80} (?:\d{1,7} [a-z]{1,12},? ){1,8}in [\d.]{1,9}s",  # pytest
    r"\d{1,7} failed, (?:\d{1,7} [a-z]{1,12},? ){1,8}in [\d.]{1,9}s",  # pytest -q
    r"test result: FAILED\. ",  # cargo test
    r"Tests: {1,8}\d{1,7} (?:failed|passed), ",  # jest
    r"[ ]{0,12}Tests {1,4}\d{1,7} (?:failed|passed) ",  # vitest
    r"[ ]{1,4}[1-9]\d{0,6} fail$",  # bun test
    r"[#\u2139] fail [1-9]\d{0,6}$",  # node:test
    r"FAILED \((?:failures|errors|skipped|unexpected)",  # unittest
    r"(?:\[(?:ERROR|INFO|WARNING)\] )?Tests run: \d{1,7}, Failures: ",  # Maven
    r"(?:Failed|Passed)! {1,4}- Failed: ",  # dotnet test
    r"\d{1,7} examples?, \d{1,7} failures?",  # rspec
    r"\d{1,3}% tests passed, \d{1,7} tests? failed out of \d",  # ctest
    r"Tests: \d{1,7}, Assertions: \d",  # PHPUnit
)
"""How the usual runners of tests write the line of a test that failed, and the line that sums a run up."""


_IN_TESTS = ("FAIL", "fail", "Fail", "ERROR", "not ok", "rspec ./", "✕", "✗", "✖", "\u00d7", "***")
_IN_PHPUNIT = ("::",)
_IN_SUMS = ("FAIL", "fail", "Fail", "passed", "===", ", Assertions: ")
"""One of it stands in each line of a test that failed, of one of PHPUnit's, and of a sum."""
_IN_REPORTS = (*_IN_TESTS, "passed")
"""Where none of it stands, no runner reports anything."""


_IN_MOCHA = " failing"
_MOCHA = re.compile(r"^[ ]{1,8}[1-9]\d{0,6} failing$", re.MULTILINE)
_NUMBERED = re.compile(r"^[ ]{2,20}\d{1,4}\) \S", re.MULTILINE)
"""Mocha only numbers its failed tests: where it does not sum them up, any list may look so."""


@cache
def reports() -> tuple[Form, ...]:
    """Return the forms of a failed test and of a sum, compiled when the first output has a word of them."""
    forms = ((_TESTS, _IN_TESTS), (_TESTS_OF_PHPUNIT, _IN_PHPUNIT), (_SUMMARIES, _IN_SUMS))
    return tuple(Form(re.compile(rf"^{_BEFORE}(?:{'|'.join(each)})", re.MULTILINE), words) for each, words in forms)


def lines_of(text: str, flagged: bool) -> Special | None:
    """Return which lines of an output to keep: the failed tests, then the sums of their runs; None where it has none.

    A pipe hides that a run of tests failed. Of a command that is known to have failed any line with a word of failure
    follows.
    """
    forms: tuple[Form, ...] = ()
    if any(words in text for words in _IN_REPORTS):
        forms = reports()
    if forms and _IN_MOCHA in text and _MOCHA.search(text):
        forms = (Form(_MOCHA), Form(_NUMBERED), *forms)
    kept = (*forms, Form(_FAILURE)) if failed(text, flagged) else forms
    return Special(kept, _BUDGET) if kept else None


def failed(text: str, flagged: bool) -> bool:
    """Say whether the command failed: by its error flag or by the exit status its output ends or begins with."""
    if flagged:
        return True
    first, last = text[:_EXIT_WITHIN], max(0, len(text) - _EXIT_WITHIN)
    if _EXIT in text[last:].lower() and _EXIT_STATUS.search(text, last):
        return True
    return _EXIT in first.lower() and _EXIT_LINE.search(first) is not None
