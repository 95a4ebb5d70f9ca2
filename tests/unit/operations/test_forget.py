"""Forgetting says what it costs: the originals that are there, and of them those that stand nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from sessioncompress.errors import IsALink, SessionCompressError, UsageError
from sessioncompress.operations import forget
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.packed import meant_by, unpack_sessions
from sessioncompress.operations.restore import restore_session
from sessioncompress.pipeline.discover import EVERYTHING, compressed
from sessioncompress.policy.model import Policy
from sessioncompress.store import packing
from sessioncompress.store.layout import FOLDER
from sessioncompress.store.packing import Pack
from sessioncompress.store.places import Place
from tests.support import packs
from tests.support.runs import EAGER, compress, journal_of, snapshot, split, write
from tests.support.sessions import reserialised, session
from tests.unit.store.tools import late_link


def costs(path: Path) -> tuple[int, int]:
    """Return how many originals would be deleted, and how many lost; what is asked is what is done."""
    before = snapshot(path)
    would = forget_session(path, EAGER, dry_run=True)
    assert snapshot(path) == before
    return would.originals, would.originals_lost


def gone(folder: Path, policy: Policy = EAGER) -> set[Path]:
    """Return the sessions that are gone, as forget finds them in a folder."""
    found = [each.path for each in compressed([folder], lambda _: policy, EVERYTHING, gone_too=True)]
    assert len(found) == len(set(found))
    return {each for each in found if not each.exists()}


def kept(path: Path) -> int:
    return len({each["was"]["sha256"] for each in journal_of(path) if each["type"] == "edit"})


def test_packs_are_read_once_for_the_sessions_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were for each; and anew where one has changed, or just before, as a clock does not tell that."""
    names = [name for name in packs.sessions_in(tmp_path) if name.count("/") == 0]
    packs.pack(tmp_path)
    read: list[object] = []

    def reading(at: Place) -> Iterator[Pack | SessionCompressError]:
        read.append(None)
        return packing.packs_in(at)

    monkeypatch.setattr(forget, "packing", SimpleNamespace(packs_in=reading))

    def reads() -> int:
        read.clear()
        for name in names:
            with suppress(UsageError):
                forget_session(tmp_path / name, EAGER, dry_run=True)
        return len(read)

    assert reads() == len(names) == 2
    monkeypatch.setattr(forget, "_TICK_NS", 0)
    assert (reads(), reads()) == (1, 0)
    list(unpack_sessions(meant_by([str(tmp_path / names[0])])))
    assert (reads(), forget_session(tmp_path / names[0], EAGER, dry_run=True).packs) == (1, 1)


def test_what_came_back_in_part_is_lost(tmp_path: Path) -> None:
    """Only lines that are the originals, to the byte, count as there."""
    path = write(tmp_path, session())
    compress(path)
    number = kept(path)
    lines = split(path.read_bytes())
    path.write_bytes(reserialised(b"".join(lines[:-6])) + b"".join(lines[-6:]))
    restore_session(path, EAGER, from_markers=True)
    originals, lost = costs(path)
    assert originals == number
    assert 0 < lost < number


def test_late_links_of_a_session_that_is_gone_go_too(tmp_path: Path) -> None:
    """They hold what it held; those of a session whose name begins alike stay."""
    path = write(tmp_path, session())
    work = tmp_path / FOLDER
    work.mkdir()
    kept = work / "session.jsonl2.temp-0123abcd"
    late_link(path, b"secret", carried=6)
    for each in (work / "session.jsonl.temp-0123abcd", kept):
        each.write_bytes(b"secret")
    path.unlink()
    assert {each.name for each in gone(tmp_path)} == {"session.jsonl", "session.jsonl2"}
    assert forget_session(path, EAGER).bytes_deleted == 12
    assert list(work.iterdir()) == [kept]


def test_a_folder_of_ours_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """For a session that is gone too: it might lead anywhere."""
    path = write(tmp_path, session())
    compress(path)
    (tmp_path / FOLDER).rename(tmp_path / "elsewhere")
    (tmp_path / FOLDER).symlink_to(tmp_path / "elsewhere")
    path.unlink()
    with pytest.raises(IsALink):
        forget_session(path, EAGER)
    assert list((tmp_path / "elsewhere").glob("local-*/session.jsonl.originals.zst"))
