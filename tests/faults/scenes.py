"""What the fault tests do with a session: each scene is a folder as it was and the one command that runs in it."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Damaged, UsageError
from sessioncompress.operations.branch import summarize_branch
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.forget import Only, forget_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.policy.model import Compact
from sessioncompress.store import commit, originals
from sessioncompress.store.layout import store_in
from sessioncompress.store.machine import make_key
from tests.support import texts
from tests.support.branched import branched
from tests.support.build import PiSession
from tests.support.long import FEW, LONG, TURNS
from tests.support.repository import Repository
from tests.support.runs import EAGER, fixture, turn, write
from tests.unit.store.tools import copy_folder, disk, in_a_child, late_link, left_over

NAME = "session.jsonl"
Fault = Callable[[int, str, tuple[Any, ...]], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a session is: its steps, the lines of each result, and the content of a frame of originals."""

    name: str
    steps: int
    lines: int
    frame: int = originals.FRAME_BYTES


SIZES = (Size("small", 2, 60), Size("medium", 12, 160), Size("many frames", 12, 300, 1 << 16))


@dataclass(frozen=True, slots=True)
class Scene:
    """One command in the life of a session: `prepare` makes the folder it runs in, `act` and `command` run it."""

    name: str
    prepare: Callable[[Path, Size], Path]
    act: Callable[[Path], object]
    command: tuple[str, ...]
    done: Callable[[Path], bool] = lambda path: True
    original: bytes = b""
    """The session before anything was done to it, where it is none of built(), and has one size."""
    like: str = ""
    """The scene that makes the same calls, of the same kinds of files: what goes by those alone is tried on that one."""


def built(size: Size, part: int) -> PiSession:
    """Return a session with its first parts of work, each ended by turns that make it old."""
    made = PiSession()
    for number in range(part):
        made.user(f"Part {number}: look at the logs.")
        for step in range(size.steps):
            text = texts.log_lines(random.Random(f"{number} {step}"), size.lines)
            made.step("bash", {"command": f"cat {number}-{step}.log"}, text, thinking="Let me look at them. " * 20)
        turn(made, 2)
    return made


def compress(path: Path) -> object:
    """Compress the session, however little came."""
    return compress_session(path, EAGER, force=True)


def _first(folder: Path, size: Size) -> Path:
    return write(folder, built(size, 1))


def _compressed(folder: Path, size: Size) -> Path:
    path = _first(folder, size)
    compress(path)
    return path


def _undone(folder: Path, size: Size) -> Path:
    path = _compressed(folder, size)
    restore_session(path)
    return path


def _continued(folder: Path, size: Size) -> Path:
    path = _compressed(folder, size)
    with path.open("ab") as file:
        file.write(built(size, 2).bytes()[len(built(size, 1).bytes()) :])
    return path


def _has_no_journal(path: Path) -> bool:
    return not store_in(path).journal.exists()


def _with_a_gone_one(folder: Path, size: Size) -> Path:
    """Beside a session lies all of one that is gone, with what dead runs left of it."""
    path = _compressed(folder, size)
    lost = write(folder, built(size, 1).bytes().replace(b'"id":"019cac38', b'"id":"119cac38', 1), f"gone {NAME}")
    compress(lost)
    content = lost.read_bytes()
    (store_in(path).work / f"{lost.name}.temp-0123abcd").write_bytes(content)
    late_link(lost, content, carried=len(content))
    lost.unlink()
    return path


def _forget_gone(path: Path) -> None:
    # A kill may come after the last of it.
    with suppress(UsageError):
        try:
            forget_session(path.with_name(f"gone {NAME}"), EAGER, only=Only(gone=True))
        except Damaged:
            # A kill may leave a journal without originals, as a sync does that brings them later.
            forget_session(path.with_name(f"gone {NAME}"), EAGER)


def _is_clean(path: Path) -> bool:
    return not any(each.name.startswith("gone") for each in store_in(path).work.iterdir())


def _committed(folder: Path, size: Size) -> Path:
    path = _first(folder, size)
    # Else only the first play would make it.
    make_key()
    Repository(folder).commit()
    return path


def _compress_committed(path: Path) -> object:
    return compress_session(path, replace(EAGER, commit_originals="history"), force=True)


def _from_commits(folder: Path, size: Size) -> Path:
    path = _committed(folder, size)
    _compress_committed(path)
    assert b'"git-edit"' in store_in(path).journal.read_bytes()
    return path


def _fixture(name: str) -> Callable[[Path, Size], Path]:
    return lambda folder, _: write(folder, fixture(name))


def _long(name: str) -> Callable[[Path, Size], Path]:
    return lambda folder, _: write(folder, LONG[name](TURNS))


def _compacted(folder: Path, _: Size) -> Path:
    """One that was compacted, and compressed behind that."""
    path = write(folder, LONG["pi"](TURNS))
    compact_session(path, FEW)
    compress(path)
    return path


def _compact(path: Path) -> object:
    return compact_session(path, FEW)


def _drop(path: Path) -> object:
    return compact_session(path, FEW, drop_dead=True)


def _dropped(name: str) -> Callable[[Path, Size], Path]:
    """One whose old lines were compressed and then dropped, and which was compressed behind that."""

    def made(folder: Path, _: Size) -> Path:
        path = write(folder, LONG[name](TURNS))
        compress(path)
        least = Compact(keep_tokens=600, min_dead_tokens=100, min_saved_tokens=1)
        compact_session(path, replace(FEW, compact=least), drop_dead=True)
        compress(path)
        assert b'{"type":"dropped"' in store_in(path).journal.read_bytes()
        return path

    return made


_RANDOM = re.compile(r"(?<=\.(?:late|temp)-).*")
_LEFT = ("pi", "codex")
"""Those whose old lines are played to leave, and to come back."""


def _branched(folder: Path, _: Size) -> Path:
    return write(folder, branched().data)


def _leave(path: Path) -> object:
    return summarize_branch(path, EAGER)


_PLAYED = {"pi": "", "claude-code": "compact pi", "codex": "compact pi", "gemini document": "first run"}
_COMPACT = ("compact", "--keep", "tokens", "--keep-tokens", "3000")
_DROP = (*_COMPACT, "--drop-dead")
_COMPRESS = ("compress", "--force", "--keep-turns", "1")
SCENES = (
    Scene("first run", _first, compress, _COMPRESS),
    Scene("run over a session that went on", _continued, compress, _COMPRESS),
    Scene("redo", _undone, compress, _COMPRESS, like="restore"),
    # Messages that are no lines of their own.
    *(
        Scene(f"first run over {name}", _fixture(name), compress, _COMPRESS, original=fixture(name), like="first run")
        for name in ("gencode.json", "gemini.jsonl")
    ),
    Scene("run over what a commit has", _committed, _compress_committed, (*_COMPRESS, "--originals-in", "history")),
    Scene("restore", _compressed, restore_session, ("restore",)),
    Scene("restore from commits", _from_commits, restore_session, ("restore",)),
    *(
        Scene(f"compact {name}", _long(name), _compact, _COMPACT, original=LONG[name](TURNS), like=like)
        for name, like in _PLAYED.items()
    ),
    *(
        Scene(f"drop from {name}", _long(name), _drop, _DROP, original=LONG[name](TURNS), like="first run")
        for name in _LEFT
    ),
    *(
        Scene(
            f"restore what left {name}",
            _dropped(name),
            restore_session,
            ("restore",),
            original=LONG[name](TURNS),
            like="restore",
        )
        for name in _LEFT
    ),
    Scene("leave a branch", _branched, _leave, ("branch-summary",), original=branched().data, like="compact pi"),
    Scene(
        "restore of a checkpoint",
        _compacted,
        restore_session,
        ("restore",),
        original=LONG["pi"](TURNS),
        like="restore",
    ),
    Scene("forget", _compressed, forget_session, ("forget", "--yes"), _has_no_journal),
    Scene("forget what is gone", _with_a_gone_one, _forget_gone, ("forget", "--gone", "--yes"), _is_clean),
)


PATHS = tuple(scene for scene in SCENES if not scene.like)
"""Of those that make the same calls one."""


def each_size(sizes: Sequence[Size], scenes: Sequence[Scene] = PATHS) -> pytest.MarkDecorator:
    """Play scenes at these sizes; one whose session has a size of its own once, and once in many frames.

    One that makes the calls of another is played at the smallest alone.
    """
    plays = [
        (scene, size)
        for scene in scenes
        for size in sizes
        if size is SIZES[0] or (not scene.like and (not scene.original or size.frame < len(scene.original)))
    ]
    names = [f"{scene.name}, {size.name}" for scene, size in plays]
    return pytest.mark.parametrize(("scene", "size"), plays, ids=names)


State = tuple[tuple[object, ...], ...]
"""Of each file in a folder its names, its mode and what it holds; numbers of inodes and random names are what has them."""


def state_of(folder: Path) -> State:
    """Return all of a folder that a run may go by."""
    named: dict[int, list[Path]] = {}
    for path in folder.rglob("*"):
        named.setdefault(path.lstat().st_ino, []).append(path)
    files = {inode: _file(folder, paths) for inode, paths in named.items()}
    drafts = {path.name.rpartition("-")[2]: path.lstat().st_ino for path in folder.rglob("*.temp-*")}
    late = []
    for link in folder.rglob("*.late-*"):
        # But for the seal, which is the name's own.
        inode, since, drained, base, successor, draft, prefix, _ = link.name.partition(".late-")[2].split("-")
        inodes = (int(inode), int(successor), drafts.get(draft, 0))
        late.append((*(files.get(each) for each in inodes), since, drained, base, prefix))
    return *sorted(files.values()), *sorted(late, key=repr)


def _file(folder: Path, paths: Sequence[Path]) -> tuple[object, ...]:
    names = tuple(sorted(_RANDOM.sub("", str(path.relative_to(folder))) for path in paths))
    mode = paths[0].lstat().st_mode
    return names, mode, sha256(paths[0].read_bytes()).digest() if stat.S_ISREG(mode) else b""


@dataclass(frozen=True, slots=True)
class Stage:
    """A scene at one size, ready to be played: what the session is before and after, and what it was at first.

    `states` are the calls before which a kill finds the disk as no earlier one would: it undoes no fsync. `begun` is
    the time at which all its runs run, so that what they leave differs by nothing but the fault.
    """

    scene: Scene
    folder: Path
    old: bytes
    new: bytes
    original: bytes
    calls: int
    states: int
    begun: float
    checked: set[State] = field(default_factory=set)

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Let a block, and what is forked in it, run at the time of this stage."""
        with mock.patch.object(time, "time", return_value=self.begun):
            yield

    @contextmanager
    def played(self, at: Path) -> Iterator[Path]:
        """Return the session in a fresh copy of the folder, which goes again."""
        copy_folder(self.folder, at)
        yield at / NAME
        shutil.rmtree(at)


def stage(scene: Scene, size: Size, folder: Path) -> Stage:
    """Prepare a scene, and play it once without a fault: that is what it should come to."""
    template = folder / "template"
    template.mkdir()
    path = scene.prepare(template, size)
    old = path.read_bytes()
    # The first run that writes makes it, and would count calls that no later one has.
    make_key()
    once = Stage(scene, template, b"", b"", b"", 0, 0, time.time())
    with once.played(folder / "once") as at, disk() as seam:
        scene.act(at)
        new = at.read_bytes()
    original = scene.original or _original(path, size)
    states = sum(map(_is_new_state, ["", *seam.calls[:-1]]))
    return Stage(scene, template, old, new, original, len(seam.calls), states, once.begun)


def _original(path: Path, size: Size) -> bytes:
    """Return what a session was before anything was done to it."""
    parts = 2 if path.read_bytes().endswith(built(size, 2).lines()[-1]) else 1
    return built(size, parts).bytes()


def kill_at(number: int) -> Fault:
    """Make a fault that kills this process just before one call that changes the disk."""

    def kill(found: int, name: str, arguments: tuple[Any, ...]) -> None:
        del name, arguments
        if found == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def _is_new_state(before: str) -> bool:
    return before != "fsync"


def _kill_at_state(number: int) -> Fault:
    """Make a fault that kills this process just before one of the calls that find a new state."""
    before, state = "", -1

    def kill(found: int, name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal before, state
        state += _is_new_state(before)
        before = name
        kill_at(number)(state, name, arguments)

    return kill


def killed(stage: Stage, path: Path, number: int) -> bool:
    """Run the scene's command in a child and kill it in one state; return whether it lived until then."""

    def work() -> None:
        with stage.clock(), disk(_kill_at_state(number)):
            stage.scene.act(path)

    return in_a_child(work) == signal.SIGKILL


def check(stage: Stage, path: Path) -> None:
    """Check what a fault left, and that the next run goes on from there: once, however many faults leave that."""
    state = state_of(path.parent)
    if state not in stage.checked:
        check_old_or_new(stage, path)
        check_it_goes_on(stage, path)
        stage.checked.add(state)


def check_old_or_new(stage: Stage, path: Path) -> None:
    """The session is exactly the one or the other, and every original that it needs is there and right."""
    content = path.read_bytes()
    assert content in (stage.old, stage.new)
    assert path.stat().st_mode & 0o777 == 0o640
    if stage.scene.act is not forget_session:
        verify_session(path)


def check_it_goes_on(stage: Stage, path: Path) -> None:
    """The next run finishes what the killed one began, leaves nothing behind, and the original can still be had."""
    stage.scene.act(path)
    assert path.read_bytes() == stage.new
    assert left_over(path.parent) == []
    assert stage.scene.done(path)
    if stage.scene.act is not forget_session:
        restore_session(path)
        assert path.read_bytes() == stage.original


@cache
def _frames() -> tuple[Any, ...]:
    return originals, commit


@contextmanager
def frames_of(size: Size) -> Iterator[None]:
    """Let frames of originals hold as much as a size wants."""
    usual = originals.FRAME_BYTES
    for module in _frames():
        module.FRAME_BYTES = size.frame
    try:
        yield
    finally:
        for module in _frames():
            module.FRAME_BYTES = usual
