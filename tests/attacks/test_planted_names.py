"""What an archive or a clone can put beside a session, besides late links: nothing of it costs an original."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Damaged, IsALink
from sessioncompress.operations import batch
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.policy.model import PRESETS
from sessioncompress.store import journal as journals
from sessioncompress.store.commit import Rewrite
from sessioncompress.store.layout import Lengths, Store, store_in
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.recover import recover
from tests.faults.tools import ENVIRONMENT, run
from tests.support.runs import fixture, invoke
from tests.support.stores import PLACES, at_place, in_work_tree
from tests.unit.store.tools import everything

POLICY = PRESETS["archive"]


def compressed(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "s.jsonl"
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    compress_session(path, POLICY, force=True)
    return path


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("journal", [b"", b"\n", b"x", b"{}\n", b"\n\n"], ids=repr)
def test_a_journal_of_a_byte_or_two(tmp_path: Path, journal: bytes, place: str) -> None:
    """Whatever the size says, originals that the session needs do not go."""
    path = compressed(tmp_path)
    files = at_place(path, place)
    kept = files.originals.read_bytes()
    files.journal.write_bytes(journal)
    for command in (restore_session, partial(compress_session, force=True)):
        with pytest.raises(Damaged):
            command(path, POLICY)
    assert files.originals.read_bytes() == kept


@pytest.mark.parametrize("place", ["own", "plain"])
@pytest.mark.parametrize("which", ["journal", "originals"])
def test_a_store_with_other_names(tmp_path: Path, which: str, place: str) -> None:
    """An archive may link our file to any file of the user's: none of them is written to, or cut."""
    path = compressed(tmp_path / "a")
    notes = tmp_path / "notes.txt"
    os.link(getattr(at_place(path, place), which), notes)
    before = notes.read_bytes()
    more = fixture("pi-one-prompt.jsonl").partition(b"\n")[2]
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(IsALink, match="other hard links"):
        compress_session(path, replace(POLICY, commit_originals=place == "plain"), force=True)
    assert notes.read_bytes() == before
    assert invoke("forget", "--yes", path).exit_code == 0
    assert notes.read_bytes() == before
    assert not (path.parent / ".sessioncompress").exists()


@pytest.mark.parametrize("place", ["plain", "another machine's"])
@pytest.mark.parametrize("which", ["journal", "originals"])
def test_a_store_with_other_names_that_is_due_elsewhere(tmp_path: Path, which: str, place: str) -> None:
    """What a run moves is a copy, which has no other name: then the run may write."""
    path = compressed(tmp_path / "a")
    if place == "plain":
        in_work_tree(path.parent)
    notes = tmp_path / "notes.txt"
    os.link(getattr(at_place(path, place), which), notes)
    before = notes.read_bytes()
    path.write_bytes(path.read_bytes() + fixture("pi-one-prompt.jsonl").partition(b"\n")[2])
    compress_session(path, POLICY, force=True)
    files = store_in(path)
    assert files.is_ours
    assert [each.stat().st_nlink for each in (files.journal, files.originals, notes)] == [1, 1, 1]
    assert notes.read_bytes() == before


@pytest.mark.parametrize("place", ["own", "another machine's"])
@pytest.mark.parametrize(
    "command", ["forget --yes", "forget --yes --gone", "forget --yes --max-size 0KB", "compress --force"]
)
@pytest.mark.parametrize("gone", [False, True], ids=["the session is there", "the session is gone"])
def test_a_linked_folder_of_stores(tmp_path: Path, place: str, command: str, gone: bool) -> None:
    """It may lead to any folder of the user's: nothing of what is there is changed or deleted."""
    path = compressed(tmp_path / "a")
    files = at_place(path, place)
    files.folder.rename(tmp_path / "elsewhere")
    files.folder.symlink_to(tmp_path / "elsewhere")
    if gone:
        path.unlink()
    before = everything(tmp_path)
    done = invoke(*command.split(), path)
    assert everything(tmp_path) == before
    if gone and command.startswith("compress"):
        assert done.exit_code == 2, done.output
    elif command.split()[2:] not in (["--max-size", "0KB"] if gone else ["--gone"], ["0KB"]):
        assert (done.exit_code, f"{files.folder}: this must be a folder of its own" in done.output) == (4, True), (
            done.output
        )
    else:
        # The option leaves it out, as the session is there, or is not.
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("place", ["own", "plain"])
def test_a_linked_folder_of_another_machine_beside_a_store(tmp_path: Path, place: str) -> None:
    """It is no store of this session: forget deletes the session's own, and nothing of what the link leads to."""
    path = compressed(tmp_path / "a")
    files, other = at_place(path, place), PLACES["another machine's"](path)
    (tmp_path / "elsewhere").mkdir()
    for one, to in ((files.originals, other.originals), (files.journal, other.journal)):
        (tmp_path / "elsewhere" / to.name).write_bytes(one.read_bytes())
    other.folder.symlink_to(tmp_path / "elsewhere")
    before = everything(tmp_path / "elsewhere")
    for command in ("verify", "compress --force", "restore", "forget --yes"):
        done = invoke(*command.split(), path)
        assert isinstance(done.exception, SystemExit | None), (command, done.exception)
        assert done.exit_code in (0, 4), (command, done.output)
        assert everything(tmp_path / "elsewhere") == before, command


def keep_a_line(session: OpenSession, store: Store, lengths: Lengths) -> None:
    with Rewrite(session, store, lengths) as rewrite:
        rewrite.keep(b"a line\n")
        rewrite.finish()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("which", ["journal", "originals"])
def test_a_store_that_gets_another_name_and_grows(tmp_path: Path, which: str, place: str) -> None:
    """Once the run has begun: what refuses it must not be cut to its committed length when the run is undone."""
    path = compressed(tmp_path / "a")
    notes = tmp_path / "notes.txt"
    files = at_place(path, place)
    lengths = journals.load(files.journal).lengths
    with open_session(path, writing=True) as session:
        recover(session, files, lengths)
        os.link(getattr(files, which), notes)
        with notes.open("ab") as file:
            file.write(b"more of the user's own\n")
        before = notes.read_bytes()
        with pytest.raises(IsALink, match="other hard links"):
            keep_a_line(session, files, lengths)
    assert notes.read_bytes() == before


def test_a_folder_in_the_place_of_the_next_gitignore(tmp_path: Path) -> None:
    """It is named, and nothing of it is deleted."""
    (tmp_path / ".git").mkdir()
    path = tmp_path / "s.jsonl"
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    planted = tmp_path / ".sessioncompress/.gitignore.new/x"
    planted.mkdir(parents=True)
    done = invoke("compress", path)
    assert done.exit_code == 4
    assert ".gitignore.new: there is a folder here, where one of our files belongs" in done.stderr
    assert planted.exists()
    planted.parent.rename(tmp_path / "x")
    assert invoke("compress", path).exit_code == 0


def test_no_process_imports_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new Python begins with the folder that it is started in: that may be a clone with a module of our names."""
    mark = tmp_path / "PWNED"
    for name in ("multiprocessing", "orjson", "sessioncompress"):
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\nraise SystemExit(1)\n")
    script = f"""
import os, threading
import sys; sys.path.insert(0, {str(Path(batch.__file__).parents[2])!r})
from pathlib import Path
from sessioncompress.operations import batch
from sessioncompress.pipeline.discover import Found
if __name__ == "__main__":
    os.chdir({str(tmp_path)!r})
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    tasks = [batch.Task(Found(Path(str(number)), named=True), os.getpid) for number in range(2)]
    done = [each for each in batch.results(tasks, iter(range(2)), 2) if each is not None]
    assert {{outcome.result for _, outcome in done}}.isdisjoint({{None, os.getpid()}}), done
    os._exit(0)
"""
    monkeypatch.chdir("/")
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "main.py"
    file.write_text(script)
    done = run([sys.executable, "-P", str(file)], {**ENVIRONMENT, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    assert not mark.exists()
