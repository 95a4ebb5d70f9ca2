"""The two tiers of tests, and what every test runs with: a folder of its own for what belongs to a user."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SLOW_FOLDERS = ("agents", "attacks", "faults")
"""All tests in them are of the slow tier; elsewhere the marker `slow` says it."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]{4,}")
"""What stands in the name of an object that has none of its own."""
_LEFT_OUT = pytest.StashKey[int]()
FLUSH = os.fsync
"""Reaches the disk, which tests that cut the power need."""

_MADE: list[tempfile.TemporaryDirectory[str]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for both tiers."""
    parser.addoption("--all", action="store_true", help="run the slow tier of tests, too")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tier, and leave it out without `--all`."""
    if at_an_address := [item.nodeid for item in items if _ADDRESS.search(item.nodeid)]:
        raise pytest.UsageError(f"ids that each process of pytest-xdist makes differently: {at_an_address[:10]}")
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in SLOW_FOLDERS:
            item.add_marker("slow")
    if config.getoption("--all"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
    config.stash[_LEFT_OUT] = len(slow)
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = len(slow)
    config.hook.pytest_deselected(items=slow)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Learn what a process of pytest-xdist left out: each collects all tests."""
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many tests were left out."""
    if number := config.stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(f"{number} tests of the slow tier left out: pytest --all")


def _flush(fd: Any) -> None:
    """Fail as fsync does, and wait for no disk: no test that cuts no power can tell."""
    os.fstat(fd)


def pytest_configure(config: pytest.Config) -> None:
    """Put the folder where commands that tests start find it too, and the key of late links in it."""
    if not config.getoption("benchmark_only", default=False):
        os.fsync = _flush
    # Commands that tests start inherit what nohup ignores, and a shell in its background.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    # Commands that tests start are hundreds, and would compile the package each; git ignores what is compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    made = tempfile.TemporaryDirectory(prefix="sessioncompress-state-")
    _MADE.append(made)
    os.environ["XDG_STATE_HOME"] = made.name
    key = Path(made.name, "sessioncompress", "late-links.key")
    key.parent.mkdir(mode=0o700)
    key.write_bytes(bytes(range(32)))
    key.chmod(0o400)
    # Tests of other users' rights run without root's.
    Path(made.name).chmod(0o755)
    key.parent.chmod(0o755)


def pytest_unconfigure() -> None:
    """Remove it."""
    os.fsync = FLUSH
    _MADE.pop().cleanup()


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a flush reach the disk."""
    # Imported here: it takes the call that it finds in `os`.
    from sessioncompress.store import disk

    if sys.platform != "darwin":
        monkeypatch.setattr(disk.System, "fsync", staticmethod(FLUSH))


@pytest.fixture
def collected() -> Iterator[None]:
    """Keep what thousands of tests left out of the collector's rounds: one of them takes longer than a command."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
