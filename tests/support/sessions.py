"""Sessions of pi with a block of each kind that is replaced, and one over the threshold."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.support import texts
from tests.support.build import PiSession, dice, image
from tests.support.runs import entries, turn, write

LOG = texts.log_lines(random.Random(1), 120)


def session(made: PiSession | None = None) -> PiSession:
    """Return a session with a result, arguments, thinking, a picture and details that are replaced."""
    made = made or PiSession()
    made.user("Go.", [image("A" * 6000)])
    made.step("bash", {"command": "make"}, LOG, thinking="Hm. " * 200)
    made.step("write", {"path": "a", "content": LOG + "!"}, "ok", details={"diff": LOG}, thinking="So. " * 200)
    made.step("bash", {"command": "make again"}, LOG + "?", thinking="Yes. " * 200)
    made.assistant(made.think("Well. " * 200), "Done.")
    return turn(made)


def reserialised(data: bytes) -> bytes:
    """Return the session as an agent writes it that loads and rewrites it with a version of its own."""
    return b"".join(json.dumps({**entry, "version": 9}).encode() + b"\n" for entry in entries(data))


def large(folder: Path, name: str = "session.jsonl") -> Path:
    """Write a session that is over the threshold, also when it has been compressed: its user says much."""
    made = PiSession()
    made.user(texts.prose(dice("quick"), 3000))
    for number in range(30):
        made.user(f"Part {number}.")
        made.step("read", {"path": f"{number}.py"}, texts.python_source(dice("quick", number), 25))
    return write(folder, turn(made, 5), name)
