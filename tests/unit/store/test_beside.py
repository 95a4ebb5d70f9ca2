"""Where the files beside a session lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessioncompress.store.layout import Store, hidden_in, originals_of, owners, plain_in, session_of, store_in
from sessioncompress.store.machine import folder_name, make_key
from tests.support.stores import PLACES


@pytest.mark.parametrize(
    ("name", "originals", "journal"),
    [
        ("session.jsonl", "session.jsonl.zst", "session.refs.jsonl"),
        ("x.json", "x.json.zst", "x.json.refs.jsonl"),
        ("x.json.jsonl", "x.json.jsonl.zst", "x.json.jsonl.refs.jsonl"),
        ("plain", "plain.zst", "plain.session.refs.jsonl"),
        (".jsonl", ".jsonl.zst", ".jsonl.refs.jsonl"),
        ("a.session", "a.session.zst", "a.session.session.refs.jsonl"),
        ("a.session.jsonl", "a.session.jsonl.zst", "a.session.jsonl.refs.jsonl"),
        ("a.jsonl.jsonl", "a.jsonl.jsonl.zst", "a.jsonl.jsonl.refs.jsonl"),
    ],
)
def test_names(name: str, originals: str, journal: str) -> None:
    """The files are named after the session, in one folder beside it; those that git is not to see in one in that."""
    files = plain_in(Path("/folder") / name)
    assert files.folder == files.work == Path("/folder/.sessioncompress")
    assert (files.originals, files.journal) == (files.folder / originals, files.folder / journal)
    hidden = hidden_in(Path("/folder") / name, "local-01234567")
    assert hidden.folder == files.work / "local-01234567"
    assert (hidden.originals.name, hidden.journal.name) == (f"{name}.originals.zst", f"{name}.history")
    assert (hidden.work, hidden.is_hidden, files.is_hidden) == (files.work, True, False)


@pytest.mark.parametrize("there", [*PLACES, ""])
def test_a_session_has_one_store(tmp_path: Path, there: str) -> None:
    """One of this user; else the one that git may have brought; else another machine's. Where none is, it is begun."""
    make_key()
    path, names = tmp_path / "s.jsonl", list(PLACES)
    for name in reversed(names[names.index(there) :] if there else []):
        files = PLACES[name](path)
        files.folder.mkdir(parents=True, exist_ok=True)
        for each in (files.originals, files.journal):
            each.touch()
    assert store_in(path) == PLACES[there or "own"](path)
    assert store_in(path, shown=True) == PLACES[there or "plain"](path)


@pytest.mark.parametrize("first", ["own", "plain"])
def test_a_half_of_a_store_counts_for_nothing_where_another_is_whole(tmp_path: Path, first: str) -> None:
    """So it is where a move was killed."""
    make_key()
    path, places = tmp_path / "s.jsonl", ("own", "plain")
    half, whole = (PLACES[name](path) for name in (first, places[first == "own"]))
    for file in (half.originals, whole.originals, whole.journal):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert store_in(path) == whole
    assert session_of(whole.journal) == path


@pytest.mark.parametrize(
    ("own", "plain", "counts"),
    [(b"", b"", "own"), (b"a\n", b"b\n", "own"), (b"a\n", b"a\nb\n", "own"), (b"a\n", b"a\n", "plain")],
)
def test_a_committed_copy_of_the_hidden_store_counts(tmp_path: Path, own: bytes, plain: bytes, counts: str) -> None:
    """Anybody may have added to one: then what its runs left decides."""
    make_key()
    path = tmp_path / "s.jsonl"
    for name, journal in (("own", own), ("plain", plain)):
        PLACES[name](path).folder.mkdir(parents=True, exist_ok=True)
        PLACES[name](path).journal.write_bytes(journal)
    assert store_in(path) == PLACES[counts](path)


NAMES = st.lists(st.sampled_from(["a", ".", ".json", ".jsonl", ".session", ".refs", ".zst"]), min_size=1).map("".join)


@given(st.sets(NAMES, min_size=2), st.sampled_from([None, Path("/backup")]), st.sampled_from([plain_in, store_in]))
def test_no_two_sessions_share_a_file(
    names: set[str], backup_dir: Path | None, place: Callable[[Path, Path | None], Store]
) -> None:
    """Whatever they are called; and a journal's name says what its originals are called."""
    all_files = [place(Path("/folder") / name, backup_dir) for name in names]
    paths = [path for files in all_files for path in (files.originals, files.journal)]
    assert len(set(paths)) == 2 * len(names)
    assert all(originals_of(files.journal) == files.originals for files in all_files)


def test_backup_folder_keeps_namesakes_apart(tmp_path: Path) -> None:
    """Two sessions of one name from two folders do not meet in a backup folder; temp files stay beside the session."""
    one, other = (store_in(tmp_path / folder / "s.jsonl", tmp_path / "backup") for folder in ("a", "b"))
    assert one.folder == other.folder == tmp_path / "backup" / folder_name()
    assert one.originals != other.originals
    assert one.journal != other.journal
    assert one.work == tmp_path / "a" / ".sessioncompress"


def test_backup_folder_names_do_not_depend_on_the_way_there(tmp_path: Path) -> None:
    """A session reached through a linked folder has the same files."""
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    ways = {store_in(tmp_path / way / "s.jsonl", tmp_path / "backup").originals for way in ("a", "link")}
    assert len(ways) == 1


@given(
    NAMES.filter(lambda name: name not in {".", ".."}),
    st.sampled_from([None, Path("/backup"), Path("/folder/.sessioncompress")]),
)
def test_a_file_names_its_session(name: str, backup_dir: Path | None) -> None:
    """In its own folder and in a backup folder; what is another folder's there, or none of ours, names none."""
    files = plain_in(Path("/folder") / name, backup_dir)
    for found in (files.originals.name, files.journal.name):
        belongs = [(found, name)]
        assert list(owners(files, [found, ".gitignore"])) == belongs
        assert list(owners(plain_in(Path("/folder/x")), [found])) == ([] if backup_dir else belongs)
        assert list(owners(plain_in(Path("/other/x"), Path("/backup")), [found])) == []
