"""Streams a large synthetic pi session to a file: made from a pool of texts, in the proportions of real sessions."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tests.support import blocks, texts
from tests.support.lines import START
from tests.support.words import PACKAGES

_MEGABYTE = 1_000_000
_USAGE = (
    '"usage":{"input":%d,"output":%d,"cacheRead":%d,"cacheWrite":%d,"totalTokens":%d,"cost":{"input":0.000015,'
    '"output":0.00%d,"cacheRead":0.0%d,"cacheWrite":0.00%d,"total":0.0%d}}'
)


@dataclass(frozen=True, slots=True)
class Pool:
    """JSON string literals to build lines from, without their quotes."""

    results: Sequence[tuple[str, str]]
    sources: Sequence[str]
    thoughts: Sequence[str]
    signatures: Sequence[str]
    prompts: Sequence[str]
    paths: Sequence[str]
    pictures: Sequence[str]


def generate(path: Path | str, megabytes: float, seed: int = 1) -> int:
    """Write a session of about that size and return its exact size in bytes."""
    with open(path, "wb", buffering=1 << 20) as file:
        return _write(file, int(megabytes * _MEGABYTE), seed, pool(seed, int(megabytes * _MEGABYTE)))


def generate_archive(folder: Path | str, files: int, megabytes: float) -> int:
    """Write so many sessions of about that size in all, most of them small and a few large; return their exact size.

    They lie in folders as an agent has them, one for a project, and the order of their times is not that of their names.
    """
    rng = random.Random(f"archive/{files}/{megabytes}")
    weights = [rng.lognormvariate(0, 1.1) for _ in range(files)]
    # To make the texts takes longer than to write them, and no run looks into two sessions at once.
    texts = pool(1, int(megabytes * _MEGABYTE))
    written = 0
    for number, weight in enumerate(weights):
        project = Path(folder, f"--home-user-project-{number % 7}--")
        project.mkdir(parents=True, exist_ok=True)
        path = project / f"{blocks.hexes(8, f'archive/{number}')}.jsonl"
        with open(path, "wb", buffering=1 << 20) as file:
            written += _write(file, int(megabytes * _MEGABYTE * weight / sum(weights)), number, texts)
        os.utime(path, (START.timestamp() + 3600 * number,) * 2)
    return written


def _write(file: BinaryIO, size: int, seed: int, texts: Pool) -> int:
    rng = random.Random(seed)
    writer = _Writer(texts, rng)
    written = file.write(writer.header())
    while written < size:
        for line in writer.turn():
            written += file.write(line)
            if written >= size and b'"role":"assistant"' in line[:200] and b'"stopReason":"stop"' in line[-200:]:
                break
    return written


def pool(seed: int, size: int) -> Pool:
    """Return the texts for a session of this size: up to some 12 MB, far more than a compressor's window."""
    rng = random.Random(f"pool/{seed}")
    wanted = min(12 * _MEGABYTE, max(_MEGABYTE, size // 4))
    results: list[tuple[str, str]] = []
    made = 0
    while made < wanted:
        for tool, make in texts.MAKERS:
            text = _stretched(rng, make(rng), make)
            results.append((tool, _literal(text)))
            made += len(text)
    return Pool(
        results=results,
        sources=[_literal(texts.python_source(rng, rng.randint(1, 12))) for _ in range(600)],
        thoughts=[_literal(texts.prose(rng, rng.randint(2, 16))) for _ in range(900)],
        signatures=[blocks.signature(seed, number, size=240 + 40 * (number % 9)) for number in range(400)],
        prompts=[_literal(texts.prose(rng, rng.randint(1, 3))) for _ in range(400)],
        paths=[f"src/{rng.choice(PACKAGES)}/{texts.heading(rng).lower().replace(' ', '_')}.py" for _ in range(400)],
        pictures=[blocks.png(pixels, seed) for pixels in (120, 200, 280)],
    )


def _literal(text: str) -> str:
    return blocks.stringify(text)[1:-1]


def _stretched(rng: random.Random, text: str, make: texts.Maker) -> str:
    """Return the text, one time in six as part of a long one."""
    if rng.random() > 0.16:
        return text
    return "\n".join([text, *(make(rng) for _ in range(rng.choice((2, 3, 5, 8))))])


class _Writer:
    """Makes the lines of one turn after the other."""

    def __init__(self, pool: Pool, rng: random.Random) -> None:
        self._pool, self._rng = pool, rng
        self._number = 0
        self._parent = "null"
        self._clock = START.timestamp()

    def header(self) -> bytes:
        name = "019cac38-0000-7000-8000-" + blocks.hexes(12, "generated")
        return f'{{"type":"session","version":3,"id":"{name}","timestamp":"{self._stamp()}","cwd":"/tmp"}}\n'.encode()

    def turn(self) -> Iterator[bytes]:
        """Yield a prompt, its steps and the answer."""
        rng = self._rng
        yield self._entry(f'"role":"user","content":[{{"type":"text","text":"{rng.choice(self._pool.prompts)}"}}]')
        for _ in range(rng.choice((2, 4, 6, 9, 14, 30))):
            yield from self._step()
        yield self._assistant([self._text(rng.choice(self._pool.thoughts))], "stop")

    def _step(self) -> Iterator[bytes]:
        rng = self._rng
        parts = [self._thinking()] if rng.random() < 0.5 else []
        if rng.random() < 0.3:
            parts.append(self._text(rng.choice(self._pool.prompts)))
        uses = [self._use() for _ in range(1 if rng.random() < 0.85 else 3)]
        yield self._assistant([*parts, *(call for call, _ in uses)], "toolUse")
        for _, result in uses:
            yield self._entry(result)

    def _use(self) -> tuple[str, str]:
        roll = self._rng.random()
        if roll < 0.16:
            return self._change()
        if roll < 0.165:
            return self._picture()
        tool, text = self._rng.choice(self._pool.results)
        if self._rng.random() < 0.5:
            text = text[: self._rng.randint(40, 500)].rpartition("\\n")[0] or "(no output)"
        arguments = f'"path":"{self._path()}"' if tool == "read" else f'"command":"{self._command()}"'
        mirror = ""
        if len(text) > 3000 and self._rng.random() < 0.3:
            mirror = f'"details":{{"truncation":{{"content":"{text}","truncated":false,"maxBytes":51200}}}},'
        return self._pair(tool, arguments, f'[{{"type":"text","text":"{text}"}}]', mirror)

    def _change(self) -> tuple[str, str]:
        rng, path = self._rng, self._path()
        new = rng.choice(self._pool.sources)
        if rng.random() < 0.5:
            done = f'[{{"type":"text","text":"Successfully wrote {len(new)} bytes to {path}"}}]'
            return self._pair("write", f'"path":"{path}","content":"{new}"', done, "")
        old = new[: len(new) // 3].rpartition("\\n")[0]
        diff = "\\n".join(f"+{number:>4} {line}" for number, line in enumerate(new.split("\\n"), 1))
        done = f'[{{"type":"text","text":"Successfully replaced 1 block(s) in {path}."}}]'
        edits = f'"path":"{path}","edits":[{{"oldText":"{old}","newText":"{new}"}}]'
        return self._pair("edit", edits, done, f'"details":{{"diff":"{diff}","firstChangedLine":1}},')

    def _picture(self) -> tuple[str, str]:
        data = self._rng.choice(self._pool.pictures)
        shown = '{"type":"text","text":"Read image file [image/png]"}'
        picture = f'[{shown},{{"type":"image","data":"{data}","mimeType":"image/png"}}]'
        return self._pair("read", f'"path":"out/chart-{self._number}.png"', picture, "")

    def _pair(self, tool: str, arguments: str, content: str, details: str) -> tuple[str, str]:
        name = f"toolu_01{self._rng.getrandbits(120):030x}"
        call = f'{{"type":"toolCall","id":"{name}","name":"{tool}","arguments":{{{arguments}}}}}'
        head = f'"role":"toolResult","toolCallId":"{name}","toolName":"{tool}"'
        return call, f'{head},"content":{content},{details}"isError":false'

    def _thinking(self) -> str:
        value, signed = self._rng.choice(self._pool.thoughts), self._rng.choice(self._pool.signatures)
        return f'{{"type":"thinking","thinking":"{value}","thinkingSignature":"{signed}"}}'

    @staticmethod
    def _text(value: str) -> str:
        return f'{{"type":"text","text":"{value}"}}'

    def _assistant(self, parts: Sequence[str], stop: str) -> bytes:
        rng = self._rng
        tokens = (rng.randint(1, 9), rng.randint(20, 900), rng.randint(2000, 90000), rng.randint(60, 9000))
        cost = (rng.randint(100, 999), rng.randint(1000, 9999), rng.randint(100, 999), rng.randint(1000, 9999))
        usage = _USAGE % (*tokens, sum(tokens), *cost)
        head = '"api":"anthropic-messages","provider":"anthropic","model":"claude-opus-4-5"'
        content = ",".join(parts)
        return self._entry(f'"role":"assistant","content":[{content}],{head},{usage},"stopReason":"{stop}"')

    def _entry(self, message: str) -> bytes:
        self._number += 1
        self._clock += self._rng.random() * 9
        name = f"{self._number * 2654435761 % 4294967296:08x}"
        head = f'"id":"{name}","parentId":{self._parent},"timestamp":"{self._stamp()}"'
        self._parent = f'"{name}"'
        return f'{{"type":"message",{head},"message":{{{message},"timestamp":{int(self._clock * 1000)}}}}}\n'.encode()

    def _stamp(self) -> str:
        return datetime.fromtimestamp(int(self._clock), UTC).strftime("%Y-%m-%dT%H:%M:%S.") + "417Z"

    def _path(self) -> str:
        return self._rng.choice(self._pool.paths)

    def _command(self) -> str:
        return f"python -m pytest {self._path()} -q | tail -{self._rng.randint(5, 400)}"


def main() -> None:
    """Write a session of the size that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("megabytes", type=float)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    print(f"{generate(chosen.path, chosen.megabytes, chosen.seed):,} bytes in {chosen.path}")


if __name__ == "__main__":
    main()
