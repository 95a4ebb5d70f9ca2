"""Make sessions with stores of the first form, of every kind, with a checkout of the version that wrote it.

    cd CHECKOUT && python .../tests/stores/make.py OUT

CHECKOUT is commit afa163ef of this repository. Later versions must restore what it makes for ever: see test_first.py.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

sys.path.insert(0, str(Path.cwd()))

from sessioncompress.operations.branch import summarize_branch
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.policy.model import PRESETS
from tests.support.branched import branched
from tests.support.long import LONG, SMALL

TURNS = 8
BARE = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0)
"""Takes what an earlier run left, once more."""

STEPS: dict[str, Callable[[Path], object]] = {
    "compress": lambda path: compress_session(path, SMALL),
    "archive": lambda path: compress_session(path, BARE),
    "compact": lambda path: compact_session(path, SMALL),
    "drop": lambda path: compact_session(path, SMALL, drop_dead=True),
    "without": lambda path: compress_session(path, replace(SMALL, keep_backup=False)),
    "restore": restore_session,
}
LIVES = (
    "compress",
    "compress grow archive",
    "compress restore archive",
    "compact",
    "compact compress",
    "compress compact",
    "compress compact grow compress compact",
    "drop",
    "compress drop archive",
    "drop grow drop compress",
    "compress grow without",
)


def lives(folder: Path) -> Iterator[tuple[str, str, bytes, Path]]:
    """Yield each session that was lived, with its agent, what was done, and its original."""
    for agent, make in LONG.items():
        for number, life in enumerate(LIVES):
            whole = make(TURNS)
            head = cut(whole) if "grow" in life else whole
            if "grow" in life and "document" in agent:
                continue
            path = folder / f"{agent.replace(' ', '-')}-{number}" / "session.jsonl"
            path.parent.mkdir()
            path.write_bytes(head)
            for step in life.split():
                if step == "grow":
                    with path.open("ab") as file:
                        file.write(whole[len(head) :])
                else:
                    STEPS[step](path)
            yield agent, life, whole, path
    path = folder / "branch" / "session.jsonl"
    path.parent.mkdir()
    path.write_bytes(branched().data)
    compress_session(path, SMALL)
    summarize_branch(path, SMALL)
    yield "pi", "compress branch-summary", branched().data, path


def cut(whole: bytes) -> bytes:
    """Return two thirds of a session's lines."""
    lines = whole.splitlines(keepends=True)
    return b"".join(lines[: len(lines) * 2 // 3])


def main(out: Path) -> None:
    """Write the archive: the sessions with their stores, and `index.json`."""
    index = []
    with tempfile.TemporaryDirectory() as folder, tarfile.open(out, "w:xz") as archive:
        for agent, life, whole, path in lives(Path(folder)):
            store = path.parent / ".sessioncompress"
            if not store.exists():
                continue
            (store / ".gitignore").unlink(missing_ok=True)
            shutil.rmtree(store / "packs", ignore_errors=True)
            for each in sorted(path.parent.rglob("*")):
                if each.is_file() and ".late-" not in each.name and each.name != ".gitattributes":
                    add(archive, str(each.relative_to(folder)), each.read_bytes())
            name = path.parent.name
            index.append({"name": name, "agent": agent, "life": life, "sha256": sha256(whole).hexdigest()})
        add(archive, "index.json", json.dumps(index, indent=1).encode())


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file that says nothing of this machine."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
