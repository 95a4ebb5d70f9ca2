"""Where the policy of a session lies."""

from __future__ import annotations

from pathlib import Path

FILE_NAME = "compression.json"
SECTION = "session"
_ALSO_IN = ".GITCLAW"


def policy_file(session: Path) -> Path | None:
    """Return the policy file beside the session or in the nearest folder above it, `.GITCLAW` included."""
    folder = session.absolute().parent
    for above in (folder, *folder.parents):
        for place in (above / FILE_NAME, above / _ALSO_IN / FILE_NAME):
            if place.is_file() and _is_ours(place):
                return place
    return None


def _is_ours(file: Path) -> bool:
    """Other tools have files of this name: one without our section is theirs. Unreadable ones are told later."""
    try:
        return f'"{SECTION}"'.encode() in file.read_bytes()
    except OSError:
        return True
