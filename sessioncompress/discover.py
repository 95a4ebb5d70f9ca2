"""Paths that a user names to the files that they mean; folders are walked, our own files and links are passed over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = ".sessioncompress"
_SUFFIX = ".jsonl"
_NEVER = frozenset({FOLDER, ".git", "node_modules"})


@dataclass(frozen=True, slots=True)
class Found:
    """One file: named by the user, or met in a folder (then what is no session there is no error)."""

    path: Path
    named: bool
    link: bool = False


def discover(paths: Iterable[Path]) -> Iterator[Found]:
    """Yield the files that the paths mean, each once, in the order of the paths and of their names."""
    seen: set[Path] = set()
    for path in paths:
        for found in _walk(path) if path.is_dir() and not path.is_symlink() else [Found(path, named=True)]:
            key = found.path.absolute()
            if key not in seen:
                seen.add(key)
                yield found


def _walk(folder: Path) -> Iterator[Found]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NEVER)
        for name in sorted(names):
            if name.endswith(_SUFFIX):
                path = Path(here) / name
                yield Found(path, named=False, link=path.is_symlink())
