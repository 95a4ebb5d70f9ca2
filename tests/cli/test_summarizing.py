"""`--summarizer` and `--endpoint`: what is said and asked before anything is sent, and that without them nothing is."""

from __future__ import annotations

import json
import os
import pty
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store.layout import journals_in
from tests.support.branched import branched
from tests.support.commands import policy, run
from tests.support.endpoint import PROSE, Answer, Endpoint, chat
from tests.support.long import claude, pi
from tests.support.runs import snapshot, write

KEY = "sk-0123456789-secret"
KEEPS_LITTLE = {"keepTokens": 3_000, "minDeadTokens": 1_000, "minSavedTokens": 1_000}
COMMAND = shlex.join([sys.executable, "-S", "-c", f"print({PROSE!r})"])


@pytest.fixture
def session(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a session that is long enough, with a policy that keeps little; a key is there."""
    policy(here / "compression.json", compact=KEEPS_LITTLE)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return write(here, pi(8))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint([chat(PROSE)]) as found:
        yield found


@pytest.mark.parametrize("arguments", [["compact"], ["compact", "--print"], ["handoff"]])
def test_without_them_no_socket_is_opened(session: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """Nor anything imported that could, nor a program begun."""

    def forbidden(*arguments: Any, **more: Any) -> Any:
        raise AssertionError("a socket, or a program")

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr(subprocess, "Popen", forbidden)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("openai", "httpx", "httpx2")]:
        monkeypatch.delitem(sys.modules, name)
    assert run(*arguments, session).exit_code == 0
    assert not {"openai", "httpx", "httpx2"} & sys.modules.keys()


def test_one_line_says_where_it_goes(session: Path, endpoint: Endpoint) -> None:
    """Before anything is sent, without the secrets of a URL; JSON says who wrote the summary."""
    url = endpoint.url + f"?key={KEY}"
    result = run("compact", "--json", "--endpoint", url, "--model", "a", "--model", "b", session)
    assert result.exit_code == 0
    first, *_ = result.stderr.splitlines()
    assert first == f"may send up to 120,000 tokens of the session to {endpoint.url} (this machine), a or b"
    (told,) = json.loads(result.stdout)["files"]
    assert (told["by"], told["model"], told["modelFailure"]) == ("endpoint", "a", "")
    assert "cost" not in told
    assert KEY not in result.output


def test_the_log_says_who_wrote_it_and_what_it_cost(session: Path, here: Path) -> None:
    with Endpoint([chat(PROSE, usage={"cost": 0.5})]) as endpoint:
        options: list[str | Path] = [
            "--goal",
            "Mend it",
            "--log",
            here / "log",
            "--json",
            "--endpoint",
            endpoint.url,
            "--model",
            "m",
        ]
        result = run("compact", *options, session)
    (told,) = json.loads(result.stdout)["files"]
    logged = json.loads((here / "log").read_text())
    said = {"by": "endpoint", "model": "m", "modelFailure": "", "cost": 0.5, "goalMethod": "given", "trigger": "manual"}
    for each in (told, logged):
        assert {key: each[key] for key in said} == said
        assert each["multiplier"] == 1.5
        assert each["thresholds"].keys() == {"idleSeconds", "budget", "compact"}
    (journal,) = journals_in(here)
    (record,) = [each for each in map(json.loads, journal.read_text().splitlines()) if each["type"] == "checkpoint"]
    assert (record["goalMethod"], record["trigger"], record["model"]) == ("given", "manual", "m")


def test_a_key_is_seen_nowhere(session: Path, here: Path) -> None:
    """Not where all goes well, nor where nothing does: stdout, stderr, the log, the store, the list of processes."""
    seen = here / "cmdlines"
    program = (
        "import glob\n"
        f"out = open({str(seen)!r}, 'wb')\n"
        "for name in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try: out.write(open(name, 'rb').read())\n"
        "    except OSError: pass\n"
        f"print({PROSE!r})"
    )
    said = ""
    with Endpoint([Answer(401, KEY.encode()), chat(KEY + "</summary>"), Answer(500, KEY.encode())]) as endpoint:
        for model in ("a", "b"):
            options = ["--endpoint", endpoint.url, "--model", model, "--on-failure", "leave", "--log", here / "log"]
            result = run("compact", *options, session)
            assert result.exit_code == 3
            said += result.output
    said += run(
        "compact", "--log", here / "log", "--summarizer", shlex.join([sys.executable, "-c", program]), session
    ).output
    kept = b"".join(path.read_bytes() for path in here.rglob("*") if path.is_file())
    assert KEY not in said
    assert KEY.encode() not in kept
    assert b"sessioncompress" in kept
    assert seen.stat().st_size > 0


def test_failures_are_said_and_the_extract_is_written(session: Path) -> None:
    with Endpoint([chat("</summary>")]) as endpoint:
        result = run("compact", "--endpoint", endpoint.url, "--model", "m", session)
    assert result.exit_code == 0
    assert f"warning: {session}: summarized without a model: m: the answer has a closing tag" in result.stderr


def test_a_session_that_is_to_be_left(session: Path) -> None:
    before = snapshot(session)
    result = run("compact", "--summarizer", "false", "--on-failure", "leave", session)
    assert result.exit_code == 3
    assert "no model summarized it: the command failed: it exited with status 1" in result.stderr
    assert snapshot(session) == before


@pytest.mark.parametrize("command", ["compact", "handoff"])
def test_a_model_that_failed_is_named_where_another_summed_up(session: Path, command: str) -> None:
    with Endpoint([Answer(404), chat(PROSE)]) as endpoint:
        options: list[str | Path] = ["--endpoint", endpoint.url, "--model", "a", "--model", "b", session]
        if command == "handoff":
            options += ["-o", session.with_name("new.md")]
        result = run(command, *options)
    assert result.exit_code == 0
    failed = "a: the endpoint answered with HTTP status 404; summarized by the model b"
    assert f"warning: {session}: {failed}\n" in result.stderr
    assert " by the model b" in result.stdout


def test_a_prompt_is_read_once(session: Path, here: Path) -> None:
    """A pipe, as the shell makes one for <(...), gives its text once, for however many sessions."""
    other = write(here, pi(9), "other.jsonl")
    ends, begins = os.pipe()
    os.write(begins, b"Write a poem.")
    os.close(begins)
    program = "import sys; said = sys.stdin.read(); assert said.startswith('Write a poem.\\n'); print('## Goal\\nx')"
    command = [sys.executable, "-m", "sessioncompress", "compact", "--json", "--prompt", f"/dev/fd/{ends}"]
    command += ["--summarizer", shlex.join([sys.executable, "-S", "-c", program]), str(session), str(other)]
    done = subprocess.run(command, pass_fds=[ends], capture_output=True, check=False)
    os.close(ends)
    assert [each["by"] for each in json.loads(done.stdout)["files"]] == ["command", "command"]


@pytest.mark.parametrize("by", ["option", "config"])
@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--if-due", "--rule", "deliberate"]])
def test_a_program_that_is_not_there_is_refused_first(session: Path, here: Path, by: str, more: list[str]) -> None:
    """Before anything is read: the session need not even be one."""
    session.write_bytes(b"no session\n")
    options: list[str | Path] = ["--summarizer", "lllm -m x"]
    if by == "config":
        options = ["--config", policy(here / "own.json", summarizer={"command": "lllm -m x"})]
    result = run("compact", *options, *more, session)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the summarizer program lllm is not found." in result.stderr
    assert "Correct --summarizer, or summarizer.command in your configuration" in result.stderr


@pytest.mark.parametrize("options", [["--dry-run"], ["--check"], ["--dry-run", "--print"]])
def test_a_rehearsal_sends_nothing(session: Path, endpoint: Endpoint, options: list[str]) -> None:
    result = run("compact", *options, "--endpoint", endpoint.url, "--model", "m", session)
    assert result.exit_code == (options == ["--check"])
    assert result.stderr.startswith("nothing is sent now; a run may send up to 120,000 tokens of the session to http")
    assert endpoint.received == []


@pytest.mark.parametrize("command", ["compact", "branch-summary"])
def test_a_rehearsal_says_how_much_would_be_sent(here: Path, endpoint: Endpoint, command: str) -> None:
    """To the token what the run then sends, the prompt included; without a model nothing."""
    policy(here / "compression.json", compact=KEEPS_LITTLE)
    session = write(here, branched().data if command == "branch-summary" else pi(8))
    options: list[str | Path] = ["--endpoint", endpoint.url, "--model", "m", session]
    said = run(command, "--dry-run", *options).stdout
    (would,) = json.loads(run(command, "--dry-run", "--json", *options).stdout)["files"]
    (plain,) = json.loads(run(command, "--dry-run", "--json", session).stdout)["files"]
    result = run(command, "--json", *options)
    (told,) = json.loads(result.stdout)["files"]
    (request,) = endpoint.received
    sent = sum(len(each["content"]) for each in request.body["messages"]) + len("\n\n")
    assert (would["by"], told["by"], plain["tokensSent"]) == ("extractive", "endpoint", 0)
    assert would["tokensSent"] == told["tokensSent"] == -(-sent // 4)
    assert said.endswith(f"; a run would send {told['tokensSent']:,} tokens\n")


def test_its_text_can_be_looked_at(session: Path) -> None:
    before = snapshot(session)
    result = run("compact", "--print", "--summarizer", COMMAND, session)
    assert "Find out which gauge failed." in result.stdout
    assert snapshot(session) == before


REFUSED: list[tuple[list[str], str]] = [
    (["--summarizer", COMMAND, "--no-network"], "--no-network is given, but a model is named"),
    (["--model", "m"], "nothing that writes the summary"),
    (["--summarizer", COMMAND, "--engine", "dask", "--jobs", "1"], "only this machine can ask"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_go_together(session: Path, options: list[str], said: str) -> None:
    before = snapshot(session)
    result = run("compact", *options, session)
    assert result.exit_code == 2
    assert said in result.stderr
    assert snapshot(session) == before


# Whose policy


def test_a_policy_near_a_session_names_no_model(session: Path, here: Path) -> None:
    ran = here / "ran"
    policy(here / "compression.json", compact=KEEPS_LITTLE, summarizer={"command": f"touch {ran}"})
    result = run("compact", session)
    assert result.exit_code == 2
    assert (
        '"session.summarizer" says where sessions are sent, which a file found near a session may not do'
        in result.stderr
    )
    assert "give --summarizer or --endpoint to 'compact'" in result.stderr
    for options in (["--summarizer", COMMAND], ["--endpoint", "http://127.0.0.1:9/v1", "--model", "m"]):
        assert run("compact", "--dry-run", *options, session).exit_code == 0
    assert not ran.exists()


@pytest.mark.parametrize("by", ["config", "configuration"])
def test_a_policy_of_the_users_own_does_and_is_not_asked_about(
    session: Path, here: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr("sessioncompress.cli.options.may_be_asked", lambda: True)
    options: list[str | Path] = []
    if by == "config":
        options = ["--config", policy(here / "own.json", compact=KEEPS_LITTLE, summarizer={"command": COMMAND})]
    else:
        own = here / "own" / "sessioncompress"
        own.mkdir(parents=True)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "own"))
        policy(own / "config.json", summarizer={"command": COMMAND}).chmod(0o600)
    assert run("compact", *options, "--no-network", session).exit_code == 2
    result = run("compact", "--json", *options, session)
    assert json.loads(result.stdout)["files"][0]["by"] == "command"
    assert "may send up to 120,000 tokens of the session to the command python" in result.stderr
    assert "Send it?" not in result.stderr


@pytest.mark.parametrize("secret", [f"https://me:{KEY}@h/v1?x={KEY}", f"https://me:{KEY}/x@h"])
def test_config_shows_no_secret_of_a_url(here: Path, secret: str) -> None:
    own = policy(here / "own.json", summarizer={"endpoint": secret, "models": ["m"]})
    for options in ([], ["--json"]):
        assert KEY not in run("config", "show", "--config", own, *options, here).output


def test_the_journal_has_nothing_of_them(session: Path, here: Path, endpoint: Endpoint) -> None:
    """A URL, and a command, may hold what is secret."""
    run("compact", "--endpoint", endpoint.url + "?x=1", "--model", "m", "--api-key-env", "MINE", session)
    (journal,) = journals_in(here)
    assert b"127.0.0.1" not in journal.read_bytes()
    assert b"MINE" not in journal.read_bytes()


# branch-summary and handoff


def test_a_branch_and_a_handoff_have_prompts_of_their_own(here: Path) -> None:
    session = write(here, branched().data)
    with Endpoint([chat(PROSE), chat(PROSE), chat("</summary>")]) as endpoint:
        options: list[str | Path] = ["--endpoint", endpoint.url, "--model", "m", session]
        rehearsed = run("branch-summary", "--json", "--dry-run", *options)
        (told,) = json.loads(rehearsed.stdout)["files"]
        assert (told["by"], endpoint.received) == ("extractive", [])
        handed = run("handoff", *options)
        branch = run("branch-summary", "--json", *options)
        again = run("handoff", *options)
        left = run("handoff", "--on-failure", "leave", *options)
    assert "Find out which gauge failed." in handed.stdout
    assert handed.stderr == f"may send up to 120,000 tokens of the session to {endpoint.url} (this machine), m\n"
    (told,) = json.loads(branch.stdout)["files"]
    assert (told["by"], told["model"], told["modelFailure"]) == ("endpoint", "m", "")
    assert "summarized without a model: m: the answer has a closing tag" in again.stderr
    assert (left.exit_code, left.stdout) == (3, "")
    first, second = (each.body["messages"][0]["content"] for each in endpoint.received[:2])
    assert "You write the handoff" in first
    assert "You sum up a branch" in second
    for command in ("handoff", "branch-summary"):
        assert run(command, *options, "--no-network").exit_code == 2


def test_a_branch_that_goes_on_meanwhile_is_not_left(here: Path) -> None:
    """The agent's newest line would stand behind the summary, so that the session would stay on it."""
    session = write(here, branched().data)
    before, (last,) = session.read_bytes(), session.read_bytes().splitlines(keepends=True)[-1:]
    new = json.loads(last)
    line = json.dumps({**new, "parentId": new["id"], "id": "0a0b0c0d"}) + "\n"
    program = f"open({str(session)!r}, 'a').write({line!r}); print('Fine.')"
    result = run("branch-summary", "--summarizer", shlex.join([sys.executable, "-S", "-c", program]), session)
    assert (result.exit_code, result.stdout) == (0, f"{session}: skipped: its agent added to it during the summary\n")
    assert session.read_bytes() == before + line.encode()


def test_a_handoff_that_cannot_be_is_refused_before_anything_is_sent(here: Path, endpoint: Endpoint) -> None:
    """A file that is there, a folder that is not, an agent that gets no new session."""
    session, taken = write(here, claude(8)), write(here, b"mine", "taken.md")
    options: list[str | Path] = ["--endpoint", endpoint.url, "--model", "m", session]
    for more, code in ((["-o", taken], 4), (["-o", here / "none" / "new.md"], 3), (["--new"], 4)):
        assert run("handoff", *more, *options).exit_code == code
    assert endpoint.received == []
    assert taken.read_bytes() == b"mine"


def test_a_new_session_that_is_there_is_refused_before_anything_is_sent(here: Path) -> None:
    """Its name depends on no word of the answer; another goal makes another one."""
    session = write(here, pi(8))
    with Endpoint([chat(PROSE), chat(PROSE + "More.\n")]) as endpoint:
        options: list[str | Path] = ["--new", "--endpoint", endpoint.url, "--model", "m", session]
        assert run("handoff", *options).exit_code == 0
        (begun,) = set(here.glob("*.jsonl")) - {session}
        again = run("handoff", *options)
        assert (again.exit_code, len(endpoint.received)) == (4, 1)
        assert f"{begun}: the file exists" in again.stderr
        assert run("handoff", *options, "--goal", "Mend it").exit_code == 0
    assert b"Find out which gauge failed" in begun.read_bytes()
    assert json.loads(begun.read_bytes().splitlines()[0])["id"] in begun.name
    assert len(list(here.glob("*.jsonl"))) == 3


# The question


ANSWERS = {"y\n": ["command"], "n\n": []}


@pytest.mark.parametrize("answer", ANSWERS)
def test_it_is_asked_at_a_terminal(session: Path, answer: str) -> None:
    before = session.read_bytes()
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    command = [sys.executable, "-m", "sessioncompress", "compact", "--json", "--summarizer", COMMAND, str(session)]
    done = subprocess.run(command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, check=False)
    said = os.read(ours, 1 << 16).decode()
    for each in (ours, theirs):
        os.close(each)
    assert done.returncode == 0
    assert "Send it? [y/N]: " in said
    files = json.loads(done.stdout)["files"] if done.stdout else []
    assert [each["by"] for each in files] == ANSWERS[answer]
    assert (session.read_bytes() == before) is (answer == "n\n")


def test_yes_and_nobody_to_answer(session: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessioncompress.cli.options.may_be_asked", lambda: True)
    options = ["compact", "--summarizer", COMMAND]
    assert run(*options, session, answer="").exit_code == 2
    assert run(*options, "--yes", session, answer="").exit_code == 0


def test_several_sessions(here: Path, session: Path) -> None:
    write(here, pi(9), "other.jsonl")
    rehearsed = run("compact", "--dry-run", "--summarizer", COMMAND, here).stdout
    result = run("compact", "--json", "--summarizer", COMMAND, here)
    sent = sum(each["tokensSent"] for each in json.loads(result.stdout)["files"])
    assert f"tokens for the model; a run would send {sent:,} tokens" in " ".join(rehearsed.split())
    assert result.stderr.startswith("may send up to 120,000 tokens of each of 2 sessions to the command python")
    assert [each["by"] for each in json.loads(result.stdout)["files"]] == ["command", "command"]
