"""Steps of everyday work on an invented program, for stories that need many of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.support import texts
from tests.support.blocks import dice
from tests.support.workspace import Workspace

_LEADS: Sequence[str] = (
    "The next piece is {file}. I want to see who calls it before I touch it.",
    "That matches what I expected, so I can go on with {file}.",
    "Two callers are left. {file} is the smaller one, so it goes first.",
    "I should run the tests again before {file} changes any further.",
    "The name in {file} says one thing and the code does another; I'll keep the behaviour and fix the name.",
    "Let me check the log as well, in case {file} fails only under load.",
    "{file} still uses the old form. The change is mechanical, but the order matters.",
    "Nothing else imports {file} at module level, so there is no cycle to fear.",
    "The diff is getting long. I'll finish {file} and then look at it as a whole.",
    "One more place: {file} keeps a copy of the same value.",
)
_SAID: Sequence[str] = (
    "Now {file}.",
    "Next, {file}.",
    "That was the last caller; on to {file}.",
    "I'll look at {file} before I change anything.",
    "The tests are green, so I go on with {file}.",
)
_COMMANDS: Sequence[tuple[str, Callable[[random.Random, int], str]]] = (
    ("python -m pytest tests -q", lambda rng, size: texts.pytest_run(rng, 4 + size // 75)),
    ("tail -100 logs/service.log", lambda rng, size: texts.log_lines(rng, 2 + size // 115)),
    ("grep -rn 'store' src tests", lambda rng, size: texts.grep_output(rng, 2 + size // 70)),
    ("ls -la src/tidewatch", lambda rng, size: texts.listing(rng, 3 + size // 66)),
    ("find . -newer pyproject.toml -type f", lambda rng, size: texts.find_output(rng, 2 + size // 42)),
    ("git log --oneline | head -40", lambda rng, size: texts.git_log(rng, 2 + size // 45)),
    ("python -m tidewatch dump --json", lambda rng, size: texts.json_document(rng, 2 + size // 85)),
    ("cat data/sample.csv", lambda rng, size: texts.csv_rows(rng, 3 + size // 45)),
)


class Routine:
    """Does one piece of work after another, never twice the same."""

    def __init__(self, desk: Workspace, seed: str, size: int = 2000) -> None:
        self.desk, self.size = desk, size
        self._rng = dice(seed, "chores")

    def steps(self, count: int) -> None:
        for _ in range(count):
            self._step()

    def _step(self) -> None:
        file = self._rng.choice(sorted(name for name in self.desk.files if name.endswith(".py")))
        said = self._talk(file)
        roll = self._rng.random()
        if roll < 0.46:
            command, make = self._rng.choice(_COMMANDS)
            self.desk.bash(command, make(self._rng, self._around()), **said)
        elif roll < 0.8:
            lines = self.desk.files[file].count("\n")
            limit = max(20, self._around() // 32)
            self.desk.read(file, offset=self._rng.randint(1, max(1, lines - limit)), limit=limit, **said)
        elif roll < 0.9:
            self.desk.edit(file, [self._change(file)], **said)
        else:
            name = f"src/tidewatch/{texts.heading(self._rng).lower().replace(' ', '_')}.py"
            self.desk.write(name, texts.python_source(self._rng, 1 + self._around() // 480), **said)

    def _around(self) -> int:
        """Return a size: mostly small, now and then large."""
        return int(self.size * self._rng.choice((0.15, 0.3, 0.5, 0.8, 1.0, 1.4, 3.0)))

    def _talk(self, file: str) -> dict[str, Any]:
        roll = self._rng.random()
        if roll < 0.25:
            return {"text": self._rng.choice(_SAID).format(file=f"`{file}`")}
        if roll < 0.6:
            lead = self._rng.choice(_LEADS).format(file=file)
            return {"thinking": f"{lead}\n\n{texts.prose(self._rng, self._rng.randint(1, 7))}"}
        return {}

    def _change(self, file: str) -> tuple[str, str]:
        """Return one part of a file and what stands there afterwards."""
        parts = self.desk.files[file].split("\n\n\n")
        once = [part for part in parts[1:] if self.desk.files[file].count(part) == 1 and len(part) > 80]
        old = self._rng.choice(once)
        new = texts.python_source(self._rng, 1).split("\n\n\n", 1)[1].rstrip("\n")
        return old, f"{old}\n\n\n{new}" if self._rng.random() < 0.4 else new
