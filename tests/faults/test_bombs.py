"""The memory of a command is bounded, whatever lies beside the session: bombs, lies about sizes, endless journals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from sessioncompress.store.layout import store_in
from sessioncompress.store.originals import zstd
from tests.faults.forging import first, forged, places_to, reference
from tests.faults.memory import memory_of
from tests.faults.scenes import SCENES, SIZES
from tests.support.runs import journal_of
from tests.unit.store.tools import LINE, RUN

_MIB = 1 << 20
_MOST = 100
"""MiB over the start that any command may take."""
_MILLION = 1_000_000
_RECORDS = 100_000
_MOST_OF_RECORDS = 10 + _RECORDS * 300 / _MIB
"""MiB that so many small records of the journal may take: 300 bytes each."""

COMMANDS = {
    "verify": ("verify", "SESSION"),
    "restore": ("restore", "SESSION"),
    "restore --from-markers": ("restore", "--from-markers", "SESSION"),
    "show": ("show", "REFERENCE", "SESSION", "--all"),
    "compress": ("compress", "--force", "--keep-turns", "0", "SESSION"),
}


@cache
def zeros(mib: int = 1024) -> bytes:
    """Return one frame of so many MiB of zeros."""
    made = zstd.ZstdCompressor()
    return b"".join(made.compress(bytes(_MIB)) for _ in range(mib)) + made.flush()


def declared(size: int, window: int | None = None) -> bytes:
    """Return a frame that says how large its content is, or its window, and holds much less."""
    header = b"\xe0" + size.to_bytes(8, "little") if window is None else b"\x00" + bytes([window])
    return b"\x28\xb5\x2f\xfd" + header + (1 | 0 << 1 | 5 << 3).to_bytes(3, "little") + b"zeros"


BOMBS: dict[str, tuple[Callable[[], bytes], int]] = {
    "1 GiB of zeros": (zeros, 1 << 30),
    "1 GiB of zeros for a line of 1 KB": (zeros, 1000),
    "1 GiB of zeros for the longest line": (zeros, 64 * _MIB),
    "a size of 2^40": (lambda: declared(1 << 40), 1 << 20),
    "a size of 2^64-1": (lambda: declared((1 << 64) - 1), 64 * _MIB),
    "a window of 1 GiB": (lambda: declared(0, 0xA0), 1000),
    "the largest window": (lambda: declared(0, 0xFF), 1000),
    "a million empty frames": (lambda: zstd.compress(b"") * _MILLION, 64 * _MIB),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a session that was compressed and went on."""
    return SCENES[1].prepare(tmp_path, SIZES[0])


def run(path: Path, command: tuple[str, ...], ref: str) -> tuple[float, int, str]:
    """Run a command on a session; nothing it says may be an error of ours. Return its memory, code and errors."""
    names = {"SESSION": str(path), "REFERENCE": ref}
    grown, code, said = memory_of(*(names.get(each, each) for each in command))
    assert "an error in sessioncompress" not in said
    assert "Traceback" not in said
    assert len(said) < 2000 + 4 * len(str(path))
    return grown, code, said


@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((name, "verify") for name in BOMBS),
        *(("1 GiB of zeros", command) for command in ("restore", "restore --from-markers", "show")),
    ],
)
def test_a_bomb_in_the_originals(path: Path, name: str, command: str) -> None:
    """It is damage, told before it is expanded; the session stays as it is."""
    bomb, size = BOMBS[name]
    ref, old = reference(path), path.read_bytes()
    places_to(path, 0, 0, size, bomb())
    grown, code, _ = run(path, COMMANDS[command], ref)
    assert code == 5
    assert grown < _MOST
    assert path.read_bytes() == old


def line(number: int) -> bytes:
    """Return the smallest line record there is."""
    return b'{"type":"line","original":{"sha256":"%064x"},"rewrittenSha256":"%064x"}\n' % (number, number + _MILLION)


def block(number: int) -> bytes:
    """Return the smallest block record there is, of a line before all."""
    head = b"" if number else LINE.encode()
    name = b'"ref":"%x","line":0,"path":"","kind":"result","bytes":0,"lines":0,"xxh3":"%x"' % (number, number)
    return head + b'{"type":"block",' + name + b"}\n"


def a_run(number: int) -> bytes:
    """Return the smallest run record there is."""
    del number
    sizes = b'"originalSize":0,"compressedSize":0,"storeSize":0,"boundary":0'
    return b'{"type":"run","at":"","version":"","policy":{},' + sizes + b',"stats":{}}\n'


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (line, "verify"),
        (line, "restore --from-markers"),
        (line, "restore"),
        (block, "verify"),
        (block, "show"),
        (block, "compress"),
        (a_run, "verify"),
        (a_run, "restore"),
    ],
)
def test_a_journal_of_tiny_records(path: Path, record: Callable[[int], bytes], command: str) -> None:
    """Each takes a bounded number of bytes."""
    journal = store_in(path).journal
    right, ref = journal.read_bytes(), reference(path)
    with journal.open("wb") as file:
        file.writelines(map(record, range(_RECORDS)))
        file.write(RUN.encode() + right)
    assert run(path, COMMANDS[command], ref)[0] < _MOST_OF_RECORDS


LONG: dict[str, tuple[str, str, Callable[[], str], int]] = {
    "one of 100 MB": ("edit", "more", lambda: '"' + "0123456789ab" * (100_000_000 // 12) + '"', 1),
    "one that ends the journal": ("run", "more", lambda: '"' + "0123456789ab" * (100_000_000 // 12) + '"', 1),
    "lists in lists": ("edit", "more", lambda: "[" + "[]," * 340_000 + "0]", 6),
    "policies of lists": ("run", "policy.more", lambda: "[" + "[]," * 340_000 + "0]", 6),
    "tools with names of 1 MB": ("block", "tool", lambda: '"' + "x" * 1_000_000 + '"', 6),
    "digests of 1 MB": ("edit", "was.sha256", lambda: '"' + "x" * 1_000_000 + '"', 6),
}


@pytest.mark.parametrize(
    ("name", "command"),
    [*((name, "verify") for name in LONG), *(("one of 100 MB", command) for command in ("show", "compress"))],
)
def test_a_long_record(path: Path, name: str, command: str) -> None:
    """It is never held whole, let alone several of them."""
    kind, field, value, times = LONG[name]
    records, ref = journal_of(path), reference(path)
    record = records[first(records, kind)]
    record.pop("records", None)
    journal = store_in(path).journal
    right = journal.read_bytes()
    with journal.open("wb") as file:
        file.write(LINE.encode() if kind == "block" else b"")
        file.writelines([forged(record, field, value())] * times)
        file.write(RUN.encode() + right)
    assert run(path, COMMANDS[command], ref)[0] < _MOST
