"""OpenAI asks for the phase of each text in every later request: reasoning goes, and the phases stay."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import texts
from tests.support.blocks import dice
from tests.support.build import OmpSession, ResponsesSession
from tests.support.documents import OpenCodeExport
from tests.support.rollout import Rollout

TURNS = 12


def family(made: ResponsesSession) -> bytes:
    """Return a session of pi or oh-my-pi in which each step is announced, and each turn ends with an answer."""
    made.opening()
    for number in range(TURNS):
        made.user("Go on.")
        call = made.call("bash", {"command": "make"})
        made.assistant(made.think("The tide. " * 40), made.say("I run it.", "commentary"), call)
        made.result(call["id"], texts.log_lines(dice("phase", number), 60))
        made.assistant(made.think("The tide. " * 40), made.say("Done.", "final_answer"))
    return made.bytes()


def rollout() -> bytes:
    made = Rollout()
    for number in range(TURNS):
        made.user("Go on.").think().say("I run it.")
        made.run("make", texts.log_lines(dice("phase", number), 60))
        made.end("Done.")
    return made.bytes()


def export() -> bytes:
    """Return the same as an export of OpenCode."""
    made = OpenCodeExport()
    for number in range(TURNS):
        made.user("Go on.").assistant()
        made.part("reasoning", text="The tide. " * 40, time={}, metadata={"openai": {"itemId": f"rs_{number}"}})
        said = {"openai": {"itemId": f"msg_{number}", "phase": "commentary"}}
        made.part("text", text="I run it.", metadata=said)
        made.tool("bash", {"command": "make"}, texts.log_lines(dice("phase", number), 60), {}).finish("tool-calls")
    return made.bytes()


SESSIONS: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "pi": ("s.jsonl", lambda: family(ResponsesSession())),
    "oh-my-pi": ("s.jsonl", lambda: family(OmpSession())),
    "codex": ("s.jsonl", rollout),
    "opencode": ("s.json", export),
}


def phases(value: Any) -> Iterator[str]:
    """Yield all phases in a session, but for those in oh-my-pi's payload, which goes with the reasoning."""
    if isinstance(value, dict):
        yield from (each for key, inner in value.items() if key != "providerPayload" for each in named(key, inner))
    elif isinstance(value, list):
        yield from (each for inner in value for each in phases(inner))


def named(key: str, value: Any) -> Iterator[str]:
    if key == "textSignature":
        yield from phases(json.loads(value))
    elif key == "phase":
        yield value
    else:
        yield from phases(value)


def run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "sessioncompress", *words], check=True, capture_output=True)


@pytest.mark.parametrize("agent", SESSIONS)
def test_every_phase_stays(agent: str, tmp_path: Path) -> None:
    """As many as there were, in their order; the reasoning and its ids go, a second run changes nothing."""
    name, make = SESSIONS[agent]
    session = tmp_path / name
    session.write_bytes(make())
    original = session.read_bytes()

    run("compress", "--force", "--keep-turns", "1", str(session))
    rewritten = session.read_bytes()
    assert list(phases(read(rewritten))) == list(phases(read(original)))
    assert len(list(phases(read(original)))) >= TURNS
    assert rewritten.count(b"msg_") < original.count(b"msg_")

    run("compress", "--force", "--keep-turns", "1", str(session))
    assert session.read_bytes() == rewritten
    run("restore", str(session))
    assert session.read_bytes() == original


def read(data: bytes) -> Any:
    return json.loads(data) if data.startswith(b"{\n") else [json.loads(line) for line in data.splitlines()]
