"""The commit that is checked out where a session lies, read from git's own files."""

from __future__ import annotations

import re
from pathlib import Path

_ID = re.compile(r"[0-9a-f]{40,64}")
_MOST_BYTES = 1 << 20


def head(folder: Path) -> str:
    """Return the id of the commit checked out in the work tree around a folder; empty where there is none."""
    top = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    if top is None:
        return ""
    try:
        return _resolve(_git_folder(top / ".git"))
    except (OSError, ValueError):
        return ""


def _git_folder(path: Path) -> Path:
    if path.is_dir():
        return path
    return path.parent / path.read_text().removeprefix("gitdir:").strip()


def _resolve(git: Path) -> str:
    text = (git / "HEAD").read_text().strip()
    if not text.startswith("ref:"):
        return text if _ID.fullmatch(text) else ""
    name = text.removeprefix("ref:").strip()
    if not name.startswith("refs/") or ".." in name:
        return ""
    common = git / "commondir"
    home = git / common.read_text().strip() if common.exists() else git
    found = _loose(home / name) or _packed(home / "packed-refs", name)
    return found if _ID.fullmatch(found) else ""


def _loose(path: Path) -> str:
    return path.read_text().strip() if path.is_file() else ""


def _packed(path: Path, name: str) -> str:
    packed = path.read_text()[:_MOST_BYTES] if path.is_file() else ""
    return next((line.split()[0] for line in packed.splitlines() if line.endswith(" " + name)), "")
