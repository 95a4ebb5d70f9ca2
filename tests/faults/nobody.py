"""Runs our commands in a child that is not root: root may write where nobody else may."""

from __future__ import annotations

import json
import os
import pkgutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

import sessioncompress
from sessioncompress.cli.main import main
from tests.unit.store.tools import in_a_child

NOBODY = 65534


class Ended(NamedTuple):
    """How a command ended: its exit code and all that it printed."""

    code: int
    said: str


def import_everything() -> None:
    """Import all of the package: who is not root may not be able to read where it lies."""
    for module in pkgutil.walk_packages(sessioncompress.__path__, "sessioncompress."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    # What Python itself imports only when a time is read.
    import_module("_strptime")


@contextmanager
def folder_of_nobody() -> Iterator[Path]:
    """Make a folder that whoever runs the commands owns; above it all are open, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        give(folder)
        yield folder
        for each in [folder, *folder.rglob("*")]:
            if each.is_dir() and not each.is_symlink():
                each.chmod(0o700)


def give(path: Path) -> None:
    """Give a file or a folder, with all in it, to who runs the commands."""
    if os.geteuid() == 0:
        for each in [path, *path.rglob("*")]:
            os.chown(each, NOBODY, NOBODY, follow_symlinks=False)


def run_as_nobody(*arguments: str | Path) -> Ended:
    """Run a command, as the user 65534 where this process is root's; an exception of ours is code -1."""
    import_everything()
    reading, writing = os.pipe()

    def work() -> None:
        _become_nobody()
        done = CliRunner().invoke(main, [str(each) for each in arguments])
        code = done.exit_code if isinstance(done.exception, SystemExit | None) else -1
        os.write(writing, json.dumps([code, done.output + repr(done.exception)]).encode())

    assert in_a_child(work) == 0
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        return Ended(*json.load(told))


def _become_nobody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
