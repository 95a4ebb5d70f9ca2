"""Mutations of lines byte by byte."""

from __future__ import annotations

import random
from collections.abc import Callable

_TOKENS = (
    *(
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"\x1b",
        b"\x7f",
        b"\xff",
        b"\xed\xa0\x80",
    ),
    *(
        b"\xef\xbb\xbf",
        b"\\ud83d",
        b"\\u0000",
        b"\\u2028",
        b"NaN",
        b"Infinity",
        b"1e400",
        b"-0",
        b"0.000009",
        b"null",
        b"true",
    ),
    *(
        b"18446744073709551616",
        b"[" * 300,
        b"[" * 1100,
        b'{"a":' * 300,
        b'"id":"x",',
        b'"type":"compaction",',
        b'"text":7,',
    ),
    *(b'"parentId":null,', b'"role":"user",', b"[[sessioncompress: ", b"]]", b'"content":[],', b'"arguments":"x",'),
)
Mutation = Callable[[random.Random, bytes], bytes]


def _flip(dice: random.Random, line: bytes) -> bytes:
    at = dice.randrange(len(line))
    return line[:at] + bytes([line[at] ^ 1 << dice.randrange(8)]) + line[at + 1 :]


def _insert(dice: random.Random, line: bytes) -> bytes:
    at = dice.randrange(len(line))
    return line[:at] + dice.choice(_TOKENS) + line[at:]


def _replace(dice: random.Random, line: bytes) -> bytes:
    at = dice.randrange(len(line))
    return line[:at] + dice.choice(_TOKENS) + line[at + dice.choice((1, 1, 2, 9, 90)) :]


def _delete(dice: random.Random, line: bytes) -> bytes:
    at = dice.randrange(len(line))
    return line[:at] + line[at + dice.choice((1, 1, 2, 30, len(line))) :]


def _repeat(dice: random.Random, line: bytes) -> bytes:
    start, size = dice.randrange(len(line)), dice.choice((1, 20, 300))
    return line[: start + size] + line[start : start + size] + line[start + size :]


def _move(dice: random.Random, line: bytes) -> bytes:
    first, second, third = sorted(dice.randrange(len(line)) for _ in range(3))
    return line[:first] + line[second:third] + line[first:second] + line[third:]


_MUTATIONS: tuple[Mutation, ...] = (_flip, _insert, _replace, _delete, _repeat, _move)


def mutated(dice: random.Random, line: bytes) -> bytes:
    """Return the line with a few mutations, at places where the structure is dense as often as anywhere."""
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        head = line[:400]
        line = (
            dice.choice(_MUTATIONS)(dice, line or b"\n")
            if dice.random() < 0.5
            else (dice.choice(_MUTATIONS)(dice, head or b"\n") + line[400:])
        )
    return line if dice.random() < 0.03 else line.rstrip(b"\n") + b"\n"
