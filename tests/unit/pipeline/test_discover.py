"""What a walk over a folder finds: lines by their name, documents by how they begin, nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, discover, handed
from sessioncompress.pipeline.summary import Status
from sessioncompress.store.layout import FOLDER
from tests.cli.test_cli import document, here, run
from tests.support.runs import EAGER, compress, fixture

__all__ = ["here"]

ORDINARY = {
    "package.json": b'{"name": "x", "version": "1.0.0", "directories": {"lib": "lib"}}',
    "package-lock.json": b'{"packages": {}, "info": {}, "messages": []}',
    "tsconfig.json": b'// comment\n{"compilerOptions": {}}',
    "empty.json": b"",
    "words.json": b'["sessionId"]',
    "7.json": b'{"issueNumber": 7, "sessionPath": "x.jsonl"}',
    "session.jsonl.bak": b"",
    "session.json.refs.jsonl.gz": b"",
}


def names(folder: Path) -> list[str]:
    """Return what is found, from that folder on."""
    return [str(each.path.relative_to(folder)) for each in discover([folder])]


def test_ordinary_documents_are_not_found(tmp_path: Path) -> None:
    """Nor are they counted: a repository is full of them."""
    for name, raw in ORDINARY.items():
        (tmp_path / name).write_bytes(raw)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["gemini.json", "opencode.json"])
def test_sessions_that_are_documents_are_found(tmp_path: Path, name: str) -> None:
    """Under any name that ends so, before a run and after it; what lies beside them is not."""
    for each in ("a.json", "sub/b.json", "node_modules/c.json", ".git/d.json"):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_bytes(fixture(name))
    assert names(tmp_path) == ["a.json", "sub/b.json"]
    assert compress(tmp_path / "a.json", EAGER).status is Status.COMPRESSED
    assert (tmp_path / FOLDER).is_dir()
    assert names(tmp_path) == ["a.json", "sub/b.json"]


def test_a_chat_that_was_compressed_by_name_is_found_by_its_journal(here: Path) -> None:
    """What restores and checks a folder must not pass over what a run changed in it."""
    (here / "chat.json").write_bytes(fixture("chat.json"))
    assert names(here) == []
    assert compress(here / "chat.json", EAGER).status is Status.COMPRESSED
    assert names(here) == ["chat.json"]
    assert "total: 1 session: " in run("verify", here).stdout
    assert "total: 1 session restored: " in run("restore", here).stdout
    assert (here / "chat.json").read_bytes() == fixture("chat.json")


def test_a_document_that_only_looks_like_one_is_passed_over(here: Path) -> None:
    """It is looked at, and counted as what is no session."""
    (here / "x.json").write_bytes(b'{"sessionId": 1, "projectHash": 2}' + b" " * 200_000)
    result = run("compress", here)
    assert result.exit_code == 0
    assert result.stdout == "total: 0 files (1 passed over (not sessions, or links))\n"


def test_what_cannot_be_opened_is_no_session(tmp_path: Path) -> None:
    """Links, pipes and folders of such a name, and a file that is gone: no error, and nothing waits."""
    (tmp_path / "real.txt").write_bytes(fixture("gemini.json"))
    (tmp_path / "link.json").symlink_to("real.txt")
    (tmp_path / "gone.json").symlink_to("nothing")
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    assert names(tmp_path) == []


def test_a_document_without_the_right_to_read_it_is_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such files lie everywhere; a session that its agent cannot read is none either."""
    (tmp_path / "x.json").write_bytes(fixture("gemini.json"))
    assert names(tmp_path) == ["x.json"]

    def denied(path: str, flags: int) -> int:
        raise PermissionError(path)

    monkeypatch.setattr(os, "open", denied)
    assert names(tmp_path) == []


def test_a_read_that_fails_is_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_bytes(fixture("gemini.json"))
    closed: list[int] = []
    close = os.close

    def failing(fd: int, size: int) -> bytes:
        raise OSError(5, "Input/output error")

    def noting(fd: int) -> None:
        closed.append(fd)
        close(fd)

    monkeypatch.setattr(os, "read", failing)
    monkeypatch.setattr(os, "close", noting)
    assert names(tmp_path) == []
    assert len(closed) >= 1


@pytest.mark.parametrize("store", ["storage", "."])
def test_where_opencode_kept_its_sessions(here: Path, store: str) -> None:
    """Who names that folder learns how to get them out; in a folder above it, it is passed by."""
    folder = here / "opencode"
    folder.mkdir()
    for name in ("session", "message", "part"):
        (folder / store / name).mkdir(parents=True)
        (folder / store / name / "x.json").write_bytes(b'{"id": "ses_1"}')
    result = run("compress", folder)
    assert result.exit_code == 4
    assert result.stderr.startswith(f"refused: {folder}: OpenCode keeps its sessions here")
    assert "'opencode export SESSION > FILE'" in result.stderr
    assert run("compress", here).exit_code == 0


@pytest.mark.parametrize("name", ["session", "message"])
def test_another_folder_of_such_a_name_is_walked(here: Path, name: str) -> None:
    """One of its folders is not all of them."""
    (here / name).mkdir()
    (here / name / "a.json").write_bytes(fixture("gemini.json"))
    assert "total: 1 file (1 compressed)" in run("compress", here).stdout


def test_every_command_over_a_folder_finds_documents(here: Path) -> None:
    """What one made smaller the others find."""
    (here / "session.json").write_bytes(fixture("gemini.json"))
    (here / "package.json").write_bytes(ORDINARY["package.json"])
    assert [each["path"] for each in document("compress", here)["files"]] == [str(here / "session.json")]
    assert (here / "session.json").read_bytes() != fixture("gemini.json")
    for command in ("stats", "verify"):
        assert [each["format"] for each in document(command, here)["files"]] == ["gemini"]
    assert "total: 1 session restored" in run("restore", here).stdout
    assert (here / "session.json").read_bytes() == fixture("gemini.json")
    assert "total: 1 session: deleted" in run("forget", "--yes", here).stdout


def test_a_file_is_named_wherever_it_was_met_first(here: Path) -> None:
    """The order of the paths does not say whether a file that is no session is an error."""
    bad = here / "big.jsonl"
    bad.write_bytes(b"x" * 200_000)
    codes = [run("compress", *paths).exit_code for paths in ((here, bad), (bad, here), (here,))]
    assert codes == [4, 4, 0]


# What a program hands over


HANDED: tuple[tuple[str, bytes, bool], ...] = (
    ("notes.txt", b"", False),
    ("a.jsonl.zst", b"", False),
    ("package.json", b'{"name": "x"}', False),
    ("missing.json", b"", False),
    (".sessioncompress/a.jsonl", b"{}\n", False),
    ("folder/.sessioncompress/a.refs.jsonl", b"{}\n", False),
    ("backup/a.refs.jsonl", b"{}\n", False),
    ("a.refs.jsonl", b"{}\n", True),
    ("a.jsonl", b"{}\n", True),
    ("document.json", b'{"sessionId": "x", "projectHash": "y", "messages": []}', True),
)
"""Files, and whether they may be sessions; beside the journal in `backup` lie its originals."""


@pytest.mark.parametrize(("name", "data", "may_be"), HANDED, ids=[name for name, _, _ in HANDED])
def test_what_is_handed_over_is_judged_as_if_met_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, may_be: bool
) -> None:
    """By names and first bytes; ours are none, and none is named."""
    monkeypatch.chdir(tmp_path)
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if name != "missing.json":
        path.write_bytes(data)
    Path("backup").mkdir(exist_ok=True)
    Path("backup/a.jsonl.zst").touch()
    assert list(handed([path])) == ([Found(path, named=False)] if may_be else [])


GLOBS: list[tuple[Globs, str, bool]] = [
    (EVERYTHING, "a/b.jsonl", True),
    (Globs(("*.jsonl",)), "a/b.jsonl", True),
    (Globs(("*.jsonl",)), "a/b.json", False),
    (Globs(("b*",)), "a/b.jsonl", True),
    (Globs(("a",)), "a/b.jsonl", True),
    (Globs(("a",)), "x/a/b.jsonl", True),
    (Globs(("a",)), "ab/b.jsonl", False),
    (Globs(("x/*",)), "x/a/b.jsonl", True),
    (Globs(("x/*",)), "y/x/b.jsonl", False),
    (Globs(("A",)), "a/b.jsonl", False),
    (Globs(("x", "a")), "a/b.jsonl", True),
    (Globs((), ("a",)), "a/b.jsonl", False),
    (Globs((), ("*.jsonl",)), "a/b.jsonl", False),
    (Globs((), ("x",)), "a/b.jsonl", True),
    (Globs(("*.jsonl",), ("agent-*",)), "a/agent-1.jsonl", False),
    (Globs(("*.jsonl",), ("agent-*",)), "a/1.jsonl", True),
]


@pytest.mark.parametrize(("globs", "path", "taken"), GLOBS)
def test_what_is_taken(globs: Globs, path: str, taken: bool) -> None:
    """By the whole path or by a name in it; what is excluded is not included again."""
    assert globs.takes(path) is taken


def test_patterns_say_which_files_are_meant(tmp_path: Path) -> None:
    """By path or name below the folder that was named; a file that is named itself is meant whatever it is called."""
    for each in ("a.jsonl", "sub/b.jsonl", "sub/old/c.jsonl", "old/d.jsonl"):
        (tmp_path / each).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / each).write_bytes(b"{}\n")

    def found(*globs: tuple[str, ...]) -> list[str]:
        return [str(each.path.relative_to(tmp_path)) for each in discover([tmp_path], Globs(*globs))]

    assert found() == ["a.jsonl", "old/d.jsonl", "sub/b.jsonl", "sub/old/c.jsonl"]
    assert found(("sub",)) == ["sub/b.jsonl", "sub/old/c.jsonl"]
    assert found((), ("old",)) == ["a.jsonl", "sub/b.jsonl"]
    assert found((), ("old/*",)) == ["a.jsonl", "sub/b.jsonl", "sub/old/c.jsonl"]
    assert found(("*.jsonl",), ("sub", "old")) == ["a.jsonl"]
    assert found((tmp_path.name,)) == []
    assert [each.path for each in discover([tmp_path / "a.jsonl"], Globs((), ("*",)))] == [tmp_path / "a.jsonl"]


def test_what_is_excluded_is_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of many files costs nothing then."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.jsonl").write_bytes(b"{}\n")
    scanned: set[str] = set()
    scan = os.scandir

    def noting(path: str) -> Any:
        scanned.add(str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", noting)
    assert list(discover([tmp_path], Globs((), ("old",)))) == []
    assert scanned == {str(tmp_path)}


@pytest.mark.parametrize("command", ["compress", "verify", "restore"])
def test_the_commands_take_patterns_and_jobs(here: Path, command: str) -> None:
    """And do in two processes what they do in one."""
    for name in ("b.jsonl", "a.jsonl", "x/a.jsonl"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_bytes(fixture("pi-anthropic.jsonl"))
    if command != "compress":
        run("compress", "--force", here)
    result = run(command, "-v", "--jobs", "2", "--include", "a*", "--exclude", "x", here)
    assert result.exit_code == 0
    assert [line.partition(":")[0] for line in result.stdout.splitlines()][:2] == [str(here / "a.jsonl"), "total"]
    assert run(command, "--jobs", "0", here).exit_code == 2
