"""Take the pictures of terminals in the documentation: the commands in tmux, in an invented home, as SVG beside this.

    python docs/pictures/make.py

Needs tmux. The pictures load nothing: what rich exports names a font of the web, which is taken out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, DIMMED_MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
FIXTURES = HERE.parent.parent / "fixtures"
HOME = {
    ".pi/agent/sessions/--tidewatch--/2026-03-02_tides.jsonl": "pi-anthropic.jsonl",
    ".pi/agent/sessions/--tidewatch--/2026-03-04_gauges.jsonl": "pi-responses.jsonl",
    ".pi/agent/sessions/--tidewatch--/2026-03-05_prompt.jsonl": "pi-one-prompt.jsonl",
    ".pi/agent/sessions/--tidewatch--/2026-03-06_gateway.jsonl": "pi-v2.jsonl",
    ".claude/projects/-tidewatch/5f2c7a31-0d5e-4f7e-9a41-3f1f4f1f6a10.jsonl": "claude-code.jsonl",
    ".claude/projects/-tidewatch/91e0cbb2-7c1d-4b41-8a55-6f0d7f3b2f11.jsonl": "claude-tools.jsonl",
    ".codex/sessions/2026/03/03/rollout-2026-03-03.jsonl": "codex.jsonl",
    ".gemini/tmp/tidewatch/chats/session.json": "gemini.json",
}
"""Sessions of the home, each a fixture."""

COMMANDS = {
    "sessions": "sessioncompress sessions",
    "stats": "sessioncompress stats --all",
    "compress": "sessioncompress compress --all --yes",
    "report": "sessioncompress report --all -o report.html",
}
"""In this order, since the third one changes what the others show."""

WIDTHS = (80, 200)
THEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": DIMMED_MONOKAI}
_LINES = 60
_MOST_SECONDS = 60.0
_DONE = "-- done --"
_OF_THE_WEB = re.compile(r"@font-face \{[^}]*\}|<!--.*?-->")


@contextmanager
def home() -> Iterator[Path]:
    """Make the home, in which all sessions are some days old."""
    with tempfile.TemporaryDirectory() as folder:
        for days, (name, fixture) in enumerate(HOME.items(), 2):
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(FIXTURES / fixture, path)
            then = time.time() - days * 24 * 3600
            os.utime(path, (then, then))
        # Its session has no more than the digest.
        (Path(folder) / ".gemini/tmp/tidewatch/.project_root").write_text("/tmp")  # noqa: S108 - as the fixtures say
        yield Path(folder)


def shown(command: str, width: int, folder: Path) -> str:
    """Run a command in a terminal of tmux; return what it shows, with colors."""
    # A server of its own: the last one may still be on its way out.
    server = ["tmux", "-L", f"sessioncompress-{os.getpid()}-{time.monotonic_ns()}", "-f", os.devnull]
    bin_folder = Path(sys.executable).parent
    given = {"HOME": str(folder), "PATH": f"{bin_folder}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "TERM": "screen"}
    given |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    settings = shlex.join(f"{name}={value}" for name, value in given.items())
    script = f"cd; env -i {settings} sh -c {shlex.quote(command)} 2>&1; echo; echo '{_DONE}'; sleep 60"
    subprocess.run([*server, "new-session", "-d", "-x", str(width), "-y", str(_LINES), script], cwd=folder, check=True)  # noqa: S603
    try:
        deadline = time.monotonic() + _MOST_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.2)
            said = subprocess.run([*server, "capture-pane", "-e", "-p"], capture_output=True, text=True, check=True)  # noqa: S603
            if _DONE in said.stdout:
                return said.stdout.partition(_DONE)[0].rstrip()
    finally:
        subprocess.run([*server, "kill-server"], check=False)  # noqa: S603
    raise SystemExit(f"'{command}' did not end within {_MOST_SECONDS:.0f} seconds")


def picture(name: str, command: str, said: str, width: int, theme: str) -> str:
    """Draw what a terminal shows under the command."""
    lines = said.splitlines()
    console = Console(width=width, record=True, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text(f"$ {command}", style="bold"))
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    drawn = console.export_svg(title="", theme=THEMES[theme], unique_id=f"{name}-{width}-{theme}")
    drawn = _OF_THE_WEB.sub("", drawn).replace("Fira Code", "ui-monospace")
    return "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"


def main(given: Sequence[str]) -> int:
    """Take all pictures."""
    if given:
        raise SystemExit(__doc__)
    if shutil.which("tmux") is None:
        raise SystemExit("The pictures need tmux, which is not installed: apt-get install tmux, or brew install tmux.")
    for width in WIDTHS:
        with home() as folder:
            for name, command in COMMANDS.items():
                said = shown(command, width, folder)
                for theme in THEMES:
                    path = HERE / f"{name}-{width}-{theme}.svg"
                    path.write_text(picture(name, command, said, width, theme), encoding="utf-8")
                    print(path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
