"""Hooks go in and come out to the byte; nothing of the user's is lost on the way, whatever lies there."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sessioncompress.cli.main import main
from sessioncompress.errors import FileFailed
from sessioncompress.hooks import AGENTS, install
from sessioncompress.store import disk
from tests.unit.hooks.test_settings import TEXTS, THEIRS

OLDER = "/gone/bin/python"
"""The Python of an installation that is no more."""


FOLDERS = {
    "claude-code": "CLAUDE_CONFIG_DIR",
    "codex": "CODEX_HOME",
    "gemini": "GEMINI_CLI_HOME",
    "opencode": "XDG_CONFIG_HOME",
    "pi": "PI_CODING_AGENT_DIR",
    "qwen": "QWEN_HOME",
}
"""What names each agent's folder."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", *FOLDERS.values()):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".claude").mkdir()
    return tmp_path


@pytest.fixture
def settings(home: Path) -> Path:
    return home / ".claude" / "settings.json"


@pytest.fixture
def extension(home: Path) -> Path:
    return home / ".pi" / "agent" / "extensions" / "sessioncompress.ts"


def hook(*words: str, given: str = "", fails: int = 0) -> Result:
    done = CliRunner().invoke(main, ["hook", *words], input=given)
    assert done.exit_code == fails, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done


def everything(home: Path) -> dict[str, bytes]:
    files = (path for path in home.rglob("*") if path.is_file() and ".local" not in path.parts)
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


@pytest.mark.parametrize("text", [None, *TEXTS.values()], ids=["no file", *TEXTS.keys()])
def test_in_and_out_to_the_byte(text: str | None, settings: Path, home: Path) -> None:
    if text is not None:
        settings.write_bytes(text.encode())
    before = everything(home)
    assert "not installed" in hook("status", "claude").output
    hook("install", "claude", "--yes")
    hooks = json.loads(settings.read_bytes())["hooks"]
    assert (
        hooks["PreToolUse"][0]["hooks"][0]["command"] == f"{sys.executable} -P -m sessioncompress.hooks guard || true"
    )
    assert (
        hooks["SessionEnd"][0]["hooks"][0]["command"] == f"{sys.executable} -P -m sessioncompress.hooks ended || true"
    )
    said = hook("status", "claude").output
    assert f"installed in {settings}\n" in said
    assert f"{sys.executable} (found)" in said
    once = everything(home)
    assert "nothing to do" in hook("install", "claude", "--yes").output
    assert everything(home) == once
    hook("uninstall", "claude", "--yes")
    assert everything(home) == before
    assert "nothing to do" in hook("uninstall", "claude", "--yes").output
    assert list((home / ".local/state/sessioncompress").iterdir()) == []


def test_where_the_log_stays_is_said(settings: Path, home: Path) -> None:
    """It tells what was done to sessions: whoever removes the hooks may want to read it, or to delete it."""
    log = home / ".local/state/sessioncompress/hook.log"
    hook("install", "claude", "--yes")
    assert "what they did" not in hook("uninstall", "claude", "--yes").output
    hook("install", "claude", "--yes")
    log.write_text("something\n")
    assert (
        f"their log stays in {log}: delete it if you no longer need it\n" in hook("uninstall", "claude", "--yes").output
    )
    assert log.read_text() == "something\n"
    del settings


ENDED = dict.fromkeys(("claude-code", "codex", "gemini", "qwen"), "sessioncompress.hooks ended --compact || true") | {
    "pi": 'const ENDED = ["ended", "--compact"];'
}
"""What the hooks of each agent hold that also compact."""


def test_every_agent_compresses_or_says_that_it_does_not() -> None:
    assert {each for each in AGENTS if install.agent_named(each).compresses} == set(ENDED)
    assert set(FOLDERS) == set(AGENTS)
    assert all(f" {each}" in hook("--help").output for each in AGENTS)


@pytest.mark.parametrize("agent", ENDED)
def test_with_compact_in_and_out(agent: str, home: Path) -> None:
    """Once, and in place of the hooks without it; the user's own settings stay."""
    (home / ".claude" / "settings.json").write_text('{\n  "model": "x"\n}\n')
    before = everything(home)
    hook("install", agent, "--yes")
    plain = everything(home)
    assert ENDED[agent] not in str(plain)
    assert "is compacted" not in hook("status", agent).output
    hook("install", agent, "--compact", "--yes")
    compacting = everything(home)
    (text,) = (raw.decode() for name, raw in compacting.items() if raw != before.get(name))
    assert text.count(ENDED[agent]) == 1
    said = hook("status", agent).output
    assert "a session that ended is compacted before it is compressed\n" in said
    assert "not as this version does it" not in said
    assert "nothing to do" in hook("install", agent, "--compact", "--yes").output
    assert everything(home) == compacting
    hook("install", agent, "--yes")
    assert everything(home) == plain
    hook("install", agent, "--compact", "--yes")
    hook("uninstall", agent, "--yes")
    assert everything(home) == before


@pytest.mark.parametrize("agent", ENDED)
def test_with_a_preset(agent: str, home: Path) -> None:
    """In place of another one, and with `--compact`; taken out also where the record is lost."""
    hook("install", agent, "--preset", "archive", "--yes")
    hook("install", agent, "--compact", "--preset", "low-cost", "--yes")
    written = str(everything(home))
    assert "archive" not in written
    assert re.search("--compact.{1,5}--preset.{1,5}low-cost", written)
    said = hook("status", agent).output
    assert "a session that ended is compressed with the preset low-cost\n" in said
    assert "is compacted before" in said
    assert "not as this version does it" not in said
    assert "nothing to do" in hook("install", agent, "--compact", "--preset", "low-cost", "--yes").output
    for kept in (home / ".local/state/sessioncompress").glob("hooks-*.json"):
        kept.unlink()
    hook("uninstall", agent, "--yes")
    assert [raw.split() for raw in everything(home).values()] in ([], [[b"{", b"}"]])


@pytest.mark.parametrize("action", ["uninstall", "status"])
def test_what_goes_with_install(action: str) -> None:
    assert "--compact only works with install" in hook(action, "claude", "--compact", fails=2).output
    assert "--preset only works with install" in hook(action, "claude", "--preset", "archive", fails=2).output


@pytest.mark.parametrize("option", [["--compact"], ["--preset", "archive"]])
def test_an_agent_without_files_compresses_nothing(option: list[str], home: Path) -> None:
    said = hook("install", "opencode", *option, "--yes", fails=2).output
    assert "keeps its sessions in a database" in said
    hook("install", "opencode", "--yes")
    assert [each for each in everything(home) if "opencode" in each] == [".config/opencode/plugins/sessioncompress.ts"]
    assert "only the guard runs" in hook("status", "opencode").output
    hook("uninstall", "opencode", "--yes")
    assert everything(home) == {}


CODEX = {
    "no file": ("", "Codex does not trust them yet: type /hooks in Codex"),
    "no TOML": ("[", "Codex does not trust them yet"),
    "odd values": ('hooks = 1\nfeatures = "x"\n', "Codex does not trust them yet"),
    "odd state": ('hooks.state = ["x"]\n', "Codex does not trust them yet"),
    "one of them": ('[hooks.state."FILE:session_end:1:0"]\ntrusted_hash = "x"\n', "Codex does not trust them yet"),
    "switched off": ("[features]\nhooks = false\n", "features.hooks in config.toml is false"),
    "disabled": (
        '[hooks.state]\n"FILE:session_end:1:0" = {trusted_hash = "", enabled = false}\n"FILE:pre_tool_use:0:0".trusted_hash = "x"\n',
        "disabled under /hooks in Codex",
    ),
    "trusted": (
        '[hooks.state]\n"FILE:session_end:1:0" = {trusted_hash = "x"}\n"FILE:pre_tool_use:0:0".trusted_hash = "x"\n',
        "",
    ),
}


@pytest.mark.parametrize(("config", "said"), CODEX.values(), ids=CODEX.keys())
def test_whether_codex_calls_its_hooks(config: str, said: str, home: Path) -> None:
    """By what it notes of their places. Ours come behind the user's, which keep theirs."""
    hooks = home / ".codex" / "hooks.json"
    hooks.parent.mkdir()
    hooks.write_text(json.dumps({"hooks": {"SessionEnd": [THEIRS]}}, indent=2))
    assert "type /hooks in Codex" in hook("install", "codex", "--yes").output
    assert json.loads(hooks.read_bytes())["hooks"]["SessionEnd"][0] == THEIRS
    hooks.with_name("config.toml").write_text(config.replace("FILE", str(hooks)))
    status = hook("status", "codex").output
    assert ("the agent does not call them: " + said in status) if said else ("not call them" not in status)


GEMINI = {
    "enabled": ({"enabled": True, "disabled": ["other"]}, ""),
    "switched off": ({"enabled": False}, "hooksConfig.enabled in it is false"),
    "named": ({"disabled": [1, f"{sys.executable} -P -m sessioncompress.hooks guard || true"]}, "lists them"),
    "odd": ([1], ""),
}


@pytest.mark.parametrize(("config", "said"), GEMINI.values(), ids=GEMINI.keys())
def test_whether_gemini_calls_its_hooks(config: object, said: str, home: Path) -> None:
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps({"hooksConfig": config}))
    hook("install", "gemini", "--yes")
    status = hook("status", "gemini").output
    assert (said in status) if said else ("not call them" not in status)


COMMENTED = (
    '// mine\n{\n  "a": "// none", /* "hooks": {} */\n  "hooks": { // of mine\n    "BeforeTool": [ /* none */ ]\n  }\n}\n',
    '{ /* { */ "b": "\\"/*" /**/ } // \u2028 the end',
)


@pytest.mark.parametrize("text", COMMENTED)
def test_comments_in_the_settings_of_gemini_stay(text: str, home: Path) -> None:
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(text)
    hook("install", "gemini", "--yes")
    said = settings.read_text()
    assert "installed in" in hook("status", "gemini").output
    assert all(comment in said for comment in re.findall(r"/\*.*?\*/|// \w+.*", text))
    hook("uninstall", "gemini", "--yes")
    assert settings.read_text() == text
    settings.write_text(said.replace("10000", "9000"))
    assert "has comments" in hook("uninstall", "gemini", "--yes", fails=4).output
    settings.write_text('{"a": /* never ends }')
    assert "it is not JSON" in hook("install", "gemini", "--yes", fails=4).output


@pytest.mark.parametrize("agent", AGENTS)
def test_it_is_shown_and_asked_for(agent: str, home: Path) -> None:
    """Nobody there: nothing is written. A no: likewise. A yes: it is."""
    before = everything(home)
    said = hook("install", agent, fails=2).output
    assert "+" in said
    assert "sessioncompress.hooks" in said
    assert "cannot ask for confirmation without a terminal. It was not changed. Use --yes." in said
    assert everything(home) == before
    assert "not changed" in hook("install", agent, given="n\n").output
    assert everything(home) == before
    hook("install", agent, given="y\n")
    once = everything(home)
    assert "not changed" in hook("uninstall", agent, given="n\n").output
    assert everything(home) == once
    hook("uninstall", agent, given="y\n")
    assert everything(home) == before


def test_what_changed_meanwhile_stays(settings: Path) -> None:
    """The user's own hook beside ours, a new key; ours alone go, exactly."""
    settings.write_text('{\n  "model": "x",\n  "n": 1e-9\n}\n')
    hook("install", "claude", "--yes")
    changed = settings.read_text().replace('"model": "x"', '"model": "y",\n  "theme": "dark"')
    settings.write_text(changed)
    hook("uninstall", "claude", "--yes")
    assert settings.read_text() == '{\n  "model": "y",\n  "theme": "dark",\n  "n": 1e-9\n}\n'


@pytest.mark.parametrize("lost", [False, True], ids=["with the record", "without"])
def test_what_the_agent_wrote_anew_stays(settings: Path, home: Path, lost: bool) -> None:
    settings.write_text('{"model":"x"}')
    hook("install", "claude", "--yes")
    document = json.loads(settings.read_bytes())
    document["hooks"]["SessionEnd"].append(THEIRS)
    document["hooks"]["Stop"] = []
    settings.write_text(json.dumps(document, indent=4))
    if lost:
        (kept,) = (home / ".local/state/sessioncompress").glob("hooks-*.json")
        kept.unlink()
    hook("uninstall", "claude", "--yes")
    assert json.loads(settings.read_bytes()) == {"model": "x", "hooks": {"SessionEnd": [THEIRS], "Stop": []}}


def test_hooks_of_another_installation_are_replaced(settings: Path) -> None:
    """And taken out again to the byte, since the record knows them."""
    settings.write_text('{\n  "model": "x"\n}\n')
    hook("install", "claude", "--yes")
    older = settings.read_text().replace(sys.executable, OLDER)
    settings.write_text(older)
    said = hook("status", "claude").output
    assert "not as this version does it" in said
    assert f"{OLDER} (not found: install them again)" in said
    hook("install", "claude", "--yes")
    assert OLDER not in settings.read_text()
    assert f"{settings}\n" in hook("status", "claude").output
    hook("uninstall", "claude", "--yes")
    assert settings.read_text() == '{\n  "model": "x"\n}\n'


REFUSED = {
    "no JSON": b'{"a": 1,}',
    "comments": b'{"a": 1} // mine',
    "empty": b"",
    "a byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "no UTF-8": b'{"a": "\xff"}',
    "a list": b"[]",
    "too deep": b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "hooks that are none": b'{"hooks": []}',
    "an event that is none": b'{"hooks": {"SessionEnd": {}}}',
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_understood_is_refused(raw: bytes, settings: Path) -> None:
    settings.write_bytes(raw)
    said = hook("install", "claude", "--yes", fails=4).output
    assert str(settings) in said
    assert "It was not changed." in said
    assert settings.read_bytes() == raw


def test_a_link_is_followed_and_named(settings: Path, home: Path) -> None:
    target = home / "dotfiles" / "claude.json"
    target.parent.mkdir()
    target.write_text("{}\n")
    settings.symlink_to(target)
    assert f"{settings} (which is {target})" in hook("install", "claude", "--yes").output
    assert settings.is_symlink()
    assert "hooks" in json.loads(target.read_bytes())
    hook("uninstall", "claude", "--yes")
    assert settings.is_symlink()
    assert target.read_text() == "{}\n"


@pytest.mark.parametrize("kind", ["hard link", "folder", "pipe"])
def test_what_could_be_parted_or_is_no_file_is_refused(kind: str, settings: Path, home: Path) -> None:
    if kind == "hard link":
        settings.write_text("{}")
        os.link(settings, home / "other")
    elif kind == "folder":
        settings.mkdir()
    else:
        os.mkfifo(settings)
    hook("install", "claude", "--yes", fails=4)


def test_mode_stays_and_a_new_file_is_its_owners(settings: Path) -> None:
    hook("install", "claude", "--yes")
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    settings.chmod(0o640)
    hook("uninstall", "claude", "--yes")
    settings.write_text("{}")
    settings.chmod(0o644)
    hook("install", "claude", "--yes")
    assert stat.S_IMODE(settings.stat().st_mode) == 0o644
    assert [each.name for each in settings.parent.iterdir()] == ["settings.json"]


def test_a_file_of_others_is_no_extension_of_ours(extension: Path) -> None:
    extension.parent.mkdir(parents=True)
    extension.write_text("// mine\n")
    assert "not installed" in hook("status", "pi").output
    hook("install", "pi", "--yes", fails=4)
    assert "nothing to do" in hook("uninstall", "pi", "--yes").output
    assert extension.read_text() == "// mine\n"


def test_an_extension_that_was_changed_is_left_to_the_user(extension: Path) -> None:
    hook("install", "pi", "--yes")
    changed = extension.read_text().replace("MOST_MS = 8000", "MOST_MS = 80")
    extension.write_text(changed)
    assert "not as this version does it" in hook("status", "pi").output
    hook("install", "pi", "--yes", fails=4)
    hook("uninstall", "pi", "--yes", fails=4)
    assert extension.read_text() == changed


def test_settings_that_change_between_look_and_write_stay(settings: Path) -> None:
    settings.write_text("{}")
    change = install.to_install(install.agent_named("claude-code"))
    settings.write_text('{"a": 1}')
    with pytest.raises(FileFailed, match="changed in the meantime"):
        install.write(change)
    assert settings.read_text() == '{"a": 1}'


def test_a_full_disk_leaves_the_settings(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.write_text("{}")

    def full(fd: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.system, "write", full)
    assert "no space left" in hook("install", "claude", "--yes", fails=3).output.lower()
    assert settings.read_text() == "{}"
    assert [each.name for each in settings.parent.iterdir()] == ["settings.json"]


def test_a_path_with_spaces_is_quoted(settings: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = home / "my python's"
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    hook("install", "claude", "--yes")
    (line,) = (each["command"] for each in json.loads(settings.read_bytes())["hooks"]["SessionEnd"][0]["hooks"])
    assert os.waitstatus_to_exitcode(os.system(line.replace(" -m sessioncompress.hooks ended || true", " -c ''"))) == 0
    assert f"{python} (found)" in hook("status", "claude").output
    python.unlink()
    assert os.waitstatus_to_exitcode(os.system(f"{line} 2>&-")) == 0, "gone, it fails no agent"


@pytest.mark.parametrize("agent", AGENTS)
def test_without_a_home_that_is_said(agent: str, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """And where only the agent's folder is known, that what was put in cannot be noted."""
    monkeypatch.setattr("os.path.expanduser", str)
    monkeypatch.chdir(home)
    before = everything(home)
    for action in ("status", "install", "uninstall"):
        assert "no home folder is known" in hook(action, agent, fails=3).output
    for name in FOLDERS.values():
        monkeypatch.setenv(name, str(home / "agent"))
    assert "no home folder is known" in hook("install", agent, "--yes", fails=3).output
    assert everything(home) == before
