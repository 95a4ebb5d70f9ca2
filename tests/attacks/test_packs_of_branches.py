"""No branch takes a pack away, and what one brings counts for nothing before the user's own."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.core.marker import references
from sessioncompress.store import machine
from sessioncompress.store.layout import FOLDER, hidden_in, store_in
from sessioncompress.store.machine import folder_name
from tests.support.repository import Repository
from tests.support.runs import fixture, invoke, run
from tests.support.stores import COMPRESS, HEAD, LOCAL, MORE, ORIGINAL, grows, own_folder, repository, user_of
from tests.unit.store.tools import everything


def packed_by(folder: Path) -> str:
    """Pack all sessions of a folder; return the name of the pack."""
    run("pack", folder)
    (archive,) = (folder / FOLDER).rglob("*.tar.zst")
    return archive.name.removesuffix(".tar.zst")


def of_nothing(packs: Path, name: str) -> None:
    for ending in ("tar.zst", "index"):
        (packs / f"{name}.{ending}").write_bytes(b"x\n")


def of_other_sessions(packs: Path, name: str) -> None:
    """A whole pack of sessions of the same names."""
    made = Path(tempfile.mkdtemp(dir=packs.parents[2]))
    for each in ("a.jsonl", "b.jsonl"):
        (made / each).write_bytes(fixture("pi-responses.jsonl"))
    with user_of(made / "state"):
        machine.make_key()
        there = packed_by(made)
    for ending in ("tar.zst", "index"):
        (found,) = made.rglob(f"{there}.{ending}")
        shutil.copy(found, packs / f"{name}.{ending}")
    shutil.rmtree(made)


@pytest.mark.parametrize(
    ("plant", "place", "back"),
    [
        *((plant, "packs", back) for plant in (of_nothing, of_other_sessions) for back in (True, False)),
        (of_other_sessions, f"{LOCAL}/packs", True),
    ],
)
def test_a_pack_outlives_a_branch_that_has_one_of_its_name(
    tmp_path: Path, plant: Callable[[Path, str], None], place: str, back: bool
) -> None:
    origin = Repository(tmp_path / "origin")
    (origin.folder / "README").write_text("hi\n")
    origin.commit()
    mine = origin.clone(tmp_path / "mine")
    sessions = {"a.jsonl": fixture("pi-anthropic.jsonl"), "b.jsonl": fixture("pi-one-prompt.jsonl")}
    for each, content in sessions.items():
        (mine.folder / each).write_bytes(content)
    name = packed_by(mine.folder)
    assert not (mine.folder / "a.jsonl").exists()
    assert mine.git("status", "--porcelain") == ""
    before = everything(own_folder(mine.folder / "a.jsonl"))
    assert f"packs/{name}.index" in before
    origin.git("checkout", "--quiet", "-b", "pr")
    packs = origin.folder / FOLDER / place
    packs.mkdir(parents=True)
    plant(packs, name)
    origin.git("add", "--force", FOLDER)
    origin.git("commit", "--quiet", "--message", "please pull")
    mine.git("fetch", "--quiet")
    mine.git("checkout", "--quiet", "pr")
    if back:
        mine.git("checkout", "--quiet", "main")
    assert everything(own_folder(mine.folder / "a.jsonl")) == before
    done = invoke("unpack", mine.folder)
    assert not back or done.exit_code == 0, done.output
    assert {each: (mine.folder / each).read_bytes() for each in sessions} == sessions


PACKED = fixture("pi-v2.jsonl")


def branch_with_packs(tmp_path: Path, place: str, sessions: dict[str, bytes]) -> Repository:
    """Return a clone on a branch that has a pack of each of some sessions, made by a stranger."""
    origin = Repository(tmp_path / "origin")
    (origin.folder / ".gitignore").write_bytes(b"*.jsonl\n")
    origin.commit()
    mine = origin.clone(tmp_path / "mine")
    packs, made = origin.folder / FOLDER / place, tmp_path / "made"
    packs.mkdir(parents=True)
    made.mkdir()
    with user_of(tmp_path / "state of a stranger"):
        for number, (name, content) in enumerate(sessions.items()):
            (made / name).write_bytes(content)
            there = packed_by(made)
            for ending in ("tar.zst", "index"):
                (found,) = made.rglob(f"{there}.{ending}")
                shutil.move(found, packs / f"theirs-{number}.{ending}")
    origin.git("checkout", "--quiet", "-b", "pr")
    origin.git("add", "--force", FOLDER)
    origin.git("commit", "--quiet", "--message", "please pull")
    mine.git("fetch", "--quiet")
    return mine


PLACES = ["packs", f"{LOCAL}/packs"]


@pytest.mark.parametrize("place", PLACES)
def test_of_two_packs_with_a_session_of_one_place_the_user_s_own_counts(tmp_path: Path, place: str) -> None:
    """However new the other one says that it is."""
    mine = branch_with_packs(tmp_path, place, {"a.jsonl": ORIGINAL})
    path = mine.folder / "a.jsonl"
    path.write_bytes(PACKED)
    os.utime(path, (0, 0))
    run("pack", mine.folder)
    mine.git("checkout", "--quiet", "pr")
    run("unpack", mine.folder)
    assert path.read_bytes() == PACKED


def test_two_packed_sessions_of_one_place(tmp_path: Path) -> None:
    """None hides the other, as one of a branch that a nightly `pack` took along: both are read, and one comes back."""
    path, words = tmp_path / "a.jsonl", (b"Nightjar", b"Sandpiper")
    for number, word in enumerate(words):
        path.write_bytes(PACKED.replace(b"Add a tide", word, 1))
        assert word in path.read_bytes()
        os.utime(path, (number, number))
        run("pack", path)
    for each in words:
        assert "in 1 of 2 sessions" in run("search", each.decode(), tmp_path).stdout
    first = next(tmp_path.rglob("*-1.tar.zst"))
    done = [invoke("unpack", *more, tmp_path) for more in (["--dry-run"], [])]
    assert [each.exit_code for each in done] == [4, 4]
    assert all("unpack 1 session" in each.stdout.replace("unpacked", "unpack") for each in done)
    assert words[1] in path.read_bytes()
    path.unlink()
    first.write_bytes(first.read_bytes()[:50] + b"xxx" + first.read_bytes()[53:])
    assert invoke("verify", tmp_path).exit_code == 5


@pytest.mark.parametrize("place", PLACES)
def test_what_comes_out_of_a_strangers_pack_is_told(tmp_path: Path, place: str) -> None:
    """In a rehearsal too; of the user's own packs nothing is."""
    mine = branch_with_packs(tmp_path, place, {"a.jsonl": PACKED})
    (mine.folder / "b.jsonl").write_bytes(fixture("pi-anthropic.jsonl"))
    packed_by(mine.folder)
    told = "from packs that git knows, or that were made elsewhere"
    assert told not in invoke("unpack", "--dry-run", mine.folder).stderr
    mine.git("checkout", "--quiet", "pr")
    for command in (["unpack", "--dry-run"], ["unpack"]):
        assert f"1 session is {told}" in invoke(*command, mine.folder).stderr
    assert (mine.folder / "a.jsonl").read_bytes() == PACKED


def test_a_packed_session_that_a_branch_brings_back_without_its_store_is_told(tmp_path: Path) -> None:
    """By its file and by its folder; moved away, it makes room for what has the originals."""
    mine, path = repository(tmp_path, ORIGINAL)
    run(*COMPRESS, path)
    mine.commit()
    was = path.read_bytes()
    packed_by(mine.folder)
    assert "is packed" not in invoke("verify", mine.folder).stderr
    mine.git("checkout", "--quiet", "--", "s.jsonl")
    assert path.read_bytes() == was
    for each in (path, mine.folder):
        assert f"1 session is packed, but a file is in its place: {path}" in invoke("verify", each).stderr
        (taken,) = json.loads(invoke("verify", "--json", each).stdout)["taken"]
        assert taken["path"] == str(path)
        shown = run("show", references(was.decode())[0], each)
        assert shown.stderr == f"From a packed session: {taken['archive']}\n"
    path.rename(tmp_path / "away.jsonl")
    run("unpack", mine.folder)
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


@pytest.mark.parametrize("then", ["another store", "a damaged store", "an empty store"])
def test_a_packed_session_that_is_gone_on_with_in_another_store_stays_packed(tmp_path: Path, then: str) -> None:
    """The pack has the only originals of what was rewritten before."""
    mine, path = repository(tmp_path, ORIGINAL)
    run(*COMPRESS, path)
    mine.commit()
    packed_by(mine.folder)
    mine.git("checkout", "--quiet", "--", "s.jsonl")
    packed = path.read_bytes()
    grows(path, MORE)
    if then == "another store":
        path.write_bytes(packed + MORE)
        shutil.copytree(mine.folder, tmp_path / "other")
        (tmp_path / "other/s.jsonl").write_bytes(ORIGINAL)
        run(*COMPRESS, tmp_path / "other/s.jsonl")
        for file in hidden_in(tmp_path / "other/s.jsonl", folder_name())[1:3]:
            shutil.copy(file, own_folder(path))
    else:
        for file in hidden_in(path, folder_name())[1:3]:
            file.write_bytes(b"" if then == "an empty store" else b"of something else\n")
            file.chmod(0o600)
    os.utime(path, (0, 0))
    invoke("pack", mine.folder)
    path.unlink(missing_ok=True)
    for file in hidden_in(path, folder_name())[1:3]:
        file.unlink(missing_ok=True)
    invoke("unpack", mine.folder)
    assert path.read_bytes().startswith(packed)
    if path.read_bytes() == packed:
        run("restore", path)
        assert path.read_bytes() == ORIGINAL


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("when", ["before", "on the branch"])
def test_no_pack_that_a_branch_brought_counts_as_a_copy(tmp_path: Path, place: str, when: str) -> None:
    """Back on the other branch the user's own has the session."""
    mine = branch_with_packs(tmp_path, place, {"a.jsonl": PACKED})
    path = mine.folder / "a.jsonl"
    path.write_bytes(PACKED)
    os.utime(path, (0, 0))
    if when == "before":
        run("pack", path)
    mine.git("checkout", "--quiet", "pr")
    (mine.folder / "b.jsonl").write_bytes(fixture("pi-responses.jsonl"))
    run("pack", mine.folder)
    assert not path.exists()
    mine.git("checkout", "--quiet", "main")
    run("unpack", mine.folder)
    assert path.read_bytes() == PACKED


def test_a_packed_store_stays_where_a_branch_brought_its_session(tmp_path: Path) -> None:
    """That is none that came back: the store would be nowhere."""
    mine, path = repository(tmp_path)
    mine.commit()
    mine.git("checkout", "--quiet", "-b", "longer")
    grows(path, MORE)
    mine.commit()
    mine.git("checkout", "--quiet", "main")
    run(*COMPRESS, path)
    mine.commit()
    run("pack", path)
    mine.git("checkout", "--quiet", "--force", "longer")
    run("pack", mine.folder)
    mine.git("checkout", "--quiet", "--force", "main")
    path.unlink()
    invoke("unpack", mine.folder)
    for _ in range(2):
        if store_in(path).journal.exists():
            break
        path.unlink()
        invoke("unpack", mine.folder)
    run("restore", path)
    assert path.read_bytes() == HEAD


def test_no_pack_that_a_branch_brought_is_merged(tmp_path: Path) -> None:
    """What is in it does not pass into the user's own."""
    theirs = {f"theirs-{number}.jsonl": PACKED.replace(b'"id":"', b'"id":"%d' % number) for number in range(8)}
    mine = branch_with_packs(tmp_path, "packs", theirs)
    mine.git("checkout", "--quiet", "pr")
    (mine.folder / "own.jsonl").write_bytes(PACKED)
    run("pack", mine.folder)
    mine.git("checkout", "--quiet", "--force", "main")
    run("unpack", mine.folder)
    assert [each.name for each in mine.folder.glob("*.jsonl")] == ["own.jsonl"]


@pytest.mark.parametrize("older", [False, True], ids=["no pack yet", "beside one of the first version"])
def test_the_first_command_of_a_user_packs(tmp_path: Path, older: bool) -> None:
    """It makes the key by which its folder is named: the pack is in that folder all the same."""
    folder = tmp_path / "work"
    folder.mkdir()
    sessions = {"a.jsonl": ORIGINAL, "b.jsonl": fixture("pi-one-prompt.jsonl")}
    for name, content in sessions.items():
        (folder / name).write_bytes(content)
    if older:
        (folder / FOLDER / "packs").mkdir(parents=True)
    with user_of(tmp_path / "state"):
        done = invoke("pack", folder)
        assert done.exit_code == 0, done.output
        assert list(folder.glob("*.jsonl")) == []
        assert {each.parents[1] for each in folder.rglob("*.index")} == {folder / FOLDER / folder_name()}
        run("unpack", folder)
    assert {name: (folder / name).read_bytes() for name in sessions} == sessions
