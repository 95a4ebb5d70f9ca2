"""Which files of a folder are meant, by patterns for their paths."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple


class Globs(NamedTuple):
    """Patterns: where there are any to include a file must match one of those, and none of those to exclude.

    A pattern matches a path below the folder that was named, or any name in that path. `*` matches slashes too.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """Say whether a file is meant; its path counts from the folder, with slashes."""
        return not self.leaves(path) and (not self.include or _matches(path, self.include))

    def leaves(self, path: str) -> bool:
        """Say whether a file is excluded, or a folder with all that is in it."""
        return _matches(path, self.exclude)


EVERYTHING = Globs()


def _matches(path: str, patterns: Iterable[str]) -> bool:
    names = (path, *path.split("/"))
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
