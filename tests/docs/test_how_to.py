"""What the tutorial and the how-to guides tell to do works: each command runs, and prints what they show."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sessioncompress.hooks import AGENTS
from tests.cli.action.runner import action
from tests.docs.pages import DOCS, ROOT, Code, Place, alike, blocks, code, commands_shown, page, rows, section
from tests.docs.reference import make_reference
from tests.support.rows import database
from tests.support.runs import fixture

TUTORIALS = sorted(f"docs/tutorial/{path.name}" for path in (DOCS / "tutorial").glob("*.md"))
HOW_TOS = sorted(f"docs/how-to/{path.name}" for path in (DOCS / "how-to").glob("*.md"))
CI = "docs/how-to/ci.md"
PRE_COMMIT = "docs/how-to/pre-commit.md"
BEFORE = ("sessioncompress compress session.jsonl sessions", "cp session.jsonl fork.jsonl")
"""What somebody who reads a how-to guide has done before."""


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_can_be_followed(name: str, tmp_path: Path) -> None:
    """From its first line to the last, each printing what it shows."""
    place = Place(tmp_path)
    given = code(page(name))
    assert len(given) > 5
    for each in given:
        printed = run(place, each)
        assert each.output is None or alike(each.output, printed), printed
    assert sum(each.output is not None for each in given) > 5


def guided() -> list[tuple[str, int, Code]]:
    """Return the shell blocks of all how-to guides but that on object stores, which tests/cli/test_cloud.py follows."""
    here = (name for name in HOW_TOS if Path(name).stem != "cloud")
    return [(name, number, each) for name in here for number, each in enumerate(code(page(name)))]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Make the place of somebody who reads a how-to guide, once for all of them."""
    place = Place(tmp_path_factory.mktemp("before"))
    run(place, Code(BEFORE))
    return place


@pytest.mark.parametrize(("name", "number", "given"), guided(), ids=[f"{Path(n).stem}-{i}" for n, i, _ in guided()])
def test_a_guide_can_be_followed(name: str, number: int, given: Code, before: Place, tmp_path: Path) -> None:
    """Each block by itself, since nobody needs all of a guide; what is made of a fixture is as it is shown."""
    place = Place(tmp_path, before)
    if Path(name).stem == "databases":
        database(tmp_path / ".local/share/opencode/opencode.db", fixture("opencode.json"))
    printed = run(place, given)
    if given.output is not None and all(" fixtures/" in line for line in given.lines):
        assert given.output.strip() == printed.strip()


def test_after_the_guide_to_remove_it_nothing_is_left(tmp_path: Path) -> None:
    """Whoever has hooks, compressed, compacted and packed sessions has them as before, and nothing of ours."""
    place = Place(tmp_path)
    first = "~/.pi/agent/sessions/--work--/2026-03-02_first.jsonl"
    run(
        place,
        Code(
            (f"cp {first} ~/.pi/agent/sessions/--work--/second.jsonl", "touch -d 2020-01-01 ~/.pi/agent/sessions/*/*")
        ),
    )
    before = left(tmp_path)
    given = (
        "sessioncompress hook install claude-code",
        "sessioncompress compress --all --yes",
        f"sessioncompress compact {first} --keep-tokens 2000",
        "sessioncompress compress session.jsonl sessions ~/archive",
        "sessioncompress pack ~/.pi/agent/sessions",
        "sessioncompress report --all",
    )
    run(place, Code(given))
    assert set(left(tmp_path)) - set(before)
    guide = code(page("docs/how-to/remove.md"))
    assert [line.split()[-1] for each in guide for line in each.lines if "hook uninstall" in line] == [*AGENTS]
    for each in guide:
        run(place, each)
    assert left(tmp_path) == before
    assert not [*tmp_path.rglob("*sessioncompress/*")]


def left(folder: Path) -> dict[str, bytes]:
    """Read all files of a place, but for git's."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def run(place: Place, given: Code) -> str:
    """Run the lines of a block, none of which may fail; return what they print."""
    printed = ""
    for line in given.lines:
        done = place.run(line)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        printed += done.stdout
    return printed


@pytest.mark.parametrize("name", HOW_TOS)
def test_a_guide_shows_what_to_do(name: str) -> None:
    assert code(page(name)) or blocks(page(name), "yaml")


def test_every_input_of_the_action_is_told_of() -> None:
    told = rows(section(CI, "On GitHub"))
    for name, about in action()["inputs"].items():
        default = told[f"`{name}`"].split("|")[0].strip()
        assert default == (f"`{about['default']}`" if about.get("default") else default)
    assert {name for name in told if name.startswith("`")} == {f"`{name}`" for name in action()["inputs"]}


def snippets() -> list[tuple[str, str]]:
    return [(name, text) for name in HOW_TOS for text in blocks(page(name), "yaml")]


@pytest.mark.parametrize(("name", "text"), snippets(), ids=[Path(name).stem for name, _ in snippets()])
def test_a_snippet_is_yaml_with_inputs_and_hooks_that_exist(name: str, text: str) -> None:
    """And commands of ours in it exist; `tests/cli/action` runs the workflows, `tests/cli/test_pre_commit.py` the hooks."""
    said = yaml.safe_load(text)
    steps = said["jobs"]["turn"]["steps"] if name == CI else said if isinstance(said, list) else []
    for step in steps:
        if "sessioncompress@" in step.get("uses", ""):
            assert step["with"].keys() <= action()["inputs"].keys()
        for each in commands_shown(f"```sh\n{step.get('run', '')}\n```"):
            assert each.split()[0] in make_reference.commands()
    if name == PRE_COMMIT:
        ids = [hook["id"] for repo in said["repos"] for hook in repo["hooks"]]
        manifest = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
        assert set(ids) <= {hook["id"] for hook in manifest}
        assert {hook["id"] for hook in manifest} == {
            first.strip("`") for first in rows(page(PRE_COMMIT)) if first.startswith("`")
        }
    assert steps or name == PRE_COMMIT
