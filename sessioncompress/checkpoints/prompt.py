"""What a model is given to sum up: the newest of what was said, as data between tags that nothing in it can close."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from sessioncompress.checkpoints.notes import NOTHING, Besides
from sessioncompress.checkpoints.quote import clean, clip, lines_left_out, one_line
from sessioncompress.core.checkpoint import Said, Say
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, counted

_RESULT = 800
"""Characters of a result that are sent, half of them from its end."""
_FOR_BEFORE = 0.25
"""The share of the room that a previous summary takes at most."""
_FOR_WORDS = 0.05
"""And the goal, the instructions, and what a command of the user's adds."""
_NAMES = {Say.PROMPT: "user", Say.ANSWER: "agent", Say.RESULT: "result"}
_PROSE = 0.6
"""The share of a summary that a model is asked for: the facts take the rest."""
_CHARACTERS_PER_WORD = 6


class Prompt(NamedTuple):
    """What a model is asked: what it is to do, and the data."""

    system: str
    data: str

    @property
    def whole(self) -> str:
        """Both in one text, for what takes only one."""
        return f"{self.system}\n\n{self.data}"


class Conversation:
    """The newest of what was said that fits into so many tokens; `redact` takes out what must not be sent."""

    def __init__(self, tokens: int, redact: Callable[[str], str]) -> None:
        self._room = tokens * CHARACTERS_PER_TOKEN
        self._redact = redact
        self._said: deque[str] = deque()
        self._size = 0
        self._gone = 0
        self._before = ""

    def take(self, said: Said) -> None:
        """Take what was said next. What stands before an earlier summary is in that, or of a branch that was left."""
        if said.say in (Say.SUMMARY, Say.FOREIGN):
            before = self._shortened(said.text, int(self._room * _FOR_BEFORE))
            self._before = f"{self._before}\n\n{before}"[-int(self._room * _FOR_BEFORE) :].lstrip()
            return
        if said.say is Say.CALL:
            # Of a call's arguments the first strings are shown, in one line.
            given = map(self._harmless, islice(said.contents(), 8))
            text = f"[call] {one_line(said.tool, 60)}: {one_line(' | '.join(given), 400)}"
        elif said.say is Say.RESULT:
            failed = ", failed" if said.failed else ""
            text = f"[result{failed}] {self._ends(said.text)}"
        else:
            text = f"[{_NAMES[said.say]}] {self._shortened(said.text, self._room // 2)}"
        self._said.append(text)
        self._size += len(text) + 2
        # Two parts at least: each is at most half of it.
        while self._size > self._room and len(self._said) > 1:
            self._size -= len(self._said.popleft()) + 2
            self._gone += 1

    @property
    def has_before(self) -> bool:
        """Whether an earlier summary is among it."""
        return bool(self._before)

    def data(self, budget: int, besides: Besides = NOTHING, *, system: str = "") -> str:
        """Write what a model is given besides its prompt `system`, for a summary of so many tokens."""
        words = int(budget * _PROSE * CHARACTERS_PER_TOKEN) // _CHARACTERS_PER_WORD
        wanted = f"Sum this up in at most {words:,} words."
        most = int(self._room * _FOR_WORDS)
        given = (besides.goal, besides.instructions, "\n\n".join(besides.context))
        goal, instructions, context = (self._shortened(each, most) for each in given)
        fixed = len(self._before) + len(goal) + len(instructions) + len(context) + len(system) + 400
        said, gone = self._said.copy(), self._gone
        size = self._size
        while said and size + fixed > self._room and len(said) > 1:
            size -= len(said.popleft()) + 2
            gone += 1
        if gone:
            said.appendleft(f"[{counted(gone, 'entry', 'entries')} before this left out]")
        parts = [_tagged("previous-summary", self._before)] if self._before else []
        parts.append(_tagged("conversation", "\n\n".join(said)))
        if context:
            parts.append(_tagged("added_context", context))
        if goal:
            parts.append(_tagged("current_goal", goal))
        parts.append(_tagged("instructions", f"{instructions}\n{wanted}".strip()))
        return "\n\n".join(parts) + "\n"

    def _harmless(self, text: str) -> str:
        """Redact a text, and again without the escapes and signs nobody sees that may stand in what is to be found."""
        return self._redact(clean(self._redact(text)))

    def _ends(self, text: str) -> str:
        text = self._harmless(text)
        if len(text) <= _RESULT:
            return text
        head, tail = text[: _RESULT // 2], text[-_RESULT // 2 :]
        between = text.count("\n") - head.count("\n") - tail.count("\n")
        return f"{head}\n{lines_left_out(max(between, 1))}\n{tail}"

    def _shortened(self, text: str, most: int) -> str:
        """Take a text whole; of one that is too long, whole lines from head and tail."""
        text = self._harmless(text)
        if len(text) <= most:
            return text
        if len(text) > 4 * most:
            text = f"{text[: 2 * most]}\n{text[-2 * most :]}"
        return "\n".join(clip([one_line(line, most) for line in text.split("\n")], most))[:most]


def _tagged(name: str, text: str) -> str:
    return f"<{name}>\n{text}\n</{name}>"
