"""Runs one of our commands in this process and prints how much memory it took beyond that of the start.

python -m tests.faults.memory COMMAND...
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sessioncompress.cli import main as command_line
from tests.faults.nobody import import_everything
from tests.faults.tools import run

_MIB = 1024


def memory_of(*arguments: str | Path) -> tuple[float, int, str]:
    """Return the most MiB that a command held beyond the start, its exit code, and what it said of an error."""
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux tells the most memory that a process held")
    ended = run([sys.executable, "-m", "tests.faults.memory", *map(str, arguments)])
    grown, code = ended.stderr.splitlines()[-1].split()
    return float(grown), int(code), ended.stderr


def main(arguments: list[str]) -> None:
    """Import everything, so that it counts as the start, and run the command."""
    import_everything()
    start = _status("VmRSS")
    code: object = 0
    try:
        command_line.main(arguments)
    except SystemExit as ended:
        code = ended.code or 0
    print((_status("VmHWM") - start) / _MIB, code, file=sys.stderr)


def _status(field: str) -> int:
    """Return a figure of this process, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main(sys.argv[1:])
