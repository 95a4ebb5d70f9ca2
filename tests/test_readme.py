"""What the README says is so: its commands run, its examples are real, and nothing that exists is missing from it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import sessioncompress
from sessioncompress.cli import main as command_line
from sessioncompress.cli import sessions_report
from sessioncompress.cli.main import command, main
from sessioncompress.formats.table import NAMES
from sessioncompress.operations import batch, report
from sessioncompress.operations.listing import ListedSession
from sessioncompress.operations.stats import SessionStats, Share
from sessioncompress.pipeline.stats import CompressionStats, Status
from sessioncompress.policy.file import to_mapping
from sessioncompress.policy.keys import KEYS
from sessioncompress.policy.model import BALANCED, PRESETS
from tests.runs import HOMES, fixture

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHIPPED = ("sessioncompress", "fixtures", "README.md", "LICENSE", "pyproject.toml")
EXIT_CODES = (0, 1, 2, 3, 4, 5, 130)
FLAGS_OF_ALL = {"--help", "-h"}
PROMISES = {
    "Resumable": ("ids", "paired", "signature is whole or gone"),
    "Recoverable": ("SHA-256", "every byte", "mode", "mtime", "appended since", "`zstd -dc` alone"),
    "Recent context untouched": ("byte-identical",),
    "Smaller in total": ("for each file", "writes nothing"),
    "Never worse": ("never grows", "second run changes nothing", "not understood is copied"),
    "Nothing lost": ("kill", "power cut", "full disk", "bad line", "appends while we work"),
    "Not imitable": ("cannot pass for content", "noticed at the next run"),
    "Bounded memory": ("longest line",),
}


def section(title: str) -> str:
    """Return the text under a heading, up to the next one of its level or above; what stands in code is no heading."""
    bare = re.sub(r"^```.*?^```$", lambda code: re.sub(r"[^\n]", " ", code[0]), README, flags=re.MULTILINE | re.DOTALL)
    level = re.search(rf"^(#+) {re.escape(title)}$", bare, re.MULTILINE)
    assert level, title
    following = re.compile(rf"^#{{1,{len(level[1])}}} ", re.MULTILINE).search(bare, level.end())
    return README[level.end() : following.start() if following else len(README)]


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def rows(text: str) -> dict[str, str]:
    """Return the rows of the tables in a text: first cell to the rest."""
    found = [line.strip("|").split("|", 1) for line in text.splitlines() if line.startswith("| ")]
    return {first.strip(): rest for first, rest in found}


def quoted(text: str) -> set[str]:
    """Return what stands in backquotes."""
    return set(re.findall(r"`([^`\n]+)`", text))


# The two commands


def setup_commands() -> list[str]:
    """Return the commands that set everything up, each of one line."""
    found = blocks(section("Set up"), "sh")
    assert len(found) == 2
    for each in found:
        assert each.count("\n") == 1, each
    return [each.strip() for each in found]


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
        assert "session.jsonl.zst" in done.stdout
        assert "session.refs.jsonl" in done.stdout
    assert (copy / "fixtures" / "pi-anthropic.jsonl").read_bytes() == before
    assert {path.name for path in copy.iterdir()} - set(SHIPPED) <= {".venv", "build", "sessioncompress.egg-info"}


def test_the_second_command_is_what_ci_runs() -> None:
    """The same call of pytest; the extra that it installs is the one that has all of it."""
    command = setup_commands()[1]
    install, call = command.split(" && ")[1:]
    assert install == ".venv/bin/pip install -q -e '.[dev]'"
    assert call == ".venv/bin/python -m pytest -q -n auto --dist worksteal"
    runs = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f'"$python" {call.removeprefix(".venv/bin/python ")}\n' in runs
    assert '".[dev]"' in runs
    assert command in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert call in section("Tests")


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


# Commands and options


def commands() -> list[tuple[str, click.Command]]:
    """Return all commands."""
    return sorted(command_line.commands().items())


@pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])
def test_every_command_and_option_is_there(name: str, command: click.Command) -> None:
    """Each command has a heading with its arguments; each option of it a row there, and no row is of none."""
    arguments = " ".join(
        (each.name or "").upper() + ("..." if each.nargs == -1 else "")
        for each in command.params
        if isinstance(each, click.Argument) and each.required
    )
    optional = " ".join(
        f"[{(each.name or '').upper()}{'...' if each.nargs == -1 else ''}]"
        for each in command.params
        if isinstance(each, click.Argument) and not each.required
    )
    text = section(f"`{' '.join(filter(None, ('sessioncompress', name, arguments, optional)))}`")
    said = {option.split()[0] for row in rows(text) for option in quoted(row) if option.startswith("-")}
    options = {opt for each in command.params if isinstance(each, click.Option) for opt in each.opts}
    assert said == options - FLAGS_OF_ALL
    for each in command.params:
        if isinstance(each, click.Option) and not each.is_flag:
            assert re.search(rf"`{each.opts[0]} [A-Z:]+`", text), each.opts[0]


@pytest.mark.parametrize(("name", "command"), [("", main), *commands()], ids=["group", *(n for n, _ in commands())])
def test_every_command_and_option_has_help(name: str, command: click.Command) -> None:
    """A text for the command, and one for each option, in a sentence."""
    shown = CliRunner().invoke(main, [*([name] if name else []), "--help"]).output
    assert command.help
    assert command.help.partition("\n")[0].rstrip().endswith((".", ";", "smaller"))
    for each in command.params:
        if isinstance(each, click.Option):
            assert each.help, each.name
            assert each.help.endswith("."), each.name
            assert each.opts[0] in shown


def test_version_and_help_are_there() -> None:
    """The options of the group."""
    assert {"sessioncompress --version", "-h", "--help"} <= quoted(section("Commands"))


def test_every_command_that_the_readme_shows_exists() -> None:
    """Commands, and options of commands, in code blocks and in backquotes."""
    shown = re.findall(
        r"\bsessioncompress ([a-z][a-z-]*)((?: [^\s`|;&\]]+)*)",
        "\n".join([*blocks(README, "sh"), *blocks(README, "bash")]),
    )
    shown += re.findall(r"`sessioncompress ([a-z][a-z-]*)((?: [^\s`]+)*)`", README)
    assert len(shown) > 10
    for name, rest in shown:
        options = {opt for each in command(name).params for opt in each.opts}
        for option in re.findall(r"(?<= )--?[a-z][a-z-]*", rest):
            assert option in options, (name, option)


def test_every_exit_code_is_there() -> None:
    """One row each, and the order of several."""
    text = section("Exit codes")
    assert [int(first) for first in rows(text) if first.isdecimal()] == list(EXIT_CODES)
    order = re.search(r"Of several, the first of ([\d, ]+)\.", text)
    assert order
    given = [int(code) for code in order[1].split(", ")]
    assert sorted(given) == sorted(set(EXIT_CODES) - {0})
    while given:
        assert batch.worst(given) == given.pop(0)


def test_every_field_of_the_json_document_is_there() -> None:
    """The fields of the table are the fields of the document, which are the library's in snake case."""
    text = section("`--json`")
    given = {field for row in rows(text) for field in quoted(row)}
    file = report.document([CompressionStats("x")])["files"][0]
    assert given == set(file)
    assert {re.sub(r"([A-Z])", r"_\1", name).lower() for name in file} <= {
        *CompressionStats._fields,
        "ratio",
    }
    example = json.loads(blocks(text, "json")[0])
    assert example["schema"] == report.SCHEMA
    assert set(example) == set(report.document([]))
    said = quoted(rows(text)["`status`, `reason`"])
    assert said == {status.value for status in Status} - {Status.RESTORED.value}


def test_every_field_of_stats_is_there() -> None:
    """The fields of its document, of its rows, and the columns of its table."""
    text = section("`sessioncompress stats PATHS...`")
    would = CompressionStats("x")
    done = SessionStats("x", "pi", 1, 0, 1, 1, (Share("result", "read"),), would)
    file = report.sessions_document([done])["files"][0]
    given = {field for row, rest in rows(text).items() for field in quoted(row) if not field.startswith("-")}
    assert given == set(file)
    assert quoted(rows(text)["`shares`"]) == set(file["shares"][0])
    heading = list(report.session_lines(done))[1]
    assert {"protected", "old", "dead"} <= set(heading.split()) & quoted(text)


def test_every_field_of_the_list_of_sessions_is_there() -> None:
    """And every variable by which a folder is found."""
    text = section("`sessioncompress sessions`")
    given = {field for row in rows(text) for field in quoted(row) if not field.startswith("-")}
    one = ListedSession("x", "pi", "/", "x", 1, 1.0, compressed=False, could_save=1)
    assert given == set(sessions_report.document([one])["sessions"][0])
    assert set(HOMES) <= quoted(text)
    assert f'"schema": "{sessions_report.SCHEMA}"' in text
    columns = re.split(r"\s{2,}", sessions_report.HEADING)
    assert "could save" in {column.strip() for column in columns} & quoted(text)


def test_every_format_can_be_named() -> None:
    """Where `--format` is told of, and as a value of `format`."""
    (said,) = re.findall(r"says so with `--format`: one of ([^.]*)\.", README)
    assert re.findall(r"`([\w-]+)`", said) == list(NAMES)
    assert set(NAMES) <= quoted(rows(section("`--json`"))["`path`, `format`"])


# Configuration


def test_every_key_is_there_with_its_default() -> None:
    """The table holds each key once, and what `compression.json` would say."""
    expected = flat(to_mapping(BALANCED))
    text = section("Configuration")
    given = {
        first.strip("`"): json.loads(rest.split("|")[0].strip(" `"))
        for first, rest in rows(text).items()
        if first.strip("`") in expected
    }
    assert given == expected


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys inside a section with its name before them."""
    return {
        name: each
        for key, value in values.items()
        for name, each in (
            {f"{key}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {key: value}
        ).items()
    }


def test_every_preset_is_there() -> None:
    """By name, and with the numbers by which it differs."""
    text = section("Configuration")
    given = rows(text)
    for name, preset in PRESETS.items():
        said = given[f"`{name}`"]
        default = flat(to_mapping(BALANCED))
        differs = {key: value for key, value in flat(to_mapping(preset)).items() if value != default[key]}
        for value in differs.values():
            expected = f"{value:,}" if type(value) is int else "null" if value is None else str(value)
            assert value is False or expected in said, (name, value)
        assert ("previews" in said) is (preset.preview_max_bytes != BALANCED.preview_max_bytes)
        assert ("thinking" in said) is not preset.strip_thinking


def test_the_shipped_policy_is_the_defaults() -> None:
    """All keys, and no other value than the defaults."""
    shipped = json.loads((ROOT / "compression.json").read_bytes())
    assert shipped == {"session": to_mapping(BALANCED)}
    assert list(shipped["session"]) == list(KEYS)
    assert sessioncompress.policy_for(ROOT / "session.jsonl") == BALANCED


# Promises, examples, figures


def test_every_promise_is_there_with_its_tests() -> None:
    """All eight, in their words, each with tests that exist."""
    given = rows(section("Promises"))
    for number, (name, words) in enumerate(PROMISES.items(), 1):
        row = next(first for first in given if first.startswith(f"{number}. **{name}"))
        for word in words:
            assert word in row, (name, word)
        tests = re.findall(r"`(tests/[\w/.]+)`", given[row])
        assert tests, name
        for each in tests:
            assert list(ROOT.glob(f"{each}/test_*.py")) if (ROOT / each).is_dir() else (ROOT / each).is_file(), each


def test_every_path_that_the_documents_name_exists() -> None:
    """Files of the repository, in all three documents."""
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for path in re.findall(r"`((?:tests|fixtures|sessioncompress|formats|compressors|store)/[\w/.-]*)`", text):
            inside = ROOT if path.startswith(("tests/", "fixtures/", "sessioncompress/")) else ROOT / "sessioncompress"
            assert (inside / path).exists() or path.endswith("NAME.py"), (name, path)
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (ROOT / link).exists(), (name, link)


def test_every_module_has_its_job() -> None:
    """The table of the design names all modules but those that need no word."""
    said = {module.rstrip("/") for row in rows(section("Design")) for module in quoted(row)}
    modules = {path.stem for path in (ROOT / "sessioncompress").glob("*.py")} - {"__init__", "__main__", "version"}
    folders = {path.parent.name for path in (ROOT / "sessioncompress").glob("*/__init__.py")}
    assert said == modules | folders


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the texts of the fixture that the README quotes, and of what a run makes of it."""
    path = tmp_path_factory.mktemp("example") / "session.jsonl"
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    sessioncompress.compress_session(path)
    return texts(fixture("pi-anthropic.jsonl")), texts(path.read_bytes())


def texts(session: bytes) -> str:
    """Return all strings of a session."""
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
    """Each block of the excerpt, to the letter; the lines around a marker are the original's."""
    quotes = blocks(section("Before and after"), "")
    assert len(quotes) == 3
    for quote in quotes:
        pieces = quote.strip("\n").split("\n") if quote.startswith("[[") else [quote.strip("\n")]
        for piece in pieces:
            assert piece in example[1], piece
            for line in piece.splitlines():
                assert line in example[0] or line.startswith("[[sessioncompress: "), line


def test_the_library_example_runs(tmp_path: Path) -> None:
    """As it stands there, in a folder with a session."""
    (found,) = blocks(section("As a library"), "python")
    (tmp_path / "session.jsonl").write_bytes(fixture("pi-anthropic.jsonl"))
    (tmp_path / "example.py").write_text(found, encoding="utf-8")
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("compressed 345931 ")
    assert lines[3] == "# tidewatch"
    assert re.fullmatch(r"restored \d+ 345931", lines[-1])
    assert (tmp_path / "session.jsonl").read_bytes() == fixture("pi-anthropic.jsonl")


def test_every_public_name_is_there() -> None:
    """Each function, record and error of the library is named."""
    text = section("As a library")
    for name in sessioncompress.__all__:
        if name != "__version__":
            assert re.search(rf"\b{name}\b", text), name
    for each in fields(sessioncompress.Policy):
        assert each.name in {key.field for key in KEYS.values()} or f"`{each.name}`" in text, each.name


def test_the_figures_come_with_their_commands() -> None:
    """Each table or line of figures stands over the command that shows it, and the figures agree with each other."""
    text = section("What it did to real sessions")
    assert re.search(r"^sessioncompress restore ", "\n".join(blocks(text, "bash")), re.MULTILINE)
    assert "sessioncompress compress" in blocks(text, "bash")[0]
    given = rows(text)
    before, after, beside = (
        int(re.sub(r"\D", "", given[name].split("|")[0]))
        for name in ("before", "sessions after", "with all that lies beside them")
    )
    assert f"{int(100 * (before - after) / before)} % smaller" in given["sessions after"]
    assert f"{int(100 * (before - beside) / before)} % smaller" in given["with all that lies beside them"]
    for line in re.findall(r"^session\.jsonl: .*$", text, re.MULTILINE):
        sizes = re.match(
            r"session\.jsonl: ([\d,]+) KB -> ([\d,]+) KB \((\d+) % smaller; .*; originals [\d,]+ KB\)$", line
        )
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
    done = CliRunner().invoke(main, ["compress", str(tmp_path)])
    last = done.stdout.splitlines()[-1]
    numbers = re.match(
        r"total: (\d+) files \((\d+) compressed, (\d+) unchanged, (\d+) skipped\): ([\d,]+ KB) -> ([\d,]+ KB) .*; "
        r"with what lies beside: [\d,]+ KB -> ([\d,]+ KB), \d+ % smaller; tokens \(estimated\) ([\d,]+ -> [\d,]+)$",
        last,
    )
    assert numbers, last
    text = section("What it did to real sessions")
    for number in numbers.groups():
        assert re.search(rf"(?<![\d,]){re.escape(number)}\b", text), (number, last)
    for line in re.findall(r"^session\.jsonl(: .*)$", text, re.MULTILINE):
        assert line in done.stdout, line


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        ".ci/run",
        "compression.json",
        "action.yml",
        "action/install.sh",
        ".pre-commit-hooks.yaml",
    ],
)
def test_nothing_of_this_machine_is_in_the_documents(name: str) -> None:
    """No absolute path of anyone's machine, no registry's address, no figure without a source."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w~.$])/(?:home|root|work|Users|mnt|opt|venv)\b", text)
    assert not re.search(r"pypi\.|npmjs|registry\.|files\.pythonhosted", text)
    assert text.isascii()
