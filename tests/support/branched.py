"""A session of pi with two branches: one was tried first, and the session is on the other one."""

from __future__ import annotations

from typing import NamedTuple

from tests.support.session import PiSession


class Branched(NamedTuple):
    """The session, the entry at which its branches part, the ends of both, and how many lines stand before the second."""

    data: bytes
    fork: str
    first: str
    second: str
    before: int


def branched(cwd: str = "/tmp") -> Branched:
    made = PiSession(cwd=cwd)
    made.opening()
    made.user("Look at the gauges and tell me which of them failed.")
    made.step("bash", {"command": "cat gauges.log"}, "gauge 4 failed\n" * 20)
    fork = made.assistant("Gauge 4 failed at noon, and no other one did.")
    made.user("Try the first way: let the reader ask gauge 4 again.")
    made.step("write", {"path": "again.py", "content": "def again() -> None: ...\n"}, "Wrote the first way.")
    first = made.assistant("The reader asks again in again.py, and that works.")
    before = len(made.lines())
    made.branch(fork)
    made.user("Try the other way: put a second gauge beside it.")
    made.step("read", {"path": "gauges.toml"}, "[gauge.4]\nplace = 'north'\n")
    made.step("write", {"path": "second.py", "content": "def second() -> None: ...\n"}, "Wrote the other way.")
    second = made.assistant("The second gauge is in second.py, and it fails like the first one.")
    return Branched(made.bytes(), fork, first, second, before)
