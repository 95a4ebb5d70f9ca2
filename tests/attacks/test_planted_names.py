"""What an archive or a clone can put beside a session, besides late links: nothing of it costs an original."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from sessioncompress.cli.main import main
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
from tests.support.runs import fixture

POLICY = PRESETS["archive"]


def compressed(folder: Path) -> Path:
    """Return a session with its store."""
    folder.mkdir(exist_ok=True)
    path = folder / "s.jsonl"
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    compress_session(path, POLICY, force=True)
    return path


@pytest.mark.parametrize("journal", [b"", b"\n", b"x", b"{}\n", b"\n\n"], ids=repr)
def test_a_journal_of_a_byte_or_two(tmp_path: Path, journal: bytes) -> None:
    """Whatever the size says, originals that the session needs do not go."""
    path = compressed(tmp_path)
    originals = path.parent / ".sessioncompress" / "s.jsonl.zst"
    kept = originals.read_bytes()
    (path.parent / ".sessioncompress" / "s.refs.jsonl").write_bytes(journal)
    for command in (restore_session, partial(compress_session, force=True)):
        with pytest.raises(Damaged):
            command(path, POLICY)
    assert originals.read_bytes() == kept


@pytest.mark.parametrize("name", ["s.refs.jsonl", "s.jsonl.zst"])
def test_a_store_with_other_names(tmp_path: Path, name: str) -> None:
    """An archive may link our file to any file of the user's: none of them is written to, or cut."""
    path = compressed(tmp_path / "a")
    notes = tmp_path / "notes.txt"
    os.link(path.parent / ".sessioncompress" / name, notes)
    before = notes.read_bytes()
    more = fixture("pi-one-prompt.jsonl").partition(b"\n")[2]
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(IsALink, match="other hard links"):
        compress_session(path, POLICY, force=True)
    assert notes.read_bytes() == before
    assert CliRunner().invoke(main, ["forget", "--yes", str(path)]).exit_code == 0
    assert notes.read_bytes() == before
    assert not (path.parent / ".sessioncompress").exists()


def keep_a_line(session: OpenSession, store: Store, lengths: Lengths) -> None:
    """Begin a run that adds to the store."""
    with Rewrite(session, store, lengths) as rewrite:
        rewrite.keep(b"a line\n")
        rewrite.finish()


@pytest.mark.parametrize("name", ["s.refs.jsonl", "s.jsonl.zst"])
def test_a_store_that_gets_another_name_and_grows(tmp_path: Path, name: str) -> None:
    """Once the run has begun: what refuses it must not be cut to its committed length when the run is undone."""
    path = compressed(tmp_path / "a")
    notes = tmp_path / "notes.txt"
    files = store_in(path)
    lengths = journals.load(files.journal).lengths
    with open_session(path, writing=True) as session:
        recover(session, files, lengths)
        os.link(files.folder / name, notes)
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
    done = CliRunner().invoke(main, ["compress", str(path)])
    assert done.exit_code == 4
    assert ".gitignore.new: there is a folder here, where one of our files belongs" in done.stderr
    assert planted.exists()
    planted.parent.rename(tmp_path / "x")
    assert CliRunner().invoke(main, ["compress", str(path)]).exit_code == 0


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
    done = [each for each in batch.results(tasks, iter(range(2)), 2, 1.0) if each is not None]
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
