"""The names of files as a summary shows them: below the folder that most of them are in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from sessioncompress.checkpoints.quote import code, one_line

_PART = re.compile(r":[0-9]{1,9}(?:[-+][0-9]{1,9})?\Z")
"""The lines that some agents write behind a file's name."""
_MOST_FOLDERS = 4_000
_MOST = 0.6
_DEEP = 2
_SHORTEST = 10
"""Folders, and characters, that a root has at least."""


HERE = "./"
"""Begins a path of the folder that the agent works in, whichever that is."""
AT_ROOT = "(top)/"
"""Stands for the root itself where files are listed by folder."""


def is_whole(path: str) -> bool:
    """Tell whether a path does not depend on the folder that the agent works in."""
    return path.startswith(("/", "~/")) or path[1:3] == ":/" or "://" in path


def joined(folder: str, path: str) -> str:
    """Name a path that is told from a folder, where one is known."""
    path = path.replace("\\", "/") if path[1:3] == ":\\" else path
    return f"{folder.rstrip('/')}/{path.removeprefix(HERE)}" if folder and not is_whole(path) else path


class Paths:
    """Remembers where the files of a session are."""

    def __init__(self) -> None:
        self._folders: Counter[str] = Counter()
        self._seen = 0

    def key(self, path: str) -> str:
        """Write a path as it is remembered."""
        path = _PART.sub("", one_line(path, 400))
        if "\\" in path and path[1:2] == ":":
            path = path.replace("\\", "/")
        while path.startswith(HERE):
            path = path.removeprefix(HERE)
        path = path.rstrip("/") or path
        self.seen(path.rpartition("/")[0])
        return path

    def seen(self, folder: str) -> None:
        """Count a folder in which something was done."""
        self._seen += 1
        if is_whole(folder) and "://" not in folder and (folder in self._folders or len(self._folders) < _MOST_FOLDERS):
            self._folders[folder] += 1

    def root(self) -> str:
        """Find the folder that most are in and that saves most when the paths below it are written without it."""
        inside: Counter[str] = Counter()
        for folder, count in self._folders.items():
            steps = folder.split("/")
            for end in range(_DEEP + (folder[1:2] != ":"), len(steps) + 1):
                inside["/".join(steps[:end])] += count
        held = [folder for folder, count in inside.items() if count >= self._seen * _MOST and len(folder) >= _SHORTEST]
        return max(held, key=lambda folder: (inside[folder] * len(folder), folder), default="")


def below(path: str, root: str) -> str:
    """Write a path below the root without it, and beside a root one that begins nowhere as of the working folder."""
    rest = next((path[len(name) + 1 :] for name in names_of(root) if path.startswith(f"{name}/")), "")
    return rest or (path if not root or is_whole(path) else HERE + path)


def names_of(root: str) -> list[str]:
    """Name a root in all ways: a drive's letter is a folder to the shells of Windows. Nothing without a root."""
    return [root, f"/{root[0].lower()}{root[2:]}"] if root[1:2] == ":" else [root] if root else []


def by_folder(names: Iterable[str]) -> list[str]:
    """Write names of files in a row for each folder."""
    folders: dict[str, list[str]] = {}
    for path in names:
        folder, slash, name = one_line(path, 160).rpartition("/")
        folders.setdefault(folder + slash, []).append(name)
    return [f"- {code(f'{folder or AT_ROOT}: ' + ', '.join(inside))}" for folder, inside in folders.items()]
