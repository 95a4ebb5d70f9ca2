"""What was put into an agent's file, so that exactly that can be taken out: none of the file's own text."""

from __future__ import annotations

import json
import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from sessioncompress.errors import FileFailed
from sessioncompress.store import disk, layout
from sessioncompress.store.disk import put


class Record(Struct, frozen=True):
    """The texts that were put in, the last first, and the folders that had to be made, the outermost first."""

    pieces: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def place(file: Path) -> Path:
    """Return where the record of a file lies."""
    from hashlib import sha256

    return layout.state_folder() / f"hooks-{sha256(os.fsencode(file)).hexdigest()[:16]}.json"


def load(file: Path) -> Record:
    """Return what is known of a file; an empty record where nothing is, or not any more."""
    try:
        document = json.loads(place(file).read_bytes())
        return Record(tuple(map(str, document["pieces"])), tuple(map(str, document["folders"])))
    except (OSError, FileFailed, ValueError, KeyError, TypeError):
        return Record()


def keep(file: Path, record: Record) -> None:
    """Write the record of a file, or remove it where it is empty. Raises OSError and FileFailed."""
    if record == Record():
        disk.remove(place(file))
        return
    disk.make_folder(place(file).parent)
    put(place(file), json.dumps({"file": str(file)} | asdict(record), indent=2).encode() + b"\n")
