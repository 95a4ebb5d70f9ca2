"""The agents that the watch starts, each as a user would: in one home, again and again, with all that it keeps there."""

from __future__ import annotations

import json
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.agents import claude, claude_screen, codex, gemini, opencode, pi, replies, watch_story
from tests.agents.installed import bun, node, program
from tests.agents.replies import Reply
from tests.agents.resuming import SECONDS, ResumeError, environment_of
from tests.agents.standin import StandIn
from tests.agents.watch_story import Step, Tools, Use

MODEL = "claude-sonnet-4-5"
_MODELS = (pi.Model("standin", "anthropic-messages", MODEL),)
_WINDOW = 10_000_000
_KEPT = {"enabled": False, "keepRecentTokens": 2000}
"""How pi and oh-my-pi compact: when they are asked to, and nearly all."""

_T = TypeVar("_T")
_Command = list[str | Path]


@dataclass(frozen=True, slots=True)
class Seat:
    """Where an agent lives while it is watched: what npm installed, its home, its project, and the stand-in."""

    modules: Path
    home: Path
    cwd: Path
    stand_in: StandIn
    asked: list[str] = field(default_factory=list)
    """The prompts so far."""

    @property
    def url(self) -> str:
        return self.stand_in.url


class NotReadError(Exception):
    """The agent keeps its sessions as we do not read them yet."""


class Agent(ABC):
    """How one agent is brought, started and asked."""

    name: str
    package: str
    """What npm installs; where it ends with a dash, what is pinned under names that begin so, one for each platform."""
    runtime: str = ""
    """What starts it, in the same way."""
    files: str
    """Where below the home its sessions lie."""
    tools: Tools
    says: Callable[[Step], Reply] = staticmethod(watch_story.anthropic)
    lists_all: bool = True
    """Whether it still lists what stands before a compaction."""

    @abstractmethod
    def settle(self, seat: Seat, *, compacting: bool = False) -> None:
        """Write the agent's settings; with `compacting` it compacts what it goes on with."""

    @abstractmethod
    def start(self, seat: Seat, prompt: str, session: Path | None) -> _Command:
        """Return the command that asks a prompt, in a new session where there is none yet."""

    @abstractmethod
    def turns(self, seat: Seat, session: Path) -> list[str]:
        """Return what the agent itself lists of a session, one line a turn."""

    def environment(self, seat: Seat) -> Mapping[str, str]:
        """Return what of the environment is the agent's own."""
        return {}

    def ask(self, seat: Seat, prompt: str, session: Path | None) -> None:
        """Ask a prompt, and wait for the end of its turn."""
        seat.asked.append(prompt)
        self.run(seat, self.start(seat, prompt, session))

    def compact(self, seat: Seat, session: Path) -> None:
        self.settle(seat, compacting=True)
        self.ask(seat, "Go on.", session)
        self.settle(seat)

    def put_back(self, seat: Seat, session: Path) -> None:  # noqa: B027 - most agents read the file itself
        """Have the agent go on with the file as it is now."""

    def sessions(self, seat: Seat) -> list[Path]:
        return sorted(seat.home.glob(self.files), key=lambda path: path.stat().st_size, reverse=True)

    def run(self, seat: Seat, command: _Command) -> str:
        """Run a command to its end, and return what it printed. Raises ResumeError where it fails."""
        # Through a pipe OpenCode writes no more than 128 KB.
        printed = seat.home.with_name("printed")
        with printed.open("wb") as file:
            done = subprocess.run(
                list(map(str, command)),
                cwd=seat.cwd,
                env={**environment_of(seat.home, seat.url), **self.environment(seat)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                timeout=SECONDS,
                check=False,
            )
        said = printed.read_text(errors="replace")
        if done.returncode:
            error = f"{said}{done.stderr.decode(errors='replace')}"[-500:]
            raise ResumeError(f"{self.name}: exit {done.returncode}: {error}")
        return said


def _there(found: _T | None) -> _T:
    assert found is not None, "npm brought no program for this platform"
    return found


def _use(tool: str, *keys: str, **more: Any) -> Callable[..., Use]:
    """Return what uses a tool, given what stands under these keys."""
    return lambda *given: (tool, dict(zip(keys, given, strict=True)) | more)


_exec = _use("exec_command", "cmd")


def _patch(what: str, lines: str) -> Use:
    return "apply_patch", f"*** Begin Patch\n*** {what}\n{lines}*** End Patch"


def _header(session: Path) -> Any:
    with session.open("rb") as file:
        return json.loads(file.readline())


class Codex(Agent):
    """Codex CLI, which has an index of its rollouts, and an app server for editors."""

    name, package = "codex", "@openai/codex"
    files = "sessions/*/*/*/rollout-*.jsonl"
    says = staticmethod(watch_story.responses)
    tools = Tools(
        write=lambda path, text: _exec(f"cat > {path} <<'EOF'\n{text}EOF"),
        read=lambda path: _exec(f"cat {path}"),
        edit=lambda path, old, new: _patch(f"Update File: {path}", f"@@\n-{old}\n+{new}\n"),
        run=_exec,
        look=_use("view_image", "path"),
        patch=lambda path, text: _patch(f"Add File: {path}", re.sub("(?m)^(?=.)", "+", text)),
    )

    def settle(self, seat: Seat, *, compacting: bool = False) -> None:
        codex.configure(self._placed(seat), seat.url, 500 if compacting else 9_000_000, "danger-full-access")

    def start(self, seat: Seat, prompt: str, session: Path | None) -> _Command:
        resuming = ["resume", self._placed(seat, session).name] if session else []
        own = ["exec", *resuming[:1], "--skip-git-repo-check", *resuming[1:], prompt]
        return [_there(codex.program(seat.modules)), *own]

    def environment(self, seat: Seat) -> Mapping[str, str]:
        return {"CODEX_HOME": str(seat.home)}

    def turns(self, seat: Seat, session: Path) -> list[str]:
        there, found = self._placed(seat, session), list[str]()
        with codex.app_server(there, codex.program(seat.modules)) as ask:
            for method, more in (("read", {"includeTurns": True}), ("resume", {}), ("fork", {})):
                try:
                    turns = ask(f"thread/{method}", threadId=there.name, **more)["thread"]["turns"]
                except codex.ResumeError as error:
                    found.append(str(error))
                else:
                    found += [f"{method}: {' '.join(filter(None, map(_item, turn['items'])))}" for turn in turns]
        return found

    def _placed(self, seat: Seat, session: Path | None = None) -> codex.Placed:
        name = str(_header(session)["payload"]["id"]) if session else ""
        return codex.Placed(seat.home, seat.cwd, session or seat.home, name, "gpt-5.5")


def _item(item: Mapping[str, Any]) -> str:
    """Say what an item of a turn is, and what was asked; a compaction belongs to the turn that it comes behind."""
    asked = item["content"][0].get("text") if item["type"] == "userMessage" else ""
    return str(asked or item["type"].replace("contextCompaction", ""))


class ClaudeCode(Agent):
    """Claude Code, whose listing is its screen: it has no other for what `-p` was asked."""

    name, package = "claude-code", "@anthropic-ai/claude-code-"
    files = ".claude/projects/*/*.jsonl"
    lists_all = False
    tools = Tools(
        write=_use("Write", "file_path", "content"),
        read=_use("Read", "file_path"),
        edit=_use("Edit", "file_path", "old_string", "new_string"),
        run=_use("Bash", "command", description="Run it"),
        ask=_use("Agent", "prompt", description="Look", run_in_background=False),
    )

    def settle(self, seat: Seat, *, compacting: bool = False) -> None:
        (seat.home / ".claude.json").write_text(json.dumps(claude_screen.settings("9.9.9", seat.cwd)))

    def start(self, seat: Seat, prompt: str, session: Path | None) -> _Command:
        return [*self._command(seat, session), "--dangerously-skip-permissions", "-p", prompt]

    def environment(self, seat: Seat) -> Mapping[str, str]:
        return {**claude.environment(seat.url), "IS_SANDBOX": "1"}

    def compact(self, seat: Seat, session: Path) -> None:
        self.run(seat, self.start(seat, "/compact", session))

    def turns(self, seat: Seat, session: Path) -> list[str]:
        environment = {**environment_of(seat.home, seat.url), **self.environment(seat)}
        start = list(map(str, self._command(seat, session)))
        shown = claude_screen.shown(start, seat.cwd, environment, replies.TEXT)
        return [prompt for prompt in seat.asked if claude_screen.bare(prompt) in shown]

    def _command(self, seat: Seat, session: Path | None) -> _Command:
        found = next(seat.modules.glob("@anthropic-ai/claude-code-*/claude"), None)
        return [_there(found), "--model", MODEL, *(["--resume", session.stem] if session else [])]


class Gemini(Agent):
    """Gemini CLI, which lists its sessions, and no turns."""

    name, package, runtime = "gemini", "@google/gemini-cli", "node-"
    files = ".gemini/tmp/*/chats/*.jsonl"
    says = staticmethod(watch_story.gemini)
    tools = Tools(
        write=_use("write_file", "file_path", "content"),
        read=_use("read_file", "file_path"),
        edit=_use("replace", "file_path", "old_string", "new_string", instruction="Change it."),
        run=_use("run_shell_command", "command", description="Run it"),
        ask=_use("invoke_agent", "prompt", agent_name="generalist"),
    )

    def settle(self, seat: Seat, *, compacting: bool = False) -> None:
        (seat.home / ".gemini").mkdir(exist_ok=True)
        settings = gemini.SETTINGS | ({"model": {"compressionThreshold": 0.001}} if compacting else {})
        (seat.home / ".gemini" / "settings.json").write_text(json.dumps(settings))

    def start(self, seat: Seat, prompt: str, session: Path | None) -> _Command:
        resuming = ["--resume", _header(session)["sessionId"]] if session else []
        return [*self._command(seat), "--model", "gemini-2.5-pro", "--approval-mode", "yolo", *resuming, "-p", prompt]

    def environment(self, seat: Seat) -> Mapping[str, str]:
        return gemini.environment(seat.url)

    def ask(self, seat: Seat, prompt: str, session: Path | None) -> None:
        super().ask(seat, prompt, session)
        # A resume in a later minute leaves a second file of the session's name with a greeting alone, for which the
        # agent itself lists the session no more, and deletes it.
        for path in self.sessions(seat)[1:]:
            if b'"type":"gemini"' not in path.read_bytes():
                path.unlink()

    def turns(self, seat: Seat, session: Path) -> list[str]:
        listed = self.run(seat, [*self._command(seat), "--list-sessions"])
        return re.findall(r"^ +\d+\. (.*?)(?: \([^()]*\))? \[", listed, re.MULTILINE)

    def _command(self, seat: Seat) -> _Command:
        return [_there(node(seat.modules)), program(seat.modules / self.package, "gemini")]


class Pi(Agent):
    """pi, which exports all entries of a session in a page."""

    name, package, runtime = "pi", "@earendil-works/pi-coding-agent", "node-"
    files = "sessions/**/*.jsonl"
    tools = Tools(
        write=_use("write", "path", "content"),
        read=_use("read", "path"),
        edit=lambda path, old, new: ("edit", {"path": path, "edits": [{"oldText": old, "newText": new}]}),
        run=_use("bash", "command"),
    )
    script, resuming = "pi", "--session"
    options: Sequence[str] = ("--provider", "standin", "--model", MODEL, "--thinking", "high")

    def settle(self, seat: Seat, *, compacting: bool = False) -> None:
        pi.agent_folder(seat.home, _MODELS, seat.url, _WINDOW, {"compaction": _KEPT})

    def start(self, seat: Seat, prompt: str, session: Path | None) -> _Command:
        named = [self.resuming, str(session)] if session else []
        return [*self._command(seat), *named, *self.options, "-p", prompt]

    def environment(self, seat: Seat) -> Mapping[str, str]:
        return pi.environment_of(seat.home, seat.url, Path(self._command(seat)[0]))

    def compact(self, seat: Seat, session: Path) -> None:
        command = [*self.start(seat, "", session)[:-2], "--mode", "rpc"]
        said, code = pi.asked(list(map(str, command)), seat.home, seat.url, {"type": "compact"})
        if code or '"success":true' not in said:
            raise ResumeError(f"{self.name} did not compact: exit {code}: {said[-500:]}")

    def turns(self, seat: Seat, session: Path) -> list[str]:
        page = seat.home.with_name("page.html")
        self.run(seat, [*self._command(seat), "--export", session, page])
        found = (
            (entry["type"], entry.get("message") or {}) for entry in pi.exported_session(page.read_text())["entries"]
        )
        return [f"{kind} {m.get('role')} {m['content'] if m.get('role') == 'user' else ''}" for kind, m in found]

    def _command(self, seat: Seat) -> _Command:
        found = (node if self.runtime == "node-" else bun)(seat.modules)
        return [_there(found), program(seat.modules / self.package, self.script)]


class OhMyPi(Pi):
    """oh-my-pi, whose settings are written otherwise."""

    name, package, runtime = "oh-my-pi", "@oh-my-pi/pi-coding-agent", "@oven/bun-"
    tools = Tools(
        write=_use("write", "path", "content", i="Writing"),
        read=_use("read", "path", i="Reading"),
        edit=lambda path, old, new: ("bash", {"i": "Editing", "command": f"sed -i '7s/$/ (changed)/' {path}"}),
        run=_use("bash", "command", i="Running"),
        ask=lambda task: ("task", {"i": "Asking", "context": "A module.", "tasks": [{"name": "Look", "task": task}]}),
    )
    script, resuming = "omp", "--resume"
    options = ("--model", f"standin/{MODEL}", "--no-title", "--no-lsp", "--auto-approve")

    def settle(self, seat: Seat, *, compacting: bool = False) -> None:
        super().settle(seat)
        (seat.home / "models.yml").write_text((seat.home / "models.json").read_text())
        own = {"compaction": _KEPT, "memory": {"enabled": False}, "startup": {"checkUpdate": False, "quiet": True}}
        (seat.home / "config.yml").write_text(json.dumps(own))


class OpenCode(Agent):
    """OpenCode, whose sessions lie in a database: what it exports is what is rewritten, and imported again."""

    name, package = "opencode", "opencode-"
    files = "exported.json"
    tools = Tools(
        write=_use("write", "filePath", "content"),
        read=_use("read", "filePath"),
        edit=_use("edit", "filePath", "oldString", "newString"),
        run=_use("bash", "command", description="Run it"),
        ask=_use("task", "prompt", description="Look at it", subagent_type="general"),
    )

    def settle(self, seat: Seat, *, compacting: bool = False) -> None:
        if not (seat.home / "work").exists():
            opencode.make_home(seat.home)
        config = opencode.config_for("@ai-sdk/anthropic", "standin", MODEL, seat.url) | {"permission": "allow"}
        config["compaction"]["auto"] = compacting
        config["provider"]["standin"]["models"][MODEL]["limit"]["context"] = 24_000 if compacting else _WINDOW
        (seat.home / "config.json").write_text(json.dumps(config))

    def environment(self, seat: Seat) -> Mapping[str, str]:
        return opencode.environment_of(seat.home, seat.url, json.loads((seat.home / "config.json").read_text()))

    def start(self, seat: Seat, prompt: str, session: Path | None) -> _Command:
        resuming = ["--session", self._name(seat)] if session else []
        return [_there(opencode.program(seat.modules)), "run", *resuming, prompt]

    def sessions(self, seat: Seat) -> list[Path]:
        (seat.home / self.files).write_text(self._said(seat, "export", self._name(seat)))
        return super().sessions(seat)

    def compact(self, seat: Seat, session: Path) -> None:
        # An answer says that the window is full; so the next prompt is one too many.
        usage, seat.stand_in.usage = seat.stand_in.usage, 20_000
        self.ask(seat, "Go on.", session)
        seat.stand_in.usage = usage
        super().compact(seat, session)

    def turns(self, seat: Seat, session: Path) -> list[str]:
        found = json.loads(self._said(seat, "export", self._name(seat)))["messages"]
        asked = ([part.get("text") for part in m["parts"]] if m["info"]["role"] == "user" else "" for m in found)
        return [f"{m['info']['role']} {texts}" for m, texts in zip(found, asked, strict=True)]

    def put_back(self, seat: Seat, session: Path) -> None:
        # What is there already an import leaves as it is.
        self._said(seat, "session", "delete", self._name(seat))
        self._said(seat, "import", str(session))

    def _name(self, seat: Seat) -> str:
        if (exported := seat.home / self.files).exists():
            return str(json.loads(exported.read_bytes())["info"]["id"])
        return str(json.loads(self._said(seat, "session", "list", "--format", "json"))[0]["id"])

    def _said(self, seat: Seat, *arguments: str) -> str:
        return self.run(seat, [_there(opencode.program(seat.modules)), *arguments])


class OpenClaw(Agent):
    """OpenClaw, which wrote pi's sessions, and now keeps its own in a database: it is asked once, to see that."""

    name, package, runtime = "openclaw", "openclaw", "node-"
    files = ".openclaw/agents/*/sessions/*.jsonl"
    tools = Pi.tools

    def settle(self, seat: Seat, *, compacting: bool = False) -> None:
        (seat.home / ".openclaw").mkdir()
        provider = pi.providers(_MODELS, seat.url, _WINDOW)["standin"]
        provider["models"] = [{**each, "name": MODEL} for each in provider["models"]]
        agents = {"defaults": {"model": {"primary": f"standin/{MODEL}"}, "workspace": str(seat.cwd)}}
        config = {"models": {"mode": "replace", "providers": {"standin": provider}}, "agents": agents}
        (seat.home / ".openclaw" / "openclaw.json").write_text(json.dumps(config))

    def start(self, seat: Seat, prompt: str, session: Path | None) -> _Command:
        own = ["--agent", "main", "--session-id", "11111111-1111-4111-8111-111111111111", "--message", prompt]
        return [_there(node(seat.modules)), program(seat.modules / self.package, "openclaw"), "agent", "--local", *own]

    def ask(self, seat: Seat, prompt: str, session: Path | None) -> None:
        super().ask(seat, prompt, session)
        if self.sessions(seat):
            raise ResumeError("it writes sessions that we read: the watch has to learn how it goes on with them")
        for path in sorted(seat.home.rglob("*.sqlite*")):
            if prompt.encode() in path.read_bytes():
                where = path.relative_to(seat.home)
                raise NotReadError(f"its sessions are in a database, which we do not read yet: {where}")
        raise ResumeError("its session is nowhere")

    def turns(self, seat: Seat, session: Path) -> list[str]:
        raise NotReadError("its turns are in a database, which we do not read yet")


AGENTS: Mapping[str, Agent] = {
    each.name: each for each in (Codex(), ClaudeCode(), Gemini(), Pi(), OhMyPi(), OpenCode(), OpenClaw())
}
