"""Sees every path that this process opens or changes while it is asked to look."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sessioncompress.store.layout import FOLDER, PACKS

_EVENTS = frozenset(
    {
        *(
            "open",
            "os.listdir",
            "os.scandir",
            "os.remove",
            "os.rename",
            "os.link",
            "os.symlink",
            "os.mkdir",
            "os.rmdir",
        ),
        *("os.truncate", "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr", "os.chdir", "os.exec"),
        *("subprocess.Popen", "os.system", "os.posix_spawn", "socket.connect", "shutil.rmtree", "shutil.copyfile"),
    }
)
_looking: list[list[str]] = []


def _look(event: str, arguments: tuple[Any, ...]) -> None:
    if _looking and event in _EVENTS:
        # What follows the path of an opening is its mode; a rename and a link have two paths.
        named = arguments[: 1 if event == "open" else 2]
        paths = [each for each in named if isinstance(each, str | bytes | Path)]
        _looking[-1].extend(f"{event} {Path.cwd() / os.fsdecode(each)}" for each in paths)


sys.addaudithook(_look)


@contextmanager
def nothing_outside(folder: Path) -> Iterator[None]:
    """Let a block open and change nothing but what lies in a folder, and what the system tells of processes.

    It may also import, and look for packs in the folders above, where whoever packed them chose to.
    """
    _looking.append([])
    try:
        yield
    finally:
        seen = _looking.pop()
    inside = (f" {folder}/", f" {folder}\n", " /proc/")
    packs = {f"os.listdir {above / FOLDER / PACKS}" for above in folder.parents}
    outside = [
        each
        for each in seen
        if each not in packs
        and not each.endswith((".py", ".pyc"))
        and not any(place in f"{each}\n" for place in inside)
    ]
    assert not outside, outside
