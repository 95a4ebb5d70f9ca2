"""Resumes a session with an installed version of pi, and returns the request that it would have sent to the model."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.agents.installed import MODULES, node, program
from tests.agents.replies import Reply
from tests.agents.sessions import ROOT
from tests.agents.standin import Request, StandIn

PROMPT = "next step"
SECONDS = 60
_PLACES = {
    "anthropic-messages": "",
    "openai-responses": "/v1",
    "openai-codex-responses": "/backend-api",
    "openai-completions": "/v1",
    "google-generative-ai": "/v1beta",
}
_RENAMED_APIS = {b'"api":"google-gemini-cli"': b'"api":"google-generative-ai"'}


@dataclass(frozen=True, slots=True)
class Model:
    provider: str
    api: str
    id: str


@dataclass(frozen=True, slots=True)
class Run:
    requests: tuple[Request, ...]
    strangers: tuple[str, ...]
    session: bytes
    exit_code: int
    output: str


class ResumeError(RuntimeError):
    """Pi did not send the request of a resumed session."""


@cache
def versions() -> tuple[str, ...]:
    """Return the installed versions that the Node at hand can run, oldest first."""
    found = (path.name.removeprefix("pi-") for path in MODULES.glob("pi-*") if (path / "package.json").is_file())
    return tuple(sorted(found, key=_numbers)) if node() else ()


def _numbers(version: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", version)]


def with_cwd(session: Path, cwd: Path, copy: Path) -> Path:
    """Copy a session with only its header changed: pi refuses a session whose folder is gone.

    pi no longer speaks the Gemini CLI's own API; the messages of such a session are renamed to Google's public API,
    which pi converts alike, so that it still takes them for the same model's and replays their signatures.
    """
    data = session.read_bytes()
    for old, new in _RENAMED_APIS.items():
        data = data.replace(old, new)
    lines = data.splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if _is_header(line))
    header = json.loads(lines[place])
    lines[place] = json.dumps(header | {"cwd": str(cwd)}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    copy.write_bytes(b"".join(lines))
    return copy


def _is_header(line: bytes) -> bool:
    return line.startswith(b"{") and json.loads(line).get("type") == "session"


def resume(version: str, session: Path, workdir: Path) -> Request:
    """Resume a copy of a session with one more prompt, and return the request that pi sent."""
    found = run(version, session, workdir)
    if len(found.requests) != 1 or found.exit_code:
        sent = [request.path for request in found.requests]
        raise ResumeError(f"pi {version}: exit {found.exit_code}, sent {sent}: {found.output[-2000:]}")
    if found.strangers:
        raise ResumeError(f"pi {version} wanted to reach {found.strangers}")
    return found.requests[0]


def run(
    version: str,
    session: Path,
    workdir: Path,
    *,
    context_window: int = 10_000_000,
    usage: int = 1000,
    settings: Mapping[str, Any] | None = None,
    like: Path | None = None,
) -> Run:
    """Resume a copy of a session with one more prompt; `settings` are laid over those that keep pi to itself.

    The models are those of the session, or of the one that it is `like`.
    """
    models = tuple(dict.fromkeys(_models(like or session)))
    with StandIn(usage=usage) as stand_in:
        agent = agent_folder(workdir / f"agent-{version}", models, stand_in.url, context_window, settings or {})
        copy = Path(shutil.copyfile(session, agent / "sessions" / session.name))
        arguments = ["--session", str(copy), *_choice(models), "-p", PROMPT]
        done = _start(version, arguments, agent, stand_in.url)
        return Run(
            tuple(stand_in.requests),
            tuple(stand_in.strangers),
            copy.read_bytes(),
            done.returncode,
            done.stdout + done.stderr,
        )


def compact(version: str, session: Path, workdir: Path, *, keep: int) -> Run:
    """Let pi compact a copy of a session itself, keeping about so many tokens."""
    models = tuple(dict.fromkeys(_models(session)))
    with StandIn() as stand_in:
        settings = {"compaction": {"enabled": False, "keepRecentTokens": keep}}
        agent = agent_folder(workdir / f"compact-{version}", models, stand_in.url, 10_000_000, settings)
        copy = Path(shutil.copyfile(session, agent / "sessions" / session.name))
        arguments = ["--mode", "rpc", "--session", str(copy), *_choice(models)]
        output, code = asked(_command(version, arguments), agent, stand_in.url, {"type": "compact"})
        return Run(tuple(stand_in.requests), tuple(stand_in.strangers), copy.read_bytes(), code, output)


def asked(command: list[str], agent: Path, url: str, asks: Mapping[str, Any]) -> tuple[str, int]:
    """Ask pi one thing, and return what it says up to its answer, and how it ended."""
    environment = environment_of(agent, url, Path(command[0]))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=agent, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        stop = threading.Timer(SECONDS, process.kill)
        stop.start()
        process.stdin.write(json.dumps(asks) + "\n")
        process.stdin.flush()
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if '"type":"response"' in line:
                break
        process.stdin.close()
        code = process.wait()
        stop.cancel()
    return "".join(said), code


@dataclass(frozen=True, slots=True)
class Home:
    """A folder of pi's own with a session in it, where more than one run is to find what the one before it left."""

    agent: Path
    session: Path
    models: tuple[Model, ...]

    def go_on(self, version: str, first: Reply) -> list[Request]:
        """Go on with the session; `first` answers the first request. Returns the requests."""
        with StandIn(first=first) as stand_in:
            place = providers(self.models, stand_in.url, 10_000_000)
            (self.agent / "models.json").write_text(json.dumps({"providers": place}))
            arguments = ["--session", str(self.session), *_choice(self.models), "-p", PROMPT]
            done = _start(version, arguments, self.agent, stand_in.url)
        if done.returncode or stand_in.strangers:
            raise ResumeError(f"pi {version}: exit {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return stand_in.requests


def home(session: Path, folder: Path) -> Home:
    """Make such a folder, which is also the session's project; the session is copied."""
    models = tuple(dict.fromkeys(_models(session)))
    agent = agent_folder(folder, models, "", 10_000_000, {})
    return Home(agent, with_cwd(session, agent, agent / "sessions" / session.name), models)


def export_html(version: str, session: Path, workdir: Path) -> str:
    """Return the page that pi draws of a session."""
    agent = agent_folder(workdir / f"export-{version}", (), "http://127.0.0.1:9", 100_000, {})
    page = agent / "page.html"
    copy = Path(shutil.copyfile(session, agent / "sessions" / session.name))
    done = _start(version, ["--export", str(copy), str(page)], agent, "http://127.0.0.1:9")
    if done.returncode or not page.exists():
        raise ResumeError(f"pi {version} --export: exit {done.returncode}: {done.stdout}{done.stderr}")
    return page.read_text()


def exported_session(page: str) -> dict[str, Any]:
    """Return the session that an exported page carries for its script to draw."""
    match = re.search(r'<script id="session-data" type="application/json">([^<]*)</script>', page)
    if match is None:
        raise ResumeError("the exported page carries no session")
    data: dict[str, Any] = json.loads(base64.b64decode(match.group(1)))
    return data


def entries(session: Path) -> Iterator[dict[str, Any]]:
    for line in session.read_bytes().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def thoughts(session: Path) -> frozenset[str]:
    """Return the texts of a session's thinking, which pi sends as plain text to another model."""
    messages = (entry.get("message") or {} for entry in entries(session))
    blocks = (block for message in messages if message.get("role") == "assistant" for block in message["content"])
    return frozenset(block["thinking"] for block in blocks if block["type"] == "thinking")


def _models(session: Path) -> Iterator[Model]:
    """Yield the models whose messages a session holds, in their order."""
    for entry in entries(session):
        message = entry.get("message") or {}
        if message.get("role") == "assistant" and message.get("api") in _PLACES:
            yield Model(message["provider"], message["api"], message["model"])


def _choice(models: tuple[Model, ...]) -> list[str]:
    """Name the last model, which pi would choose itself wherever the session's last change of model was followed."""
    return ["--provider", models[-1].provider, "--model", models[-1].id] if models else []


def agent_folder(
    folder: Path, models: tuple[Model, ...], url: str, context_window: int, settings: Mapping[str, Any]
) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "sessions").mkdir(parents=True)
    (folder / "home").mkdir()
    quiet = {
        "compaction": {"enabled": False},
        "enableInstallTelemetry": False,
        "retry": {"enabled": False, "provider": {"maxRetries": 0}},
        "transport": "sse",
    }
    (folder / "settings.json").write_text(json.dumps(quiet | dict(settings)))
    (folder / "models.json").write_text(json.dumps({"providers": providers(models, url, context_window)}))
    return folder


def providers(models: tuple[Model, ...], url: str, context_window: int) -> dict[str, Any]:
    """Put the session's own models at the stand-in: pi compares provider, api and id, never the address."""
    made: dict[str, Any] = {}
    for model in models:
        provider = made.setdefault(
            model.provider,
            {"baseUrl": url + _PLACES[model.api], "api": model.api, "apiKey": _key(model.api), "models": []},
        )
        provider["models"].append(
            {
                "id": model.id,
                "api": model.api,
                "baseUrl": url + _PLACES[model.api],
                "reasoning": True,
                "input": ["text", "image"],
                "contextWindow": context_window,
                "maxTokens": 16_000,
            }
        )
    return made


def _key(api: str) -> str:
    """Return a key that opens nothing; for Codex it has the shape of a token, from which pi reads the account."""
    if api != "openai-codex-responses":
        return "no-key"
    claims = {"https://api.openai.com/auth": {"chatgpt_account_id": "nobody"}}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.none"


def _start(version: str, arguments: list[str], agent: Path, url: str) -> subprocess.CompletedProcess[str]:
    command = _command(version, arguments)
    return subprocess.run(
        command,
        cwd=agent,
        env=environment_of(agent, url, Path(command[0])),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def _command(version: str, arguments: list[str]) -> list[str]:
    runtime = node()
    if runtime is None:
        raise ResumeError("no Node was found")
    return [str(runtime), str(program(MODULES / f"pi-{version}", "pi")), *arguments]


def environment_of(agent: Path, url: str, runtime: Path) -> dict[str, str]:
    """Return a fresh environment; whatever would leave the machine goes to the stand-in, which notes it."""
    return {
        "PATH": os.pathsep.join([str(runtime.parent), os.defpath]),
        "PYTHONPATH": str(ROOT),
        "HOME": str(agent / "home"),
        "PI_CODING_AGENT_DIR": str(agent),
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
        "PI_TELEMETRY": "0",
        "HTTP_PROXY": url,
        "HTTPS_PROXY": url,
        "NO_PROXY": "127.0.0.1,localhost",
        "NODE_COMPILE_CACHE": str(MODULES / ".cache" / "compiled"),
    }
