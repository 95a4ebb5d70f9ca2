"""The commands as users and scripts meet them: output, JSON, exit codes, errors, and what lies on disk afterwards."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from xxhash import xxh3_64_hexdigest

from sessioncompress.cli.main import main
from sessioncompress.core import VERSION
from sessioncompress.core.model import Kind
from sessioncompress.core.text import kb
from sessioncompress.errors import Damaged, FileFailed, NotASession
from sessioncompress.formats.table import AGENTS
from sessioncompress.operations import compress as compress_module
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import FOLDER, journals_in, store_in
from tests.support.runs import HOMES, blocks_of, but_undo, fixture, snapshot, split, survey_of, turn, write
from tests.support.session import PiSession
from tests.support.texts import ONE, OTHER

FILE_FIELDS = {
    *("path", "format", "status", "reason", "run", "originalSize", "compressedSize", "storeSize", "originalsSize"),
    *("storeAdded", "ratio", "compressedShare", "toolCallsCompressed", "toolResultsCompressed", "toolResultsCleared"),
    *("thinkingBlocksRemoved", "imagesReplaced", "mirrorsReplaced", "redundanciesEliminated", "tokensBefore"),
    *("tokensAfter", "tokensUncached", "tokensRecorded", "removableBytes", "removedBytes", "protectedBytes", "lines"),
    *(
        "linesChanged",
        "linesNotUnderstood",
        "imitatedMarkers",
        "blobsOutOfReach",
        "blobsInCommits",
        "markersWithoutJournal",
    ),
}
TOTAL_FIELDS = FILE_FIELDS - {"path", "format", "status", "reason", "run", "tokensRecorded"}
SIZES = r"[\d,]+ KB"
PARTS = r"\((\d+ % smaller|not smaller); .*; store " + SIZES + r"\)"
TOKENS = r"tokens [\d,]+ -> [\d,]+ \(estimated(; [\d,]+ recorded before)?\)"
HOSTILE = b"a\x1b[31m\x07 \xe2\x80\xae\xc2\x9b\xff.jsonl"
"""A name with an escape sequence, a bell, a right-to-left override, a C1 control and a byte that is no UTF-8."""
INTERRUPTED_QUESTION = """
import os, signal, click.termui
from sessioncompress.__main__ import run
click.termui.visible_prompt_func = lambda prompt: os.kill(os.getpid(), signal.SIGINT)
run()
"""
RAW = (b"\x1b", b"\x07", b"\xe2\x80\xae", b"\xc2\x9b", b"\xff")

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with a home that is empty too."""
    home = tmp_path / "home"
    folder = tmp_path / "work"
    for each in (home, folder):
        each.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(home))
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def session(here: Path) -> Path:
    return put(here / "session.jsonl")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compress such a session once; return its folder."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        assert run("compress", put(folder / "session.jsonl")).exit_code == 0
    return folder


@pytest.fixture
def compressed(made: Path, here: Path) -> Path:
    shutil.copytree(made, here, dirs_exist_ok=True)
    return here / "session.jsonl"


def put(path: Path, name: str = "pi-anthropic.jsonl") -> Path:
    path.write_bytes(fixture(name))
    return path


def run(*arguments: str | Path, answer: str | None = None) -> Result:
    """Run a command in this process; what it raises beyond an exit is an error of ours."""
    result = CliRunner().invoke(main, [str(each) for each in arguments], input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def spawn(*arguments: str | bytes, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "sessioncompress", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, stdin=subprocess.DEVNULL)


def document(*arguments: str | Path) -> Any:
    """Return the JSON document that a command prints; it prints nothing else on stdout."""
    result = run(*arguments, "--json")
    return json.loads(result.stdout)


def one(*arguments: str | Path) -> Any:
    files = document(*arguments)["files"]
    assert len(files) == 1
    return files[0]


def references(path: Path, kind: Kind = Kind.RESULT) -> list[str]:
    return [block.ref for _, block in blocks_of(journals.load(store_in(path).journal)) if block.kind is kind]


# Help


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return sorted((name, command) for name, command in found.items() if command)


@pytest.mark.parametrize(("name", "command"), [("", main), *commands()], ids=["", *(name for name, _ in commands())])
def test_every_command_explains_itself(name: str, command: click.Command) -> None:
    """Each has a text, an example, and all options with a text, in 80 columns."""
    named = [name] if name else []
    shown = run(*named, "--help")
    assert shown.exit_code == 0
    assert f"Example: sessioncompress {name or 'sessions'}" in shown.stdout
    assert "\\" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    # Lines are broken inside names of options too.
    everything = "".join(shown.stdout.split())
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert option.hidden or option.opts[0] in shown.stdout
            assert option.hidden or "".join(option.help.split()) in everything
    assert run(*named, "-h").stdout == shown.stdout


def test_the_group_names_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """And cuts no description, where a terminal has 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("--help").stdout.partition("\nCommands:")[2]
    for name, _ in commands():
        assert f"\n  {name} " in shown
    assert "..." not in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("comprss", ". Did you mean compress?"),
        ("hooks", ". Did you mean hook?"),
        ("undo", ". Did you mean restore --last?"),
        ("quay", "."),
        ("overview", "."),
    ],
)
def test_a_command_that_is_misspelled(name: str, said: str) -> None:
    """The error has the name that was meant, if one is near."""
    result = run(name)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: No such command '{name}'{said}\n")


@pytest.mark.parametrize(("typed", "meant"), [("--al", "--all"), ("--older", "--older-than")])
def test_an_option_that_was_not_typed_to_its_end(typed: str, meant: str) -> None:
    """It is meant before others that look alike."""
    said = run("compress", typed).stderr.splitlines()[-1]
    assert meant in said
    assert not any(other in said for other in ("--log", "--rule", "--color", "--jobs"))


def test_what_an_option_takes_is_said_in_words() -> None:
    assert "'x' is not a valid whole number." in run("compress", "--keep-turns", "x").stderr
    assert "'x' is not a valid number." in run("compress", "--idle-seconds", "x").stderr
    assert "Name an agent: claude-code, codex, gemini, opencode, pi" in run("hook", "install").stderr


@pytest.mark.parametrize("name", ["omp", "Oh My Pi", "openclaw"])
def test_an_agent_without_a_hook(name: str) -> None:
    """It is known, and that it has none is said."""
    result = run("hook", "install", name)
    assert result.exit_code == 2
    agent = "openclaw" if name == "openclaw" else "oh-my-pi"
    said = f"there is no hook for {agent}, only for claude-code, codex, gemini, opencode, pi, qwen. Nothing was done."
    assert said in " ".join(result.stderr.split())


def test_as_a_module(here: Path) -> None:
    """`python -m sessioncompress` is the command."""
    done = spawn("--version", cwd=here)
    assert (done.returncode, done.stdout.decode()) == (0, f"sessioncompress, version {VERSION}\n")


# compress: lines


def test_the_line_of_a_file(session: Path) -> None:
    """One line: sizes, by how much, counts, the store, and tokens as estimates."""
    result = run("compress", "session.jsonl")
    assert result.exit_code == 0
    assert but_undo(result.stderr) == ""
    assert re.fullmatch(rf"session\.jsonl: {SIZES} -> {SIZES} {PARTS}; {TOKENS}\n", result.stdout)
    assert session.stat().st_size < len(fixture("pi-anthropic.jsonl"))


def test_the_total_of_a_later_run_is_compared_with_the_total_before(session: Path) -> None:
    """What earlier runs left beside the session counts before and after."""
    run("compress", "--preset", "high-quality", "session.jsonl")
    before = lying(session.parent)
    last = run("compress", "--preset", "low-cost", "--force", ".").stdout
    found = re.search(rf"with the stores: ({SIZES}) -> ({SIZES}), (\d+) % smaller", last)
    assert found, last
    after = lying(session.parent)
    sizes = [f"{round(size / 1024):,} KB" for size in (before, after)]
    assert found.groups() == (*sizes, str(100 * (before - after) // before))


def lying(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_figures_are_those_of_the_disk(session: Path) -> None:
    before = session.stat().st_size
    stats = one("compress", session)
    folder = store_in(session).folder
    lying = sum(path.stat().st_size for path in folder.iterdir() if path.name != ".gitignore")
    assert stats["originalSize"] == before
    assert stats["compressedSize"] == session.stat().st_size
    assert stats["storeSize"] == lying
    assert session.stat().st_size + lying < before


def test_a_second_run_writes_nothing(compressed: Path) -> None:
    """It says so, and contents, inodes and times are as they were."""
    before = snapshot(compressed)
    result = run("compress", "--min-size", "0", "session.jsonl")
    assert result.exit_code == 0
    assert result.stdout.startswith("session.jsonl: unchanged: nothing more worth removing")
    assert "total" not in result.stdout
    assert snapshot(compressed) == before


def test_a_small_session_is_skipped(session: Path) -> None:
    """The line says its size and the threshold."""
    before = snapshot(session)
    result = run("compress", "--min-size", "400", "session.jsonl")
    assert result.exit_code == 0
    assert result.stdout.startswith("session.jsonl: skipped: 338 KB, under the threshold of 400 KB\n")
    assert snapshot(session) == before


def test_what_would_not_pay_says_how_much_and_what_would_help(here: Path) -> None:
    """The reason names the key, and what the recent context holds."""
    put(here / "session.jsonl", "pi-gemini.jsonl")
    reason = one("compress", "session.jsonl")["reason"]
    recent = r"\d+ KB protected, mostly the newest 20,000 tokens of tool I/O in the last 4 turns"
    assert re.search(rf"it would save only [\d.]+ KB, less than minSavedKB 16; {recent}", reason)
    hint = re.search(r"; (--protect-tokens 8000) \(protectTokens\) keeps less$", reason)
    assert hint
    less = one("compress", *hint[1].split(), "session.jsonl")
    assert less["protectedBytes"] < one("compress", "--dry-run", "session.jsonl")["protectedBytes"]


def test_no_hint_where_fewer_tokens_would_keep_as_much(here: Path) -> None:
    """The newest step is larger than any number of tokens."""
    made = PiSession().opening()
    made.user("go")
    made.step("bash", {"command": "make"}, "a line of output\n" * 40_000)
    made.write(here / "session.jsonl")
    reason = one("compress", "session.jsonl")["reason"]
    assert "protected, mostly the newest 20,000 tokens" in reason
    assert "keeps less" not in reason


def test_a_dry_run_says_what_the_run_does(session: Path) -> None:
    """All figures are those of the run that follows; nothing is written."""
    before = snapshot(session)
    said = run("compress", "--dry-run", "session.jsonl").stdout
    assert re.search(rf"session\.jsonl: {SIZES} would become {SIZES} {PARTS}", said)
    would = one("compress", "--dry-run", session)
    assert snapshot(session) == before
    assert [each.name for each in session.parent.iterdir()] == ["session.jsonl"]
    done = one("compress", session)
    assert (would.pop("status"), done.pop("status")) == ("would-compress", "compressed")
    assert would.pop("run") < done.pop("run")
    would["storeSize"], backup = done["storeSize"], would["storeSize"]
    assert abs(backup - done["storeSize"]) < 100
    assert would == done


def test_check(session: Path) -> None:
    """1 while something would change, 0 once it has; neither writes."""
    before = snapshot(session)
    assert run("compress", "--check", session).exit_code == 1
    assert snapshot(session) == before
    assert run("compress", session).exit_code == 0
    assert run("compress", "--check", session).exit_code == 0
    assert run("compress", "--check", "--min-size", "0", session).exit_code == 0


# compress: JSON


def test_the_json_document(session: Path) -> None:
    put(session.with_name("small.jsonl"), "bom.jsonl")
    session.with_name("none.jsonl").write_bytes(b"x" * 200_000)
    result = run("compress", "session.jsonl", "small.jsonl", "none.jsonl", "--json")
    assert result.exit_code == 4
    done = json.loads(result.stdout)
    assert set(done) == {"schema", "dryRun", "files", "totals"}
    assert done["schema"] == "sessioncompress.compress/1"
    assert [set(each) for each in done["files"]] == [FILE_FIELDS] * 3
    assert [each["status"] for each in done["files"]] == ["compressed", "skipped", "refused"]
    assert [each["path"] for each in done["files"]] == ["session.jsonl", "small.jsonl", "none.jsonl"]
    assert [each["format"] for each in done["files"]] == ["pi", "", ""]
    assert set(done["totals"]) == TOTAL_FIELDS
    for field in TOTAL_FIELDS - {"ratio", "compressedShare"}:
        assert done["totals"][field] == sum(each[field] for each in done["files"]), field
    assert "refused: " in result.stderr


def test_the_ratios_of_the_json_document(session: Path) -> None:
    """Each is the share that a run saves, of a file and of all, and 0 where it saves nothing."""
    done = document("compress", session, put(session.with_name("other.jsonl"), "omp.jsonl"))
    for each in (*done["files"], done["totals"]):
        assert each["compressedShare"] == pytest.approx(each["compressedSize"] / each["originalSize"], abs=0.0001)
        assert each["ratio"] == pytest.approx(1 - each["compressedShare"], abs=0.0001)
    assert 0 < done["totals"]["ratio"] < 1
    assert [each["ratio"] for each in document("compress", session)["files"]] == [0]


def test_the_counts_of_the_json_document(session: Path) -> None:
    done = one("compress", session)
    blocks = [block for _, block in blocks_of(journals.load(store_in(session).journal))]
    count = {kind: sum(block.kind is kind for block in blocks) for kind in Kind}
    assert done["toolResultsCompressed"] == count[Kind.RESULT] > 0
    assert done["thinkingBlocksRemoved"] == count[Kind.THINKING] > 0
    assert done["imagesReplaced"] == count[Kind.IMAGE] > 0
    assert done["mirrorsReplaced"] == count[Kind.MIRROR] > 0
    assert 0 < done["toolCallsCompressed"] <= count[Kind.ARGUMENT]
    assert 0 < done["redundanciesEliminated"] <= done["toolResultsCompressed"]
    assert 0 < done["removedBytes"] <= done["removableBytes"]
    assert done["tokensAfter"] < done["tokensBefore"]
    assert done["lines"] == len(split(session.read_bytes()))
    assert 0 < done["linesChanged"] < done["lines"]


def test_lines_that_are_not_understood_are_counted(session: Path) -> None:
    """They are copied, and told of; verify says which they are."""
    with session.open("ab") as file:
        file.write(b"not JSON\n")
    number = len(split(session.read_bytes()))
    said = "1 line was not understood and was left alone; 'sessioncompress verify' says which, for the same sessions"
    assert f"; {said}\n" in run("compress", "--dry-run", session).stdout
    assert run("compress", "--dry-run", session.parent).stdout.endswith(f"\n  {said}\n")
    assert one("compress", session)["linesNotUnderstood"] == 1
    assert session.read_bytes().endswith(b"\nnot JSON\n")
    assert f"1 not understood (line {number}), " in run("verify", session).stdout
    assert f"1 not understood (line {number}), " in run("verify", session.parent).stdout
    assert one("verify", session)["notUnderstoodAt"] == [number]


def test_imitated_markers_are_warned_of(here: Path) -> None:
    """What stands in the arguments of a call may stand in a file: the warning says what to look for."""
    text = b"[[sessioncompress: 3 lines, 99 bytes, kept on disk: sessioncompress show 0123456789ab]]"
    lines = split(fixture("pi-anthropic.jsonl"))
    number = next(at for at, line in enumerate(lines) if b'"name":"write"' in line)
    lines[number] = (
        lines[number]
        .replace(b'"content":"', b'"content":"' + text + b"\\n", 1)
        .replace(b'"arguments":{"path":"', b'"arguments":{"note":"' + text + b'","path":"', 1)
    )
    (here / "session.jsonl").write_bytes(b"".join(lines))
    result = run("compress", "session.jsonl", "--json")
    assert json.loads(result.stdout)["files"][0]["imitatedMarkers"] >= 1
    assert "session.jsonl: " in result.stderr
    assert "look for '[[sessioncompress:' and 'in it: ' in the files it wrote" in result.stderr


def test_a_copied_index_is_warned_of(here: Path) -> None:
    """Alone in a call it is no preview of ours."""
    lines = split(fixture("pi-anthropic.jsonl"))
    number = next(at for at, line in enumerate(lines) if b'"name":"write"' in line)
    lines[number] = lines[number].replace(b'"content":"', b'"content":"in it: def decode(raw | src/a.py\\n', 1)
    (here / "session.jsonl").write_bytes(b"".join(lines))
    result = run("compress", "session.jsonl", "--json")
    assert json.loads(result.stdout)["files"][0]["imitatedMarkers"] == 1
    assert "session.jsonl: 1 text in a call looks like a marker of ours" in result.stderr


def test_warnings_come_after_the_rows(compressed: Path) -> None:
    put(compressed.with_name("zebra.jsonl"))
    shutil.rmtree(store_in(compressed).folder)
    lines = run("compress", "--force", ".").output.splitlines()
    (row,) = (at for at, line in enumerate(lines) if line.startswith("zebra.jsonl: "))
    (warning,) = (at for at, line in enumerate(lines) if "but its store is missing" in line)
    assert row < warning


def test_markers_without_a_journal_are_told(compressed: Path) -> None:
    """What they stand for is not here; no model is accused of having written them."""
    shutil.rmtree(store_in(compressed).folder)
    result = run("compress", "--force", "session.jsonl")
    assert re.fullmatch(
        r"session\.jsonl: \d+ markers, but its store is missing; 'sessioncompress verify' says whether their originals can be found\n",
        result.stderr,
    )


# compress: options


def test_keep_turns(session: Path) -> None:
    none = one("compress", "--dry-run", "--keep-turns", "0", session)
    two = one("compress", "--dry-run", "--keep-turns", "2", session)
    four = one("compress", "--dry-run", session)
    assert none["compressedSize"] < two["compressedSize"] < four["compressedSize"]
    assert none["protectedBytes"] < two["protectedBytes"] < four["protectedBytes"]


@pytest.mark.parametrize("turns", ["9", "20"])
def test_more_turns_than_tokens_let_stay(session: Path, turns: str) -> None:
    """Who asks for more turns than usual reads what they are measured by; more tokens keep the turns whole."""
    eight = one("compress", "--dry-run", "--keep-turns", "8", session)
    some = one("compress", "--dry-run", "--keep-turns", turns, session)
    assert some["compressedSize"] >= eight["compressedSize"]
    context = f"the newest 20,000 tokens of tool I/O in the last {turns} turns"
    assert some["reason"].startswith(f"{kb(some['protectedBytes'])} protected, mostly {context}")
    whole = one("compress", "--dry-run", "--keep-turns", turns, "--protect-tokens", "1000000", session)
    assert whole["status"] == "unchanged"


def test_the_default_of_four_turns_is_no_surprise(here: Path) -> None:
    """It is measured in tokens, without a word where much is gained."""
    (here / "session.jsonl").write_bytes(long_session(4))
    for arguments in ((), ("--keep-turns", "4")):
        assert one("compress", "--dry-run", *arguments, "session.jsonl")["reason"] == ""
    assert " in the last 5 turns" in one("compress", "--dry-run", "--keep-turns", "5", "session.jsonl")["reason"]


def test_presets(session: Path) -> None:
    """The cheaper one takes more; the one for quality leaves thinking."""
    low, balanced, high = (
        one("compress", "--dry-run", "--preset", name, session) for name in ("low-cost", "balanced", "high-quality")
    )
    assert low["compressedSize"] < balanced["compressedSize"] < high["compressedSize"]
    assert balanced == one("compress", "--dry-run", session)
    assert high["thinkingBlocksRemoved"] == 0


def test_a_policy_file(session: Path) -> None:
    """The nearest one counts, --config names another, and an option wins over both."""
    policy(session.parent / "compression.json", stripThinking=False)
    other = policy(session.parent / "other.json", sizeThresholdKB=1000)
    assert one("compress", "--dry-run", session)["thinkingBlocksRemoved"] == 0
    assert one("compress", "--dry-run", "--config", other, session)["status"] == "skipped"
    assert one("compress", "--dry-run", "--config", other, "--min-size", "9", session)["thinkingBlocksRemoved"] > 0


def test_switched_off(session: Path) -> None:
    """`enabled: false` leaves a session alone, also with --force."""
    policy(session.parent / "compression.json", enabled=False)
    before = snapshot(session)
    result = run("compress", "--force", "session.jsonl")
    assert result.exit_code == 0
    assert "session.jsonl: skipped: switched off by the policy (enabled: false)" in result.stdout
    assert snapshot(session) == before


def test_force(here: Path) -> None:
    path = put(here / "session.jsonl", "pi-v1.jsonl")
    assert one("compress", path)["status"] == "skipped"
    assert one("compress", "--min-size", "0", path)["status"] == "unchanged"
    assert one("compress", "--force", path)["status"] == "compressed"


def test_no_backup(session: Path) -> None:
    """No original lies beside it, no marker names a way back, and restore says so."""
    assert one("compress", "--no-backup", session)["status"] == "compressed"
    assert not store_in(session).originals.exists()
    assert b"[[sessioncompress: " in session.read_bytes()
    assert b"sessioncompress show" not in session.read_bytes()
    result = run("restore", session)
    assert result.exit_code == 5
    assert "keepBackup: false" in result.stdout


def test_without_a_backup_a_journal_is_all_that_lies_there(session: Path) -> None:
    """It is the store then: in the line of the file and of all, before and after."""
    for options in (("--dry-run",), ()):
        out = run("compress", *options, "--no-backup", session).stdout
        assert len(re.findall(r"; store \d+ KB\)", out)) == 1
        assert "originals" not in out
    assert one("stats", session)["storeSize"] == store_in(session).journal.stat().st_size
    put(session.parent / "third.jsonl")
    out = run("compress", "--force", "--no-backup", ".").stdout
    assert re.search(rf"  sessions: .*; stores {SIZES}\n", out)


def test_backup_dir(session: Path) -> None:
    """Originals and journal lie there, from the working folder, and each command finds them with the same option."""
    before = session.read_bytes()
    elsewhere = session.parent / "kept"
    assert run("compress", "--backup-dir", "kept", "session.jsonl").exit_code == 0
    names = sorted(path.name for path in elsewhere.glob("local-*/[!.]*"))
    assert [re.sub(r"^[0-9a-f]{12}-", "", name) for name in names] == [
        "session.jsonl.history",
        "session.jsonl.originals.zst",
    ]
    assert not (session.parent / ".sessioncompress").exists()
    ref = next(ref for ref in re.findall(rb"sessioncompress show ([0-9a-f]+)", session.read_bytes())).decode()
    assert one("stats", "--backup-dir", "kept", session)["storeSize"] > 0
    assert "0 rewritten" not in run("verify", "--backup-dir", "kept", session).stdout
    assert run("show", ref, session, "--backup-dir", "kept").exit_code == 0
    assert run("show", ref, "--backup-dir", "kept").exit_code == 0
    assert run("restore", "--backup-dir", "kept", session).exit_code == 0
    assert session.read_bytes() == before
    assert run("forget", "--yes", "--backup-dir", "kept", session).exit_code == 0
    assert list(elsewhere.iterdir()) == []


def test_a_backup_dir_in_the_folder_that_is_walked(session: Path) -> None:
    """A journal in it ends like a session, and is none; a session of such a name is one."""
    run("compress", "--backup-dir", "kept", "session.jsonl")
    put(session.parent / "my.refs.jsonl")
    for command in ("compress", "stats", "restore", "verify", "forget"):
        yes = ["--yes"] if command == "forget" else []
        more = yes if command == "forget" else ["-v"]
        said = run(command, *more, "--backup-dir", "kept", ".").stdout
        assert "my.refs.jsonl" in said, command
        assert "session.refs.jsonl" not in said, command


def test_a_backup_dir_that_is_no_text(session: Path) -> None:
    """The bytes of its name are its name; the journal tells them escaped."""
    folder = os.fsdecode(os.fsencode(session.parent) + b"/\xff")
    assert run("compress", "--backup-dir", folder, session).exit_code == 0
    (journal,) = journals_in(Path(folder))
    assert journals.load(journal).runs[0].policy["backupDir"].endswith("\\udcff")
    assert run("restore", "--backup-dir", folder, session).exit_code == 0


def test_a_backup_dir_in_nobodys_home(session: Path) -> None:
    """Exit code 2: it is the policy that is wrong."""
    chosen = policy(session.parent / "p.json", backupDir="~nobody-of-this-name/x")
    for command in ("compress", "restore", "verify"):
        result = run(command, "--config", chosen, session)
        assert result.exit_code == 2
        assert "the policy's backupDir is '~nobody-of-this-name/x', but there is no such home folder." in result.stderr


def test_quiet_seconds(session: Path) -> None:
    """A session that has just changed is refused, an older one is not."""
    Path("own.json").write_text('{"session": {"quietSeconds": 3600}}')
    before = snapshot(session)
    result = run("compress", "--config", "own.json", "session.jsonl")
    assert result.exit_code == 4
    assert re.search(r"it changed \d+ seconds ago\. The session was not changed\. ", result.stderr)
    assert snapshot(session) == before
    old = session.stat().st_mtime - 7200
    os.utime(session, (old, old))
    assert run("compress", "--config", "own.json", "session.jsonl").exit_code == 0


def test_idle_seconds(session: Path) -> None:
    """While its provider may still have it cached a session is skipped, not refused; then it is compressed."""
    before = snapshot(session)
    result = run("compress", "--idle-seconds", "3600", "--force", "session.jsonl")
    assert result.exit_code == 0
    said = r"skipped: it changed \d+ seconds? ago, idleSeconds 3600: its provider may still have it cached"
    assert re.search(said, result.stdout)
    assert snapshot(session) == before
    for years in (-1, 9):
        then = session.stat().st_mtime + years * 366 * 24 * 3600
        os.utime(session, (then, then))
        assert "would become" in run("compress", "--dry-run", "--idle-seconds", "3600", "session.jsonl").stdout


def test_a_dry_run_and_stats_say_what_the_cache_would_lose(session: Path) -> None:
    """Once, with the next request; a run that was made need not say it any more."""
    said = r"the next request would send [1-9][\d,]* of them uncached"
    assert re.search(said, run("compress", "--dry-run", "session.jsonl").stdout)
    assert re.search(said, run("stats", "session.jsonl").stdout)
    assert "uncached" not in run("compress", "session.jsonl").stdout
    assert "uncached" not in run("compress", "--dry-run", "session.jsonl").stdout


def policy(path: Path, **keys: Any) -> Path:
    path.write_text(json.dumps({"session": keys}))
    return path


# Folders and several files


def test_a_folder_is_walked(here: Path) -> None:
    """Sessions in all folders below are taken; our own files and those that are none are passed over."""
    below = here / "a" / "b"
    below.mkdir(parents=True)
    put(here / "session.jsonl")
    put(below / "other.jsonl", "omp.jsonl")
    put(below / "no-session.txt")
    (below / "garbage.jsonl").write_bytes(b'{"x": 1}\n' * 20_000)
    result = run("compress", ".")
    assert result.exit_code == 0
    assert but_undo(result.stderr) == ""
    named = [line.partition(": ")[0] for line in result.stdout.splitlines()]
    assert named[:3] == ["session.jsonl", str(Path("a", "b", "other.jsonl")), "total"]
    assert "total: 2 files (2 compressed, 1 passed over (not sessions, or links))" in result.stdout
    again = run("compress", "--min-size", "0", ".")
    assert "total: 2 files (2 unchanged, 1 passed over (not sessions, or links))" in again.stdout


TOTALS = {
    "stats": rf"total: 2 sessions, {SIZES}, stores 0 KB; 1 refused; 1 passed over \(not sessions, or links\)",
    "compress": r"total: 3 files \(2 compressed, 1 refused, 1 passed over \(not sessions, or links\)\)",
    "verify": r"total: 2 sessions: 194 lines, (\d+) rewritten, \1 originals checked, all good; 1 refused; "
    r"1 passed over \(not sessions, or links\)",
    "restore": rf"total: 2 sessions restored: {SIZES} -> 502 KB, \d+ lines; 1 refused; "
    r"1 passed over \(not sessions, or links\)",
    "forget": rf"total: 2 sessions: deleted {SIZES}, and their runs from the history; 1 refused; 1 passed over \(not sessions, or links\)",
}


def test_every_command_ends_with_a_total(here: Path) -> None:
    """Over a folder, and over several paths; what was refused or passed over is counted."""
    put(here / "a.jsonl")
    put(here / "b.jsonl", "omp.jsonl")
    (here / "none.jsonl").write_bytes(b'{"x": 1}\n' * 20_000)
    (here.parent / "link.jsonl").symlink_to(here / "a.jsonl")
    for command, said in TOTALS.items():
        yes = ["--yes"] if command == "forget" else []
        result = run(command, *yes, ".", here.parent / "link.jsonl")
        assert result.exit_code == 4, command
        (total,) = (line for line in result.stdout.splitlines() if line.startswith("total: "))
        assert re.fullmatch(said, total), result.stdout
    assert "total: 2 sessions, 502 KB, stores 0 KB\n" in run("stats", "a.jsonl", "b.jsonl").stdout
    for command in ("stats", "verify", "restore", "forget"):
        assert "total: " not in run(command, "a.jsonl").stdout


def test_a_folder_without_sessions(here: Path) -> None:
    """It says so: nothing at all would look like success."""
    (here / "empty").mkdir()
    (here / "foreign").mkdir()
    (here / "foreign" / "x.jsonl").write_bytes(b'{"x": 1}\n')
    for command in ("stats", "verify", "restore", "forget"):
        said = run(command, "empty").stdout
        assert said == "total: 0 sessions\n", command
    for command in ("stats", "verify", "restore", "forget"):
        assert run(command, "foreign").stdout == "total: 0 sessions; 1 passed over (not sessions, or links)\n", command


def test_the_totals_of_stats_as_json(here: Path) -> None:
    """They are the sums, and those of what a run would do are those of compress."""
    put(here / "a.jsonl")
    put(here / "b.jsonl", "omp.jsonl")
    done = document("stats", ".")
    for name in ("size", "storeSize", "lines", "turns"):
        assert done["totals"][name] == sum(each[name] for each in done["files"])
    assert done["totals"]["would"] == document("compress", "--dry-run", ".")["totals"]


def test_links_in_a_folder_are_passed_over(session: Path) -> None:
    """They are counted, and neither they nor what they lead to is touched through them."""
    folder = session.parent / "links"
    folder.mkdir()
    (folder / "link.jsonl").symlink_to(session)
    before = snapshot(session)
    result = run("compress", "links")
    assert result.exit_code == 0
    assert result.stdout == "total: 0 files (1 passed over (not sessions, or links))\n"
    assert snapshot(session) == before
    (session.parent / FOLDER).symlink_to(folder)
    told = run("compress", "--force", ".")
    assert (told.exit_code, f"{FOLDER}: this must be a folder of its own" in told.stderr) == (4, True)


def test_a_folder_that_is_named_by_a_link_is_walked(session: Path) -> None:
    """Its files are no links; named both ways, each is taken once."""
    linked = session.parent.parent / "linked"
    linked.symlink_to(session.parent)
    assert [each["status"] for each in document("compress", linked, session)["files"]] == ["compressed"]
    assert run("restore", linked).exit_code == 0
    assert session.read_bytes() == fixture("pi-anthropic.jsonl")


def test_a_folder_that_cannot_be_read_is_3(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (here / name).mkdir()
        put(here / name / "session.jsonl")
    real = os.scandir

    def denied(path: Any = ".") -> Any:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    for arguments in (("compress", "--check"), ("verify",), ("compress", "--json")):
        result = run(*arguments, ".")
        assert result.exit_code == 3
        assert "b: this folder cannot be read: permission denied. No session in it was changed." in result.stderr
    found = document("compress", "--min-size", "0", ".")["files"]
    assert [each["status"] for each in found] == ["unchanged", "failed", "unchanged"]


def test_a_named_link_is_refused(session: Path) -> None:
    link = session.parent / "link.jsonl"
    link.symlink_to(session)
    result = run("compress", "link.jsonl")
    assert result.exit_code == 4
    assert "link.jsonl: it is a symbolic link. The session was not changed. Name its target." in result.stderr


def test_a_file_named_twice_is_taken_once(session: Path) -> None:
    assert [each["status"] for each in document("compress", session, ".", session)["files"]] == ["compressed"]


def test_one_bad_file_stops_no_other(here: Path) -> None:
    """The session with the damaged journal fails its check, the others are done, and the code says the worst."""
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        put(here / name)
    assert run("compress", "b.jsonl").exit_code == 0
    store_in(here / "b.jsonl").originals.unlink()
    result = run("compress", "--min-size", "0", ".")
    assert result.exit_code == 5
    assert re.search(r"^a\.jsonl: .* \(-\d+ %\)$", result.stdout, re.MULTILINE)
    assert re.search(r"^c\.jsonl: .* \(-\d+ %\)$", result.stdout, re.MULTILINE)
    assert result.stderr.startswith("failed: ")
    assert "b.jsonl" in result.stderr
    assert "(2 compressed, 1 failed)" in result.stdout


def test_a_file_under_the_threshold_that_was_only_met_is_not_opened(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So what it holds is not known: it is skipped, and counts as a file, not as a session."""
    (here / "small.jsonl").write_bytes(b"no session\n")
    monkeypatch.setattr(os, "open", lambda *arguments, **options: pytest.fail("it is opened"))
    result = run("compress", ".")
    assert result.exit_code == 0
    said = "1 skipped: 0 KB, under the threshold of 100 KB\ntotal: 1 file (1 skipped)\n"
    assert (result.stdout, but_undo(result.stderr)) == (said, "")


def test_a_backup_dir_is_created_with_all_above_it(session: Path) -> None:
    """So that a cached folder need not be there for the first run."""
    assert run("compress", "--backup-dir", "not/there/yet", session).exit_code == 0
    assert len(list((session.parent / "not" / "there" / "yet").glob("local-*/[!.]*"))) == 2


# Exit codes


def test_a_file_that_fails_is_3(session: Path) -> None:
    """The error says what the system said, where, and that the session is as it was."""
    before = snapshot(session)
    (session.parent / "file").write_bytes(b"")
    result = run("compress", "--backup-dir", "file/below", "session.jsonl")
    assert result.exit_code == 3
    assert re.search(r"failed: .*not a directory\. The session was not changed\.", result.stderr)
    assert {**snapshot(session), "file": ()} == {**before, "file": ()}


def test_a_path_that_is_not_there_is_2(here: Path) -> None:
    for name in [
        name for name, command in commands() if any((each.name or "").startswith("path") for each in command.params)
    ]:
        first = {"show": ["0123456789ab"], "config": ["show"], "search": ["text"]}.get(name, [])
        arguments = (*first, "none.jsonl")
        result = run(name, *arguments)
        assert result.exit_code == 2, name
        assert "none.jsonl" in result.stderr
        assert "does not exist" in result.stderr


def test_every_command_refuses_alike(session: Path) -> None:
    """The same line: how it ended, the path as it was typed, what is wrong, the state, and what to do."""
    (session.parent / "below").mkdir()
    none = session.parent / "below" / "none.jsonl"
    none.write_bytes(b'{"kind":"log"}\n' * 9000)
    seen = "its first object has the keys kind"
    said = (
        f"refused: below/none.jsonl: this is not a session of any agent we know ({seen}). The file was not changed. "
        f"Name a session of {AGENTS}.\n"
    )
    for command in ("compress", "stats", "verify"):
        result = run(command, "below/none.jsonl")
        assert (result.exit_code, result.stderr) == (4, said), command
    os.link(session, "other")
    os.mkfifo("pipe")
    linked = (
        "session.jsonl: it has other hard links, which would keep the old text. The session was not changed. Remove"
    )
    for command in ("compress", "restore"):
        result = run(command, "session.jsonl")
        assert (result.exit_code, result.stderr.startswith(f"refused: {linked}")) == (4, True), command
        said = (
            "refused: pipe: it is not a regular file. It was not changed. Name a session, or a folder with sessions.\n"
        )
        assert run(command, "pipe").stderr == said, command


def test_show_where_the_originals_are_gone(compressed: Path) -> None:
    """Exit code 5, naming the file, and what to do."""
    store_in(compressed).originals.unlink()
    result = run("show", references(compressed)[0], "session.jsonl")
    assert result.exit_code == 5
    missing = f"{store_in(compressed).originals}: the originals that the journal lists are missing"
    assert f"{missing}. The session was not changed. Put a copy of it back" in result.stderr


def test_show_where_a_session_was_named(compressed: Path) -> None:
    """The error does not tell to name it."""
    result = run("show", "0123456789ab", "session.jsonl")
    assert result.exit_code == 2
    assert (
        "session.jsonl: no original with the reference 0123456789ab found. Name the session that holds the marker"
        in (result.stderr)
    )


def test_show_says_whose_originals_it_searched(compressed: Path) -> None:
    """Of a folder: a few names, and how many more there are."""
    said = run("show", "0123456789ab", compressed.parent).stderr
    assert "0123456789ab found. It has the stores of session.jsonl. Name the session that" in said
    for number in range(10):
        store_in(compressed).journal.with_name(f"a{number}.jsonl.history").touch()
    said = run("show", "0123456789ab", compressed.parent).stderr
    assert "It has the stores of a0.jsonl, a1.jsonl, " in said
    assert ", a9.jsonl and 1 more. Name the session that" in said
    (compressed.parent / "none").mkdir()
    assert "found. It has no session's store. Name" in run("show", "0123456789ab", compressed.parent / "none").stderr


def test_a_second_ago(session: Path) -> None:
    """It is one second, not seconds."""
    now = time.time()
    os.utime(session, (now - 1, now - 1))
    assert "it changed 1 second ago," in run("compress", "--idle-seconds", "60", session).stdout


def test_paths_are_looked_at_first(session: Path) -> None:
    """One that is not there stops all, and the error says so."""
    before = snapshot(session)
    for name in ("compress", "stats", "restore", "verify"):
        result = run(name, "session.jsonl", "none.jsonl")
        assert result.exit_code == 2, name
        assert result.stderr.endswith("'none.jsonl' does not exist. Nothing was done.\n"), name
        assert result.stdout == ""
    assert snapshot(session) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("compress",),
        ("none",),
        ("compress", "--none", "."),
        ("compress", "--preset", "best", "."),
        ("compress", "--keep-turns", "-1", "."),
        ("compress", "--min-size", "much", "."),
        ("compress", "--protect-tokens", "all", "."),
        ("restore", "--originals", "x.jsonl", "."),
        ("show",),
        ("show", "0123"),
        ("show", "not-a-reference"),
        ("show", "0123456789ab"),
        ("compress", "--config", "none", "."),
    ],
    ids=" ".join,
)
def test_what_does_not_exist_is_2(here: Path, arguments: Sequence[str]) -> None:
    """Commands, options, values and references."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr


EMPTY = (
    *(("compress", ""), ("restore", ""), ("verify", ""), ("stats", ""), ("budget", ""), ("show", "0123456789ab", "")),
    *(("forget", "--yes", ""), ("forget", "--yes", "--older-than", "0d", ""), ("pre-commit", "")),
    *(("compress", "session.jsonl", option, "") for option in ("--backup-dir", "--config", "--log")),
    *(("sessions", "--project", ""), ("restore", "--from-markers", "--originals", "", "session.jsonl")),
    *((name, "--backup-dir", "", "session.jsonl") for name in ("restore", "verify", "stats", "forget")),
)


@pytest.mark.parametrize("arguments", EMPTY, ids=" ".join)
def test_an_empty_path_is_2(compressed: Path, arguments: Sequence[str]) -> None:
    """So a shell gives a variable that is not set: it is not the working folder."""
    before = snapshot(compressed)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "the path is empty" in result.stderr
    assert "Nothing was done" in result.stderr
    assert snapshot(compressed) == before


@pytest.mark.parametrize(
    "arguments",
    [
        *((name, ".") for name in ("compress", "restore", "history", "pack", "stats", "verify", "forget", "diff")),
        *(
            ("search", "text", "."),
            ("show", "0123456789ab", "."),
            ("show", "0123456789ab"),
            ("sessions", "--project", "."),
            ("report", "."),
        ),
        *(("compact", "."), ("budget", "."), ("handoff", "."), ("config", "show"), ("pre-commit", "session.jsonl")),
    ],
    ids=" ".join,
)
def test_a_path_from_a_deleted_folder_is_2(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some commands ended with a traceback and 1, as if something would change, and others said there was nothing."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    said = " ".join(result.stderr.split())
    advice = r"no longer exists\. Change to another one, or name (an absolute path\. Nothing was done|the session: show .*)\."
    assert re.search(advice, said)


@linux
def test_a_session_in_use_is_4(session: Path) -> None:
    """The error names the program, here this one itself, and the session is not touched."""
    before = snapshot(session)
    with session.open("ab"):
        result = run("compress", "session.jsonl")
        assert result.exit_code == 4
        assert re.search(
            r"refused: .*session\.jsonl: it is in use, open for writing in this command itself \(process \d+\)\. "
            r"The session was not changed\. Run again when the agent is idle\.",
            result.stderr,
        )
        assert snapshot(session) == before
        assert run("restore", "session.jsonl").exit_code == 4
    assert run("compress", "session.jsonl").exit_code == 0


FAILURES: dict[str, tuple[Callable[[str], Exception], int]] = {
    "five": (lambda where: Damaged("it is damaged", where=where), 5),
    "three": (lambda where: FileFailed("it failed", where=where), 3),
    "four": (lambda where: NotASession("it is none", where=where), 4),
}


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("good",), 1),
        (("four", "good"), 4),
        (("three", "four", "good"), 3),
        (("good", "four", "three"), 3),
        (("three", "five", "four"), 5),
        (("good", "three"), 3),
        (("five",), 5),
    ],
)
def test_of_several_codes(here: Path, monkeypatch: pytest.MonkeyPatch, names: Sequence[str], code: int) -> None:
    """5, then 3, then 4, then 1; every file has its turn."""
    real = compress_module.compress_session

    def pretend(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.stem in FAILURES:
            raise FAILURES[path.stem][0](str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(compress_module, "compress_session", pretend)
    for name in names:
        put(here / f"{name}.jsonl")
    result = run("compress", "--check", *(f"{name}.jsonl" for name in names))
    assert result.exit_code == code
    assert (f"total: {len(names)} files" in result.stdout) == (len(names) > 1)
    assert but_undo(result.stderr).count("\n") == sum(name in FAILURES for name in names)


def test_interrupted_is_130(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says in which state everything is."""

    def interrupt(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(compress_module, "compress_session", interrupt)
    result = run("compress", session)
    assert result.exit_code == 130
    assert result.stderr == "Interrupted. Every session is either as before or completely rewritten.\n"


# Errors of the policy


def test_an_unknown_key(session: Path) -> None:
    """The error names the file, the key and the nearest one."""
    policy(session.parent / "compression.json", toolResultMaxByte=10)
    before = snapshot(session)
    result = run("compress", "session.jsonl")
    assert result.exit_code == 2
    file = session.parent / "compression.json"
    assert f'{file}: the policy has an unknown key "session.toolResultMaxByte"' in result.stderr
    assert (
        'did you mean "toolResultMaxBytes"? No session that it governs was changed. Correct the file.' in result.stderr
    )
    assert snapshot(session) == before


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"Session": {"minSavedKB": 0}}', '"Session" is'),
        ('{"SESSION": {}, "level": 9}', '"SESSION" is'),
        ('{"sizeThresholdKB": 5}', '"sizeThresholdKB" is'),
        ('{"enabled": false, "keepBackup": false, "level": 9}', '"enabled", "keepBackup" are'),
        ('{"session": {}, "sizeThresholdKB": 1000}', '"sizeThresholdKB" is'),
        ('{"compression": {"enabled": false}}', '"compression" is'),
    ],
)
def test_a_misplaced_key_is_warned_of(session: Path, text: str, keys: str) -> None:
    """Once, however many sessions there are; what is done, and the exit code, is as without it."""
    file = session.parent / "compression.json"
    file.write_text(text)
    put(session.with_name("other.jsonl"))
    result = run("compress", ".")
    assert result.exit_code == 0
    assert but_undo(result.stderr) == f'warning: {file}: {keys} ignored: keys belong in an object "session"\n'
    assert "total: 2 files (2 compressed)\n" in result.stdout


def test_a_misplaced_key_of_a_named_file(session: Path) -> None:
    """It is warned of too; a named file without the section is an error that names what it lacks."""
    file = session.parent / "p.json"
    file.write_text('{"session": {}, "minSavedKB": 0}')
    result = run("stats", "--config", file, session)
    assert result.exit_code == 0
    assert 'p.json: "minSavedKB" is ignored' in result.stderr
    file.write_text('{"Session": {}}')
    result = run("stats", "--config", file, session)
    assert result.exit_code == 2
    assert 'p.json: the policy has no object "session"; "Session" is ignored: ' in result.stderr
    assert but_undo(result.stderr).count("\n") == 1


@pytest.mark.parametrize("text", ['{"session": {}}', '{"level": 9}', '{"sessions": {}}'])
def test_a_file_without_misplaced_keys_is_not_warned_of(session: Path, text: str) -> None:
    """Other tools have files of that name."""
    (session.parent / "compression.json").write_text(text)
    result = run("compress", session)
    assert (result.exit_code, but_undo(result.stderr)) == (0, "")


# Names


def test_a_hostile_name_never_reaches_the_terminal_raw(here: Path) -> None:
    """In no output of any command, neither of results nor of errors; the file is still found and done."""
    name = os.fsdecode(HOSTILE)
    try:
        put(here / name)
    except OSError:
        pytest.skip("this file system does not take such a name")
    refused, missing = f"r{name}", f"m{name}"
    (here / refused).write_bytes(b"{}\n" * 50_000)
    done = spawn("compress", "--dry-run", HOSTILE, cwd=here)
    printed = [done.stdout + done.stderr]
    codes = [done.returncode]
    for command in (
        *(("stats", name), ("compress", "."), ("compress", name), ("verify", "."), ("compress", refused)),
        *(("stats", refused), ("compress", missing), ("restore", name), ("forget", "--yes", name)),
        ("show", "0123456789ab", name),
    ):
        result = run(*command)
        printed.append(result.stdout_bytes + result.stderr_bytes)
        codes.append(result.exit_code)
    for each in printed:
        assert not [raw for raw in RAW if raw in each], each
    assert rb"a\x1b[31m\x07 \u202e\x9b\xff.jsonl: " in printed[2]
    assert codes == [0, 0, 0, 0, 0, 4, 4, 2, 0, 0, 2]
    assert (here / name).read_bytes() == fixture("pi-anthropic.jsonl")


def test_a_hostile_name_in_json(here: Path) -> None:
    """JSON escapes control characters, and holds a name that is no UTF-8 with its bytes escaped."""
    try:
        put(here / os.fsdecode(HOSTILE))
    except OSError:
        pytest.skip("this file system does not take such a name")
    for command in (("compress", "--dry-run"), ("stats",)):
        said = run(*command, "--json", os.fsdecode(HOSTILE)).stdout
        assert all(line.isprintable() for line in said.split("\n"))
        assert json.loads(said)["files"][0]["path"] == "a\x1b[31m\x07 \u202e\x9b\\udcff.jsonl"


def test_hostile_keys_in_an_error(here: Path) -> None:
    """What was seen in a file is printed escaped."""
    (here / "x.jsonl").write_bytes(b'{"\\u001b[31m\\u202e":1}\n' * 9000)
    result = run("compress", "x.jsonl")
    assert r"has the keys \x1b[31m\u202e)" in result.stderr


# stats


def test_stats(session: Path) -> None:
    """A head, a row for each kind and tool, what a run would come to, what lies beside; nothing is changed."""
    before = snapshot(session)
    result = run("stats", "session.jsonl")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "session.jsonl: pi, 338 KB, 98 lines, 9 turns, store 0 KB"
    assert lines[1].split("\t") == ["kind", "tool", "blocks", "size", "protected", "old", "compacted"]
    rows = [line.split("\t")[:2] for line in lines[2:-3]]
    assert ["result", "bash"] in rows
    assert ["argument", "write"] in rows
    assert ["thinking", "-"] in rows
    assert re.fullmatch(rf"after a run: {SIZES} -> {SIZES} \(\d+ % smaller; store {SIZES}\)", lines[-3])
    assert re.fullmatch(r"  replaced: .* results, .*", lines[-2])
    assert re.fullmatch(rf"  {TOKENS}; the next request would send [\d,]+ of them uncached", lines[-1])
    assert snapshot(session) == before


def test_stats_of_a_compressed_session(compressed: Path) -> None:
    """It says why a run would leave it, and how much lies beside."""
    lines = run("stats", compressed).stdout.splitlines()
    assert lines[-1].startswith("a run would leave it alone: ")
    assert re.fullmatch(r".*, store [1-9]\d* KB", lines[0])


def test_stats_as_json(session: Path) -> None:
    """Schema, fields, and the same figures as compress --dry-run."""
    done = document("stats", "session.jsonl")
    assert set(done) == {"schema", "files", "totals"}
    assert done["schema"] == "sessioncompress.stats/1"
    file = done["files"][0]
    assert set(done["totals"]) == {"size", "storeSize", "lines", "turns", "would"}
    assert set(done["totals"]["would"]) == TOTAL_FIELDS
    names = {"path", "format", "size", "storeSize", "lines", "turns", "summaryCount", "shares", "otherBytes", "would"}
    assert set(file) == names
    assert set(file["would"]) == FILE_FIELDS
    assert {frozenset(share) for share in file["shares"]} == {
        frozenset({"kind", "tool", "blocks", "protectedBytes", "oldBytes", "deadBytes"})
    }
    kinds = {block.kind for line in survey_of(session.read_bytes()).lines for block in line.blocks}
    assert {share["kind"] for share in file["shares"]} == {kind.value for kind in kinds}
    assert kinds >= {Kind.ARGUMENT, Kind.RESULT, Kind.THINKING, Kind.IMAGE, Kind.MIRROR}
    assert file["would"] == one("compress", "--dry-run", "session.jsonl")


def test_stats_shows_the_dead(here: Path) -> None:
    """What lies before a compaction has a column of its own."""
    put(here / "session.jsonl", "pi-compacted.jsonl")
    assert sum(share["deadBytes"] for share in one("stats", "session.jsonl")["shares"]) > 0


def test_stats_with_a_preset_and_a_policy(session: Path) -> None:
    """What would be saved is judged by them."""
    high = one("stats", "--preset", "high-quality", session)["would"]
    assert high["thinkingBlocksRemoved"] == 0
    assert (
        one("stats", "--config", policy(session.parent / "p.json", stripThinking=False), session)["would"][
            "thinkingBlocksRemoved"
        ]
        == 0
    )


# restore


def test_restore(compressed: Path) -> None:
    """Every byte is back, and the line says how much; a second time there is nothing to do."""
    size = round(compressed.stat().st_size / 1024)
    result = run("restore", "session.jsonl")
    assert result.exit_code == 0
    assert re.fullmatch(rf"session\.jsonl: {size} KB -> 338 KB, \d+ lines restored\n", result.stdout)
    assert compressed.read_bytes() == fixture("pi-anthropic.jsonl")
    assert run("restore", "session.jsonl").stdout == "session.jsonl: unchanged: no line in it is rewritten\n"


def test_restore_of_what_was_never_compressed(session: Path) -> None:
    before = snapshot(session)
    assert (
        run("restore", "session.jsonl").stdout
        == "session.jsonl: unchanged: it is not compressed: it has no markers and no store\n"
    )
    assert snapshot(session) == before


def test_restore_leaves_what_was_changed_and_markers_help(compressed: Path) -> None:
    """A rewritten line that was altered comes back by its markers."""
    lines = split(compressed.read_bytes())
    number = next(at for at, line in enumerate(lines) if b"sessioncompress show" in line and b"toolResult" in line)
    lines[number] = lines[number].replace(b'"type":"message"', b'"type": "message"', 1)
    compressed.write_bytes(b"".join(lines))
    result = run("restore", "session.jsonl")
    assert result.exit_code == 5
    assert f"the rewritten line {number + 1} was changed since by another program, and stays" in result.stdout
    assert "'restore --from-markers' puts back" in result.stdout
    verified = run("verify", "session.jsonl")
    assert verified.exit_code == 0
    assert f"the rewritten line {number + 1} was changed since" in verified.stdout
    assert run("restore", "--from-markers", "session.jsonl").exit_code == 5
    restored = split(compressed.read_bytes())
    original = split(fixture("pi-anthropic.jsonl"))
    assert b"[[sessioncompress: " not in compressed.read_bytes()
    assert json.loads(restored[number])["message"]["content"] == json.loads(original[number])["message"]["content"]


def test_restore_of_a_fork(compressed: Path) -> None:
    """A fork has no journal: elsewhere, the originals of the session that it came from are named."""
    fork = compressed.parent / "elsewhere" / "fork.jsonl"
    fork.parent.mkdir()
    fork.write_bytes(b"".join(split(compressed.read_bytes())[:60]))
    assert run("restore", "--from-markers", "elsewhere/fork.jsonl").exit_code == 4
    result = run("restore", "--from-markers", "--originals", "session.jsonl", "elsewhere/fork.jsonl")
    assert result.exit_code == 0
    assert re.fullmatch(r"elsewhere/fork\.jsonl: [\d,]+ KB -> [\d,]+ KB, \d+ lines restored\n", result.stdout)
    assert b"[[sessioncompress: " not in fork.read_bytes()


def test_restore_of_a_folder(here: Path) -> None:
    put(here / "a.jsonl")
    put(here / "b.jsonl", "omp.jsonl")
    put(here / "c.jsonl", "bom.jsonl")
    assert run("compress", ".").exit_code == 0
    result = run("restore", ".")
    assert result.exit_code == 0
    assert len(re.findall(r"^[ab]\.jsonl: .* \(\d+ lines\)$", result.stdout, re.MULTILINE)) == 2
    assert (here / "a.jsonl").read_bytes() == fixture("pi-anthropic.jsonl")
    assert (here / "b.jsonl").read_bytes() == fixture("omp.jsonl")


def test_the_policy_says_where_the_originals_are(session: Path) -> None:
    chosen = policy(session.parent / "p.json", backupDir="elsewhere")
    assert run("compress", "--config", chosen, session).exit_code == 0
    assert (session.parent / "elsewhere").is_dir()
    for command in (("verify",), ("restore",), ("forget", "--yes")):
        assert run(*command, "--config", chosen, session).exit_code == 0
    assert session.read_bytes() == fixture("pi-anthropic.jsonl")
    assert list((session.parent / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("as_policy", [True, False])
def test_restore_leaves_committed_originals_to_git(session: Path, as_policy: bool) -> None:
    """Also where only the run had the option: whoever restores later, in a clone perhaps, does not hide them again."""
    (session.parent / ".git").mkdir()
    chosen = ["--config", str(policy(session.parent / "p.json", commitOriginals=True))] if as_policy else []
    assert run("compress", *(chosen or ["--commit-originals"]), session).exit_code == 0
    ignore = session.parent / ".sessioncompress" / ".gitignore"
    before = ignore.read_bytes()
    assert before != b"*\n"
    assert run("restore", *chosen, session).exit_code == 0
    assert ignore.read_bytes() == before


def test_originals_that_an_earlier_run_hid_are_shown(session: Path) -> None:
    """Also where the session has nothing due, which nothing but a look leaves as it is."""
    (session.parent / ".git").mkdir()
    assert run("compress", session).exit_code == 0
    ignore = session.parent / ".sessioncompress" / ".gitignore"
    assert run("compress", "--commit-originals", "--dry-run", session).exit_code == 0
    assert ignore.read_bytes() == b"*\n"
    assert run("compress", "--commit-originals", session).exit_code == 0
    assert ignore.read_bytes() != b"*\n"


def test_a_run_tells_that_git_will_lack_the_originals_of_what_it_tracks(session: Path) -> None:
    write(session.parent, session.read_bytes(), "other.jsonl")
    for arguments in (["init", "-q"], ["add", session.name]):
        subprocess.run(["git", *arguments], cwd=session.parent, check=True)
    told = "git tracks 1 session of these, but does not see the originals, so that no commit has them"
    assert run("compress", session.parent).stderr.count(f"{told}; --commit-originals changes that\n") == 1


# show


def test_show(compressed: Path) -> None:
    """A reference of a result, an argument or an image prints its original, to the byte."""
    journal = journals.load(store_in(compressed).journal)
    original = fixture("pi-anthropic.jsonl")
    for kind in (Kind.RESULT, Kind.ARGUMENT):
        for ref in references(compressed, kind):
            result = run("show", ref, compressed, "--all")
            assert result.exit_code == 0
            assert json.dumps(result.stdout_bytes.decode(), ensure_ascii=False).encode() in original
            assert len(result.stdout_bytes) == next(b.bytes for _, b in blocks_of(journal) if b.ref == ref)
    for ref in references(compressed, Kind.IMAGE):
        assert run("show", ref, compressed).stdout_bytes in original


def test_every_marker_can_be_shown(compressed: Path) -> None:
    """The command in a marker works as it stands there, and so does the marker as a whole."""
    found = re.findall(
        rb"\[\[sessioncompress: [^\]]*sessioncompress (show [0-9a-f]+)[^\]]*\]\]", compressed.read_bytes()
    )
    assert found
    for command in found:
        assert run(*command.decode().split()).exit_code == 0
    whole = re.search(rb"\[\[sessioncompress: [^\]]*\]\]", compressed.read_bytes())
    assert whole
    assert run("show", whole[0].decode()).stdout == run(*found[0].decode().split()).stdout != ""


def test_show_caps_what_it_prints(compressed: Path) -> None:
    """20 KB, and a word on how to get the rest; --all prints everything."""
    ref = max(
        (block for _, block in blocks_of(journals.load(store_in(compressed).journal)) if block.kind is Kind.RESULT),
        key=lambda block: block.bytes,
    ).ref
    part, whole = run("show", ref, compressed), run("show", ref, compressed, "--all")
    assert len(part.stdout_bytes) == 20 * 1024 < len(whole.stdout_bytes)
    assert whole.stdout_bytes.startswith(part.stdout_bytes)
    assert re.fullmatch(r"\n\d+ KB more; use --all for everything, or --lines A:B for a part\.\n", part.stderr)
    assert whole.stderr == ""


@pytest.mark.parametrize(
    ("wanted", "part"),
    [("2:4", slice(1, 4)), ("3", slice(2, 3)), ("3:", slice(2, None)), ("1:1", slice(1)), ("4:99999", slice(3, None))],
)
def test_show_some_lines(compressed: Path, wanted: str, part: slice) -> None:
    """Counted from 1, both ends included, each with its end of line; up to the last where there are no more."""
    ref = references(compressed)[0]
    lines = split(run("show", ref, compressed, "--all").stdout_bytes)
    assert run("show", ref, compressed, "--lines", wanted).stdout_bytes == b"".join(lines[part])


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("5:2", "--lines 5:2 ends before it starts"),
        ("9999:", "--lines 9999: starts after the last line, {}"),
        ("9999", "--lines 9999 starts after the last line, {}"),
    ],
)
def test_lines_that_are_not_there(compressed: Path, wanted: str, said: str) -> None:
    """A usage error says why nothing is printed."""
    ref = references(compressed)[0]
    count = len(split(run("show", ref, compressed, "--all").stdout_bytes))
    result = run("show", ref, compressed, "--lines", wanted)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said.format(f"{count:,}") in result.stderr


def test_show_of_an_image_says_what_it_prints(compressed: Path) -> None:
    (ref,) = references(compressed, Kind.IMAGE)
    assert run("show", ref, "--all").stderr == "An image, in base64: 'show REF --all | base64 -d' gives the file.\n"
    assert run("show", references(compressed)[0], "--all").stderr == ""


@pytest.mark.parametrize("wanted", ["", "0:3", "a:b", ":5", "1:x", "-1", "1-2", "1" * 5000, "1:" + "2" * 5000])
def test_lines_that_are_none(compressed: Path, wanted: str) -> None:
    result = run("show", references(compressed)[0], compressed, f"--lines={wanted}")
    assert result.exit_code == 2
    assert "--lines needs A:B, two line numbers counted from 1" in result.stderr


def test_show_looks_upward(compressed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path it is found from any folder below the session's."""
    below = compressed.parent / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert run("show", references(compressed)[0]).exit_code == 0
    monkeypatch.chdir(compressed.parent.parent)
    result = run("show", references(compressed)[0])
    assert result.exit_code == 2
    assert f"no original with the reference {references(compressed)[0]} found. Name the session: " in result.stderr


@pytest.mark.parametrize(
    ("variable", "below"), [("PI_CODING_AGENT_SESSION_DIR", ""), ("CLAUDE_CONFIG_DIR", "projects/-tmp/0a/subagents")]
)
def test_show_looks_where_agents_keep_sessions(
    here: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    """By environment variables; which there are is a matter of the formats' own tests."""
    folder = here.parent / "agent" / below
    folder.mkdir(parents=True)
    path = put(folder / "session.jsonl")
    assert run("compress", path).exit_code == 0
    assert run("show", references(path)[0]).exit_code == 2
    monkeypatch.setenv(variable, str(here.parent / "agent"))
    assert run("show", references(path)[0]).exit_code == 0


def test_show_where_an_agents_folder_is_in_nobodys_home(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", "~nobody-of-this-name/agent")
    result = run("show", "0123456789ab")
    assert result.exit_code == 2
    assert "0123456789ab found" in result.stderr


def test_show_passes_over_a_journal_that_cannot_be_read(
    compressed: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the reference may stand there: then it is 3, and the journal is named."""
    real = Path.open

    def denied(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "bad.jsonl.history":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", denied)
    (store_in(compressed).folder / "bad.jsonl.history").touch()
    assert run("show", references(compressed)[0], compressed.parent).exit_code == 0
    result = run("show", "0123456789ab", compressed.parent)
    assert result.exit_code == 3
    assert "bad.jsonl.history: permission denied." in result.stderr


def test_show_says_when_a_reference_is_ambiguous(here: Path) -> None:
    """Exit code 2, and each candidate with its digest, what it is, and the journal that names it.

    The first stores had digests that can be aimed at: here is a collision.
    """
    digest = xxh3_64_hexdigest(ONE.encode())
    assert xxh3_64_hexdigest(OTHER.encode()) == digest
    for name, text in (("a.jsonl", ONE), ("b.jsonl", OTHER)):
        made = PiSession()
        made.user("Go.")
        made.step("bash", {"command": "x"}, text)
        path = write(here, turn(made, 2), name)
        assert run("compress", "--force", "--keep-turns", "1", "--protect-tokens", "0", path).exit_code == 0
        ours, journal = sha256(text.encode()).hexdigest(), store_in(path).journal
        first = journal.read_text().replace(f'"sha256":"{ours[:20]}"', f'"xxh3":"{digest}"')
        journal.write_text(first.replace(f'"ref":"{ours[:12]}"', f'"ref":"{digest[:12]}"'))
    result = run("show", digest[:12], ".")
    assert result.exit_code == 2
    assert f"{digest[:12]} matches 2 originals. Give more digits, or name the session." in result.stderr
    for name in "ab":
        said = rf"^{digest}  result \w+, [\d,]+ bytes, line \d+  .*{name}\.jsonl\.history$"
        assert re.search(said, result.stderr, re.MULTILINE)
    assert run("show", digest[:12], "a.jsonl").exit_code == 0


def test_show_of_a_damaged_original(compressed: Path) -> None:
    """Exit code 5: a wrong text is never printed."""
    flip(store_in(compressed).originals)
    codes = {run("show", ref, compressed).exit_code for ref in references(compressed)}
    assert 5 in codes


# verify


def test_verify(compressed: Path) -> None:
    """The line says what was read and compared; contents, inodes and times are as they were."""
    before = snapshot(compressed)
    result = run("verify", "session.jsonl")
    assert snapshot(compressed) == before
    assert result.exit_code == 0
    assert re.fullmatch(
        r"session\.jsonl: pi, 98 lines, (\d+) rewritten, \1 originals checked, all good\n", result.stdout
    ), result.stdout


def test_verify_says_which_lines_have_no_original(session: Path) -> None:
    """That is what was asked for, and no failure."""
    changed = one("compress", "--no-backup", session)["linesChanged"]
    result = run("verify", "session.jsonl")
    assert result.exit_code == 0
    assert result.stdout == (
        f"session.jsonl: pi, 98 lines, {changed} rewritten, 0 originals checked, all good; "
        f"{changed} lines have no original (keepBackup: false) and cannot be restored\n"
    )
    total = run("verify", ".").stdout.splitlines()[-1]
    assert total == f"total: 1 session{result.stdout.strip().removeprefix('session.jsonl: pi').replace(',', ':', 1)}"


def test_verify_as_json(compressed: Path) -> None:
    found = document("verify", "session.jsonl")
    assert found["schema"] == "sessioncompress.verify/1"
    (file,) = found["files"]
    assert (file.pop("path"), file.pop("format"), file["linesWithoutOriginal"]) == ("session.jsonl", "pi", 0)
    assert file["originals"] == file["linesRewritten"] > 0
    assert set(file) == {
        *("lines", "linesNotUnderstood", "linesRewritten", "linesWithoutOriginal", "originals", "blocks"),
        *("unknownMarkers", "linesNotThere", "markersOfRelatives", "openToOthers", "foreignFiles", "notUnderstoodAt"),
        *("changed", "wasChanged", "elsewhere", "madeElsewhere"),
    }


def test_verify_finds_a_flipped_byte(compressed: Path) -> None:
    """In the originals: exit code 5, naming the file."""
    flip(store_in(compressed).originals)
    result = run("verify", "session.jsonl")
    assert result.exit_code == 5
    assert str(store_in(compressed).originals) in result.stderr
    assert "The session was not changed." in result.stderr
    assert run("restore", "session.jsonl").exit_code == 5


@pytest.mark.parametrize("left", [None, b"", b"{"], ids=["missing", "empty", "torn"])
def test_verify_finds_a_lost_journal(compressed: Path, left: bytes | None) -> None:
    """Exit code 5, for every other command that would need it too; nothing is touched but by forget.

    That says that nothing it deleted knew of the markers in the session.
    """
    journal = store_in(compressed).journal
    if left is None:
        journal.unlink()
    else:
        journal.write_bytes(left * 2)
    before = snapshot(compressed)
    compress = ("compress", "--min-size", "0")
    for command in (("verify",), ("restore",), ("stats",), compress, (*compress, "--dry-run"), (*compress, "--check")):
        assert run(*command, "session.jsonl").exit_code == 5
    assert snapshot(compressed) == before
    forgotten = run("forget", "--yes", "session.jsonl")
    assert forgotten.exit_code == 4
    assert "markers that no journal here knew" in forgotten.stdout
    assert not store_in(compressed).originals.exists()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


# forget


def test_forget_asks_and_says_what_is_lost(compressed: Path) -> None:
    """No is the answer where nothing else is said."""
    before = snapshot(compressed)
    for answer in ("n\n", "\n"):
        result = run("forget", "session.jsonl", answer=answer)
        assert result.exit_code == 0
        assert re.match(
            r"session\.jsonl: delete \d+ KB with \d+ originals, which cannot be restored after that\? \[y/N\]: ",
            result.stdout,
        )
        assert result.stdout.endswith("session.jsonl: kept\n")
        assert snapshot(compressed) == before
    result = run("forget", "session.jsonl", answer="y\n")
    assert re.search(
        r"session\.jsonl: deleted \d+ KB with \d+ originals, which can no longer be restored\n", result.stdout
    )
    assert [each.name for each in compressed.parent.iterdir()] == ["session.jsonl"]


def test_forget_without_an_answer(compressed: Path) -> None:
    """Nobody there to answer: nothing is deleted, and the error says what helps."""
    before = snapshot(compressed)
    done = spawn("forget", "session.jsonl", cwd=compressed.parent)
    assert done.returncode == 2
    assert done.stderr.endswith(
        b"session.jsonl: cannot ask for confirmation without a terminal. Nothing was deleted. Use --yes.\n"
    )
    assert snapshot(compressed) == before


def test_forget_interrupted_while_it_asks(compressed: Path) -> None:
    """That is an interrupt as any other, but nothing had begun."""
    before = snapshot(compressed)
    command = [sys.executable, "-c", INTERRUPTED_QUESTION, "forget", "session.jsonl"]
    done = subprocess.run(command, cwd=compressed.parent, capture_output=True, check=False)
    assert done.returncode == 130
    assert done.stderr.endswith(b"\nNothing was deleted.\n")
    assert snapshot(compressed) == before


def test_forget_yes(compressed: Path) -> None:
    """It does not ask; the session is not touched, and a second time only its markers are there."""
    before = compressed.read_bytes()
    result = run("forget", "--yes", "session.jsonl")
    assert re.fullmatch(r"session\.jsonl: deleted \d+ KB with \d+ originals, .*\n", result.stdout)
    assert compressed.read_bytes() == before
    result = run("forget", "--yes", "session.jsonl")
    assert (result.exit_code, "there is no store here, but" in result.stdout) == (4, True)
    result = run("restore", "session.jsonl")
    assert result.exit_code == 4
    assert "markers, but its store is missing" in result.stderr


def test_forget_after_a_restore_alarms_nobody(compressed: Path) -> None:
    assert run("restore", compressed).exit_code == 0
    result = run("forget", "--yes", "session.jsonl")
    assert re.fullmatch(
        r"session\.jsonl: deleted \d+ KB with \d+ originals \(nothing is lost: the session still has their bytes\)\n",
        result.stdout,
    )


def test_forget_of_a_journal_alone(compressed: Path) -> None:
    """It counts no originals that are gone already."""
    store_in(compressed).originals.unlink()
    result = run("forget", "--yes", "session.jsonl")
    assert re.fullmatch(r"session\.jsonl: deleted \d+ KB with no originals\n", result.stdout)


def test_forget_a_session_that_is_gone(compressed: Path) -> None:
    """By its path, or met in a folder: named as gone, and asked for like others."""
    compressed.unlink()
    put(compressed.parent / "whole.jsonl")
    for named, said in (("session.jsonl", "delete"), (".", "would delete")):
        result = run("forget", named, answer="n\n")
        assert result.exit_code == 0
        asked = (
            rf"session\.jsonl \(session gone\): {said} \d+ KB with \d+ originals, which cannot be restored after that"
        )
        assert re.search(asked, result.stdout)
        assert store_in(compressed).originals.exists()
    result = run("forget", "--yes", ".")
    assert re.search(r"session\.jsonl \(session gone\): deleted \d+ KB with \d+ originals, which can no", result.stdout)
    assert [each.name for each in compressed.parent.iterdir()] == ["whole.jsonl"]
    assert run("forget", "--yes", "session.jsonl").exit_code == 2


def test_forget_a_session_that_is_gone_from_a_backup_dir(session: Path) -> None:
    assert run("compress", "--backup-dir", "kept", session).exit_code == 0
    session.unlink()
    assert "session gone" not in run("forget", "--yes", ".").stdout
    assert "(session gone): deleted" in run("forget", "--yes", "--backup-dir", "kept", ".").stdout
    assert list((session.parent / "kept").iterdir()) == []


# A process of its own


def long_session(steps: int) -> bytes:
    """Return a session of steps with results of 300 KB."""
    session = PiSession()
    for number in range(steps):
        session.user(f"Part {number}.")
        text = random.Random(number).randbytes(140_000).hex("\n", 7)
        session.step("bash", {"command": f"part {number}"}, text)
    return session.bytes()


def test_show_on_a_terminal_prints_no_escapes(here: Path) -> None:
    """What a tool once printed must not reach the terminal as commands; into a pipe the bytes go as they are."""
    pty = pytest.importorskip("pty")
    path = here / "session.jsonl"
    lines = split(fixture("pi-anthropic.jsonl"))
    number = next(at for at, line in enumerate(lines) if b'"toolName":"bash"' in line and len(line) > 4000)
    lines[number] = lines[number].replace(b'"text":"', b'"text":"\\u001b]0;owned\\u0007\\u202e', 1)
    path.write_bytes(b"".join(lines))
    assert run("compress", path).exit_code == 0
    ref = re.findall(rb"show ([0-9a-f]+)", split(path.read_bytes())[number])[0].decode()
    command = [sys.executable, "-m", "sessioncompress", "show", ref, "--lines", "1"]
    raw = subprocess.run(command, cwd=here, capture_output=True, check=True).stdout
    assert raw.startswith(b"\x1b]0;owned\x07\xe2\x80\xae")
    parent, child = pty.openpty()
    with subprocess.Popen(command, cwd=here, stdout=child, stderr=child) as process:
        process.wait()
    os.close(child)
    shown = os.read(parent, 65536)
    os.close(parent)
    assert shown.startswith(rb"\x1b]0;owned\x07\u202e")
    assert b"\x1b" not in shown
