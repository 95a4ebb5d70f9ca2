"""A session has one store: no command begins a second one without a word, nor takes the first one for lost."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from sessioncompress.errors import Refused
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.policy.model import PRESETS, Policy
from sessioncompress.store.layout import Store, hidden_in, plain_in, store_in
from sessioncompress.store.machine import folder_name
from tests.support.long import FEW, LONG
from tests.support.runs import but_undo, compress, fixture, invoke, split, write
from tests.unit.store.tools import everything

ORIGINAL = fixture("pi-anthropic.jsonl")
COMPRESS = ("compress", "--force")


def move(store: Store, to: Store) -> None:
    to.folder.mkdir(parents=True, exist_ok=True)
    store.originals.rename(to.originals)
    store.journal.rename(to.journal)


PLACES: Mapping[str, Callable[[Path], Store]] = {
    "hidden": lambda path: hidden_in(path, folder_name()),
    "plain": plain_in,
    "another machine's": lambda path: hidden_in(path, "local-00000000"),
}
"""Where beside it a session may have its store: `plain` is one of the first version."""
EVERYWHERE = pytest.mark.parametrize("session", PLACES, indirect=True)
"""For what goes by the place. All else asks `store_in`."""


@pytest.fixture
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a session whose store lies beside it, and which has grown since, so that a run is due."""
    path = tmp_path / "work" / "s.jsonl"
    path.parent.mkdir()
    lines = split(ORIGINAL)
    path.write_bytes(b"".join(lines[:80]))
    assert invoke(*COMPRESS, path).exit_code == 0
    made, place = store_in(path), PLACES[getattr(request, "param", "hidden")](path)
    if place != made:
        move(made, place)
        shutil.rmtree(made.folder)
    assert store_in(path) == place
    with path.open("ab") as file:
        file.write(b"".join(lines[80:]))
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


def marker_in(session: Path) -> str:
    found = re.search(rb"sessioncompress show ([0-9a-f]+)", session.read_bytes())
    assert found is not None
    return found[1].decode()


def refused(done: Result, session: Path, kept: Path) -> bool:
    """Say whether a command refused a session by its name, with where its originals lie and what to do."""
    store, there = store_in(session), store_in(session, kept)
    said = (
        f"{session}: its originals are in {store.folder}, not in the backup folder {kept}",
        ". The session was not changed. Run without --backup-dir",
        f"{store.originals.name} to {there.originals}, and {store.journal.name} to {there.journal}.",
    )
    return done.exit_code == 4 and all(each in done.stderr for each in said)


COMMANDS: Mapping[str, Sequence[str]] = {
    "compress": COMPRESS,
    "a rehearsal": (*COMPRESS, "--dry-run"),
    "verify": ("verify",),
    "restore": ("restore",),
    "restore by markers": ("restore", "--from-markers"),
    "forget": ("forget", "--yes"),
    "stats": ("stats",),
    "budget": ("budget",),
    "forget by a limit": ("forget", "--yes", "--max-size", "0KB"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_backup_folder_in_which_the_session_has_nothing(session: Path, kept: Path, name: str) -> None:
    """Each command says where its originals lie; nothing changes anywhere."""
    before = everything(session.parent.parent)
    assert refused(invoke(*COMMANDS[name], "--backup-dir", kept, session), session, kept)
    assert everything(session.parent.parent) == before


@pytest.mark.parametrize("left", ["originals", "journal"])
@pytest.mark.parametrize("name", ["compress", "restore", "verify", "forget"])
def test_half_a_store_is_one_too(session: Path, kept: Path, name: str, left: str) -> None:
    """What is left of it is not to be parted from what comes."""
    files = store_in(session)
    (files.journal if left == "originals" else files.originals).unlink()
    assert refused(invoke(*COMMANDS[name], "--backup-dir", kept, session), session, kept)


@pytest.mark.parametrize("name", ["compress", "restore", "verify", "forget"])
def test_in_a_folder_the_others_are_done(session: Path, kept: Path, name: str) -> None:
    """One session is refused, the one that has its store in the backup folder is not."""
    other = session.with_name("t.jsonl")
    other.write_bytes(ORIGINAL)
    assert invoke(*COMPRESS, "--backup-dir", kept, other).exit_code == 0
    done = invoke(*COMMANDS[name], "--backup-dir", kept, session.parent)
    assert refused(done, session, kept)
    assert f"refused: {other}" not in done.stderr
    assert re.search("total: (1 session|2 files)", done.stdout)
    assert "t.jsonl: its originals" not in done.stderr


@pytest.mark.parametrize("gone", [False, True], ids=["there", "gone"])
@pytest.mark.parametrize("command", ["forget", "forget --gone", "forget --unneeded"])
def test_a_folder_whose_sessions_have_their_stores_beside_them(
    session: Path, kept: Path, command: str, gone: bool
) -> None:
    """None of their originals is passed over, and nothing says that there are none."""
    if gone:
        session.unlink()
    before = everything(session.parent.parent)
    done = invoke(*command.split(), "--yes", "--backup-dir", kept, session.parent)
    # What an option leaves out is not read.
    concerned = {"forget": True, "forget --gone": gone, "forget --unneeded": not gone}[command]
    assert refused(done, session, kept) if concerned else done.exit_code == 0
    assert everything(session.parent.parent) == before


@EVERYWHERE
def test_show_says_it_too(session: Path, kept: Path) -> None:
    """Rather than that the reference names nothing."""
    ref = marker_in(session)
    assert refused(invoke("show", ref, session, "--backup-dir", kept), session, kept)
    assert invoke("show", ref, session).exit_code == 0


def test_the_session_whose_originals_are_to_be_used(session: Path, kept: Path) -> None:
    """A fork has nothing beside it; the session that is named has."""
    fork = session.with_name("fork.jsonl")
    fork.write_bytes(session.read_bytes())
    done = invoke("restore", "--from-markers", "--originals", session, "--backup-dir", kept, fork)
    assert refused(done, session, kept)
    assert invoke("restore", "--from-markers", "--originals", session, fork).exit_code == 0


def test_a_session_that_is_gone(session: Path, kept: Path) -> None:
    """What lies beside its path is not taken for nothing."""
    session.unlink()
    for option in ((), ("--gone",)):
        assert refused(invoke("forget", "--yes", *option, "--backup-dir", kept, session), session, kept)
    assert store_in(session).originals.exists()
    assert invoke("forget", "--yes", session).exit_code == 0
    assert not store_in(session).originals.exists()


@pytest.mark.parametrize("command", ["compress", "pre-commit"])
def test_the_users_configuration(session: Path, kept: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names a folder from now on, and a file that is named may take that back for a run."""
    configuration = kept.parent / "configuration"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(configuration))
    own = configuration / "sessioncompress" / "config.json"
    own.parent.mkdir(parents=True)
    own.write_text(f'{{"session": {{"backupDir": "{kept}", "sizeThresholdKB": 0, "minSavedKB": 0}}}}')
    own.chmod(0o600)
    before = everything(session.parent)
    assert refused(invoke(command, session), session, kept)
    assert everything(session.parent) == before
    said = invoke(command, session).stderr.split("with a --config file of '", 1)[1].split("')", 1)[0]
    named = kept.parent / "named.json"
    named.write_text(said)
    assert invoke(command, "--config", named, session).exit_code == (1 if command == "pre-commit" else 0)
    assert invoke("restore", "--config", named, session).exit_code == 0
    assert session.read_bytes() == ORIGINAL


@pytest.mark.parametrize("name", ["verify", "restore", "forget"])
def test_over_a_folder_whatever_it_is_called(tmp_path: Path, kept: Path, name: str) -> None:
    """Also without an ending, and one that is gone: none is passed over, and nothing goes."""
    folder = tmp_path / "d"
    folder.mkdir()
    paths = [folder / "mysession", folder / "gone.jsonl"]
    for path in paths:
        path.write_bytes(ORIGINAL)
    assert invoke(*COMPRESS, *paths).exit_code == 0
    paths[1].unlink()
    before = everything(folder)
    done = invoke(*COMMANDS[name], "--backup-dir", kept, folder)
    assert refused(done, paths[0], kept), done.output
    assert f"{'gone, but its store is there' if name == 'verify' else 'refused'}: {paths[1]}" in done.stderr, (
        done.output
    )
    assert everything(folder) == before


def test_a_backup_folder_that_is_the_folder_beside(tmp_path: Path) -> None:
    """What lies in it for sessions of other folders is theirs."""
    (tmp_path / "other").mkdir()
    shared = tmp_path / ".sessioncompress"
    for path in (tmp_path / "s.jsonl", tmp_path / "other" / "t.jsonl"):
        path.write_bytes(ORIGINAL)
        assert invoke(*COMPRESS, "--backup-dir", shared, path).exit_code == 0
    done = invoke("verify", "--backup-dir", shared, tmp_path)
    assert (done.exit_code, "total: 2 sessions" in done.stdout) == (0, True), done.output


# The ways out


@EVERYWHERE
def test_without_the_option(session: Path) -> None:
    assert invoke(*COMPRESS, session).exit_code == 0
    assert store_in(session).is_beside
    assert invoke("restore", session).exit_code == 0
    assert session.read_bytes() == ORIGINAL


@EVERYWHERE
def test_restore_and_forget_first(session: Path, kept: Path) -> None:
    assert invoke("restore", session).exit_code == 0
    assert refused(invoke(*COMPRESS, "--backup-dir", kept, session), session, kept)
    assert invoke("forget", "--yes", session).exit_code == 0
    assert invoke(*COMPRESS, "--backup-dir", kept, session).exit_code == 0
    assert invoke("restore", "--backup-dir", kept, session).exit_code == 0
    assert session.read_bytes() == ORIGINAL


@EVERYWHERE
def test_move_the_two_files(session: Path, kept: Path) -> None:
    """As the error says: the folder is there, or the error says to make it."""
    store, there = store_in(session), store_in(session, kept)
    said = invoke("verify", "--backup-dir", kept, session).stderr
    if f"ake the folder {there.folder}" in said:
        there.folder.mkdir()
    store.originals.rename(there.originals)
    store.journal.rename(there.journal)
    for command in (COMPRESS, ("verify",), ("restore",)):
        done = invoke(*command, "--backup-dir", kept, session)
        assert (done.exit_code, but_undo(done.stderr)) == (0, "")
    assert session.read_bytes() == ORIGINAL


# Two stores, of an older accident


@pytest.fixture
def twofold(session: Path, kept: Path) -> Path:
    """Return a session of which an earlier version began a second store."""
    store = store_in(session)
    aside = Store(session.parent, session.parent / "aside.zst", session.parent / "aside", session.parent)
    move(store, aside)
    assert invoke(*COMPRESS, "--backup-dir", kept, session).exit_code == 0
    move(aside, store)
    return session


@pytest.mark.parametrize("name", [*COMMANDS, "show"])
def test_the_folder_that_is_named_counts(twofold: Path, kept: Path, name: str) -> None:
    """And that another store lies there too is said, once; that one stays as it is."""
    store, there = store_in(twofold), store_in(twofold, kept)
    before = everything(store.folder)
    command = ("show", marker_in(twofold)) if name == "show" else COMMANDS[name]
    done = invoke(
        *command, *([twofold] if name == "show" else []), "--backup-dir", kept, *([] if name == "show" else [twofold])
    )
    said = f"warning: {twofold}: it has another store in {store.folder}, which a run without --backup-dir uses\n"
    assert done.stderr.count(said) == 1
    assert "its originals are in" not in done.stderr
    assert everything(store.folder) == before
    assert there.originals.exists() == (not name.startswith("forget"))


def test_both_together_give_every_byte_back(twofold: Path, kept: Path) -> None:
    assert invoke("restore", "--backup-dir", kept, twofold).exit_code == 0
    assert invoke("restore", twofold).exit_code == 0
    assert twofold.read_bytes() == ORIGINAL


@EVERYWHERE
def test_without_a_backup_folder_nothing_is_said(session: Path) -> None:
    for command in (("verify",), ("show", marker_in(session))):
        said = invoke(*command, session).stderr
        assert said == "" or said.startswith(
            "From a store made elsewhere, under another name, or by an earlier version: "
        )


# Two copies of a session

MARKED = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0, turn_threshold_before_compress=0)
UNMARKED = replace(MARKED, tool_call_max_bytes=1 << 30, tool_result_max_bytes=1 << 30, eliminate_redundancy=False)
"""Takes only what leaves no marker: thinking, and copies for the screen."""


@pytest.mark.parametrize("name", ["gemini document", "pi", "codex"])
def test_a_summary_that_came_without_its_store_is_no_part_of_a_new_one(tmp_path: Path, name: str) -> None:
    """A clone has it, say; a run begins another store, and what left for the summary is in no store here."""
    path = write(tmp_path, LONG[name](8))
    assert compact_session(path, FEW).is_compacted
    shutil.rmtree(store_in(path).folder)
    for use in (verify_session, restore_session):
        with pytest.raises(Refused, match="its store is missing"):
            use(path)
    left = path.read_bytes()
    compress(path, MARKED)
    with pytest.raises(Refused, match="its store is missing"):
        verify_session(path)
    assert (
        "it has a summary that compact wrote, which its store does not know: that stays" in restore_session(path).reason
    )
    assert path.read_bytes() == left


@pytest.mark.parametrize("name", ["pi-anthropic.jsonl", "omp.jsonl", "claude-code.jsonl"])
@pytest.mark.parametrize("policy", [MARKED, UNMARKED], ids=["with markers", "without"])
def test_that_another_stores_run_was_here_is_said(tmp_path: Path, name: str, policy: Policy) -> None:
    """Every original that this store knows comes back; that there may be more nobody takes for exact."""
    lines = split(fixture(name))
    for each in ("one", "two"):
        (tmp_path / each).mkdir()
    one = write(tmp_path / "one", b"".join(lines[: len(lines) // 2]))
    compress(one, policy)
    shutil.copytree(tmp_path / "one", tmp_path / "two", dirs_exist_ok=True)
    two = tmp_path / "two" / one.name
    with two.open("ab") as file:
        file.writelines(lines[len(lines) // 2 :])
    compress(two, policy)
    shutil.copyfile(two, one)
    verified = verify_session(one)
    assert verified.was_changed
    restored = restore_session(one)
    assert "changed since" in restored.reason
    shutil.copyfile(one, two)
    assert one.read_bytes() != b"".join(lines)
    back = split(one.read_bytes())
    # But for those that the other run rewrote once it had more.
    assert len([now for now in back[: len(lines) // 2] if now not in lines]) < 4


def test_a_damaged_copy_that_git_brought_does_not_answer_for_the_hidden_store(session: Path) -> None:
    own, plain = store_in(session), plain_in(session)
    shutil.copy(own.journal, plain.journal)
    shutil.copy(own.originals, plain.originals)
    assert store_in(session) == plain
    whole = plain.originals.read_bytes()
    plain.originals.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    assert store_in(session) == own
    restore_session(session)
    assert session.read_bytes() == ORIGINAL
