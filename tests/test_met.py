"""Two stores that met through git: refused by name by every command, told apart from damage, and each side comes back."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest
from click.testing import CliRunner

from sessioncompress.cli.main import main
from sessioncompress.errors import Damaged, Met
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.store.journal import load
from sessioncompress.store.layout import Beside, beside
from sessioncompress.store.met import refuse_if_another_sides
from sessioncompress.store.sides import met
from tests import texts
from tests.build import PiSession
from tests.runs import EAGER, append, compress, turn, write

NAME = "session.jsonl"
THREE = "session.jsonl .sessioncompress/session.jsonl.zst .sessioncompress/session.refs.jsonl"


def grown(side: str, steps: int, shared: int = 0) -> PiSession:
    """Return a session with a first part, whose last turn has `shared` steps, and behind it what one side added."""
    made = PiSession()
    for part, number in (("base", 3), (side, steps))[: 2 if steps else 1]:
        made.user(f"Look at {part}.")
        for step in range(number):
            made.step("bash", {"command": f"cat {part}{step}"}, texts.log_lines(random.Random(f"{part}{step}"), 90))
        turn(made, 2)
        for step in range(shared if part == "base" else 0):
            made.step("bash", {"command": f"cat shared{step}"}, texts.log_lines(random.Random(f"shared{step}"), 90))
    return made


class Sides:
    """A session that two sides took on from one state, each in a folder of its own.

    Both first rewrite the `shared` steps that the base had left.
    """

    def __init__(self, folder: Path, ours: int, theirs: int, shared: int = 0) -> None:
        self.shared = shared
        base = folder / "base"
        base.mkdir()
        compress(write(base, grown("base", 0, shared)))
        self.base = beside(base / NAME)
        self.ours, self.theirs = (self._side(base, name, steps) for name, steps in (("ours", ours), ("theirs", theirs)))

    def _side(self, base: Path, name: str, steps: int) -> Path:
        folder = base.with_name(name)
        shutil.copytree(base, folder)
        append(folder / NAME, grown(name, steps, self.shared))
        compress(folder / NAME)
        return folder / NAME

    def added(self, path: Path) -> bytes:
        """Return what a side added to the journal."""
        return beside(path).journal.read_bytes().removeprefix(self.base.journal.read_bytes())

    def journal(self, form: bytes) -> None:
        """Let our journal be both sides' additions in some form."""
        merged = form.replace(b"OURS", self.added(self.ours)).replace(b"THEIRS", self.added(self.theirs))
        beside(self.ours).journal.write_bytes(self.base.journal.read_bytes() + merged)


@pytest.fixture(
    params=[(2, 5, 0), (5, 2, 0), (2, 5, 3), (5, 2, 3)],
    ids=["they added more", "we added more", "they added more to shared ones", "we added more to shared ones"],
)
def sides(tmp_path: Path, request: pytest.FixtureRequest) -> Sides:
    """Return two sides."""
    return Sides(tmp_path, *request.param)


def conflict(sides: Sides) -> None:
    """Leave what git leaves where it could not merge."""
    sides.journal(b"<<<<<<< HEAD\nOURS=======\nTHEIRS>>>>>>> theirs\n")


def conflict_with_base(sides: Sides) -> None:
    """The same with merge.conflictStyle diff3."""
    sides.journal(b"<<<<<<< HEAD\nOURS||||||| 1234567\n=======\nTHEIRS>>>>>>> theirs\n")


def union(sides: Sides) -> None:
    """Leave both sides' records, as merge=union does and who resolves a conflict by keeping both."""
    sides.journal(b"OURSTHEIRS")


def union_of_what_differs(sides: Sides) -> None:
    """The same as git does it: what both began with stands once."""
    ours, theirs = (sides.added(path).splitlines(keepends=True) for path in (sides.ours, sides.theirs))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    assert bool(same) is bool(sides.shared)
    sides.journal(b"".join([*ours, *theirs[same:]]))


def union_with_theirs(sides: Sides) -> None:
    """The same with the other side's originals."""
    union(sides)
    shutil.copyfile(beside(sides.theirs).originals, beside(sides.ours).originals)


def others_originals(sides: Sides) -> None:
    """Leave the originals of the other side."""
    shutil.copyfile(beside(sides.theirs).originals, beside(sides.ours).originals)


def others_journal(sides: Sides) -> None:
    """Leave the journal of the other side."""
    shutil.copyfile(beside(sides.theirs).journal, beside(sides.ours).journal)


def others_session_and_journal(sides: Sides) -> None:
    """Leave all but the originals of the other side."""
    others_journal(sides)
    shutil.copyfile(sides.theirs, sides.ours)


MEETINGS = (
    conflict,
    conflict_with_base,
    union,
    union_of_what_differs,
    union_with_theirs,
    others_originals,
    others_journal,
    others_session_and_journal,
)


def everything(files: Beside, path: Path) -> tuple[bytes, ...]:
    """Return the bytes of a session and of what lies beside it."""
    return tuple(each.read_bytes() for each in (path, files.originals, files.journal))


@pytest.mark.parametrize("meet", MEETINGS, ids=lambda meet: meet.__name__)
def test_every_command_refuses_by_name(sides: Sides, meet: Callable[[Sides], None]) -> None:
    """Exit code 5; it says what happened, and what to do; nothing is changed."""
    meet(sides)
    path = sides.ours
    ref = next(line for line in sides.added(path).decode().split('"') if len(line) == 12 and line.isalnum())
    before = everything(beside(path), path)
    for arguments in (
        ["compress", "--force"],
        ["compress", "--force", "--dry-run"],
        ["stats"],
        ["verify"],
        ["restore"],
        ["restore", "--from-markers"],
        ["show", ref],
        ["clean", "--yes", "--older-than", "0d"],
    ):
        done = CliRunner().invoke(main, [*arguments, str(path)])
        assert done.exit_code == 5, (arguments, done.output)
        assert "two sides stand together here" in done.output, arguments
        assert f"git -C {path.parent} checkout HEAD -- {THREE} (" in done.output
        assert everything(beside(path), path) == before, arguments


def cut(files: Beside) -> None:
    """Cut the originals off in the middle of the last run."""
    files.originals.write_bytes(files.originals.read_bytes()[:-40])


def rot(files: Beside) -> None:
    """Flip a bit in the last run's originals."""
    content = bytearray(files.originals.read_bytes())
    content[-40] ^= 1
    files.originals.write_bytes(content)


def rot_and_grow(files: Beside) -> None:
    """Flip a bit, and leave what a killed run wrote behind."""
    rot(files)
    files.originals.write_bytes(files.originals.read_bytes() + b"more")


def lose_a_record(files: Beside) -> None:
    """Take a record out of the journal."""
    lines = files.journal.read_bytes().splitlines(keepends=True)
    files.journal.write_bytes(b"".join(lines[:-3] + lines[-2:]))


def lose_the_other_run(files: Beside) -> None:
    """Take the record of the first run out of the journal, so that its records seem to be those of the second."""
    lines = files.journal.read_bytes().splitlines(keepends=True)
    files.journal.write_bytes(b"".join(line for number, line in enumerate(lines) if number != first_run(lines)))


def first_run(lines: list[bytes]) -> int:
    """Return the number of the first run's record."""
    return next(number for number, line in enumerate(lines) if b'"type":"run"' in line)


HARMS = [cut, rot, rot_and_grow, lose_a_record, lose_the_other_run]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_damage_is_not_taken_for_that(sides: Sides, harm: Callable[[Beside], None]) -> None:
    """What rots or is cut off is no other side."""
    harm(beside(sides.ours))
    with pytest.raises(Damaged) as caught:
        verify_session(sides.ours)
    assert not isinstance(caught.value, Met)


def flip_a_digit(files: Beside, field: bytes) -> None:
    """Change the first digit of a number in the record of the first run."""
    lines = files.journal.read_bytes().splitlines(keepends=True)
    run = first_run(lines)
    begins = lines[run].index(field) + len(field)
    lines[run] = lines[run][:begins] + bytes([lines[run][begins] ^ 8]) + lines[run][begins + 1 :]
    files.journal.write_bytes(b"".join(lines))


def of_version_0_1_0(files: Beside) -> None:
    """Take from the journal what runs of that version did not write."""
    lines = files.journal.read_bytes().splitlines(keepends=True)
    files.journal.write_bytes(b"".join(map(_older, lines)))


def _older(line: bytes) -> bytes:
    record = json.loads(line)
    for name in ("records", "originalsSha256", "sessionId", "sha256") if record["type"] == "run" else ():
        record.pop(name, None)
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("older", [False, True], ids=["sealed", "0.1.0"])
def test_a_flipped_digit_is_not_taken_for_that(sides: Sides, older: bool) -> None:
    """Where the first run ends in the originals is what the second one is compared with: a seal must vouch for both."""
    files = beside(sides.ours)
    if older:
        of_version_0_1_0(files)
    flip_a_digit(files, b'"storeSize":')
    with pytest.raises(Damaged) as caught:
        verify_session(sides.ours)
    assert not isinstance(caught.value, Met)


def test_of_originals_of_another_length_only_a_seal_tells_whose_they_are(sides: Sides) -> None:
    """In a journal of version 0.1.0 a flipped digit of the last run's length looks as if a frame went on behind it."""
    files = beside(sides.ours)
    of_version_0_1_0(files)
    runs = load(files.journal).runs
    shorter = str(runs[-1].store_size - 1).encode()
    journal = files.journal.read_bytes().replace(str(runs[-1].store_size).encode(), shorter)
    files.journal.write_bytes(journal)
    refuse_if_another_sides(files.journal, load(files.journal))


class Repository:
    """Both sides as branches of a repository, whose path has a space in it."""

    def __init__(self, sides: Sides, folder: Path, attributes: str) -> None:
        self.folder = folder / "the repository"
        self.path = self.folder / "sessions" / NAME
        self.path.parent.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        if attributes:
            (self.folder / ".gitattributes").write_text(attributes)
        self._commit(folder / "base" / NAME)
        self.git("checkout", "-q", "-b", "theirs")
        self._commit(sides.theirs)
        self.git("checkout", "-q", "main")
        self._commit(sides.ours)

    def _commit(self, of: Path) -> None:
        shutil.copytree(of.parent, self.path.parent, dirs_exist_ok=True)
        self.git("add", "-f", ".")
        self.git("commit", "-q", "-m", of.parent.name)

    def git(self, *arguments: str, check: bool = True) -> str:
        """Run git in the repository."""
        return self.run(shlex.join(["git", *arguments]), self.folder, check=check)

    def run(self, command: str, folder: Path, *, check: bool = True) -> str:
        """Run a command as it was printed."""
        names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_EDITOR": "true"}
        env = os.environ | names | {"GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, (command, done.stderr)
        return done.stdout

    def printed(self) -> list[str]:
        """Return the commands that the error names: while a merge is not done, and then two when it is."""
        with pytest.raises(Met) as caught:
            verify_session(self.path)
        return re.findall(r"git -C .+? (?:checkout|log) .+?(?= \(| lists)", str(caught.value))

    def restored(self, command: str) -> bytes:
        """Run a printed command from any folder; return the session that it brings back, restored."""
        self.run(command, self.path.parent / ".sessioncompress")
        verify_session(self.path, EAGER)
        restore_session(self.path, EAGER)
        return self.path.read_bytes()


ATTRIBUTES = {"conflict": "", "union": "*.jsonl merge=union\n"}
UNDER_WAY = {"merge": "MERGE_HEAD", "rebase": "REBASE_HEAD"}


@pytest.fixture(params=ATTRIBUTES)
def repository(sides: Sides, tmp_path: Path, request: pytest.FixtureRequest) -> Repository:
    """Return a repository that merges journals in one way."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    return Repository(sides, tmp_path, ATTRIBUTES[request.param])


def both(sides: Sides) -> set[bytes]:
    """Return what the sides restore to."""
    return {grown(path.parent.name, _steps(path), sides.shared).bytes() for path in (sides.ours, sides.theirs)}


def _steps(path: Path) -> int:
    return len(set(re.findall(rf"cat {path.parent.name}\d".encode(), path.read_bytes())))


@pytest.mark.parametrize("how", UNDER_WAY)
def test_the_sides_come_back_while_a_merge_is_under_way(sides: Sides, repository: Repository, how: str) -> None:
    """With the git commands that the error names: each side restores exactly, and can then be merged."""
    repository.git(how, "theirs", check=False)
    command, *_ = repository.printed()
    other = command.replace(" HEAD ", f" {UNDER_WAY[how]} ")
    assert {repository.restored(each) for each in (command, other)} == both(sides)


@pytest.mark.parametrize("how", UNDER_WAY)
def test_the_sides_come_back_when_a_merge_is_done(sides: Sides, repository: Repository, how: str) -> None:
    """Also when the commit of one side is only in the log of references, as a rebase leaves it."""
    repository.git(how, "theirs", check=False)
    originals = str(beside(repository.path).originals.relative_to(repository.folder))
    repository.git("checkout", "--ours", "--", originals)
    repository.git("add", "-f", ".")
    repository.git(*(["commit", "-q", "-m", "merged"] if how == "merge" else ["rebase", "--continue"]))
    repository.git("branch", "-q", "-D", "theirs")
    _, log, command = repository.printed()
    commits = [line.split()[0] for line in repository.run(log, repository.folder).splitlines()]
    assert len(commits) == 4
    found = set()
    for commit in commits[1:]:
        found.add(repository.restored(command.replace(" COMMIT ", f" {commit} ")))
    assert found - {grown("base", 0, sides.shared).bytes()} == both(sides)


def test_in_a_backup_folder_the_session_is_named_by_the_user(tmp_path: Path) -> None:
    """Its path is not known there."""
    journal = tmp_path / "0123456789ab-session.refs.jsonl"
    remedy = met(journal, "it is so").remedy
    store = "0123456789ab-session.jsonl.zst 0123456789ab-session.refs.jsonl"
    assert f"git -C {tmp_path} checkout HEAD -- SESSION {store} (" in remedy
    assert "SESSION is its path" in remedy
