"""`completion`: the scripts are what the shells take, and Tab completes quickly."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sessioncompress.cli.main import main
from tests.support.commands import run

SHELLS = ("bash", "zsh", "fish")

COMPLETED: list[tuple[str, set[str]]] = [
    ("sessioncompress comp", {"compact", "completion", "compress"}),
    ("sessioncompress restore --inc", {"--include"}),
    ("sessioncompress compress --preset low", {"low-cost"}),
    ("sessioncompress config s", {"show"}),
]

_TAB = """
eval "$(sessioncompress completion bash)"
COMP_WORDS=($1) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_sessioncompress_completion sessioncompress "${COMP_WORDS[COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment with our command on the PATH."""
    own = tmp_path / "sessioncompress"
    own.write_text(f'#!/bin/sh\nexec {sys.executable} -m sessioncompress "$@"\n')
    own.chmod(0o755)
    return os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_one_that_its_shell_reads(shell: str, environment: dict[str, str]) -> None:
    """As far as the shell is installed."""
    result = run("completion", shell)
    assert result.exit_code == 0
    assert f"_SESSIONCOMPRESS_COMPLETE={shell}_complete" in result.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=result.stdout, text=True, env=environment, check=True)


@pytest.mark.parametrize(("line", "expected"), COMPLETED)
def test_tab_completes_in_bash(line: str, expected: set[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", _TAB, "bash", line], env=environment, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == expected


def test_a_name_is_completed_without_importing_commands() -> None:
    """Tab behind the program's name asks for all of them."""
    code = (
        "import sys, click; from sessioncompress.cli.main import main\n"
        "found = main.shell_complete(click.Context(main), '')\n"
        "assert len(found) > 10, found\n"
        "loaded = [name for name in sys.modules if name.startswith('sessioncompress.')]\n"
        "assert not [name for name in loaded if not name.startswith(('sessioncompress.core', 'sessioncompress.cli'))]\n"
        "assert 'sessioncompress.cli.compress' not in loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [each.value for each in main.shell_complete(main.make_context("x", ["stats"]), "--v")] == ["--version"]
