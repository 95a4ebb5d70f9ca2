"""The story that the watch has every agent live through: what is asked, and what the model answers with which tools."""

from __future__ import annotations

import base64
import json
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.agents import replies
from tests.agents.replies import Reply

Use = tuple[str, Any]
"""A tool, and what it is given."""

COMPACTED_AFTER = 3
"""So many prompts are asked before the agent compacts the session itself."""

_NUMBERS = count(1)
_WORDS = ("gauge", "tide", "level", "window", "crew", "harbor", "sensor", "drift", "batch", "buffer", "spike", "filter")


@dataclass(frozen=True, slots=True)
class Tools:
    """How an agent's model does what the story has it do; paths are whole ones."""

    write: Callable[[str, str], Use]
    read: Callable[[str], Use]
    edit: Callable[[str, str, str], Use]
    run: Callable[[str], Use]
    ask: Callable[[str], Use] | None = None
    """Gives a task to a subagent."""
    look: Callable[[str], Use] | None = None
    """Looks at a picture, where that is not read."""
    patch: Callable[[str, str], Use] | None = None
    """Adds a file by a patch, where that is not written."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the model answers to one request; where it uses tools, it thinks before."""

    text: str = ""
    uses: tuple[Use, ...] = ()
    thought: str = ""


def story(tools: Tools, folder: Path) -> list[tuple[str, list[Step]]]:
    """Return the prompts with their answers. What the session is about is put into the folder first."""
    module, notes, log = _lines(_PYTHON, 150), _lines(_PROSE, 120), _lines(_LOG, 260)
    (folder / "gauge.log").write_text(log)
    (folder / "plot.png").write_bytes(_picture())
    gauges, plot, other = (str(folder / name) for name in ("gauges.py", "plot.png", "notes.md"))
    seventh = module.splitlines()[6]
    failing = 'for i in $(seq 1 200); do echo "test_$i failed: AssertionError at line $i"; done; exit 2'
    helped = [_do(tools.run("head -80 gauge.log")), Step(_lines(_PROSE, 20, 5)), Step("It is noise, the helper says.")]
    return [
        ("Write a module.", [_do(tools.write(gauges, module)), _do(tools.run("wc -l *")), Step("It stands.")]),
        ("Read it.", [_do(tools.read(gauges)), Step("I have read it.")]),
        (
            "Change it.",
            [_do(tools.edit(gauges, seventh, f"{seventh} (changed)")), _do(tools.read(gauges)), Step("It is.")],
        ),
        ("What is in the log?", [_do(tools.run("cat gauge.log"), tools.run("grep ERROR gauge.log")), Step("Errors.")]),
        ("Run the tests.", [_do(tools.run("false")), _do(tools.run(failing)), Step("All fail.")]),
        ("Look at the plot.", [_do((tools.look or tools.read)(plot)), Step("It is noise.")]),
        ("Ask a helper.", [_do(tools.ask("Look at gauge.log.")), *helped] if tools.ask else [Step("There is none.")]),
        (
            "Write notes.",
            [_do((tools.patch or tools.write)(other, notes)), _do(tools.read(other)), Step("Here they are.")],
        ),
        ("And the log's end?", [_do(tools.run("tail -130 gauge.log")), Step("The same, later.")]),
        ("Check the module again.", [_do(tools.read(gauges)), Step("It is as it was.")]),
        ("Fine. What is next?", [Step("Next is the release.")]),
    ]


def _do(*uses: Use) -> Step:
    return Step("Let me see.", uses, _lines(_PROSE, 12, next(_NUMBERS)))


_PYTHON = "def {0}_{1}_{n}({2}): return {2} * {number}  # {1} of the {0}, see {2}"
_PROSE = "The {0} keeps its {1} until the {2} of {number} arrives, and then it is moved."
_LOG = "2026-11-02 {n:05} {level} {0}.{1}: {2} is {number} after a while"


def _lines(form: str, many: int, seed: int = 0) -> str:
    chance = random.Random(seed)
    return "".join(
        form.format(*chance.sample(_WORDS, 3), n=n, number=chance.randint(2, 9999), level=("INFO", "ERROR")[n % 2])
        + "\n"
        for n in range(many)
    )


def _picture(side: int = 120) -> bytes:
    """Make a PNG that no compression makes smaller."""
    chance = random.Random(1)
    rows = b"".join(b"\0" + chance.randbytes(3 * side) for _ in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    whole = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        whole += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return whole


def _seal() -> str:
    return base64.b64encode(f"seal {next(_NUMBERS)} ".encode() * 20).decode()


def anthropic(step: Step) -> Reply:
    blocks: list[replies.Block] = []
    if step.thought:
        signed = {"type": "signature_delta", "signature": _seal()}
        thought = {"type": "thinking_delta", "thinking": step.thought}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [thought, signed]))
    blocks.append(replies.anthropic_text(step.text))
    blocks += [replies.anthropic_use(name, given, f"toolu_{next(_NUMBERS):024}") for name, given in step.uses]
    return replies.anthropic_blocks(blocks, f"msg_{next(_NUMBERS):024}")


def responses(step: Step) -> Reply:
    """Say a step as OpenAI does; a tool that is given a text is one of a free form."""
    items: list[dict[str, Any]] = []
    if step.thought:
        summary = [{"type": "summary_text", "text": step.thought}]
        items.append(
            {"type": "reasoning", "id": f"rs_{next(_NUMBERS)}", "summary": summary, "encrypted_content": _seal()}
        )
    content = [{"type": "output_text", "text": step.text, "annotations": []}]
    items.append({"type": "message", "id": f"msg_{next(_NUMBERS)}", "role": "assistant", "content": content})
    for name, given in step.uses:
        number, free = next(_NUMBERS), isinstance(given, str)
        made = {"input": given} if free else {"arguments": json.dumps(given)}
        kind, begins = ("custom_tool_call", "ctc") if free else ("function_call", "fc")
        items.append({"type": kind, "id": f"{begins}_{number}", "call_id": f"call_{number}", "name": name, **made})
    return replies.responses_items(items)


def gemini(step: Step) -> Reply:
    """Say a step as Gemini does: the first call is signed, and the agent has to name the calls itself."""
    calls: list[dict[str, Any]] = [{"functionCall": {"name": name, "args": given}} for name, given in step.uses]
    for first in calls[:1]:
        first["thoughtSignature"] = _seal()
    thoughts = [{"text": step.thought, "thought": True}] if step.thought else []
    return replies.gemini_parts([*thoughts, {"text": step.text}, *calls])
