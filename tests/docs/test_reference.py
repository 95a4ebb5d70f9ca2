"""The reference is complete and true: commands, options, keys, presets, fields, exit codes, formats, the library."""

from __future__ import annotations

import json
import os
import pydoc
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import sessioncompress
from sessioncompress import errors
from sessioncompress.cli.main import main
from sessioncompress.formats.table import AGENTS, NAMES, TABLE, below
from sessioncompress.operations.batch import worst
from sessioncompress.operations.sessions import Share
from sessioncompress.operations.verify import ChangedLine
from sessioncompress.pipeline.stats import CompressionStats, Status
from sessioncompress.policy.file import KEYS, flat, to_mapping
from sessioncompress.policy.model import BALANCED, PRESETS
from tests.docs.pages import (
    COMMANDS,
    CONFIGURATION,
    DOCUMENTS,
    FORMATS,
    README,
    ROOT,
    Place,
    blocks,
    commands_shown,
    fields_of,
    page,
    pages,
    quoted,
    rows,
    section,
    snake,
)
from tests.docs.reference import make_reference
from tests.support.runs import HOMES, fixture, invoke

EXIT_CODES = (0, 1, 2, 3, 4, 5, 130)
FLAGS_OF_ALL = {"--help", "-h"}
LIBRARY = "docs/reference/library.md"
STORE = "docs/reference/store.md"


def commands() -> list[tuple[str, click.Command]]:
    return sorted(make_reference.commands().items())


EACH = pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])


# What is generated


@pytest.mark.parametrize("generated", [*make_reference.PAGES, *make_reference.WHOLE], ids=lambda path: path.stem)
def test_a_generated_page_is_up_to_date(generated: Path) -> None:
    """Else run `python docs/make_reference.py`."""
    assert generated.read_text(encoding="utf-8") == make_reference.made(generated)


def test_the_script_tells_what_is_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of which a row was changed; and one that has no place for a command is an error."""
    copy = tmp_path / "commands.md"
    copy.write_text(page(COMMANDS).replace("| `--dry-run` |", "| `--dryrun` |"), encoding="utf-8")
    monkeypatch.setattr(make_reference, "PAGES", (copy,))
    assert make_reference.out_of_date() == [copy]
    copy.write_text(page(COMMANDS).replace("<!-- generated: stats -->", ""), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"it must have .*stats"):
        make_reference.out_of_date()


# Commands and options


@EACH
def test_every_command_and_option_is_there(name: str, command: click.Command) -> None:
    """Each command has a heading and a usage line with its arguments; each option of it a row, maybe a shared one."""
    text = section(COMMANDS, name)
    usage = blocks(text, "text")[0]
    assert usage.startswith(f"sessioncompress {name} ")
    for each in command.params:
        if isinstance(each, click.Argument) and not isinstance(each.type, click.Choice):
            shown = f"{(each.name or '').upper()}{'...' if each.nargs == -1 else ''}"
            assert (shown if each.required else f"[{shown}]") in usage.split()
    generated = text.split("<!-- end -->")[0]
    said = {option.split()[0] for option in quoted(generated) if option.startswith("-")}
    told = generated + section(COMMANDS, "Shared options")
    options = {
        opt for each in command.params if isinstance(each, click.Option) and not each.hidden for opt in each.opts
    }
    assert said == options - FLAGS_OF_ALL
    assert said <= {option.split()[0] for row in rows(told) for option in quoted(row)}
    assert {option.split()[0] for option in quoted(text) if option.startswith("--")} <= options | also_named(name)
    for each in command.params:
        if isinstance(each, click.Option) and not each.is_flag and not each.hidden:
            assert re.search(rf"`{each.opts[0]} [A-Z:]+`", told), each.opts[0]
            for choice in each.type.choices if isinstance(each.type, click.Choice) else ():
                assert f"`{choice}`" in told, (each.opts[0], choice)


def also_named(name: str) -> set[str]:
    """Return options of other commands that the text of a command may name."""
    return {"--backup-dir", "--from-markers"} if name == "forget" else set()


@pytest.mark.parametrize(("name", "command"), [("", main), *commands()], ids=["group", *(n for n, _ in commands())])
def test_every_command_and_option_has_help(name: str, command: click.Command) -> None:
    """A text for the command, and one for each option, in a sentence."""
    shown = invoke(*([name] if name else []), "--help").output
    assert command.help
    assert command.help.partition("\n")[0].rstrip().endswith((".", ";", "smaller"))
    for each in command.params:
        if isinstance(each, click.Option):
            assert each.help, each.name
            assert each.help.endswith("."), each.name
            assert each.hidden or each.opts[0] in shown


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_man_page_is_one() -> None:
    """Groff warns of nothing, and every command and option comes out as it is typed."""
    asked = ["groff", "-man", "-Tascii", "-P-cbou", "-ww", "-rLL=200n", str(make_reference.MAN)]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    for name, command in commands():
        assert f"   sessioncompress {name} [OPTIONS]" in done.stdout
        for each in command.params:
            if isinstance(each, click.Option):
                assert f"       {make_reference.signature(each)}" in done.stdout, each.opts


def test_version_and_help_are_there() -> None:
    assert {"sessioncompress --version", "-h", "--help"} <= quoted(page(COMMANDS))


@pytest.mark.parametrize("name", pages())
def test_every_command_that_a_page_shows_exists(name: str) -> None:
    """Commands, and options of commands, in code blocks and in backquotes."""
    for shown in commands_shown(page(name)):
        called = shown.split()[0]
        if called.startswith("-"):
            continue
        params = make_reference.commands()[called].params
        options = {opt for each in params if not getattr(each, "hidden", False) for opt in each.opts}
        for option in re.findall(r"(?<= )--?[a-z][a-z-]*", shown):
            assert option in options, (shown, option)


def test_pages_show_commands() -> None:
    """What the test before this looks for is found."""
    assert len(list(commands_shown(page(README)))) > 5
    assert "compress --all --older-than 1d" in commands_shown(page(README))
    assert len([shown for name in pages() for shown in commands_shown(page(name))]) > 40


def test_every_exit_code_is_there() -> None:
    text = page("docs/reference/exit-codes.md")
    assert [int(first) for first in rows(text) if first.isdecimal()] == list(EXIT_CODES)
    order = re.search(r"the first of ([\d, ]+) is used\.", text)
    assert order
    given = [int(code) for code in order[1].split(", ")]
    assert sorted(given) == sorted(set(EXIT_CODES) - {0})
    while given:
        assert worst(given) == given.pop(0)


def test_every_exit_code_that_a_page_names_is_one() -> None:
    named = {int(code) for name in pages() for code in re.findall(r"\bexit code (\d+)", page(name))}
    assert named <= set(EXIT_CODES)
    assert len(named) > 4


# JSON documents


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the document of each command that has one, over a session."""
    place = Place(tmp_path_factory.mktemp("documents"))
    session, branches = "session.jsonl", "fixtures/pi-compacted.jsonl"
    found = {}
    for name, arguments in (
        ("sessions", ""),
        ("stats", session),
        ("budget", session),
        ("branch-summary", f"--dry-run {branches}"),
        ("compress", f"--log log.jsonl {session}"),
        ("compact", f"--log log-of-compact.jsonl {session}"),
        ("verify", session),
        ("search", f"the {session}"),
        ("pack", session),
        ("unpack", session),
        ("history", session),
        ("restore", session),
        ("forget", f"--dry-run {session}"),
        ("config", "show"),
    ):
        done = place.run(f"sessioncompress {name} --json {arguments}")
        found[name] = json.loads(done.stdout)
    found["the log"] = json.loads((place.work / "log.jsonl").read_bytes())
    found["the log of compact"] = json.loads((place.work / "log-of-compact.jsonl").read_bytes())
    return found


@EACH
def test_every_field_of_a_json_document_is_there(name: str, command: click.Command, documents: dict[str, Any]) -> None:
    """Of each command with `--json`: the fields of its files, no others, and its schema."""
    if "--json" not in {opt for each in command.params for opt in each.opts}:
        assert not re.search(rf"^## {name}$", page(DOCUMENTS), re.MULTILINE)
        return
    text = section(DOCUMENTS, name)
    document = documents[name]
    assert f"`{document['schema']}`" in text
    one, *_ = document[{"sessions": "sessions", "history": "runs", "config": "keys"}.get(name, "files")]
    assert fields_of(text) == set(one)
    for outer in document.keys() - {"schema"}:
        assert outer in quoted(text), outer


def test_the_document_of_compress_is_that_of_the_library(documents: dict[str, Any]) -> None:
    """Its fields in snake case, and its status; the example has what each document has."""
    text = section(DOCUMENTS, "compress")
    assert snake(documents["compress"]["files"][0]) <= {
        *CompressionStats.__struct_fields__,
        "ratio",
        "compressed_share",
    }
    example = json.loads(blocks(text, "json")[0])
    assert example["schema"] == documents["compress"]["schema"]
    assert set(example) == set(documents["compress"])
    said = quoted(rows(text)["`status`"])
    others = {
        Status.RESTORED,
        Status.WOULD_RESTORE,
        Status.COMPACTED,
        Status.WOULD_COMPACT,
        Status.SUMMARIZED,
        Status.WOULD_SUMMARIZE,
    }
    assert said == {status.value for status in set(Status) - others}


def test_the_document_of_stats_has_the_rows_and_the_columns_of_its_table(
    documents: dict[str, Any], tmp_path: Path
) -> None:
    file = documents["stats"]["files"][0]
    assert quoted(rows(section(DOCUMENTS, "stats"))["`shares`"]) == set(file["shares"][0])
    assert set(file["would"]) == fields_of(section(DOCUMENTS, "compress"))
    heading = Place(tmp_path).run("sessioncompress stats session.jsonl").stdout.splitlines()[1]
    assert {"protected", "old", "compacted"} <= set(heading.split()) & fields_of(section(COMMANDS, "stats"))


@pytest.mark.parametrize("title", ["The log", "The log of compact"])
def test_the_log_has_the_fields_that_are_told(documents: dict[str, Any], title: str) -> None:
    assert fields_of(section(DOCUMENTS, title)) == set(documents[title.lower()])


def test_the_list_of_sessions_has_the_column_that_is_told(tmp_path: Path) -> None:
    heading = Place(tmp_path).run("sessioncompress sessions").stdout.splitlines()[0]
    assert "could save" in heading
    assert "could save" in quoted(section(COMMANDS, "sessions"))


# Formats and the store


def test_every_format_is_there() -> None:
    """By its name, with what its row says of it."""
    told = rows(section(FORMATS, "Which sessions are read"))
    assert sorted(fields_of(section(FORMATS, "Which sessions are read"))) == sorted(NAMES)
    for row in TABLE:
        cells = [cell.strip() for cell in told[f"`{row.name}`"].strip("|").split("|")]
        assert quoted(cells.pop(0)) == set(row.also)
        assert cells == [f"{row.said.agents} {row.said.since}".rstrip(), row.said.kind, row.said.resumed]
        assert all(cells), f"the row of {row.name} in formats/table.py must say whose sessions these are"


def test_the_readme_names_every_agent() -> None:
    """Where its sessions are is told elsewhere."""
    told = section(README, "Agents")
    assert f"A session is one of {AGENTS}." in told
    assert "(docs/reference/formats.md)" in told
    assert all(agent in AGENTS for row in TABLE for agent in row.said.agents.split(", "))


def test_every_folder_that_leads_to_sessions_is_there() -> None:
    """With the variable that names it, and where it is without that."""
    told = quoted(section(FORMATS, "Where sessions are found"))
    assert set(HOMES) <= told
    for row in TABLE:
        assert set(filter(None, (each for folder in row.folders for each in folder))) <= told
    assert set(map(str, below(Path()))) <= told


def test_every_field_of_the_journal_is_there(tmp_path: Path) -> None:
    """Of what a run writes; what only some runs write may be told as well."""
    place = Place(tmp_path)
    assert place.run("sessioncompress compress session.jsonl").returncode == 0
    (journal,) = (place.work / ".sessioncompress").glob("local-*/session.jsonl.history")
    told = rows(section(STORE, "Journal records"))
    written: dict[str, set[str]] = {}
    for record in map(json.loads, journal.read_bytes().splitlines()):
        written.setdefault(record.pop("type"), set()).update(record)
    assert len(written) == 3
    for kind, names in written.items():
        assert names <= quoted(told[f"`{kind}`"]), kind


def test_the_files_of_the_store_are_there(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.run("sessioncompress compress session.jsonl").returncode == 0
    files = list((place.work / ".sessioncompress").glob("local-*/session.*"))
    assert len(files) == 2
    for path in files:
        assert f"DIR/.sessioncompress/local-XXXXXXXX/{path.name} " in page(STORE)


# Configuration


def test_every_key_is_there_with_its_default() -> None:
    """The table holds each key once, and what `compression.json` would say."""
    expected = flat(to_mapping(BALANCED))
    given = {
        first.strip("`"): json.loads(rest.split("|")[0].strip(" `"))
        for first, rest in rows(section(CONFIGURATION, "Keys")).items()
        if first.strip("`") in expected
    }
    assert given == expected


def test_the_keys_that_no_file_near_a_session_may_set_are_told(tmp_path: Path) -> None:
    """They end a run, with their own value; of the others none does."""
    told = section(CONFIGURATION, "What a nearby file may not set").strip().partition("\n\n")[0]
    refused: dict[str, Any] = {
        "keepBackup": False,
        "backupDir": "elsewhere",
        "commitOriginals": True,
        "logFile": "log.jsonl",
        "beforeCommand": "true",
        "afterCommand": "true",
        "summarizer": {"command": "true"},
    }
    assert quoted(told) == refused.keys() == {name for name, key in KEYS.items() if key.only_user}
    place = Place(tmp_path)
    for key, value in (*refused.items(), ("protectTokens", 5)):
        (place.work / "compression.json").write_text(json.dumps({"session": {key: value}}))
        done = place.run("sessioncompress compress --dry-run session.jsonl")
        assert done.returncode == (2 if key in refused else 0), done.stderr


def test_every_preset_is_there() -> None:
    """By name, with each value in which it differs from the default."""
    table = rows(section(CONFIGURATION, "Presets"))
    names = re.findall(r"`([\w-]+)`", table[""])
    assert names == list(PRESETS)
    default = flat(to_mapping(BALANCED))
    for number, preset in enumerate(PRESETS.values()):
        for key, value in flat(to_mapping(preset)).items():
            if value != default[key]:
                assert json.loads(table[f"`{key}`"].split("|")[number].strip(" `")) == value, key


def test_the_shipped_policy_is_the_defaults() -> None:
    """All keys, and no other value than the defaults."""
    shipped = json.loads((ROOT / "compression.json").read_bytes())
    assert shipped == {"session": to_mapping(BALANCED)}
    assert list(shipped["session"]) == list(KEYS)
    assert sessioncompress.policy_for(ROOT / "session.jsonl") == BALANCED


def test_the_example_of_a_policy_counts(tmp_path: Path) -> None:
    (example,) = blocks(page(CONFIGURATION), "json")
    (tmp_path / "compression.json").write_text(example)
    found = sessioncompress.policy_for(tmp_path / "session.jsonl")
    assert (found.turn_threshold_before_compress, found.prune.enabled) == (6, True)


# The library


def test_the_library_example_runs(tmp_path: Path) -> None:
    """As it stands there, in a folder with a session."""
    (found,) = blocks(page(LIBRARY), "python")
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
    text = page(LIBRARY)
    for name in sessioncompress.__all__:
        if name != "__version__":
            assert re.search(rf"\b{name}\b", text), name
    for each in sessioncompress.Policy.__struct_fields__:
        assert each in {key.field for key in KEYS.values()} or f"`{each}`" in text, each


def test_fields_of_results_are_those_of_json_in_snake_case() -> None:
    public = {name: getattr(sessioncompress, name) for name in sessioncompress.__all__ if name.endswith("Stats")}
    for name, record in {**public, "Share": Share, "ChangedLine": ChangedLine}.items():
        assert snake(dict.fromkeys(record.__struct_encode_fields__)) == set(record.__struct_fields__), name


def test_every_error_is_there_with_its_exit_code() -> None:
    told = {
        first.strip("`"): int(rest.split("|")[0])
        for first, rest in rows(section(LIBRARY, "Errors")).items()
        if "`" in first
    }
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    ours = [kind for kind in kinds if issubclass(kind, errors.SessionCompressError)]
    assert told == {kind.__name__: kind.exit_code for kind in ours}


def test_help_shows_the_functions_and_the_records() -> None:
    """Which are imported when they are first used."""
    shown = pydoc.plain(pydoc.render_doc(sessioncompress))
    for name in set(sessioncompress.__all__) - {"__version__"}:
        assert re.search(rf"^    (class )?{name}\b", shown, re.MULTILINE), name
    assert max(len(line) for line in shown.splitlines() if "compress_session(" in line) < 300


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("CI") != "true", reason="pip asks an index: done where CI is true")
def test_the_example_types_with_an_editable_install(tmp_path: Path) -> None:
    """As in an engineer's environment: with mypy --strict, which reads paths of packages, and no finders."""
    copy = tmp_path / "copy"
    for name in ("sessioncompress", "docs/man"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE", "pyproject.toml", "setup.py"):
        shutil.copyfile(ROOT / name, copy / name)
    (tmp_path / "example.py").write_text(blocks(page(LIBRARY), "python")[0], encoding="utf-8")
    python = tmp_path / "venv/bin/python"
    commands: tuple[list[str | Path], ...] = (
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"],
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "-e", copy],
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "example.py"],
    )
    for command in commands:
        own = {**os.environ, "PYTHONPATH": "", "MYPYPATH": ""}
        done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
