"""Shorten a text to whole lines of its head and its tail, with a marker where text is left out."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from sessioncompress.core import marker

MARKER_BYTES = 110
"""Estimated bytes of a marker with its reference."""

LEAST_GAIN = 512
"""Bytes. A smaller saving isn't worth disturbing the reader."""

_HEAD_SHARE = 0.6
FIRST_SHARE = 0.75
"""The share of the budget that the first line alone may take."""
_TELLING = re.compile(r"(?P<above>(?:[^A-Za-z\n]*+(?:[A-Za-z][^A-Za-z\n]*+){0,11}\n){0,4})[^\n]*[A-Za-z][^\n]*\n?")
"""A line with at least twelve letters, and up to four others above it."""
LINE = 80
"""Characters of a line at an end of a text whose names are in an index."""
_NEAR = 40

Span = tuple[int, int]


class Form(NamedTuple):
    """The look of certain lines. If there are `words`, only lines with one of them are matched, from their beginning.

    With `last`, only the last match is kept.
    """

    pattern: re.Pattern[str]
    words: Sequence[str] = ()
    last: bool = False


class Special(NamedTuple):
    """Lines that are kept in their place: their forms, the most important first, and the bytes for all of them.

    For each line, the last field is added to its bytes.
    """

    forms: Sequence[Form]
    budget: int
    beside: int = 0


class Part(NamedTuple):
    """The part of a text to preview: a span. `tags` around it stay; `notes` in it are kept or removed whole."""

    span: Span
    tags: Sequence[Span] = ()
    notes: Sequence[Span] = ()


class Wording(NamedTuple):
    """The details of one text's marker: its reference (None: no original is kept), and if it is in arguments."""

    ref: str | None
    in_arguments: bool = False


def reference(text: str, wording: Wording, note: str = "") -> str:
    """Return only the marker, for a text that is left out completely; `note` is about the repetition."""
    return bare(_lines(text), _size(text), wording, note)


def bare(lines: int, size: int, wording: Wording, note: str = "") -> str:
    """Return only the marker, for a text of this many lines and bytes."""
    amount = marker.left_out(lines, lines, size)
    what = f"{amount}, {note}" if note else amount
    return marker.marker(what, wording.ref, in_arguments=wording.in_arguments)


def preview(text: str, budget: int, wording: Wording, *, keep: Special | None = None, part: Part | None = None) -> str:
    """Shorten a text to about `budget` bytes of head and tail, with the marker between them.

    With `keep`, some lines in between stay too, in their place. With `part`, head and tail belong to that part, and
    everything around it is left out. The first marker names the reference. A gap shorter than a marker stays, and so
    does a text whose gaps would be only white space.
    """
    part = part or Part((0, len(text)))
    first, last = part.span
    return _shortened(text, _ends(text[first:last], budget), wording, part, keep)


def outline(text: str, wording: Wording, part: Part, *, first: bool, last: bool, keep: Special | None = None) -> str:
    """Shorten a part of a text to its first meaningful line, its last one, both, or only the marker.

    With `keep`, some lines in between stay too, in their place.
    """
    start, end = part.span
    head = tail = 0
    if first and (found := _TELLING.match(text, start, min(end, start + 1_000))):
        head = found.end()
        if head - found.end("above") > LINE:
            head = between_words(text, found.end("above") + LINE, -1)
        head -= start
    if last:
        bottom = len(text[start:end].rstrip()) + start
        begins = max(text.rfind("\n", start, bottom) + 1, start + head)
        if bottom - begins > LINE:
            begins = between_words(text, bottom - LINE, 1)
        tail = end - begins if begins < bottom else 0
    return _shortened(text, (head, tail), wording, part, keep)


def _shortened(text: str, kept_ends: tuple[int, int], wording: Wording, part: Part, keep: Special | None) -> str:
    first, last = part.span
    start, end = first + kept_ends[0], last - kept_ends[1]
    for opens, ends in part.notes:
        start = opens if opens < start < ends else start
        end = ends if opens < end < ends else end
    kept = _special(text, start, end, keep) if keep else []
    gaps: list[Span] = []
    position = 0
    for begins, stops in [*sorted([(first, start), *kept, (end, last), *part.tags]), (len(text), len(text))]:
        if begins < stops or begins == len(text):
            # A marker without a reference takes this many characters.
            if begins - position >= 45:  # noqa: PLR2004
                gaps.append((position, begins))
            position = stops
    if all(text[start:end].isspace() for start, end in gaps):
        return text
    parts: list[str] = []
    position = 0
    of_lines = _lines(text)
    for start, end in gaps:
        gap = text[start:end]
        what = marker.left_out(_lines(gap), of_lines, _size(gap))
        note = marker.marker(what, wording.ref, in_arguments=wording.in_arguments)
        # Put the marker on its own line unless it cuts within one line: parts of two lines must not read as one.
        is_in_line = "\n" not in gap[:-1]
        before = "" if is_in_line or not start or text[start - 1] == "\n" else "\n"
        after = "\n" if gap.endswith("\n") or (end < len(text) and not is_in_line) else ""
        parts += [text[position:start], before, note, after]
        position, wording = end, Wording(None)
    return "".join([*parts, text[position:]])


def _lines(text: str) -> int:
    """Count the lines of a text; the last one counts with or without LF."""
    return text.count("\n") + (not text.endswith("\n"))


def _size(text: str) -> int:
    """Count the text's bytes in UTF-8. For ASCII text, which Python has flagged, no encoding is needed."""
    return len(text) if text.isascii() else len(text.encode())


def _ends(text: str, budget: int) -> tuple[int, int]:
    """Return the lengths of head and tail.

    If one has no whole line that fits, the other gets its room, or a line is cut.

    The first line stays if it leaves some room for the end: it often tells how the call ended.
    """
    if len(text) <= budget and _size(text) <= budget:
        return len(text), 0
    head = _head(text, int(budget * _HEAD_SHARE)) or _head(text[: text.find("\n") + 1], int(budget * FIRST_SHARE))
    tail = _tail(text, head, budget - _size(text[:head]))
    if not tail:
        head = _head(text, budget)
    spare = budget - _size(text[:head]) - _size(text[len(text) - tail :])
    if (head and tail) or spare <= budget // 2:
        return head, tail
    if not head:
        head = _head(text, spare) or _cut(text, spare if tail else int(spare * _HEAD_SHARE))
        spare -= _size(text[:head])
    return head, tail or _cut(text[head:], spare, from_end=True)


def _head(text: str, budget: int) -> int:
    """Return the length of the whole lines at the beginning that fit."""
    end = text.rfind("\n", 0, budget) + 1
    while end and _size(text[:end]) > budget:
        end = text.rfind("\n", 0, end - 1) + 1
    return end


def _tail(text: str, head: int, budget: int) -> int:
    """Return the length of the whole lines at the end that fit."""
    start = text.find("\n", max(head, len(text) - budget - 1), len(text) - 1) + 1
    while start and _size(text[start:]) > budget:
        start = text.find("\n", start, len(text) - 1) + 1
    return len(text) - start if start else 0


def _cut(text: str, budget: int, *, from_end: bool = False) -> int:
    """Count the whole characters that fit into this many bytes."""
    # Less of a line tells nothing.
    if budget < 12:  # noqa: PLR2004
        return 0
    data = (text[-budget:] if from_end else text[:budget]).encode()
    count = len((data[-budget:] if from_end else data[:budget]).decode(errors="ignore"))
    return len(text) - between_words(text, len(text) - count, 1) if from_end else between_words(text, count, -1)


def between_words(text: str, at: int, step: int) -> int:
    """Move a cut out of a word, a path, a URL and, if possible, a quoted string; it stays if no place is near."""
    # Quotes are counted only in the 500 characters before the cut.
    begins = max(text.rfind("\n", 0, at) + 1, at - 500)
    near = range(at, min(max(at + _NEAR * step, 0), len(text)), step)
    # A cut after one of these is not inside a word, path or URL.
    places = [place for place in near if 0 < place < len(text) and text[place - 1] in " \t\n,;|"]
    return next((place for place in places if text.count('"', begins, place) % 2 == 0), places[0] if places else at)


_CODE = re.compile(r"\\u00([2-7][0-9a-fA-F])")
_COLOR, _MOVES = re.compile(r"\x1b\[[0-9;]{0,20}m"), re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_TIMED = re.compile(
    r"^(?:[^\t\n]{1,100}\t[^\t\n]{1,100}\t)?\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z ?", re.MULTILINE
)
"""The job, step and time before each line of a CI log."""


def said(text: str) -> str:
    """Convert a result to plain text: unescape JSON with mostly escaped line breaks, drop colors and CI's times."""
    # Up to three levels of JSON inside JSON.
    for depth in range(3):
        # JSON in JSON has escaped quotes.
        if depth and '\\"' not in text:
            break
        if not text.lstrip().startswith(("{", "[", '"')) or text.count("\\n") <= text.count("\n"):
            break
        # Escaped backslashes first, because nothing after them is escaped.
        text = text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
        text = _CODE.sub(lambda each: chr(int(each[1], 16)), text).replace("\0", "\\").rstrip('"}] \n')
    if "\x1b" in text:
        # Cursor movements separate words.
        text = _MOVES.sub(" ", _COLOR.sub("", text))
    return _TIMED.sub("", text) if _TIMED.match(text) else text


def differing(text: str, other: str) -> tuple[Span, Span]:
    """Return the span of the lines that differ from another text: alone, and with a common line on each side."""
    if text == other:
        return (0, len(text)), (0, len(text))
    mine, others = text.split("\n"), other.split("\n")
    most = min(len(mine), len(others))
    before = behind = 0
    while before < most and mine[before] == others[before]:
        before += 1
    while behind < most - before and mine[-1 - behind] == others[-1 - behind]:
        behind += 1

    def without(before: int, behind: int) -> Span:
        end = len(text) - sum(len(line) + 1 for line in mine[len(mine) - behind :])
        return sum(len(line) + 1 for line in mine[:before]), end + 1 if behind else end

    return without(before, behind), without(max(before - 1, 0), max(behind - 1, 0))


def _special(text: str, start: int, end: int, keep: Special) -> list[Span]:
    """Return the whole lines between head and tail that are kept, as many as their budget holds.

    If it holds none of them, part of the first one stays.
    """
    found: set[Span] = set()
    left = keep.budget
    too_long: Span | None = None
    # The remainders of lines that are cut at both ends are not lines.
    if start and text[start - 1] != "\n":
        start = text.find("\n", start, end) + 1 or end
    if end < len(text) and text[end - 1] != "\n":
        end = max(text.rfind("\n", 0, end) + 1, start)
    begin: dict[Sequence[str], list[int]] = {}
    for form in keep.forms:
        if form.words and form.words not in begin:
            begin[form.words] = _lines_with(form.words, text, start, end)
        spans = _lines_like(form.pattern, text, start, end, begin.get(form.words))
        for span in deque(spans, 1) if form.last else spans:
            size = _size(text[span[0] : span[1]]) + keep.beside
            if size <= left and span not in found:
                found.add(span)
                left -= size
            elif too_long is None:
                too_long = _part_of_line(form.pattern, text, span)
            if left <= keep.beside:
                return sorted(found)
    return sorted(found or ([too_long] if too_long else []))


def _part_of_line(pattern: re.Pattern[str], text: str, line: Span) -> Span | None:
    """Return what stays of a line that is too long: its beginning, or the text from the pattern's match on."""
    start, end = line
    if (match := pattern.search(text, start, end)) is None:
        return None
    if match.end() - start > LINE:
        start = between_words(text, match.start(), -1)
    return start, min(between_words(text, min(start + 2 * LINE, end), -1), end)


def _lines_like(
    pattern: re.Pattern[str], text: str, start: int, end: int, begin: Sequence[int] | None
) -> Iterator[Span]:
    """Yield the matching lines of a part of a text, in order; with `begin`, only lines that begin there."""
    position = start
    if begin is None:
        while match := pattern.search(text, position, end):
            first = text.rfind("\n", 0, match.start()) + 1
            position = text.find("\n", match.end()) + 1 or len(text)
            yield first, position
        return
    for first in begin:
        if first >= position and (match := pattern.match(text, first, end)):
            position = text.find("\n", match.end()) + 1 or len(text)
            yield first, position


def _lines_with(words: Sequence[str], text: str, start: int, end: int) -> list[int]:
    found: set[int] = set()
    for word in words:
        at = text.find(word, start, end)
        while at >= 0:
            found.add(text.rfind("\n", 0, at) + 1)
            behind = text.find("\n", at + len(word), end)
            at = text.find(word, behind, end) if behind >= 0 else -1
    return sorted(found)


_EXIT = "exit"
_EXIT_STATUS = re.compile(r"\bexit(?:ed)?(?: with)?(?: code| status)?:? ?-?[1-9]\d*\W*\Z", re.IGNORECASE)
_EXIT_WITHIN = 200
_EXIT_LINE = re.compile(r"^(?:\w+ )?exit(?:ed)?(?: with)?(?: code| status)?:? [1-9]\d*$", re.IGNORECASE | re.MULTILINE)
"""Some agents report it on its own line above the output."""

_FAILURE = re.compile(
    r"\b(error|errors|fail|failed|failure|fatal|panic|exception|traceback|denied|not found|no such)\b|Error\b|[✗✘]",
    re.IGNORECASE,
)
_BUDGET = 320

_BEFORE = r"(?:\[[^\]\n]{1,40}\] |[\w@./-]{1,60} [\w:.-]{1,30}: |[^\t\n]{1,60}\t[^\t\n]{1,60}\t[\dT:.-]{19,30}Z )?"
"""Prefixes that task runners and CI logs write before each line: `[test:ci] `, `core test: `, job, step and time."""

_REPORTED = re.compile(
    rf"^{_BEFORE}[ \t]{{0,40}}(?:E {{1,4}})?(?:##\[error\]|[\w.:]{{0,80}}(?:Error|Exception)\b[:(]|"
    r"FAILED\b|ERROR\b|Traceback \(|[^\s:]{1,300}:(?:\d{1,6}:){0,2} (?:\w{0,80}(?:Error|Exception)|error)\b|X [^\W_]|"
    r"(?:error(?:\[\w{1,12}\])?|fatal|panic): |[^\n]{0,60}\b(?:timed out|[Tt]imeout of \d))",
    re.MULTILINE,
)
"""The beginning of a line that reports a failure, rather than naming one. Without any, a word of failure suffices."""

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
    r"[ ]{2,4}\d{1,4}\) \[[^\]\n]{1,60}\] \u203a \S",  # Playwright
    r"##\[error\]\S",  # GitHub Actions
)
_TESTS_OF_PHPUNIT = (r"\d{1,6}\) [\w\\]{1,200}::\w",)
_SUMMARIES = (
    r"FAIL\t\S",  # go test, of a package
    r"={3,80} (?:\d{1,7} [a-z]{1,12},? ){1,8}in [\d.]{1,9}s",  # pytest
    r"\d{1,7} failed, (?:\d{1,7} [a-z]{1,12},? ){1,8}in [\d.]{1,9}s",  # pytest -q
    r"[ ]{2,4}[1-9]\d{0,6} failed$",  # Playwright
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
_PASSES = (
    r"test result: ok\. ",  # cargo test
    r"\d{1,7} passed(?:, \d{1,7} [a-z]{1,12}){0,8} in [\d.]{1,9}s",  # pytest -q
    r"[ ]{2,4}\d{1,7} passed \(",  # Playwright
    r"[ ]{1,4}[1-9]\d{0,6} pass$",  # bun test
    r"[#\u2139] pass [1-9]\d{0,6}$",  # node:test
    r"Ran \d{1,7} tests? in ",  # unittest
)
"""The lines with which common test runners report a failed test, and sum up a run."""

_IN_TESTS = (
    *("FAIL", "fail", "Fail", "ERROR", "not ok", "rspec ./", "✕", "✗", "✖", "\u00d7", "***", "] \u203a "),
    "##[error]",
)
_IN_PHPUNIT = ("::",)
_IN_SUMS = ("FAIL", "fail", "Fail", "passed", "===", ", Assertions: ")
_IN_PASSES = ("passed", " pass", "Ran ")
"""Each line about a failed test, PHPUnit's, and each sum contains one of these."""
_IN_REPORTS = (*_IN_TESTS, *_IN_PASSES)
"""Without any of these, no test runner reports anything."""

_MOCHA = re.compile(r"^[ ]{1,8}[1-9]\d{0,6} failing$", re.MULTILINE)
_NUMBERED = re.compile(r"^[ ]{2,20}\d{1,4}\) \S", re.MULTILINE)
"""Mocha only numbers its failed tests: without its sum, any list may look like that."""


@cache
def reports() -> tuple[Form, ...]:
    """The forms of failed tests and of sums, compiled when the first output contains one of their words."""
    forms = ((_TESTS, _IN_TESTS), (_TESTS_OF_PHPUNIT, _IN_PHPUNIT), (_SUMMARIES, _IN_SUMS), (_PASSES, _IN_PASSES))
    patterns = ((re.compile(rf"^{_BEFORE}(?:{'|'.join(each)})", re.MULTILINE), words) for each, words in forms)
    return tuple(Form(pattern, words, last=words is _IN_PASSES) for pattern, words in patterns)


def lines_of(text: str, flagged: bool) -> Special | None:
    """Return the lines of an output to keep: failed tests, then the sums of runs; None if there are none.

    A pipe may hide that a test run failed. If the command is known to have failed, lines that report a failure follow,
    or else lines with a word of failure.
    """
    forms: tuple[Form, ...] = ()
    missing = {words for words in _IN_REPORTS if words not in text}
    if len(missing) < len(_IN_REPORTS):
        # Words that are missing are not searched for again.
        left = (form._replace(words=tuple(words for words in form.words if words not in missing)) for form in reports())
        forms = tuple(form for form in left if form.words)
    if forms and " failing" in text and _MOCHA.search(text):
        forms = (Form(_MOCHA), Form(_NUMBERED), *forms)
    kept = (*forms, Form(_REPORTED if _REPORTED.search(text) else _FAILURE)) if failed(text, flagged) else forms
    return Special(kept, _BUDGET) if kept else None


def failed(text: str, flagged: bool) -> bool:
    """True if the command failed, by its error flag, or by the exit status at the end or beginning of its output."""
    if flagged:
        return True
    first, last = text[:_EXIT_WITHIN], max(0, len(text) - _EXIT_WITHIN)
    if _EXIT in text[last:].lower() and _EXIT_STATUS.search(text, last):
        return True
    return _EXIT in first.lower() and _EXIT_LINE.search(first) is not None


_NOTE, _NOTE_ENDS = "<system-reminder>", "</system-reminder>"
"""Claude Code's notes to the model, on their own lines above or below a result."""

_AROUND = (
    ("<persisted-output>", "<persisted-output>", "</persisted-output>"),
    ("<tool_use_error>", "<tool_use_error>", "</tool_use_error>"),
    ("<retrieval_status>", "<output>", "</output>"),
    (_NOTE, _NOTE, _NOTE_ENDS),
    ("<untrusted_context>", "<untrusted_context>", "</untrusted_context>"),
    ("<path>", "<content>", "</content>"),
    ("<path>", "<entries>", "</entries>"),
    ("<file>", "<file>", "</file>"),
)
"""The frames that agents put around a whole result: its beginning, the opening tag, the closing tag."""

NAMED = ("<path>", "<file>")
"""Begins OpenCode's frame of a file that was read. The call names the file: a preview shows only the content."""


def own_part(text: str) -> Part:
    """Return the result itself in a text: without the agent's notes at its ends, and inside the tags around it."""
    notes = _notes(text)
    first, last = 0, len(text)
    while notes and not text[first : notes[0][0]].strip():
        first = notes.popleft()[1]
    while notes and not text[notes[-1][1] : last].strip():
        last = notes.pop()[0]
    if first >= last or not text[first:last].strip():
        return _inside(text, 0, len(text), ())
    if first:
        first = last - len(text[first:last].lstrip("\n"))
    if last < len(text):
        last = first + len(text[first:last].rstrip("\n")) + 1
    return _inside(text, first, last, notes)


def _notes(text: str) -> deque[Span]:
    """Return the notes, each beginning at a line's beginning; a tag without its counterpart is content."""
    found: deque[Span] = deque()
    end = 0
    while True:
        start = 0 if not end and text.startswith(_NOTE) else text.find("\n" + _NOTE, end) + 1 or -1
        close = text.find(_NOTE_ENDS, start) if start >= 0 else -1
        if close < 0:
            return found
        end = close + len(_NOTE_ENDS)
        # If several tags open, the last one is the note's.
        found.append((max(start, text.rfind("\n" + _NOTE, start, close) + 1), end))


def _inside(text: str, first: int, last: int, notes: Iterable[Span]) -> Part:
    """Narrow the part to the text inside the tags around it, if there are any; the tags stay."""
    end = first + len(text[first:last].rstrip())
    for begins, opens, closes in _AROUND:
        if text.startswith(begins, first) and text.endswith(closes, first, end):
            # That tag is near the beginning.
            start = text.find(opens, first, first + 4_500) + len(opens)
            start += text.startswith("\n", start)
            stop = end - len(closes)
            if len(opens) <= start - first and start < stop:
                return Part((start, stop), ((first, start), (stop, last)), tuple(notes))
    return Part((first, last), (), tuple(notes))
