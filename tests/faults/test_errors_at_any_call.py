"""Nothing lost: an error of the system at every call that changes the disk, once and from then on."""

from __future__ import annotations

import errno
from itertools import product
from pathlib import Path

from sessioncompress.errors import NOT_CHANGED, FileFailed, SessionCompressError, Unsupported
from tests.faults.effort import effort
from tests.faults.scenes import (
    SIZES,
    Scene,
    Size,
    Stage,
    check,
    each_size,
    frames_of,
    stage,
)
from tests.unit.store.tools import disk, everything, failing_at

ERRNOS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES)


@each_size(effort(SIZES[:1], SIZES[::2], SIZES))
def test_an_error_at_any_call(tmp_path: Path, scene: Scene, size: Size) -> None:
    """The session is old or new, what is said of it is true, and a later run puts everything right."""
    with frames_of(size):
        play = stage(scene, size, tmp_path)
        for turn, number, ever_after in product(range(effort(1, 1, len(ERRNOS))), range(play.calls), (False, True)):
            with play.played(tmp_path / "played") as path:
                # One after the other: nothing that is done goes by which of them it is.
                code = ERRNOS[(number + turn + 2 * ever_after) % len(ERRNOS)]
                _fail(play, path, number, code, ever_after=ever_after)
                check(play, path)


def _fail(play: Stage, path: Path, number: int, code: int, *, ever_after: bool) -> None:
    before = everything(path.parent)
    said = _run(play, path, number, code, ever_after=ever_after)
    changed = path.read_bytes() != play.old
    if said is not None:
        assert said.exit_code == (4 if isinstance(said, Unsupported) else 3)
        assert path.name in str(said)
        assert changed != (NOT_CHANGED in str(said)) or play.old == play.new
    if play.old != play.new and not changed and not ever_after:
        assert said is not None
        assert everything(path.parent) == before


def _run(play: Stage, path: Path, number: int, code: int, *, ever_after: bool) -> SessionCompressError | None:
    with play.clock(), disk(failing_at(number, code, ever_after=ever_after)):
        try:
            play.scene.act(path)
        except (FileFailed, Unsupported) as error:
            return error
    return None
