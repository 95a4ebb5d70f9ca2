"""A pack near sessions may be a stranger's: it brings no settings and no code, fills no disk, and others' count for none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.core.marker import references
from sessioncompress.errors import Refused
from sessioncompress.operations.pack import pack_sessions
from sessioncompress.operations.packed import each_packed, meant_by, packed_in, unpack_sessions, way_back
from sessioncompress.pipeline.discover import Found
from sessioncompress.policy.model import BALANCED
from sessioncompress.store import disk
from sessioncompress.store.layout import FOLDER, PACKS
from sessioncompress.store.pack import FileToPack, PackWriter
from sessioncompress.store.places import packs_of
from tests.support.packs import pack, packs_in, planted, session, sessions_in, state
from tests.support.repository import Repository
from tests.support.runs import invoke, write

ANOTHER = 1234
ZEROS = 1 << 20


def unpacked(root: Path) -> list[str]:
    return [str(each.error) for each in unpack_sessions(meant_by([str(root)])) if each.error]


@pytest.mark.parametrize("how", [["."], ["--all"], ["ARCHIVE"]], ids=["folder", "all", "archive"])
def test_what_cannot_be_read_of_a_pack_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: list[str]) -> None:
    """Though another one gives all that it has."""
    for name in ("a.jsonl", "b.jsonl"):
        write(tmp_path, session("Do it."), name)
        pack(tmp_path)
    first = packs_in(tmp_path)[0].archive
    index = first.with_name(first.name.replace(".tar.zst", ".index"))
    index.write_bytes(index.read_bytes()[:-9] + b"x" + index.read_bytes()[-8:])
    monkeypatch.chdir(tmp_path)
    done = invoke("unpack", *(str(first) if each == "ARCHIVE" else each for each in how))
    assert done.exit_code == 5, done.output
    assert index.name in done.output
    assert "already in place" not in done.output


NAMES = {
    "code": "conftest.py",
    "without an ending": "Makefile",
    "settings in a hidden folder": ".claude/settings.json",
    "a hidden file": ".envrc.json",
    "below a hidden folder": "src/.vscode/x/tasks.json",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_that_no_agent_gives(tmp_path: Path, name: str) -> None:
    """What is in it looks like a session; it is read where it is, and stays there."""
    content = session("Do it.").bytes()
    planted(tmp_path, name, [content], len(content))
    (wrong,) = unpacked(tmp_path)
    assert "It is in the pack" in wrong
    assert "tar --zstd -k" in wrong
    assert not os.path.lexists(tmp_path / name)
    assert [each.error for each in each_packed(packed_in([tmp_path]), lambda place, copy: None)] == [None]


@pytest.mark.parametrize(
    ("name", "comes"), [("package.json", False), (".pi/agent/sessions/x/s.json", True), ("s.jsonl", True)]
)
def test_json_of_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, comes: bool) -> None:
    """Any session may also be the settings of a program, but for one in an agent's folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PI_CODING_AGENT_DIR", raising=False)
    content = session("Do it.").bytes()
    packs = planted(tmp_path, name, [content], len(content)).folder
    packs.rename(tmp_path / FOLDER / PACKS)
    assert ["others may have packed it" in wrong for wrong in unpacked(tmp_path)] == [True] * (not comes)
    assert (tmp_path / name).exists() is comes
    # What somebody who knows the pack took out with tar is where it belongs.
    (tmp_path / name).write_bytes(content)
    assert comes or unpacked(tmp_path) == []


@pytest.mark.parametrize("name", [f"{'x' * 300}.jsonl", "file/s.jsonl"], ids=["too long", "below a file"])
def test_a_name_that_no_system_takes(tmp_path: Path, name: str) -> None:
    """It costs no command more than an error."""
    (tmp_path / "file").write_bytes(b"")
    planted(tmp_path, name, [b"x"], 1)
    (wrong,) = unpacked(tmp_path)
    assert "It is in the pack" in wrong
    assert [type(each.error) for each in each_packed(packed_in([tmp_path]), lambda place, copy: None)] != []
    assert pack(tmp_path) == []


@pytest.mark.parametrize("name", ["s.jsonl", "s.json", "below/s.jsonl", ".pi/agent/sessions/x/s.jsonl"])
def test_nothing_that_comes_back_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Nor may others write it; a hidden folder of an agent's is one of its sessions."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PI_CODING_AGENT_DIR", raising=False)
    content = session("Do it.").bytes()
    planted(tmp_path, name, [content], len(content), mode=0o777)
    assert unpacked(tmp_path) == []
    assert (tmp_path / name).read_bytes() == content
    assert (tmp_path / name).stat().st_mode & 0o7777 == 0o644


@pytest.mark.parametrize("name", ["notes.txt", ".hidden/s.jsonl"])
def test_what_would_not_come_back_is_not_packed(tmp_path: Path, name: str) -> None:
    """The user hears of it before, not after."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    path = write((tmp_path / name).parent, session("Do it."), Path(name).name)
    (outcome,) = pack_sessions([Found(path, named=True)], [tmp_path], lambda _: BALANCED)
    assert isinstance(outcome.error, Refused)
    assert path.exists()
    assert packs_in(tmp_path) == []


@pytest.mark.parametrize("says", [0, 3 * 64 << 20], ids=["that says how large it is", "that says less"])
def test_a_bomb(tmp_path: Path, says: int) -> None:
    """Some KB that become gigabytes are refused before the first byte of them, by whatever reads a pack."""
    size = 256 << 20
    made = planted(tmp_path, "s.jsonl", (bytes(ZEROS) for _ in range(size // ZEROS)), size, says=says)
    assert made.archive.stat().st_size < 1 << 16
    (read,) = each_packed(packed_in([tmp_path]), lambda place, copy: None)
    (wrong,) = unpacked(tmp_path)
    for said in (str(read.error), wrong):
        assert "would be larger than any session" in said
        assert "Nothing of it was read" in said
    assert state(tmp_path) == {}


def test_a_size_that_is_not_the_file_s(tmp_path: Path) -> None:
    """Of a file that is far larger than its index says no more is read than that."""
    planted(tmp_path, "s.jsonl", (bytes(ZEROS) for _ in range(256)), 256 * ZEROS, says=1000)
    (wrong,) = unpacked(tmp_path)
    assert "its SHA-256 does not match the index" in wrong
    assert state(tmp_path) == {}


def test_repeats_of_one_session_are_no_bomb(tmp_path: Path) -> None:
    """A frame ends before it holds more than is read of one, however little its sessions take."""
    content = [bytes(ZEROS)] * 40
    archive = tmp_path / "a.tar.zst"
    with disk.closing(disk.create(archive)) as fd:
        writer = PackWriter(fd, 200 * ZEROS)
        frames = []
        for number in range(4):
            added = writer.add([FileToPack(f"{number}.jsonl", content, 40 * ZEROS, 0o600, 0, (0, 0))], "one family")
            assert added is not None
            frames.append(added[0])
        writer.finish()
    assert len(set(frames)) > 1


@pytest.mark.parametrize("what", ["archive", "index"])
def test_a_pack_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Nothing of it is read, brought back or changed; it is named."""
    sessions_in(tmp_path)
    pack(tmp_path)
    (made,) = packs_in(tmp_path)
    file = made.archive if what == "archive" else made.archive.with_name(f"{made.name}.index")
    if os.geteuid() == 0:
        os.chown(file, ANOTHER, ANOTHER)
    else:
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert packs_in(tmp_path) == []
    (wrong,) = packed_in([tmp_path])
    assert isinstance(wrong, Refused)
    assert "another user owns it" in str(wrong)
    assert [type(each.error) for each in pack(tmp_path)] == [Refused]
    assert file.exists()
    assert state(tmp_path) == {}


def own(repository: Repository) -> None:
    """Leave it where this user has just made it."""


def from_an_archive(repository: Repository) -> None:
    packs_of(repository.folder).rename(repository.folder / FOLDER / PACKS)


def outside_git(repository: Repository) -> None:
    from_an_archive(repository)
    (repository.folder / ".git").rename(repository.folder.parent / "git")


def committed(repository: Repository) -> None:
    """Commit it: then a branch may bring another one of its name."""
    repository.git("add", "--force", FOLDER)
    repository.git("commit", "--quiet", "--message", "packed")


def with_another_index(repository: Repository) -> None:
    """Commit its index alone, which says what comes back, and where to."""
    repository.git("add", "--force", next(packs_of(repository.folder).glob("*.index")))


def without_git(repository: Repository) -> None:
    os.environ["PATH"] = str(repository.folder)


@pytest.mark.parametrize("does", [own, from_an_archive, outside_git, committed, with_another_index, without_git])
def test_what_others_may_have_packed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: Callable[[Repository], None]
) -> None:
    """Only a pack in the folder of this user, which no branch brings, is surely their own; in a rehearsal too."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    repository = Repository(tmp_path / "r")
    sessions_in(repository.folder)
    (ref, *_) = references((repository.folder / "one.jsonl").read_text())
    pack(repository.folder)
    does(repository)
    shown = invoke("show", ref, repository.folder).stderr
    assert shown.startswith("From a store made elsewhere, under another name, or by an earlier version: ") is (
        does is not own
    )
    assert shown.endswith(".tar.zst\n")
    for command in (["unpack", "--dry-run"], ["unpack"]):
        said = invoke(*command, repository.folder).stderr
        assert ("made elsewhere or by an earlier version" in said) is (does is not own)


def test_what_is_read_of_a_stranger_s_pack_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text and titles, how to bring it back, and that it is in whose place another file is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PI_CODING_AGENT_DIR", raising=False)
    folder = tmp_path / ".pi/agent/sessions"
    folder.mkdir(parents=True)
    write(folder, session("Find the gull."), "s.jsonl")
    for is_own in (True, False):
        if is_own:
            pack(folder)
        else:
            packs_of(folder).rename(folder / FOLDER / PACKS)
        told = [
            invoke(*command).stderr for command in (["search", "gull", folder], ["sessions"], ["search", "cow", folder])
        ]
        assert ["1 store was made elsewhere" in each for each in told] == [not is_own, not is_own, False]
        assert ("1 of them in packs that others made" in invoke("restore", folder).stderr) is not is_own
        assert (", which others may have made: 'sess" in way_back(folder / "s.jsonl")) is not is_own
        (folder / "s.jsonl").touch()
        assert ("unpack it" in invoke("verify", folder).stderr) is is_own
        (folder / "s.jsonl").unlink()
