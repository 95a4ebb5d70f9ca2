"""How long a run takes against a floor of what it cannot do without, measured in the same session; and its start-up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from sessioncompress.store import zstd
from tests.bench.generate import generate
from tests.runs import split

MEGABYTES = 50
FRAME = 4 * 1024 * 1024
LEVEL = {int(zstd.CompressionParameter.compression_level): 3}
PRINT_PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
"""Runs a command and prints the most memory it held, which no other child of the tests can hide."""

Times = dict[str, float]


@pytest.fixture(scope="module")
def times() -> Iterator[Times]:
    """Collect the fastest time of each row; print the ratios in the end."""
    found: Times = {}
    yield found
    print()
    for name, base, text in (
        ("compress", "floor", f"compress {MEGABYTES} MB by the floor"),
        ("again", "floor", "a second run over it by the floor"),
        ("restore", "floor", "restore by the floor"),
        ("help", "import click", "--help by an import of click"),
        ("skip", "import click", "a session under the threshold by an import of click"),
    ):
        if name in found and base in found:
            print(f"{text}: {found[name]:.3f} s / {found[base]:.3f} s = {found[name] / found[base]:.2f}")
    if "peak" in found:
        print(f"most memory of compress {MEGABYTES} MB: {found['peak']:.0f} MB")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate the session."""
    path = tmp_path_factory.mktemp("large") / "large.jsonl"
    generate(path, MEGABYTES)
    return path


@pytest.fixture(scope="module")
def compressed(large: Path) -> Path:
    """Compress a copy of it."""
    path = fresh(large.parent / "compressed", large)
    command("compress", path)
    return path


def fresh(folder: Path, source: Path) -> Path:
    """Put a copy of a session, and of what lies beside it, into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    beside = source.parent / ".sessioncompress"
    if beside.exists():
        shutil.copytree(beside, folder / ".sessioncompress")
    path = folder / "session.jsonl"
    shutil.copyfile(source, path)
    os.sync()
    return path


def command(*arguments: str | Path) -> None:
    """Run a command as users do: as a process, start-up included."""
    subprocess.run(
        [sys.executable, "-m", "sessioncompress", *arguments], check=True, stdout=subprocess.DEVNULL, cwd=os.path.sep
    )


def measure(
    benchmark: Any, times: Times, name: str, work: Callable[..., object], setup: Callable[[], Any] | None = None
) -> None:
    """Take the fastest of some rounds."""
    benchmark.pedantic(work, setup=setup, rounds=3 if setup else 15)
    times[name] = benchmark.stats.stats.min


@pytest.mark.benchmark(group="large")
def test_floor(benchmark: Any, times: Times, large: Path, compressed: Path) -> None:
    """Parse and write each line, pack the replaced ones with zstd -3, read them back, SHA-256: one thread."""
    kept = set(split(compressed.read_bytes()))
    lines = split(large.read_bytes())
    replaced = [line for line in lines if line not in kept]
    packs = [b"".join(replaced)[start : start + FRAME] for start in range(0, sum(map(len, replaced)), FRAME)]

    def floor() -> None:
        for line in lines:
            orjson.dumps(orjson.loads(line))
        for pack in packs:
            found = zstd.decompress(zstd.compress(pack, options=LEVEL))
            if sha256(found).digest() != sha256(pack).digest():
                raise ValueError

    measure(benchmark, times, "floor", floor, setup=lambda: None)


@pytest.mark.benchmark(group="large")
def test_compress(benchmark: Any, times: Times, large: Path, tmp_path: Path) -> None:
    """The first run over the session."""
    measure(
        benchmark,
        times,
        "compress",
        lambda path: command("compress", path),
        setup=lambda: ((fresh(tmp_path / "run", large),), {}),
    )
    path = fresh(tmp_path / "run", large)
    own = [sys.executable, "-m", "sessioncompress", "compress", str(path)]
    done = subprocess.run([sys.executable, "-c", PRINT_PEAK, *own], check=True, capture_output=True)
    times["peak"] = int(done.stdout) / (1e6 if sys.platform == "darwin" else 1e3)


@pytest.mark.benchmark(group="large")
def test_compress_again(benchmark: Any, times: Times, compressed: Path, tmp_path: Path) -> None:
    """A run that finds nothing to do."""
    measure(
        benchmark,
        times,
        "again",
        lambda path: command("compress", path),
        setup=lambda: ((fresh(tmp_path / "run", compressed),), {}),
    )


@pytest.mark.benchmark(group="large")
def test_restore(benchmark: Any, times: Times, compressed: Path, tmp_path: Path) -> None:
    """All of it back."""
    measure(
        benchmark,
        times,
        "restore",
        lambda path: command("restore", path),
        setup=lambda: ((fresh(tmp_path / "run", compressed),), {}),
    )


@pytest.mark.benchmark(group="start-up")
def test_import_click(benchmark: Any, times: Times) -> None:
    """What a command line made with click takes at least."""
    measure(
        benchmark, times, "import click", lambda: subprocess.run([sys.executable, "-c", "import click"], check=True)
    )


@pytest.mark.benchmark(group="start-up")
def test_help(benchmark: Any, times: Times) -> None:
    """The help."""
    measure(benchmark, times, "help", lambda: command("--help"))


@pytest.mark.benchmark(group="start-up")
def test_skip(benchmark: Any, times: Times, tmp_path: Path) -> None:
    """A session under the threshold, as in CI after most turns."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(b'{"type":"session"}\n')
    measure(benchmark, times, "skip", lambda: command("compress", path))
