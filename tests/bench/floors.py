"""What no run can do without, measured beside it: parse and write each line, copy the file, pack it with zstd."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import orjson

from sessioncompress.store.originals import zstd

FRAME = 4 * 1024 * 1024
LEVEL = {int(zstd.CompressionParameter.compression_level): 3}


@dataclass(frozen=True, slots=True)
class Floor:
    """Seconds for one file, each the fastest of some rounds.

    `parts` is the sum that a rewrite is held against: each line parsed and written, and those that it replaces packed
    with `zstd -3`, unpacked, and their SHA-256 taken.
    """

    round_trip: float
    copy: float
    packed: float
    parts: float


def floor_of(original: Path, compressed: Path, rounds: int = 3) -> Floor:
    """Measure the floor of a session and of what a run made of it."""
    with open(compressed, "rb") as new:
        kept = set(map(hash, new))
    spare = original.with_name("floor")
    round_trip = _fastest(lambda: _round_trip(original), rounds)
    replaced = _fastest(lambda: _packed(_replaced(original, kept), read_back=True), rounds)
    looked = _fastest(lambda: sum(map(len, _replaced(original, kept))), rounds)
    floor = Floor(
        round_trip,
        _fastest(lambda: shutil.copyfile(original, spare), rounds),
        _fastest(lambda: _packed(_lines(original), read_back=False), rounds),
        round_trip + replaced - looked,
    )
    spare.unlink()
    return floor


def _fastest(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def _lines(path: Path) -> Iterator[bytes]:
    with open(path, "rb", buffering=1 << 20) as file:
        yield from file


def _replaced(path: Path, kept: set[int]) -> Iterator[bytes]:
    return (line for line in _lines(path) if hash(line) not in kept)


def _round_trip(path: Path) -> None:
    for line in _lines(path):
        orjson.dumps(orjson.loads(line))


def _packed(lines: Iterator[bytes], *, read_back: bool) -> None:
    waiting = bytearray()
    for line in lines:
        waiting += line
        if len(waiting) >= FRAME:
            _pack(waiting, read_back=read_back)
            waiting = bytearray()
    _pack(waiting, read_back=read_back)


def _pack(data: bytearray, *, read_back: bool) -> None:
    frame = zstd.compress(data, options=LEVEL)
    if read_back and sha256(zstd.decompress(frame)).digest() != sha256(data).digest():
        raise ValueError
