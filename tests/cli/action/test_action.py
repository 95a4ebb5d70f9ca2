"""The action over a repository as GitClaw keeps one: after the agent, before `git add`, each turn in a fresh clone."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from sessioncompress.store.layout import plain_in, store_in
from tests.cli.action.runner import ROOT, Done, Job, action
from tests.docs.pages import blocks, page
from tests.support.repository import Repository
from tests.support.runs import fixture, split

pytestmark = pytest.mark.slow

SESSIONS = ".GITCLAW/state/sessions"
FIRST, SECOND = f"{SESSIONS}/2026-03-01-first.jsonl", f"{SESSIONS}/2026-03-02-second.jsonl"
USED = {"paths": SESSIONS}
GUIDES = ("ci", "gitclaw")
TAIL = 9
"""Lines that the agent appends to a session in a later turn."""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository in which the agent has just ended: the session it worked in is the newest."""
    found = Repository(tmp_path / "work")
    folder = found.folder / SESSIONS
    folder.mkdir(parents=True)
    for number, (path, name) in enumerate([(FIRST, "omp.jsonl"), (SECOND, "pi-anthropic.jsonl")]):
        (found.folder / path).write_bytes(fixture(name))
        os.utime(found.folder / path, ns=(0, (1_700_000_000 + 60 * number) * 10**9 + 123))
    return found


@pytest.fixture
def job(repository: Repository, tmp_path: Path) -> Job:
    return job_in(repository, tmp_path / "job")


def job_in(repository: Repository, temp: Path) -> Job:
    found = Job(repository, temp)
    found.pretend_pip()
    return found


def command(job: Job, *arguments: str) -> str:
    """Run the command as a later step of the job finds it; return what it printed."""
    done = job.step({"run": " ".join(["sessioncompress", *arguments])}, {})
    assert done.exit_code == 0, done.log
    return done.log


def newest_first(folder: Path) -> list[str]:
    return [path.name for path in sorted(folder.glob("*.jsonl"), key=lambda path: -path.stat().st_mtime_ns)]


def document(done: Done) -> dict[str, object]:
    loaded: dict[str, object] = json.loads(Path(done.outputs["json"]).read_bytes())
    return loaded


def test_no_input_becomes_part_of_a_script() -> None:
    """Expressions stand in the environment of a step alone, and each input in that of one."""
    said = action()
    steps = said["runs"]["steps"]
    assert said["runs"]["using"] == "composite"
    for step in steps:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
    given = [value for step in steps for value in step.get("env", {}).values()]
    assert sorted(given) == sorted(f"${{{{ inputs.{name} }}}}" for name in said["inputs"])


def test_the_checkout_is_installed_and_its_command_alone_is_on_the_path(job: Job) -> None:
    """Nothing else is said to pip; python stays the one that the job has."""
    python = job.step({"run": "command -v python3"}, {}).log
    assert job.use(USED).exit_code == 0
    told = json.loads(job.pip_log.read_bytes())
    assert told == ["install", "--quiet", "--disable-pip-version-check", str(ROOT)]
    assert "sessioncompress" in command(job, "--version")
    assert job.step({"run": "command -v python3"}, {}).log == python
    assert job.use(USED).exit_code == 0


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="pip asks an index: done where CI is true")
def test_it_installs_for_real(repository: Repository, tmp_path: Path) -> None:
    """With the pip of a new environment, from the files of the checkout."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    built = ("sessioncompress", "docs", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
    for name in (*built, "action", "action.yml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, checkout / name)
    real = Job(repository, tmp_path / "job", checkout)
    done = real.use(USED)
    assert done.exit_code == 0, done.log
    assert "2 compressed" in done.page
    assert re.fullmatch(r"sessioncompress, version [\d.]+\n", command(real, "--version"))


@pytest.mark.parametrize("name", ["logging.py", "pip/__main__.py"])
def test_no_module_of_the_repository_is_taken_for_one_of_pythons(repository: Repository, job: Job, name: str) -> None:
    """Both steps begin in the workspace, where anybody's project lies."""
    module = repository.folder / name
    module.parent.mkdir(exist_ok=True)
    module.with_name("__init__.py").touch()
    module.write_text("raise SystemExit('the workspace was imported')")
    done = job.use(USED)
    assert done.exit_code == 0, done.log
    assert job.pip_log.exists()


def test_python_too_old_is_said(job: Job) -> None:
    """With the step that helps; nothing is installed."""
    python = job.temp / "bin" / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    done = job.use(USED)
    assert done.exit_code == 1
    assert "::error title=sessioncompress::Python 3.11 or later is needed" in done.log
    assert not job.pip_log.exists()


def test_a_line_a_table_and_a_document(job: Job) -> None:
    """For each session the line of `compress`, its row, and the document that `--json` prints."""
    done = job.use(USED)
    assert done.exit_code == 0, done.log
    lines = [line for line in done.log.splitlines() if line.startswith(SESSIONS)]
    assert len(lines) == 2
    for line, path in zip(lines, (FIRST, SECOND), strict=True):
        assert re.match(rf"{path}: [\d,]+ KB -> [\d,]+ KB \(\d+ % smaller; .*; store [\d,]+ KB\)", line), line
        before, after = re.findall(r"[\d,]+ KB", line)[:2]
        row = next(row for row in done.page.splitlines() if Path(path).stem in row)
        assert f" | {before} | {after} | " in row
    found = document(done)
    assert found["schema"] == "sessioncompress.compress/1"
    assert "2 compressed. With their stores: 502 KB -> " in done.page


def test_sessions_are_compacted_first_where_that_is_asked_for(repository: Repository, job: Job, tmp_path: Path) -> None:
    """A line each, the documents of both commands; a clone gives every byte back."""
    done = job.use({**USED, "compact": "true"})
    assert done.exit_code == 0, done.log
    lines = [line for line in done.log.splitlines() if line.startswith(SESSIONS)]
    assert [line.partition(": ")[0] for line in lines] == [FIRST, SECOND, FIRST, SECOND]
    assert lines[0] == f"{FIRST}: unchanged: nothing is old enough to summarize"
    assert re.search(
        r": [\d,]+ -> [\d,]+ tokens for the model, [\d,]+ of them the summary \(35 of 95 messages kept", lines[1]
    )
    assert "1 session compacted: " in done.page
    told = json.loads(Path(done.outputs["compact-json"]).read_bytes())
    assert [each["status"] for each in told["files"]] == ["unchanged", "compacted"]
    repository.commit()
    clone = repository.clone(tmp_path / "clone")
    later = job_in(clone, tmp_path / "later")
    again = later.use({**USED, "compact": "true"})
    assert again.exit_code == 0, again.log
    assert clone.git("status", "--porcelain") == ""
    command(later, "restore", SESSIONS)
    assert (clone.folder / SECOND).read_bytes() == fixture("pi-anthropic.jsonl")


def test_sessions_are_compacted_by_their_rule(repository: Repository, job: Job) -> None:
    done = job.use({**USED, "compact": "if-due"})
    assert done.exit_code == 2
    assert "which does not say when to write a summary" in done.log
    assert (repository.folder / SECOND).read_bytes() == fixture("pi-anthropic.jsonl")
    given: dict[str, object] = {"budget": {"rule": "omp", "thresholdTokens": 50_000}}
    (repository.folder / "compression.json").write_text(json.dumps({"session": given}))
    done = job.use({**USED, "compact": "if-due"})
    assert done.exit_code == 0, done.log
    assert f"{FIRST}: skipped: 16,680 tokens in use are within the threshold of 50,000 (rule omp)" in done.log
    assert re.search(rf"{SECOND}: skipped: .* \(rule omp\): compress is enough", done.log)
    assert "1 compressed, 1 skipped" in done.page
    command(job, "restore", SESSIONS)
    # What is protected no run of compress takes.
    given |= {"turnThresholdBeforeCompress": 100, "protectTokens": None}
    (repository.folder / "compression.json").write_text(json.dumps({"session": given}))
    done = job.use({**USED, "compact": "if-due"})
    assert done.exit_code == 0, done.log
    assert "1 session compacted: " in done.page


def test_the_newest_session_stays_the_newest(repository: Repository, job: Job) -> None:
    """By the times that GitClaw compares; they are kept to the nanosecond."""
    folder = repository.folder / SESSIONS
    times = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.jsonl")}
    assert job.use(USED).exit_code == 0
    assert newest_first(folder) == [Path(SECOND).name, Path(FIRST).name]
    assert {path.name: path.stat().st_mtime_ns for path in folder.glob("*.jsonl")} == times


def test_originals_go_into_the_commit_and_come_back_from_a_clone(
    repository: Repository, job: Job, tmp_path: Path
) -> None:
    """To the byte: git keeps no times, so these are the clone's own. The clone stays clean but for the sessions."""
    assert job.use(USED).exit_code == 0
    repository.git("add", SESSIONS)
    stored = (each for path in (FIRST, SECOND) for each in stored_with(repository.folder / path))
    names = {str(each.relative_to(repository.folder)) for each in stored}
    assert repository.staged() == {*names, f"{SESSIONS}/.sessioncompress/.gitattributes"}
    repository.commit()
    clone = repository.clone(tmp_path / "clone")
    assert (clone.folder / SECOND).stat().st_size < len(fixture("pi-anthropic.jsonl"))
    later = job_in(clone, tmp_path / "later")
    assert later.use(USED).exit_code == 0
    assert clone.git("status", "--porcelain") == ""
    command(later, "restore", SESSIONS)
    assert (clone.folder / FIRST).read_bytes() == fixture("omp.jsonl")
    assert (clone.folder / SECOND).read_bytes() == fixture("pi-anthropic.jsonl")
    assert not any(line.startswith("??") for line in clone.git("status", "--porcelain").splitlines())


def test_turn_after_turn_in_fresh_clones(repository: Repository, tmp_path: Path) -> None:
    """Each job begins with a clone, appends a turn, and commits; the last one gives back all that was ever written."""
    lines = split(fixture("pi-anthropic.jsonl"))
    session = repository.folder / SECOND
    session.write_bytes(b"".join(lines[: -3 * TAIL]))
    for turn in range(3):
        job = job_in(repository, tmp_path / f"job-{turn}")
        done = job.use({**USED, "preset": "low-cost"})
        assert done.exit_code == 0, done.log
        repository.commit(f"turn {turn}")
        repository = repository.clone(tmp_path / f"clone-{turn}")
        session = repository.folder / SECOND
        with session.open("ab") as file:
            file.write(b"".join(lines[len(lines) - TAIL * (3 - turn) : len(lines) - TAIL * (2 - turn)]))
    last = job_in(repository, tmp_path / "job")
    assert last.use({**USED, "preset": "low-cost"}).exit_code == 0
    command(last, "verify", SESSIONS)
    command(last, "restore", SESSIONS)
    assert session.read_bytes() == fixture("pi-anthropic.jsonl")


RULES: Mapping[str, tuple[str, str]] = {
    "the folder": (".gitignore", ".sessioncompress/\n"),
    "all that is packed": (".gitignore", "*.log\n*.zst\n"),
    "in the folder above": (".GITCLAW/.gitignore", "state/sessions/.*\n"),
}
"""Files, and rules in them by which git would not take the originals."""


@pytest.mark.parametrize("name", RULES)
def test_originals_that_git_would_not_take_are_an_error(repository: Repository, job: Job, name: str) -> None:
    """They would be lost with the runner, so nothing is changed; without originals there are none to lose."""
    file, rules = RULES[name]
    (repository.folder / file).write_text(rules)
    done = job.use(USED)
    assert done.exit_code == 2
    assert "::error title=sessioncompress::git ignores originals, or changes them or their sessions" in done.log
    assert f"{FIRST.replace('2026', '.sessioncompress/2026')}.zst ({file}:" in done.log
    assert (repository.folder / SECOND).read_bytes() == fixture("pi-anthropic.jsonl")
    assert job.use({**USED, "originals": "none"}).exit_code == 0


def test_rules_that_do_not_matter(repository: Repository, job: Job) -> None:
    """One that is taken back, and that of an earlier run which was not to commit anything."""
    (repository.folder / ".gitignore").write_text("*.zst\n!*.jsonl.zst\n")
    plain_in(repository.folder / SECOND).folder.mkdir(exist_ok=True)
    (plain_in(repository.folder / SECOND).folder / ".gitignore").write_text("*\n")
    assert job.use(USED).exit_code == 0
    repository.git("add", SESSIONS)
    assert str(plain_in(Path(SECOND)).originals) in repository.staged()


def test_without_originals_markers_name_no_way_back(repository: Repository, job: Job, tmp_path: Path) -> None:
    """The journal is committed even so: a later run in a clone knows what is ours, and changes nothing."""
    done = job.use({**USED, "originals": "none"})
    assert done.exit_code == 0
    text = (repository.folder / SECOND).read_text()
    assert "[[sessioncompress: " in text
    assert "sessioncompress show" not in text
    repository.commit()
    assert not any(path.endswith(".zst") for path in repository.tracked())
    clone = repository.clone(tmp_path / "clone")
    later = job_in(clone, tmp_path / "later")
    done = later.use({**USED, "originals": "none"})
    assert done.exit_code == 0
    assert "no journal" not in done.log
    assert "1 unchanged, 1 skipped." in done.page
    assert clone.git("status", "--porcelain") == ""
    assert "no original (keepBackup: false)" in command(later, "verify", SESSIONS)


def test_preset_and_policy_file_are_heeded(repository: Repository, job: Job) -> None:
    """What each of them changes can be seen in the result."""
    policy = repository.folder / "our policy.json"
    policy.write_text('{"session": {"stripThinking": false, "sizeThresholdKB": 200}}')
    done = job.use({"paths": SESSIONS, "config": "our policy.json", "preset": "low-cost"})
    assert done.exit_code == 0, done.log
    assert f"{FIRST}: skipped: 165 KB, under the threshold of 200 KB" in done.log
    assert "thinking" not in done.log
    plain = document(done)["totals"]
    assert isinstance(plain, dict)
    assert plain["thinkingBlocksRemoved"] == 0
    assert plain["compressedSize"] < 260_000


def test_paths_are_lines(repository: Repository, job: Job) -> None:
    """Files and folders, with blanks in their names, and none that looks like an option is one."""
    for name in ("with a blank", "--json"):
        (repository.folder / name).mkdir()
        shutil.copy(repository.folder / SECOND, repository.folder / name / "session.jsonl")
    done = job.use({"paths": f"\n  {SECOND}\nwith a blank\n--json\n"})
    assert done.exit_code == 0, done.log
    assert "3 compressed" in done.page


WRONG: Mapping[str, tuple[Mapping[str, str], str]] = {
    "no paths": ({"paths": " \n"}, "the input 'paths' names no session and no folder"),
    "originals": ({**USED, "originals": "keep"}, "the input 'originals' must be 'history', 'commit' or 'none'"),
    "fail-if-larger": ({**USED, "fail-if-larger": "yes"}, "the input 'fail-if-larger' must be 'true' or 'false'"),
    "a path that is not there": ({"paths": "elsewhere"}, "ask for something that does not exist, and nothing was done"),
    "a preset that is none": (
        {**USED, "preset": "cheap"},
        "ask for something that does not exist, and nothing was done",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_is_an_error_that_the_job_shows(repository: Repository, job: Job, name: str) -> None:
    given, said = WRONG[name]
    done = job.use(given)
    assert done.exit_code == 2
    assert re.search(rf"^::error title=sessioncompress::.*{re.escape(said)}", done.log, re.MULTILINE), done.log
    assert (repository.folder / SECOND).read_bytes() == fixture("pi-anthropic.jsonl")
    assert done.page == ""


def test_one_that_is_damaged_fails_the_step_and_stops_no_other(repository: Repository, job: Job) -> None:
    """The log says what is wrong, table and document have all of them."""
    assert job.use(USED).exit_code == 0
    originals = repository.folder / SESSIONS / ".sessioncompress" / f"{Path(FIRST).name}.zst"
    originals.unlink()
    third = f"{SESSIONS}/third.jsonl"
    (repository.folder / third).write_bytes(fixture("pi-anthropic.jsonl"))
    done = job.use(USED)
    assert done.exit_code == 5
    assert f"failed: {originals}: " in done.log
    assert "::error title=sessioncompress::a store or a session failed its check" in done.log
    assert f"{third}: 338 KB -> " in done.log
    assert "| failed: " in done.page
    files = document(done)["files"]
    assert isinstance(files, list)
    assert [file["status"] for file in files] == ["failed", "unchanged", "compressed"]


def test_a_name_commands_nobody(repository: Repository, job: Job) -> None:
    """Neither the runner, which obeys lines that begin with colons, nor the page that shows the summary."""
    folder = repository.folder / "here"
    folder.mkdir()
    name = "::add-path::|<b>_x_`[a](b).jsonl"
    shutil.copy(repository.folder / SECOND, folder / name)
    shutil.copy(repository.folder / SECOND, repository.folder / name)
    done = job.use({"paths": f"here\n{name}"})
    assert done.exit_code == 0, done.log
    stopped = re.search(r"^::stop-commands::([0-9a-f]{32})$(.*)^::\1::$", done.log, re.MULTILINE | re.DOTALL)
    assert stopped
    assert f"\n{name}: " in stopped[2]
    assert "::add-path" not in done.log.replace(stopped[2], "")
    row = next(line for line in done.page.splitlines() if line.startswith("| <code>here"))
    assert row.count("|") == 7
    assert not set("<_`[") & set(row.replace("<code>", "").replace("</code>", ""))


# What the how-to guides show


def workflows() -> list[Sequence[Mapping[str, Any]]]:
    """Return the steps of the guides' workflows: those of a job, and those that take the place of GitClaw's."""
    (plain,), (gitclaw,) = (map(yaml.safe_load, blocks(page(f"docs/how-to/{name}.md"), "yaml")) for name in GUIDES)
    return [plain["jobs"]["turn"]["steps"], gitclaw]


@pytest.mark.parametrize("number", [0, 1], ids=["plain", "GitClaw"])
def test_the_workflows_of_the_guides_commit_a_turn(number: int, repository: Repository, tmp_path: Path) -> None:
    """With inputs that the action has, and a push; GitClaw's also where the job of another issue was faster."""
    agent, use, commit = workflows()[number][-3:]
    assert (use["name"], use["uses"]) == ("Compress", "OWNER/sessioncompress@REF")
    assert commit["if"] == "${{ !cancelled() && steps.agent.outcome == 'success' }}"
    assert agent["id"] == "agent"
    origin = with_origin(repository, tmp_path)
    if number:
        other = repository.clone(tmp_path / "other")
        (other.folder / "another issue").write_text("")
        other.commit()
        other.git("push", "--quiet", origin, "main")
    put = repository.folder / use["with"]["paths"] / "new.jsonl"
    put.parent.mkdir(parents=True, exist_ok=True)
    put.write_bytes(fixture("pi-anthropic.jsonl"))
    job = job_in(repository, tmp_path / "job")
    assert job.use(use["with"]).exit_code == 0
    done = job.step(commit, {"github.event.repository.default_branch": "main", "github.event.issue.number": "7"})
    assert done.exit_code == 0, done.log
    pushed = Repository(origin, {"GIT_DIR": str(origin)})
    assert {str(path.relative_to(repository.folder)) for path in stored_with(put)} <= pushed.tracked()


def with_origin(repository: Repository, folder: Path) -> Path:
    """Commit what is there, and push it to a new repository without a work tree; return that."""
    repository.commit()
    repository.git("clone", "--quiet", "--bare", repository.folder, folder / "bare")
    repository.git("remote", "add", "origin", folder / "bare")
    repository.git("fetch", "--quiet")
    repository.git("branch", "--set-upstream-to", "origin/main")
    return folder / "bare"


def stored_with(session: Path) -> tuple[Path, ...]:
    files = store_in(session)
    return (session, files.originals, files.journal)
