"""Which sessions a command goes over: by options alike in all of them, also those that are gone, and what is asked."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from sessioncompress.cli.choosing import Chosen
from sessioncompress.store.layout import store_in
from tests.docs.reference import make_reference
from tests.support.commands import document, read_all, run
from tests.support.homes import contents
from tests.support.runs import fixture, split

CHOOSE = {"--all", "--agent", "--project", "--older-than", "--include", "--exclude", "--json"}
HOW: dict[str, set[str]] = {
    "compress": {"--jobs", "--dry-run", "--yes"},
    "compact": {"--jobs", "--dry-run", "--yes"},
    "restore": {"--jobs"},
    "verify": {"--jobs"},
    "stats": {"--jobs"},
    "budget": {"--jobs"},
    "forget": {"--dry-run", "--yes"},
}
LARGE = ".pi/agent/sessions/x/large.jsonl"
CODEX = ".codex/sessions/2026/03/02/rollout.jsonl"


@pytest.fixture
def gone(agents: Path) -> Path:
    """Compress a session of each of two agents, and delete that of pi; return its path."""
    assert run("compress", agents / LARGE, agents / CODEX).exit_code == 0
    (agents / LARGE).unlink()
    return agents / LARGE


@pytest.mark.parametrize("name", HOW)
def test_every_command_chooses_alike(name: str, agents: Path) -> None:
    """The same options, each once, and the same sessions by them; an agent has the same names everywhere."""
    options = [opt for each in make_reference.commands()[name].params for opt in each.opts]
    assert set(options) >= CHOOSE | HOW[name]
    assert len(options) == len(set(options))
    if name == "forget":
        run("compress", agents / CODEX, agents / ".claude/projects/x/claude.jsonl")
    options = ["--dry-run"] if "--dry-run" in HOW[name] else []

    def found(*chosen: str) -> set[str]:
        return {Path(each["path"]).name for each in document(name, *chosen, *options)["files"]}

    assert found("--all") == {"large.jsonl", "small.jsonl", "claude.jsonl", "rollout.jsonl", "session.json"}
    assert found("--agent", "claude") == found("--agent", "claude-code") == {"claude.jsonl"}
    assert found("--all", "--agent", "Claude Code", "--project", "/tmp") == {"claude.jsonl"}
    assert found("--project", "/tmp", "--older-than", "1w") == {"claude.jsonl", "rollout.jsonl"}
    assert found("--all", "--include", "*.jsonl", "--exclude", "s*.jsonl", "--older-than", "1w") == {
        *("claude.jsonl", "rollout.jsonl")
    }
    assert found(str(agents / ".codex"), str(agents / ".pi"), "--older-than", "120m") == {"rollout.jsonl"}


@pytest.mark.parametrize("name", HOW)
def test_what_is_chosen_must_be_plain(name: str, agents: Path) -> None:
    """Exit code 2 in every command: nothing named, in two ways, by a name that nobody has."""
    before = contents(agents)
    for arguments, said in (
        ((), "Which sessions?"),
        (("--older-than", "7d"), "Which sessions?"),
        ((".", "--all"), "PATHS can't be combined with"),
        ((".", "--project", "."), "PATHS can't be combined with"),
        ((".", "--all", "--agent", "pi"), "PATHS can't be combined with"),
        (("--agent", "pi", "--agent", "codex"), "it can be given once"),
        (("--agent", "cluade"), "did you mean claude-code? Nothing was done."),
    ):
        result = run(name, *arguments)
        assert result.exit_code == 2
        assert said in " ".join(result.stderr.split())
    assert contents(agents) == before


# Sessions that are gone


def test_a_session_that_is_gone_is_told_of(gone: Path) -> None:
    """Where only its agent is chosen too; the others are done."""
    for options in (("--all",), ("--agent", "pi")):
        result = run("restore", *options)
        assert result.exit_code == 4
        assert f"refused: {gone}: the session is missing, but its store is still there." in result.stderr
        result = run("verify", *options)
        assert result.exit_code == 0
        assert f"1 session is gone, but its store is there: {gone}." in " ".join(result.stderr.split())
    for name in ("restore", "verify"):
        assert run(name, "--agent", "codex").exit_code == 0
        assert run(name, "--all", "--older-than", "1h").exit_code == 0
        assert run(name, "--project", "/tmp").exit_code == 0


def test_forget_chooses_stores_of_sessions_that_are_gone(gone: Path, agents: Path) -> None:
    """Not by their age or project, of which nothing tells; a dry run says what would go, and asks nothing."""
    before = contents(agents)
    said = run("forget", "--all", "--dry-run")
    assert said.exit_code == 0
    assert f"{gone} (session gone): would delete " in said.stdout
    assert "total: 2 sessions: would delete " in said.stdout
    files = {each["path"]: each for each in document("forget", "--agent", "pi", "--dry-run")["files"]}
    assert {path: (each["status"], each["gone"]) for path, each in files.items()} == {
        str(gone): ("would-delete", True),
        str(gone.with_name("small.jsonl")): ("without a store", False),
    }
    for options in (("--older-than", "0d", "--agent", "pi"), ("--project", "/tmp"), ("--agent", "codex")):
        assert str(gone) not in run("forget", *options, "--dry-run").stdout
    assert contents(agents) == before
    assert run("forget", "--all", "--json").exit_code == 2
    assert contents(agents) == before
    assert run("forget", "--agent", "pi", "--yes").exit_code == 0
    assert not store_in(gone).originals.exists()
    assert store_in(agents / CODEX).originals.exists()


def test_a_document_of_restore(agents: Path) -> None:
    run("compress", agents / CODEX, agents / LARGE)
    store_in(agents / LARGE).originals.unlink()
    files = {Path(each["path"]).name: each for each in document("restore", agents / CODEX, agents / LARGE)["files"]}
    assert files["rollout.jsonl"]["status"] == "restored"
    assert files["rollout.jsonl"]["linesRestored"] > 0
    assert files["large.jsonl"]["status"] == "failed"
    assert "original" in files["large.jsonl"]["reason"]


# Sessions that may be in use


def test_what_changed_just_now_is_left_alone(agents: Path) -> None:
    """Where nobody named it: that is no error. A path is worked on, and so is all where no quiet is asked for."""
    path, small = agents / LARGE, agents / ".pi/agent/sessions/x/small.jsonl"
    os.utime(path)
    before = path.read_bytes()
    result = run("compress", "--agent", "pi", "-v")
    assert result.exit_code == 0
    assert f"{path}: skipped: it changed 0 seconds ago" in result.stdout
    assert path.read_bytes() == before
    assert [each["status"] for each in document("compact", "--agent", "pi")["files"]] == ["skipped", "unchanged"]
    os.utime(small)
    assert run("compress", "--agent", "pi", "--idle-seconds", "0", "--min-size", "0").exit_code == 0
    assert path.read_bytes() != before
    # The run by the path knows that of the run over all: the quiet time is nothing that a session is made with.
    assert "already compressed, nothing new since" in run("compress", path, "--min-size", "0").stdout


@pytest.mark.parametrize(("seconds", "changes"), [(0, True), (30, True), (3000, False)])
def test_a_policy_says_how_quiet(agents: Path, seconds: int, changes: bool) -> None:
    """Its number counts, also where it is 0."""
    path = agents / LARGE
    os.utime(path, (time.time() - 40,) * 2)
    (path.parent / "compression.json").write_text(f'{{"session": {{"quietSeconds": {seconds}}}}}')
    before = path.read_bytes()
    assert run("compress", "--all").exit_code == 0
    assert (path.read_bytes() != before) is changes


def test_what_a_program_has_open_is_left_alone(agents: Path) -> None:
    """As a live agent has, at each run of a schedule; a path is refused."""
    path = agents / LARGE
    with path.open("ab"):
        result = run("compress", "--all", "-v")
        assert result.exit_code == 0
        assert f"{path}: skipped: it is in use, open for writing in " in result.stdout
        assert run("compress", path).exit_code == 4


# The question


def test_all_is_asked_for_at_a_terminal(agents: Path) -> None:
    """With what is about to change, and on stderr; a no changes nothing."""
    before = contents(agents)
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    command = [sys.executable, "-m", "sessioncompress", "compress", "--all"]
    done = subprocess.run(command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, cwd=agents, check=False)
    os.close(theirs)
    said = read_all(ours)
    assert (done.returncode, done.stdout) == (0, b"")
    assert "Compress up to 4 sessions and save ~139 KB? You can undo this. [y/N]: " in said.decode()
    assert contents(agents) == before


class Stream(NamedTuple):
    terminal: bool

    def isatty(self) -> bool:
        return self.terminal


BY_PATH = Chosen((Path("a.jsonl"),), False, None, None, None, (), ())
BY_OPTION = BY_PATH._replace(paths=(), agent="pi")
ASKED: list[tuple[str, Chosen, tuple[bool, bool], bool]] = [
    ("an option", BY_OPTION, (True, True), True),
    ("all", BY_PATH._replace(paths=(), everything=True), (True, True), True),
    ("a path", BY_PATH, (True, True), False),
    ("yes", BY_OPTION._replace(yes=True), (True, True), False),
    ("a dry run", BY_OPTION._replace(dry_run=True), (True, True), False),
    ("a check", BY_OPTION._replace(check=True), (True, True), False),
    ("nobody to answer", BY_OPTION, (False, True), False),
    ("nobody to read", BY_OPTION, (True, False), False),
]


@pytest.mark.parametrize(("chosen", "terminals", "asks"), [case[1:] for case in ASKED], ids=[case[0] for case in ASKED])
def test_when_it_is_asked(
    monkeypatch: pytest.MonkeyPatch, chosen: Chosen, terminals: tuple[bool, bool], asks: bool
) -> None:
    """Only where nobody named what is to be changed, and where somebody sees the question."""
    monkeypatch.setattr(sys, "stdin", Stream(terminals[0]))
    monkeypatch.setattr(sys, "stderr", Stream(terminals[1]))
    assert chosen.asks is asks


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chosen, "asks", property(lambda _: True))


@pytest.mark.parametrize(
    "command",
    [
        *("compress", "compact", "restore", "verify", "stats", "budget", "search ever", "pack --dry-run"),
        *("forget --yes", "unpack"),
    ],
)
def test_what_failed_is_in_every_document(command: str, agents: Path) -> None:
    """One that --json leaves out would look like one that was not chosen."""
    good, bad = agents / LARGE, agents / "bad.jsonl"
    if command == "unpack":
        assert run("pack", good).exit_code == 0
        # What is in the way of a packed session is no session of ours.
        good.write_text("another\n")
        bad = good
    else:
        bad.symlink_to(good)
    result = run(*command.split(), "--json", good, *(() if bad == good else (bad,)))
    assert result.exit_code == 4
    (told,) = (each for each in json.loads(result.stdout)["files"] if each["path"] == str(bad))
    assert told["status"] == "refused"
    assert told["reason"].startswith(f"{bad}: ")


@pytest.mark.usefixtures("at_terminal")
def test_the_question(agents: Path) -> None:
    """How much of each agent is there and due; an end of the input is no answer, and a yes does it."""
    before = contents(agents)
    result = run("compress", "--all", answer="")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot ask for confirmation without a terminal. No session was changed. Use --yes." in result.stderr
    assert contents(agents) == before
    result = run("compact", "--agent", "pi", answer="n\n")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Compact up to 1 session? You can undo this. [y/N]: " in result.stderr
    lists = "Their agents do not list them until 'unpack' brings them back."
    assert f"? {lists} [y/N]: " in run("pack", "--all", "--older-than", "1h", answer="n\n").stderr.replace("\n  ", " ")
    result = run("compress", "--agent", "pi", answer="y\n")
    assert "1 compressed" in result.stdout
    heading, pi, total, *_ = result.stderr.splitlines()
    assert heading.split() == ["agent", "sessions", "size", "due", "their", "size", "could", "save"]
    assert pi.split()[:2] == ["pi", "2"]
    assert pi.split()[4] == "1"
    assert pi.split()[1:] == total.split()[1:]
    result = run("compress", "--agent", "pi", answer="")
    assert (result.exit_code, "[y/N]" in result.stderr) == (0, False)


@pytest.mark.parametrize(
    ("command", "due"),
    [
        ("pack --all --older-than 1h", 4),
        ("pack --older-than 1h --agent codex", 0),  # in use
        ("pack --all --older-than 1d", 1),
        ("compact", 3),  # not the small one
        ("compact --all --idle-seconds 7200", 1),
        ("compact --agent pi", 0),  # compacted just now
        ("compact --agent pi --keep messages", 1),
        ("compress", 3),
    ],
)
@pytest.mark.usefixtures("at_terminal")
def test_the_question_counts_what_will_be_worked_on(agents: Path, command: str, due: int) -> None:
    """Not what is in use, too young or too small, nor what was compacted already; and a run leaves as many."""
    name, _, rest = command.partition(" ")
    if "--agent pi" in rest:
        assert " tokens" in run("compact", agents / LARGE).stdout
    with (agents / CODEX).open("ab"):
        result = run(name, *(rest.split() or ["--all"]), answer="n\n")
    asked = re.search(r"^\w+ up to (\d) sessions?", result.stderr, re.MULTILINE)
    assert int(asked[1] if asked else 0) == due, result.stderr


@pytest.mark.usefixtures("at_terminal", "agents")
def test_the_question_before_all_are_restored() -> None:
    """It counts those with a store; where there is none, or a run is named, it is not asked."""
    assert "[y/N]" not in run("restore", "--agent", "pi", answer="").stderr
    assert run("compress", "--agent", "pi", answer="y\n").exit_code == 0
    result = run("restore", "--agent", "pi", answer="n\n")
    assert "Restore 1 session? That takes as much room again as before. [y/N]" in result.stderr
    assert "No session was changed." in result.stderr
    assert "[y/N]" not in run("restore", "--agent", "pi", "--run", "none", answer="").stderr
    assert "restored" in run("restore", "--agent", "pi", answer="y\n").stdout


@pytest.mark.usefixtures("at_terminal", "agents")
def test_the_question_says_whether_it_can_be_undone() -> None:
    result = run("compress", "--agent", "pi", "--no-backup", answer="n\n")
    # Nothing is estimated with other settings than the default ones.
    assert "Compress up to 1 session? You cannot undo this. [y/N]" in result.stderr
    result = run("compress", "--agent", "pi", answer="n\n")
    assert "Compress up to 1 session and save ~111 KB? You can undo this. [y/N]" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="links of another user need a system with users")
def test_a_projects_folder_that_is_a_link(agents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is followed by all commands if both it and the folder are the user's; else it is named as left out."""
    folder, moved = agents / ".pi/agent/sessions/x", agents.parent / "moved"
    folder.rename(moved)
    folder.symlink_to(moved)
    (moved / "deeper").symlink_to(agents)
    listed = document("sessions", "--agent", "pi")["sessions"]
    assert sorted(Path(each["path"]).name for each in listed) == ["large.jsonl", "small.jsonl"]
    assert "1 compressed" in run("compress", "--agent", "pi").stdout
    assert run("verify", "--agent", "pi").exit_code == 0
    os.utime(moved / "large.jsonl", (1_000_000_000, 1_000_000_000))
    assert run("pack", "--agent", "pi", "--older-than", "9d").exit_code == 0
    assert [each["packed"] for each in document("sessions", "--agent", "pi")["sessions"]] == [False, True]
    assert run("unpack", "--all").exit_code == run("restore", "--last").exit_code == 0
    assert (moved / "large.jsonl").read_bytes() == fixture("pi-anthropic.jsonl")
    real = Path.lstat
    another = os.stat_result((*real(folder)[:4], os.geteuid() + 1, *real(folder)[5:]))
    monkeypatch.setattr(Path, "lstat", lambda path: another if path == folder else real(path))
    for command in (("sessions", "--agent", "pi"), ("compress", "--all"), ("verify", "--agent", "pi")):
        said = run(*command).stderr
        assert "~/.pi/agent/sessions/x is skipped: the link or its folder is not yours" in said, command
        assert "large.jsonl" not in run(*command).stdout


def test_a_named_run_is_asked_about_if_options_chose_its_sessions(
    agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other commands over all sessions ask; those that are named, and one alone, need no answer."""
    monkeypatch.setattr("sessioncompress.cli.options.may_be_asked", lambda: True)
    for path in (agents / LARGE, agents / CODEX):
        os.utime(path, (time.time() - 3600,) * 2)
    made = run("compress", agents / LARGE, agents / CODEX)
    run_id = made.stderr.split("--run ")[1].split()[0]
    question = "Undo this run in 2 sessions? [y/N]: "
    for options, asks in (([], True), (["--all"], True), (["--dry-run"], False)):
        result = run("restore", "--run", run_id, *options, answer="n\n")
        assert (question in result.stderr, "No session was changed." in result.stderr) == (asks, asks), options
    assert "[y/N]" not in run("restore", "--run", run_id, "--yes").stderr
    made = run("compress", agents / LARGE, agents / CODEX)
    run_id = made.stderr.split("--run ")[1].split()[0]
    assert "[y/N]" not in run("restore", "--run", run_id, agents / LARGE, agents / CODEX).stderr


@pytest.mark.usefixtures("at_terminal")
@pytest.mark.parametrize("command", ["compress", "compact --keep-messages 4"])
def test_originals_that_git_sees_are_named(agents: Path, command: str) -> None:
    """Before the question and after the run, if an earlier run was told to commit them; otherwise there are none."""
    subprocess.run(["git", "init", "-q"], cwd=agents, check=True)
    path, lines = agents / LARGE, split(fixture("pi-anthropic.jsonl"))
    path.write_bytes(b"".join(lines[:50]))
    run("compress", "--force", "--keep-turns", "0", "--originals-in", "committed", path)
    path.write_bytes(path.read_bytes() + b"".join(lines[50:]))
    os.utime(path, (time.time() - 3600,) * 2)
    arguments = [*command.split(), "--agent", "pi"]
    assert "git sees" not in run(*arguments, "--originals-in", "committed", answer="n\n").stderr
    before, _, after = run(*arguments, answer="y\n").stderr.replace("\n", " ").partition("[y/N]")
    warning = f"git sees the originals of 1 session, as an earlier run was told: {store_in(path).originals}"
    assert (warning in before, warning in after) == (True, True), before + after
    run("restore", path)
    run("forget", "--yes", path)
    assert "git sees" not in run(*arguments, answer="y\n").stderr


def test_no_file_that_is_not_there_is_named_as_seen_by_git(agents: Path) -> None:
    """If the originals of a session are all in commits, its store has none."""
    path = agents / LARGE
    for arguments in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"]):
        subprocess.run(["git", *arguments], cwd=path.parent, check=True)
    run("compress", "--originals-in", "history", path)
    result = run("compact", "--keep-messages", "4", path)
    assert (result.exit_code, "git sees" in result.stderr) == (0, False)
    assert not (store := store_in(path)).originals.exists()
    assert store.journal.exists()
