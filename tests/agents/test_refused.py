"""Sessions that an API refuses: the command that the guide names unblocks each, and the agent goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agents import claude
from tests.agents.installed import need
from tests.agents.resuming import ResumeError
from tests.agents.standin import Request
from tests.docs.pages import code, page
from tests.support import blocks, texts
from tests.support.claude import ClaudeSession, picture
from tests.support.commands import run

Refuses = Callable[[Request], tuple[int, str] | None]
POISON = "iVBORw0KGgo" + "A" * 2_000
"""Begins like a picture, and is none."""
MOST_PICTURES, MOST_BYTES = 20, 250_000


def pictures(request: Request) -> list[str]:
    """Return the data of the images of a request."""

    def found(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if value.get("type") == "image":
                yield value["source"]["data"]
            value = list(value.values())
        for child in value if isinstance(value, list) else ():
            yield from found(child)

    return list(found(request.body["messages"]))


def session(*, looks: int = 0, logs: int = 0, last: str = "") -> bytes:
    """Return a session that looked at so many pictures and logs, and in whose newest request the `last` picture is."""
    made = ClaudeSession()
    for number in range(max(looks, logs)):
        made.user(f"Part {number}: look at the gauge.")
        if number < looks:
            made.step("Read", {"file_path": f"/tmp/{number}.png"}, [picture(blocks.png(64, number))])
        if number < logs:
            made.step("Bash", {"command": f"cat {number}.log"}, texts.log_lines(blocks.dice("log", number), 200))
        made.respond(f"Gauge {number} is silent.")
    made.user([blocks.text("And this one?"), *([picture(last)] if last else [])])
    made.respond("I will look at it.")
    return made.bytes()


def many(request: Request) -> tuple[int, str] | None:
    return (
        (400, "Too much media: 0 document pages + 30 images > 20") if len(pictures(request)) > MOST_PICTURES else None
    )


def large(request: Request) -> tuple[int, str] | None:
    return (413, "Request exceeds the maximum size") if request.size > MOST_BYTES else None


def poisoned(request: Request) -> tuple[int, str] | None:
    return (400, "Could not process image") if POISON in pictures(request) else None


def long(request: Request) -> tuple[int, str] | None:
    return (400, "prompt is too long: 213462 tokens > 200000 maximum") if request.size > MOST_BYTES else None


CASES: Mapping[str, tuple[bytes, Refuses, str]] = {
    "Too many pictures, or too large ones": (session(looks=30), many, "Too much media"),
    "The request is too large": (session(looks=20, logs=10), large, "Request too large"),
    "A picture that cannot be read": (session(looks=2, last=POISON), poisoned, "Could not process image"),
    "The conversation is too long": (session(logs=20), long, "Prompt is too long"),
}
"""By the headings of the guide."""


@pytest.mark.parametrize("heading", CASES)
def test_the_guides_command_unblocks_a_session(heading: str, tmp_path: Path) -> None:
    """What the agent noted of the refusal does not stand in the way, and a restore brings back all but what came."""
    need(claude.command(claude.OLD), f"Claude Code {claude.OLD}")
    data, refuses, said = CASES[heading]
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    there = claude.placed(path, tmp_path / "agent")
    (placed,) = there.home.glob(".claude/projects/*/*.jsonl")
    with pytest.raises(ResumeError, match=said):
        claude.go_on(claude.OLD, there, None, refuses=refuses)
    refused = placed.read_bytes()
    (line, *_) = next(each.lines for each in code(page("docs/how-to/refused.md").partition(f"## {heading}")[2]))
    done = run(*line.split()[1:-1], placed)
    assert done.exit_code == 0, done.output
    assert claude.go_on(claude.OLD, there, None, refuses=refuses)
    assert run("restore", placed).exit_code == 0
    assert placed.read_bytes().startswith(refused)
