"""What lies beside a session and the next commit: staged as it is, and never touched while a part of it is put aside."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from sessioncompress.cli.pre_commit import put_aside, refuse_if_put_aside, stage
from sessioncompress.errors import FileFailed, Refused
from sessioncompress.store.layout import Store, plain_in
from tests.support.repository import Repository

NAMES = ["a.jsonl", "with a blank.jsonl", "*.jsonl", ":(top)b.jsonl", "-n.jsonl", "\u00e9\n.jsonl"]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return an empty repository, which is the working folder."""
    found = Repository(tmp_path / "work")
    monkeypatch.chdir(found.folder)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


def store(name: str, text: str = "x\n") -> Store:
    files = plain_in(Path(name))
    files.folder.mkdir(exist_ok=True)
    for path in (files.originals, files.journal):
        path.write_text(text)
    return files


def take(*stores: Store, dry_run: bool = False) -> list[str]:
    """Stage what lies beside the sessions that the stores are named after."""
    return stage({each.work.parent / each.originals.stem: each for each in stores}, dry_run=dry_run)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_lies_beside_is_staged(repository: Repository, name: str) -> None:
    """Whatever a name means to git; once, then there is nothing to stage."""
    Path("other.jsonl").write_text("")
    (files, _) = store(name), store("other.jsonl")
    assert len(take(files, dry_run=True)) == 2
    assert repository.staged() == set()
    assert len(take(files)) == 2
    listed = repository.git("ls-files", "-z").split("\0")
    assert set(listed) - {""} == {str(files.originals), str(files.journal)}
    assert take(files, dry_run=True) == take(files) == []
    store(name, "y\n")
    assert len(take(files)) == 2


def test_without_a_store_git_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be none, or no repository."""
    monkeypatch.setenv("PATH", "")
    assert take(plain_in(tmp_path / "a.jsonl")) == []
    assert take() == []


def test_what_git_ignores_in_a_folder_is_not_staged(repository: Repository) -> None:
    """Two branches would meet in that list with a conflict."""
    for folder in (Path(".sessioncompress"), Path("elsewhere")):
        folder.mkdir()
        (folder / ".gitignore").write_text("*.temp-*\n")
    store("a.jsonl")
    other = plain_in(Path("b.jsonl"), Path("elsewhere"))
    other.journal.write_text("x")
    take(plain_in(Path("a.jsonl")), other)
    staged = {".sessioncompress/a.jsonl.zst", ".sessioncompress/a.refs.jsonl"}
    assert repository.staged() == staged | {str(other.journal)}


def test_where_git_is_missing_or_fails_it_is_said(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the state of the sessions, and what to do."""
    files = store("a.jsonl")
    Path(".gitignore").write_text(".sessioncompress\n")
    with pytest.raises(FileFailed, match=r"ignored by one of your .gitignore files.*complete on disk.*commitOriginals"):
        take(files)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileFailed, match="complete on disk"):
        take(files)


def absolute(path: Path) -> str:
    return str(path.absolute())


ATTRIBUTES = {
    "*.zst filter=lfs diff=lfs merge=lfs -text": "",
    "* filter=git-crypt diff=git-crypt": "",
    "* -filter": "",
    "* text\n*.zst binary": "",
    "* text\n*.zst -text": "",
    "* text=auto": "",
    "* text=auto eol=lf\n*.refs.jsonl text eol=lf": "",
    "* text=auto eol=crlf\n*.jsonl -text": "",
    "*.jsonl text": "",
    "* -text eol=crlf": "",
    "* text": "'*.zst -text'",
    "* text eol=lf": "'*.zst -text'",
    "* eol=lf": "'*.zst -text'",
    "*.zst crlf": "'*.zst -text'",
    "*.zst ident": "'*.zst -ident'",
    "*.zst filter=up": "'*.zst -filter'",
    "*.zst filter": "'*.zst -filter'",
    "*.zst working-tree-encoding=UTF-16 filter=up": "'*.zst -working-tree-encoding -filter'",
    "* text=auto eol=crlf": "'*.jsonl -text', '*.refs.jsonl -text'",
    "* text=auto eol=crlf\n*.refs.jsonl -text": "'*.jsonl -text'",
    "a.jsonl text eol=crlf": "'*.jsonl -text'",
    "*.refs.jsonl text eol=crlf": "'*.refs.jsonl -text'",
    "*.jsonl text eol=crlf\n*.zst ident": "'*.jsonl -text', '*.zst -ident', '*.refs.jsonl -text'",
    "*.jsonl eol=crlf ident": "'*.jsonl -text -ident', '*.refs.jsonl -text -ident'",
    "*.jsonl filter=up": "'*.jsonl -filter', '*.refs.jsonl -filter'",
    "a.jsonl working-tree-encoding=UTF-16": "'*.jsonl -working-tree-encoding'",
    "a.jsonl filter=lfs": "",
}
"""Rules, and those that the user is told to add; none where git keeps every byte."""


def refused(attributes: str, rules: str, store: Store) -> None:
    """Find that nothing is staged before the rules are added that the error tells, and that it is afterwards."""
    Path(".gitattributes").write_text(f"{attributes}\n")
    if rules:
        with pytest.raises(FileFailed) as error:
            take(store)
        assert "makes git change its bytes" in str(error.value)
        assert f" Add {rules} at the end of the .gitattributes nearest" in str(error.value)
        with Path(".gitattributes").open("a") as file:
            file.write(rules.replace("', '", "\n").strip("'") + "\n")
    assert len(take(store, dry_run=True)) == 2


@pytest.mark.parametrize(("attributes", "rules"), ATTRIBUTES.items(), ids=map(repr, ATTRIBUTES))
def test_what_git_would_change_is_not_staged(repository: Repository, attributes: str, rules: str) -> None:
    """It takes a carriage return out of what it is told is a text, which no clone gets back; the rule prevents it."""
    files = store("a.jsonl")
    files.originals.write_bytes(b"\x28\xb5\x2f\xfd\0\r\n\r\n")
    Path("a.jsonl").write_bytes(b"{}\n")
    refused(attributes, rules, files)
    assert repository.staged() == set()


AS_TEXT = {
    "* text=auto": True,
    "* crlf=auto": True,
    "*.jsonl text": True,
    "*.jsonl text=input": True,
    "*.jsonl crlf": True,
    "*.jsonl eol=lf": True,
    "*.jsonl -crlf eol=lf": False,
    "*.jsonl -text eol=lf": False,
    "*.zst -text": False,
}
"""Rules, and whether git takes the carriage returns at the ends of lines out of a session."""


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"], ids=["LF", "CR LF"])
@pytest.mark.parametrize(("attributes", "changed"), AS_TEXT.items(), ids=map(repr, AS_TEXT))
def test_carriage_returns_of_a_session(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, attributes: str, changed: bool, ends: bytes
) -> None:
    """Only where it has some the rules count; they are found wherever a piece that is read ends."""
    monkeypatch.setattr("sessioncompress.cli.pre_commit.BUFFER", 3)
    Path("a.jsonl").write_bytes(b"{}\n" + b'{"a": "\\r\\n"}' + ends)
    refused(attributes, "'*.jsonl -text'" if changed and ends != b"\n" else "", store("a.jsonl"))
    repository.git("add", "--all")
    assert int(repository.git("cat-file", "-s", ":a.jsonl")) == Path("a.jsonl").stat().st_size


@pytest.mark.parametrize("ending", [".json", ".txt", ""])
def test_the_rule_fits_the_name_of_the_session(repository: Repository, ending: str) -> None:
    Path(f"a{ending}").write_bytes(b"{}\r\n")
    refused("a* text", f"'{f'*{ending}' if ending else 'a'} -text', '*.zst -text'", store(f"a{ending}"))


def test_a_session_of_no_commit_is_not_asked_about(repository: Repository, tmp_path: Path) -> None:
    """What lies beside it does, in a backup folder: it lies outside, in a repository of its own, or there is none."""
    Path(".gitattributes").write_text("* text=auto\n")
    Repository(Path("inner").absolute())
    Path("kept").mkdir()
    for session in (tmp_path / "a.jsonl", Path("inner/a.jsonl"), Path("none.jsonl")):
        if session.name != "none.jsonl":
            session.write_bytes(b"{}\r\n")
        files = plain_in(session, Path("kept"))
        files.originals.write_bytes(b"\x28\xb5\x2f\xfd\0")
        assert len(stage({session: files}, dry_run=False)) == 1


def test_what_git_took_by_a_rule_that_is_no_more_is_staged_anew(repository: Repository) -> None:
    """It does not look again at a file that has not changed since: the commit would hold what the rule made of it."""
    files = store("a.jsonl")
    files.originals.write_bytes(b"\x28\xb5\x2f\xfd\r\n")
    os.utime(files.originals, (10**9, 10**9))
    Path(".gitattributes").write_text("* text\n")
    repository.git("add", "--all")
    Path(".gitattributes").write_text("* text\n*.zst -text\n")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", "with the rule")
    name = f"'{files.originals}'"
    assert stage({Path("a.jsonl"): files}, dry_run=True) == [name]
    assert stage({Path("a.jsonl"): files}, dry_run=False) == [name]
    assert repository.staged() == {str(files.originals)}
    assert stage({Path("a.jsonl"): files}, dry_run=False) == []


def patch(repository: Repository, home: Path, name: str) -> None:
    home.mkdir(exist_ok=True)
    (home / name).write_text(repository.git("diff", "--binary"))


@pytest.mark.parametrize("name", NAMES)
def test_what_pre_commit_has_put_aside_is_known(repository: Repository, tmp_path: Path, name: str) -> None:
    """Text and bytes, by the patch of a process that is at work; of one that is over, or long ago, nothing counts."""
    files = store(name)
    other = store("untouched.jsonl")
    repository.commit()
    files.journal.write_text("more\n")
    files.originals.write_bytes(b"\0\1")
    home, now = tmp_path / "pre-commit", int(time.time())
    assert put_aside() == frozenset()
    ended = subprocess.Popen(["true"])
    ended.wait()
    for none in (
        f"patch{now}-{ended.pid}",
        f"patch{now - 7200}-{os.getpid()}",
        "patch",
        "db.db",
        f"patch{now}-{10**30}",
    ):
        patch(repository, home, none)
    assert put_aside() == frozenset()
    patch(repository, home, f"patch{now}-{os.getpid()}")
    aside = put_aside()
    assert aside == {absolute(files.journal), absolute(files.originals)}
    refuse_if_put_aside(other, aside)
    with pytest.raises(Refused, match="not staged"):
        refuse_if_put_aside(files, aside)


def test_white_space_that_the_user_forbids_does_not_matter(repository: Repository, tmp_path: Path) -> None:
    """Git itself puts the patch back for pre-commit without a look at it."""
    files = store("a.jsonl")
    repository.commit()
    files.journal.write_text("more \n")
    repository.git("config", "apply.whitespace", "error")
    patch(repository, tmp_path / "pre-commit", f"patch{int(time.time())}-{os.getpid()}")
    assert put_aside() == {absolute(files.journal)}


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_its_folder_is_found_as_it_finds_it(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """By the variable of its own, that of all caches, or in the home."""
    files = store("a.jsonl")
    repository.commit()
    files.journal.write_text("more\n")
    for name in ("PRE_COMMIT_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "there"))
    home = tmp_path / "there" / (".cache/pre-commit" if variable == "HOME" else "pre-commit")
    home.mkdir(parents=True)
    patch(repository, home, f"patch{int(time.time())}-{os.getpid()}")
    assert put_aside() == {absolute(files.journal)}
