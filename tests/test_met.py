"""Two stores that met through git: refused by name by every command, told apart from damage, and each side comes back."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from sessioncompress.audit import verify_session
from sessioncompress.cli import main
from sessioncompress.errors import Damaged, Met
from sessioncompress.restore import restore_session
from sessioncompress.store.beside import Beside, beside
from tests import texts
from tests.build import PiSession
from tests.runs import EAGER, append, compress, turn, write

NAME = "session.jsonl"


def grown(side: str, steps: int) -> PiSession:
    """Return a session with a first part, and behind it what one side added."""
    made = PiSession()
    for part, number in (("base", 3), (side, steps))[: 2 if steps else 1]:
        made.user(f"Look at {part}.")
        for step in range(number):
            made.step("bash", {"command": f"cat {part}{step}"}, texts.log_lines(random.Random(f"{part}{step}"), 90))
        turn(made, 2)
    return made


class Sides:
    """A session that two sides took on from one state, each in a folder of its own."""

    def __init__(self, folder: Path, ours: int, theirs: int) -> None:
        base = folder / "base"
        base.mkdir()
        compress(write(base, grown("base", 0)))
        self.base = beside(base / NAME)
        self.ours, self.theirs = (self._side(base, name, steps) for name, steps in (("ours", ours), ("theirs", theirs)))

    @staticmethod
    def _side(base: Path, name: str, steps: int) -> Path:
        folder = base.with_name(name)
        shutil.copytree(base, folder)
        append(folder / NAME, grown(name, steps))
        compress(folder / NAME)
        return folder / NAME

    def added(self, path: Path) -> bytes:
        """Return what a side added to the journal."""
        return beside(path).journal.read_bytes().removeprefix(self.base.journal.read_bytes())

    def journal(self, form: bytes) -> None:
        """Let our journal be both sides' additions in some form."""
        merged = form.replace(b"OURS", self.added(self.ours)).replace(b"THEIRS", self.added(self.theirs))
        beside(self.ours).journal.write_bytes(self.base.journal.read_bytes() + merged)


@pytest.fixture(params=[(2, 5), (5, 2)], ids=["they added more", "we added more"])
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
        assert "git has put two sides together here" in done.output, arguments
        assert "git checkout --ours -- SESSION session.jsonl.zst session.refs.jsonl" in done.output
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


@pytest.mark.parametrize("harm", [cut, rot, rot_and_grow, lose_a_record], ids=lambda harm: harm.__name__)
def test_damage_is_not_taken_for_that(sides: Sides, harm: Callable[[Beside], None]) -> None:
    """What rots or is cut off is no other side."""
    harm(beside(sides.ours))
    with pytest.raises(Damaged) as caught:
        verify_session(sides.ours)
    assert not isinstance(caught.value, Met)


def test_the_sides_come_back_and_can_be_merged(tmp_path: Path) -> None:
    """With the git commands that the error names: each side restores exactly."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    sides = Sides(tmp_path, 2, 5)
    repository = tmp_path / "repository"
    repository.mkdir()

    def run(*arguments: str, check: bool = True) -> str:
        line = [git, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false", *arguments]
        done = subprocess.run(line, cwd=repository, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def commit(of: Path) -> None:
        shutil.copytree(of.parent, repository, dirs_exist_ok=True)
        run("add", "-f", ".")
        run("commit", "-q", "-m", of.parent.name)

    run("init", "-q", "-b", "main")
    commit(tmp_path / "base" / NAME)
    run("checkout", "-q", "-b", "theirs")
    commit(sides.theirs)
    run("checkout", "-q", "main")
    commit(sides.ours)
    run("merge", "theirs", check=False)
    path = repository / NAME
    with pytest.raises(Met) as caught:
        verify_session(path)
    assert "(or --theirs) while the merge is not committed" in str(caught.value)
    three = (NAME, *(str(each.relative_to(repository)) for each in (beside(path).originals, beside(path).journal)))
    for side, steps in (("ours", 2), ("theirs", 5)):
        run("checkout", f"--{side}", "--", *three)
        verify_session(path, EAGER)
        restore_session(path, EAGER)
        assert path.read_bytes() == grown(side, steps).bytes()
