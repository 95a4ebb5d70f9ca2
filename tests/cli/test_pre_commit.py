"""The hooks of pre-commit: the command that they call, and the real pre-commit in a repository made for the test."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import CliRunner, Result

from sessioncompress.cli.main import main
from sessioncompress.store.layout import store_in
from sessioncompress.store.machine import folder_name
from tests.support.repository import Repository
from tests.support.runs import MTIME, fixture, invoke, snapshot, split

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
NAME = "sessions/a.jsonl"
ORIGINAL = fixture("pi-anthropic.jsonl")
STORE = {f"sessions/.sessioncompress/{name}" for name in (".gitattributes", "a.jsonl.zst", "a.refs.jsonl")}
EAGERLY = '{"session": {"sizeThresholdKB": 1, "everyTurns": 1, "minSavedKB": 1}}'
COMMITTED = "--commit-originals"
COMMAND = '#!/bin/sh\nexec {python} -m sessioncompress "$@"\n'


def manifest() -> Mapping[str, Mapping[str, Any]]:
    return {hook["id"]: hook for hook in yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))}


# The command


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository with one session in it that is not staged yet; it is the working folder."""
    found = Repository(tmp_path / "work", {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    put(found.folder / NAME)
    monkeypatch.chdir(found.folder)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


def put(path: Path, data: bytes = ORIGINAL) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, ns=(MTIME, MTIME))
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pre-commit", *arguments], catch_exceptions=False)


def look_alikes(folder: Path) -> list[str]:
    """Return files that a pattern for sessions fits too, big enough to be opened, and small ones."""
    big = {
        "package-lock.json": orjson.dumps({"packages": {f"a{number}": {"version": "1"} for number in range(9000)}}),
        "rows.jsonl": b'{"text": "a row of data", "label": 1}\n' * 9000,
        "chat.jsonl": fixture("chat.jsonl") * 3,
        "broken.json": b'{"messages": [' + b" " * 200_000,
        "small.jsonl": b"{}\n",
        "empty.json": b"",
        "notes.txt": ORIGINAL,
    }
    for name, data in big.items():
        put(folder / name, data)
    (folder / "link.jsonl").symlink_to(folder / NAME)
    return [*big, "link.jsonl"]


def test_it_rewrites_and_fails(repository: Repository) -> None:
    """Once: then there is nothing more to do. What lies beside is kept, and git does not see it."""
    path = repository.folder / NAME
    first = run(NAME)
    assert first.exit_code == 1
    assert first.stdout.startswith(f"{NAME}: 338 KB -> ")
    assert path.stat().st_size < len(ORIGINAL) / 2
    assert path.stat().st_mtime_ns == MTIME
    before = snapshot(path)
    second = run(NAME)
    assert (second.exit_code, second.output) == (0, "")
    assert snapshot(path) == before
    repository.git("add", ".")
    assert repository.staged() == {NAME}


def test_check_changes_nothing(repository: Repository) -> None:
    """It fails as long as there is something to do."""
    before = snapshot(repository.folder / NAME)
    checked = run("--check", NAME)
    assert checked.exit_code == 1
    assert checked.stdout.startswith(f"{NAME}: 338 KB would become ")
    assert snapshot(repository.folder / NAME) == before
    run(NAME)
    assert run("--check", NAME).exit_code == 0


def test_what_is_no_session_is_passed_over_in_silence(repository: Repository) -> None:
    """Nor does it stop the sessions among them; without any file there is nothing to do."""
    names = look_alikes(repository.folder)
    assert run(NAME, *names).stderr.endswith(f" {NAME}\n")
    names += [str(store_in(repository.folder / NAME).journal.relative_to(repository.folder))]
    before = {name: (repository.folder / name).read_bytes() for name in names}
    done = run(*names, NAME)
    assert (done.exit_code, done.output) == (0, "")
    assert {name: (repository.folder / name).read_bytes() for name in names} == before
    assert run().exit_code == 0


def test_policy_and_preset_are_heeded(repository: Repository) -> None:
    """The nearest file, or the one that is named, and the preset."""
    (repository.folder / "compression.json").write_text('{"session": {"enabled": false}}')
    assert run("--check", NAME).exit_code == 0
    (repository.folder / "other.json").write_text('{"session": {"sizeThresholdKB": 400}}')
    assert run("--check", "--config", "other.json", NAME).exit_code == 0
    (repository.folder / "compression.json").unlink()
    default, low = run("--check", NAME), run("--check", "--preset", "low-cost", NAME)
    assert low.exit_code == default.exit_code == 1
    assert low.stdout != default.stdout


def test_a_wrong_policy_is_an_error_before_anything_is_done(repository: Repository) -> None:
    put(repository.folder / "other" / "b.jsonl")
    (repository.folder / "other" / "compression.json").write_text('{"session": {"enable": true}}')
    done = run(NAME, "other/b.jsonl")
    assert done.exit_code == 2
    assert 'did you mean "enabled"?' in done.stderr
    assert (repository.folder / NAME).read_bytes() == ORIGINAL


def test_damage_is_an_error_and_stops_no_other(repository: Repository) -> None:
    """Exit code 5, whatever else was rewritten."""
    assert run(NAME).exit_code == 1
    (repository.folder / "compression.json").write_text('{"session": {"sizeThresholdKB": 1}}')
    store_in(repository.folder / NAME).originals.unlink()
    other = put(repository.folder / "sessions" / "b.jsonl")
    done = run(NAME, "sessions/b.jsonl")
    assert done.exit_code == 5
    assert "failed: " in done.stderr
    assert other.stat().st_size < len(ORIGINAL)


@pytest.mark.parametrize("check", [[], ["--check"]], ids=["rewrite", "check"])
def test_a_session_that_became_small_still_needs_its_originals(repository: Repository, check: list[str]) -> None:
    """It is under the threshold now, and no run opens it any more."""
    (repository.folder / "compression.json").write_text('{"session": {"sizeThresholdKB": 200}}')
    assert run(NAME).exit_code == 1
    assert (repository.folder / NAME).stat().st_size < 200 * 1024
    store_in(repository.folder / NAME).originals.unlink()
    done = run(*check, NAME)
    assert done.exit_code == 5
    assert ".zst: it is missing, and with it the " in done.stderr
    assert "Without one 'sessioncompress forget'" in done.stderr
    (repository.folder / "mine.json").write_text('{"session": {"keepBackup": false}}')
    assert run(*check, "--config", "mine.json", NAME).exit_code == 5


def test_originals_are_staged_where_the_user_says_so(repository: Repository) -> None:
    """With the session's own file left to the user; also where an earlier run, or nobody, has staged them."""
    assert run(COMMITTED, NAME).exit_code == 1
    assert repository.staged() == STORE
    repository.git("reset", "--quiet")
    checked = run("--check", COMMITTED, NAME)
    assert checked.exit_code == 1
    assert all(f"not staged: '{name}'" in checked.stdout for name in STORE)
    assert repository.staged() == set()
    (repository.folder / "mine.json").write_text('{"session": {"commitOriginals": true}}')
    assert run("--config", "mine.json", NAME).exit_code == 0
    assert repository.staged() == STORE
    assert run("--check", COMMITTED, NAME).exit_code == 0


def test_originals_that_an_earlier_run_hid_are_staged(repository: Repository) -> None:
    """When the user begins to say so, and the session itself has nothing due."""
    assert run(NAME).exit_code == 1
    checked = run("--check", COMMITTED, NAME)
    assert checked.exit_code == 1
    assert checked.stdout == (
        f"{NAME}: its originals are hidden from git in sessions/.sessioncompress/{folder_name()}\n"
        f"Run 'sessioncompress compress --commit-originals {NAME}', then 'git add' the sessions and their stores, and commit "
        "again.\n"
    )
    assert run(COMMITTED, NAME).exit_code == 0
    assert repository.staged() >= STORE


@pytest.mark.parametrize("hidden", [False, True], ids=["first run", "an earlier one hid them"])
def test_what_a_check_advises_leads_to_the_commit(repository: Repository, hidden: bool) -> None:
    """With the options that the hook has; a run without them would hide the originals from every later check."""
    (repository.folder / "my policy.json").write_text(EAGERLY)
    if hidden:
        assert run(NAME).exit_code == 1
    options = ["--config", "my policy.json", "--preset", "low-cost", COMMITTED]
    checked = run("--check", *options, NAME)
    assert checked.exit_code == 1
    command = checked.stdout.split("Run '", 1)[1].rsplit("', then 'git add'", 1)[0]
    assert invoke(*shlex.split(command)[1:]).exit_code == 0
    repository.git("add", NAME)
    lacking = run("--check", *options, NAME)
    assert lacking.exit_code == 1
    assert "Run 'git add' on what is not staged, and commit again." in lacking.stdout
    repository.git("add", "sessions/.sessioncompress")
    assert run("--check", *options, NAME).exit_code == 0
    assert repository.staged() >= STORE | {NAME}


def test_originals_that_git_is_not_to_see_are_an_error(repository: Repository) -> None:
    """A rule of the user's says otherwise than the option: nothing is forced, and what to do is said."""
    (repository.folder / ".gitignore").write_text(".sessioncompress/\n")
    done = run(COMMITTED, NAME)
    assert done.exit_code == 3
    assert "or run with --originals-in hidden (commitOriginals: false in your policy)" in done.stderr
    assert repository.staged() == set()
    assert invoke("restore", NAME).exit_code == 0
    assert (repository.folder / NAME).read_bytes() == ORIGINAL


def test_the_manifest_says_what_the_command_takes() -> None:
    """Two hooks, alike but for the check, with the action's default; what lies beside sessions does not pass."""
    hooks = manifest()
    assert list(hooks) == ["sessioncompress", "sessioncompress-check"]
    entries = [hook["entry"].split() for hook in hooks.values()]
    command = ["sessioncompress", "pre-commit", "--originals-in", "history"]
    assert entries == [command, [*command, "--check"]]
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert action["inputs"]["originals"]["default"] == command[-1]
    assert {key: hooks["sessioncompress"][key] for key in ("files", "exclude", "language", "require_serial")} == {
        key: hooks["sessioncompress-check"][key] for key in ("files", "exclude", "language", "require_serial")
    }


# The real pre-commit


class Hooked:
    """A repository in which pre-commit runs a hook of this one at each commit, by the manifest as it stands here.

    Only the language is another: `system` takes the command from the path, where `python` would install it.
    """

    def __init__(self, repository: Repository, folder: Path, hook: str, *arguments: str) -> None:
        if importlib.util.find_spec("pre_commit") is None:
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
                "pre-commit is not installed: pip install -e '.[dev]'"
            )
        hooks = Repository(folder / "hooks", repository.environment)
        shutil.copy(MANIFEST, hooks.folder)
        hooks.commit("hooks")
        program = folder / "bin" / "sessioncompress"
        program.parent.mkdir()
        program.write_text(COMMAND.format(python=sys.executable))
        program.chmod(0o755)
        repository.environment["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        repository.environment["PRE_COMMIT_HOME"] = str(folder / "pre-commit")
        repository.environment["PYTHONPATH"] = str(ROOT)
        used = {"id": hook, "language": "system", "verbose": True, "args": list(arguments)}
        config = {
            "repos": [{"repo": str(hooks.folder), "rev": hooks.git("rev-parse", "HEAD").strip(), "hooks": [used]}]
        }
        (repository.folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
        self.repository = repository
        self.pre_commit("install")

    def pre_commit(self, *arguments: str) -> str:
        done = self.repository.run(sys.executable, "-m", "pre_commit", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def commit(self, *staged: str) -> tuple[bool, str]:
        """Stage files and commit; say whether the hook let that pass, and what it said."""
        self.repository.git("add", ".pre-commit-config.yaml", *staged)
        done = self.repository.run("git", "commit", "--message", "sessions")
        return done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def hooked(repository: Repository, tmp_path: Path) -> Callable[..., Hooked]:
    return lambda hook, *arguments: Hooked(repository, tmp_path, hook, *arguments)


def test_pre_commit_takes_the_manifest(hooked: Callable[..., Hooked]) -> None:
    hooked("sessioncompress").pre_commit("validate-manifest", str(MANIFEST))


def test_a_commit_is_stopped_once(hooked: Callable[..., Hooked], repository: Repository) -> None:
    """Only what is staged is rewritten. Staged again it passes; the originals are kept, and bring back every byte."""
    used = hooked("sessioncompress")
    other = put(repository.folder / "sessions" / "not-staged.jsonl")
    passed, said = used.commit(NAME)
    assert not passed
    assert "files were modified by this hook" in said
    assert f"{NAME}: 338 KB -> " in said
    assert other.read_bytes() == ORIGINAL
    passed, said = used.commit(NAME)
    assert passed, said
    assert repository.tracked() >= {NAME, *STORE}
    assert repository.git("show", f"HEAD:{NAME}").count("[[sessioncompress: ") > 5
    assert invoke("restore", NAME).exit_code == 0
    assert (repository.folder / NAME).read_bytes() == ORIGINAL


def test_the_check_stops_a_commit_until_it_is_done(hooked: Callable[..., Hooked], repository: Repository) -> None:
    used = hooked("sessioncompress-check")
    before = snapshot(repository.folder / NAME)
    passed, said = used.commit(NAME)
    assert not passed
    assert f"{NAME}: 338 KB would become " in said
    assert snapshot(repository.folder / NAME) == before
    assert invoke("compress", "--originals-in", "history", NAME).exit_code == 0
    assert used.commit("sessions")[0]


def test_other_files_pass(hooked: Callable[..., Hooked], repository: Repository) -> None:
    names = look_alikes(repository.folder)
    passed, said = hooked("sessioncompress").commit(*names)
    assert passed, said
    assert repository.tracked() == {*names, ".pre-commit-config.yaml"}


def test_lines_that_are_not_staged_come_back(hooked: Callable[..., Hooked], repository: Repository) -> None:
    """What the agent appended after `git add` is put aside by pre-commit, and stands behind the rewritten lines again."""
    used = hooked("sessioncompress")
    path, lines = repository.folder / NAME, split(ORIGINAL)
    path.write_bytes(b"".join(lines[:-9]))
    repository.git("add", NAME)
    path.write_bytes(ORIGINAL)
    passed, said = used.commit()
    assert not passed
    assert "Restored changes from" in said
    assert "conflicted" not in said
    assert path.read_bytes().endswith(b"".join(lines[-9:]))
    assert path.stat().st_size < len(ORIGINAL)
    assert invoke("restore", NAME).exit_code == 0
    assert path.read_bytes() == ORIGINAL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open")
def test_a_session_in_use_is_left_alone(hooked: Callable[..., Hooked], repository: Repository) -> None:
    used = hooked("sessioncompress")
    with (repository.folder / NAME).open("ab"):
        passed, said = used.commit(NAME)
    assert passed, said
    assert f"skipped: {NAME}: " in said
    assert repository.git("show", f"HEAD:{NAME}").encode() == ORIGINAL


def grow(repository: Repository, lines: Sequence[bytes]) -> None:
    """Append to the session, as the agent does."""
    with (repository.folder / NAME).open("ab") as file:
        file.write(b"".join(lines))


def test_originals_are_in_the_commit(hooked: Callable[..., Hooked], repository: Repository, tmp_path: Path) -> None:
    """Commit after commit, as the session grows; a clone gives back every byte."""
    used = hooked("sessioncompress", COMMITTED)
    lines = split(ORIGINAL)
    put(repository.folder / NAME, b"".join(lines[:80]))
    (repository.folder / "compression.json").write_text(EAGERLY)
    for more in (lines[80:], []):
        passed, said = used.commit(NAME, "compression.json")
        assert not passed, said
        passed, said = used.commit(NAME)
        assert passed, said
        assert repository.tracked() >= STORE
        assert repository.git("status", "--porcelain") == ""
        grow(repository, more)
    clone = repository.clone(tmp_path / "clone").folder / NAME
    assert invoke("restore", clone).exit_code == 0
    assert clone.read_bytes() == ORIGINAL


@pytest.mark.parametrize("more", [False, True], ids=["as it was compressed", "grown since"])
def test_a_commit_without_its_newest_originals_is_stopped(
    hooked: Callable[..., Hooked], repository: Repository, tmp_path: Path, more: bool
) -> None:
    """Pre-commit puts aside what is not staged, the newest originals too: nothing may be appended to what is left."""
    used = hooked("sessioncompress", COMMITTED)
    lines = split(ORIGINAL)
    put(repository.folder / NAME, b"".join(lines[:60]))
    (repository.folder / "compression.json").write_text(EAGERLY)
    used.commit(NAME, "compression.json")
    assert used.commit(NAME)[0]
    grow(repository, lines[60:80] if more else lines[60:])
    assert invoke("compress", NAME).exit_code == 0
    grow(repository, lines[80:] if more else [])
    before = (
        snapshot(repository.folder / NAME).keys(),
        *((repository.folder / name).read_bytes() for name in (NAME, *STORE)),
    )
    passed, said = used.commit(NAME)
    assert not passed
    assert "its store is not staged" in said
    assert "Stage that too (git add sessions/.sessioncompress)" in said
    now = (
        snapshot(repository.folder / NAME).keys(),
        *((repository.folder / name).read_bytes() for name in (NAME, *STORE)),
    )
    assert now == before
    passed, said = used.commit("sessions")
    if more:
        assert not passed, said
        passed, said = used.commit("sessions")
    assert passed, said
    clone = repository.clone(tmp_path / "clone").folder / NAME
    assert invoke("restore", clone).exit_code == 0
    assert clone.read_bytes() == ORIGINAL


def test_a_commit_of_named_files_is_stopped_where_the_next_would_delete_originals(
    hooked: Callable[..., Hooked], repository: Repository
) -> None:
    """`git commit FILE` has an index of its own, and what is staged in it is not staged afterwards."""
    used = hooked("sessioncompress", COMMITTED)
    (repository.folder / "compression.json").write_text(EAGERLY)
    repository.git("add", "--all")
    named = ("git", "commit", "--message", "sessions", NAME)
    assert repository.run(*named).returncode == 1
    done = repository.run(*named)
    assert done.returncode == 1
    assert "the next commit would delete this new store" in done.stderr
    assert used.commit("sessions")[0]
    assert repository.tracked() >= {NAME, *STORE}
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="pip asks an index: done where CI is true")
def test_pre_commit_installs_the_hook_for_real(repository: Repository, tmp_path: Path) -> None:
    """With the language of the manifest, from a repository that holds what is shipped."""
    source = Repository(tmp_path / "source", repository.environment)
    for name in ("sessioncompress", "docs"):
        shutil.copytree(ROOT / name, source.folder / name)
    for name in (MANIFEST.name, "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source.folder)
    source.commit("all")
    repository.git("add", NAME)
    repository.environment["PRE_COMMIT_HOME"] = str(tmp_path / "pre-commit")
    tried = [sys.executable, "-m", "pre_commit", "try-repo", str(source.folder), "sessioncompress", "--verbose"]
    done = repository.run(*tried)
    assert f"{NAME}: 338 KB -> " in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    repository.git("add", NAME)
    assert repository.run(*tried).returncode == 0
