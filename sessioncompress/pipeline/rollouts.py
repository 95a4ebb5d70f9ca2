"""Find and read rollouts that Codex has packed itself with zstd, `rollout-*.jsonl.zst`. We never rewrite them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from sessioncompress.core import jsonl
from sessioncompress.errors import NotASession
from sessioncompress.formats.base import HEAD_LINES, Format, Head, Name
from sessioncompress.formats.table import detect, head_of
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, discover, folders, is_folder
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import FRAME_MAGIC, zstd

ENDING: Final = ".jsonl.zst"
_BEGINNING: Final = "rollout-"
_MOST: Final = 1 << 30
"""Maximum bytes to decompress: a small file may expand to any size."""
_WINDOW: Final = {int(zstd.DecompressionParameter.window_log_max): 27}


def with_zipped(paths: Iterable[Path], globs: Globs = EVERYTHING) -> Iterator[Found]:
    """Yield what discover() yields, and the zipped rollouts in the folders."""
    paths = list(paths)
    yield from discover(paths, globs)
    yield from (Found(path, named=False) for path in zipped_in(paths, globs))


def zipped_in(paths: Iterable[Path], globs: Globs = EVERYTHING) -> Iterator[Path]:
    """Yield the zipped rollouts in the folders, found by name."""
    for here, below in (each for path in paths if is_folder(path) for each in folders(path, globs)):
        with suppress(OSError):
            for name in sorted(os.listdir(here)):
                if name.startswith(_BEGINNING) and name.endswith(ENDING) and globs.takes(below + name):
                    yield here / name


def whose(path: Path) -> tuple[Format, Name]:
    """Detect a session's format, also of a zipped rollout, and read its header. Raises as read() does."""
    with open_session(path, writing=False) as session:
        form, head = read(session)
        return form, form.named(head)


def is_zipped(session: OpenSession) -> bool:
    """True if a file starts with the magic number of zstd."""
    return os.pread(session.fd, len(FRAME_MAGIC), 0) == FRAME_MAGIC


def read(session: OpenSession) -> tuple[Format, Head]:
    """Detect a session's format, also of a zipped rollout, and read its head. Raises as reading.format_of() does."""
    if not is_zipped(session):
        head = reading.head_in(session)
        return reading.format_of(session, head), head
    head = head_of(raw for _, raw, whole in islice(pieces(session), HEAD_LINES) if whole)
    form = detect(head)
    if form is None:
        what, remedy = "the packed file is not a session of any agent we know", "Name a session."
        raise NotASession(what, where=session.path, state="It was not changed.", remedy=remedy)
    return form, head


def pieces(session: OpenSession) -> Iterator[jsonl.Piece]:
    """Yield a session's lines. For a zipped rollout, stop silently where decompression fails."""
    if not is_zipped(session):
        yield from jsonl.pieces_of(session.reader, session.size)
        return
    with suppress(zstd.ZstdError, EOFError), session.reader() as file, zstd.ZstdFile(file, options=_WINDOW) as content:
        yield from jsonl.pieces(content, _MOST)  # type: ignore[arg-type]  # it reads lines like a file
