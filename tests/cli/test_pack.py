"""`pack`, `unpack` and `search`, and how the other commands see what is packed."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.cli import search as searching
from sessioncompress.core.text import kb
from sessioncompress.formats.table import TABLE
from sessioncompress.operations import packed
from sessioncompress.store import disk
from sessioncompress.store.layout import FOLDER, store_in
from sessioncompress.store.originals import zstd
from sessioncompress.store.places import packs_of
from tests.support import packs
from tests.support.build import ClaudeSession
from tests.support.commands import document, run
from tests.support.packs import without_tail
from tests.support.repository import Repository
from tests.support.runs import MTIME, fixture, write

ROWS = [
    (("pack",), "Which sessions?"),
    (("pack", "--all"), "without PATHS, use --older-than to say which sessions to pack"),
    (("unpack",), "Which sessions?"),
    (("unpack", "--all", "x"), "Which sessions?"),
    (("unpack", ""), "a name is empty"),
    (("unpack", "nothing"), "no packed session matches 'nothing'"),
    (("search", ""), "the text is empty"),
]


@pytest.fixture
def work(here: Path) -> Path:
    packs.sessions_in(here / "s")
    return here / "s"


def claude(words: str) -> bytes:
    made = ClaudeSession()
    made.user(words)
    return made.bytes()


@pytest.mark.parametrize(("arguments", "said"), ROWS)
def test_usage_errors(here: Path, arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_there_and_back(work: Path) -> None:
    """The whole way, in the words of the commands."""
    was = packs.state(work)
    rehearsed = run("pack", "--dry-run", work)
    assert "/packs/tmp-1.tar.zst\t/tmp\t3\t" in rehearsed.stdout
    assert "total: would pack 3 sessions" in rehearsed.stdout
    assert "undo with" not in rehearsed.stderr
    assert packs.state(work) == was
    result = run("pack", work)
    assert result.exit_code == 0
    assert "/packs/tmp-1.tar.zst\t/tmp\t3\t" in result.stdout
    *_, last = result.stderr.splitlines(keepends=True)
    assert last == f"undo with: sessioncompress unpack {packs_of(work)}/tmp-1.tar.zst\n"
    assert "total: packed 3 sessions" in result.stdout
    assert packs.state(work) == {}
    assert "total: packed 0 sessions, 0 KB" in run("pack", work).stdout
    assert "total: would unpack 3 sessions" in run("unpack", "--dry-run", work).stdout
    assert packs.state(work) == {}
    assert "total: unpacked 3 sessions" in run(*last.split()[3:]).stdout
    assert packs.state(work) == was


@pytest.mark.parametrize("compressed", [False, True])
def test_what_a_dry_run_promises(here: Path, *, compressed: bool) -> None:
    """The archive is as large as it says, also of sessions with stores, of which it says what packs better."""
    path = here / "s/a.jsonl"
    path.parent.mkdir()
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    if compressed:
        run("compress", path)
    result = run("pack", "--dry-run", "s")
    assert ("1 session has a store: stores do not compress well" in result.stderr) == compressed
    least, most = map(int, re.findall(r" into an estimated ([\d,]+) KB to ([\d,]+) KB", result.stdout)[0])
    assert f" into an estimated {least} KB to {most} KB" in result.stdout
    (made,) = document("pack", "s")["archives"]
    assert least < made["archiveSize"] / 1024 < most < 250
    assert least > 10 or not compressed


@pytest.mark.parametrize("arguments", [[], ["--dry-run"]])
def test_a_folder_of_ours_that_nobody_may_enter(
    work: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """It is an error of those sessions that have to do with it, and of no others."""

    def entering(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, **options: Any) -> Any:
            if FOLDER in path.parent.parts:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path, **options)

        return call

    for name in ("stat", "lstat"):
        monkeypatch.setattr(Path, name, entering(getattr(Path, name)))
    result = run("pack", work, *arguments)
    assert result.exit_code == 3
    assert "permission denied" in result.stderr


def test_why_nothing_is_packed(here: Path) -> None:
    """Of what there is, not only of what was chosen."""
    none = run("pack", "--all", "--older-than", "30d")
    assert none.stderr == "warning: no matching sessions under the agents' folders, none of which exists\n"
    path = here.parent / "home/.pi/agent/sessions/x/old.jsonl"
    path.parent.mkdir(parents=True)
    for name in ("old.jsonl", "young.jsonl"):
        path.with_name(name).write_bytes(packs.session("Look.").bytes())
    os.utime(path, ns=(MTIME, MTIME))
    run("pack", "--all", "--older-than", "30d")
    for chosen in ("--all", "--agent=pi", path.parent):
        assert "; 1 is younger than 30d, 1 is packed\n" in run("pack", chosen, "--older-than", "30d").stderr
    path.with_name("young.jsonl").unlink()
    assert "; 1 is packed\n" in run("pack", path.parent).stderr
    assert "; 1 is packed\n" in run("compress", "--agent=pi").stderr
    for command in ("sessions", "stats", "verify"):
        assert not run(command, "--agent=pi").stderr


def test_what_takes_back_many_archives(here: Path) -> None:
    """Their folders are named: the line is there to be copied, and says what else it brings back."""
    for number in range(4):
        for name in "ab":
            (here / name).mkdir(exist_ok=True)
            path = write(here / name, claude("Look."), f"{number}.jsonl")
            path.write_bytes(path.read_bytes().replace(b'"cwd":"', b'"cwd":"/%d' % number))
    was = packs.state(here)
    for folder, others in ((here / "a", False), (here, True)):
        told = run("pack", folder).stderr.splitlines()
        assert told[0] == f"undo with: sessioncompress unpack {folder}"
        assert told[1:] == ["which also brings back 4 other sessions packed earlier"] * others
    assert run(*told[0].split()[3:]).exit_code == 0
    assert packs.state(here) == was


def test_forget_of_a_folder_in_which_all_is_packed_ends_with_4(work: Path) -> None:
    """The originals are in the pack: whoever deletes a secret is not done."""
    assert run("forget", "--yes", work / "below").exit_code == 0
    run("pack", work / "below")
    done = run("forget", "--yes", work / "below")
    assert done.exit_code == 4
    assert "is still packed. To bring back:" in done.stderr


@pytest.mark.parametrize(
    ("command", "pattern", "most"), [("restore", "t*", 1), ("forget --yes", "*", 2)], ids=["restore", "forget"]
)
def test_what_is_packed_is_listed_once_after_the_work(
    work: Path, monkeypatch: pytest.MonkeyPatch, command: str, pattern: str, most: int
) -> None:
    """For the hint and the exit code. If no session is left here, it is listed before the work, too, to say why."""
    run("pack", work, "--include", pattern)
    selected, listings = packed.selected, list[object]()

    def listed(*how: Any) -> Any:
        listings.append(how)
        return selected(*how)

    monkeypatch.setattr(packed, "selected", listed)
    done = run(*command.split(), work)
    assert ("still packed" in done.stderr, len(listings)) == (True, most)


@pytest.mark.parametrize("command", ["restore", "forget"])
def test_what_is_packed_is_told_of_at_the_end(work: Path, command: str) -> None:
    """Who removes this tool would leave it behind, where no agent finds it."""
    was = packs.state(work)
    run("pack", work / "one.jsonl", work / "two.jsonl")
    assert "To bring back" not in run(command, work / "below/three.jsonl").stderr
    head, told = run(command, work).stderr.splitlines()[-2:]
    assert head == "2 sessions are still packed. To bring back:"
    assert told.startswith("  sessioncompress unpack ")
    assert run(*told.split()[1:]).exit_code == 0
    assert packs.state(work) == was
    assert "To bring back" not in run(command, work).stderr


def test_json(work: Path) -> None:
    made = document("pack", work)
    assert made["schema"] == "sessioncompress.pack/1"
    (archive,) = made["archives"]
    assert (archive["sessions"], archive["size"]) == (3, sum(each["size"] for each in made["files"]))
    assert {each["status"] for each in made["files"]} == {"packed"}
    found = document("search", "at part 1", work)
    assert [each["packed"] for each in found["files"]] == [True]
    back = document("unpack", work)
    assert back["schema"] == "sessioncompress.unpack/1"
    assert {each["status"] for each in back["files"]} == {"unpacked"}


@pytest.mark.parametrize("name", ["id", "start of the id", "title", "path"])
def test_one_session_by_its_name(work: Path, name: str) -> None:
    write(work, claude("An unlike one."), "claude.jsonl")
    run("pack", work)
    indexes = packs_of(work).glob("*.index")
    rows = [json.loads(line) for index in indexes for line in index.read_text().splitlines()]
    row = next(each for each in rows if each.get("agent") == "claude-code")
    names = {"id": row["id"], "start of the id": row["id"][:8], "title": "unlike", "path": str(work / "claude.jsonl")}
    os.chdir(work)
    result = run("unpack", names[name])
    assert result.exit_code == 0, result.stderr
    assert sorted(packs.state(work)) == ["claude.jsonl"]


def test_the_agents_title_finds_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here and in a pack: it is what the list of sessions shows."""
    title = b'{"type":"ai-title","aiTitle":"Mend the harbour lamp","sessionId":"x"}\n'
    write(here, claude("A first prompt.") + title, "s.jsonl")
    monkeypatch.chdir(here)
    assert run("pack", here).exit_code == 0
    assert "s.jsonl (packed): title: Mend the harbour lamp\n" in run("search", "harbour lamp", here).stdout
    assert run("unpack", "harbour").exit_code == 0
    assert "s.jsonl: title: Mend the harbour lamp\n" in run("search", "harbour lamp", here).stdout


def test_a_dry_run_names_the_archives_as_the_run_does(here: Path) -> None:
    """Also where projects have the same name, so that the archives are numbered."""
    for number in range(4):
        made = ClaudeSession(cwd=f"/srv/{number}/app")
        made.user("A prompt.")
        write(here, made.bytes(), f"{(2, 0, 3, 1)[number]}.jsonl")
    would, did = (document("pack", *options, here)["files"] for options in (["--dry-run"], []))
    names = [{each["path"]: each["archive"] for each in files} for files in (would, did)]
    assert names[0] == names[1]
    assert len(set(names[0].values())) == 4


def test_what_git_has_is_told(here: Path) -> None:
    """A colleague loses a session with the next commit, and cannot see the archive."""
    repository = Repository(here / "team")
    write(repository.folder, claude("A prompt."), "s.jsonl")
    repository.commit("a session")
    write(repository.folder, claude("Another prompt."), "t.jsonl")
    for options in (["--dry-run"], []):
        done = run("pack", *options, repository.folder)
        assert "git has 1 session of these: the archives are hidden from git" in done.stderr.replace("\n", " ")


def test_an_archive_is_named_after_the_folder_on_windows_too(here: Path) -> None:
    made = ClaudeSession(cwd="D:\\code\\lock-keeper")
    made.user("A prompt.")
    write(here, made.bytes(), "s.jsonl")
    assert [Path(each["archive"]).name for each in document("pack", here)["files"]] == ["lock-keeper-1.tar.zst"]


def test_what_is_no_session_is_told_so(here: Path) -> None:
    """By its name alone nobody knows what to do."""
    (here / "notes.txt").write_text("milk, eggs")
    for command in ("pack", "history"):
        result = run(command, here / "notes.txt")
        assert (result.exit_code, "this is not a session of any agent we know" in result.stderr) == (4, True)


@pytest.mark.parametrize(
    ("named", "code", "said"),
    [
        ("22", 2, "Type at least 4 characters of an id or a title."),
        ("in", 2, "Type at least 4 characters of an id or a title."),
        ("223b", 2, "It looks like the beginning of an id, so titles are not searched."),
        ("223B-", 2, "It looks like the beginning of an id, so titles are not searched."),
        ("223b is", 0, ": What 223b is in here.\n"),
        ("is in", 0, ": What 223b is in here.\n"),
        ("here", 0, ": What 223b is in here.\n"),
    ],
)
def test_what_is_too_little_to_be_a_title(
    here: Path, monkeypatch: pytest.MonkeyPatch, named: str, code: int, said: str
) -> None:
    """Whoever types the beginning of an id is not given another session; and the title says which one came."""
    write(here, claude("What 223b is in here."), "s.jsonl")
    run("pack", here)
    monkeypatch.chdir(here)
    result = run("unpack", named)
    assert (result.exit_code, (here / "s.jsonl").exists()) == (code, not code), result.output
    assert said in result.output


def test_a_name_of_several(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("pack", work)
    monkeypatch.chdir(work)
    result = run("unpack", "look at part")
    assert result.exit_code == 2
    head, *rows = result.stderr.splitlines()
    assert head == "'look at part' matches 3 packed sessions. Nothing was done. Name one by its id or path:"
    cells = [row.split("\t") for row in rows]
    assert cells[0] == ["session", "agent", "changed", "title"]
    assert [row[3] for row in cells[1:]] == ["Look at part 1.", "Look at part 0.", "Look at part 2."]
    for name, agent, changed, title in cells[1:]:
        assert (agent, len(changed)) == ("pi", 10)
        # What is printed means that session alone.
        assert f"{title.rstrip('.')}" in run("unpack", name, "--json").stdout


def test_a_name_of_very_many(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(13):
        write(here, claude("The same."), f"{number}.jsonl")
    run("pack", here)
    monkeypatch.chdir(here)
    lines = run("unpack", "the same").stderr.splitlines()
    assert len(lines) == 1 + 1 + 10 + 1
    assert lines[-1] == "and 3 more; 'sessioncompress sessions' lists them"


@pytest.mark.parametrize("name", ["id", "path"])
def test_what_is_back_already(here: Path, name: str) -> None:
    """There is nothing to do, and it is said where the session is."""
    path = here.parent / "home/.pi/agent/sessions/x/old.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(packs.session("Look.").bytes())
    run("pack", path.parents[1])
    called = packed_id(here.parent / "home") if name == "id" else str(path)
    told = run("show", called).stderr
    assert f"It is packed: 'sessioncompress unpack {called}' brings it back" in told or name == "path"
    assert "total: unpacked 1 session" in run("unpack", called).stdout
    result = run("unpack", called)
    assert result.exit_code == 0
    assert f"{path}: already in place, " in result.stdout
    assert result.stdout.endswith("total: unpacked 0 sessions, 0 KB; 1 unchanged\n")
    (file,) = document("unpack", called)["files"]
    assert (file["path"], file["status"]) == (str(path), "unchanged")


def packed_id(home: Path) -> str:
    (index,) = home.rglob("*.index")
    return str(json.loads(index.read_text().splitlines()[1])["id"])


def test_all_older_sessions(here: Path) -> None:
    """Of the agents' folders; a young one stays, and the list shows both."""
    home = here.parent / "home"
    old = home / ".pi/agent/sessions/x/old.jsonl"
    young = old.with_name("young.jsonl")
    for path in (old, young):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(fixture("pi-anthropic.jsonl"))
    os.utime(old, ns=(MTIME, MTIME))
    assert run("pack", "--all", "--older-than", "30d").exit_code == 0
    assert young.exists()
    assert not old.exists()
    assert list(packs_of(home / ".pi/agent/sessions").glob("*.tar.zst")) != []
    whole = document("sessions")
    listed = {Path(each["path"]).name: each for each in whole["sessions"]}
    assert {name: each["packed"] for name, each in listed.items()} == {"old.jsonl": True, "young.jsonl": False}
    assert listed["old.jsonl"]["title"] == listed["young.jsonl"]["title"] != ""
    assert listed["old.jsonl"]["size"] == young.stat().st_size
    (archive,) = packs_of(home / ".pi/agent/sessions").glob("*.tar.zst")
    assert listed["old.jsonl"]["packedSize"] == archive.stat().st_size == whole["totals"]["packedSize"]
    # What is packed is apart: the disk holds its archive alone.
    assert whole["totals"]["size"] == young.stat().st_size
    size, now = (kb(path.stat().st_size) for path in (young, archive))
    said = run("sessions").stdout
    assert f"total: 1 session of 1 agent, {size}; 0 compressed already; a run" in said
    assert said.endswith(f"; 1 more packed into {now}\n")
    both, alone = document("stats", "--all")["totals"], document("stats", young)["totals"]
    assert both["size"] == 2 * alone["size"]
    assert both["would"] == alone["would"]
    told = run("stats", "--all").stdout
    assert (
        f"total: 2 sessions, {kb(2 * young.stat().st_size)}, stores 0 KB; 1 of them packed, {size} with their stores\n"
        in told
    )
    assert f"{size} -> " in told
    assert "(packed): turn 1, prompt:" in run("search", json.loads(old_prompt(young))).stdout
    assert run("unpack", str(old)).exit_code == 0
    assert old.read_bytes() == young.read_bytes()
    assert old.stat().st_mtime_ns == MTIME


def test_unpack_all(here: Path) -> None:
    """What `pack --all` packed comes back, and what is packed above the working folder; nothing is no error."""
    path = here.parent / "home/.pi/agent/sessions/x/old.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    os.utime(path, ns=(MTIME, MTIME))
    assert "total: unpacked 0 sessions, 0 KB\n" in run("unpack", "--all").stdout
    packs.sessions_in(here)
    run("pack", "--all", "--older-than", "30d")
    run("pack", here)
    assert "total: would unpack 4 sessions" in run("unpack", "--all", "--dry-run").stdout
    assert "total: unpacked 4 sessions" in run("unpack", "--all").stdout
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")


def test_a_packed_session_with_a_store_counts_as_packed_alone(here: Path) -> None:
    """Its store may be one of a run that was taken back."""
    path = here.parent / "home/.pi/agent/sessions/x/old.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(fixture("pi-anthropic.jsonl"))
    run("compress", path)
    assert document("sessions")["totals"]["compressed"] == 1
    run("restore", path)
    run("pack", path)
    totals = document("sessions")["totals"]
    assert (totals["sessions"], totals["compressed"], totals["packed"]) == (0, 0, 1)
    assert "; 0 compressed already; " in run("sessions").stdout


def old_prompt(path: Path) -> str:
    """Return a word of the first prompt of a session, as JSON."""
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("message", {}).get("role") == "user":
            content = entry["message"]["content"]
            text = content if isinstance(content, str) else content[0]["text"]
            return json.dumps(text.split()[0])
    raise AssertionError


def test_other_commands_see_it(work: Path) -> None:
    plain = document("stats", work)["files"]
    checked = run("verify", work).stdout
    ref = next(
        json.loads(line)["ref"]
        for line in store_in(work / "one.jsonl").journal.read_text().splitlines()
        if json.loads(line)["type"] == "block"
    )
    shown = run("show", ref, work).stdout
    run("pack", work)
    assert sorted(map(str, document("stats", work)["files"])) == sorted(map(str, plain))
    assert sorted(run("verify", work).stdout.splitlines()) == sorted(checked.splitlines())
    assert run("show", ref, work).stdout == shown
    archive = next(packs_of(work).glob("*.tar.zst"))
    archive.write_bytes(archive.read_bytes()[:1000])
    assert run("verify", work).exit_code == 5


@pytest.mark.parametrize("text", ["AT PART 1", "at part 1", "Part"])
def test_search(work: Path, text: str) -> None:
    """In letters of either case, in sessions that are packed and those that are not."""
    (work / "two.jsonl").rename(work.parent / "two.jsonl")
    run("pack", work)
    (work.parent / "two.jsonl").rename(work / "two.jsonl")
    lines = run("search", text, work).stdout.splitlines()
    assert any(line.startswith(f"{work}/two.jsonl: turn 1, prompt: Look at part 1.") for line in lines)
    assert any("(packed): turn 1" in line for line in lines) == (text == "Part")


def test_a_search_that_stops_says_so_in_its_total(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here, claude("one needle\nanother needle\na third needle"), "s.jsonl")
    assert run("search", "needle", here).stdout.endswith("total: 3 lines in 1 of 1 session\n")
    monkeypatch.setattr("sessioncompress.operations.search._MOST", 2)
    said = run("search", "needle", here).stdout
    assert "more lines match\n" in said
    assert said.endswith("total: at least 2 lines in 1 of 1 session\n")


def test_a_search_shows_equal_lines_once(here: Path) -> None:
    write(here, claude("a needle\na needle\nanother\tneedle"), "s.jsonl")
    lines = [f"{here}/s.jsonl: turn 1, prompt (2 times): a needle", f"{here}/s.jsonl: turn 1, prompt: another needle"]
    assert run("search", "needle", here).stdout.splitlines()[:-1] == lines
    assert len(document("search", "needle", here)["files"][0]["hits"]) == 3


def test_a_search_over_many_sessions_shows_a_few_lines_of_each(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_ALL", 15)
    for name in ("a", "b", "c"):
        write(here, claude("\n".join(f"needle {number}" for number in range(12))), f"{name}.jsonl")
    done = run("search", "needle", here)
    assert done.stdout.count(": needle ") == 15
    assert f"{here}/a.jsonl: 2 more lines match\n" in done.stdout
    assert done.stdout.endswith("total: 36 lines in 3 of 3 sessions\n")
    shows = "'sessioncompress search needle SESSION' shows those of one session, and --json all"
    assert f"21 lines are not shown: {shows}\n" in done.stderr
    one = run("search", "needle", here / "c.jsonl")
    assert (one.stdout.count(": needle "), one.stderr) == (12, "")
    assert [len(each["hits"]) for each in document("search", "needle", here)["files"]] == [12] * 3


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("~/plain.jsonl", "~/plain.jsonl"),
        ("~/two words.jsonl", "'{home}/two words.jsonl'"),
        ("/b.jsonl", "{here}/b.jsonl"),
    ],
)
def test_a_search_names_paths_that_can_be_pasted(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    """In a terminal that is narrower than they are, too."""
    monkeypatch.setattr("sessioncompress.cli.tables._is_terminal", lambda stream: stream is not None)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("HOME", str(here / "home"))
    made = Path(name.replace("~", str(here / "home"))) if "~" in name else here / name[1:]
    made.parent.mkdir(exist_ok=True)
    write(made.parent, claude("needle"), made.name)
    assert f"  {path.format(home=here / 'home', here=here)}" in run("search", "needle", here).stdout.splitlines()


@pytest.mark.parametrize("name", ["pi-anthropic.jsonl", "claude-tools.jsonl", "codex.jsonl", "gemini.jsonl"])
@pytest.mark.parametrize("then", ["compress --force", "compact --drop-dead"])
def test_a_search_finds_what_runs_took_out(here: Path, name: str, then: str) -> None:
    """Each line that the session had, and no line of a preview; those that it no longer has are marked."""
    session = write(here, fixture(name), "s.jsonl")
    little = {"keepTokens": 500, "minDeadTokens": 1, "minSavedTokens": 1}
    (here / "compression.json").write_text(json.dumps({"session": {"compact": little}}))

    def hits() -> list[dict[str, Any]]:
        (found,) = document("search", "the", session)["files"]
        assert not found["cut"]
        return [each for each in found["hits"] if each["said"] != "summary"]

    before = hits()
    assert not any(each["replaced"] for each in before)
    run("compress", "--force", session)
    size = session.stat().st_size
    assert run(*then.split(), session).exit_code == 0
    assert (session.stat().st_size < size) == then.startswith("compact")
    after = hits()
    # The checkpoint of some agents repeats what stays.
    collected = sorted if then.startswith("compress") else set
    lines = [collected((each["said"], each["line"]) for each in found) for found in (before, after)]
    assert lines[0] == lines[1]
    now = {content for raw in session.read_bytes().splitlines() for content in texts(json.loads(raw))}
    assert {each["replaced"] for each in after} == {False, True}
    assert {each["line"] in "\n".join(now) for each in after if not each["replaced"]} == {True}
    said = run("search", "the", session)
    assert "(original REFERENCE): no longer in the session, but in its store; " in said.stderr
    # Thinking and what left the session have no reference.
    for hit in (each for each in after if each["ref"]):
        assert hit["line"].replace("\t", " ") in run("show", hit["ref"], session).stdout.replace("\t", " ")
    assert any(f"result (original {each['ref']})" in said.stdout for each in after if each["ref"])
    run("restore", session)
    assert hits() == before


def texts(value: Any) -> list[str]:
    """All texts in a JSON value, and those in a text that is JSON."""
    if isinstance(value, str):
        return [value, *(texts(json.loads(value)) if value[:1] == "{" and value[-1:] == "}" else [])]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for each in inner for text in texts(each)]


def test_a_search_says_of_how_many_sessions_not_all_is_there(here: Path) -> None:
    session = write(here, fixture("pi-anthropic.jsonl"), "s.jsonl")
    run("compress", session)
    end = "total: 0 lines in 0 of 1 session"
    assert run("search", "no such text", session.parent).stdout.endswith(f"{end}\n")
    originals = store_in(session).originals
    originals.write_bytes(originals.read_bytes()[:100])
    note = "(1 session has markers whose originals are not here, or cannot be read, and are not searched)"
    result = run("search", "no such text", session.parent)
    assert (result.exit_code, result.stdout) == (0, f"{end} {note}\n")


def test_a_search_tells_what_session_it_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the list of sessions does, in a terminal; here, and in a pack."""
    monkeypatch.setattr("sessioncompress.cli.tables._is_terminal", lambda stream: stream is not None)
    monkeypatch.setenv("COLUMNS", "60")
    made = ClaudeSession(cwd="/srv/harbour")
    made.user(f"Mend the lamp that {'is out and ' * 9}dark. A needle.")
    os.utime(write(here, made.bytes(), "s.jsonl"), (0, time.time() - 5 * 24 * 3600))
    for state in ("", ", packed"):
        head, *_ = run("search", "needle", here).stdout.splitlines()
        about = f" (claude-code, 5 d{state})"
        assert head.endswith(f"...{about}")
        assert head.startswith("harbour: Mend the lamp ")
        assert len(head) <= 60
        run("pack", here)
    (found,) = document("search", "needle", here)["files"]
    (listed,) = document("search", "needle", here)["files"]
    assert found == listed
    assert (found["agent"], found["project"]) == ("claude-code", "/srv/harbour")
    assert found["title"].startswith("Mend the lamp that")
    assert found["modified"].endswith("Z")


def test_what_stands_above_the_first_turn_has_none(here: Path) -> None:
    """A session may begin with the summary of another one."""
    made = ClaudeSession()
    made.user("The needle was found.", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    write(here, made.turn().bytes(), "s.jsonl")
    ((hit,),) = (each["hits"] for each in document("search", "needle", here)["files"])
    assert (hit["turn"], hit["said"]) == (None, "summary")
    assert "s.jsonl: summary: The needle was found.\n" in run("search", "needle", here).stdout


def test_what_is_found_is_printable(here: Path) -> None:
    write(here, claude(f"{'x' * 500}\x1b[31mneedle{'y' * 500}"), "s.jsonl")
    result = run("search", "needle", here)
    assert "\x1b" not in result.stdout
    assert "\\x1b[31mneedle" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 300


def test_gitclaw_and_every_agent_can_be_packed(here: Path) -> None:
    for number, row in enumerate(TABLE):
        for name in sorted((Path(__file__).parents[2] / "fixtures").glob(f"{row.name.split('-')[0]}*.json*"))[:1]:
            (here / f"{number}{name.name}").write_bytes(name.read_bytes())
    was = packs.state(here)
    made = run("pack", *here.iterdir())
    assert made.exit_code == 0, made.stderr
    assert packs.state(here) == {}
    assert run("unpack", here).exit_code == 0
    assert packs.state(here) == was


def test_what_codex_has_packed_is_named_and_left(here: Path) -> None:
    """By the commands that read sessions; `pack` takes it, and a report tells of it."""
    home = here.parent / "home"
    path = home / ".codex/sessions/2026/03/02/rollout-2026-03-02T09-00-00-0.jsonl.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(zstd.compress(fixture("codex.jsonl")))
    os.utime(path, ns=(MTIME, MTIME))
    was = path.read_bytes()
    for command in (
        ["sessions"],
        ["stats", "--all"],
        ["compress", "--all"],
        ["verify", path.parent],
        ["verify", "--all"],
        ["budget", "--all"],
        ["compact", "--all"],
        ["restore", "--all"],
    ):
        result = run(*command)
        said = (
            "1 session that Codex itself packed (rollout-*.jsonl.zst): not read, not changed; Codex unpacks one when it"
        )
        assert said in result.stderr
        assert result.exit_code == 0
    assert "itself packed" not in run("compress", "--all", "--quiet").stderr
    for name in ("compress", "compact", "restore"):
        refused = run(name, path)
        assert refused.exit_code == 4
        assert "a session that Codex itself packed with zstd" in refused.stderr
        assert "Resume it with Codex, which unpacks it" in refused.stderr
    other = path.rename(path.with_name("other.jsonl.zst"))
    assert "'zstd -d FILE'" in run("compress", other).stderr
    other.rename(path)
    assert path.read_bytes() == was
    assert "packed 0 sessions" in run("pack", "--agent", "pi", "--older-than", "30d").stdout
    assert "packed 1 session" in run("pack", "--agent", "codex", "--older-than", "30d").stdout
    assert [each["packed"] for each in document("sessions")["sessions"]] == [True]
    assert run("verify", "--all").exit_code == 0
    assert run("unpack", path).exit_code == 0
    assert path.read_bytes() == was


def test_report_tells_what_is_packed(work: Path) -> None:
    """By project, and in its line; an index that cannot be read counts as failed."""
    run("pack", work)
    write(work, claude("One that is not packed."), "plain.jsonl")
    result = run("report", work)
    assert "; 3 sessions packed, " in result.stdout
    page = Path("report.html").read_text()
    assert "What is packed" in page
    assert "<dt>Also packed</dt><dd>3 sessions</dd>" in page
    index = next(packs_of(work).glob("*.index"))
    index.write_bytes(b"[]\n")
    assert run("report", work).exit_code == 5
    assert "What is packed" not in Path("report.html").read_text()


_IS_PACKED = "does not exist. It is packed, in "
_ARE_PACKED = "'sessioncompress unpack {}' brings them back."
READ_THERE = [
    (("stats", "{}"), (0, "3 turns"), (0, "total: 3 sessions")),
    (("verify", "{}"), (0, "originals checked, all good"), (0, "total: 3 sessions")),
    (("search", "at part", "{}"), (0, "in 1 of 1 session"), (0, "in 3 of 3 sessions")),
    (("show", "{ref}", "{}"), (0, "Look at part 0. 0"), (0, "Look at part 0. 0")),
    (("report", "{}"), (0, "1 session packed"), (0, "3 sessions packed")),
    *(
        ((name, "{}"), (2, _IS_PACKED), (4, _ARE_PACKED))
        for name in ("compress", "compact", "restore", "diff", "budget")
    ),
]
"""A command over the path of a packed session, and over that of an archive: its exit code, and what it says."""


def test_forget_of_a_packed_session_tells_where_it_is(work: Path) -> None:
    run("pack", work)
    result = run("forget", work / "one.jsonl")
    assert (result.exit_code, "it has no store. It is packed, in " in result.stderr) == (2, True)


@pytest.mark.parametrize("is_archive", [False, True], ids=["session", "archive"])
@pytest.mark.parametrize(("arguments", "one", "all_"), READ_THERE, ids=[row[0][0] for row in READ_THERE])
def test_the_path_of_what_is_packed(
    work: Path, arguments: tuple[str, ...], one: tuple[int, str], all_: tuple[int, str], *, is_archive: bool
) -> None:
    """Who reads packs reads it there; the others say what brings it back, and that works."""
    code, said = all_ if is_archive else one
    path = work / "one.jsonl"
    records = store_in(path).journal.read_text().splitlines()
    ref = next(json.loads(line)["ref"] for line in records if '"block"' in line)
    was = packs.state(work)
    run("pack", work if is_archive else path)
    if is_archive:
        (path,) = packs_of(work).glob("*.tar.zst")
    result = run(*(each.format(path, ref=ref) for each in arguments))
    assert result.exit_code == code, result.output
    assert said.format(path) in result.output
    if code:
        command = f"unpack {path}"
        assert f"'sessioncompress {command}' brings " in result.stderr
        assert run(*command.split()).exit_code == 0
        assert packs.state(work) == was
    elif is_archive:
        assert "refused" not in result.output


@pytest.mark.parametrize(
    "arguments", [("verify", "{}"), ("stats", "{}"), ("unpack", "{}"), ("verify", "."), ("pack", ".")]
)
def test_an_archive_without_its_index(work: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    """No command ends well over it, named or met, and each says how to unpack it."""
    run("pack", work)
    (archive,) = packs_of(work).glob("*.tar.zst")
    without_tail(archive)
    monkeypatch.chdir(work)
    result = run(*(each.format(archive) for each in arguments))
    assert result.exit_code == 5, result.output
    assert "its index is missing" in result.stderr
    assert f"'tar --zstd -k -C {work} -xf {archive}'" in result.stderr
    assert archive.exists()


def test_a_full_disk_under_the_copy_that_is_read(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the session, and where its copy was; it named a folder that was gone by then."""

    def fill(fd: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run("pack", work)
    monkeypatch.setattr(disk, "write_all", fill)
    result = run("verify", work)
    assert result.exit_code == 3
    where = f"the temporary copy of {work}/one.jsonl in {tempfile.gettempdir()}: no space left on device."
    assert where in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["verify", "stats", "unpack", "pack", "search"])
def test_an_index_without_its_archive(work: Path, command: str) -> None:
    """What it holds is lost unless it is put back: `pack` said that it is packed already, and the others 3."""
    run("pack", work)
    (archive,) = packs_of(work).glob("*.tar.zst")
    archive.unlink()
    result = run(command, *(["Look"] if command == "search" else []), work)
    assert result.exit_code == 5, result.output
    assert "tmp-1.index: its archive is missing. The pack was not changed. Put tmp-1.tar.zst back" in result.stderr
    assert "3 sessions are only there" in result.stderr


def test_an_index_without_its_archive_of_what_is_back(work: Path) -> None:
    """Nothing is lost, as where an older index is put back over the folder: the next run deletes it."""
    was = packs.state(work)
    run("pack", work)
    index = packs_of(work) / "tmp-1.index"
    before = index.read_bytes()
    run("unpack", work)
    index.parent.mkdir()
    index.write_bytes(before)
    assert run("verify", work).exit_code == 0
    assert run("pack", work).exit_code == 0
    assert run("unpack", work).exit_code == 0
    assert packs.state(work) == was


@pytest.mark.parametrize(("named", "code"), [("Look at part 1.", 0), (".", 2)])
def test_from_a_deleted_folder(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, code: int
) -> None:
    """A title still means a session in an agent's folder, and a path nothing: both ended with a traceback."""
    home = tmp_path / "home"
    sessions = home / ".pi/agent/sessions/project"
    monkeypatch.setenv("HOME", str(home))
    packs.sessions_in(sessions)
    assert run("pack", sessions).exit_code == 0
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = run("unpack", named)
    assert result.exit_code == code, result.output
    assert (sessions / "two.jsonl").exists() == (code == 0)


def test_a_path_that_never_was_one_is_told_as_before(work: Path) -> None:
    run("pack", work / "one.jsonl")
    result = run("stats", work / "none.jsonl")
    assert result.exit_code == 2
    assert "none.jsonl' does not exist. Nothing was done." in result.stderr


AT_EIGHTY = [
    ("compress", "a.jsonl"),
    ("compact", "a.jsonl", "--keep-tokens", "2000"),
    ("compact", "a.jsonl", "--keep-tokens", "1000"),
    ("budget", "a.jsonl"),
    ("verify", "a.jsonl"),
    ("search", "nightly", "."),
    ("stats", "none.jsonl"),
    ("restore", "--run", "nope", "a.jsonl"),
    ("restore", "a.jsonl"),
    ("pack", "."),
    ("show", "nothing"),
    ("unpack", "nothing"),
    ("search", "nightly", "."),
    ("unpack", "."),
]


def test_lines_fit_a_terminal_of_80_columns(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual output of each command, and its refusals, but for commands and paths that are there to be copied."""
    monkeypatch.setattr("sessioncompress.cli.tables._is_terminal", lambda stream: stream is not None)
    monkeypatch.setenv("COLUMNS", "80")
    write(here, fixture("pi-anthropic.jsonl"), "a.jsonl")
    for arguments in AT_EIGHTY:
        result = run(*arguments)
        lines = result.output.splitlines()
        assert lines
        to_copy = (str(here), "undo with:")
        long = [line for line in lines if len(line) > 80 and " " in line.strip()]
        assert [line for line in long if not line.strip().startswith(to_copy)] == [], arguments
        if arguments == ("unpack", "."):
            assert len(lines) == 2


def test_restore_of_a_folder_ends_with_4_where_originals_stay_packed(here: Path) -> None:
    """A script that goes on at 0 would leave them; a packed session without a store has nothing to restore."""
    path = write(here, fixture("pi-anthropic.jsonl"))
    for command, code in (("compress", 4), ("restore", 0)):
        run(command, path)
        if command == "restore":
            run("forget", "--yes", path)
        run("pack", path)
        assert run("restore", here).exit_code == code
        assert run("restore", "--dry-run", here).exit_code == 0
        run("unpack", here)
