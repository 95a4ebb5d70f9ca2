"""The README is short, its commands work, and its examples and figures are real."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sessioncompress
from sessioncompress import Policy
from sessioncompress.core.marker import INDEX, PREFIX
from tests.docs.pages import BENCHMARKS, PROMISES, README, ROOT, Place, blocks, code, page, quoted, rows, section
from tests.support.runs import fixture, invoke

SHIPPED = ("sessioncompress", "fixtures", "docs", "README.md", "LICENSE", "pyproject.toml", "setup.py", "MANIFEST.in")
MOST_LINES = 250
WORDS = {
    "Resumable": ("ids", "paired", "signature is whole or gone"),
    "Recoverable": ("SHA-256", "every byte", "mode", "mtime", "appended since", "`zstd -dc` alone"),
    "Recent context untouched": ("byte-identical",),
    "Smaller in total": ("for each file", "writes nothing"),
    "Never worse": ("never grows", "second run changes nothing", "not understood is copied"),
    "Nothing lost": ("kill", "power cut", "full disk", "bad line", "appends while we work"),
    "Can't be forged": ("cannot pass for content", "noticed at the next run"),
    "Bounded memory": ("longest line",),
    "Nearby files are never trusted": ("where anything is written", "what is run", "what is deleted"),
}
"""The promises, and what the full text of each must say."""


def test_it_is_short() -> None:
    assert len(page(README).splitlines()) <= MOST_LINES


# The two commands


def setup_commands() -> list[str]:
    """Return the commands that set everything up, each of one line."""
    found = blocks(section(README, "Set up"), "sh")
    assert len(found) == 2
    for each in found:
        assert each.count("\n") == 1, each
    return [each.strip() for each in found]


@pytest.mark.slow
def test_the_first_command_sets_up_and_shows_what_it_saves(tmp_path: Path) -> None:
    """In a copy of what is shipped, with nothing but this Python; twice, since users do."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, copy / name)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "python3").symlink_to(sys.executable)
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(scratch),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    before = (copy / "fixtures" / "pi-anthropic.jsonl").read_bytes()
    for _ in range(2):
        done = subprocess.run(
            setup_commands()[0], shell=True, cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"session\.jsonl: 338 KB -> \d+ KB \(\d+ % smaller; ", done.stdout), done.stdout
        assert "session.jsonl.originals.zst" in done.stdout
        assert "session.jsonl.history" in done.stdout
    assert (copy / "fixtures" / "pi-anthropic.jsonl").read_bytes() == before
    assert {path.name for path in copy.iterdir()} - set(SHIPPED) <= {".venv", "build", "sessioncompress.egg-info"}


def test_the_second_command_is_what_ci_runs() -> None:
    """The same call of pytest, and after it the slow tier; the extra that it installs is the one that has all of it."""
    command = setup_commands()[1]
    install, call = command.split(" && ")[1:]
    assert install == ".venv/bin/pip install -q -e '.[dev]'"
    assert call == ".venv/bin/python -m pytest -q -n auto --dist worksteal"
    runs = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f'"$python" {call.removeprefix(".venv/bin/python ")}\n' in runs
    assert f'"$python" {call.removeprefix(".venv/bin/python ").replace("pytest", "pytest --all -m slow")}\n' in runs
    assert '".[dev,release]"' in runs
    assert command in page("CONTRIBUTING.md")
    assert call.replace("pytest", "pytest --all") in page("CONTRIBUTING.md")


def test_ci_can_be_run() -> None:
    """The script is one, and stops at the first failure."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    assert subprocess.run([bash, "-n", script], check=False).returncode == 0


# What a new user does


def test_the_first_commands_compress_and_restore_a_users_sessions(tmp_path: Path) -> None:
    """In their order, over the sessions of an agent in a home."""
    place = Place(tmp_path)
    session = next((place.home / ".pi/agent/sessions").rglob("*.jsonl"))
    before = session.read_bytes()
    sizes = []
    given = [line for each in code(section(README, "First commands")) for line in each.lines]
    assert [line.split()[1] for line in given] == ["sessions", "compress", "restore"]
    for line in given:
        done = place.run(line)
        assert done.returncode == 0, done.stdout + done.stderr
        sizes.append(session.stat().st_size)
        if line.endswith(("sessions", "--dry-run")):
            assert session.name in done.stdout
    assert sizes == [len(before), sizes[1], len(before)]
    assert sizes[1] < len(before) / 2
    assert session.read_bytes() == before


def test_every_other_command_of_the_table_runs(tmp_path: Path) -> None:
    """In their order, over a compressed session."""
    place = Place(tmp_path)
    assert place.run("sessioncompress compress session.jsonl").returncode == 0
    given = rows(section(README, "First commands"))
    shown = [command for first in given for command in quoted(first) if command.startswith("sessioncompress ")]
    assert len(shown) == 10
    for each in shown:
        done = place.run(each.replace("PATH", "session.jsonl").replace("REF", "de826ca0a8ce").replace("TEXT", "gauge"))
        assert done.returncode == 0, (each, done.stderr)


# Promises, examples, figures


def test_every_promise_is_there_with_its_tests() -> None:
    """By name in the README; in full on their own page, each with tests that exist."""
    names = re.findall(r"^\d+\. \*\*(.*?)\.?\*\*", section(README, "Promises"), re.MULTILINE)
    assert names == list(WORDS)
    given = rows(page(PROMISES))
    for number, (name, words) in enumerate(WORDS.items(), 1):
        row = next(first for first in given if first.startswith(f"{number}. **{name}"))
        for word in words:
            assert word in row, (name, word)
        tests = re.findall(r"`(tests/[\w/.]+)`", given[row])
        assert tests, name
        for each in tests:
            assert list(ROOT.glob(f"{each}/test_*.py")) if (ROOT / each).is_dir() else (ROOT / each).is_file(), each


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the texts of the fixtures that the README quotes, and of what a run makes of them."""
    before = made = ""
    for name in re.findall(r"`fixtures/([\w.-]+)`", section(README, "Before and after")):
        path = tmp_path_factory.mktemp("example") / "session.jsonl"
        path.write_bytes(fixture(name))
        sessioncompress.compress_session(path, Policy(size_threshold_kb=0, min_saved_kb=0))
        before, made = f"{before}\n\n{texts(fixture(name))}", f"{made}\n\n{texts(path.read_bytes())}"
    return before, made


def texts(session: bytes) -> str:
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                walk(each)

    for line in session.splitlines():
        walk(json.loads(line))
    return "\n\n".join(found)


def test_what_it_quotes_is_what_a_run_makes(example: tuple[str, str]) -> None:
    """Each block of the excerpt, to the letter; what is no marker and no index is the original's."""
    quotes = blocks(section(README, "Before and after"), "")
    assert len(quotes) == 4
    for quote in quotes:
        pieces = quote.strip("\n").split("\n") if quote.startswith("[[") else [quote.strip("\n")]
        for piece in pieces:
            assert piece in example[1], piece
            for line in piece.splitlines():
                assert line in example[0] or line.startswith((PREFIX, INDEX)), line


def test_the_marker_of_the_reference_is_one_of_a_run(example: tuple[str, str]) -> None:
    (marker,) = blocks(section("docs/reference/replacements.md", "The marker"), "text")
    assert marker.strip() in example[1]


def in_kb(written: str) -> float:
    number, unit = written.split()
    return float(number.replace(",", "")) * {"KB": 1, "MB": 1024}[unit]


LINE = r"session\.jsonl: ([\d,]+) KB -> ([\d,]+) KB \((\d+) % smaller; .*; store [\d,]+ KB\); tokens .*$"


def test_the_figures_come_with_their_commands() -> None:
    """Each table or line of figures stands over the command that shows it, and the figures agree with each other."""
    text = section(BENCHMARKS, "Savings on real sessions")
    assert re.search(r"^sessioncompress restore ", "\n".join(blocks(text, "bash")), re.MULTILINE)
    assert "sessioncompress compress" in blocks(text, "bash")[0]
    given = rows(text)
    before, after, store = (
        in_kb(given[name].split("|")[0]) for name in ("before", "sessions after", "sessions with their stores")
    )
    # Sizes in MB are rounded more than the shares are.
    for name, size in (("sessions after", after), ("sessions with their stores", store)):
        said = re.search(r"(\d+) % smaller", given[name])
        assert said
        assert int(said[1]) == pytest.approx(100 * (before - size) / before, abs=1)
    own = section(README, "What it did to real sessions")
    assert "`sessioncompress compress session.jsonl`" in own
    lines = re.findall(r"^session\.jsonl: .*$", own, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        sizes = re.match(LINE, line)
        assert sizes, line
        was, became = (int(sizes[number].replace(",", "")) for number in (1, 2))
        assert abs(100 * (was - became) / was - int(sizes[3])) < 2


def test_the_figures_are_those_of_the_sessions(tmp_path: Path) -> None:
    """Over copies of the real sessions, where they are there: the same totals as the table says."""
    corpus = ROOT.parent / "shared" / "corpus"
    if not corpus.is_dir():
        pytest.skip("no real sessions in ../shared/corpus")
    for name in ("pi", "omp", "openclaw"):
        shutil.copytree(corpus / name, tmp_path / name, copy_function=shutil.copyfile)
        (tmp_path / name).chmod(0o755)
    done = invoke("compress", "-v", tmp_path)
    last = done.stdout[done.stdout.rindex("\ntotal: ") + 1 :]
    numbers = re.match(
        r"total: (\d+) files \((\d+) compressed, (\d+) unchanged, (\d+) skipped\)\n"
        r"  sessions: ([\d,.]+ [KM]B) -> ([\d,.]+ [KM]B), .*\n  with the stores: [\d,.]+ [KM]B -> ([\d,.]+ [KM]B), \d+ % smaller\n"
        r"  of those changed: tokens ([\d,]+ -> [\d,]+) \(estimated\)\n",
        last,
    )
    assert numbers, last
    text = section(BENCHMARKS, "Savings on real sessions")
    for number in numbers.groups():
        assert re.search(rf"(?<![\d,]){re.escape(number)}\b", text), (number, last)
    for line in re.findall(r"^session\.jsonl(: .*)$", section(README, "What it did to real sessions"), re.MULTILINE):
        assert line in done.stdout, line
