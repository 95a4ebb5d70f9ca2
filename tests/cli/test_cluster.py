"""`--engine dask`: sessions are given to the workers of a cluster, here or elsewhere, and each is done once."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import sessioncompress
from sessioncompress.core import VERSION
from sessioncompress.core.process import RARELY
from sessioncompress.operations import cluster
from sessioncompress.operations.batch import Task
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import TOLD_AGAIN, compress_session
from sessioncompress.operations.history import read_runs
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import PRESETS
from sessioncompress.store.layout import journals_in
from tests.bench.generate import generate
from tests.support.commands import run
from tests.support.runs import but_undo, noted

pytestmark = pytest.mark.slow
psutil = pytest.importorskip("psutil", reason="the cluster's packages are not installed: sessioncompress[cluster]")
distributed = pytest.importorskip(
    "distributed", reason="the cluster's packages are not installed: sessioncompress[cluster]"
)

MANY, FEW = 150, 6
HASTE = ("--force", "--keep-turns", "0")
WITHOUT_US = "import sys; sys.modules['sessioncompress'] = None; "
"""Before a worker starts: as if it were not installed there."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(sessioncompress.__file__).parent.parent)}


@contextmanager
def begun(what: str, *arguments: str, before: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run dask's scheduler or one of its workers as a process of its own, for as long as the block takes."""
    program = f"{before}from distributed.cli.dask_{what} import main; main()"
    command = [sys.executable, "-c", program, "--no-dashboard", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def scheduler(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a scheduler; yield its address, and its process."""
    file = folder / "scheduler.json"
    where = ("--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
    with begun("scheduler", *where, "--scheduler-file", str(file)) as process:
        while not file.exists() or not (said := file.read_bytes()).endswith(b"}"):
            time.sleep(0.05)
        yield json.loads(said)["address"], process


@contextmanager
def worker(address: str, folder: Path, before: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker that nobody starts again when it is gone, in a folder of its own."""
    where = ("--nthreads", "1", "--no-nanny", "--local-directory", str(folder), "--host", "127.0.0.1")
    with begun("worker", address, *where, before=before) as process:
        yield process


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a scheduler with one worker for all tests that harm neither; return its address."""
    folder = tmp_path_factory.mktemp("dask")
    with scheduler(folder) as (found, _), worker(found, folder):
        yield found


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return sessions(tmp_path, FEW, 0.3)


def sessions(folder: Path, number: int, megabytes: float) -> Path:
    (path := folder / "sessions").mkdir()
    generate(path / "0.jsonl", megabytes)
    for each in range(1, number):
        (path / f"{each}.jsonl").write_bytes((path / "0.jsonl").read_bytes())
    return path


def files(out: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(out)["files"]
    return found


def written(folder: Path) -> list[int]:
    return [len(read_runs(path)) for path in journals_in(folder)]


def connections() -> set[object]:
    """Return what this process is connected to, or listens for: both ends of each.

    What an earlier test left may end at any time, so tests ask for new ones, not for as many.
    """
    return {(each.laddr, each.raddr) for each in psutil.Process().net_connections()}


def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    """All of many sessions are done, none twice, and told as done; no connection is left."""
    folder = sessions(tmp_path, MANY, 0.05)
    before = connections()
    with scheduler(tmp_path) as (address, _), worker(address, tmp_path) as one, worker(address, tmp_path):
        options = ("--engine", "dask", "--scheduler", address, *HASTE, "--json")
        command = [sys.executable, "-m", "sessioncompress", "compress", *options, str(folder)]
        begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True)
        while len(written(folder)) < MANY // 5 and begun.poll() is None:
            time.sleep(0.05)
        one.kill()
        out, err = begun.communicate(timeout=120)
        assert begun.returncode == 0, err
        assert connections() <= before
    became = files(out)
    assert len(became) == MANY
    assert {each["status"] for each in became} == {"compressed"}
    assert written(folder) == [1] * MANY
    assert len({each["run"] for each in became}) == 1


@pytest.mark.parametrize("command", ["stats", "budget", "compress", "verify", "compact", "restore"])
def test_every_command_says_what_it_says_without(command: str, address: str, archive: Path) -> None:
    """Of sessions that are named by a relative path, and does the same; nothing stays connected."""
    other = archive.parent / "others"
    shutil.copytree(archive, other)
    if command in ("verify", "restore"):
        run("compress", *HASTE, archive, other)
    before = connections()
    options = HASTE if command == "compress" else ()
    found = run(command, *options, "--json", "--engine", "dask", "--scheduler", address, archive.name)
    assert connections() <= before
    usual = run(command, *options, "--json", "--jobs", "1", other)
    # Something is due.
    assert found.exit_code == usual.exit_code == int(command == "budget"), found.stderr
    assert known(found.stdout, archive) == known(usual.stdout, other)
    assert {path.name: path.read_bytes() for path in archive.glob("*.jsonl")} == {
        path.name: path.read_bytes() for path in other.glob("*.jsonl")
    }
    assert [Path(each["path"]).parent for each in files(found.stdout)] == [archive] * FEW


def test_a_report_is_made_from_what_workers_measure(address: str, archive: Path) -> None:
    done = run("report", "--engine", "dask", "--scheduler", address, "-o", "page.html", archive.name)
    alone = run("report", "--jobs", "1", "-o", "page.html", archive.name)
    assert done.exit_code == 0
    assert (done.stdout, done.stderr) == (alone.stdout, alone.stderr)


def known(out: str, folder: Path) -> str:
    """Return what a document says, but for the folder and the run's name."""
    return re.sub('"run": "[^"]*"', '"run": ""', out.replace(str(folder), "."))


def test_workers_of_its_own_are_gone_in_the_end(archive: Path) -> None:
    """So are their folders and all connections, which nobody else could use."""
    before, others = connections(), children()
    done = run("compress", *HASTE, "--engine", "dask", "--jobs", "2", archive)
    assert done.exit_code == 0, done.stderr
    assert written(archive) == [1] * FEW
    assert children() <= others
    assert connections() <= before
    assert sorted(path.name for path in archive.parent.iterdir()) == ["sessions"]


def test_workers_of_its_own_keep_what_memory_they_have() -> None:
    """Dask would have them give it back after each line, to ask for it again: that takes a tenth of the time."""
    name = "MALLOC_TRIM_THRESHOLD_"
    here = os.getenv(name, "none")
    task = Task(Found(Path("0.jsonl"), named=True), partial(os.getenv, name, "none"))
    with cluster.engine(None, 1)() as (processes, results):
        done = list(filter(None, results([task], iter([0]), processes)))
    assert [outcome.result for _, outcome in done] == [here]


def test_a_worker_looks_for_circles_rarely_while_it_works() -> None:
    """And as before when it is another's again."""
    before = gc.get_threshold()
    task = pickle.dumps(Task(Found(Path("0.jsonl"), named=True), gc.get_threshold))
    done = cluster._done(task, VERSION)
    assert done.result is not None
    assert done.result[0] == RARELY
    assert gc.get_threshold() == before != done.result


def test_workers_that_do_not_start_end_it(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when one is killed before it is there; nothing is begun."""

    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", failing)
    done = run("compress", *HASTE, "--engine", "dask", "--jobs", "1", archive)
    assert done.exit_code == 3
    assert (
        "the cluster on this machine: its workers could not be started (RuntimeError). Nothing was done." in done.stderr
    )
    assert written(archive) == []


def children() -> set[int]:
    """Find the processes below this one, but for those of Python's own that end with it."""
    found = {each.pid: " ".join(each.cmdline()) for each in psutil.Process().children(recursive=True)}
    own = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
    server = {pid for pid, line in found.items() if own[1] in line and psutil.Process(pid).ppid() == os.getpid()}
    return {pid for pid, line in found.items() if pid not in server and own[0] not in line}


@contextmanager
def suspended(processes: Sequence[Any]) -> Iterator[None]:
    """Let processes finish nothing during a block, which may end them."""
    for each in processes:
        each.suspend()
    try:
        yield
    finally:
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.resume()


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt(times: int, tmp_path: Path) -> None:
    """The first lets the sessions at work be finished; the second ends it; the terminal sends it to all processes."""
    folder = sessions(tmp_path, 24, 2)
    command = [sys.executable, "-m", "sessioncompress", "compress", "--json", "--engine", "dask", "--jobs", "2"]
    begun = subprocess.Popen(
        [*command, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
        start_new_session=True,
    )
    while not journals_in(folder) and begun.poll() is None:
        time.sleep(0.01)
    children = psutil.Process(begun.pid).children(recursive=True)
    assert len(children) >= 2
    with suspended(children):
        os.killpg(begun.pid, signal.SIGINT)
        before = noted(begun)
        if times == 2:
            os.killpg(begun.pid, signal.SIGINT)
    out, rest = begun.communicate(timeout=60)
    err = before + rest
    assert begun.returncode == 130
    said = [line for line in but_undo(err).splitlines() if " files, " not in line]
    if times == 1:
        done = files(out)
        assert {each["status"] for each in done} == {"compressed"}
        assert 0 < len(done) < 24
        assert said[-1] == (f"Interrupted. {24 - len(done)} files left. Run the command again to continue.")
        assert len(written(folder)) == len(done)
    else:
        assert said[-1] == "Interrupted. Every session is either as before or completely rewritten."
    assert psutil.wait_procs(children, timeout=5)[1] == []
    assert "Traceback" not in err


def test_what_a_dead_worker_had_done_is_told_as_done(tmp_path: Path) -> None:
    """By the journal: sizes, and the run by which it can be taken back."""
    folder = sessions(tmp_path, 1, 0.3)
    path, policy = folder / "0.jsonl", replace(PRESETS["low-cost"], size_threshold_kb=0)
    first = compress_session(path, policy, run_id="20260101-000000-abcd")
    for force in (False, True):
        again = compress_session(path, policy, force=force, run_id=first.run)
        assert (again.status, again.run, again.reason) == (first.status, first.run, TOLD_AGAIN)
        assert (again.original_size, again.compressed_size) == (first.original_size, first.compressed_size)
        assert (again.store_size, again.store_added) == (first.store_size, first.store_added)
        assert compress_session(path, policy, force=force, run_id="20260101-000000-ffff").status is Status.UNCHANGED
    few = replace(policy, compact=replace(policy.compact, keep_tokens=1_000, min_dead_tokens=1))
    done, then = (compact_session(path, few, run_id=first.run) for _ in range(2))
    assert (done.status, then.status) == (Status.COMPACTED, Status.COMPACTED)
    assert (then.size_before, then.size_after, then.run) == (done.size_before, done.size_after, done.run)


def refused(*options: str, folder: Path) -> str:
    """Return with what words a command ends that may do nothing."""
    before = {path: path.read_bytes() for path in folder.glob("*.jsonl")}
    done = run("compress", *HASTE, *options, folder)
    assert done.exit_code == 2, done.output
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    return done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--scheduler", "tcp://127.0.0.1:1"), "--scheduler needs --engine dask"),
        (("--engine", "dask", "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1"), "can't be combined with --scheduler"),
        (("--engine", "dask", "--scheduler", "odd\x1b://x"), "odd\\x1b://x: the scheduler cannot be reached"),
        (
            ("--engine", "dask", "--scheduler", "tcp://127.0.0.1:1"),
            "tcp://127.0.0.1:1: the scheduler cannot be reached",
        ),
    ],
)
def test_what_is_asked_for_must_be_there(
    options: tuple[str, ...], said: str, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_CONNECT", 1)
    assert said in refused(*options, folder=archive)


def test_without_the_packages(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    assert "the extra [cluster], as the README says." in refused("--engine", "dask", folder=archive)


def test_without_a_worker(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECT", 1)
    with scheduler(tmp_path) as (address, _):
        said = refused("--engine", "dask", "--scheduler", address, folder=archive)
    assert f"{address}: the scheduler cannot be reached, or has no worker" in said


def test_where_dask_itself_cannot_start(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("distributed.Client", never)
    said = refused("--engine", "dask", "--scheduler", "tcp://127.0.0.1:1", folder=archive)
    assert "the scheduler cannot be reached, or has no worker (AssertionError)" in said


def test_a_worker_of_another_version(archive: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "VERSION", "9.9")
    said = refused("--engine", "dask", "--scheduler", address, folder=archive)
    assert said.startswith("tcp://127.0.0.1:")
    assert f"this worker has sessioncompress {sessioncompress.__version__}, but this machine has 9.9." in said


def test_a_worker_without_this_package(archive: Path, tmp_path: Path) -> None:
    with scheduler(tmp_path) as (address, _), worker(address, tmp_path, WITHOUT_US):
        said = refused("--engine", "dask", "--scheduler", address, folder=archive)
    assert "this worker has no sessioncompress it can import, but this machine has" in said


@pytest.mark.parametrize("what", ["scheduler", "worker"])
def test_when_all_are_gone_it_ends(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what is lost, and does not wait forever."""
    monkeypatch.setattr(cluster, "_PATIENCE", 1)
    monkeypatch.setattr(cluster, "_LOOK", 0.1)
    folder = sessions(tmp_path, 100, 0.1)
    with scheduler(tmp_path) as (address, one), worker(address, tmp_path) as other:
        program = threading.Thread(target=lambda: kill_after_first(folder, one if what == "scheduler" else other))
        program.start()
        done = run("compress", *HASTE, "--engine", "dask", "--scheduler", address, folder)
        program.join()
    assert done.exit_code == 3
    said = "the scheduler no longer answers" if what == "scheduler" else "no worker is left"
    assert f"{address}: {said}. Every session is either as before or completely rewritten" in done.stderr


def kill_after_first(folder: Path, process: subprocess.Popen[bytes]) -> None:
    while not written(folder) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
