"""Where an originals file is damaged all else in it can be read, and nothing but what its SHA-256 vouches for."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from sessioncompress.errors import Unreadable
from sessioncompress.store.damage import SalvagingReader, readable_lines
from sessioncompress.store.originals import FRAME_BYTES, LONGEST_LINE, OriginalsReader, Place, zstd
from tests.unit.store.test_originals import LINE_SETS, PLACES, noise, pack
from tests.unit.store.tools import digest

LINES = [noise(1000, number) for number in range(3000)]


def left(path: Path, places: list[Place], lines: list[bytes], reader: type[OriginalsReader]) -> list[int]:
    """Return which lines can be read; none may be read that is another."""
    found = []
    with reader(path) as originals:
        for number, (place, line) in enumerate(zip(places, lines, strict=True)):
            with suppress(Unreadable):
                assert originals.line(place, digest(line)) == line
                found.append(number)
    return found


def damage(path: Path, at: int, length: int = 1) -> None:
    """Change some bytes of a file."""
    data = bytearray(path.read_bytes())
    for position in range(at, at + length):
        data[position] ^= 0x55
    path.write_bytes(data)


def test_a_frame_whose_checksum_alone_is_wrong_is_read_whole(tmp_path: Path) -> None:
    """Each line still has its SHA-256; the strict reader takes none of them."""
    path = tmp_path / "o.zst"
    places = pack(path, LINES[:9])
    damage(path, path.stat().st_size - 2)
    assert left(path, places, LINES[:9], OriginalsReader) == []
    assert left(path, places, LINES[:9], SalvagingReader) == list(range(9))


def test_a_frame_is_read_up_to_its_damage(tmp_path: Path) -> None:
    """What does not compress stands there as it is: only the lines with changed bytes are lost."""
    path = tmp_path / "o.zst"
    places = pack(path, LINES)
    frames = sorted({place.frame for place in places})
    assert len(frames) == 2
    damage(path, frames[1] - 500_000, 1500)
    lost = sorted(set(range(len(LINES))) - set(left(path, places, LINES, SalvagingReader)))
    assert 1 < len(lost) < 4
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert set(left(path, places, LINES, OriginalsReader)) == {
        number for number, place in enumerate(places) if place.frame == frames[1]
    }


@pytest.mark.parametrize("at", [0, 3, 5, 40])
def test_a_frame_with_a_damaged_head_loses_no_other(tmp_path: Path, at: int) -> None:
    """The next one begins where its first bytes say so."""
    path = tmp_path / "o.zst"
    lines = LINE_SETS["many frames"]
    places = pack(path, lines)
    frames = sorted({place.frame for place in places})
    damage(path, frames[1] + at)
    found = left(path, places, lines, SalvagingReader)
    assert set(found) >= {number for number, place in enumerate(places) if place.frame >= frames[2]}
    assert len(found) >= len(left(path, places, lines, OriginalsReader))


def test_a_line_over_the_end_of_a_damaged_frame(tmp_path: Path) -> None:
    """It goes on in the next frame."""
    path = tmp_path / "o.zst"
    lines = [noise(FRAME_BYTES - 10), b"a line over the end\n", b"next\n"]
    places = pack(path, lines)
    damage(path, 1000)
    assert left(path, places, lines, OriginalsReader) == [2]
    assert left(path, places, lines, SalvagingReader) == [1, 2]


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    """Its last line goes on nowhere."""
    path = tmp_path / "o.zst"
    places = pack(path, LINES)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5000)
    found = left(path, places, LINES, SalvagingReader)
    assert found == list(range(len(found)))
    assert len(LINES) > len(found) > len(left(path, places, LINES, OriginalsReader))


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_bad_places_are_damage(place: Place, tmp_path: Path) -> None:
    """As they are to the strict reader."""
    path = tmp_path / "o.zst"
    pack(path, [b"one\n", b"two\n"])
    with SalvagingReader(path) as reader, pytest.raises(Unreadable):
        reader.line(place, digest(b"one\n"))


def test_bombs_are_damage(tmp_path: Path) -> None:
    """No more is read of a frame than one of ours can hold."""
    path = tmp_path / "o.zst"
    for content in (zstd.compress(bytes(64 << 20), level=1), b"not zstd at all", b"\x28\xb5\x2f\xfd" + bytes(50)):
        path.write_bytes(content)
        with SalvagingReader(path) as reader, pytest.raises(Unreadable):
            reader.line(Place(0, 0, LONGEST_LINE), digest(b""))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    """As by the strict reader."""
    with pytest.raises(Unreadable):
        SalvagingReader(tmp_path / "none.zst").line(Place(0, 0, 9), "")


def test_readable_lines(tmp_path: Path) -> None:
    """All of them, from a byte on; where a frame is broken the whole lines of all others; of garbage none."""
    path = tmp_path / "o.zst"
    assert list(readable_lines(path, 0)) == []
    lines = [b"%d " % number + b"text " * 30_000 + b"\n" for number in range(40)]
    place = pack(path, lines[:1])[0]
    start = path.stat().st_size
    frames = sorted({place.frame for place in pack(path, lines[1:], start)})
    assert len(frames) == 3
    assert list(readable_lines(path, 0)) == lines
    assert list(readable_lines(path, start)) == lines[1:]
    data = path.read_bytes()
    path.write_bytes(data[: frames[1] + 40] + b"\0" * 9 + data[frames[1] + 49 :])
    left = list(readable_lines(path, place.frame))
    assert set(left) < set(lines)
    assert left[0] == lines[0]
    assert left[-1] == lines[-1]
    assert len(left) > 20
    path.write_bytes(data[:-1])
    assert list(readable_lines(path, 0)) == lines
    path.write_bytes(b"garbage" * 99)
    assert list(readable_lines(path, 0)) == []
