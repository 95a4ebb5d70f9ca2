"""Counts the files and the functions of the package that one command enters: `python -m tests.bench.trace`.

It compresses a copy of a pi session with a compaction, or of the SESSION that is named. `--list` names them.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import tempfile
from pathlib import Path
from types import CodeType, FrameType

import sessioncompress
from sessioncompress.__main__ import run
from tests.support.runs import FIXTURES

_PACKAGE = Path(sessioncompress.__file__).parent
_GENERATED = ("<module>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


def entered(session: Path) -> set[tuple[str, str]]:
    """Compress a session; return the files below the package, each with the names of its functions, that ran."""
    seen: set[CodeType] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    arguments = sys.argv
    sys.argv = ["sessioncompress", "compress", "--force", str(session)]
    sys.setprofile(look)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            run()
    finally:
        sys.setprofile(None)
        sys.argv = arguments
    ours = [code for code in seen if Path(code.co_filename).is_relative_to(_PACKAGE)]
    return {
        (str(Path(code.co_filename).relative_to(_PACKAGE)), code.co_qualname)
        for code in ours
        if code.co_name not in _GENERATED and not _is_class_body(code)
    }


def _is_class_body(code: CodeType) -> bool:
    """A class's body runs once, when its file is imported: nothing of a session passes through it."""
    return "__qualname__" in code.co_names and "__module__" in code.co_names


def main(arguments: list[str]) -> None:
    named = [each for each in arguments if not each.startswith("--")]
    with tempfile.TemporaryDirectory() as folder:
        session = Path(shutil.copy(named[0] if named else FIXTURES / "pi-compacted.jsonl", folder))
        found = entered(session)
    files = {file for file, _ in found}
    if "--list" in arguments:
        for file, function in sorted(found):
            print(file, function)
    print(f"{len(files)} files, {len(found)} functions")


if __name__ == "__main__":
    main(sys.argv[1:])
