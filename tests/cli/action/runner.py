"""Does with the action what GitHub's runner does: inputs, expressions, files for outputs, and each step by its shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import sessioncompress
from tests.faults.tools import need
from tests.support.repository import Repository

ROOT = Path(__file__).resolve().parents[3]
SHELL = ("--noprofile", "--norc", "-eo", "pipefail")
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_PYTHON = """#!/bin/sh
if [ "$1 $2 $3" = "-P -m venv" ]; then exec {python} -P -m venv --without-pip "$4"; fi
exec {python} "$@"
"""
_PIP = """
import json, os, sys
from pathlib import Path
Path(os.environ["PIP_WAS_TOLD"]).write_text(json.dumps(sys.argv[1:]))
command = Path(sys.prefix) / "bin" / "sessioncompress"
command.write_text(f'#!/bin/sh\\nexec {sys.executable} -c "from sessioncompress.__main__ import run; run()" "$@"\\n')
command.chmod(0o755)
"""
"""Stands in for pip, which would ask an index: notes what it is told, and makes the command as pip does."""


def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return loaded


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a step or of the action: `outputs` and `page` are those that a job shows."""

    exit_code: int
    log: str
    outputs: Mapping[str, str]
    page: str


class Job:
    """One job on a runner of its own, whose workspace is a repository; `checkout` is where the action's own files lie."""

    def __init__(self, repository: Repository, temp: Path, checkout: Path = ROOT) -> None:
        self.repository = repository
        self.temp = temp
        self.pip_log = temp / "pip"
        self._files = {name: temp / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
        for file in self._files.values():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        self._environment = {
            **repository.environment,
            "RUNNER_TEMP": str(temp / "runner"),
            "GITHUB_WORKSPACE": str(repository.folder),
            "GITHUB_ACTION_PATH": str(checkout),
            **{name: str(file) for name, file in self._files.items()},
        }
        (temp / "runner").mkdir()

    def pretend_pip(self) -> None:
        """Let no package be fetched: what the tests run with stands for what pip would install."""
        programs, pip = self.temp / "bin", self.temp / "modules" / "pip"
        programs.mkdir()
        (programs / "python3").write_text(_PYTHON.format(python=sys.executable))
        (programs / "python3").chmod(0o755)
        pip.mkdir(parents=True)
        (pip / "__init__.py").touch()
        (pip / "__main__.py").write_text(_PIP)
        installed = [
            Path(sessioncompress.__file__).parents[1],
            sysconfig.get_path("purelib"),
            sysconfig.get_path("platlib"),
        ]
        self._environment |= {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, [pip.parent, *installed])),
            "PIP_WAS_TOLD": str(self.pip_log),
        }

    def use(self, given: Mapping[str, str]) -> Done:
        """Use the action, step after step up to the first that fails."""
        said = action()
        assert set(given) <= set(said["inputs"])
        values = {f"inputs.{name}": given.get(name, about.get("default", "")) for name, about in said["inputs"].items()}
        log, code = "", 0
        for step in said["runs"]["steps"]:
            done = self.step(step, values)
            log, code = log + done.log, done.exit_code
            if "id" in step:
                values |= {f"steps.{step['id']}.outputs.{name}": value for name, value in done.outputs.items()}
            if code:
                break
        outputs = {name: filled(about["value"], values) for name, about in said["outputs"].items()}
        return Done(code, log, outputs, self._files["GITHUB_STEP_SUMMARY"].read_text())

    def step(self, step: Mapping[str, Any], values: Mapping[str, str]) -> Done:
        """Run one `run` step of the action or of a workflow in the workspace."""
        script = self.temp / "step.sh"
        script.write_text(filled(step["run"], values))
        output = self._files["GITHUB_OUTPUT"]
        output.write_text("")
        added = {name: filled(str(value), values) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            [need("bash"), *SHELL, str(script)],
            cwd=self.repository.folder,
            env={**self._environment, "PATH": self._path(), **added},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return Done(done.returncode, done.stdout, outputs, "")

    def _path(self) -> str:
        added = reversed(self._files["GITHUB_PATH"].read_text().splitlines())
        return os.pathsep.join([*added, self._environment["PATH"]])


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put the values of expressions into a text, as the runner does before any shell sees it."""
    return _EXPRESSION.sub(lambda found: values.get(found[1], ""), text)
