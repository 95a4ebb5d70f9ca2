"""Where the policy of a session lies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

FILE_NAME = "compression.json"
SECTION = "session"
_ALSO_IN = ".GITCLAW"


def policy_file(session: Path) -> Path | None:
    """Return the policy file beside the session or in the nearest folder above it, `.GITCLAW` included."""
    return next((place for place, ours in policy_files(session) if ours), None)


def policy_files(session: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the files of that name, the nearest first, and whether they are policies; the first that is counts."""
    folder = session.absolute().parent
    for above in (folder, *folder.parents):
        for place in (above / FILE_NAME, above / _ALSO_IN / FILE_NAME):
            if place.is_file():
                yield place, _is_ours(place)


def _is_ours(file: Path) -> bool:
    """Other tools have files of this name: one without our section is theirs. Unreadable ones are told later."""
    try:
        return f'"{SECTION}"'.encode() in file.read_bytes()
    except OSError:
        return True
