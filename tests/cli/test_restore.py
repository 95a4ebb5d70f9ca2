"""`history`, and `restore` of one run: by its id or as the newest, over all its sessions; and what is said of stores."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sessioncompress.cli import tables
from sessioncompress.cli.choosing import Chosen
from sessioncompress.operations import batch
from sessioncompress.operations.history import session_runs
from sessioncompress.store.layout import store_in
from tests.support.runs import fixture, invoke, run, snapshot, split, write


def put(folder: Path, *names: str) -> list[Path]:
    paths = [write(folder, fixture("pi-anthropic.jsonl"), f"{name}.jsonl") for name in names]
    run("compress", "--min-size", "0", "-q", *paths)
    return paths


def said(result: Result) -> str:
    found = re.search(r"^The stores?.*", result.stderr, re.DOTALL | re.MULTILINE)
    return " ".join(found[0].split()) if found else ""


def kept(*paths: Path) -> str:
    files = [each for path in paths for each in (store_in(path).originals, store_in(path).journal)]
    return f"{sum(each.stat().st_size for each in files) / 1024:.0f} KB"


def test_the_stores_of_others_are_left_out(tmp_path: Path) -> None:
    """Neither their bytes count, nor does the command choose them: the newest run alone was taken back."""
    others = put(tmp_path, "one", "two")
    (last,) = put(tmp_path, "three")
    done = run("restore", "--last", tmp_path)
    assert said(done) == (
        f"The store still takes {kept(last)}; if you no longer need it, delete it with: sessioncompress forget --unneeded {last}"
    )
    assert said(run("restore", "--last", tmp_path)) == (
        f"The stores still take {kept(*others)}; if you no longer need them, delete them with: "
        f"sessioncompress forget --unneeded {' '.join(map(str, sorted(others)))}"
    )


def test_what_keeps_a_restored_session_out_of_the_next_run(tmp_path: Path) -> None:
    """That run would compress it again."""
    path, *_ = put(tmp_path, "a", "b")
    ways = "unless --exclude or enabled: false in a policy keeps it out.\n"
    assert f"The next 'compress' of all sessions or a folder compresses it again, {ways}" in run("restore", path).stderr
    for options in (["--dry-run"], ["-q"], ["--json"]):
        assert "again" not in run("restore", *options, path.with_name("b.jsonl")).stderr
    assert "again" not in run("restore", path).stderr
    assert f"{path}: 338 KB -> " in run("compress", "--min-size", "0", tmp_path).stdout
    run("restore", path)
    run("compress", "--min-size", "0", "--exclude", "a.*", tmp_path)
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")
    (tmp_path / "compression.json").write_text('{"session": {"enabled": false}}')
    run("compress", "--min-size", "0", tmp_path)
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")


def test_the_store_of_a_renamed_folder_in_a_backup_folder_is_named(tmp_path: Path) -> None:
    """The names in there depend on the folder. A store of another session, or of other lines, is not named."""
    (before := tmp_path / "before").mkdir()
    path = write(before, fixture("pi-anthropic.jsonl"), "a.jsonl")
    other = write(before, fixture("claude-code.jsonl"), "c.jsonl")
    backups = ("--backup-dir", tmp_path / "kept")
    run("compress", *backups, "--force", path, other)
    after = before.rename(tmp_path / "after")
    told = " ".join(invoke("verify", *backups, after / "a.jsonl").output.split())
    assert "another session" not in told
    found = re.search(r"rename its two files too, (\S+) and (\S+), to (\S+) and (\S+); then a restore is exact\.", told)
    assert found, told
    (after / "d").mkdir()
    shutil.copy(after / "c.jsonl", moved := after / "d" / "a.jsonl")
    assert "rename its two files" not in " ".join(invoke("verify", *backups, moved).output.split())
    old, new = Path(found[1]), Path(found[3])
    old.rename(new)
    old.with_name(found[2]).rename(new.with_name(found[4]))
    run("restore", *backups, after / "a.jsonl")
    assert (after / "a.jsonl").read_bytes() == fixture("pi-anthropic.jsonl")


def test_stores_that_git_may_need_are_left_out(tmp_path: Path) -> None:
    """The command keeps them, so that nobody is told to type it."""
    known, other = put(tmp_path, "known", "other")
    for arguments in (["init", "-q"], ["add", known.name]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    assert said(run("restore", "--last", tmp_path)).endswith(f"sessioncompress forget --unneeded {other}")
    assert "kept: git has a state" in " ".join(invoke("forget", "--unneeded", "--yes", known).output.split())


@pytest.mark.parametrize("which", [(), ("--include", "[a-d].jsonl")], ids=["all", "some are chosen"])
def test_of_many_the_folder_is_named(tmp_path: Path, which: tuple[str, ...]) -> None:
    """Nobody types the paths of many; the command deletes no other stores."""
    put(tmp_path, "other")
    paths = put(tmp_path, *"abcd")
    told = said(run("restore", "--last", *which, tmp_path))
    assert told == (
        f"The stores still take {kept(*paths)}; if you no longer need them, delete them with: "
        f"sessioncompress forget --unneeded {shlex.join([*which, str(tmp_path)])}"
    )
    run(*shlex.split(told.partition("with: sessioncompress ")[2]), "--yes")
    assert [path.stem for path in sorted(tmp_path.glob("*.jsonl")) if store_in(path).originals.exists()] == ["other"]


def test_a_run_under_later_ones_is_refused_and_the_newest_one_first_all_go(tmp_path: Path) -> None:
    """Where others rewrote its lines it cannot go alone."""
    path = put(tmp_path, "a")[0]
    first = session_runs(path)[0].run
    run("compress", "-q", "--min-size", "0", "--preset", "archive", "--keep-turns", "0", tmp_path)
    left = path.read_bytes()
    done = invoke("restore", "--run", first, tmp_path)
    assert (done.exit_code, path.read_bytes()) == (4, left)
    assert "can't be undone alone: other runs rewrote line" in " ".join(done.stderr.split())
    run("restore", "--last", tmp_path)
    assert path.read_bytes() != left
    run("restore", "--run", first, tmp_path)
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")


def test_a_backup_that_was_put_back_behind_an_undo_is_told_of(tmp_path: Path) -> None:
    """The journal says that the run was undone, and the session is as it had left it."""
    path = put(tmp_path, "a")[0]
    left = path.read_bytes()
    run("restore", path)
    assert "put it back" not in run("restore", "--last", path).stderr
    path.write_bytes(left)
    done = run("restore", "--last", path)
    assert "nothing left to undo" in done.stderr
    assert f"'sessioncompress restore {path}' restores everything" in " ".join(done.stderr.split())
    run("restore", path)
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")


def test_without_originals_no_way_back_is_promised(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    said = run("compress", "--no-backup", path).stderr
    assert "undo with" not in said
    assert "no originals of 1 session are kept: this cannot be undone" in said


def test_a_store_that_another_run_needs_is_left_out(tmp_path: Path) -> None:
    """Whoever deletes it could not take that run back."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    run("compress", "-q", "--min-size", "0", path)
    run("compact", "-q", "--keep-tokens", "2000", path)
    assert "removed" in (done := run("restore", "--last", path)).stdout
    assert said(done) == ""
    assert said(run("restore", path)) != ""


def test_a_summary_that_is_taken_out_is_counted(tmp_path: Path) -> None:
    """In each line, and in the total; no line came back, which reads as if nothing had been done."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    run("compact", "-q", "--keep-tokens", "2000", path)
    short, total = run("restore", "--last", tmp_path).stdout.splitlines()
    assert short.endswith(" (1 summary removed)")
    assert total.startswith("total: 1 session restored: ")
    assert total.endswith(" KB, 1 summary removed")


@pytest.mark.parametrize("which", [("--last",), ()], ids=["the newest run", "all"])
def test_quiet_is_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: tuple[str, ...]) -> None:
    """No run, progress, undo or store; errors are told."""
    monkeypatch.setattr(batch, "_FIRST_LINE", 0)
    path = write(tmp_path, fixture("pi-anthropic.jsonl"), "a.jsonl")
    write(tmp_path, fixture("pi-anthropic.jsonl"), "b.jsonl")
    for command in (("compress", "--min-size", "0"), ("compact", "--keep-tokens", "2000"), ("restore", *which)):
        before = path.read_bytes()
        assert "files" in run(*command, "--dry-run", tmp_path).stderr
        assert run(*command, "-q", tmp_path).output == ""
        assert path.read_bytes() != before
    path.write_bytes(b"no session")
    assert "refused: " in invoke("restore", "-q", path).stderr


def test_quiet_or_not_the_reason_for_the_exit_code_is_told(tmp_path: Path) -> None:
    path, _ = put(tmp_path, "a", "b")
    run("compress", "--force", tmp_path)
    lines = split(path.read_bytes())
    at = next(number for number, line in enumerate(lines) if b"[[sessioncompress: " in line)
    lines[at] = lines[at].replace(b"[[sessioncompress: ", b"[[changed: ")
    path.write_bytes(b"".join(lines))
    loud, quiet = (invoke("restore", *options, "--dry-run", tmp_path) for options in ([], ["-q"]))
    assert (loud.exit_code, quiet.exit_code, quiet.stdout) == (5, 5, "")
    assert "; 1 not exact" in loud.stdout.splitlines()[-1]
    assert f"{path}: " in quiet.stderr.replace("\n", "")
    assert f"line {at + 1}" in quiet.stderr


def test_hints_fit_into_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the command: it is there to be copied."""
    monkeypatch.setattr(tables, "_is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "60")
    put(tmp_path, *"abcd")
    done = run("restore", "--last", tmp_path)
    assert said(done) != ""
    command, *others = sorted(done.stderr.splitlines(), key=lambda line: "forget --unneeded" not in line)
    assert command == f"  sessioncompress forget --unneeded {tmp_path}"
    assert max(map(len, others)) <= 60


NAME = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one.jsonl", "two.jsonl"):
        write(tmp_path, fixture("pi-anthropic.jsonl"), name)
    return tmp_path


def test_the_newest_run_is_taken_back_in_all_its_sessions(folder: Path) -> None:
    """Then the one before it; in the end nothing is left."""
    before = [path.read_bytes() for path in sorted(folder.glob("*.jsonl"))]
    done = invoke("compress", folder / "one.jsonl", "--min-size", "0")
    assert done.exit_code == 0
    (first,) = set(NAME.findall(done.stderr))
    done = invoke("compress", folder, "--json", "--min-size", "0", "--log", folder / "log")
    (second,) = set(NAME.findall(done.stderr))
    assert {each["run"] for each in json.loads(done.stdout)["files"]} == {"", second}
    assert {json.loads(line)["run"] for line in (folder / "log").read_text().splitlines()} <= {"", second}
    runs = json.loads(invoke("history", folder, "--json").stdout)["runs"]
    assert [(run["run"], len(run["sessions"]), run["state"]) for run in runs] == [
        (second, 1, "in place"),
        (first, 1, "in place"),
    ]
    assert all(run["commands"] == ["compress"] and run["saved"] > run["savedOnDisk"] > 0 for run in runs)
    rehearsed = invoke("restore", "--last", "--dry-run", folder)
    assert "would be restored" in rehearsed.stdout
    assert second in rehearsed.stderr
    done = invoke("restore", "--last", folder)
    assert done.exit_code == 0
    assert "forget" in done.stderr
    assert first not in done.stderr
    assert (folder / "two.jsonl").read_bytes() == before[1]
    assert (folder / "one.jsonl").read_bytes() != before[0]
    assert invoke("restore", "--last", folder).exit_code == 0
    assert [path.read_bytes() for path in sorted(folder.glob("*.jsonl"))] == before
    assert "nothing left to undo" in invoke("restore", "--last", folder).stderr
    assert invoke("history", folder).stdout.count("\trestored\t") == 2


def test_what_a_run_saves_counts_the_store_that_one_taken_back_left(folder: Path) -> None:
    """The second run need not store the originals again: without those of the first it saved what the disk never got."""
    one = folder / "one.jsonl"
    before, store = one.stat().st_size, store_in(one)
    for command in (("compress", "--min-size", "0"), ("restore", "--last"), ("compress", "--min-size", "0")):
        assert invoke(*command, one).exit_code == 0
    lies = sum(each.stat().st_size for each in (one, store.originals, store.journal))
    now, first = json.loads(invoke("history", one, "--json").stdout)["runs"]
    assert (now["saved"], now["savedOnDisk"]) == (before - one.stat().st_size, before - lies)
    assert first["state"] == "restored"
    _, newest, oldest, _ = invoke("history", one).stdout.splitlines()
    saved, net = (f"{number / 1024:,.0f} KB" for number in (now["saved"], now["savedOnDisk"]))
    assert newest.split("\t")[3:6] == [saved, net, "in place"]
    assert oldest.split("\t")[3:6] == ["-", "-", "restored"]


WHERE = [("PATHS", False, "in the chosen sessions"), ("none", True, "in the agents' folders (for")]


@pytest.mark.parametrize(("everything", "says"), [row[1:] for row in WHERE], ids=[row[0] for row in WHERE])
def test_the_newest_run_is_told_with_its_time_and_where_it_is_the_newest(
    folder: Path, monkeypatch: pytest.MonkeyPatch, everything: bool, says: str
) -> None:
    """A newer one may have been over sessions that nobody looked at."""
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", str(folder))
    (run,) = set(NAME.findall(invoke("compress", folder, "--min-size", "0").stderr))
    done = invoke("restore", "--last", "--dry-run", *([] if everything else [folder]))
    assert done.exit_code == 0
    assert f"run {run}: compress, 2 sessions, 0 min ago; the newest {says}" in done.stderr
    assert "the newest" not in invoke("restore", "--run", run, folder).stderr


@pytest.mark.parametrize(
    ("which", "answer", "asked", "restored"),
    [
        ((".",), "n\n", True, 0),
        ((".",), "y\n", True, 2),
        (("--yes", "."), "", False, 2),
        (("one.jsonl",), "", False, 1),
    ],
    ids=["no", "yes", "answered before", "one session"],
)
def test_more_than_one_session_is_asked_about(
    folder: Path, monkeypatch: pytest.MonkeyPatch, which: tuple[str, ...], answer: str, asked: bool, restored: int
) -> None:
    """Where somebody can answer: nobody has said which run it is."""
    before = [path.read_bytes() for path in sorted(folder.glob("*.jsonl"))]
    assert len(set(NAME.findall(invoke("compress", folder, "--min-size", "0").stderr))) == 1
    monkeypatch.setattr(Chosen, "may_ask", property(lambda chosen: not chosen.yes))
    monkeypatch.chdir(folder)
    done = invoke("restore", "--last", *which, answer=answer)
    assert done.exit_code == 0
    assert ("Undo this run in 2 sessions? [y/N]" in done.stderr) is asked
    assert ("No session was changed." in done.stderr) is (restored == 0)
    after = [path.read_bytes() for path in sorted(folder.glob("*.jsonl"))]
    assert sum(now == was for now, was in zip(after, before, strict=True)) == restored


def test_what_is_packed_is_left_out_of_the_question(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, fixture("codex.jsonl"), "three.jsonl")
    invoke("compress", folder, "--min-size", "0")
    run("pack", folder / "three.jsonl")
    monkeypatch.setattr(Chosen, "may_ask", property(lambda chosen: not chosen.yes))
    done = invoke("restore", "--last", folder, answer="n\n")
    assert "Undo this run in 2 sessions, not in the 1 packed? [y/N]" in done.stderr.replace("\n", " ")
    assert "[y/N]" not in invoke("restore", "--run", run, folder).stderr


def test_a_session_that_cannot_go_back_does_not_keep_an_older_run(folder: Path) -> None:
    """It is told each time, and the exit code says so."""
    one, two = folder / "one.jsonl", folder / "two.jsonl"
    before = one.read_bytes()
    assert invoke("compress", one, "--min-size", "0").exit_code == 0
    (newer,) = set(NAME.findall(invoke("compress", two, "--min-size", "0").stderr))
    two.unlink()
    rehearsed = invoke("restore", "--last", "--dry-run", folder)
    assert rehearsed.exit_code == 4
    assert "one.jsonl" in rehearsed.stdout
    done = invoke("restore", "--last", "--json", folder)
    assert done.exit_code == 4
    files = json.loads(done.stdout)["files"]
    assert [(Path(each["path"]).name, each["status"], each["run"] == newer) for each in files] == [
        ("two.jsonl", "refused", True),
        ("one.jsonl", "restored", False),
    ]
    assert one.read_bytes() == before
    again = invoke("restore", "--last", folder)
    assert again.exit_code == 4
    assert f"run {newer}: nothing could be undone" in again.stderr
    assert "nothing else left to undo" in again.stderr
    assert again.stdout.endswith("total: 0 sessions; 1 refused\n")


def test_a_session_whose_store_was_deleted_is_told_of(folder: Path) -> None:
    """No run names it any more, so that nothing seems to be wrong; what to do is said once."""
    invoke("compress", folder, "--min-size", "0")
    invoke("forget", "--yes", folder)
    done = invoke("restore", "--last", folder)
    assert done.exit_code == 4
    assert "nothing left to undo" in done.stderr
    assert done.stderr.count("it has 19 markers, but its store is missing") == 2
    assert done.stderr.count("The session was not changed.") == 1
    assert done.stderr.count("No store here has the originals") == 1
    assert invoke("restore", "--last", folder / "one.jsonl", "--json").exit_code == 4


def test_a_run_of_a_stranger_is_not_the_newest_for_ever(folder: Path) -> None:
    """Whoever writes a journal chooses its id; where one session of a run came back the run is done."""
    one, two = folder / "one.jsonl", folder / "two.jsonl"
    before = one.read_bytes()
    invoke("compress", one, "--min-size", "0")
    (name,) = set(NAME.findall(invoke("compress", two, "--min-size", "0").stderr))
    store = store_in(two)
    store.journal.write_bytes(store.journal.read_bytes().replace(name.encode(), b"99999999-999999-ffff"))
    originals = store.originals.read_bytes()
    store.originals.write_bytes(b"damaged" + originals[7:])
    done = invoke("restore", "--last", folder)
    assert done.exit_code == 5
    assert done.stderr.count("two.jsonl") == 1
    assert one.read_bytes() == before
    store.originals.write_bytes(originals)
    invoke("compress", one, "--min-size", "0")
    # The seal of the journal is broken: its lines are back, and what else it held nobody knows.
    assert invoke("restore", "--last", folder).exit_code == 5
    assert two.read_bytes() == before != one.read_bytes()


def test_a_session_that_failed_is_not_tried_again_by_older_runs(folder: Path) -> None:
    one = folder / "one.jsonl"
    for limit in (20_000, 0):
        policy = {"session": {"toolResultMaxBytes": limit, "toolCallMaxBytes": limit, "minSavedKB": 0}}
        (folder / "compression.json").write_text(json.dumps(policy))
        assert invoke("compress", one, "--min-size", "0").exit_code == 0
    assert len(json.loads(invoke("history", one, "--json").stdout)["runs"]) == 2
    one.unlink()
    done = invoke("restore", "--last", folder)
    assert done.exit_code == 4
    assert done.stderr.count("refused: ") == 1


def test_a_run_by_its_id(folder: Path) -> None:
    before = (folder / "one.jsonl").read_bytes()
    (run,) = set(NAME.findall(invoke("compress", folder, "--min-size", "0").stderr))
    done = json.loads(invoke("restore", "--run", run, "--json", folder).stdout)
    assert {(each["status"], each["run"]) for each in done["files"]} == {("restored", run)}
    assert (folder / "one.jsonl").read_bytes() == before
    assert "undone already" in invoke("restore", "--run", run, folder).stderr
    done = invoke("restore", "--run", "20260101-000000-0000", folder)
    assert done.exit_code == 2
    assert "history" in done.stderr


NOT_OF_A_RUN = [
    ("its store was deleted", "deleted", 4, "refused: {two}: it has 19 markers, but its store is missing"),
    ("it was never compressed", "plain", 0, "{two}: unchanged: it is not compressed: it has no markers and no store"),
    ("another run wrote it", "other", 0, "{two}: unchanged: the run {run} did not change it"),
    ("it was taken back", "restored", 0, "{two}: unchanged: the run {run} was undone already"),
    ("its journal is damaged", "damaged", 5, "failed: {two_journal}: "),
]


@pytest.mark.parametrize(("state", "code", "says"), [row[1:] for row in NOT_OF_A_RUN], ids=[x[0] for x in NOT_OF_A_RUN])
def test_a_named_file_that_a_run_gives_nothing_back(folder: Path, state: str, code: int, says: str) -> None:
    """It is told of, whatever became of it; the other one goes back."""
    one, two = folder / "one.jsonl", folder / "two.jsonl"
    before, store = one.read_bytes(), store_in(two)
    both = (one,) if state in ("plain", "other") else (one, two)
    (run,) = set(NAME.findall(invoke("compress", *both, "--min-size", "0").stderr))
    if state == "other":
        invoke("compress", two, "--min-size", "0")
    elif state == "restored":
        invoke("restore", two)
    elif state == "deleted":
        invoke("forget", "--yes", two)
    elif state == "damaged":
        store.journal.write_bytes(b"\xff\n" * 99)
    done = invoke("restore", "--run", run, "-v", one, two)
    assert done.exit_code == code
    assert one.read_bytes() == before
    assert says.format(two=two, two_journal=store.journal, run=run) in done.output
    alone = invoke("restore", "--run", run, two).stderr
    assert (f"; there is no readable store of {two}. " in alone) == (state not in ("other", "restored"))


def test_an_empty_run_is_not_all_of_them(folder: Path) -> None:
    """The variable of a script may be empty."""
    invoke("compress", folder, "--min-size", "0")
    before = snapshot(folder / "one.jsonl")
    done = invoke("restore", "--run", "", folder)
    assert (done.exit_code, "--run is empty" in done.stderr) == (2, True)
    assert snapshot(folder / "one.jsonl") == before


@pytest.mark.parametrize(
    "options",
    [
        ("--last", "--run", "x"),
        ("--last", "--from-markers"),
        ("--run", "x", "--keep-checkpoints"),
        ("--from-markers", "--dry-run"),
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together(options: tuple[str, ...], folder: Path) -> None:
    assert invoke("restore", *options, folder).exit_code == 2


def words_of(line: str) -> list[str]:
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    return list(map(os.fsdecode, done.stdout.split(b"\0")[:-1]))


NAMES = [b"a\x1b[2J'\\\xff \xe2\x80\xae.jsonl", b"-rf.jsonl", b"two words\n$(id).jsonl", "caf\u00e9.jsonl".encode()]


@pytest.mark.parametrize("raw", NAMES, ids=["controls", "a dash", "a line end", "plain"])
def test_printed_commands_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    """Whatever a session is called: what undoes a run, what brings a pack back, and what deletes a store."""
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, fixture("pi-anthropic.jsonl"), os.fsdecode(raw))
    said = run("compress", "--", path.name).stderr
    assert all(line.isprintable() for line in said.splitlines())
    undo = words_of(said.partition("undo with: ")[2])
    told = run(*undo[1:]).stderr
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")
    run(*words_of(told.partition("delete it with:\n")[2])[1:], "--yes")
    assert not store_in(path).originals.exists()
    # A pack takes no name that is not UTF-8, which is told.
    if (packed := invoke("pack", "--", path.name)).exit_code == 0:
        run(*words_of(packed.stderr.partition("undo with: ")[2])[1:])
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")


def test_many_sessions_are_undone_by_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many paths a command names the folders: a run has its id there alone."""
    monkeypatch.chdir(tmp_path)
    paths = put(tmp_path, *"abcd")
    for path in paths:
        run("restore", path)
    undo = run("compress", *(path.name for path in paths)).stderr.partition("undo with: ")[2]
    assert re.fullmatch(r"sessioncompress restore --run [0-9a-f-]+ \.\n", undo)
    run(*undo.split()[1:])
    assert all(path.read_bytes() == fixture("pi-anthropic.jsonl") for path in paths)


def test_the_policy_that_says_where_stores_are_is_named(tmp_path: Path) -> None:
    """Without it what undoes a run would not find them."""
    path, config = write(tmp_path, fixture("pi-anthropic.jsonl")), tmp_path / "my.json"
    config.write_text(json.dumps({"session": {"backupDir": str(tmp_path / "kept")}}))
    undo = run("compress", "--config", config, path).stderr.partition("undo with: ")[2]
    run(*undo.split()[1:])
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")


def test_a_run_over_a_session_that_is_packed_since(tmp_path: Path) -> None:
    """It is listed, and undone where it can be; what brings the rest back is named, and no older run is undone."""
    here, packed = write(tmp_path, fixture("pi-anthropic.jsonl"), "a.jsonl"), tmp_path / "b/b.jsonl"
    packed.parent.mkdir()
    packed.write_bytes(fixture("codex.jsonl"))
    write(tmp_path, fixture("pi-gemini.jsonl"), "older.jsonl")
    run("compress", "--preset", "high-quality", "--force", tmp_path)
    before = [path.read_bytes() for path in (here, packed)]
    run(
        "compress",
        "-q",
        "--min-size",
        "0",
        "--preset",
        "archive",
        "--keep-turns",
        "0",
        "--force",
        "--exclude",
        "older*",
        tmp_path,
    )
    for path in (packed, here):
        saved = history(tmp_path)[0]["saved"]
        run("pack", path.parent if path == packed else path)
        newest, _ = history(tmp_path)
        assert newest["saved"] == saved
        assert sorted(each["path"] for each in newest["sessions"]) == [str(here), str(packed)]
        done = invoke("restore", "--last", tmp_path)
        assert done.exit_code == 4
        head, unpack = done.stderr.splitlines()[-2:]
        assert head == "1 session is still packed. To bring back:"
        assert unpack.startswith(f"  sessioncompress unpack {packed.parent}")
        assert "it is packed" not in done.stderr
        assert "; 1 still packed" in done.stdout
        assert "refused" not in done.stdout
        if path == packed:
            assert here.read_bytes() == before[0]
        assert [each["state"] for each in history(tmp_path)] == ["partly restored", "in place"]
        assert invoke("restore", "--run", newest["run"], tmp_path).exit_code == 4
    run("unpack", tmp_path)
    run("restore", "--run", newest["run"], tmp_path)
    assert [path.read_bytes() for path in (here, packed)] == before
    assert [each["state"] for each in history(tmp_path)] == ["restored", "in place"]


def history(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("history", "--json", folder).stdout)["runs"]
    return found


@pytest.mark.parametrize("lost", [0, 1000], ids=["a byte changed", "bytes are missing"])
def test_a_damaged_store_has_an_end(tmp_path: Path, lost: int) -> None:
    """As in "Repair a damaged store": take back what can be read, let the rest go, and begin anew."""
    path, lines = tmp_path / "s.jsonl", split(fixture("pi-anthropic.jsonl"))
    for part in (lines[:70], lines[70:]):
        with path.open("ab") as file:
            file.writelines(part)
        run("compress", "--force", "--keep-turns", "0", path)
    store = store_in(path).originals
    data = bytearray(store.read_bytes())
    data[-500] ^= 1
    store.write_bytes(data[: len(data) - lost])
    invoke("compress", "--force", path)
    for command, code in (("verify", 5), ("restore", 5), ("restore --from-markers", 5), ("forget --yes", 0)):
        assert invoke(*command.split(), path).exit_code == code, command
    accepted = path.read_bytes()
    for command, code in (("verify", 4), ("compress --force", 0), ("verify", 0), ("restore", 0)):
        assert invoke(*command.split(), path).exit_code == code, command
    assert path.read_bytes() == accepted
