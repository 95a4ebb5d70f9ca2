"""`python -m sessioncompress`, and the command `sessioncompress`."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence

from sessioncompress.core import process


def run() -> None:
    """Run the command line. An interrupt before it starts, or a closed output, is not reported as an error."""
    gc.set_threshold(process.RARELY)
    # At exit Python collects garbage over everything imported several times, a tenth of a short run.
    atexit.register(gc.freeze)
    process.ends_it()
    with process.outliving_their_readers():
        if nothing_due(sys.argv[1:]):
            return
        from sessioncompress.cli.main import main

        main(prog_name="sessioncompress")


def nothing_due(arguments: Sequence[str]) -> bool:
    """Print the output of `compress` if nothing is due in any session; else print nothing and return False.

    Avoids importing click, because a hook that runs after each turn mostly has nothing to do. Options, folders and
    errors are left to the full command line.
    """
    command, *names = arguments or ("",)
    # Click copes with a stdout that the parent process closed.
    if command != "compress" or not names or sys.stdout is None or any(not name or name[0] == "-" for name in names):
        return False
    from pathlib import Path

    from sessioncompress.core.text import file_line, files_line, printable, reasons_lines
    from sessioncompress.errors import SessionCompressError
    from sessioncompress.pipeline import triage
    from sessioncompress.pipeline.stats import Status
    from sessioncompress.policy.sources import Policies

    warnings: list[str] = []
    policies = Policies(warn=warnings.append)
    found = []
    for path in dict.fromkeys(map(Path, names)):
        try:
            said = triage.status_unopened(path, policies.of(path), force=False)
            if said is None or warnings or triage.opens_anyway(path, said[0], named=True, mends=True):
                return False
        except (SessionCompressError, OSError, ValueError):
            return False
        found.append(said)
    lines = [file_line(printable(str(Path(names[0]))), *found[0])]
    if len(names) > 1:
        statuses = [status for status, _ in found]
        numbers = {status.value: statuses.count(status) for status in (Status.UNCHANGED, Status.SKIPPED)}
        lines = [*map(printable, reasons_lines(found)), files_line(len(found), numbers)]
    sys.stdout.write("\n".join([*lines, ""]))
    return True


if __name__ == "__main__":
    run()
