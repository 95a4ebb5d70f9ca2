"""Make each error in a copy of the package and run the tests that must notice it: python -m tests.mutants [NAME...]."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import cpu_count, environ
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.table import MUTANTS, Mutant

_ROOT = Path(__file__).parents[2]
_COPIED = ("sessioncompress", "action", "tests", "fixtures", "docs", "pyproject.toml", "compression.json", "README.md")
_NOT_COPIED = shutil.ignore_patterns("node_modules")
_PASSED, _FAILED, _HANGS = 0, 1, -1
_LONGEST = 300
"""Seconds that the tests of one error may take."""
_LONGEST_OF_ALL = 1800


def main(names: Sequence[str]) -> int:
    """Return the exit code: 0 if the tests pass as they are, and fail with each error."""
    wanted = [mutant for mutant in MUTANTS if not names or any(name in mutant.name for name in names)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(cpu_count()) as threads:
        # What is compiled is copied too, and each copy serves one error after the other: so a run of tests begins at once.
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(cpu_count() or 1):
            copies.put(_copy(Path(folder) / str(number)))
        every = sorted({test for mutant in wanted for test in mutant.tests})
        # In CI all tests have just passed.
        whole = Path(folder) / "whole"
        untouched = None if environ.get("CI") else threads.submit(_tests, _copy(whole), every, (), _LONGEST_OF_ALL)
        found = list(threads.map(partial(_judge, copies), wanted))
        if untouched and untouched.result() != _PASSED:
            found.append("the tests fail without any error made on purpose")
    unnoticed = [each for each in found if each]
    print(*unnoticed, sep="\n", end="\n" if unnoticed else "")
    print(f"{len(wanted)} mutants, {len(unnoticed)} trouble, {time.monotonic() - started:.0f} s")
    return bool(unnoticed)


def _copy(folder: Path) -> Path:
    for name in _COPIED:
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=_NOT_COPIED)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
    return folder


def _judge(copies: SimpleQueue[Path], mutant: Mutant) -> str:
    """Return what is wrong; nothing where the tests notice the error."""
    folder = copies.get()
    path = folder / "sessioncompress" / mutant.file
    text, times = path.read_text(), path.stat()
    try:
        if text.count(mutant.old) != 1:
            return f"{mutant.name}: what is to be changed stands {text.count(mutant.old)} times in {mutant.file}"
        path.write_text(text.replace(mutant.old, mutant.new))
        code = _tests(folder, mutant.tests, ("-x",))
        return "" if code == _FAILED else f"{mutant.name}: pytest ended with {code}, not with {_FAILED}"
    finally:
        path.write_text(text)
        # It is compiled as it was: what is compiled is known by the time.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        copies.put(folder)


def _tests(folder: Path, tests: Iterable[str], options: Sequence[str], seconds: int = _LONGEST) -> int:
    """Run tests in a copy, with as many examples as on an ordinary machine; return pytest's exit code."""
    line = [sys.executable, "-m", "pytest", "-p", "pytest_benchmark.plugin", "--all", "-q", "--no-header"]
    environment = {**environ, "PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": ""}
    # The next run of tests in the copy begins with what this one compiled.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(
            [*line, *options, *tests], cwd=folder, env=environment, capture_output=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return _HANGS
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
