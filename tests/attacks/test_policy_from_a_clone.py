"""A `compression.json` in a cloned repository chooses how much is compressed: not what is written, kept or run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.policy.file import KEYS
from sessioncompress.store.layout import FOLDER, all_stores, plain_in, store_in
from tests.faults.tools import need
from tests.support.runs import but_undo, fixture
from tests.support.victim import ROOT, Victim, victim

__all__ = ["victim"]

NOBODY = 65534
PROGRAM = "$(touch ~/PWNED; echo x)"
LOG = {"logFile": "~/.bash_profile", "budget": {"models": [{"pattern": PROGRAM, "contextWindow": 9, "outputLimit": 1}]}}


def hidden_sessions(victim: Victim) -> int:
    """Return the number of sessions in the clone that have one store, which is whole and hidden."""
    stores = [all_stores(path) for path in victim.session.parent.glob("*.jsonl")]
    whole = [each for each in stores if each and each[0].originals.is_file() and each[0].journal.is_file()]
    return sum(len(each) == 1 and each[0].is_hidden for each in whole)


def sees_of_stores(victim: Victim) -> set[str]:
    return {each for each in victim.sees() if FOLDER in Path(each).parts}


def test_no_code_of_a_clone_runs_at_the_next_login(victim: Victim) -> None:
    """Its text reached a shell's start-up file through the log."""
    victim.commits(LOG)
    done = victim.sessioncompress("compress", ".")
    victim.run(need("bash"), "--login", "-c", "true")
    assert not (victim.home / "PWNED").exists()
    assert done.returncode == 2
    assert list(victim.home.iterdir()) == []


FORBIDDEN: Mapping[str, tuple[str, Any]] = {
    "a log at home": ("logFile", "~/.bash_profile"),
    "no originals": ("keepBackup", False),
    "originals at home": ("backupDir", "~/kept"),
    "originals inside the clone": ("backupDir", "../kept"),
    "originals where nothing hides them": ("commitOriginals", True),
    "a command": ("summarizer", {"command": PROGRAM}),
    "an endpoint": ("summarizer", {"endpoint": "http://127.0.0.1:9/v1", "models": ["m"]}),
}


@pytest.mark.parametrize(
    ("name", "where"),
    [
        *((name, "compression.json") for name in FORBIDDEN),
        *(("no originals", f"{folder}/compression.json") for folder in (".GITCLAW", "sessions")),
    ],
)
def test_what_only_the_user_may_say_is_an_error(victim: Victim, name: str, where: str) -> None:
    """Nothing is touched; the file, the key and what to do are said, once."""
    key, value = FORBIDDEN[name]
    file = victim.commits({key: value}, where)
    before = victim.tree()
    done = victim.sessioncompress("compress", victim.session)
    assert (done.returncode, done.stdout) == (2, "")
    assert victim.tree() == before
    assert done.stderr.startswith(f'failed: {file}: the policy\'s "session.{key}" ')
    assert (
        "which a file found near a session may not do. No session that it governs was changed. Remove this key there"
        in done.stderr
    )
    assert "name a file with --config, or set it in " + str(victim.home / ".config") in done.stderr
    assert done.stderr.count("\n") == 1


def _action(victim: Victim) -> subprocess.CompletedProcess[str]:
    """Do the step of the action as its runner does."""
    given = {"PATHS": "sessions", "COMPACT": "false", "CONFIG": "", "PRESET": "", "ORIGINALS": "commit"}
    given |= {"FORCE": "false", "FAIL_IF_LARGER": "false"}
    files = {name: str(victim.folder / "state" / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    (victim.folder / "state").mkdir(exist_ok=True)
    variables = {f"SESSIONCOMPRESS_{name}": value for name, value in given.items()}
    step = ROOT / "action" / "step.py"
    return victim.run(sys.executable, step, **variables, **files, RUNNER_TEMP=str(victim.folder / "state"))


def _hook(victim: Victim) -> subprocess.CompletedProcess[str]:
    """Do what the agent's hook begins; it fails no agent, and what it did stands in a log."""
    done = victim.run(sys.executable, "-m", "sessioncompress.hooks", "compress", victim.session)
    said = (victim.folder / "state" / "sessioncompress" / "hook.log").read_text()
    return subprocess.CompletedProcess([], done.returncode or 2 * (" smaller; " not in said), stderr=said)


WAYS: Mapping[str, Callable[[Victim], subprocess.CompletedProcess[str]]] = {
    "pre-commit": lambda victim: victim.sessioncompress("pre-commit", victim.session),
    "pre-commit that only checks": lambda victim: victim.sessioncompress("pre-commit", "--check", victim.session),
    "the hook of an agent": _hook,
    "the action": _action,
    "a folder": lambda victim: victim.sessioncompress("compress", "."),
    "a document": lambda victim: victim.sessioncompress("compress", "--json", "sessions"),
    "a rehearsal": lambda victim: victim.sessioncompress("compress", "--dry-run", victim.session),
    "verify": lambda victim: victim.sessioncompress("verify", victim.session),
    "restore": lambda victim: victim.sessioncompress("restore", "."),
    "show": lambda victim: victim.sessioncompress("show", "0123456789ab", victim.session),
    "stats": lambda victim: victim.sessioncompress("stats", victim.session),
    "budget": lambda victim: victim.sessioncompress("budget", victim.session),
    "forget by a limit": lambda victim: victim.sessioncompress("forget", "--yes", "--max-size", "0KB", "."),
    "forget": lambda victim: victim.sessioncompress("forget", "--yes", "."),
}


VALUES: Mapping[str, Any] = {
    "logFile": "~/.bash_profile",
    "keepBackup": False,
    "backupDir": "../kept",
    "commitOriginals": True,
    "summarizer": {"command": PROGRAM},
}


NOT_COMPRESSING = {"verify", "restore", "show", "stats", "budget", "forget by a limit", "forget"}
"""Ways that compress nothing: they act on none of these keys."""
UNDOING = NOT_COMPRESSING - {"stats", "budget"}
"""Ways that only read or undo what runs did."""


@pytest.mark.parametrize(
    ("way", "key"),
    [
        (way, key)
        for way, key in product(WAYS, VALUES)
        if way == "a folder" or (key in ("backupDir", "logFile") and way not in NOT_COMPRESSING)
    ],
)
def test_by_every_way_in(victim: Victim, way: str, key: str) -> None:
    """Each command asks the same place which policy counts, and for what it acts on."""
    victim.commits({key: VALUES[key]})
    before = victim.tree()
    done = WAYS[way](victim)
    assert done.returncode == 2
    assert f'"session.{key}" ' in done.stderr
    assert victim.tree() == before


@pytest.mark.parametrize(
    ("way", "policy"),
    [
        *((way, VALUES) for way in sorted(NOT_COMPRESSING)),
        *((way, '{"session": {"enabled": fal') for way in sorted(UNDOING)),
    ],
)
def test_what_a_command_does_not_act_on_does_not_stop_it(
    victim: Victim, way: str, policy: str | Mapping[str, Any]
) -> None:
    """A key of a clone that no restore heeds is nothing to end it for; nor does it count there. Nor does a wrong file."""
    assert victim.sessioncompress("compress", victim.session).returncode == 0
    ref = re.search(rb"sessioncompress show ([0-9a-f]+)", victim.session.read_bytes())
    assert ref is not None
    victim.commits(policy)
    command = victim.sessioncompress("show", ref[1].decode(), victim.session) if way == "show" else WAYS[way](victim)
    assert (command.returncode, but_undo(command.stderr)) == (0, "")
    assert list(victim.home.iterdir()) == []
    assert (victim.session.read_bytes() == fixture("pi-anthropic.jsonl")) == (way == "restore")
    assert not sees_of_stores(victim)


def test_all_keys_in_one_error_and_once(victim: Victim) -> None:
    """Not one more at each run, nor the same for each session or folder."""
    for name in ("t.jsonl", "more/u.jsonl"):
        path = victim.session.with_name(name) if "/" not in name else victim.session.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(fixture("claude-code.jsonl"))
    victim.commits(VALUES)
    done = victim.sessioncompress("compress", ".")
    assert done.returncode == 2
    assert [key for key in VALUES if f'"session.{key}" ' in done.stderr] == list(VALUES)
    assert done.stderr.count("which a file found near a session may not") == 1
    assert done.stderr.count("\n") == 1
    assert "Remove these keys there." in done.stderr
    assert "It governs sessions/s.jsonl, sessions/t.jsonl and sessions/more/u.jsonl." in done.stderr


ITS_OWN: Mapping[str, Mapping[str, Any]] = {
    "the defaults, spelled out": {"logFile": None, "keepBackup": True, "backupDir": None, "commitOriginals": False},
    "how much": {"toolResultMaxBytes": 300, "quietSeconds": 0},
}


@pytest.mark.parametrize("name", ITS_OWN)
def test_what_a_clone_may_say_counts(victim: Victim, name: str) -> None:
    """A project shares how its sessions are compressed."""
    victim.commits(ITS_OWN[name])
    assert victim.sessioncompress("compress", victim.session).returncode == 0
    assert hidden_sessions(victim) == 1
    assert victim.sees() == {"compression.json", "out", "sessions/s.jsonl", "sessions/up"}
    assert victim.sessioncompress("restore", victim.session).returncode == 0
    assert victim.session.read_bytes() == fixture("pi-anthropic.jsonl")


@pytest.mark.parametrize("command", ["compress", "pre-commit"])
def test_git_sees_nothing_more_of_the_users(victim: Victim, command: str) -> None:
    """A tool hides its folder by a `.gitignore` as ours, and the user's policy names that folder for originals."""
    hidden = victim.clone / "tool"
    hidden.mkdir()
    (hidden / ".gitignore").write_text("*\n")
    (hidden / "token").write_text("secret")
    victim.configures({"backupDir": "../tool", "commitOriginals": True})
    victim.sessioncompress(command, victim.session)
    assert len(list(hidden.glob("*.zst"))) == 1
    assert (hidden / ".gitignore").read_text() == "*\n"
    assert "tool/token" not in victim.sees()


@pytest.mark.parametrize("key", ["logFile", "keepBackup", "backupDir", "commitOriginals"])
@pytest.mark.parametrize("by", ["option", "config", "configuration"])
def test_the_user_may_say_it(victim: Victim, key: str, by: str) -> None:
    """Then it counts, also where the clone's file says the same of another place."""
    victim.commits({key: VALUES[key] if isinstance(VALUES[key], bool) else "~/clone"})
    value = VALUES[key] if isinstance(VALUES[key], bool) else str(victim.home / "mine")
    options: list[str | Path] = []
    if by == "option":
        only_user = KEYS[key].only_user
        assert only_user
        options = [only_user.option, *([] if isinstance(value, bool) else [str(value)])]
    elif by == "config":
        options = ["--config", victim.home / "p.json"]
        (victim.home / "p.json").write_text(json.dumps({"session": {key: value}}))
    else:
        victim.configures({key: value})
    done = victim.sessioncompress("compress", *options, victim.session)
    is_final = "no originals of 1 session are kept: this cannot be undone\n" if key == "keepBackup" else ""
    assert (done.returncode, but_undo(done.stderr)) == (0, is_final)
    assert not (victim.home / "clone").exists()
    if key == "keepBackup":
        assert not list(victim.folder.rglob("*.zst"))
    elif key == "commitOriginals":
        assert "sessions/.sessioncompress/s.jsonl.zst" in victim.sees()
    else:
        assert (victim.home / "mine").exists()


def test_originals_elsewhere_come_back_with_the_option_alone(victim: Victim) -> None:
    """A clone's file does not say where they are."""
    kept = victim.folder / "elsewhere"
    assert victim.sessioncompress("compress", "--backup-dir", kept, victim.session).returncode == 0
    victim.commits({"backupDir": "../../elsewhere"})
    assert victim.sessioncompress("restore", victim.session).returncode == 4
    ref = re.search(rb"sessioncompress show ([0-9a-f]+)", victim.session.read_bytes())
    assert ref is not None
    for command in (("verify",), ("show", ref[1].decode()), ("restore",)):
        assert victim.sessioncompress(*command, victim.session, "--backup-dir", kept).returncode == 0
    assert victim.session.read_bytes() == fixture("pi-anthropic.jsonl")


# Whether git sees the originals


PLANTED = {
    "nothing ignored": "",
    "all shown": "!*\n",
    "a comment": "# kept by the project\n",
    "another file hidden": "*.tmp\n",
    "ours, and then shown": "*\n!*.zst\n",
    "ours without its end": "*",
    "ours with blanks": "*\n\n",
    "a long one": "x\n" * 100_000,
}


IN: Mapping[str, Callable[[str], Sequence[str]]] = {
    "our folder": lambda local: [""],
    "that of hidden stores": lambda local: [local],
    "both": lambda local: ["", local],
}
"""Where one may be planted: whoever has seen the name of the second folder may bring that too."""


@pytest.mark.parametrize(
    ("name", "where", "command"),
    [
        *((name, "both", "compress") for name in PLANTED if name != "all shown"),
        *(("all shown", where, command) for where in IN for command in ("compress", "pre-commit")),
    ],
)
def test_a_planted_ignore_file_shows_no_original(victim: Victim, name: str, where: str, command: str) -> None:
    """A clone may bring our folder with any `.gitignore`: `git add --all` staged the originals."""
    local = victim.works()
    for folder in IN[where](local):
        victim.commits(PLANTED[name], f"sessions/{FOLDER}/{folder}/.gitignore")
    victim.sessioncompress(command, victim.session)
    assert hidden_sessions(victim) == 1
    assert not sees_of_stores(victim)
    for folder in ("", local):
        assert (victim.stores / folder / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("where", IN)
def test_one_that_shows_them_lasts_until_a_run_writes(victim: Victim, where: str) -> None:
    """What changes nothing leaves it; a restore, which writes there, does not."""
    assert victim.sessioncompress("compress", victim.session).returncode == 0
    (store,) = all_stores(victim.session)
    ignores = [
        victim.commits("!*\n", f"sessions/{FOLDER}/{folder}/.gitignore") for folder in IN[where](store.folder.name)
    ]
    for command in (("compress", "--dry-run"), ("verify",), ("stats",), ("pre-commit", "--check")):
        assert victim.sessioncompress(*command, victim.session).returncode == 0
        assert {each.read_text() for each in ignores} == {"!*\n"}
    assert victim.sessioncompress("restore", victim.session).returncode == 0
    assert {each.read_text() for each in ignores} == {"*\n"}
    assert not sees_of_stores(victim)


@pytest.mark.parametrize(
    ("where", "target"),
    [
        *(("our folder", target) for target in ("../../shown", "nowhere", "/dev/zero")),
        *((where, "../../../shown") for where in ("that of hidden stores", "both")),
    ],
)
def test_a_planted_link_as_ignore_file_is_refused(victim: Victim, where: str, target: str) -> None:
    """Git follows none, so that nothing would be hidden; and what it leads to is nobody's to change."""
    (victim.clone / "shown").write_text("!*\n")
    for folder in IN[where](victim.works()):
        (victim.stores / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        (victim.stores / folder / ".gitignore").symlink_to(target)
    before = victim.tree()
    done = victim.sessioncompress("compress", victim.session)
    assert done.returncode == 4
    assert ".gitignore: this must be a file of its own" in done.stderr
    assert "The session was not changed. Move it away." in done.stderr
    after = victim.tree()
    if where == "that of hidden stores":
        # Our folder, which the clone brought too, is hidden first.
        assert after.pop(victim.stores / ".gitignore") == b"*\n"
    assert after == before


def test_what_the_user_wants_committed_is_not_hidden_by_a_later_run(victim: Victim) -> None:
    """Whoever has the session in git needs them."""
    assert victim.sessioncompress("compress", "--commit-originals", victim.session).returncode == 0
    assert victim.sessioncompress("restore", victim.session).returncode == 0
    assert victim.sessioncompress("compress", "--force", "--preset", "low-cost", victim.session).returncode == 0
    assert "sessions/.sessioncompress/s.jsonl.zst" in victim.sees()


LEFT_OUT = {
    "a rule of the clone": (".gitignore", "*.zst\n"),
    "a rule for our folder": (".gitignore", ".sessioncompress/\n"),
    "a planted file of our folder": ("sessions/.sessioncompress/.gitignore", "*.zst\n"),
    "one that hides all": ("sessions/.sessioncompress/.gitignore", "# mine\n*\n"),
}


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        *((name, None) for name in LEFT_OUT),
        *(("a rule of the clone", policy) for policy in ({"commitOriginals": True}, {"enabled": True})),
    ],
)
def test_the_action_commits_no_session_without_its_originals(
    victim: Victim, name: str, policy: Mapping[str, Any] | None
) -> None:
    """Whatever of the clone hides them; a policy with an error for others did away with the look."""
    file, text = LEFT_OUT[name]
    victim.commits(text, file)
    if policy is not None:
        victim.commits(policy)
    before = victim.session.read_bytes()
    done = _action(victim)
    assert done.returncode == 2
    assert "not committed as it is: sessions/.sessioncompress/s.jsonl.zst" in done.stdout
    assert victim.session.read_bytes() == before


def hides(victim: Victim, place: str) -> None:
    """Let a run hide the originals of the session, or a run of the first version."""
    assert victim.sessioncompress("compress", victim.session).returncode == 0
    (made,), plain = all_stores(victim.session), plain_in(victim.session)
    if place == "plain":
        made.originals.rename(plain.originals)
        made.journal.rename(plain.journal)
        shutil.rmtree(made.folder)
    assert not sees_of_stores(victim)


@pytest.mark.parametrize("place", ["hidden", "plain"])
def test_the_action_shows_what_an_earlier_run_hid(victim: Victim, place: str) -> None:
    """The session needs it, and the run has copied it to where git sees it."""
    hides(victim, place)
    done = _action(victim)
    assert (done.returncode, "not committed" in done.stdout) == (0, False), done.stdout
    assert {"sessions/.sessioncompress/s.jsonl.zst", "sessions/.sessioncompress/s.refs.jsonl"} <= victim.sees()
    assert not store_in(victim.session).is_hidden


@pytest.mark.parametrize("place", ["hidden", "plain"])
def test_the_action_looks_behind_what_an_earlier_run_hid(victim: Victim, place: str) -> None:
    """Its `.gitignore` gives way to the run; a rule of the clone for the whole folder is stronger than that."""
    hides(victim, place)
    victim.commits(".sessioncompress/\n", ".gitignore")
    before = victim.session.read_bytes()
    done = _action(victim)
    assert done.returncode == 2
    for name in ("s.jsonl.zst", "s.refs.jsonl"):
        said = f"not committed as it is: sessions/.sessioncompress/{name} (.gitignore:1: .sessioncompress/)"
        assert said in done.stdout
    assert victim.session.read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
@pytest.mark.parametrize("name", ["compression.json", ".GITCLAW/compression.json"])
def test_a_file_of_another_user_above_is_ignored(victim: Victim, name: str) -> None:
    """In a folder that all may write to, where README's example puts its copy; once for all sessions."""
    file = victim.commits({"keepBackup": False, **LOG}, name)
    victim.clone.chmod(0o1777)
    os.chown(file, NOBODY, NOBODY)
    victim.session.with_name("t.jsonl").write_bytes(fixture("claude-code.jsonl"))
    done = victim.sessioncompress("compress", ".")
    assert done.returncode == 0
    assert but_undo(done.stderr) == f"warning: {file}: it is ignored, since neither you nor root owns it\n"
    assert list(victim.home.iterdir()) == []
    assert hidden_sessions(victim) == 2


# What is no policy


NO_POLICY = {
    "empty": ("", "the policy is not JSON: "),
    "truncated": ('{"session": {"enabled": fal', "the policy is not JSON: "),
    "a trailing comma": ('{"session": {"enabled": false,}}', "the policy is not JSON: "),
    "a preset": ('{"session": {"preset": "x"}}', "preset"),
    "a large one": ('{"session": {}}' + " " * 300_000, "the policy is larger than 256 KB."),
}


@pytest.mark.parametrize("name", NO_POLICY)
def test_a_file_that_says_nothing_clear_stops_what_it_governs_alone(victim: Victim, name: str) -> None:
    """One error that names its sessions, and none is touched: whoever wrote it relied on it. Others are no matter."""
    text, said = NO_POLICY[name]
    file = victim.commits(text)
    victim.session.with_name("t.jsonl").write_bytes(fixture("claude-code.jsonl"))
    other = victim.home / "other.jsonl"
    other.write_bytes(fixture("pi-anthropic.jsonl"))
    before = {path: data for path, data in victim.tree().items() if path != other}
    done = victim.sessioncompress("compress", ".", other)
    assert done.returncode == 2
    told, *_ = done.stderr.splitlines()
    assert told.startswith((f"failed: {file}: ", f"failed: {file}:1: "))
    assert said in told
    assert told.endswith(" It governs sessions/s.jsonl and sessions/t.jsonl.")
    assert done.stderr.count("failed") == 1
    assert "3 files (1 compressed, 2 failed)" in done.stdout
    assert other.stat().st_size < len(fixture("pi-anthropic.jsonl"))
    after = victim.tree()
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize("command", ["pack", "compact"])
def test_no_command_that_writes_touches_what_it_governs(victim: Victim, command: str) -> None:
    """They read it on ways of their own."""
    victim.commits("{")
    before = victim.session.read_bytes()
    other = victim.home / "other.jsonl"
    other.write_bytes(fixture("pi-anthropic.jsonl"))
    done = victim.sessioncompress(command, victim.session, other)
    assert done.returncode == 2
    assert f"It governs {victim.session}." in done.stderr
    assert victim.session.read_bytes() == before
    assert not other.exists() or other.read_bytes() != fixture("pi-anthropic.jsonl")


@pytest.mark.parametrize("command", ["compress", "stats"])
def test_the_users_own_file_stops_everything(victim: Victim, command: str) -> None:
    (victim.home / "p.json").write_text("{")
    before = victim.tree()
    done = victim.sessioncompress(command, "--config", victim.home / "p.json", ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert "p.json:1: the policy is not JSON: " in done.stderr
    assert victim.tree() == before


SECRET = "root:SECRET:19000:0:99999:7:::\n"


@pytest.mark.parametrize("way", ["compress", "stats"])
def test_a_link_to_what_only_the_user_may_read_tells_nothing_of_it(victim: Victim, way: str) -> None:
    (victim.home / "shadow").write_text(SECRET)
    (victim.clone / "compression.json").symlink_to("../home/shadow")
    done = victim.sessioncompress(way, victim.session)
    assert done.returncode == 2
    assert "SECRET" not in done.stdout + done.stderr


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_passed_over(victim: Victim, make: Callable[[Path], None]) -> None:
    make(victim.clone / "compression.json")
    assert victim.sessioncompress("compress", victim.session).returncode == 0
