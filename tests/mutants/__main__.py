"""Make each error in a copy of the package and run the tests that must notice it: python -m tests.mutants [NAME...]."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.config import default_plugins

from tests.mutants.table import MUTANTS, Mutant

_ROOT = Path(__file__).parents[2]
_COPIED = ("sessioncompress", "action", "tests", "fixtures", "docs", "pyproject.toml", "compression.json", "README.md")
_NOT_COPIED = shutil.ignore_patterns("node_modules")
_PASSED, _FAILED = 0, 1
_LONGEST = 300
"""Seconds that the tests of one error may take."""
_LONGEST_OF_ALL = 1800


def main(names: Sequence[str]) -> int:
    """Return the exit code: 0 if the tests pass as they are, and fail with each error."""
    wanted = [mutant for mutant in MUTANTS if not names or any(name in mutant.name for name in names)]
    started = time.monotonic()
    # Each run of tests is forked from here: to import pytest takes as long as many of them do.
    for name in default_plugins:
        import_module(f"_pytest.{name}")
    unnoticed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        # What is compiled is copied too, and each copy serves one error after the other: so a run of tests begins at once.
        free = [_copy(Path(folder) / str(number)) for number in range(os.cpu_count() or 1)]
        waiting = list(reversed(wanted))
        running: dict[int, tuple[Path, Mutant | None]] = {}
        # In CI all tests have just passed.
        if not os.environ.get("CI"):
            whole = _copy(Path(folder) / "whole")
            every = sorted({test for mutant in wanted for test in mutant.tests})
            running[_begin(whole, every, (), _LONGEST_OF_ALL)] = whole, None
        while waiting or running:
            while waiting and free:
                copy, mutant = free.pop(), waiting.pop()
                if wrong := _break(copy, mutant):
                    unnoticed.append(wrong)
                    free.append(copy)
                else:
                    running[_begin(copy, mutant.tests, ("-x",), _LONGEST)] = copy, mutant
            if running:
                pid, status = os.wait()
                (copy, broken), code = running.pop(pid), os.waitstatus_to_exitcode(status)
                if broken is None:
                    unnoticed += ["the tests fail without any error made on purpose"] * (code != _PASSED)
                    continue
                _mend(copy, broken)
                free.append(copy)
                if code != _FAILED:
                    unnoticed.append(f"{broken.name}: pytest ended with {code}, not with {_FAILED}")
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


def _break(folder: Path, mutant: Mutant) -> str:
    """Make the error; return what keeps it from being made."""
    path = folder / "sessioncompress" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        return f"{mutant.name}: what is to be changed stands {text.count(mutant.old)} times in {mutant.file}"
    path.write_text(text.replace(mutant.old, mutant.new))
    # Of two errors of one length within a second, the second one would run as the first was compiled.
    os.utime(path, (MUTANTS.index(mutant) + 1,) * 2)
    return ""


def _mend(folder: Path, mutant: Mutant) -> None:
    # It is compiled as it was: what is compiled is known by the time.
    shutil.copy2(_ROOT / "sessioncompress" / mutant.file, folder / "sessioncompress" / mutant.file)


def _begin(folder: Path, tests: Iterable[str], options: Sequence[str], seconds: int) -> int:
    """Let a child run tests in a copy, with as many examples as on an ordinary machine; it exits with pytest's code."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    code = 2
    try:
        signal.alarm(seconds)
        os.chdir(folder)
        # Commands that tests start find the copy by the variable, and the next run begins with what this one compiled.
        os.environ.update(PYTHONPATH=str(folder), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", CI="")
        sys.path[:] = [str(folder), *(each for each in sys.path if Path(each).resolve() != _ROOT)]
        for name in [each for each in sys.modules if each.partition(".")[0] == "tests"]:
            del sys.modules[name]
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        line = ["-p", "pytest_benchmark.plugin", "--all", "-q", "--no-header", *options, *tests]
        code = int(pytest.main(line))
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
