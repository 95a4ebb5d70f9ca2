"""Help: every command explains itself, and what is misspelled is answered."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from sessioncompress.cli.main import main
from sessioncompress.core import VERSION
from tests.support.commands import run, spawn


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
