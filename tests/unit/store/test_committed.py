"""Originals that are read from the commits of a session: which count, who reads them, and what is said once they go."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.errors import Damaged, Unreadable
from sessioncompress.operations import wording
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.pack import pack_sessions
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.operations.wording import at_stake
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import BALANCED, Policy, Prune
from sessioncompress.store import git
from sessioncompress.store.journal import load
from sessioncompress.store.layout import store_in
from sessioncompress.store.originals import InBlob, OriginalsReader
from sessioncompress.store.records import decode
from tests.faults.scenes import NAME, Size, built
from tests.support.long import FEW, LONG, TURNS
from tests.support.repository import ENVIRONMENT, Repository
from tests.support.runs import EAGER, fixture, write

HISTORY = replace(EAGER, commit_originals="history")
COMMITTED = replace(EAGER, commit_originals=True)
AGAIN = replace(HISTORY, prune=Prune(enabled=True, prune_minimum=0, prune_protect=0, preserve_recent_messages=1))
"""Where no original is missing, a run by it rewrites lines again."""
FIRST, BOTH = (built(Size("long results", 2, 400), parts).bytes() for parts in (1, 2))


@pytest.fixture(autouse=True)
def _own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def turned(folder: Path, **environment: str) -> Repository:
    """Return a repository in which a session was committed, compressed, and committed again."""
    repository = Repository(folder, environment)
    (folder / NAME).write_bytes(FIRST)
    repository.commit()
    assert compress_session(folder / NAME, HISTORY, force=True).is_smaller
    repository.commit()
    return repository


def has_places(session: Path) -> bool:
    """Return true if the journal of a session names a place in git."""
    return b'"git-edit"' in store_in(session).journal.read_bytes()


def reference_in(session: Path) -> str:
    """Return the reference that the first marker names."""
    return session.read_bytes().partition(b"sessioncompress show ")[2][:12].decode()


def _after_gc(repository: Repository, _: Path) -> Path:
    repository.git("gc", "--quiet", "--prune=now")
    return repository.folder


def _worktree(repository: Repository, to: Path) -> Path:
    repository.git("worktree", "add", "--quiet", "--detach", to)
    return to


def _shared(repository: Repository, to: Path) -> Path:
    repository.git("clone", "--quiet", "--shared", repository.folder, to)
    return to


def _renamed(repository: Repository, _: Path) -> Path:
    for folder in ("kept", "kept/.sessioncompress"):
        (repository.folder / folder).mkdir()
    for name in (
        NAME,
        *(f".sessioncompress/{each.name}" for each in (repository.folder / ".sessioncompress").iterdir()),
    ):
        (repository.folder / name).rename(repository.folder / "kept" / name)
    repository.commit()
    return repository.folder / "kept"


@pytest.mark.parametrize(
    ("moved", "environment"),
    [
        (lambda repository, to: repository.clone(to).folder, {}),
        (lambda repository, to: repository.clone(to).folder, {"GIT_DEFAULT_HASH": "sha256"}),
        (_after_gc, {}),
        (_worktree, {}),
        (_shared, {}),
        (_renamed, {}),
    ],
    ids=["clone", "SHA-256 objects", "gc", "worktree", "alternates", "renamed"],
)
def test_an_original_comes_back_from_the_commits(
    tmp_path: Path, moved: Callable[[Repository, Path], Path], environment: Mapping[str, str]
) -> None:
    """Nothing is stored then but the journal."""
    session = moved(turned(tmp_path / "work", **environment), tmp_path / "other") / NAME
    assert has_places(session)
    assert not store_in(session).originals.exists()
    assert show(reference_in(session), session)
    assert compress_session(session, AGAIN, force=True).is_smaller
    verify_session(session)
    assert restore_session(session).exact
    assert session.read_bytes() == FIRST


def _shallow(repository: Repository, to: Path) -> Path:
    repository.git("clone", "--quiet", "--depth", "1", repository.folder.as_uri(), to)
    return to


def _squashed(repository: Repository, to: Path) -> Path:
    first = repository.git("rev-list", "--max-parents=0", "HEAD").strip()
    repository.git("reset", "--quiet", "--soft", first)
    repository.git("commit", "--quiet", "--amend", "--message", "all")
    return repository.clone(to).folder


def _filtered(repository: Repository, to: Path) -> Path:
    # The tip alone has the session still.
    command = f"test $GIT_COMMIT = {repository.git('rev-parse', 'HEAD').strip()} || git rm --quiet --cached {NAME}"
    Repository(repository.folder, {"FILTER_BRANCH_SQUELCH_WARNING": "1"}).git(
        "filter-branch", "--force", "--index-filter", command, "HEAD"
    )
    return repository.clone(to).folder


def _partial(repository: Repository, to: Path) -> Path:
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.git("clone", "--quiet", "--filter=blob:none", repository.folder.as_uri(), to)
    return to


def _copied(repository: Repository, to: Path) -> Path:
    shutil.copytree(repository.folder, to, ignore=shutil.ignore_patterns(".git"))
    return to


@pytest.mark.parametrize(
    ("moved", "way"),
    [
        (_shallow, "git fetch --unshallow"),
        (_squashed, "work in a clone that has it"),
        (_filtered, "work in a clone that has it"),
        (_partial, "a partial clone fetches it"),
        (_copied, "Work in the clone it is from."),
    ],
    ids=["shallow", "squash", "filter", "partial", "no clone"],
)
def test_what_a_clone_lacks_is_named(tmp_path: Path, moved: Callable[[Repository, Path], Path], way: str) -> None:
    """With the way to it. The session stays, and a run leaves the lines alone whose originals it needs."""
    session = moved(turned(tmp_path / "work"), tmp_path / "other") / NAME
    before = session.read_bytes()
    shown = partial(show, reference_in(session))
    for command in (verify_session, restore_session, shown, partial(restore_session, from_markers=True)):
        with pytest.raises(Damaged) as error:
            command(session)
        assert way in str(error.value)
        assert NAME in str(error.value)
        # No file was ever stored.
        assert "backup" not in str(error.value)
    stats = compress_session(session, AGAIN, force=True)
    assert stats.status is Status.UNCHANGED
    assert session.read_bytes() == before
    # A clone that is only a part has the rest elsewhere.
    is_out = moved in (_squashed, _filtered)
    assert bool(stats.blobs_out_of_reach) is is_out
    assert any("of no commit that HEAD comes from" in each for each in wording.warnings(stats)) is is_out


@pytest.mark.parametrize(
    ("moved", "asked"),
    # In a partial clone git ends with the question for what it would have to fetch.
    [(_shallow, ["cat-file", "rev-parse"]), (_partial, ["cat-file", "cat-file", "rev-parse"])],
    ids=["shallow", "partial"],
)
def test_git_is_asked_once_for_what_a_clone_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: Callable[[Repository, Path], Path], asked: Sequence[str]
) -> None:
    """Not once a line: many have their originals in one commit."""
    session = moved(turned(tmp_path / "work"), tmp_path / "other") / NAME
    called: list[str] = []
    for name in ("call", "_started"):
        asks = getattr(git, name)

        def told(words: Sequence[str], *rest: object, asks: Callable[..., object] = asks, **named: object) -> object:
            called.append(words[0])
            return asks(words, *rest, **named)

        monkeypatch.setattr(git, name, told)
    with OriginalsReader(store_in(session).originals) as originals:
        for blob in [*load(store_in(session).journal).blobs, "0" * 40, "1" * 40] * 2:
            with pytest.raises(Unreadable, match="git blob"):
                originals.line(InBlob(blob, 0, 1), "")
    assert sorted(called) == asked


def test_a_run_without_the_option_goes_on_in_a_store_that_git_sees(tmp_path: Path) -> None:
    """The journal is in commits, so the originals that it names from now on are, too."""
    repository = turned(tmp_path / "a")
    session = repository.folder / NAME
    assert not store_in(session).originals.exists()
    assert compress_session(session, replace(EAGER, turn_threshold_before_compress=0, preview_max_bytes=0)).is_smaller
    repository.commit()
    repository.git("clone", "--quiet", repository.folder, tmp_path / "clone")
    restore_session(tmp_path / "clone" / NAME)
    assert (tmp_path / "clone" / NAME).read_bytes() == FIRST


def test_where_the_stored_ones_are_gone_the_committed_come_back(tmp_path: Path) -> None:
    """As far as what says that the file is missing promises."""
    session = turned(tmp_path / "work").folder / NAME
    session.write_bytes(session.read_bytes() + BOTH[len(FIRST) :])
    assert compress_session(session, HISTORY, force=True).is_smaller
    store_in(session).originals.unlink()
    with pytest.raises(Damaged, match=r"it is missing, .* puts back all lines that can still be read\. Only"):
        restore_session(session)
    assert show(reference_in(session), session)
    assert restore_session(session, from_markers=True).lines_restored
    assert session.read_bytes().startswith(FIRST)


def test_what_a_journal_says_of_a_commit_is_compared(tmp_path: Path) -> None:
    """By SHA-256: a place that is not the line's has another content."""
    session = turned(tmp_path).folder / NAME
    journal, before = store_in(session).journal, session.read_bytes()
    journal.write_bytes(journal.read_bytes().replace(b'"offset":', b'"offset":1'))
    with pytest.raises(Unreadable, match="does not match its record"):
        restore_session(session)
    assert session.read_bytes() == before


def moves_to_a_store(repository: Repository, to: Path) -> None:
    """Forget the places of a restored session, and compress it so that a clone has all of it."""
    before = (session := repository.folder / NAME).read_bytes()
    forget_session(session)
    assert compress_session(session, COMMITTED, force=True).is_smaller
    repository.commit()
    new = repository.clone(to).folder / NAME
    verify_session(new)
    assert restore_session(new).exact
    assert new.read_bytes() == before


def test_verify_names_what_git_will_delete(tmp_path: Path) -> None:
    """After a squash the commits are still there for a while: restore reads them, and no clone will have them."""
    repository = turned(tmp_path / "work")
    session = repository.folder / NAME
    _squashed(repository, tmp_path / "other")
    fork = session.with_name("fork.jsonl")
    fork.write_bytes(session.read_bytes())
    for each in (session, fork):
        with pytest.raises(Damaged, match="1 git blob of no commit that HEAD comes from") as error:
            verify_session(each)
    fork.unlink()
    assert git.INTO_A_STORE in str(error.value)
    assert restore_session(session).exact
    assert session.read_bytes() == FIRST
    moves_to_a_store(repository, tmp_path / "new")


def _grafted(repository: Repository, commit: str, parent: str) -> None:
    (repository.folder / ".git" / "info" / "grafts").write_text(f"{commit} {parent}\n")


def _replaced(repository: Repository, commit: str, parent: str) -> None:
    repository.git("replace", "--graft", commit, parent)


@pytest.mark.parametrize("joined", [_grafted, _replaced])
def test_a_parent_that_no_clone_has_does_not_count(
    tmp_path: Path, joined: Callable[[Repository, str, str], None]
) -> None:
    """With either, git here says that HEAD comes from the commits that a squash left out."""
    repository = turned(tmp_path / "work")
    out = repository.git("rev-parse", "HEAD").strip()
    _squashed(repository, tmp_path / "other")
    joined(repository, repository.git("rev-parse", "HEAD").strip(), out)
    assert out in repository.git("rev-list", "HEAD")
    with pytest.raises(Damaged, match="1 git blob of no commit that HEAD comes from"):
        verify_session(repository.folder / NAME)


@pytest.mark.parametrize(("policy", "number"), [(HISTORY, 0), (EAGER, 0), (COMMITTED, 1)])
def test_a_run_that_stores_all_names_what_earlier_ones_left_in_commits(
    tmp_path: Path, policy: Policy, number: int
) -> None:
    """It stores what it replaces, and no more: a squash would still lose the rest."""
    session = turned(tmp_path / "work").folder / NAME
    session.write_bytes(session.read_bytes() + BOTH.removeprefix(FIRST))
    stats = compress_session(session, policy, force=True)
    assert stats.blobs_in_commits == number
    told = [each for each in wording.warnings(stats) if each.endswith(git.INTO_A_STORE)]
    assert len(told) == number
    assert all("only in commits (1 git blob)" in each for each in told)


@pytest.mark.parametrize("fetches", [False, True])
def test_what_is_left_after_a_squash_is_stored(tmp_path: Path, fetches: bool) -> None:
    """By the commands that verify names: all where the old commits can be fetched, else what later commits have."""
    repository = turned(tmp_path / "work")
    repository.git("update-ref", "refs/pull/1/head", "HEAD")
    other = Repository(_squashed(repository, tmp_path / "other"))
    session = other.folder / NAME
    session.write_bytes(session.read_bytes() + BOTH.removeprefix(FIRST))
    other.commit()
    assert compress_session(session, HISTORY, force=True).is_smaller
    with pytest.raises(Unreadable, match=r"restore --from-markers.* 'forget' and 'compress --originals-in committed'"):
        verify_session(session)
    if fetches:
        other.git("fetch", "--quiet", "origin", "refs/pull/1/head")
    restore_session(session, from_markers=not fetches)
    assert (session.read_bytes() == BOTH) is fetches
    moves_to_a_store(other, tmp_path / "new")


def _no_repository(folder: Path) -> None:
    (folder / NAME).write_bytes(FIRST)


def _no_commit(folder: Path) -> None:
    Repository(folder)
    _no_repository(folder)


def _other_version(version: bytes) -> Callable[[Path], None]:
    def made(folder: Path) -> None:
        repository = Repository(folder)
        (folder / NAME).write_bytes(version)
        repository.commit()
        _no_repository(folder)

    return made


@pytest.mark.parametrize(
    "made",
    [
        _no_repository,
        _no_commit,
        _other_version(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        _other_version(FIRST.replace(b"\n", b"\r\n")),
        _other_version(FIRST + b" " * git.LARGEST_BLOB),
    ],
    ids=["no repository", "no commit", "LFS", "CR LF", "too large"],
)
def test_what_no_commit_has_is_stored(tmp_path: Path, made: Callable[[Path], None]) -> None:
    """Byte for byte: what git holds otherwise is none."""
    made(tmp_path)
    session = tmp_path / NAME
    assert compress_session(session, HISTORY).is_smaller
    assert not has_places(session)
    assert restore_session(session).exact
    assert session.read_bytes() == FIRST


def test_with_a_folder_for_originals_all_is_stored(tmp_path: Path) -> None:
    """It may be in no work tree, and later in another."""
    session = turned(tmp_path / "work").folder / "other.jsonl"
    session.write_bytes(FIRST)
    Repository(session.parent).commit()
    policy = replace(HISTORY, backup_dir=str(tmp_path / "kept"))
    assert compress_session(session, policy).is_smaller
    assert restore_session(session, policy).exact
    assert session.read_bytes() == FIRST


def test_without_git_all_is_stored_and_what_it_has_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may have none."""
    committed = turned(tmp_path / "work").folder / NAME
    session = tmp_path / "work" / "other.jsonl"
    session.write_bytes(FIRST)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compress_session(session, HISTORY).is_smaller
    assert not has_places(session)
    with pytest.raises(Unreadable, match="its original is in a commit, but there is no git in the PATH"):
        restore_session(committed)


def test_a_line_waits_for_a_commit_unless_a_run_is_forced(tmp_path: Path) -> None:
    """It goes into one as it is, and is read from there. After the last turn none may follow."""
    repository = Repository(tmp_path)
    session, came = tmp_path / NAME, BOTH[len(FIRST) :]
    session.write_bytes(FIRST[: FIRST.index(b"\n") + 1])
    repository.commit()
    session.write_bytes(FIRST)
    waiting = compress_session(session, HISTORY)
    assert (waiting.status, session.read_bytes()) == (Status.UNCHANGED, FIRST)
    assert "lines wait until a commit has them" in waiting.reason
    repository.commit()
    session.write_bytes(BOTH)
    assert compress_session(session, HISTORY).is_smaller
    assert session.read_bytes().endswith(came)
    assert not store_in(session).originals.exists()
    assert compress_session(session, HISTORY, force=True).is_smaller
    assert not session.read_bytes().endswith(came)
    assert store_in(session).originals.exists()
    assert restore_session(session).exact
    assert session.read_bytes() == BOTH


def packed(folder: Path, kept: bool | str | None) -> int:
    """Return the bytes of a packed repository to which a session was committed after each of 8 turns."""
    repository, session = Repository(folder), folder / NAME
    lines = fixture("pi-anthropic.jsonl").splitlines(keepends=True)
    for turn in range(8):
        with session.open("ab") as file:
            file.writelines(lines[len(lines) * turn // 8 : len(lines) * (turn + 1) // 8])
        if kept is not None:
            compress_session(session, replace(BALANCED, commit_originals=kept))
        repository.commit()
    repository.git("-c", "pack.threads=1", "gc", "--quiet", "--prune=now")
    return sum(each.stat().st_size for each in (folder / ".git/objects/pack").iterdir())


@pytest.mark.slow
def test_a_repository_pays_a_tenth(tmp_path: Path) -> None:
    """More than without us, and at least 30 % less than where all originals are committed."""
    plain, committed, history = (packed(tmp_path / str(kept), kept) for kept in (None, True, "history"))
    assert history <= 1.1 * plain
    assert history <= 0.7 * committed


def test_what_a_summary_replaces_is_stored(tmp_path: Path) -> None:
    """What left the session holds what a run had rewritten before, whose original is in a commit."""
    session = write(tmp_path, LONG["codex"](TURNS))
    original = session.read_bytes()
    Repository(tmp_path).commit()
    assert compress_session(session, HISTORY).is_smaller
    assert has_places(session)
    policy = replace(FEW, commit_originals="history")
    assert compact_session(session, policy, drop_dead=True).lines_dropped
    verify_session(session)
    assert restore_session(session).exact
    assert session.read_bytes() == original


def test_messages_of_a_document_are_stored(tmp_path: Path) -> None:
    """They are no lines of a blob."""
    session = write(tmp_path, fixture("gemini.json"), "session.json")
    Repository(tmp_path).commit()
    assert compress_session(session, HISTORY).originals_size
    assert not has_places(session)


def test_no_pack_lacks_what_a_commit_has(tmp_path: Path) -> None:
    """An archive may be moved anywhere. A rehearsal counts no such session, and the commands that the error names help."""
    session = turned(tmp_path / "work").folder / NAME
    pack = partial(pack_sessions, [Found(session, named=True)], [session.parent], lambda _: HISTORY)
    for dry_run in (True, False):
        (outcome,) = pack(dry_run=dry_run)
        assert "its originals are in commits" in str(outcome.error)
        assert "'sessioncompress restore' and then 'sessioncompress forget'" in str(outcome.error)
    assert restore_session(session).exact
    assert session.read_bytes() == FIRST
    assert [outcome.result for outcome in pack(dry_run=True)] == [None]
    forget_session(session)
    assert [outcome.error for dry_run in (True, False) for outcome in pack(dry_run=dry_run)] == [None, None]


def test_forget_says_what_it_cannot_delete(tmp_path: Path) -> None:
    """Git keeps it; only the places go."""
    session = turned(tmp_path / "work").folder / NAME
    stats = forget_session(session)
    assert stats.in_commits == stats.originals == stats.originals_lost > 0
    only = f"of {stats.in_commits} only the places go: git still has the lines"
    assert at_stake(stats).endswith(f"cannot be found by 'restore' after that; {only}")
    assert not store_in(session).journal.exists()


def test_forget_says_nothing_of_a_commit_that_git_does_not_have(tmp_path: Path) -> None:
    """What a squash left out is still there for a while, and in no clone."""
    repository = turned(tmp_path / "work")
    folders = {_squashed(repository, tmp_path / "other"): False, repository.folder: True}
    for folder, has in folders.items():
        for _ in ("as it is", "missing"):
            stats = forget_session(folder / NAME, dry_run=True)
            assert stats.originals_lost > 0
            assert (stats.in_commits > 0) is has
            assert ("git still has" in at_stake(stats)) is has
            (folder / NAME).unlink(missing_ok=True)


def test_in_a_hook_the_commit_before_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`commit --amend` replaces HEAD, and what only that has would be in no clone."""
    repository = Repository(tmp_path)
    session = tmp_path / NAME
    session.write_bytes(FIRST)
    repository.commit()
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    assert compress_session(session, HISTORY, dry_run=True).originals_size
    repository.git("commit", "--quiet", "--allow-empty", "--message", "next")
    assert not compress_session(session, HISTORY, dry_run=True).originals_size


@pytest.mark.parametrize(
    "was",
    [
        '"blob":"0000","offset":0,"bytes":1',
        '"blob":"HEAD","offset":0,"bytes":1',
        f'"blob":"{"0" * 41}","offset":0,"bytes":1',
        f'"blob":"{"0" * 40}","offset":-1,"bytes":1',
        f'"blob":"{"0" * 40}","offset":0,"bytes":1e9',
        f'"blob":"{"0" * 40}","offset":0',
    ],
)
def test_a_place_is_data_of_a_stranger(was: str) -> None:
    """An object has a whole id, and numbers are bounded."""
    digest = "0" * 64
    with pytest.raises((ValueError, KeyError)):
        decode(f'{{"type":"git-edit","was":{{"sha256":"{digest}",{was}}},"isSha256":"{digest}"}}\n'.encode())
