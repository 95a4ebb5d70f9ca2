"""Resumes a rollout with the installed Codex CLI, and returns the request that it would have sent to the model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from tests.agents.installed import MODULES
from tests.agents.replies import Reply
from tests.agents.sessions import ROOT
from tests.agents.standin import Request, StandIn

PROMPT = "next step"
SECONDS = 60
_NOWHERE = "http://127.0.0.1:9"
PROVIDER = "standin"
"""A resume needs a provider of the session's own name, and those that Codex has itself cannot be sent elsewhere."""


class ResumeError(RuntimeError):
    """Codex did not send the request of a resumed session."""


@cache
def program(modules: Path = MODULES) -> Path | None:
    """Return Codex's own program, which npm brings in a package for each platform."""
    found = (path for path in sorted(modules.glob("@openai/codex-*/vendor/*/*/codex")) if os.access(path, os.X_OK))
    return next(found, None)


def ours(session: Path, copy: Path) -> Path:
    """Copy a rollout with only its headers changed: they name the provider, which here is the stand-in."""
    lines = session.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join(_with_provider(line) if b'"session_meta"' in line else line for line in lines))
    return copy


def _with_provider(line: bytes) -> bytes:
    entry = json.loads(line)
    if entry["type"] != "session_meta":
        return line
    entry["payload"]["model_provider"] = PROVIDER
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Placed:
    home: Path
    cwd: Path
    rollout: Path
    name: str
    model: str


def resume(session: Path, workdir: Path) -> Request:
    """Resume a copy of a rollout with one more prompt, and return the request that Codex sent."""
    requests = go_on(placed(session, workdir))
    if len(requests) != 1:
        raise ResumeError(f"Codex sent {[request.path for request in requests]}")
    return requests[0]


def placed(session: Path, workdir: Path) -> Placed:
    """Put a copy of a rollout into a home of its own.

    Codex names the folder that it works in, which for all runs of a test is the one around their own.
    """
    home = workdir / "codex-home"
    shutil.rmtree(home, ignore_errors=True)
    folder = home / "sessions" / "2026" / "03" / "02"
    folder.mkdir(parents=True)
    name = str(next(_payloads(session, "session_meta"))["id"])
    rollout = Path(shutil.copyfile(session, folder / f"rollout-2026-03-02T09-00-00-{name}.jsonl"))
    return Placed(home, workdir.parent, rollout, name, _model(session))


def go_on(
    there: Placed, most: int = 9_000_000, *, first: Reply | None = None, options: Sequence[str] = ()
) -> list[Request]:
    """Go on with a rollout where it was placed, and return the requests; from `most` tokens on Codex compacts it.

    `first` answers the first request.
    """
    with StandIn(first=first) as stand_in:
        configure(there, stand_in.url, most)
        arguments = ["exec", *options, "resume", "--skip-git-repo-check", there.name, PROMPT]
        done = _start(arguments, there.home, there.cwd, stand_in.url)
    if not stand_in.requests or done.returncode:
        sent = [request.path for request in stand_in.requests]
        raise ResumeError(f"Codex: exit {done.returncode}, sent {sent}: {(done.stdout + done.stderr)[-2000:]}")
    if stand_in.strangers:
        raise ResumeError(f"Codex wanted to reach {stand_in.strangers}")
    return stand_in.requests


def trust_hooks(there: Placed) -> None:
    """Trust all hooks, as a user does with `/hooks`."""
    with app_server(there) as ask:
        (found,) = ask("hooks/list", cwds=[str(there.cwd)])["data"]
        state = {each["key"]: {"trusted_hash": each["currentHash"]} for each in found["hooks"]}
        edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
        ask("config/batchWrite", edits=[edit])


def migrate(there: Placed) -> None:
    """Have Codex give a rollout ordinals, as it does with all that lie in its home. Raises if it refuses one."""
    configure(there, _NOWHERE, 9_000_000)
    done = _start(["migrate-rollouts", "--apply"], there.home, there.cwd, _NOWHERE)
    if done.returncode:
        raise ResumeError(f"Codex: exit {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")


def fork(there: Placed, turn: int, most: int = 9_000_000) -> tuple[list[Request], Any]:
    """Fork a rollout behind one of its turns, and go on with the fork; return the requests, and the rollout's turns.

    From `most` tokens on Codex compacts the fork.
    """
    configure(there, _NOWHERE, most)
    with app_server(there) as ask:
        # Before that its index says nothing of the rollout.
        ask("thread/resume", threadId=there.name)
        turns = ask("thread/read", threadId=there.name, includeTurns=True)["thread"]["turns"]
        made = ask("thread/fork", threadId=there.name, lastTurnId=turns[turn]["id"])["thread"]["id"]
    return go_on(replace(there, name=made), most), turns


def listed(there: Placed) -> list[list[tuple[str, str]]]:
    """Return the turns that Codex lists of a rollout it has resumed: of each item the type, and what a user said."""
    with app_server(there) as ask:
        turns = ask("thread/read", threadId=there.name, includeTurns=True)["thread"]["turns"]
    return [[(each["type"], _asked(each)) for each in turn["items"]] for turn in turns]


def _asked(item: Mapping[str, Any]) -> str:
    return "".join(part["text"] for part in item["content"]) if item["type"] == "userMessage" else ""


@contextmanager
def app_server(there: Placed, started: Path | None = None) -> Iterator[Callable[..., Any]]:
    """Start Codex's server for editors, of another program with `started`; yield what asks it by a method."""
    start = [str(started or program()), "app-server"]
    own = {"PATH": os.defpath, "HOME": str(there.home), "CODEX_HOME": str(there.home)}
    hidden = subprocess.DEVNULL
    with subprocess.Popen(start, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=hidden) as server:
        given_to, said, numbers = server.stdin, server.stdout, count(1)
        assert given_to is not None
        assert said is not None

        def ask(method: str, **given: Any) -> Any:
            number = next(numbers)
            given_to.write(json.dumps({"id": number, "method": method, "params": given}).encode() + b"\n")
            given_to.flush()
            heard = (each for each in map(json.loads, said) if each.get("id") == number and "method" not in each)
            answer = next(heard, {"error": {"message": "no answer"}})
            if "error" in answer:
                raise ResumeError(f"{method}: {answer['error']['message']}")
            return answer["result"]

        stop = threading.Timer(SECONDS, server.kill)
        stop.start()
        try:
            ask("initialize", clientInfo={"name": "tests", "version": "1"}, capabilities={"experimentalApi": True})
            yield ask
            # So it closes its databases.
            given_to.close()
            server.wait()
        finally:
            stop.cancel()
            server.kill()


def _payloads(session: Path, kind: str) -> Iterator[Mapping[str, Any]]:
    for line in session.read_bytes().splitlines():
        entry = json.loads(line)
        if entry.get("type") == kind:
            yield entry["payload"]


def _model(session: Path) -> str:
    return str([turn["model"] for turn in _payloads(session, "turn_context")][-1])


def configure(there: Placed, url: str, most: int, sandbox: str = "read-only") -> None:
    """Write the settings of a home: the model, from how many tokens on Codex compacts, and what it may do."""
    (there.home / "config.toml").write_text(
        f"""\
model = "{there.model}"
model_provider = "{PROVIDER}"
model_context_window = 10000000
model_auto_compact_token_limit = {most}
approval_policy = "never"
sandbox_mode = "{sandbox}"
check_for_update_on_startup = false
web_search = "disabled"

[analytics]
enabled = false

[feedback]
enabled = false

[history]
persistence = "none"

[features]
apps = false
plugins = false

[model_providers.{PROVIDER}]
name = "The stand-in"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
    )


def _start(arguments: list[str], home: Path, cwd: Path, url: str) -> subprocess.CompletedProcess[str]:
    started = program()
    if started is None:
        raise ResumeError("Codex is not installed")
    return subprocess.run(
        [str(started), *arguments],
        cwd=cwd,
        env={
            "PATH": os.defpath,
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
            "CODEX_HOME": str(home),
            "HTTP_PROXY": url,
            "HTTPS_PROXY": url,
            "NO_PROXY": "127.0.0.1,localhost",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
