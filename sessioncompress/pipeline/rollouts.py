"""Rollouts that Codex has packed itself, `rollout-*.jsonl.zst`: found, and read as they are. Nothing rewrites them."""

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
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, discover, folders, is_folder
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import FRAME_MAGIC, zstd

ENDING: Final = ".jsonl.zst"
_BEGINNING: Final = "rollout-"
_MOST: Final = 1 << 30
"""Bytes of a rollout's content that are looked at: a few kilobytes on the disk may claim to be anything."""
_WINDOW: Final = {int(zstd.DecompressionParameter.window_log_max): 27}


def with_packed(paths: Iterable[Path], globs: Globs = EVERYTHING) -> Iterator[Found]:
    """Yield what discover() does, and the packed rollouts among the files and folders."""
    paths = list(paths)
    yield from discover(paths, globs)
    yield from (Found(path, named=False) for path in packed_in(paths, globs))


def packed_in(paths: Iterable[Path], globs: Globs = EVERYTHING) -> Iterator[Path]:
    """Yield the packed rollouts in folders, by their names."""
    for here, below in (each for path in paths if is_folder(path) for each in folders(path, globs)):
        with suppress(OSError):
            for name in sorted(os.listdir(here)):
                if name.startswith(_BEGINNING) and name.endswith(ENDING) and globs.takes(below + name):
                    yield here / name


def whose(path: Path) -> tuple[Format, Name]:
    """Detect the format of a packed rollout, and read its header. Raises as reading.whose() does."""
    with open_session(path, writing=False) as session:
        form, head = read(session)
        return form, form.named(head)


def is_packed(session: OpenSession) -> bool:
    """Tell by its first bytes whether a file is packed with zstd."""
    return os.pread(session.fd, len(FRAME_MAGIC), 0) == FRAME_MAGIC


def read(session: OpenSession) -> tuple[Format, Head]:
    """Detect the format of what is packed in a file, and read its head. Raises NotASession."""
    head = head_of(raw for _, raw, whole in islice(pieces(session), HEAD_LINES) if whole)
    form = detect(head)
    if form is None:
        what, remedy = "the packed file is not a session of any agent we know", "Name a session."
        raise NotASession(what, where=session.path, state="It was not changed.", remedy=remedy)
    return form, head


def pieces(session: OpenSession) -> Iterator[jsonl.Piece]:
    """Yield the lines of a session; of a packed rollout those up to where it cannot be decompressed."""
    if not is_packed(session):
        yield from jsonl.pieces_of(session.reader, session.size)
        return
    with suppress(zstd.ZstdError, EOFError), session.reader() as file, zstd.ZstdFile(file, options=_WINDOW) as content:
        yield from jsonl.pieces(content, _MOST)  # type: ignore[arg-type]  # it reads lines as a file does
