"""Stores of sessions at every place where one may lie, and the users who keep them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from sessioncompress.store import machine
from sessioncompress.store.layout import FOLDER, Store, hidden_in, holds, locals_in, plain_in, store_in
from sessioncompress.store.machine import folder_name
from tests.support.repository import Repository
from tests.support.runs import fixture, split

LINES = split(fixture("pi-anthropic.jsonl"))
HEAD, MORE, ORIGINAL = b"".join(LINES[:70]), b"".join(LINES[70:]), b"".join(LINES)
COMPRESS = ("compress", "--force", "--preset", "low-cost", "--keep-turns", "0", "--protect-tokens", "0")
LOCAL = "local-00000000"
"""A folder that anybody may name."""
SMALL = b'{"session": {"compact": {"minDeadTokens": 0, "minSavedTokens": 0}}}'
"""A policy by which a summary of anything is worth it."""

PLACES: dict[str, Callable[[Path], Store]] = {
    "own": lambda path: hidden_in(path, folder_name()),
    "plain": plain_in,
    "another machine's": lambda path: hidden_in(path, LOCAL),
}


def at_place(path: Path, place: str) -> Store:
    """Move the store of a session to one of the places where it may be: an archive or a copy brings it to any."""
    files, to = store_in(path), PLACES[place](path)
    if files != to:
        to.folder.mkdir(mode=0o700, exist_ok=True)
        files.originals.rename(to.originals)
        files.journal.rename(to.journal)
        # With its .gitignore.
        shutil.rmtree(files.folder)
    return to


@contextmanager
def user_of(state: Path) -> Iterator[None]:
    """Run as who keeps his key in that folder: another user, or the same on another machine."""
    with mock.patch.object(machine, "_found", []), mock.patch.dict(os.environ, XDG_STATE_HOME=str(state)):
        yield


def grows(path: Path, more: bytes) -> None:
    with path.open("ab") as file:
        file.write(more)


def stores_of(path: Path, backups: Path | None = None) -> list[Store]:
    """List all stores of a session beside it or in a backup folder, halves too."""
    plain = plain_in(path, backups)
    return list(filter(holds, (plain, *(hidden_in(path, name, backups) for name in locals_in(plain.folder)))))


def copied(store: Store, to: Store) -> Store:
    to.folder.mkdir(exist_ok=True)
    shutil.copy(store.originals, to.originals)
    shutil.copy(store.journal, to.journal)
    return to


def own_folder(path: Path) -> Path:
    """Name the folder of this user's stores beside a session."""
    return path.parent / FOLDER / folder_name()


def in_work_tree(folder: Path) -> None:
    """Make a folder a work tree, in which our folder has the .gitignore that every version makes."""
    subprocess.run(["git", "init", "--quiet", "--template=", folder], check=True)
    (folder / FOLDER).mkdir(exist_ok=True)
    (folder / FOLDER / ".gitignore").write_bytes(b"*\n")


def repository(folder: Path, content: bytes = HEAD) -> tuple[Repository, Path]:
    """Return a work tree, and a session in it that nothing was done to."""
    mine = Repository(folder / "mine")
    path = mine.folder / "s.jsonl"
    path.write_bytes(content)
    return mine, path
