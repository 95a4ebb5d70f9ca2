"""Originals come back to the byte, and nothing in a file or a record can make the reader do anything else."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from sessioncompress.errors import Damaged, IsALink, Unreadable
from sessioncompress.store.damage import SalvagingReader
from sessioncompress.store.originals import FRAME_BYTES, LONGEST_LINE, InFrame, OriginalsPacker, OriginalsReader, zstd
from tests.unit.store.tools import digest


def pack(path: Path, lines: list[bytes], start: int = 0) -> list[InFrame]:
    """Append lines to a file; return their places."""
    with path.open("ab") as file:
        packer = OriginalsPacker(start, file.write)  # type: ignore[arg-type]
        places = [packer.add(line) for line in lines]
        packer.finish()
        return places


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def printed(lines: list[bytes]) -> bytes:
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)


LINE_SETS = {
    "short": [b"one\n", b"two\n", b"", b"three"],
    "exactly one frame": [noise(FRAME_BYTES), b"x\n"],
    "over a frame's end": [noise(FRAME_BYTES - 10), b"a line over the end\n", b"next\n"],
    "longer than frames": [b"first\n", noise(2 * FRAME_BYTES + 5), b"last\n"],
    "many frames": [b"%d " % number + b"text " * 30_000 + b"\n" for number in range(60)],
}


READERS = pytest.mark.parametrize("reader", [OriginalsReader, SalvagingReader])
"""What reads past damage is as strict as what does not."""


def test_lines_that_several_runs_kept_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session holds them in its own order: each run's frames are decompressed once, few at a time are held."""
    path = tmp_path / "o.zst"
    runs = []
    for run in range(3):
        lines = [b"%d %d " % (run, number) + b"text " * 20_000 + b"\n" for number in range(50)]
        start = path.stat().st_size if path.exists() else 0
        runs.append(list(zip(pack(path, lines, start), lines, strict=True)))
    decoded: list[int] = []
    decode = OriginalsReader._decode

    def counted(reader: OriginalsReader, start: int, place: InFrame) -> tuple[bytes, int]:
        decoded.append(start)
        return decode(reader, start, place)

    monkeypatch.setattr(OriginalsReader, "_decode", counted)
    with OriginalsReader(path) as reader:
        for of_runs in zip(*runs, strict=True):
            for place, line in of_runs:
                assert reader.line(place, digest(line)) == line
        assert sum(len(content) for content, _ in reader._held.values()) <= 8 * FRAME_BYTES
    assert len(decoded) == len(set(decoded)) > 6


@pytest.mark.parametrize("lines", LINE_SETS.values(), ids=LINE_SETS)
def test_round_trip(lines: list[bytes], tmp_path: Path) -> None:
    """Every line comes back, in any order, also after a second run has appended; frames stay within their limit."""
    path = tmp_path / "o.zst"
    places = pack(path, lines)
    places += pack(path, lines[::-1], path.stat().st_size)
    wanted = [*lines, *lines[::-1]]
    order = list(range(len(wanted)))
    random.Random(2).shuffle(order)
    with OriginalsReader(path) as reader:
        for index in [*range(len(wanted)), *order[:20]]:
            assert reader.line(places[index], digest(wanted[index])) == wanted[index]
    rest, content = path.read_bytes(), b""
    while rest:
        decoder = zstd.ZstdDecompressor()
        frame = decoder.decompress(rest)
        assert len(frame) <= FRAME_BYTES
        content, rest = content + frame, decoder.unused_data
    assert content == printed(wanted)


def test_a_line_over_the_limit_is_not_kept(tmp_path: Path) -> None:
    """What the reader would not read is not written in the first place."""
    packer = OriginalsPacker(0, lambda frame: None)
    with pytest.raises(ValueError, match="not kept"):
        packer.add(bytes(LONGEST_LINE + 1))


def test_an_error_of_the_disk_ends_the_packing() -> None:
    """What the sink raises comes out of add() or finish()."""

    def full(frame: bytes) -> None:
        raise OSError(28, "No space left on device")

    packer = OriginalsPacker(0, full)
    line = noise(6 * FRAME_BYTES)
    with pytest.raises(OSError, match="No space"):
        packer.add(line)


@READERS
def test_missing_and_linked_files_are_refused(tmp_path: Path, reader: type[OriginalsReader]) -> None:
    """There is no way from the store to a file elsewhere."""
    with pytest.raises(Unreadable, match=r"originals that the journal lists are missing.* from a backup"):
        reader(tmp_path / "none.zst").line(InFrame(0, 0, 9), "")
    (tmp_path / "link.zst").symlink_to("/etc/hostname")
    with pytest.raises(IsALink):
        reader(tmp_path / "link.zst").line(InFrame(0, 0, 9), "")


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """A flip anywhere in the file makes a line Damaged; never another line, never another error."""
    path = tmp_path / "o.zst"
    line = b'{"id":"1","text":"' + b"some text " * 50 + b'"}\n'
    (place,) = pack(path, [line])
    whole = path.read_bytes()
    harmless = []
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with OriginalsReader(path) as reader:
            try:
                assert reader.line(place, digest(line)) == line
                harmless.append(position)
            except Damaged:
                continue
    assert len(harmless) <= 1


PLACES = {
    "negative frame": InFrame(-1, 0, 4),
    "negative offset": InFrame(0, -1, 4),
    "negative length": InFrame(0, 0, -4),
    "behind the frame": InFrame(0, 100, 4),
    "too long": InFrame(0, 0, 400),
    "huge": InFrame(0, 0, 1 << 40),
    "behind the file": InFrame(10_000, 0, 4),
    "inside a frame": InFrame(3, 0, 4),
    "another line": InFrame(0, 1, 4),
}


@READERS
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_bad_places_are_damage(place: InFrame, reader: type[OriginalsReader], tmp_path: Path) -> None:
    """A record can name any place; only the right one gives a line."""
    path = tmp_path / "o.zst"
    pack(path, [b"one\n", b"two\n"])
    with reader(path) as originals, pytest.raises(Damaged):
        originals.line(place, digest(b"one\n"))


@READERS
def test_bombs_are_damage(tmp_path: Path, reader: type[OriginalsReader]) -> None:
    """Content or a window beyond a frame's limit, a frame cut off, and no frame at all are refused."""
    path = tmp_path / "o.zst"
    bomb = zstd.compress(bytes(64 << 20), level=1)
    unsized = int(zstd.CompressionParameter.content_size_flag)
    wide = zstd.compress(noise(100), options={int(zstd.CompressionParameter.window_log): 27, unsized: 0})
    for content in (bomb, wide, zstd.compress(noise(100))[:-3], b"not zstd at all", b"\x28\xb5\x2f\xfd" + bytes(50)):
        path.write_bytes(content)
        with reader(path) as originals, pytest.raises(Damaged):
            originals.line(InFrame(0, 0, LONGEST_LINE), digest(b""))


def test_a_stream_of_empty_blocks_ends(tmp_path: Path) -> None:
    """A frame that never gets to its content is given up after the size that a frame can have."""
    path = tmp_path / "o.zst"
    with path.open("wb") as file:
        file.write(b"\x28\xb5\x2f\xfd\x00\x58")
        file.write(b"\x00\x00\x00" * (3 * FRAME_BYTES // 2))
    with OriginalsReader(path) as reader, pytest.raises(Damaged, match="larger"):
        reader.line(InFrame(0, 0, 10), digest(b""))


def test_the_last_frame_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading in order decodes each frame once."""
    path = tmp_path / "o.zst"
    lines = LINE_SETS["many frames"]
    places = pack(path, lines)
    reads = []
    pread = os.pread

    def counted(fd: int, size: int, position: int) -> bytes:
        reads.append(position)
        return pread(fd, size, position)

    monkeypatch.setattr(os, "pread", counted)
    with OriginalsReader(path) as reader:
        for place, line in zip(places, lines, strict=True):
            reader.line(place, digest(line))
    assert len(reads) <= 2 * len({place.frame for place in places})
