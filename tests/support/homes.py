"""Files in the home of a user of several agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.build import PiSession


def put(path: Path, raw: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def pi(folder: str | Path, **more: Any) -> bytes:
    header, *rest = PiSession().opening().lines()
    return b"".join([json.dumps({**json.loads(header), "cwd": str(folder), **more}).encode() + b"\n", *rest])


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
