"""Sessions with stores as version 1.0 wrote them: see make.py."""

from __future__ import annotations

import json
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

ARCHIVE = Path(__file__).with_name("first.tar.xz")


def _files() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive)
        return {name: file.read() for name, file in files if file}


FILES = _files()
INDEX: list[dict[str, Any]] = json.loads(FILES["index.json"])
EACH = pytest.mark.parametrize("one", INDEX, ids=[f"{one['agent']}, {one['life']}" for one in INDEX])


def taken_out(one: dict[str, Any], folder: Path) -> Path:
    """Return a session with its store, in a folder of its own."""
    for name, content in FILES.items():
        if name.startswith(f"{one['name']}/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    return folder / str(one["name"]) / "session.jsonl"


def is_whole(path: Path, one: dict[str, Any]) -> bool:
    """Tell whether every byte is there."""
    return sha256(path.read_bytes()).hexdigest() == str(one["sha256"])
