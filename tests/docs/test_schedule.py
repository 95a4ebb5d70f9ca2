"""The timer, the agent of launchd and the line of cron are well-formed, and their commands compress what lies here."""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.docs.pages import Place, blocks, page

SCHEDULE = "docs/how-to/schedule.md"


def units() -> list[str]:
    return blocks(page(SCHEDULE), "ini")


def of_systemd(home: Path) -> list[str]:
    service = ConfigParser(interpolation=None)
    service.optionxform = str  # type: ignore[assignment,method-assign]
    service.read_string(units()[0])
    return service["Service"]["ExecStart"].replace("%h", str(home)).split()


def of_launchd(home: Path) -> list[str]:
    (text,) = blocks(page(SCHEDULE), "xml")
    agent = plistlib.loads(text.encode())
    assert agent["Label"] + ".plist" in page(SCHEDULE).replace(text, "")
    assert {"Hour", "Minute"} == set(agent["StartCalendarInterval"])
    given: list[str] = agent["ProgramArguments"]
    return given


def of_cron(home: Path) -> list[str]:
    (text,) = blocks(page(SCHEDULE), "crontab")
    found = re.fullmatch(r"(\d+) (\d+) \* \* \* ([^%\n]+)\n", text)
    assert found, "an unescaped % would end the command"
    assert int(found[1]) < 60
    assert int(found[2]) < 24
    return ["/bin/sh", "-c", found[3]]


@pytest.mark.parametrize("command", [of_systemd, of_launchd, of_cron])
def test_what_is_run_every_day_compresses(command: Callable[[Path], list[str]], tmp_path: Path) -> None:
    """With nothing in the environment but a home, and nobody to ask; cron has nothing to send."""
    place = Place(tmp_path)
    (tmp_path / ".local").mkdir()
    (tmp_path / ".local" / "bin").symlink_to(tmp_path / "bin")
    (session,) = tmp_path.glob(".pi/agent/sessions/*/*.jsonl")
    size = session.stat().st_size
    own = {"PATH": os.defpath, "HOME": str(tmp_path), "PYTHONPATH": place.environment["PYTHONPATH"]}
    done = subprocess.run(
        command(tmp_path), cwd="/", env=own, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert command is not of_cron or done.stdout + done.stderr == b""
    assert "--yes" not in page(SCHEDULE)
    assert session.stat().st_size < size


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    program = tmp_path / ".local" / "bin" / "sessioncompress"
    program.parent.mkdir(parents=True)
    program.symlink_to("/bin/true")
    names = [tmp_path / f"sessioncompress.{kind}" for kind in ("service", "timer")]
    for name, text in zip(names, units(), strict=True):
        # %h is the home of whoever runs this, as the system knows it.
        name.write_text(text.replace("%h", str(tmp_path)))
        assert f"`~/.config/systemd/user/{name.name}`" in page(SCHEDULE) or f"`{name.name}`" in page(SCHEDULE)
    own = {"PATH": os.defpath, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    start = ["systemd-analyze", "--user", "verify", *map(str, names)]
    done = subprocess.run(start, env=own, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
