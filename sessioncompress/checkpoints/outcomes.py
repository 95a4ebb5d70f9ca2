"""How a call ended, as its result says it: the verdict, and the one line that reports most."""

from __future__ import annotations

import re
from typing import NamedTuple

from sessioncompress.checkpoints.quote import clean, one_line
from sessioncompress.compressors import preview

_HEAD, _TAIL = 2_000, 6_000
"""Characters of a result in which its line is looked for."""
_LONGEST = 400
_REPORTS = re.compile(
    r"\b[0-9]{1,7} (?:passed|failed|errors?|warnings?|tests?|problems?)\b|\bok\b|\bFAIL|PASS|\berror:|[Ee]xit code|"
    r"Success|succeeded|built in|\[[\w/.-]{1,80} [0-9a-f]{7,40}\]|https?://\S{1,200}/(?:pull|issues)/[0-9]"
)
_FAILURE = re.compile(
    r"\b(?:error|exception|failed|failure|fatal|panic|traceback|cannot|denied|not found|no such|undefined|refused)\b|"
    r"Error\b|FAIL|[\u2717\u2718]",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"(?:Output:|\(no output\)|\(?\w{1,20} completed with no output\)?|Exit code [0-9]+|Chunk ID: .*|Wall time: .*|"
    r"Original token count: .*|\[Showing lines .*|(?:Process|Command) running .*|"
    r"Traceback(?: \(most recent call last\))?:?|\(?(?:Command|Process) exited with code -?[0-9]+\)?|"
    r"[<\u2039][^>]{0,40}>|(?:Process Group |Background )?PG?IDs?: [0-9, ]{1,80}|User aborted the command|"
    r"\"?status\"?: .{0,40}|[^\w]*)",
    re.IGNORECASE,
)
_FRAME = " =\u2500\u2550"
"""What some put around a line so that it stands out."""
_CODE = re.compile(r".*[;{},]|return\b.*", re.DOTALL)
_BARE = re.compile(r"[a-z_]{1,24}")
"""A line of code, and a word that says nothing of a failure."""
HIDDEN = "ended with"
"""Stands for a verdict where the exit status is not that of the command."""


class Outcome(NamedTuple):
    """A verdict, and the ends of the result's text: most of them are never shown, so a line is found when asked for."""

    verdict: str
    text: str = ""

    @property
    def failed(self) -> bool:
        """Whether the agent knew of a failure."""
        return self.verdict == "failed"

    def line(self) -> str:
        """Find the line of the result that says most; empty where none says anything."""
        lines = [line for each in clean(self.text).split("\n") if (line := each[:_LONGEST].strip(_FRAME))]
        # What an agent puts around a result says nothing.
        lines = [line for line in lines if not _NOISE.fullmatch(line.strip())]
        best = next((line for line in reversed(lines) if _REPORTS.search(line)), "")
        lines = [line for line in lines if not _CODE.fullmatch(line)]
        if self.failed:
            lines = [line for line in lines if not _BARE.fullmatch(line) or _FAILURE.search(line)]
        if self.failed and not best:
            best = next((line for line in lines if _FAILURE.search(line)), "")
        return one_line(best or (lines[-1] if lines else ""), 150)

    def written(self) -> str:
        """Write it behind a call."""
        if line := self.line():
            return f"{self.verdict}: > {line}"
        return f"{self.verdict} nothing" if self.verdict == HIDDEN else self.verdict


def outcome(text: str, failed: bool | None, *, hidden: bool) -> Outcome:
    """Read how a call ended; `hidden` is whether its exit status is that of something else, as behind a pipe."""
    bad = preview.failed(text, flagged=False) if failed is None else failed
    ends = text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    return Outcome("failed" if bad else HIDDEN if hidden else "ok", ends)
