"""How long runs take, against what they cannot do without, measured in the same session; and how long starting takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.policy.model import Placeholder, Prune
from tests.bench.floors import Floor, floor_of
from tests.bench.generate import generate, generate_archive
from tests.bench.pruning import edits, session
from tests.bench.table import Row, Table
from tests.support.build import PiSession

ARCHIVE = (200, 250)
"""Files, and MB in all."""
"""Bytes of one more turn."""
PRINT_PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
"""Runs a command and prints the most memory that a process of it held, which no other child of the tests can hide."""
OWN = (sys.executable, "-m", "sessioncompress")
INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of commands: with bytecode, as pip installs it."""

Setup = Callable[[], Path]


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    """Collect the rows; print the table in the end."""
    found = Table()
    yield found
    print(f"\n\n{found.markdown()}\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def large(folder: Path) -> Path:
    """Generate the session of 50 MB that most rows are about."""
    return generated(folder, 50)


@pytest.fixture(scope="module")
def compressed(folder: Path, large: Path) -> Path:
    path = fresh(folder / "compressed", large)
    command("compress", path)
    return path


@pytest.fixture(scope="module")
def floor(large: Path, compressed: Path) -> Floor:
    return floor_of(large, compressed)


@pytest.fixture(scope="module")
def start(folder: Path) -> float:
    """Measure a run over a session in which there is next to nothing: what starting takes."""
    path = short(folder / "short.jsonl")
    times = []
    for _ in range(10):
        begun = time.perf_counter()
        command("compress", "--force", path)
        times.append(time.perf_counter() - begun)
    return min(times)


@pytest.fixture(scope="module")
def archive(folder: Path) -> Path:
    path = folder / "archive"
    generate_archive(path, *ARCHIVE)
    return path


def generated(folder: Path, megabytes: float) -> Path:
    path = folder / f"{megabytes:g}.jsonl"
    generate(path, megabytes)
    return path


def short(path: Path) -> Path:
    made = PiSession()
    made.user("Go.")
    path.write_bytes(made.bytes())
    return path


def fresh(folder: Path, source: Path) -> Path:
    """Put a copy of a session, and of what lies beside it, or of an archive, into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, folder)
        os.sync()
        return folder
    folder.mkdir()
    beside = source.parent / ".sessioncompress"
    if beside.exists():
        shutil.copytree(beside, folder / ".sessioncompress")
    path = folder / source.name
    shutil.copy2(source, path)
    os.sync()
    return path


def command(*arguments: str | Path) -> None:
    """Run a command as users do: as a process, start-up included."""
    whole = [*OWN, *arguments]
    subprocess.run(
        whole, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=os.path.sep, env=INSTALLED
    )


def peak(*arguments: str | Path) -> float:
    """Run a command; return the most memory it held, in MB."""
    whole = [sys.executable, "-c", PRINT_PEAK, *OWN, *map(str, arguments)]
    done = subprocess.run(whole, check=True, capture_output=True, env=INSTALLED)
    return int(done.stdout) / (1e6 if sys.platform == "darwin" else 1e3)


def measure(benchmark: Any, work: Callable[..., object], setup: Setup | None = None, rounds: int = 3) -> float:
    """Return the seconds of the fastest of some rounds."""
    prepare: Callable[[], Any] | None = None if setup is None else lambda: ((setup(),), {})
    benchmark.pedantic(work, setup=prepare, rounds=rounds)
    return float(benchmark.stats.stats.min)


def timed(
    benchmark: Any, table: Table, name: str, before: Sequence[str], setup: Setup, rounds: int = 3, **more: Any
) -> None:
    """Add the row of a command over what `setup` puts there anew for each round."""
    seconds = measure(benchmark, lambda path: command(*before, path), setup, rounds)
    table.rows.append(Row(name, seconds, peak=peak(*before, setup()), **more))


@pytest.mark.benchmark(group="runs")
@pytest.mark.parametrize(("megabytes", "rounds"), [(5, 5), (600, 1)])
def test_first_run(benchmark: Any, table: Table, folder: Path, start: float, megabytes: int, rounds: int) -> None:
    """The first run over a session: the time grows with its size, and the memory hardly."""
    path = generated(folder, megabytes)
    done = fresh(folder / "done", path)
    command("compress", done)
    found = floor_of(path, done, rounds)
    timed(
        benchmark,
        table,
        f"first run, {megabytes} MB",
        ["compress"],
        lambda: fresh(folder / "run", path),
        rounds,
        floor=found,
        megabytes=megabytes,
        start=start,
    )
    path.unlink()


@pytest.mark.benchmark(group="runs")
def test_first_run_over_the_large(
    benchmark: Any, table: Table, folder: Path, large: Path, floor: Floor, start: float
) -> None:
    """The run that the others are compared with."""
    timed(
        benchmark,
        table,
        "first run, 50 MB",
        ["compress"],
        lambda: fresh(folder / "run", large),
        floor=floor,
        megabytes=50,
        start=start,
    )


@pytest.mark.benchmark(group="runs")
def test_restore(benchmark: Any, table: Table, folder: Path, compressed: Path, floor: Floor) -> None:
    """All of it back."""
    timed(benchmark, table, "restore, 50 MB", ["restore"], lambda: fresh(folder / "run", compressed), floor=floor)


@pytest.mark.benchmark(group="runs")
@pytest.mark.parametrize("placeholder", Placeholder)
def test_pruning(benchmark: Any, table: Table, placeholder: Placeholder) -> None:
    """What is to be pruned, and the new messages, in memory: what an agent that prunes its own session does."""
    read = session(1_000, Prune(enabled=True, placeholder=placeholder))
    seconds = measure(benchmark, lambda: edits(read), rounds=50)
    assert seconds < 0.1
    table.rows.append(Row(f"prune 1,000 messages of gencode in memory, {placeholder}", seconds))


@pytest.mark.benchmark(group="archive")
@pytest.mark.parametrize("jobs", [1, 2])
def test_archive(benchmark: Any, table: Table, folder: Path, archive: Path, jobs: int) -> None:
    """Many sessions, in one process and in two."""
    name = f"archive, {ARCHIVE[0]} files, {ARCHIVE[1]} MB, --jobs {jobs}"
    other = {} if jobs == 1 else {"other": "--jobs 1", "by": table.rows[-1].seconds}
    command_line = ["compress", "--jobs", str(jobs)]
    timed(benchmark, table, name, command_line, lambda: fresh(folder / "run", archive), 2, **other)


@pytest.mark.benchmark(group="archive")
@pytest.mark.parametrize("workers", [1, 2])
def test_archive_in_a_cluster(benchmark: Any, table: Table, folder: Path, archive: Path, workers: int) -> None:
    """The same by workers of a cluster on this machine, which begins and ends with the command."""
    pytest.importorskip("distributed", reason="the cluster's packages are not installed: sessioncompress[cluster]")
    name = f"archive, {ARCHIVE[0]} files, {ARCHIVE[1]} MB, --engine dask --jobs {workers}"
    other = {} if workers == 1 else {"other": "--jobs 1", "by": table.rows[-1].seconds}
    command_line = ["compress", "--engine", "dask", "--jobs", str(workers)]
    timed(benchmark, table, name, command_line, lambda: fresh(folder / "run", archive), 2, **other)


@pytest.mark.benchmark(group="archive")
def test_archive_again(benchmark: Any, table: Table, folder: Path, archive: Path) -> None:
    """A second pass over it."""
    done = fresh(folder / "done", archive)
    command("compress", "--jobs", "1", done)
    first = next(row for row in table.rows if row.name.endswith("--jobs 1"))
    seconds = measure(benchmark, lambda: command("compress", "--jobs", "1", done))
    table.rows.append(Row("a second pass over it", seconds, other="the first", by=first.seconds))


@pytest.mark.benchmark(group="start-up")
@pytest.mark.parametrize("module", ["orjson", "click"])
def test_import(benchmark: Any, table: Table, module: str) -> None:
    """What a command that needs the module takes at least."""
    work = [sys.executable, "-c", f"import {module}"]
    seconds = measure(benchmark, lambda: subprocess.run(work, check=True), rounds=25)
    table.rows.append(Row(f"`python -c 'import {module}'`", seconds))


@pytest.mark.benchmark(group="start-up")
def test_skip(benchmark: Any, table: Table, tmp_path: Path) -> None:
    """A session under the threshold, as in CI after most turns."""
    path = short(tmp_path / "session.jsonl")
    started(benchmark, table, "skip a session under the threshold", "orjson", "compress", path)


@pytest.mark.benchmark(group="start-up")
def test_as_left(benchmark: Any, table: Table, compressed: Path) -> None:
    """A session in which nothing came since the last run."""
    started(benchmark, table, "a session as the last run left it", "orjson", "compress", compressed)


@pytest.mark.benchmark(group="start-up")
def test_help(benchmark: Any, table: Table) -> None:
    """The help."""
    started(benchmark, table, "`--help`", "click", "--help")


def started(benchmark: Any, table: Table, name: str, module: str, *arguments: str | Path) -> None:
    """Add the row of a command that has nothing to do, compared with an import."""
    seconds = measure(benchmark, lambda: command(*arguments), rounds=25)
    base = f"`python -c 'import {module}'`"
    table.rows.append(Row(name, seconds, other=f"import {module}", by=table.seconds(base)))
