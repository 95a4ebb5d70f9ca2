"""No branch takes a hidden store away, and one that other machines or the first version made goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from xxhash import xxh3_128_hexdigest

from sessioncompress.core.marker import PREFIX_BYTES, references
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.store import machine
from sessioncompress.store.layout import FOLDER, Store, hidden_in, plain_in, store_in
from sessioncompress.store.machine import folder_name
from tests.faults.scenes import SIZES, Scene, Size, Stage, built, check_it_goes_on, check_old_or_new, killed, stage
from tests.stores.first import EACH, is_whole, taken_out
from tests.support.forged import (
    FIXTURE,
    REFERENCE,
    compressed,
    forged,
    of_first_stores,
    other_digests,
    other_names,
    own_names,
    sealed,
)
from tests.support.long import FEW, LONG, TURNS
from tests.support.repository import Repository
from tests.support.runs import EAGER, GREEDY, fixture, invoke, run, split, write
from tests.support.stores import (
    COMPRESS,
    HEAD,
    LINES,
    LOCAL,
    MORE,
    ORIGINAL,
    SMALL,
    copied,
    grows,
    in_work_tree,
    own_folder,
    repository,
    stores_of,
    user_of,
)
from tests.unit.store.tools import everything

NAME = "sessions/s.jsonl"
Act = Callable[[Repository], None]


def move(store: Store, to: Store) -> None:
    """Move a store, as if it had been made there."""
    to.folder.mkdir(mode=0o700, exist_ok=True)
    for one, other in ((store.originals, to.originals), (store.journal, to.journal)):
        one.rename(other)
    if store.folder != store.work:
        shutil.rmtree(store.folder)


# Branches


def worked(folder: Path) -> tuple[Repository, Path]:
    """Return a clone whose session was gone on with and has a hidden store; on branch `ci` it has a committed one."""
    origin = Repository(folder / "origin")
    (origin.folder / "sessions").mkdir()
    (origin.folder / NAME).write_bytes(HEAD)
    origin.commit()
    ours = origin.clone(folder / "ci")
    ours.git("checkout", "--quiet", "-b", "ci")
    with user_of(folder / "state of ci"):
        run("compress", "--force", "--commit-originals", ours.folder / NAME)
    ours.commit()
    assert {"sessions/.sessioncompress/s.jsonl.zst", "sessions/.sessioncompress/s.refs.jsonl"} <= ours.tracked()
    ours.git("push", "--quiet", "origin", "ci")
    mine = origin.clone(folder / "mine")
    path = mine.folder / NAME
    grows(path, MORE)
    run(*COMPRESS, path)
    mine.commit()
    mine.git("fetch", "--quiet")
    assert [each.is_ours for each in stores_of(path)] == [True]
    return mine, path


def checkout(mine: Repository) -> None:
    mine.git("checkout", "--quiet", "ci")
    assert (mine.folder / "sessions/.sessioncompress/s.refs.jsonl").exists()
    mine.git("checkout", "--quiet", "main")
    assert not (mine.folder / "sessions/.sessioncompress/s.refs.jsonl").exists()


def pull(mine: Repository) -> None:
    """Merge the branch, and keep this one's session."""
    mine.run("git", "merge", "--no-commit", "origin/ci")
    mine.git("checkout", "HEAD", "--", NAME)
    mine.git("commit", "--quiet", "--message", "merge")
    assert (mine.folder / "sessions/.sessioncompress/s.refs.jsonl").exists()


def rebase(mine: Repository) -> None:
    """Rebase onto the branch, and keep this one's session."""
    was = mine.git("rev-parse", "HEAD").strip()
    mine.run("git", "rebase", "origin/ci")
    mine.git("checkout", was, "--", NAME)
    mine.run("git", "-c", "core.editor=true", "rebase", "--continue")
    assert mine.git("rev-parse", "HEAD^") == mine.git("rev-parse", "origin/ci")
    assert (mine.folder / "sessions/.sessioncompress/s.refs.jsonl").exists()


def reset(mine: Repository) -> None:
    mine.git("reset", "--quiet", "--hard", "origin/ci")
    mine.git("reset", "--quiet", "--hard", "HEAD@{1}")


def worktree(mine: Repository) -> None:
    """Check the branch out beside: there its store is the only one, and it goes on."""
    other = mine.folder.parent / "other"
    mine.git("worktree", "add", "--quiet", other, "ci")
    path = other / NAME
    assert [each.is_hidden for each in stores_of(path)] == [False]
    run("verify", path)
    run(*COMPRESS, "--commit-originals", path)
    assert [each.is_hidden for each in stores_of(path)] == [False]
    run("restore", path)
    assert path.read_bytes() == HEAD


def stash(mine: Repository) -> None:
    mine.git("stash", "--quiet", "--all")
    assert stores_of(mine.folder / NAME) == []
    mine.git("stash", "pop", "--quiet")


def sequester(mine: Repository) -> None:
    """Put aside what git sees, on the branch too."""
    (mine.folder / "note").touch()
    mine.git("stash", "--quiet", "--include-untracked")
    checkout(mine)
    mine.git("stash", "pop", "--quiet")
    (mine.folder / "note").unlink()


def clean(mine: Repository) -> None:
    """Remove what git does not see, but for what is ignored."""
    mine.git("checkout", "--quiet", "ci")
    mine.git("clean", "--quiet", "-d", "--force")
    mine.git("checkout", "--quiet", "main")


@pytest.mark.parametrize("act", [checkout, pull, rebase, reset, worktree, stash, sequester, clean])
def test_a_hidden_store_outlives_a_branch_with_a_committed_one(tmp_path: Path, act: Act) -> None:
    """Not a byte of it changes, and the session comes back; a run goes on in it."""
    mine, path = worked(tmp_path)
    before = everything(own_folder(path))
    assert len(before) >= 2
    act(mine)
    assert everything(own_folder(path)) == before
    assert mine.git("status", "--porcelain") == ""
    assert invoke("verify", path).exit_code == 0
    grows(path, LINES[-1])
    run("compress", "--force", "--preset", "archive", path)
    assert store_in(path).is_ours
    assert invoke("verify", path).exit_code == 0
    run("restore", path)
    assert path.read_bytes() == ORIGINAL + LINES[-1]


def test_on_the_branch_its_own_store_counts(tmp_path: Path) -> None:
    """The hidden one is of another session of that name. What a run does on the branch is no harm here."""
    mine, path = worked(tmp_path)
    mine.git("checkout", "--quiet", "ci")
    was = path.read_bytes()
    assert was != HEAD
    restored = invoke("restore", path)
    assert path.read_bytes() == HEAD, restored.output
    path.write_bytes(was)
    run(*COMPRESS, "--commit-originals", path)
    mine.git("checkout", "--quiet", "--force", "main")
    assert invoke("verify", path).exit_code == 0
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


@pytest.mark.parametrize("where", ["here", "in a copy"])
def test_a_branch_that_begins_to_commit_originals(tmp_path: Path, where: str) -> None:
    """The branch that it left still has its store, whatever a run does on either; so do both once they are merged."""
    mine, path = repository(tmp_path)
    run(*COMPRESS, path)
    mine.commit()
    if where == "in a copy":
        shutil.copytree(mine.folder, tmp_path / "copy")
    there = Repository(tmp_path / "copy") if where == "in a copy" else mine
    there.git("checkout", "--quiet", "-b", "ci")
    grows(there.folder / "s.jsonl", MORE)
    run(*COMPRESS, "--commit-originals", there.folder / "s.jsonl")
    there.commit()
    if there is not mine:
        mine.git("fetch", "--quiet", there.folder, "ci:ci")
    for branch, original in [("main", HEAD), ("ci", ORIGINAL)] * 2:
        mine.git("checkout", "--quiet", "--force", branch)
        run("compress", "--force", path)
        run("verify", path)
        run("restore", path)
        assert path.read_bytes() == original
        mine.git("checkout", "--quiet", "--force", branch)
    mine.git("checkout", "--quiet", "main")
    mine.git("merge", "--quiet", "ci")
    run("restore", path)
    assert path.read_bytes() == ORIGINAL
    run("forget", "--yes", path)
    assert stores_of(path) == []


def of_a_stranger(mine: Repository, plant: Callable[[Path], None]) -> None:
    """Offer a branch as a pull request, in which something is planted in the session's folder, and look at it."""
    folder = mine.folder.parent
    theirs = Repository(folder / "origin").clone(folder / "theirs")
    theirs.git("checkout", "--quiet", "-b", "theirs")
    plant(theirs.folder / NAME)
    theirs.git("add", "--force", "--all")
    theirs.git("commit", "--quiet", "--message", "please pull")
    theirs.git("push", "--quiet", "origin", "HEAD:refs/pull/1/head")
    mine.git("fetch", "--quiet", "origin", "refs/pull/1/head:pr")
    mine.git("checkout", "--quiet", "pr")
    mine.git("checkout", "--quiet", "main")


def in_plain_names(path: Path) -> None:
    """A store where the first version has it, and a pack."""
    with user_of(path.parents[2] / "state of a stranger"):
        run(*COMPRESS, "--commit-originals", path)
    (path.parent / FOLDER / "packs").mkdir()
    for ending in ("tar.zst", "index"):
        (path.parent / FOLDER / f"packs/p-1.{ending}").touch()


def in_a_local_folder(path: Path) -> None:
    """A store in a folder named as that of a user."""
    with user_of(path.parents[2] / "state of a stranger"):
        run(*COMPRESS, path)
    move(stores_of(path)[0], hidden_in(path, LOCAL))


def in_all_of_them(path: Path) -> None:
    in_a_local_folder(path)
    for name in ("originals", "journal"):
        shutil.copy(getattr(hidden_in(path, LOCAL), name), getattr(plain_in(path), name))
    for folder in (path.parent / FOLDER, path.parent / FOLDER / LOCAL):
        (folder / ".gitignore").write_bytes(b"!*\n")
        (folder / ".gitattributes").write_bytes(b"* text eol=crlf\n")


PLANTS = [in_plain_names, in_a_local_folder, in_all_of_them]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_hidden_store_outlives_the_branch_of_a_stranger(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    mine, path = worked(tmp_path)
    before = {name: content for name, content in everything(own_folder(path)).items() if name.startswith("s.")}
    of_a_stranger(mine, plant)
    now = everything(own_folder(path))
    assert {name: now.get(name) for name in before} == before
    assert mine.git("status", "--porcelain") == ""
    assert invoke("verify", path).exit_code == 0
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


@pytest.mark.parametrize("place", ["plain", LOCAL])
@pytest.mark.parametrize("forge", [other_names, None])
def test_a_planted_store_of_a_session_that_has_none_here(
    tmp_path: Path, forge: Callable[[Any, Any], None] | None, place: str
) -> None:
    """It passes for another machine's; nothing that it holds comes into the session, and no command is content."""
    if forge is not None:
        made = forged(tmp_path, forge)
    else:
        made, theirs = (
            compressed(tmp_path / name, FIXTURE.read_bytes().replace(b"MAX_GAP", word))
            for name, word in (("ours", b"MAX_GAP"), ("theirs", b"EVIL_GAP"))
        )
        shutil.copytree(theirs.parent / FOLDER, made.parent / FOLDER, dirs_exist_ok=True)
    move(store_in(made), plain_in(made) if place == "plain" else hidden_in(made, place))
    author = Repository(tmp_path / "ours")
    author.git("add", "--force", "--all")
    author.git("commit", "--quiet", "--message", "sessions")
    path = author.clone(tmp_path / "clone").folder / made.name
    assert [store.is_ours for store in stores_of(path)] == [False]
    before = path.read_bytes()
    assert b"EVIL_GAP" not in before
    verified = invoke("verify", path)
    assert verified.exit_code or "changed since" in verified.output, verified.output
    for ref in {match.decode() for match in REFERENCE.findall(before)}:
        shown = invoke("show", ref, path)
        assert shown.exit_code or sha256(shown.stdout_bytes).hexdigest().startswith(ref), shown.output
    for options in ([], ["--from-markers"]):
        restored = invoke("restore", *options, path)
        assert b"EVIL_GAP" not in path.read_bytes()
        assert restored.exit_code or path.read_bytes() == FIXTURE.read_bytes(), restored.output


@pytest.mark.parametrize("place", ["plain", LOCAL])
@pytest.mark.parametrize("forge", [other_digests, of_first_stores, own_names])
def test_a_forged_store_does_not_verify(tmp_path: Path, forge: Callable[[Any, Any], None], place: str) -> None:
    """Nor does `show` print of it what has not the digest that a marker names."""
    made = forged(tmp_path, forge)
    move(store_in(made), plain_in(made) if place == "plain" else hidden_in(made, place))
    assert invoke("verify", made).exit_code == 5
    for ref in {match.decode() for match in REFERENCE.findall(made.read_bytes())}:
        shown = invoke("show", ref, made)
        assert shown.exit_code or sha256(shown.stdout_bytes).hexdigest().startswith(ref), shown.output


FORGES: list[Callable[[Any, Any], None]] = [other_names, other_digests, of_first_stores, own_names]


@pytest.mark.parametrize(
    ("forge", "place", "options"),
    [
        *((forge, "plain", options) for forge in FORGES for options in ((), ("--from-markers",), ("--last",))),
        (other_names, LOCAL, ()),
    ],
)
def test_a_forged_store_restores_nothing(
    tmp_path: Path, forge: Callable[[Any, Any], None], place: str, options: tuple[str, ...]
) -> None:
    """Neither a line nor a value that has not the digest that a marker names; nor does `diff` print one."""
    made = forged(tmp_path, forge)
    move(store_in(made), plain_in(made) if place == "plain" else hidden_in(made, place))
    before = made.read_bytes()
    restored = invoke("restore", *options, made)
    assert restored.exit_code, restored.output
    assert made.read_bytes() == before
    assert "EVIL_GAP" not in invoke("diff", made).output


def with_a_short_run(path: Path) -> None:
    """Change what a journal says that its last run left: two bytes, with which every session begins."""
    records = [json.loads(line) for line in split(path.read_bytes())]
    records[-1] |= {"compressedSize": 1, "compressedXxh3": xxh3_128_hexdigest(b"{")}
    path.write_bytes(sealed(records))


@pytest.mark.parametrize("name", ["s.jsonl", "s.json"])
def test_a_forged_store_never_counts_before_the_hidden_one(tmp_path: Path, name: str) -> None:
    """Even where what the last run left was changed since, as an agent changes a document."""
    content = fixture("gencode.json") if name == "s.json" else ORIGINAL
    mine, theirs = (tmp_path / each / name for each in ("mine", "theirs"))
    for path in (mine, theirs):
        path.parent.mkdir()
        path.write_bytes(content)
        run(*COMPRESS, path)
    made = store_in(theirs)
    with_a_short_run(made.journal)
    plain_in(mine).originals.write_bytes(made.originals.read_bytes())
    plain_in(mine).journal.write_bytes(made.journal.read_bytes())
    rewritten = mine.read_bytes()
    mine.write_bytes(b"{ " + rewritten[1:])
    assert store_in(mine).is_ours
    mine.write_bytes(rewritten)
    run("restore", mine)
    assert mine.read_bytes() == content


def test_a_line_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, path)
    marked = [line for line in split(path.read_bytes()) if PREFIX_BYTES in line]
    names = [sha256(each).hexdigest() for line in marked for each in (line, line.removesuffix(b"\n"))]
    plain_in(path).journal.write_text("".join(f'{{"isSha256":"{name}"}}\n' for name in names))
    plain_in(path).originals.touch()
    assert store_in(path).is_ours
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


def test_a_line_that_any_session_may_have_counts_for_nothing(tmp_path: Path) -> None:
    """A branch may name that: what is new does not go into its file."""
    work = Repository(tmp_path / "work")
    path = work.folder / "s.json"
    (work.folder / ".gitignore").write_bytes(b"s.json\n")
    path.write_bytes(fixture("gencode.json"))
    (work.folder / FOLDER).mkdir()
    plain_in(path).journal.write_text(
        "".join(f'{{"isSha256":"{sha256(each).hexdigest()}"}}\n' for each in (b"{\n", b"\n"))
    )
    work.git("add", "--force", "--all", FOLDER)
    work.commit()
    run(*COMPRESS, path)
    assert store_in(path).is_ours


def test_a_branch_whose_session_has_no_marker_is_read_with_its_store(tmp_path: Path) -> None:
    """The hidden store went on with another state after its copy; only what the runs left tells."""
    mine, path = repository(tmp_path)
    run("compress", "--force", path)
    mine.commit()
    mine.git("checkout", "--quiet", "-b", "ci")
    grows(path, MORE)
    run("compact", "--keep-tokens", "200", "--drop-dead", "--commit-originals", path)
    mine.commit()
    mine.git("checkout", "--quiet", "main")
    run("restore", path)
    mine.git("commit", "--quiet", "--all", "--message", "restored")
    mine.git("checkout", "--quiet", "ci")
    assert PREFIX_BYTES not in path.read_bytes()
    run("verify", path)
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


def test_a_branch_on_which_all_was_restored_is_gone_on_with_in_its_store(tmp_path: Path) -> None:
    """Meanwhile the hidden store went on with another branch."""
    mine, path = repository(tmp_path)
    run(*COMPRESS, path)
    mine.commit()
    mine.git("checkout", "--quiet", "-b", "ci")
    run(*COMPRESS, "--commit-originals", path)
    run("restore", path)
    mine.commit()
    mine.git("checkout", "--quiet", "main")
    grows(path, MORE)
    run(*COMPRESS, path)
    mine.git("commit", "--quiet", "--all", "--message", "next")
    mine.git("checkout", "--quiet", "ci")
    assert path.read_bytes() == HEAD
    run(*COMPRESS, "--commit-originals", path)
    mine.commit()
    mine.git("clone", "--quiet", "--branch", "ci", mine.folder, tmp_path / "clone")
    run("restore", tmp_path / "clone" / "s.jsonl")
    assert (tmp_path / "clone" / "s.jsonl").read_bytes() == HEAD


@pytest.mark.parametrize(
    ("place", "options"), [(plain_in, ()), (partial(hidden_in, name=LOCAL), ("--last",))], ids=["committed", "hidden"]
)
def test_what_only_another_store_knows_is_told(
    tmp_path: Path, place: Callable[[Path], Store], options: tuple[str, ...]
) -> None:
    """Of thinking that was taken out no marker tells. Who asks for it gets that too."""
    mine, theirs = (tmp_path / each / "s.jsonl" for each in ("mine", "theirs"))
    bare = {"toolCallMaxBytes": 100_000_000, "toolResultMaxBytes": 100_000_000, "eliminateRedundancy": False}
    bare |= {"minSavedKB": 0, "sizeThresholdKB": 0, "turnThresholdBeforeCompress": 0}
    lines = [line for line in LINES if b'"type":"image"' not in line]
    for path, content in ((mine, b"".join(lines[:70])), (theirs, b"".join(lines))):
        path.parent.mkdir()
        (path.parent / "compression.json").write_text(json.dumps({"session": bare}))
        path.write_bytes(content)
        run("compress", "--force", path)
    merged = mine.read_bytes() + b"".join(split(theirs.read_bytes())[70:])
    assert PREFIX_BYTES not in merged
    mine.write_bytes(merged)
    other = copied(store_in(theirs), place(mine))
    told = f"known only to its other store, {other.journal}"
    assert told in (said := invoke("verify", mine).output)
    assert "all good" not in said
    restored = invoke("restore", *options, mine)
    assert restored.exit_code == 5
    assert told in restored.output
    assert told in (said := invoke("verify", mine).output)
    assert "all good" not in said
    given = invoke("restore", "--from-markers", mine)
    assert f"from the originals of {other.journal}" in given.output
    assert mine.read_bytes() == b"".join(lines)


def joined_stores(tmp_path: Path) -> tuple[Path, Store]:
    """Give a session lines that another store rewrote, and that store; return the session and the store."""
    mine, theirs = (tmp_path / each / "s.jsonl" for each in ("mine", "theirs"))
    for path, content in ((mine, HEAD), (theirs, ORIGINAL)):
        path.parent.mkdir()
        path.write_bytes(content)
        run(*COMPRESS, path)
    grows(mine, b"".join(split(theirs.read_bytes())[70:]))
    return mine, copied(store_in(theirs), plain_in(mine))


def test_a_marker_that_another_store_expands_does_not_stay(tmp_path: Path) -> None:
    mine, other = joined_stores(tmp_path)
    for command in (("verify",), ("restore", "--dry-run"), ("restore", "--json"), ("restore",)):
        assert f"known only to its other store, {other.journal}" in (said := invoke(*command, mine).output)
        assert "no store found here knows" not in said
        assert "no line in it is rewritten" not in said
    assert "stay" not in invoke("restore", "--from-markers", mine).output
    assert mine.read_bytes() == ORIGINAL


def without_originals(store: Store) -> None:
    store.originals.unlink()


def without_the_end_of_the_journal(store: Store) -> None:
    os.truncate(store.journal, store.journal.stat().st_size - 30)


def without_journal(store: Store) -> None:
    store.journal.unlink()


@pytest.mark.parametrize("harm", [without_originals, without_the_end_of_the_journal, without_journal])
@pytest.mark.parametrize("options", [("--from-markers",), ()])
def test_what_a_damaged_store_alone_knows_makes_a_restore_inexact(
    tmp_path: Path, options: tuple[str, ...], harm: Callable[[Store], object]
) -> None:
    """Also a second time, with nothing left to put back; what verify refuses, no restore passes."""
    mine, other = joined_stores(tmp_path)
    harm(other)
    assert invoke("verify", mine).exit_code == 5
    for _ in range(2):
        restored = invoke("restore", *options, mine)
        assert restored.exit_code == 5
        assert str(other.folder) in restored.output
        assert PREFIX_BYTES in mine.read_bytes()


def test_another_store_is_checked_too(tmp_path: Path) -> None:
    """Another branch may need it; of what that one lacks nothing here tells."""
    _, path = repository(tmp_path)
    run(*COMPRESS, path)
    other = copied(store_in(path), hidden_in(path, LOCAL))
    assert f"all good; its other store, {other.journal}, is whole" in invoke("verify", path).output
    os.truncate(other.originals, 1000)
    said = invoke("verify", path)
    assert said.exit_code == 5
    assert f"{other.originals}: another store of the session, which other branches may need" in said.stderr
    run("restore", path)


def without_a_run(journal: Path) -> None:
    lines = split(journal.read_bytes())
    ends = [number for number, line in enumerate(lines, 1) if line.startswith(b'{"type":"run"')]
    journal.write_bytes(b"".join(lines[: ends[0]]))


@pytest.mark.parametrize(
    "broken", [lambda journal: journal.unlink(), lambda journal: journal.write_bytes(b""), without_a_run]
)
def test_originals_of_another_store_without_their_journal_are_told(
    tmp_path: Path, broken: Callable[[Path], object]
) -> None:
    """Nobody could read them any more, once the branch that needs them is there."""
    _, path = repository(tmp_path)
    run(*COMPRESS, path)
    grows(path, MORE)
    run(*COMPRESS, path)
    other = copied(store_in(path), plain_in(path))
    grows(other.originals, other.originals.read_bytes())
    broken(other.journal)
    said = invoke("verify", path)
    assert said.exit_code == 5
    assert "the journal of these originals is missing" in said.stderr
    run("restore", path)


def test_originals_without_their_journal_that_another_machines_store_has_too_are_told(tmp_path: Path) -> None:
    """A move that was killed leaves the same, and nothing is lost."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(HEAD)
    run(*COMPRESS, path)
    other = copied(store_in(path), hidden_in(path, LOCAL))
    store_in(path).journal.unlink()
    said = invoke("verify", path)
    assert said.exit_code == 0
    assert f"all good; the originals {own_folder(path) / other.originals.name} have no journal" in said.output
    run("restore", path)
    assert path.read_bytes() == HEAD


def test_a_committed_copy_without_its_originals_never_counts(tmp_path: Path) -> None:
    """The hidden store is whole, and forget would delete it, too."""
    _, path = repository(tmp_path)
    run(*COMPRESS, path)
    copied(store_in(path), plain_in(path)).originals.unlink()
    assert store_in(path).is_ours
    run("restore", path)
    assert path.read_bytes() == HEAD


def test_a_summary_that_only_another_store_knows(tmp_path: Path) -> None:
    """The key is lost: the committed store counts, and whoever is told has the way out."""
    mine, path = repository(tmp_path)
    run(*COMPRESS, "--commit-originals", path)
    mine.commit()
    run("restore", path)
    grows(path, MORE)
    config = tmp_path / "small.json"
    config.write_bytes(SMALL)
    with user_of(tmp_path / "state"):
        run("compact", "--config", config, "--keep-tokens", "500", path)
        hidden = store_in(path)
    assert hidden.is_hidden
    said = invoke("verify", path)
    assert said.exit_code == 4
    assert f"known only to its other store, {hidden.journal}" in said.stderr
    for each in (plain_in(path).journal, plain_in(path).originals):
        each.unlink()
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


def test_a_stranger_s_store_that_names_a_quoted_marker_never_counts_before_the_hidden_one(tmp_path: Path) -> None:
    """No run wrote that line: of what its last run left the hidden store knows it, too. The other one is told of."""
    path = tmp_path / "s.jsonl"
    quote = json.loads(LINES[1]) | {"note": f"what is {PREFIX_BYTES.decode()} 58 lines]] ?"}
    original = b"".join([LINES[0], json.dumps(quote).encode() + b"\n", *LINES[2:]])
    path.write_bytes(original)
    run(*COMPRESS, path)
    marked = [line for line in split(path.read_bytes()) if PREFIX_BYTES in line]
    records = [f'{{"isSha256":"{sha256(line).hexdigest()}"}}\n' for line in marked]
    plain_in(path).journal.write_text("".join([*records, '{"type":"run","restored":false}\n']))
    plain_in(path).originals.touch()
    restored = invoke("restore", path)
    assert path.read_bytes() == original
    assert restored.exit_code == 5
    assert f"1 line is known only to its other store, {plain_in(path).journal}" in restored.output


@pytest.mark.parametrize("name", ["gemini.json", "opencode.json", "gencode.json"])
def test_a_document_whose_summary_is_committed_goes_on_in_its_store(tmp_path: Path, name: str) -> None:
    """No line of it has a marker, and its summary is laid out as its other messages are."""
    work = Repository(tmp_path / "work")
    path, config = work.folder / "s.json", tmp_path / "small.json"
    config.write_bytes(SMALL)
    path.write_bytes(fixture(name))
    run("compact", "--config", config, "--keep-tokens", "100", "--commit-originals", path)
    work.commit()
    run(*COMPRESS, path)
    assert [each.is_hidden for each in stores_of(path)] == [False]
    run("restore", path)
    assert path.read_bytes() == fixture(name)


def test_what_comes_back_may_be_another_store_s_to_give_back(tmp_path: Path) -> None:
    """Another machine compacts what this one compressed: undoing that says what is left, and that comes next."""
    mine, path = repository(tmp_path, ORIGINAL)
    config = tmp_path / "small.json"
    config.write_bytes(SMALL)
    run(*COMPRESS, path)
    mine.commit()
    mine.git("clone", "--quiet", mine.folder, tmp_path / "theirs")
    theirs = Repository(tmp_path / "theirs")
    with user_of(tmp_path / "state"):
        compacting = ("compact", "--config", config, "--keep-tokens", "100", "--drop-dead", "--commit-originals")
        run(*compacting, theirs.folder / "s.jsonl")
    theirs.commit()
    mine.git("pull", "--quiet", theirs.folder, "main")
    first = invoke("restore", path)
    assert first.exit_code == 5
    assert f"known only to its other store, {hidden_in(path, folder_name()).journal}" in first.output
    assert "1 store was made elsewhere" in first.output
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


@pytest.mark.parametrize("harm", ["edited", "deleted"])
def test_a_checkpoint_that_a_restore_took_out_on_another_branch_still_counts(tmp_path: Path, harm: str) -> None:
    """Where it stands: what becomes of its summary there is told."""
    mine, path = repository(tmp_path, ORIGINAL)
    config = tmp_path / "small.json"
    config.write_bytes(SMALL)
    run("compact", "--config", config, "--keep-tokens", "500", "--drop-dead", path)
    mine.commit()
    mine.git("checkout", "--quiet", "-b", "other")
    run("restore", path)
    assert path.read_bytes() == ORIGINAL
    mine.git("commit", "--quiet", "--all", "--message", "restored")
    for branch in ("main", "other"):
        mine.git("checkout", "--quiet", branch)
        run("verify", path)
    mine.git("checkout", "--quiet", "main")
    lines = split(path.read_bytes())
    (at,) = (number for number, line in enumerate(lines) if b'"compaction"' in line)
    edited = lines[at].replace(b"the", b"teh", 1)
    assert edited != lines[at]
    lines[at] = edited if harm == "edited" else b""
    path.write_bytes(b"".join(lines))
    assert [invoke(command, path).exit_code for command in ("verify", "restore")] == [5, 5]


def test_of_two_stores_that_began_alike_the_one_counts_that_left_the_session(tmp_path: Path) -> None:
    """Though the other one knows all lines with a marker, too."""
    mine, path = repository(tmp_path)
    config = tmp_path / "small.json"
    config.write_bytes(SMALL)
    run(*COMPRESS, path)
    mine.commit()
    mine.git("checkout", "--quiet", "-b", "ci")
    run("compact", "--config", config, "--keep-tokens", "500", "--commit-originals", path)
    mine.commit()
    mine.git("checkout", "--quiet", "main")
    grows(path, MORE)
    run(*COMPRESS, path)
    mine.git("commit", "--quiet", "--all", "--message", "next")
    mine.git("checkout", "--quiet", "ci")
    run("verify", path)
    grows(path, MORE)
    run(*COMPRESS, path)
    mine.git("commit", "--quiet", "--all", "--message", "ci next")
    mine.git("clone", "--quiet", "--branch", "ci", mine.folder, tmp_path / "clone")
    for each in (path, tmp_path / "clone" / "s.jsonl"):
        run("restore", each)
        assert each.read_bytes() == ORIGINAL


def test_a_store_that_this_user_committed_is_gone_on_with(tmp_path: Path) -> None:
    """Though he began a hidden one on a branch from before."""
    mine, path = repository(tmp_path)
    mine.commit()
    mine.git("branch", "before")
    run(*COMPRESS, "--commit-originals", path)
    mine.commit()
    mine.git("checkout", "--quiet", "before")
    run(*COMPRESS, path)
    mine.git("commit", "--quiet", "--all", "--message", "on the branch")
    mine.git("checkout", "--quiet", "main")
    assert len(stores_of(path)) == 2
    for more in (MORE, LINES[-1]):
        assert not store_in(path).is_hidden
        grows(path, more)
        run(*COMPRESS, path)
    run("restore", path)
    assert path.read_bytes() == ORIGINAL + LINES[-1]
    mine.git("checkout", "--quiet", "--force", "before")
    run("restore", path)
    assert path.read_bytes() == HEAD


@pytest.mark.parametrize("sign", [b"", b"0" * 32])
def test_of_two_stores_that_left_the_session_the_one_counts_that_this_user_made(tmp_path: Path, sign: bytes) -> None:
    """Whatever a stranger's journal says that its runs left, and however it is signed."""
    mine, theirs = (tmp_path / each / "s.jsonl" for each in ("mine", "theirs"))
    for path in (mine, theirs):
        path.parent.mkdir()
        path.write_bytes(ORIGINAL)
    run(*COMPRESS, mine)
    with user_of(tmp_path / "state"):
        run(*COMPRESS, "--commit-originals", theirs)
    records = [json.loads(line) for line in split(plain_in(theirs).journal.read_bytes())]
    records[-1] |= {"compressedSize": (size := mine.stat().st_size), "signed": sign.decode()}
    records[-1]["compressedXxh3"] = xxh3_128_hexdigest(mine.read_bytes())
    shutil.copy(plain_in(theirs).originals, plain_in(mine).originals)
    plain_in(mine).journal.write_bytes(sealed(records))
    grows(mine, LINES[-1])
    assert mine.stat().st_size > size
    assert store_in(mine).is_ours
    run("restore", mine)
    assert mine.read_bytes() == ORIGINAL + LINES[-1]


def test_show_asks_all_stores_of_a_session(tmp_path: Path) -> None:
    """Whichever counts; and the user's own first."""
    mine, path = worked(tmp_path)
    ref = next(ref for line in split(path.read_bytes()) for ref in references(line.decode()))
    mine.git("checkout", "--quiet", "ci")
    assert not store_in(path).is_ours
    shown = invoke("show", ref, path)
    assert shown.exit_code == 0
    assert "made elsewhere" not in shown.output


def test_the_hook_stages_no_hidden_store(tmp_path: Path) -> None:
    """A store from before there was a work tree, of a session that is in use: no .gitignore hides it."""
    path = tmp_path / "work" / "s.jsonl"
    path.parent.mkdir()
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, path)
    work = Repository(path.parent)
    work.git("add", "s.jsonl")
    with path.open("ab"):
        invoke("pre-commit", "--commit-originals", path)
    assert work.git("ls-files").split() == ["s.jsonl"]


def test_a_session_whose_hidden_store_knows_no_more_goes_on_in_the_committed_one(tmp_path: Path) -> None:
    """The user compressed the same on two branches, on one of them hidden: both stores know all of it."""
    mine, path = repository(tmp_path)
    mine.commit()
    mine.git("checkout", "--quiet", "-b", "other")
    run(*COMPRESS, path)
    mine.commit()
    mine.git("checkout", "--quiet", "main")
    hidden = [(each, each.read_bytes()) for each in (store_in(path).originals, store_in(path).journal)]
    for each, _ in hidden:
        each.unlink()
    run(*COMPRESS, "--commit-originals", path)
    mine.commit()
    for each, content in hidden:
        each.parent.mkdir(exist_ok=True)
        each.write_bytes(content)
    grows(path, MORE)
    run(*COMPRESS, "--commit-originals", path)
    assert not store_in(path).is_hidden
    mine.commit()
    mine.git("clone", "--quiet", mine.folder, tmp_path / "clone")
    for each in (path, tmp_path / "clone" / "s.jsonl"):
        run("restore", each)
        assert each.read_bytes() == ORIGINAL


def test_a_store_that_another_branch_needs_is_no_unneeded_one(tmp_path: Path) -> None:
    """The session is whole here, and compressed there."""
    mine, path = repository(tmp_path, ORIGINAL)
    mine.commit()
    mine.git("checkout", "--quiet", "-b", "feature")
    run(*COMPRESS, path)
    mine.commit()
    mine.git("checkout", "--quiet", "main")
    assert path.read_bytes() == ORIGINAL
    assert "git has a state of the session that may need it" in invoke("forget", "--unneeded", "--yes", path).output
    mine.git("checkout", "--quiet", "feature")
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


def test_a_restore_of_a_folder_names_what_stays(tmp_path: Path) -> None:
    """As that of one session does; and each time."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, path)
    line = next(each for each in split(path.read_bytes()) if PREFIX_BYTES in each)
    path.write_bytes(path.read_bytes().replace(line, line[:-2] + b" }\n"))
    for _ in range(2):
        done = invoke("restore", tmp_path)
        assert done.exit_code == 5
        assert "was changed since by another program" in done.output


def test_a_backup_folder_in_git(tmp_path: Path) -> None:
    """A hidden store in it keeps none from being committed, and moves home after another one."""
    work = Repository(tmp_path / "work")
    kept = work.folder / "kept"
    kept.mkdir()
    paths = [work.folder / f"{name}.jsonl" for name in "ab"]
    for path in paths:
        path.write_bytes(HEAD)
        run(*COMPRESS, "--backup-dir", kept, path)
    work.commit()
    assert work.tracked() == {"a.jsonl", "b.jsonl"}
    for path in paths:
        grows(path, MORE)
        run(*COMPRESS, "--backup-dir", kept, "--commit-originals", path)
    work.commit()
    assert {Path(name).name for name in work.tracked()} >= {plain_in(each, kept).journal.name for each in paths}


@pytest.mark.parametrize("plant", [in_plain_names, in_a_local_folder])
@pytest.mark.parametrize("of", ["another session", "a copy of it"])
def test_no_store_that_a_branch_brought_takes_new_originals(
    tmp_path: Path, plant: Callable[[Path], None], of: str
) -> None:
    """Of a session that git does not have, and no run had rewritten: it gets a hidden store."""
    origin = Repository(tmp_path / "origin")
    (origin.folder / "sessions").mkdir()
    (origin.folder / ".gitignore").write_bytes(b"s.jsonl\n")
    origin.commit()
    mine = origin.clone(tmp_path / "mine")
    path = mine.folder / NAME
    path.parent.mkdir()
    path.write_bytes(ORIGINAL)

    def planted(there: Path) -> None:
        there.parent.mkdir()
        there.write_bytes(fixture("pi-responses.jsonl") if of == "another session" else ORIGINAL)
        plant(there)

    theirs = Repository(tmp_path / "origin").clone(tmp_path / "theirs")
    planted(theirs.folder / NAME)
    theirs.git("add", "--force", f"sessions/{FOLDER}")
    theirs.git("commit", "--quiet", "--message", "please pull")
    theirs.git("push", "--quiet", "origin", "HEAD:refs/pull/1/head")
    mine.git("fetch", "--quiet", "origin", "refs/pull/1/head:pr")
    mine.git("checkout", "--quiet", "pr")
    run(*COMPRESS, path)
    assert mine.git("status", "--porcelain") == ""
    assert store_in(path).is_ours
    mine.git("reset", "--quiet", "--hard")
    mine.git("checkout", "--quiet", "--force", "main")
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


@pytest.mark.parametrize("options", [("--commit-originals",), ()])
def test_outside_git_a_store_made_elsewhere_comes_home(tmp_path: Path, options: tuple[str, ...]) -> None:
    """An archive brought it, and a checkout may: of a repository made later, or whose folder is elsewhere."""
    with user_of(tmp_path / "state of a stranger"):
        path = tmp_path / "unpacked" / "s.jsonl"
        path.parent.mkdir()
        path.write_bytes(HEAD)
        run(*COMPRESS, *options, path)
        theirs = store_in(path)
    grows(path, MORE)
    kept = [(each, each.read_bytes()) for each in (theirs.originals, theirs.journal)]
    run(*COMPRESS, path)
    assert [each.is_ours for each in stores_of(path)] == [True]
    theirs.folder.mkdir(exist_ok=True)
    for file, data in kept:
        file.write_bytes(data)
    ref = REFERENCE.findall(path.read_bytes())[0].decode()
    for command in (("show", ref, path), ("restore", path)):
        assert "made elsewhere, under another name, or by an earlier version" in invoke(*command).stderr
    assert path.read_bytes() == ORIGINAL


@pytest.mark.parametrize("kind", ["file", "link", "loop"])
def test_what_is_only_named_like_a_folder_of_stores_is_in_nobody_s_way(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, path)
    there = path.parent / FOLDER / LOCAL
    if kind == "file":
        there.touch()
    else:
        there.symlink_to(LOCAL if kind == "loop" else "..")
    run("restore", path)
    assert path.read_bytes() == ORIGINAL
    run("pack", tmp_path)
    run("unpack", tmp_path)
    assert path.read_bytes() == ORIGINAL
    run("forget", "--yes", path)
    assert [each.name for each in (path.parent / FOLDER).iterdir()] == [LOCAL]


@pytest.mark.parametrize("name", ["s.jsonl.history", "s.originals.zst", "s.history.originals.zst", LOCAL, ".history"])
def test_a_session_that_is_named_like_one_of_our_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, path)
    run("verify", tmp_path)
    run("restore", tmp_path)
    assert path.read_bytes() == ORIGINAL
    run("forget", "--yes", tmp_path)
    assert not (tmp_path / FOLDER).exists()


def test_a_backup_folder_that_is_named_almost_like_ours(tmp_path: Path) -> None:
    work, backups = Repository(tmp_path / "work"), tmp_path / "work" / "local-backup"
    backups.mkdir(mode=0o755)
    (backups / ".gitignore").write_bytes(b"!keep\n")
    (backups / "notes").touch()
    path = work.folder / "s.jsonl"
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, "--backup-dir", backups, path)
    assert (backups / ".gitignore").read_bytes() == b"!keep\n"
    assert backups.stat().st_mode & 0o777 == 0o755
    run("restore", "--backup-dir", backups, path)
    assert path.read_bytes() == ORIGINAL


def test_a_planted_link_keeps_nobody_from_a_hidden_store(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(HEAD)
    run(*COMPRESS, path)
    plain_in(path).journal.symlink_to("nowhere")
    grows(path, MORE)
    run(*COMPRESS, path)
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


@pytest.mark.parametrize("state", ["compressed", "restored"])
def test_a_session_whose_line_ends_git_took(tmp_path: Path, state: str) -> None:
    """One with CR LF that git has with LF: each command says so, and the one that it names mends it.

    Lines that the agent added since have CR LF.
    """
    path = tmp_path / "s.jsonl"
    original, added = (each.replace(b"\n", b"\r\n") for each in (HEAD, MORE))
    path.write_bytes(original)
    run(*COMPRESS, path)
    rewritten = path.read_bytes()
    if state == "restored":
        run("restore", path)
    path.write_bytes(rewritten.replace(b"\r\n", b"\n") + added)
    for command in (("verify",), ("restore",), ("compress", "--force")):
        said = invoke(*command, path)
        assert said.exit_code == 4, said.output
        assert "its lines end with LF now, which a run left with CR LF" in said.output
    mends = re.search(r"perl -pi -e '[^']*' \S+(?=, and)", said.output)
    assert mends is not None
    subprocess.run(mends.group(), shell=True, check=True)
    assert path.read_bytes() == rewritten + added
    run("restore", path)
    assert path.read_bytes() == original + added


# Other trees of git


@pytest.mark.parametrize("option", [(), ("--recurse-submodules",)], ids=["checkout", "checkout with submodules"])
def test_sessions_in_a_submodule(tmp_path: Path, option: tuple[str, ...]) -> None:
    """It goes and comes back with a checkout of the repository above, and so does what is beside its sessions."""
    library = Repository(tmp_path / "library")
    (library.folder / "s.jsonl").write_bytes(HEAD)
    library.commit()
    above = Repository(tmp_path / "above")
    (above.folder / "README").write_text("hi\n")
    above.commit()
    above.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library.folder, "library")
    path = above.folder / "library" / "s.jsonl"
    grows(path, MORE)
    run(*COMPRESS, path)
    inside = Repository(path.parent)
    assert inside.git("status", "--porcelain").splitlines() == [" M s.jsonl"]
    inside.commit()
    above.commit()
    before = everything(own_folder(path))
    above.git("checkout", "--quiet", *option, "HEAD^")
    assert everything(own_folder(path)) == before
    above.git("checkout", "--quiet", *option, "main")
    assert everything(own_folder(path)) == before
    assert inside.git("status", "--porcelain") == ""
    assert invoke("verify", path).exit_code == 0
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


@pytest.mark.parametrize("which", ["the store", "the key"])
def test_a_home_that_is_a_work_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    """Git lists neither: what anybody may have from a repository of dotfiles is no secret."""
    home = Repository(tmp_path / "home")
    path = home.folder / "agent" / "sessions" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(HEAD)
    home.commit()
    monkeypatch.setenv("HOME", str(home.folder))
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(machine, "_found", [])
    grows(path, MORE)
    run(*COMPRESS, path)
    assert store_in(path).is_ours
    listed = home.git("status", "--porcelain", "--untracked-files=all").splitlines()
    names = (FOLDER,) if which == "the store" else ("late-links.key",)
    assert [line for line in listed if any(name in line for name in names)] == []
    home.commit()
    home.git("checkout", "--quiet", "HEAD^")
    home.git("checkout", "--quiet", "main")
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


# Keys


@pytest.mark.parametrize(
    ("order", "last", "kept"),
    [
        *((order, last, False) for order in ("ABA", "AAB", "ABB") for last in "AB"),
        *(("ABA", last, True) for last in "AB"),
    ],
)
def test_two_machines_on_one_synchronized_folder(tmp_path: Path, order: str, last: str, kept: bool) -> None:
    """One store is gone on with by both, and either brings the session back."""
    backups = tmp_path / "kept" if kept else None
    option = () if backups is None else ("--backup-dir", backups)
    path = tmp_path / "work" / "s.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"")
    parts = [b"".join(LINES[:40]), b"".join(LINES[40:80]), b"".join(LINES[80:])]
    for name, part in zip(order, parts, strict=True):
        grows(path, part)
        with user_of(tmp_path / name):
            run(*COMPRESS, *option, path)
        assert len(stores_of(path, backups)) == 1
    with user_of(tmp_path / last):
        assert path.read_bytes() != ORIGINAL
        assert invoke("verify", *option, path).exit_code == 0
        run("restore", *option, path)
    assert path.read_bytes() == ORIGINAL


def test_two_machines_that_each_began_a_store(tmp_path: Path) -> None:
    """The folder was not synchronized meanwhile: each has its own store, and none says that all is well by the other's."""
    folders = [tmp_path / name for name in "AB"]
    for folder in folders:
        folder.mkdir()
        (folder / "s.jsonl").write_bytes(ORIGINAL)
        with user_of(tmp_path / f"state of {folder.name}"):
            run(*COMPRESS, folder / "s.jsonl")
    shutil.copytree(folders[1] / FOLDER, folders[0] / FOLDER, dirs_exist_ok=True)
    path = folders[0] / "s.jsonl"
    assert len(stores_of(path)) == 2
    with user_of(tmp_path / "state of A"):
        run("restore", path)
    assert path.read_bytes() == ORIGINAL


def test_where_no_key_can_be_kept(tmp_path: Path) -> None:
    """Each process has one of its own; the store of the first one goes on."""
    (tmp_path / "file").touch()
    path = tmp_path / "work" / "s.jsonl"
    path.parent.mkdir()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "file" / "below")}

    def process(*arguments: str) -> None:
        command = [sys.executable, "-m", "sessioncompress", *arguments, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr

    for part in (HEAD, MORE):
        grows(path, part)
        process(*COMPRESS)
        assert [each.is_hidden for each in stores_of(path)] == [True]
    assert path.read_bytes() != ORIGINAL
    process("verify")
    process("restore")
    assert path.read_bytes() == ORIGINAL


def test_a_new_key(tmp_path: Path) -> None:
    """Whoever lost his state goes on with the store that he has, which git still does not see."""
    work = Repository(tmp_path / "work")
    path = work.folder / "s.jsonl"
    path.write_bytes(HEAD)
    work.commit()
    names = []
    for part in (b"", MORE):
        grows(path, part)
        with user_of(tmp_path / "state"):
            run(*COMPRESS, path)
            names.append(folder_name())
        work.commit()
        assert len(stores_of(path)) == 1
        assert work.tracked() == {"s.jsonl"}
        assert work.git("status", "--porcelain") == ""
        shutil.rmtree(tmp_path / "state")
    assert names[0] != names[1]
    with user_of(tmp_path / "state"):
        assert invoke("verify", path).exit_code == 0
        run("restore", path)
        assert path.read_bytes() == ORIGINAL
        run("forget", "--yes", path)
    assert stores_of(path) == []


def test_what_another_machine_hid_is_committed(tmp_path: Path) -> None:
    """Where the originals are to be committed, a clone has them whoever hid them before."""
    work = Repository(tmp_path / "work")
    path = work.folder / "s.jsonl"
    path.write_bytes(HEAD)
    with user_of(tmp_path / "A"):
        run(*COMPRESS, path)
    grows(path, MORE)
    with user_of(tmp_path / "B"):
        run(*COMPRESS, "--commit-originals", path)
    work.commit()
    clone = work.clone(tmp_path / "clone").folder / "s.jsonl"
    run("restore", clone)
    assert clone.read_bytes() == ORIGINAL


# Stores of the first version


@EACH
def test_a_store_of_the_first_version_comes_home(one: dict[str, Any], tmp_path: Path) -> None:
    """The next run that writes moves it in a work tree, with all that it holds; one that has nothing to do may not."""
    path = taken_out(one, tmp_path)
    in_work_tree(path.parent)
    plain = plain_in(path)
    had = {name: getattr(plain, name).exists() for name in ("originals", "journal")}
    compress_session(path, replace(GREEDY, size_threshold_kb=1 << 20))
    assert stores_of(path) == [plain]
    compress_session(path, GREEDY, force=True)
    (store,) = stores_of(path)
    assert store.is_ours
    assert not plain.originals.exists()
    assert not plain.journal.exists()
    assert store.journal.exists()
    assert store.originals.exists() or not had["originals"]
    assert {each.name for each in plain.folder.iterdir()} == {folder_name(), ".gitignore"}
    verify_session(path)
    restore_session(path)
    assert is_whole(path, one) is ("without" not in one["life"])


@pytest.mark.parametrize("act", ["restore", "compact", "forget"])
def test_other_commands_on_a_store_of_the_first_version(tmp_path: Path, act: str) -> None:
    """Each works on it where it is, or moves it whole."""
    in_work_tree(tmp_path)
    path = tmp_path / "s.jsonl"
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, path)
    move(stores_of(path)[0], plain_in(path))
    run(act, *(["--yes"] if act == "forget" else []), path)
    assert len(stores_of(path)) == (act != "forget")
    if act != "forget":
        invoke("verify", path)
        invoke("restore", path)
        assert path.read_bytes() == ORIGINAL


# Moves that are killed


def _plain(folder: Path, size: Size) -> Path:
    """Make a session that went on, with a store where the first version put it, which git ignores."""
    in_work_tree(folder)
    path = _hidden(folder, size)
    move(stores_of(path)[0], plain_in(path))
    return path


def _hidden(folder: Path, size: Size) -> Path:
    path = write(folder, built(size, 1))
    compress_session(path, EAGER, force=True)
    grows(path, built(size, 2).bytes()[len(built(size, 1).bytes()) :])
    path.chmod(0o640)
    return path


def _compacted(folder: Path, _: Size) -> Path:
    """Make one whose store is a journal alone, where the first version put it."""
    in_work_tree(folder)
    path = write(folder, LONG["pi"](TURNS))
    compact_session(path, FEW)
    (store,) = stores_of(path)
    assert not store.originals.exists()
    plain_in(path).journal.write_bytes(store.journal.read_bytes())
    shutil.rmtree(store.folder)
    return path


def _only_at(*places: Callable[[Path], Store]) -> Callable[[Path], bool]:
    def is_only_there(path: Path) -> bool:
        stores = [store for store in stores_of(path) if store.journal.exists()]
        left = [each.name for each in (path.parent / FOLDER).rglob("*") if each.name.endswith(".new")]
        assert left == []
        assert stores_of(path) == stores == [where(path) for where in places]
        assert store_in(path) == stores[0]
        return True

    return is_only_there


def _own(path: Path) -> Store:
    return hidden_in(path, folder_name())


def _run(path: Path) -> object:
    return compress_session(path, EAGER, force=True)


def _run_that_commits(path: Path) -> object:
    return compress_session(path, replace(EAGER, commit_originals=True), force=True)


PARTS = 2
_BOTH = built(SIZES[0], 2).bytes()
MOVES = (
    Scene("to our own", _plain, _run, (), _only_at(_own), _BOTH),
    Scene("a journal alone", _compacted, _run, (), _only_at(_own), LONG["pi"](TURNS)),
    Scene("to where git sees it", _hidden, _run_that_commits, (), _only_at(plain_in, _own), _BOTH),
)


def _restored(play: Stage, path: Path) -> None:
    restore_session(path)
    assert path.read_bytes() == play.original


@pytest.mark.parametrize("scene", MOVES, ids=[scene.name for scene in MOVES])
@pytest.mark.parametrize("then", ["restored", "gone on with", "forgotten"])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_move_that_is_killed_before_any_call(tmp_path: Path, scene: Scene, then: str, part: int) -> None:
    """The session can be restored at once, and the next run finishes the move: one whole store remains."""
    play = stage(scene, SIZES[0], tmp_path)
    wrong = []
    for number in range(part, play.states, PARTS):
        with play.played(tmp_path / str(number)) as path:
            assert killed(play, path, number)
            try:
                if then == "restored":
                    check_old_or_new(play, path)
                    _restored(play, path)
                elif then == "forgotten":
                    run("forget", "--yes", path)
                    assert list(path.parent.rglob("*.new")) == list(path.parent.rglob("*.zst")) == []
                else:
                    check_it_goes_on(play, path)
            except Exception as error:  # all of them are told at once
                wrong.append(f"{number}: {type(error).__name__}: {str(error)[:120]}")
    assert not wrong, "\n".join(wrong)
