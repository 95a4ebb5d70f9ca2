"""Commands run in this process, and the sessions that they are run on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from sessioncompress.cli.main import main
from sessioncompress.core.model import Kind
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_in
from tests.support.runs import blocks_of, fixture

FILE_FIELDS = {
    *("path", "format", "status", "reason", "run", "originalSize", "compressedSize", "storeSize", "originalsSize"),
    *("storeAdded", "ratio", "compressedShare", "toolCallsCompressed", "toolResultsCompressed", "toolResultsCleared"),
    *("thinkingBlocksRemoved", "imagesReplaced", "mirrorsReplaced", "redundanciesEliminated", "tokensBefore"),
    *("tokensAfter", "tokensUncached", "tokensRecorded", "removableBytes", "removedBytes", "protectedBytes", "lines"),
    *(
        "linesChanged",
        "linesNotUnderstood",
        "imitatedMarkers",
        "blobsOutOfReach",
        "blobsInCommits",
        "markersWithoutJournal",
    ),
}
TOTAL_FIELDS = FILE_FIELDS - {"path", "format", "status", "reason", "run", "tokensRecorded"}
SIZES = r"[\d,]+ KB"
TOKENS = r"tokens [\d,]+ -> [\d,]+ \(estimated(; [\d,]+ recorded before)?\)"
HOSTILE = b"a\x1b[31m\x07 \xe2\x80\xae\xc2\x9b\xff.jsonl"
"""A name with an escape sequence, a bell, a right-to-left override, a C1 control and a byte that is no UTF-8."""
RAW = (b"\x1b", b"\x07", b"\xe2\x80\xae", b"\xc2\x9b", b"\xff")


def put(path: Path, name: str = "pi-anthropic.jsonl") -> Path:
    path.write_bytes(fixture(name))
    return path


def run(*arguments: str | Path, answer: str | None = None) -> Result:
    """Run a command in this process; what it raises beyond an exit is an error of ours."""
    result = CliRunner().invoke(main, [str(each) for each in arguments], input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def spawn(*arguments: str | bytes, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "sessioncompress", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, stdin=subprocess.DEVNULL)


def read_all(terminal: int) -> bytes:
    """Read what programs wrote to a terminal that none has open, and close it."""
    shown = b""
    # One read may give only the first part. On Linux the end is an error.
    with suppress(OSError):
        while piece := os.read(terminal, 1 << 16):
            shown += piece
    os.close(terminal)
    return shown


def document(*arguments: str | Path) -> Any:
    """Return the JSON document that a command prints; it prints nothing else on stdout."""
    result = run(*arguments, "--json")
    return json.loads(result.stdout)


def one(*arguments: str | Path) -> Any:
    files = document(*arguments)["files"]
    assert len(files) == 1
    return files[0]


def references(path: Path, kind: Kind = Kind.RESULT) -> list[str]:
    return [block.ref for _, block in blocks_of(journals.load(store_in(path).journal)) if block.kind is kind]


def policy(path: Path, **keys: Any) -> Path:
    path.write_text(json.dumps({"session": keys}))
    return path


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
