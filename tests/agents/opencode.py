"""Imports an exported session into the installed OpenCode or Kilo, resumes it, and returns the request that it sends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.agents.installed import MODULES
from tests.agents.replies import Reply
from tests.agents.standin import Request, StandIn

PROMPT = "next step"
SECONDS = 180
_CLIENTS = {
    "openai": "@ai-sdk/openai",
    "azure": "@ai-sdk/azure",
    "anthropic": "@ai-sdk/anthropic",
    "copilot": "@ai-sdk/github-copilot",
}
"""The clients whose data stand in a session, by the key under which they do: a resume with another leaves these out."""


class Fork(NamedTuple):
    """OpenCode, or a program made from it: its name, that of its command and folders, and its packages."""

    called: str
    folder: str
    package: str
    plugins: str

    @property
    def database(self) -> Path:
        """Where the sessions lie, in a home."""
        return Path("data", self.folder, f"{self.folder}.db")


OPENCODE = Fork("OpenCode", "opencode", "opencode-*", "@opencode-ai/plugin")
KILO = Fork("Kilo", "kilo", "@kilocode/cli-*", "@kilocode/plugin")


class ResumeError(RuntimeError):
    """OpenCode did not send the request of a resumed session."""


EXPORTED = "exported.json"
"""The session as the agent left it, in the folder in which it went on."""


@cache
def program(modules: Path = MODULES, fork: Fork = OPENCODE) -> Path | None:
    """Return the program itself, which npm brings in a package for each platform."""
    found = sorted(modules.glob(f"{fork.package}/bin/{fork.folder}"))
    return next((path for path in found if os.access(path, os.X_OK) and path.parent.parent.name != "opencode-ai"), None)


def resume(session: Path, workdir: Path) -> Request:
    """Import a session, resume it with one more prompt, and return the request that OpenCode sent."""
    return resume_often(session, workdir, 1)[0]


def resume_often(
    session: Path,
    workdir: Path,
    times: int,
    *,
    window: int = 10_000_000,
    auto: bool = False,
    first: Reply | None = None,
    prepare: Callable[[Path], None] = lambda home: None,
    change: Callable[[Path], object] = lambda database: None,
    fork: Fork = OPENCODE,
) -> list[Request]:
    """Import a session, and resume it so often with one more prompt; return the requests that OpenCode sent.

    `auto` lets it compact the session itself, which may take more requests; the session is exported then. `first`
    answers the first request, with a call; `prepare` is given the home before anything starts, and `change` the
    database in which the session is then.
    """
    document = json.loads(session.read_bytes())
    provider, model = _model(document)
    with StandIn(first=first) as stand_in:
        home = make_home(workdir / "opencode-home", fork)
        prepare(home)
        config = config_for(_client(document), provider, model, stand_in.url)
        config["compaction"]["auto"] = auto
        config["provider"][provider]["models"][model]["limit"]["context"] = window
        environment = environment_of(home, stand_in.url, config, fork)
        name = document["info"]["id"]
        imported = _start(["import", str(session.absolute())], home, environment, fork)
        if imported.returncode or f"Imported session: {name}" not in imported.stdout:
            raise ResumeError(f"{fork.called} did not import: {(imported.stdout + imported.stderr)[-2000:]}")
        change(home / fork.database)
        start = ["run", "--session", name, "--model", f"{provider}/{model}", PROMPT]
        runs = [_start(start, home, environment, fork) for _ in range(times)]
        if auto:
            # Into a file: through a pipe the agent writes no more than 128 KB.
            with (workdir / EXPORTED).open("wb") as file:
                arguments = [str(program(fork=fork)), "export", name]
                subprocess.run(arguments, cwd=home / "work", env=environment, stdout=file, check=True, timeout=SECONDS)
    failed = next((done for done in runs if done.returncode), None)
    if (len(stand_in.requests) != times + (first is not None) and not auto) or failed:
        sent = [request.path for request in stand_in.requests]
        said = f"exit {failed.returncode}: {(failed.stdout + failed.stderr)[-2000:]}" if failed else ""
        raise ResumeError(f"{fork.called} sent {sent} {said}")
    if stand_in.strangers:
        raise ResumeError(f"{fork.called} wanted to reach {stand_in.strangers}")
    return stand_in.requests


def thoughts(session: Path) -> frozenset[str]:
    return frozenset(part["text"] for part in _parts(json.loads(session.read_bytes())) if part["type"] == "reasoning")


def _parts(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (part for message in document["messages"] for part in message["parts"])


def _model(document: Mapping[str, Any]) -> tuple[str, str]:
    infos = [message["info"] for message in document["messages"]]
    last = next(info for info in reversed(infos) if info["role"] == "assistant")
    return last["providerID"], last["modelID"]


def _client(document: Mapping[str, Any]) -> str:
    keys = {key for part in _parts(document) for key in part.get("metadata") or ()}
    return next((client for key, client in _CLIENTS.items() if key in keys), "@ai-sdk/openai-compatible")


def config_for(client: str, provider: str, model: str, url: str) -> dict[str, Any]:
    """Put the session's own model at the stand-in: what it thought is sent again to a model of the same name."""
    return {
        "share": "disabled",
        "autoupdate": False,
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "compaction": {"auto": False, "prune": False},
        "enabled_providers": [provider],
        "small_model": f"{provider}/{model}",
        "provider": {
            provider: {
                "npm": client,
                "options": {"baseURL": f"{url}/v1", "apiKey": "no-key"},
                "models": {
                    model: {
                        "reasoning": True,
                        "tool_call": True,
                        "attachment": True,
                        "modalities": {"input": ["text", "image"], "output": ["text"]},
                        "limit": {"context": 10_000_000, "output": 16_000},
                    }
                },
            }
        },
    }


def make_home(home: Path, fork: Fork = OPENCODE) -> Path:
    """Make a home folder: with no models but those of the session, and the package for plugins as if it were there."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "work").mkdir(parents=True)
    folder = home / "config" / fork.folder
    (folder / "node_modules").mkdir(parents=True)
    lock = {"packages": {"": {"dependencies": {fork.plugins: "*"}}}}
    (folder / "package-lock.json").write_text(json.dumps(lock))
    (home / "models.json").write_text("{}")
    return home


def environment_of(home: Path, url: str, config: Mapping[str, Any], fork: Fork = OPENCODE) -> dict[str, str]:
    """Return a fresh environment; whatever would leave the machine goes to the stand-in, which notes it."""
    quiet = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE", "CLAUDE_CODE", "EXTERNAL_SKILLS")
    name = fork.folder.upper()
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE", "STATE")},
        **{f"{name}_DISABLE_{what}": "1" for what in quiet},
        "KILO_TELEMETRY_LEVEL": "off",
        f"{name}_CONFIG_CONTENT": json.dumps(config),
        f"{name}_MODELS_PATH": str(home / "models.json"),
        "HTTP_PROXY": url,
        "HTTPS_PROXY": url,
        "NO_PROXY": "127.0.0.1,localhost",
    }


def _start(
    arguments: list[str], home: Path, environment: Mapping[str, str], fork: Fork
) -> subprocess.CompletedProcess[str]:
    started = program(fork=fork)
    if started is None:
        raise ResumeError(f"{fork.called} is not installed")
    return subprocess.run(
        [str(started), *arguments],
        cwd=home / "work",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
