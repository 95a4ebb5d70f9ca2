"""Two sides that both went on from one store: git keeps one of them whole, and what mixes them is refused by name."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Damaged
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.store.layout import Store, store_in
from tests.support import texts
from tests.support.build import PiSession
from tests.support.repository import Repository
from tests.support.runs import EAGER, append, compress, invoke, turn, write

NAME = "session.jsonl"


def grown(side: str, steps: int, shared: int = 0) -> PiSession:
    """Return a session with a first part, whose last turn has `shared` steps, and behind it what one side added."""
    made = PiSession()
    for part, number in (("base", 3), (side, steps))[: 2 if steps else 1]:
        made.user(f"Look at {part}.")
        for step in range(number):
            made.step("bash", {"command": f"cat {part}{step}"}, texts.log_lines(random.Random(f"{part}{step}"), 90))
        turn(made, 2)
        for step in range(shared if part == "base" else 0):
            # Of prose each run makes the same preview, whatever else it reads.
            text = "\n".join(texts.prose(random.Random(f"shared{step}{line}")) for line in range(60))
            made.step("bash", {"command": f"cat shared{step}"}, text)
    return made


class Sides:
    """A session that two sides took on from one state, each in a folder of its own.

    Both first rewrote the `shared` steps that the base had left.
    """

    def __init__(self, folder: Path, shared: int) -> None:
        self.shared = shared
        self.base = store_in(folder / "base" / NAME)
        self.ours, self.theirs = (folder / name / NAME for name in ("ours", "theirs"))

    def added(self, path: Path) -> bytes:
        return store_in(path).journal.read_bytes().removeprefix(self.base.journal.read_bytes())

    def journal(self, form: bytes) -> None:
        merged = form.replace(b"OURS", self.added(self.ours)).replace(b"THEIRS", self.added(self.theirs))
        store_in(self.ours).journal.write_bytes(self.base.journal.read_bytes() + merged)


@pytest.fixture(scope="module", params=[(2, 5, 0), (5, 2, 3)], ids=["they added more", "we added more to shared ones"])
def made(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Path, int]:
    """Make both sides; return their folder, and how many steps both have rewritten."""
    folder = tmp_path_factory.mktemp("sides")
    ours, theirs, shared = request.param
    (folder / "base").mkdir()
    compress(write(folder / "base", grown("base", 0, shared)))
    for name, steps in (("ours", ours), ("theirs", theirs)):
        shutil.copytree(folder / "base", folder / name)
        append(folder / name / NAME, grown(name, steps, shared))
        compress(folder / name / NAME)
    return folder, shared


@pytest.fixture
def sides(tmp_path: Path, made: tuple[Path, int]) -> Sides:
    folder, shared = made
    return Sides(shutil.copytree(folder, tmp_path / "sides"), shared)


Meeting = Callable[[Sides], None]


def mixed(form: bytes) -> Meeting:
    """Leave a journal of what both sides added."""
    return lambda sides: sides.journal(form)


def theirs(*names: str) -> Meeting:
    def take(sides: Sides) -> None:
        ours, others = ({**store_in(path)._asdict(), "session": path} for path in (sides.ours, sides.theirs))
        for name in names:
            shutil.copyfile(others[name], ours[name])

    return take


def union_of_what_differs(sides: Sides) -> None:
    """Leave both sides' records as git does where merge=union is set: what both began with stands once."""
    ours, theirs = (sides.added(path).splitlines(keepends=True) for path in (sides.ours, sides.theirs))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    assert bool(same) is bool(sides.shared)
    sides.journal(b"".join([*ours, *theirs[same:]]))


def union_with_theirs(sides: Sides) -> None:
    """Leave both sides' records, and the other side's originals."""
    sides.journal(b"OURSTHEIRS")
    theirs("originals")(sides)


CONFLICT = mixed(b"<<<<<<< HEAD\nOURS=======\nTHEIRS>>>>>>> theirs\n")
MEETINGS: dict[str, Meeting] = {
    "conflict": CONFLICT,
    "conflict in the style diff3": mixed(b"<<<<<<< HEAD\nOURS||||||| 1234567\n=======\nTHEIRS>>>>>>> theirs\n"),
    "union": mixed(b"OURSTHEIRS"),
    "union of what differs": union_of_what_differs,
    "union with the other side's originals": union_with_theirs,
    "the other side's originals": theirs("originals"),
    "the other side's journal": theirs("journal"),
    "the other side's session and journal": theirs("journal", "session"),
}


def everything(store: Store, path: Path) -> tuple[bytes, ...]:
    return tuple(each.read_bytes() for each in (path, store.originals, store.journal))


@pytest.mark.parametrize("meet", MEETINGS.values(), ids=MEETINGS)
def test_no_command_takes_them_for_one(sides: Sides, meet: Meeting) -> None:
    """Exit code 5, and nothing is changed. Of `restore --from-markers` each line that it puts back is proven."""
    meet(sides)
    path = sides.ours
    before = everything(store_in(path), path)
    for arguments in (
        ["compress", "--force"],
        ["compress", "--force", "--dry-run"],
        ["verify"],
        ["restore"],
        ["forget", "--yes", "--older-than", "0d"],
    ):
        done = invoke(*arguments, path)
        assert done.exit_code == 5, (arguments, done.output)
        assert everything(store_in(path), path) == before, arguments
    invoke("restore", "--from-markers", path)
    assert store_in(path).originals.read_bytes() == before[1]


def test_a_conflict_marker_is_named(sides: Sides) -> None:
    CONFLICT(sides)
    with pytest.raises(Damaged, match="git left a conflict marker there") as caught:
        verify_session(sides.ours)
    assert "from one side: 'git checkout COMMIT -- FILE ...'" in str(caught.value)


COMMITTED = replace(EAGER, commit_originals=True)


class Branches:
    """Both sides as branches of a repository, each compressed there with its originals committed."""

    def __init__(self, folder: Path, shared: int, attributes: str = "") -> None:
        self.repository = Repository(folder / "the repository")
        self.folder = self.repository.folder
        self.path = self.folder / "sessions" / NAME
        self.path.parent.mkdir()
        self.shared = shared
        if attributes:
            (self.folder / ".gitattributes").write_text(attributes)
        self._commit("base", 0)
        self.git("checkout", "-q", "-b", "theirs")
        self._commit("theirs", 5)
        self.git("checkout", "-q", "main")
        self._commit("ours", 2)

    def _commit(self, side: str, steps: int) -> None:
        made = grown(side, steps, self.shared)
        append(self.path, made) if steps else write(self.path.parent, made)
        compress(self.path, COMMITTED)
        self.repository.commit(side)

    def git(self, *arguments: str) -> int:
        return self.repository.run("git", *arguments).returncode

    def three(self) -> list[Path]:
        files = store_in(self.path)
        return [self.path, files.originals, files.journal]

    def blob(self, commit: str, path: Path) -> bytes:
        name = f"{commit}:{path.relative_to(self.folder)}"
        command = ["git", "cat-file", "blob", name]
        return subprocess.run(command, cwd=self.folder, capture_output=True, check=True).stdout

    def stash(self) -> None:
        """Pop what one side stashed onto the other."""
        self.git("checkout", "-q", "theirs")
        self.git("reset", "-q", "--soft", "HEAD~1")
        self.git("stash", "push", "-q")
        self.git("checkout", "-q", "main")
        assert self.git("stash", "pop") == 1


WAYS: dict[str, Callable[[Branches], object]] = {
    "merge": lambda branches: branches.git("merge", "-q", "theirs"),
    "rebase": lambda branches: branches.git("rebase", "-q", "theirs"),
    "cherry-pick": lambda branches: branches.git("cherry-pick", "theirs"),
    "stash": Branches.stash,
}
RULES = {"none": "", "union": "*.jsonl merge=union\n", "text": "* text eol=crlf\n*.jsonl -text\n"}


@pytest.mark.parametrize(
    ("way", "rule", "shared"), [*((way, "none", 3) for way in WAYS), *(("merge", rule, 0) for rule in RULES)]
)
def test_git_keeps_one_side_whole(tmp_path: Path, shared: int, way: str, rule: str) -> None:
    """And says that both have changed; each side comes back with git's own commands, and restores exactly."""
    branches = Branches(tmp_path, shared, RULES[rule])
    tips = {side: branches.repository.git("rev-parse", side).strip() for side in ("main", "theirs")}
    WAYS[way](branches)
    store = branches.path.parent / ".sessioncompress"
    conflicts = branches.repository.git("diff", "--name-only", "--diff-filter=U", "--", store).splitlines()
    assert len(conflicts) == 2
    journal = store_in(branches.path).journal.read_bytes()
    assert journal in [branches.blob(tip, store_in(branches.path).journal) for tip in tips.values()]
    for side, steps in (("main", 2), ("theirs", 5)):
        branches.git("checkout", tips[side], "--", *map(str, branches.three()))
        verify_session(branches.path, COMMITTED)
        restore_session(branches.path, COMMITTED)
        name = "ours" if side == "main" else side
        assert branches.path.read_bytes() == grown(name, steps, shared).bytes()


@pytest.mark.parametrize("rule", ["core.autocrlf=true", "core.eol=crlf", "core.attributesFile"])
def test_a_clone_has_the_same_bytes(tmp_path: Path, rule: str) -> None:
    """Also where whoever clones lets git convert the ends of lines."""
    branches = Branches(tmp_path, 0)
    options = ["-c", rule]
    if rule == "core.attributesFile":
        (tmp_path / "attributes").write_text("* text eol=crlf ident\n")
        options = ["-c", f"core.attributesFile={tmp_path / 'attributes'}"]
    branches.repository.git(*options, "clone", "-q", "--no-local", branches.folder, tmp_path / "clone")
    for path in branches.three()[1:]:
        clone = tmp_path / "clone" / path.relative_to(branches.folder)
        assert clone.read_bytes() == path.read_bytes()
