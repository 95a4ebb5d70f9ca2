"""Where an originals file is damaged all else in it can be read, and nothing but what its SHA-256 vouches for."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Damaged, Unreadable
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.store.damage import SalvagingReader, readable_lines
from sessioncompress.store.journal import load
from sessioncompress.store.layout import store_in
from sessioncompress.store.originals import FRAME_BYTES, InFrame, OriginalsReader, zstd
from tests.faults.scenes import SIZES, built
from tests.support.runs import EAGER, append, blocks_of, compress, fixture, split, write
from tests.unit.store.test_originals import LINE_SETS, noise, pack
from tests.unit.store.tools import digest, everything

LINES = [noise(10_000, number) for number in range(300)]


def left(path: Path, places: list[InFrame], lines: list[bytes], reader: type[OriginalsReader]) -> list[int]:
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
    damage(path, frames[1] - 500_000, 15_000)
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


# Originals beside a journal that is not theirs are never cut to its length: no line in a cut frame could be read.

_SEAL = re.compile(rb',"(originalsSha256|sha256)":"[0-9a-f]{64}"(?=[,}]|}\n)')


def newer_originals(folder: Path) -> tuple[Path, bytes, bytes]:
    """Compress a session twice from its original; return it, the first journal, and the second, which goes with it.

    Both begin with the same original, as it is where two sides of a merge, or a backup and the present, differ.
    """
    path = write(folder, built(SIZES[0], 1))
    compress(path)
    older = store_in(path).journal.read_bytes()
    restore_session(path)
    forget_session(path)
    append(path, built(SIZES[0], 2))
    compress(path)
    return path, older, store_in(path).journal.read_bytes()


def without_seals(journal: bytes) -> bytes:
    """Return a journal of which somebody took the seals out."""
    return b"".join(
        _SEAL.sub(b"", line) if b'"type":"run"' in line else line for line in journal.splitlines(keepends=True)
    )


def test_a_journal_that_cannot_be_read_leaves_the_originals(tmp_path: Path) -> None:
    """They are whole: the error names the program that prints them, and whose store forget would delete."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    compress(path)
    journal, originals = store_in(path).journal, store_in(path).originals
    journal.write_bytes(journal.read_bytes().replace(b'{"type":"block"', b'z"type":"block"', 1))
    prints = f"'zstd -dc {originals}' still prints the originals. "
    with pytest.raises(Damaged) as error:
        verify_session(path)
    assert error.value.remedy.endswith(
        f"{prints}Only when nothing else helps: 'sessioncompress forget' deletes all stores of {path.name}."
    )
    assert "--from-markers" not in error.value.remedy
    with pytest.raises(Damaged):
        restore_session(path, from_markers=True)
    originals.unlink()
    with pytest.raises(Damaged) as error:
        verify_session(path)
    assert "zstd" not in str(error.value)


@pytest.mark.parametrize("record", [b'{"type":"edit"', b'{"type":"block"'], ids=["of a line", "of a value"])
@pytest.mark.parametrize("rerun", [False, True], ids=["one run", "two runs"])
def test_a_damaged_record_costs_one_line(tmp_path: Path, record: bytes, rerun: bool) -> None:
    """All others come back from markers, are shown, and are not said to be exact; the right journal gives back all."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    original = split(path.read_bytes())
    compress(path, replace(EAGER, tool_result_max_bytes=3_000))
    if rerun:
        compress(path, EAGER)
    compressed, journal = split(path.read_bytes()), store_in(path).journal
    right = journal.read_bytes()
    at = right.index(record, right.index(record) + 1)
    journal.write_bytes(right[: at + 40] + bytes([right[at + 40] ^ 0x80]) + right[at + 41 :])
    with pytest.raises(Damaged, match="'sessioncompress restore --from-markers' puts back all lines that can still"):
        restore_session(path)
    assert path.read_bytes() == b"".join(compressed)
    assert all(show(block.ref, path) for _, block in blocks_of(load(journal, salvaging=True)))
    restored = restore_session(path, from_markers=True)
    assert not restored.exact
    assert "its journal was changed after a run wrote it" in restored.reason
    lines = split(path.read_bytes())
    assert sum(line != was for line, was in zip(lines, original, strict=True)) == 1
    journal.write_bytes(right)
    assert restore_session(path).exact
    assert split(path.read_bytes()) == original


def test_a_bad_record_that_was_added_is_not_ours(tmp_path: Path) -> None:
    """Whoever adds it to a journal takes out the line before it: so no run of it is trusted."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    compress(path)
    journal = store_in(path).journal
    records = split(journal.read_bytes())
    assert load(journal, salvaging=True).is_ours
    journal.write_bytes(b"".join([*records[:-1], b'{"type":"block"\n', records[-1]]))
    found = load(journal, salvaging=True)
    assert (found.is_ours, found.broken) == (False, len(records))


@pytest.mark.parametrize("act", [compress, restore_session, verify_session], ids=lambda act: act.__name__)
@pytest.mark.parametrize("form", [bytes, without_seals], ids=["sealed", "without seals"])
def test_an_older_journal(tmp_path: Path, act: Callable[[Path], object], form: Callable[[bytes], bytes]) -> None:
    """It is damage, nothing is touched, and with the right journal back every byte is."""
    path, older, right = newer_originals(tmp_path)
    store_in(path).journal.write_bytes(form(older))
    before = everything(tmp_path)
    with pytest.raises(Damaged, match=r"it is not the journal of|two sides stand together"):
        act(path)
    assert everything(tmp_path) == before
    store_in(path).journal.write_bytes(right)
    restore_session(path)
    assert path.read_bytes() == built(SIZES[0], 2).bytes()


@pytest.mark.parametrize(
    "torn", [b"\x28", zstd.compress(b"torn")[:-2], bytes(5000)], ids=["one byte", "a frame", "zeros"]
)
def test_what_a_crash_left_is_cut(tmp_path: Path, torn: bytes) -> None:
    """A frame that was not finished, or never reached the disk."""
    path = write(tmp_path, built(SIZES[0], 1))
    compress(path)
    files = store_in(path)
    right = files.originals.read_bytes()
    files.originals.write_bytes(right + torn)
    restore_session(path)
    assert files.originals.read_bytes() == right
    assert path.read_bytes() == built(SIZES[0], 1).bytes()
