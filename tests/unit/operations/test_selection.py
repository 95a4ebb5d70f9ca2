"""Which sessions of this machine are meant: where they are looked for, whose they are, of which project, how old."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import sessioncompress
from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.errors import FileFailed, Refused, UsageError
from sessioncompress.operations import sessions as lists
from sessioncompress.operations.sessions import Selection, Session, inspect_session, printed, sessions, swept, title_of
from sessioncompress.store import lock
from tests.support.build import ClaudeSession, OmpSession, OpenClawSession, PiSession, image
from tests.support.documents import GeminiDocument, OpenCodeExport
from tests.support.homes import pi, put
from tests.support.rollout import Rollout
from tests.support.runs import HOMES

ALL = Selection()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home, with nothing of whoever runs the tests."""
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def found(meant: Selection = ALL) -> dict[str, Session]:
    """Return the sessions that are meant, by the names of their files; anything else fails."""
    done = {}
    for each in sessions(meant):
        assert isinstance(each, Session), each.error
        done[each.path.name] = each
    return done


KEPT: list[tuple[str, str, bytes]] = [
    ("pi", ".pi/agent/sessions/--tmp--/a.jsonl", PiSession().opening().bytes()),
    ("oh-my-pi", ".omp/agent/sessions/-tmp/a.jsonl", OmpSession().opening().bytes()),
    ("oh-my-pi", ".omp/profiles/work/agent/sessions/-tmp/a.jsonl", OmpSession().opening().bytes()),
    ("openclaw", ".openclaw/agents/main/sessions/a.jsonl", OpenClawSession().opening().bytes()),
    ("openclaw", ".clawdbot/agents/main/sessions/a.jsonl", OpenClawSession().opening().bytes()),
    ("openclaw", ".moltbot/agents/main/sessions/a.jsonl", OpenClawSession().opening().bytes()),
    ("claude-code", ".claude/projects/-tmp/a.jsonl", ClaudeSession().turn().bytes()),
    ("claude-code", ".claude/projects/-tmp/a/subagents/agent-1.jsonl", ClaudeSession(agent="a1").turn().bytes()),
    ("codex", ".codex/sessions/2026/03/02/rollout-a.jsonl", Rollout().bytes()),
    ("codex", ".codex/archived_sessions/rollout-a.jsonl", Rollout().bytes()),
    ("gemini", ".gemini/tmp/x/chats/session-a.json", GeminiDocument().user("hello").bytes()),
]


@pytest.mark.parametrize(("agent", "place", "raw"), KEPT, ids=[case[1] for case in KEPT])
def test_where_agents_keep_them(home: Path, agent: str, place: str, raw: bytes) -> None:
    """Each is found once, as its agent's, with what is to be known of it."""
    path = put(home / place, raw)
    # Gemini notes no more than its digest in the session.
    put(path.parents[1] / ".project_root", b"/tmp")
    (one,) = sessions(ALL)
    assert isinstance(one, Session)
    assert (one.path, one.agent, one.size, one.modified) == (path, agent, len(raw), path.stat().st_mtime)
    assert one.id
    assert one.project == "/tmp"


MOVED: list[tuple[str, str]] = [
    ("PI_CODING_AGENT_DIR", "sessions/--tmp--/a.jsonl"),
    ("PI_CODING_AGENT_SESSION_DIR", "a.jsonl"),
    ("OMP_CODING_AGENT_DIR", "sessions/-tmp/a.jsonl"),
    ("XDG_DATA_HOME", "omp/sessions/-tmp/a.jsonl"),
    ("XDG_DATA_HOME", "omp/profiles/work/sessions/-tmp/a.jsonl"),
    ("CLAUDE_CONFIG_DIR", "projects/-tmp/a.jsonl"),
    ("OPENCLAW_STATE_DIR", "agents/main/sessions/a.jsonl"),
    ("CLAWDBOT_STATE_DIR", "agents/main/sessions/a.jsonl"),
    ("CODEX_HOME", "sessions/2026/03/02/a.jsonl"),
    ("CODEX_HOME", "archived_sessions/a.jsonl"),
    ("GEMINI_CLI_HOME", ".gemini/tmp/x/chats/a.jsonl"),
]


@pytest.mark.parametrize(("variable", "place"), MOVED)
def test_where_a_variable_says(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, place: str
) -> None:
    del home
    put(tmp_path / "elsewhere" / place, PiSession().opening().bytes())
    assert not found()
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert list(found()) == ["a.jsonl"]


def test_what_is_no_session_is_passed_over(home: Path) -> None:
    """Agents keep much else there; links too: what they lead to is found where it lies."""
    folder = home / ".pi/agent/sessions/x"
    path = put(folder / "a.jsonl", PiSession().opening().bytes())
    put(folder / "history.jsonl", b'{"display": "hello"}\n')
    put(folder / "empty.jsonl", b"")
    (folder / "link.jsonl").symlink_to(path)
    (folder / "gone.jsonl").symlink_to("nothing")
    assert list(found()) == ["a.jsonl"]


def test_the_library_lists_those_of_all_agents(home: Path) -> None:
    path = put(home / ".pi/agent/sessions/x/s.jsonl", pi("/work"))
    (found,) = sessioncompress.sessions()
    assert isinstance(found, sessioncompress.Session)
    assert (found.path, found.agent, found.project, found.error) == (path, "pi", "/work", None)


def test_each_is_found_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever names lead there: two agents that share a folder, a linked one."""
    put(home / ".pi/agent/sessions/x/a.jsonl", PiSession().opening().bytes())
    monkeypatch.setenv("OMP_CODING_AGENT_DIR", str(home / ".pi/agent"))
    (home / ".claude").mkdir()
    (home / ".claude/projects").symlink_to(home / ".pi/agent/sessions")
    assert len(list(sessions(ALL))) == 1


PRINTED = [
    *(("D:\\quay", "D:\\quay"), ("https://quay", "https://quay"), ("/a\x1b", "/a\\x1b"), ("", "-")),
    (hashlib.sha256(b"/quay").hexdigest(), f"sha256:{hashlib.sha256(b'/quay').hexdigest()[:12]}"),
]


@pytest.mark.parametrize(("project", "shown"), PRINTED)
def test_a_project_as_it_is_printed(home: Path, project: str, shown: str) -> None:
    """It is chosen by just that, and by nothing that only begins so."""
    assert printed(project) == shown
    for name, begun in (("a", project), ("b", f"{project}-side"), ("c", "/tmp")):
        put(home / f".pi/agent/sessions/x/{name}.jsonl", pi(begun))
    assert list(found(Selection(project=Path(shown)))) == ["a.jsonl"]
    assert not found(Selection(project=Path(shown[:-1] or "x")))


@pytest.mark.parametrize("named", ["quay-tides", "qua...des", "/w/...-tides"])
def test_a_project_as_a_narrow_list_prints_it(home: Path, named: str) -> None:
    """By its last folder, and with what was cut out."""
    for name, begun in (("a", "/w/quay-tides"), ("b", "/w/quay-tides-2"), ("c", "/w/quay")):
        put(home / f".pi/agent/sessions/x/{name}.jsonl", pi(begun))
    assert list(found(Selection(project=Path(named)))) == ["a.jsonl"]


def test_a_project_in_the_home(home: Path) -> None:
    """A terminal shows `~`, which a shell does not replace in quotes."""
    put(home / ".pi/agent/sessions/x/a.jsonl", pi(home / "quay"))
    assert list(found(Selection(project=Path("~/quay")))) == ["a.jsonl"]


def test_what_is_too_long_is_told(home: Path) -> None:
    """It is passed over by no command: what it begins as is a session."""
    path = put(home / ".gemini/tmp/x/chats/a.json", GeminiDocument().user("hello").bytes()[:-2])
    os.truncate(path, LINE_CAP + 1)
    (one,) = sessions(ALL)
    assert isinstance(one.error, Refused)
    assert one.path == path


def test_what_cannot_be_read_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session, and a folder; the others are found."""
    put(home / ".pi/agent/sessions/x/a.jsonl", PiSession().opening().bytes())
    put(home / ".pi/agent/sessions/x/b.jsonl", PiSession().opening().bytes())
    opened = lock.open_session

    def denied(path: Path, **how: Any) -> Any:
        if path.name == "a.jsonl":
            raise FileFailed("permission denied", where=path)
        return opened(path, **how)

    monkeypatch.setattr(lists, "open_session", denied)
    one, other = sessions(ALL)
    assert isinstance(one.error, FileFailed)
    assert isinstance(other, Session)

    def unreadable(folder: str, **options: Any) -> Any:
        options["onerror"](PermissionError(13, "Permission denied", folder))
        return iter(())

    monkeypatch.setattr(os, "walk", unreadable)
    (one,) = sessions(ALL)
    assert "this folder cannot be read" in str(one.error)


def test_base64_in_prompts_is_counted_apart(tmp_path: Path) -> None:
    """As long runs, in lines too; prose, short runs, pictures and results are none."""
    run = "QUJD" * 5000
    made = PiSession()
    made.user(f"Look: <file>{run}</file>")
    made.user("\n".join(run[at : at + 76] for at in range(0, len(run), 76)))
    for other in ("some prose " * 5000, f"Look: {run[:16_000]}"):
        made.user(other)
    made.user("Look.", [image(run)])
    made.step("bash", {"command": "cat a"}, run)
    shares = inspect_session(made.write(tmp_path / "s.jsonl")).shares
    found = [(each.blocks, each.protected_bytes + each.old_bytes) for each in shares if each.kind == "base64"]
    assert found == [(2, len(run) + len(run) // 76 * 77)]


def _line(**entry: Any) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


CUSTOM, MADE = _line(type="custom-title", customTitle="Mine"), _line(type="ai-title", aiTitle="Its\n own ")


def _asked(session: Any) -> bytes:
    session.user("Do this.")
    return session.bytes()  # type: ignore[no-any-return]


CLAUDE, PI = _asked(ClaudeSession()), _asked(PiSession())
TITLES = {
    "no title: the first prompt": (CLAUDE, "Do this."),
    "the agent's": (CLAUDE + MADE, "Its own"),
    "the user's, far behind": (CLAUDE + _line(type="mode", x="x" * 99_999) + CUSTOM + MADE, "Mine"),
    "the newest": (CLAUDE + CUSTOM.replace(b"Mine", b"Old") + CUSTOM, "Mine"),
    "an empty one": (PI + _line(type="session_info", name=" "), "Do this."),
    "pi": (PI + _line(type="session_info", name="Named"), "Named"),
    "a document": (_asked(OpenCodeExport()), "Silent gauges"),
    "no session": (b"x", ""),
}


@pytest.mark.parametrize("case", TITLES)
def test_a_title(tmp_path: Path, case: str) -> None:
    """In one line; the agent's own before the first prompt."""
    raw, title = TITLES[case]
    put(tmp_path / "s.jsonl", raw)
    assert title_of(tmp_path / "s.jsonl") == title


@pytest.mark.parametrize("name", ["claude", "Claude Code", "claude-code", "CC"])
def test_an_agent_by_any_of_its_names(home: Path, name: str) -> None:
    put(home / ".claude/projects/-tmp/a.jsonl", ClaudeSession().turn().bytes())
    put(home / ".pi/agent/sessions/x/b.jsonl", PiSession().opening().bytes())
    assert list(found(Selection(agent=name))) == ["a.jsonl"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a name of none": ({"agent": "claud"}, "'claud' is not one of claude-code, "),
    "an empty name": ({"agent": ""}, "'' is not one of claude-code, "),
    "a number for a name": ({"agent": 3}, "'3' is not one of claude-code, "),
    "two agents": ({"agent": ("pi", "codex")}, "is not one of claude-code, "),
    "a folder that is none": ({"project": 3}, "the selection's project is 3, but must be a path"),
    "an age with a unit": (
        {"older_than": "1d"},
        "the selection's older_than is '1d', but must be a whole number of seconds",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_selection_of_nothing_is_refused(case: str) -> None:
    given, says = WRONG[case]
    with pytest.raises(UsageError) as caught:
        Selection(**given)
    assert says in str(caught.value)


SWEEPS: dict[str, tuple[str, str, int]] = {
    "no settings": (".claude/settings.json", "", 2),
    "torn": (".claude/settings.json", '{"cleanupPeriodDays": 9', 2),
    "nothing": (".claude/settings.json", '{"cleanupPeriodDays": 0}', 2),
    "a long time": (".claude/settings.json", '{"cleanupPeriodDays": 365}', 0),
    "a short time": (".claude/settings.json", '{"cleanupPeriodDays": 3}', 3),
    "another agent's": (".gemini/settings.json", '{"general": {"sessionRetention": {"maxAge": "1w"}}}', 5),
    "switched off": (".gemini/settings.json", '{"general": {"sessionRetention": {"enabled": false}}}', 2),
}


@pytest.mark.parametrize("case", SWEEPS)
def test_what_its_agent_will_delete(home: Path, case: str) -> None:
    """By the age that its settings say, and only where the agent looks."""
    name, text, number = SWEEPS[case]
    put(home / name, text.encode())
    ages = {"claude-code": (2, 24, 40), "gemini": (2, 22, 10), "pi": (99,)}
    folders = {"claude-code": ".claude/projects/x", "gemini": ".gemini/tmp/x/chats", "pi": ".pi/agent/sessions/x"}
    made = [
        (agent, str(home / folders[agent] / f"{days}.jsonl"), time.time() - days * 86_400 - 9)
        for agent, each in ages.items()
        for days in each
    ]
    found = swept([*made, ("claude-code", str(home / "copies/s.jsonl"), 0)], None)
    assert found.sessions == number
    if case == "a short time":
        assert found.said.startswith("Claude Code will delete 3 sessions within a week (cleanupPeriodDays: 3 days).")
        assert found.command == "sessioncompress pack --agent claude-code --older-than 1d"
    if case == "another agent's":
        assert found.command == "sessioncompress pack --all --older-than 1d"
        assert ", Gemini CLI 3 (general.sessionRetention.maxAge: 7 days). To keep them in " in found.said
